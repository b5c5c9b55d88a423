# SPDX-License-Identifier: Apache-2.0
"""Placement's routes on a `FakeState`: versions, shapes, bodies, queries."""

from __future__ import annotations

import dataclasses
import re
import uuid as uuid_
from collections.abc import Callable, Mapping
from typing import Any

from reportclient.testing.fake_queries import listed_providers
from reportclient.testing.fake_state import FakeState, Refusal

__all__ = ["Request", "Result", "body_of", "first", "handle", "need", "route"]

_Version = tuple[int, int]
_SYMBOL = re.compile(r"[A-Z0-9_]{1,255}")
_RECORD = {"total", "reserved", "min_unit", "max_unit", "step_size", "allocation_ratio"}
_MAX = 2147483647


@dataclasses.dataclass
class Request:
    """A request as the routes see it."""

    method: str
    path: str
    query: list[tuple[str, str]]
    body: Any
    version: _Version

    def at_least(self, *version: int) -> bool:
        """Whether it was sent at this microversion or a newer one."""
        return self.version >= tuple(version)


#: What a route answers: status, JSON (None: no body), further headers.
Result = tuple[int, Any, Mapping[str, str]]
_Handler = Callable[..., Result]
_routes: list[tuple[str, re.Pattern[str], _Version, _Handler]] = []


def route(method: str, path: str, since: _Version = (1, 0)) -> Callable[[_Handler], _Handler]:
    """Have a function answer a method and path, from a microversion on."""
    pattern = re.compile(re.sub(r"{(\w+)}", r"(?P<\1>[^/]+)", path))

    def add(handler: _Handler) -> _Handler:
        _routes.append((method, pattern, since, handler))
        return handler

    return add


def handle(state: FakeState, request: Request) -> Result:
    """Answer a request.

    :raises Refusal: the answer is an error.
    """
    methods = set()
    for method, pattern, since, handler in _routes:
        found = pattern.fullmatch(request.path)
        if found is None:
            continue
        methods.add(method)
        if method == request.method:
            if request.version < since:
                raise Refusal(404, "The resource could not be found.")
            return handler(state, request, **found.groupdict())
    if methods:
        raise Refusal(405, "The method specified is not allowed for this resource.")
    raise Refusal(404, "The resource could not be found.")


# -- checks --------------------------------------------------------------------------


def need(condition: object, detail: str) -> None:
    """Refuse a body as the service's JSON schemas do."""
    if not condition:
        raise Refusal(400, f"JSON does not validate: {detail}")


def body_of(body: Any, required: set[str], allowed: set[str] | None = None) -> dict[str, Any]:
    """A body that has these keys, perhaps those, and no others."""
    need(isinstance(body, dict), f"{body!r} is not of type 'object'")
    for key in sorted(required - body.keys()):
        need(False, f"{key!r} is a required property")
    for key in sorted(body.keys() - required - (allowed or set())):
        need(False, f"Additional properties are not allowed ({key!r} was unexpected)")
    return dict(body)


def _is_uuid(value: Any) -> bool:
    # As oslo's is_uuid_like: dashes and case do not matter.
    text = str(value).replace("urn:", "").replace("uuid:", "").strip("{}").replace("-", "")
    try:
        return uuid_.UUID(text).hex == text.lower()
    except ValueError:
        return False


def _whole(value: Any, lowest: int) -> bool:
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and value == int(value)
        and lowest <= value <= _MAX
    )


def _name(value: Any) -> None:
    need(isinstance(value, str) and 1 <= len(value) <= 200, "name is too short or too long")


def _inventory(given: Any) -> dict[str, Any]:
    record = body_of(given, {"total"}, _RECORD)
    for field, value in record.items():
        if field == "allocation_ratio":
            good = isinstance(value, int | float) and not isinstance(value, bool)
            need(good and value <= 3.40282e38, f"{field} {value!r}")
        else:
            need(_whole(value, 0 if field == "reserved" else 1), f"{field} {value!r}")
    return record


def _custom(value: str) -> bool:
    return bool(_SYMBOL.fullmatch(value)) and value.startswith("CUSTOM_") and len(value) > 7


def first(request: Request, key: str) -> str | None:
    """The value of a query parameter."""
    return next((value for name, value in request.query if name == key), None)


# -- providers -------------------------------------------------------------------------


def _provider_json(state: FakeState, request: Request, uuid: str) -> dict[str, Any]:
    provider = state.providers[uuid]
    found: dict[str, Any] = {
        "uuid": uuid,
        "name": provider.name,
        "generation": provider.generation,
        "links": [{"rel": "self", "href": f"/resource_providers/{uuid}"}],
    }
    if request.at_least(1, 14):
        found["parent_provider_uuid"] = provider.parent
        found["root_provider_uuid"] = state.root_of(uuid)
    return found


@route("GET", "/")
def _root(state: FakeState, request: Request) -> Result:
    document = {
        "id": "v1.0",
        "min_version": "1.0",
        "max_version": "1.39",
        "status": "CURRENT",
        "links": [{"rel": "self", "href": ""}],
    }
    return 200, {"versions": [document]}, {}


@route("GET", "/resource_providers")
def _list(state: FakeState, request: Request) -> Result:
    found = listed_providers(state, request.query, request.version)
    return 200, {"resource_providers": [_provider_json(state, request, u) for u in found]}, {}


@route("POST", "/resource_providers")
def _create(state: FakeState, request: Request) -> Result:
    allowed = {"uuid"} | ({"parent_provider_uuid"} if request.at_least(1, 14) else set())
    body = body_of(request.body, {"name"}, allowed)
    _name(body["name"])
    parent = body.get("parent_provider_uuid")
    need("uuid" not in body or _is_uuid(body["uuid"]), "uuid is not a 'uuid'")
    need(parent is None or _is_uuid(parent), "parent_provider_uuid is not a 'uuid'")
    provider = state.add_provider(body["name"], body.get("uuid"), parent)
    headers = {"Location": f"/resource_providers/{provider.uuid}"}
    if request.at_least(1, 20):
        return 200, _provider_json(state, request, provider.uuid), headers
    return 201, None, headers


@route("GET", "/resource_providers/{uuid}")
def _show(state: FakeState, request: Request, uuid: str) -> Result:
    state.provider(uuid)
    return 200, _provider_json(state, request, uuid), {}


@route("PUT", "/resource_providers/{uuid}")
def _update(state: FakeState, request: Request, uuid: str) -> Result:
    state.provider(uuid)
    allowed = {"parent_provider_uuid"} if request.at_least(1, 14) else set()
    body = body_of(request.body, {"name"}, allowed)
    _name(body["name"])
    changes = {"name": body["name"]}
    if "parent_provider_uuid" in body:
        parent = body["parent_provider_uuid"]
        need(parent is None or _is_uuid(parent), "parent_provider_uuid is not a 'uuid'")
        changes["parent"] = parent
    state.update_provider(uuid, changes, may_move=request.at_least(1, 37))
    return 200, _provider_json(state, request, uuid), {}


@route("DELETE", "/resource_providers/{uuid}")
def _delete(state: FakeState, request: Request, uuid: str) -> Result:
    state.delete_provider(uuid)
    return 204, None, {}


# -- inventories -----------------------------------------------------------------------


def _inventories_json(state: FakeState, uuid: str) -> dict[str, Any]:
    provider = state.provider(uuid)
    return {
        "resource_provider_generation": provider.generation,
        "inventories": {name: dict(record) for name, record in provider.inventories.items()},
    }


@route("GET", "/resource_providers/{uuid}/inventories")
def _get_inventories(state: FakeState, request: Request, uuid: str) -> Result:
    return 200, _inventories_json(state, uuid), {}


@route("PUT", "/resource_providers/{uuid}/inventories")
def _put_inventories(state: FakeState, request: Request, uuid: str) -> Result:
    state.provider(uuid)
    body = body_of(request.body, {"resource_provider_generation", "inventories"})
    need(isinstance(body["resource_provider_generation"], int), "the generation")
    need(isinstance(body["inventories"], dict), "the inventories")
    given = {}
    for name, record in body["inventories"].items():
        need(_SYMBOL.fullmatch(name), f"{name!r} does not match any of the regexes")
        given[name] = _inventory(record)
    state.check_generation(uuid, body["resource_provider_generation"])
    state.set_inventories(
        uuid, state.check_inventories(given, full_reserve=request.at_least(1, 26))
    )
    return 200, _inventories_json(state, uuid), {}


@route("DELETE", "/resource_providers/{uuid}/inventories", (1, 5))
def _delete_inventories(state: FakeState, request: Request, uuid: str) -> Result:
    state.set_inventories(uuid, {})
    return 204, None, {}


@route("GET", "/resource_providers/{uuid}/inventories/{name}")
def _get_inventory(state: FakeState, request: Request, uuid: str, name: str) -> Result:
    provider = state.provider(uuid)
    if name not in provider.inventories:
        raise Refusal(404, f"No inventory of class {name} for {uuid}")
    generation = {"resource_provider_generation": provider.generation}
    return 200, {**provider.inventories[name], **generation}, {}


@route("PUT", "/resource_providers/{uuid}/inventories/{name}")
def _put_inventory(state: FakeState, request: Request, uuid: str, name: str) -> Result:
    provider = state.provider(uuid)
    body = body_of(request.body, {"resource_provider_generation", "total"}, _RECORD)
    generation = body.pop("resource_provider_generation")
    record = _inventory(body)
    state.check_generation(uuid, generation)
    if name not in state.classes:
        raise Refusal(404, f"No such resource class {name}.")
    if name not in provider.inventories:
        raise Refusal(400, f"No inventory record for {name} exists: cannot update it")
    checked = state.check_inventories({name: record}, full_reserve=request.at_least(1, 26))
    state.set_inventories(uuid, {**provider.inventories, **checked})
    stored = {**provider.inventories[name], "resource_provider_generation": provider.generation}
    return 200, stored, {}


@route("DELETE", "/resource_providers/{uuid}/inventories/{name}")
def _delete_inventory(state: FakeState, request: Request, uuid: str, name: str) -> Result:
    provider = state.provider(uuid)
    if name not in provider.inventories:
        raise Refusal(404, f"No inventory of class {name} found for delete: {uuid}")
    state.set_inventories(
        uuid, {kept: r for kept, r in provider.inventories.items() if kept != name}
    )
    return 204, None, {}


# -- aggregates ------------------------------------------------------------------------


def _aggregates_json(state: FakeState, request: Request, uuid: str) -> dict[str, Any]:
    provider = state.provider(uuid)
    found: dict[str, Any] = {"aggregates": sorted(provider.aggregates)}
    if request.at_least(1, 19):
        found["resource_provider_generation"] = provider.generation
    return found


@route("GET", "/resource_providers/{uuid}/aggregates", (1, 1))
def _get_aggregates(state: FakeState, request: Request, uuid: str) -> Result:
    return 200, _aggregates_json(state, request, uuid), {}


@route("PUT", "/resource_providers/{uuid}/aggregates", (1, 1))
def _put_aggregates(state: FakeState, request: Request, uuid: str) -> Result:
    provider = state.provider(uuid)
    guarded = request.at_least(1, 19)
    if guarded:
        body = body_of(request.body, {"aggregates", "resource_provider_generation"})
        given = body["aggregates"]
    else:
        body, given = {}, request.body
    need(isinstance(given, list) and all(map(_is_uuid, given)), "aggregates are not 'uuid's")
    need(len(set(given)) == len(given), f"{given!r} has non-unique elements")
    if guarded:
        state.check_generation(uuid, body["resource_provider_generation"])
    provider.aggregates = set(given)
    if guarded:
        state.bump(uuid)
    return 200, _aggregates_json(state, request, uuid), {}


# -- traits ----------------------------------------------------------------------------


def _traits_json(state: FakeState, uuid: str) -> dict[str, Any]:
    provider = state.provider(uuid)
    return {
        "traits": sorted(provider.traits),
        "resource_provider_generation": provider.generation,
    }


@route("GET", "/resource_providers/{uuid}/traits", (1, 6))
def _get_provider_traits(state: FakeState, request: Request, uuid: str) -> Result:
    return 200, _traits_json(state, uuid), {}


@route("PUT", "/resource_providers/{uuid}/traits", (1, 6))
def _put_provider_traits(state: FakeState, request: Request, uuid: str) -> Result:
    state.provider(uuid)
    body = body_of(request.body, {"traits", "resource_provider_generation"})
    given = body["traits"]
    need(
        isinstance(given, list)
        and all(isinstance(name, str) and _SYMBOL.fullmatch(name) for name in given),
        "traits",
    )
    need(len(set(given)) == len(given), f"{given!r} has non-unique elements")
    state.check_generation(uuid, body["resource_provider_generation"])
    state.set_traits(uuid, given)
    return 200, _traits_json(state, uuid), {}


@route("DELETE", "/resource_providers/{uuid}/traits", (1, 6))
def _delete_provider_traits(state: FakeState, request: Request, uuid: str) -> Result:
    state.set_traits(uuid, ())
    return 204, None, {}


@route("GET", "/traits", (1, 6))
def _list_traits(state: FakeState, request: Request) -> Result:
    wanted, associated = first(request, "name"), first(request, "associated")
    found = set(state.traits)
    if wanted is not None and wanted.startswith("in:"):
        found &= set(wanted[3:].split(","))
    elif wanted is not None and wanted.startswith("startswith:"):
        found = {name for name in found if name.startswith(wanted.partition(":")[2])}
    elif wanted is not None:
        raise Refusal(400, "Badly formatted name parameter. Expected name query string in form")
    if associated is not None:
        if associated.lower() not in ("true", "false"):
            raise Refusal(400, "The query parameter 'associated' only accepts 'true' or 'false'")
        used = set().union(*(p.traits for p in state.providers.values()))
        found = found & used if associated.lower() == "true" else found - used
    return 200, {"traits": sorted(found)}, {}


@route("GET", "/traits/{name}", (1, 6))
def _show_trait(state: FakeState, request: Request, name: str) -> Result:
    if name not in state.traits:
        raise Refusal(404, f"No such trait(s): {name}.")
    return 204, None, {}


@route("PUT", "/traits/{name}", (1, 6))
def _put_trait(state: FakeState, request: Request, name: str) -> Result:
    if not _custom(name):
        raise Refusal(400, "The trait is invalid. A valid trait must begin with CUSTOM_")
    there = name in state.traits
    state.traits.add(name)
    return (204 if there else 201), None, {"Location": f"/traits/{name}"}


@route("DELETE", "/traits/{name}", (1, 6))
def _delete_trait(state: FakeState, request: Request, name: str) -> Result:
    if name not in state.traits:
        raise Refusal(404, f"No such trait(s): {name}.")
    if not name.startswith("CUSTOM_"):
        raise Refusal(400, f"Cannot delete standard trait {name}.")
    if any(name in provider.traits for provider in state.providers.values()):
        raise Refusal(409, f"The trait {name} is in use by a resource provider.")
    state.traits.discard(name)
    return 204, None, {}


# -- resource classes --------------------------------------------------------------------


@route("GET", "/resource_classes", (1, 2))
def _list_classes(state: FakeState, request: Request) -> Result:
    return 200, {"resource_classes": [{"name": name} for name in sorted(state.classes)]}, {}


@route("POST", "/resource_classes", (1, 2))
def _create_class(state: FakeState, request: Request) -> Result:
    name = body_of(request.body, {"name"})["name"]
    need(isinstance(name, str) and _custom(name), "name does not match")
    if name in state.classes:
        raise Refusal(409, f"Conflicting resource class already exists: {name}")
    state.classes.add(name)
    return 201, None, {"Location": f"/resource_classes/{name}"}


@route("GET", "/resource_classes/{name}", (1, 2))
def _show_class(state: FakeState, request: Request, name: str) -> Result:
    if name not in state.classes:
        raise Refusal(404, f"No such resource class {name}.")
    return 200, {"name": name}, {}


@route("PUT", "/resource_classes/{name}", (1, 7))
def _put_class(state: FakeState, request: Request, name: str) -> Result:
    need(_custom(name), f"{name!r} does not match")
    there = name in state.classes
    state.classes.add(name)
    return (204 if there else 201), None, {"Location": f"/resource_classes/{name}"}


@route("DELETE", "/resource_classes/{name}", (1, 2))
def _delete_class(state: FakeState, request: Request, name: str) -> Result:
    if name not in state.classes:
        raise Refusal(404, f"No such resource class {name}.")
    if not name.startswith("CUSTOM_"):
        raise Refusal(400, f"Cannot delete standard resource class {name}.")
    if any(name in provider.inventories for provider in state.providers.values()):
        raise Refusal(409, f"Cannot delete resource class {name}. Class is in use in inventory.")
    state.classes.discard(name)
    return 204, None, {}
