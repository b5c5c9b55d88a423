# SPDX-License-Identifier: Apache-2.0
"""Usages, allocations and the reshaper, on a `FakeState`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reportclient.testing.fake_routes import Request, Result, body_of, first, need, route
from reportclient.testing.fake_state import FakeState, Refusal

__all__: list[str] = []


@route("GET", "/resource_providers/{uuid}/usages")
def _usages(state: FakeState, request: Request, uuid: str) -> Result:
    used = state.usages(uuid)
    generation = state.providers[uuid].generation
    return 200, {"usages": used, "resource_provider_generation": generation}, {}


@route("GET", "/resource_providers/{uuid}/allocations")
def _provider_allocations(state: FakeState, request: Request, uuid: str) -> Result:
    provider = state.provider(uuid)
    found = {}
    for consumer in state.consumers.values():
        if uuid in consumer.held:
            found[consumer.uuid] = {"resources": dict(consumer.held[uuid])}
            if request.at_least(1, 28):
                found[consumer.uuid]["consumer_generation"] = consumer.generation  # type: ignore[assignment]
    return (
        200,
        {"allocations": found, "resource_provider_generation": provider.generation},
        {},
    )


@route("GET", "/usages", (1, 9))
def _total_usages(state: FakeState, request: Request) -> Result:
    project, user = first(request, "project_id"), first(request, "user_id")
    if project is None:
        raise Refusal(400, "Invalid query string parameters: 'project_id' is required")
    used: dict[str, int] = {}
    for consumer in state.consumers.values():
        if consumer.project_id == project and user in (None, consumer.user_id):
            for resources in consumer.held.values():
                for name, amount in resources.items():
                    used[name] = used.get(name, 0) + amount
    return 200, {"usages": used}, {}


@route("GET", "/allocations/{consumer}")
def _get_allocations(state: FakeState, request: Request, consumer: str) -> Result:
    known = state.consumers.get(consumer)
    if known is None or not known.held:
        return 200, {"allocations": {}}, {}
    found: dict[str, Any] = {
        "allocations": {
            uuid: {"resources": dict(held), "generation": state.providers[uuid].generation}
            for uuid, held in known.held.items()
        }
    }
    if request.at_least(1, 12):
        found |= {"project_id": known.project_id, "user_id": known.user_id}
    if request.at_least(1, 28):
        found["consumer_generation"] = known.generation
    if request.at_least(1, 38):
        found["consumer_type"] = known.type or "unknown"
    return 200, found, {}


@route("PUT", "/allocations/{consumer}")
def _put_allocations(state: FakeState, request: Request, consumer: str) -> Result:
    wanted = _parsed(request, request.body, bulk=False)
    _store(state, request, {consumer: wanted})
    return 204, None, {}


@route("DELETE", "/allocations/{consumer}")
def _delete_allocations(state: FakeState, request: Request, consumer: str) -> Result:
    known = state.consumers.get(consumer)
    if known is None or not known.held:
        raise Refusal(404, f"No allocations for consumer '{consumer}'")
    del state.consumers[consumer]
    return 204, None, {}


@route("POST", "/allocations", (1, 13))
def _post_allocations(state: FakeState, request: Request) -> Result:
    body = request.body
    need(isinstance(body, dict) and body, "allocations")
    wanted = {consumer: _parsed(request, part, bulk=True) for consumer, part in body.items()}
    _store(state, request, wanted)
    return 204, None, {}


@route("POST", "/reshaper", (1, 30))
def _reshape(state: FakeState, request: Request) -> Result:
    body = body_of(request.body, {"inventories", "allocations"})
    wanted = {
        consumer: _parsed(request, part, bulk=True)
        for consumer, part in body["allocations"].items()
    }
    new = {}
    for uuid, part in body["inventories"].items():
        part = body_of(part, {"resource_provider_generation", "inventories"})
        if uuid not in state.providers:
            raise Refusal(
                400,
                f"Resource provider {uuid} in reshaper payload does not exist.",
                "placement.resource_provider.not_found",
            )
        state.check_generation(uuid, part["resource_provider_generation"])
        new[uuid] = state.check_inventories(part["inventories"], full_reserve=True)
    former = {uuid: state.providers[uuid].inventories for uuid in new}
    try:
        # All or nothing: allocations are checked against the new inventories.
        for uuid, inventories in new.items():
            state.providers[uuid].inventories = {**former[uuid], **inventories}
        _check(state, request, wanted)
        for uuid, inventories in new.items():
            state.providers[uuid].inventories = inventories
        _check_kept(state, new, wanted)
    except Refusal:
        for uuid, inventories in former.items():
            state.providers[uuid].inventories = inventories
        raise
    for uuid in new:
        state.bump(uuid)
    _keep(state, wanted)
    return 204, None, {}


def _check_kept(
    state: FakeState, new: Mapping[str, Any], wanted: Mapping[str, Mapping[str, Any]]
) -> None:
    """Refuse to remove classes that somebody holds afterwards."""
    held = [(c.uuid, c.held) for c in state.consumers.values() if c.uuid not in wanted]
    held += [(consumer, part["held"]) for consumer, part in wanted.items()]
    for _, resources in held:
        for uuid, names in resources.items():
            for name in names:
                if uuid in new and name not in new[uuid]:
                    raise Refusal(
                        409,
                        f"Inventory for '{name}' on resource provider '{uuid}' in use.",
                        "placement.inventory.inuse",
                    )


def _parsed(request: Request, body: Any, *, bulk: bool) -> dict[str, Any]:
    """What a body says that a consumer holds."""
    required = {"allocations"}
    allowed = {"mappings"} if request.at_least(1, 34) else set()
    if request.at_least(1, 8) or bulk:
        required |= {"project_id", "user_id"}
    if request.at_least(1, 28):
        required.add("consumer_generation")
    if request.at_least(1, 38):
        required.add("consumer_type")
    body = body_of(body, required, allowed)
    given = body["allocations"]
    if request.at_least(1, 12) or bulk:
        need(isinstance(given, dict), "allocations")
        need(given or bulk or request.at_least(1, 28), "allocations are too few")
        pairs = [(uuid, part) for uuid, part in given.items()]
    else:
        need(isinstance(given, list) and given, "allocations")
        pairs = [(part["resource_provider"]["uuid"], part) for part in given]
    held = {}
    for uuid, part in pairs:
        need(isinstance(part, dict) and isinstance(part.get("resources"), dict), "resources")
        need(part["resources"], f"{uuid} has too few resources")
        for name, amount in part["resources"].items():
            need(isinstance(amount, int) and amount >= 1, f"{name} {amount!r}")
        held[uuid] = dict(part["resources"])
    return {**body, "held": held}


def _check(state: FakeState, request: Request, wanted: Mapping[str, Mapping[str, Any]]) -> None:
    if request.at_least(1, 28):
        for consumer, part in wanted.items():
            state.check_consumer(consumer, part["consumer_generation"])
    state.check_allocations({consumer: part["held"] for consumer, part in wanted.items()})


def _keep(state: FakeState, wanted: Mapping[str, Mapping[str, Any]]) -> None:
    for consumer, part in wanted.items():
        state.store_allocations(
            consumer,
            part["held"],
            project_id=part.get("project_id", "0" * 8),
            user_id=part.get("user_id", "0" * 8),
            type_=part.get("consumer_type"),
        )


def _store(state: FakeState, request: Request, wanted: Mapping[str, Mapping[str, Any]]) -> None:
    _check(state, request, wanted)
    _keep(state, wanted)
