# SPDX-License-Identifier: Apache-2.0
"""The fake Placement's routes for usages, candidates, allocations and the reshaper."""

from __future__ import annotations

import re
import uuid as uuid_
from collections.abc import Iterable, Mapping
from typing import Any

from reportclient.testing import fake_ledger
from reportclient.testing.fake_candidates import allocation_candidates
from reportclient.testing.fake_checks import (
    allocations_of,
    check,
    check_inventories,
    is_uuid,
    object_of,
)
from reportclient.testing.fake_groups import parsed
from reportclient.testing.fake_ledger import Claim
from reportclient.testing.fake_queries import check_query
from reportclient.testing.fake_routes import Answer, Request, route
from reportclient.testing.fake_state import (
    CONCURRENT,
    Consumer,
    FakeState,
    Refusal,
    UnknownClass,
)

__all__: list[str] = []

_UNKNOWN = "00000000-0000-0000-0000-000000000000"


# -- reading ---------------------------------------------------------------------------


@route("GET", "/resource_providers/{uuid}/usages")
def _usages(state: FakeState, request: Request, uuid: str) -> Answer:
    if uuid not in state.providers:
        start = f"No resource provider with uuid {uuid} found"
        raise Refusal(404, f"{start}: {start}")
    body = {
        "resource_provider_generation": state.providers[uuid].generation,
        "usages": state.usages(uuid),
    }
    return Answer(200, body, modified=state.clock())


@route("GET", "/resource_providers/{uuid}/allocations")
def _provider_allocations(state: FakeState, request: Request, uuid: str) -> Answer:
    if uuid not in state.providers:
        raise Refusal(
            404,
            f"Resource provider '{uuid}' not found: No resource provider with uuid {uuid} found",
        )
    holders = [consumer for consumer in state.consumers.values() if uuid in consumer.held]
    found: dict[str, dict[str, Any]] = {}
    for consumer in holders:
        found[consumer.uuid] = {"resources": dict(consumer.held[uuid])}
        if request.at_least(1, 28):
            found[consumer.uuid]["consumer_generation"] = consumer.generation
    body = {
        "allocations": found,
        "resource_provider_generation": state.providers[uuid].generation,
    }
    return Answer(200, body, modified=_modified(state, holders))


def _modified(state: FakeState, consumers: Iterable[Consumer]) -> float:
    return max((consumer.modified for consumer in consumers), default=state.clock())


@route("GET", "/usages", (1, 9))
def _total_usages(state: FakeState, request: Request) -> Answer:
    by_type = request.at_least(1, 38)
    allowed = {"project_id", "user_id"} | ({"consumer_type"} if by_type else set())
    check_query(request, allowed, "project_id")
    wanted = request.last("consumer_type")
    for key in allowed:
        value = request.last(key)
        if value is not None and not 1 <= len(value) <= 255:
            raise Refusal(400, f"Invalid query string parameters: {key} is too short or long")
    if wanted is not None and not re.search("^[A-Z0-9_]+$|^all|^unknown$", wanted):
        raise Refusal(400, f"Invalid query string parameters: {wanted!r} does not match")
    consumers = [
        consumer
        for consumer in state.consumers.values()
        if consumer.held
        and consumer.project_id == request.last("project_id")
        and request.last("user_id") in (None, consumer.user_id)
    ]
    if not by_type:
        return Answer(200, {"usages": _sum(consumers)}, modified=state.clock())
    groups: dict[str, list[Consumer]] = {}
    for consumer in consumers:
        kind = consumer.type or "unknown"
        if wanted in (None, "all", kind):
            groups.setdefault("all" if wanted == "all" else kind, []).append(consumer)
    usages = {
        kind: {**_sum(members), "consumer_count": len(members)} for kind, members in groups.items()
    }
    return Answer(200, {"usages": usages}, modified=state.clock())


def _sum(consumers: Iterable[Consumer]) -> dict[str, int]:
    used: dict[str, int] = {}
    for consumer in consumers:
        for resources in consumer.held.values():
            for name, amount in resources.items():
                used[name] = used.get(name, 0) + amount
    return used


@route("GET", "/allocation_candidates", (1, 10))
def _candidates(state: FakeState, request: Request) -> Answer:
    body = allocation_candidates(state, parsed(request))
    return Answer(200, body, modified=state.clock())


@route("GET", "/allocations/{consumer}")
def _get_allocations(state: FakeState, request: Request, consumer: str) -> Answer:
    known = state.consumers.get(consumer)
    if known is None or not known.held:
        return Answer(200, {"allocations": {}}, modified=state.clock())
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
    return Answer(200, found, modified=known.modified)


# -- writing ---------------------------------------------------------------------------


def _claim(request: Request, consumer: str, body: Any, *, bulk: bool) -> Claim:
    held = allocations_of(body, request.version, bulk=bulk)
    return Claim(
        consumer,
        held,
        body.get("project_id", _UNKNOWN),
        body.get("user_id", _UNKNOWN),
        body.get("consumer_generation"),
        guarded=request.at_least(1, 28),
        type=body.get("consumer_type"),
    )


def _claims(request: Request, body: Any) -> list[Claim]:
    for consumer in body:
        check(re.search("^[0-9a-fA-F-]{36}$", consumer), f"{consumer!r} does not match the regex")
    return [_claim(request, consumer, part, bulk=True) for consumer, part in body.items()]


@route("PUT", "/allocations/{consumer}")
def _put_allocations(state: FakeState, request: Request, consumer: str) -> Answer:
    if not is_uuid(consumer):
        raise Refusal(400, f"Malformed consumer_uuid: {consumer}")
    consumer = str(uuid_.UUID(consumer))
    claim = _claim(request, consumer, request.json(), bulk=False)
    start = f"Unable to allocate inventory for consumer {consumer}:"
    _replace(state, [claim], unknown_class=start)
    return Answer(204)


@route("DELETE", "/allocations/{consumer}")
def _delete_allocations(state: FakeState, request: Request, consumer: str) -> Answer:
    known = state.consumers.get(consumer)
    if known is None or not known.held:
        raise Refusal(404, f"No allocations for consumer '{consumer}'")
    fake_ledger.forget(state, [consumer])
    return Answer(204)


@route("POST", "/allocations", (1, 13))
def _post_allocations(state: FakeState, request: Request) -> Answer:
    body = request.json()
    check(isinstance(body, dict) and body, f"{body!r} has not enough properties")
    _replace(state, _claims(request, body), unknown_class="Unable to allocate inventory")
    return Answer(204)


def _replace(state: FakeState, claims: list[Claim], *, unknown_class: str) -> None:
    made = fake_ledger.add_consumers(state, claims)
    try:
        fake_ledger.replace_allocations(state, claims)
    except UnknownClass as error:
        fake_ledger.forget(state, made)
        raise Refusal(400, f"{unknown_class} {error.detail}") from None
    except Refusal:
        fake_ledger.forget(state, made)
        raise


# -- reshaping -------------------------------------------------------------------------


@route("POST", "/reshaper", (1, 30))
def _reshape(state: FakeState, request: Request) -> Answer:
    body = object_of(request.json(), {"inventories", "allocations"})
    inventories = _new_inventories(state, body["inventories"])
    check(isinstance(body["allocations"], dict), "allocations is not of type 'object'")
    claims = _claims(request, body["allocations"])
    for uuid, part in body["inventories"].items():
        _check_provider(state, uuid, part["resource_provider_generation"])
    made = fake_ledger.add_consumers(state, claims)
    try:
        with state.all_or_nothing():
            _move(state, inventories, claims)
    except UnknownClass as error:
        fake_ledger.forget(state, made)
        raise Refusal(400, f"malformed reshaper data: {error.detail}") from None
    except Refusal:
        fake_ledger.forget(state, made)
        raise
    return Answer(204)


def _new_inventories(state: FakeState, given: Any) -> dict[str, dict[str, dict[str, Any]]]:
    check(isinstance(given, dict) and given, f"{given!r} has not enough properties")
    new = {}
    for uuid, part in given.items():
        check(re.search("^[0-9a-fA-F-]{36}$", uuid), f"{uuid!r} does not match the regex")
        new[uuid] = {
            name: state.complete(record) for name, record in check_inventories(part).items()
        }
    return new


def _check_provider(state: FakeState, uuid: str, generation: int) -> None:
    if uuid not in state.providers:
        raise Refusal(
            400,
            f"Resource provider {uuid} in inventories not found: "
            f"No resource provider with uuid {uuid} found",
            "placement.resource_provider.not_found",
        )
    actual = state.providers[uuid].generation
    if actual != generation:
        raise Refusal(
            409,
            f"resource provider generation conflict for provider {uuid}: "
            f"actual: {actual}, given: {generation}",
            CONCURRENT,
        )


def _move(
    state: FakeState,
    inventories: Mapping[str, Mapping[str, dict[str, Any]]],
    claims: list[Claim],
) -> None:
    """Old and new inventory together, then the allocations, then the new alone."""
    for uuid, new in inventories.items():
        if new:
            state.set_inventories(uuid, {**state.providers[uuid].inventories, **new})
    fake_ledger.replace_allocations(state, claims)
    for uuid, new in inventories.items():
        try:
            state.set_inventories(uuid, new)
        except UnknownClass:
            raise
        except Refusal as error:
            raise Refusal(error.status, f"update conflict: {error.detail}", error.code) from None
