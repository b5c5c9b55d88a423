# SPDX-License-Identifier: Apache-2.0
"""The fake Placement's routes for providers and for the document of versions."""

from __future__ import annotations

import uuid as uuid_
from typing import Any

from reportclient.testing.fake_checks import check_name, check_uuid, object_of
from reportclient.testing.fake_queries import listed_providers
from reportclient.testing.fake_routes import Answer, Request, route
from reportclient.testing.fake_state import FakeState, Refusal

__all__: list[str] = []

_LINKS = {
    "inventories": (1, 0),
    "usages": (1, 0),
    "aggregates": (1, 1),
    "traits": (1, 6),
    "allocations": (1, 11),
}


@route("GET", "/")
def _root(state: FakeState, request: Request) -> Answer:
    document = {
        "id": "v1.0",
        "max_version": "{}.{}".format(*request.newest),
        "min_version": "1.0",
        "status": "CURRENT",
        "links": [{"rel": "self", "href": ""}],
    }
    return Answer(200, {"versions": [document]}, modified=state.clock())


def _shown(state: FakeState, request: Request, uuid: str) -> dict[str, Any]:
    provider = state.provider(uuid)
    self_ = f"/resource_providers/{uuid}"
    links = [{"rel": "self", "href": self_}]
    links += [
        {"rel": rel, "href": f"{self_}/{rel}"}
        for rel, since in _LINKS.items()
        if request.version >= since
    ]
    found: dict[str, Any] = {
        "uuid": uuid,
        "name": provider.name,
        "generation": provider.generation,
        "links": links,
    }
    if request.at_least(1, 14):
        found["parent_provider_uuid"] = provider.parent
        found["root_provider_uuid"] = state.root_of(uuid)
    return found


@route("GET", "/resource_providers")
def _list(state: FakeState, request: Request) -> Answer:
    found = listed_providers(state, request)
    shown = [_shown(state, request, provider.uuid) for provider in found]
    modified = max((provider.modified for provider in found), default=state.clock())
    return Answer(200, {"resource_providers": shown}, modified=modified)


@route("POST", "/resource_providers")
def _create(state: FakeState, request: Request) -> Answer:
    allowed = {"uuid", "parent_provider_uuid"} if request.at_least(1, 14) else {"uuid"}
    body = object_of(request.json(), {"name"}, allowed)
    check_name(body["name"])
    parent = _parent_of(body)
    uuid = None
    if "uuid" in body:
        check_uuid(body["uuid"])
        uuid = str(uuid_.UUID(body["uuid"]))
    provider = state.add_provider(body["name"], uuid, parent)
    location = f"/resource_providers/{provider.uuid}"
    if not request.at_least(1, 20):
        return Answer(201, location=location)
    shown = _shown(state, request, provider.uuid)
    return Answer(200, shown, location, provider.modified)


def _parent_of(body: dict[str, Any]) -> str | None:
    parent: str | None = body.get("parent_provider_uuid")
    if parent is not None:
        check_uuid(parent)
    return parent


@route("GET", "/resource_providers/{uuid}")
def _show(state: FakeState, request: Request, uuid: str) -> Answer:
    shown = _shown(state, request, uuid)
    return Answer(200, shown, modified=state.provider(uuid).modified)


@route("PUT", "/resource_providers/{uuid}")
def _update(state: FakeState, request: Request, uuid: str) -> Answer:
    provider = state.provider(uuid)
    allowed = {"parent_provider_uuid"} if request.at_least(1, 14) else ()
    body = object_of(request.json(), {"name"}, allowed)
    check_name(body["name"])
    changes = {"name": body["name"]}
    if "parent_provider_uuid" in body:
        changes["parent"] = _parent_of(body)
    # As the service does it: when it was updated before.
    before = provider.updated
    state.update_provider(uuid, changes, may_move=request.at_least(1, 37))
    return Answer(200, _shown(state, request, uuid), modified=before, no_cache=True)


@route("DELETE", "/resource_providers/{uuid}")
def _delete(state: FakeState, request: Request, uuid: str) -> Answer:
    if uuid in state.providers:
        state.delete_provider(uuid)
        return Answer(204)
    raise Refusal(404, f"No resource provider with uuid {uuid} found for delete")
