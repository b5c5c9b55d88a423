# SPDX-License-Identifier: Apache-2.0
"""The fake Placement's routes for the names of traits and resource classes."""

from __future__ import annotations

from typing import Any

from reportclient.testing.fake_checks import check_custom_name, is_custom, object_of
from reportclient.testing.fake_queries import check_query
from reportclient.testing.fake_routes import Answer, Request, route
from reportclient.testing.fake_state import FakeState, Refusal

__all__: list[str] = []


# -- traits ----------------------------------------------------------------------------


@route("GET", "/traits", (1, 6))
def _list_traits(state: FakeState, request: Request) -> Answer:
    check_query(request, {"name", "associated"})
    found = _named(state, request.last("name"))
    associated = request.last("associated")
    if associated is not None:
        if associated.lower() not in ("true", "false"):
            raise Refusal(400, 'The query parameter "associated" only accepts "true" or "false"')
        used = set[str]().union(*(p.traits for p in state.providers.values()))
        found = found & used if associated.lower() == "true" else found - used
    modified = max((state.traits[name] for name in found), default=state.clock())
    return Answer(200, {"traits": sorted(found)}, modified=modified)


def _named(state: FakeState, wanted: str | None) -> set[str]:
    known = set(state.traits)
    if wanted is None:
        return known
    kind, colon, value = wanted.partition(":")
    if not colon:
        raise Refusal(
            400,
            "Badly formatted name parameter. Expected name query string parameter in form: "
            f'?name=[in|startswith]:[name1,name2|prefix]. Got: "{wanted}"',
        )
    if kind == "in":
        return known & set(value.split(","))
    if kind == "startswith":
        return {name for name in known if name.startswith(value)}
    return known


@route("GET", "/traits/{name}", (1, 6))
def _show_trait(state: FakeState, request: Request, name: str) -> Answer:
    if name not in state.traits:
        raise Refusal(404, f"No such trait(s): {name}.")
    return Answer(204, modified=state.traits[name])


@route("PUT", "/traits/{name}", (1, 6), has_content=False)
def _put_trait(state: FakeState, request: Request, name: str) -> Answer:
    if not is_custom(name):
        raise Refusal(
            400,
            "The trait is invalid. A valid trait must be no longer than 255 characters, start "
            'with the prefix "CUSTOM_" and use following characters: "A"-"Z", "0"-"9" and "_"',
        )
    status = 204 if name in state.traits else 201
    made = state.traits.setdefault(name, state.clock())
    return Answer(status, location=f"/traits/{name}", modified=made)


@route("DELETE", "/traits/{name}", (1, 6))
def _delete_trait(state: FakeState, request: Request, name: str) -> Answer:
    state.delete_trait(name)
    return Answer(204)


# -- resource classes --------------------------------------------------------------------


def _shown(name: str) -> dict[str, Any]:
    return {"name": name, "links": [{"rel": "self", "href": f"/resource_classes/{name}"}]}


@route("GET", "/resource_classes", (1, 2))
def _list_classes(state: FakeState, request: Request) -> Answer:
    made = [at for at in state.classes.values() if at is not None]
    body = {"resource_classes": [_shown(name) for name in state.classes]}
    return Answer(200, body, modified=max(made, default=state.clock()))


@route("POST", "/resource_classes", (1, 2))
def _create_class(state: FakeState, request: Request) -> Answer:
    name = object_of(request.json(), {"name"})["name"]
    check_custom_name(name)
    if name in state.classes:
        raise Refusal(409, f"Conflicting resource class already exists: {name}")
    state.classes[name] = state.clock()
    return Answer(201, location=f"/resource_classes/{name}")


@route("GET", "/resource_classes/{name}", (1, 2))
def _show_class(state: FakeState, request: Request, name: str) -> Answer:
    state.check_class(name)
    return Answer(200, _shown(name), modified=state.classes[name] or state.clock())


@route("PUT", "/resource_classes/{name}", (1, 2), (1, 6))
def _rename_class(state: FakeState, request: Request, name: str) -> Answer:
    wanted = object_of(request.json(), {"name"})["name"]
    check_custom_name(wanted)
    state.check_class(name)
    if not is_custom(name):
        raise Refusal(400, f"Cannot update standard resource class {name}")
    if wanted in state.classes and wanted != name:
        raise Refusal(409, f"Resource class already exists: {wanted}")
    state.rename_class(name, wanted)
    return Answer(200, _shown(wanted))


@route("PUT", "/resource_classes/{name}", (1, 7), has_content=False)
def _put_class(state: FakeState, request: Request, name: str) -> Answer:
    check_custom_name(name)
    status = 204 if name in state.classes else 201
    state.classes.setdefault(name, state.clock())
    return Answer(status, location=f"/resource_classes/{name}")


@route("DELETE", "/resource_classes/{name}", (1, 2))
def _delete_class(state: FakeState, request: Request, name: str) -> Answer:
    state.delete_class(name)
    return Answer(204)
