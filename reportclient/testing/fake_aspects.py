# SPDX-License-Identifier: Apache-2.0
"""The fake Placement's routes for inventories, aggregates and a provider's traits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reportclient.testing.fake_checks import (
    check,
    check_class_name,
    check_generation,
    check_inventories,
    check_name,
    check_record,
    check_uuid,
    object_of,
)
from reportclient.testing.fake_routes import Answer, Request, route
from reportclient.testing.fake_state import CONCURRENT, FakeState, Refusal, UnknownClass

__all__: list[str] = []

_GENERATION = "resource_provider_generation"
_STALE_INVENTORY = "resource provider generation conflict"
_STALE = (
    "Resource provider's generation already changed. Please update the generation and try again."
)


# -- inventories -----------------------------------------------------------------------


def _inventories(state: FakeState, uuid: str, modified: float | None) -> Answer:
    provider = state.provider(uuid)
    body = {
        "inventories": {name: dict(record) for name, record in provider.inventories.items()},
        _GENERATION: provider.generation,
    }
    return Answer(200, body, modified=modified if provider.inventories else None, no_cache=True)


def _inventory(state: FakeState, uuid: str, name: str, status: int = 200) -> Answer:
    provider = state.provider(uuid)
    body = {**provider.inventories[name], _GENERATION: provider.generation}
    return Answer(status, body, modified=provider.inventories_written)


def _check_capacity(
    request: Request, uuid: str, inventories: Mapping[str, Mapping[str, Any]], start: str
) -> None:
    """Refuse a reserve that leaves nothing, or from 1.26 on less than nothing."""
    for name, record in inventories.items():
        free = int((record["total"] - record["reserved"]) * record["allocation_ratio"])
        why = "The reserved value is greater than total."
        if not request.at_least(1, 26):
            why = "The reserved value is greater than or equal to total."
            free -= 1
        if free < 0:
            raise Refusal(
                400,
                f"{start} {uuid}: Invalid inventory for '{name}' on resource provider "
                f"'{uuid}'. {why}",
            )


@route("GET", "/resource_providers/{uuid}/inventories")
def _get_inventories(state: FakeState, request: Request, uuid: str) -> Answer:
    if uuid not in state.providers:
        raise _gone(uuid, " : ")
    return _inventories(state, uuid, state.providers[uuid].inventories_written)


def _gone(uuid: str, joint: str = ": ") -> Refusal:
    start = f"No resource provider with uuid {uuid} found"
    return Refusal(404, f"{start}{joint}{start}")


@route("PUT", "/resource_providers/{uuid}/inventories")
def _put_inventories(state: FakeState, request: Request, uuid: str) -> Answer:
    state.provider(uuid)
    body = request.json()
    given = check_inventories(body)
    state.check_generation(uuid, body[_GENERATION], _STALE_INVENTORY)
    whole = {name: state.complete(record) for name, record in given.items()}
    _check_capacity(request, uuid, whole, "Unable to update inventory for resource provider")
    try:
        state.set_inventories(uuid, whole)
    except UnknownClass as error:
        start = f"Unknown resource class in inventory for resource provider {uuid}"
        raise Refusal(400, f"{start}: {error.detail}") from None
    except Refusal as error:
        raise Refusal(error.status, f"update conflict: {error.detail}", error.code) from None
    return _inventories(state, uuid, state.clock())


@route("POST", "/resource_providers/{uuid}/inventories")
def _post_inventory(state: FakeState, request: Request, uuid: str) -> Answer:
    provider = state.provider(uuid)
    body = request.json()
    check(isinstance(body, dict), f"{body!r} is not of type 'object'")
    name = body.pop("resource_class", None)
    check_class_name(name)
    record = state.complete(check_record(body))
    record.pop(_GENERATION, None)
    start = "Unable to create inventory for resource provider"
    _check_capacity(request, uuid, {name: record}, start)
    if name in provider.inventories:
        raise Refusal(409, f"Update conflict: {name} is there already", CONCURRENT)
    try:
        state.set_inventories(uuid, {**provider.inventories, name: record})
    except UnknownClass as error:
        raise Refusal(400, f"{start} {uuid}: {error.detail}") from None
    answer = _inventory(state, uuid, name, 201)
    answer.location = f"/resource_providers/{uuid}/inventories/{name}"
    return answer


@route("DELETE", "/resource_providers/{uuid}/inventories", (1, 5), too_old=405)
def _delete_inventories(state: FakeState, request: Request, uuid: str) -> Answer:
    state.set_inventories(uuid, {})
    return Answer(204)


@route("GET", "/resource_providers/{uuid}/inventories/{name}")
def _get_inventory(state: FakeState, request: Request, uuid: str, name: str) -> Answer:
    if uuid not in state.providers:
        raise _gone(uuid, " : ")
    if name not in state.providers[uuid].inventories:
        raise Refusal(404, f"No inventory of class {name} for {uuid}")
    return _inventory(state, uuid, name)


@route("PUT", "/resource_providers/{uuid}/inventories/{name}")
def _put_inventory(state: FakeState, request: Request, uuid: str, name: str) -> Answer:
    provider = state.provider(uuid)
    record = state.complete(check_record(request.json(), more=_GENERATION))
    state.check_generation(uuid, record.pop(_GENERATION), _STALE_INVENTORY)
    start = "Unable to update inventory for resource provider"
    _check_capacity(request, uuid, {name: record}, start)
    state.check_class(name)
    if name not in provider.inventories:
        start = "No inventory record with resource class for resource provider"
        raise Refusal(400, f"{start} {uuid}: No inventory of class {name} found.")
    state.set_inventories(uuid, {**provider.inventories, name: record})
    return _inventory(state, uuid, name)


@route("DELETE", "/resource_providers/{uuid}/inventories/{name}")
def _delete_inventory(state: FakeState, request: Request, uuid: str, name: str) -> Answer:
    provider = state.provider(uuid)
    start = f"No inventory of class {name} found for delete"
    try:
        state.check_class(name)
    except UnknownClass as error:
        raise Refusal(404, f"{start}: {error.detail}") from None
    if name not in provider.inventories:
        raise Refusal(404, f"{start}: {start}")
    left = {kept: record for kept, record in provider.inventories.items() if kept != name}
    try:
        state.set_inventories(uuid, left)
    except Refusal as error:
        # The service calls this one a concurrent update.
        start = f"Unable to delete inventory of class {name}"
        raise Refusal(409, f"{start}: {error.detail}", CONCURRENT) from None
    return Answer(204)


# -- aggregates ------------------------------------------------------------------------


def _aggregates(state: FakeState, request: Request, uuid: str) -> Answer:
    provider = state.provider(uuid)
    body: dict[str, Any] = {"aggregates": sorted(provider.aggregates)}
    if request.at_least(1, 19):
        body[_GENERATION] = provider.generation
    return Answer(200, body, modified=state.clock())


@route("GET", "/resource_providers/{uuid}/aggregates", (1, 1))
def _get_aggregates(state: FakeState, request: Request, uuid: str) -> Answer:
    return _aggregates(state, request, uuid)


@route("PUT", "/resource_providers/{uuid}/aggregates", (1, 1))
def _put_aggregates(state: FakeState, request: Request, uuid: str) -> Answer:
    state.provider(uuid)
    body = given = request.json()
    guarded = request.at_least(1, 19)
    if guarded:
        given = object_of(body, {"aggregates", _GENERATION})["aggregates"]
        check_generation(body[_GENERATION])
    check(isinstance(given, list), f"{given!r} is not of type 'array'")
    for aggregate in given:
        check_uuid(aggregate)
    check(len(set(given)) == len(given), f"{given!r} has non-unique elements")
    if guarded:
        state.check_generation(uuid, body[_GENERATION], _STALE)
    state.set_aggregates(uuid, given, bump=guarded)
    return _aggregates(state, request, uuid)


# -- traits ----------------------------------------------------------------------------


def _traits(state: FakeState, uuid: str) -> Answer:
    provider = state.provider(uuid)
    modified = max((state.traits[name] for name in provider.traits), default=state.clock())
    body = {"traits": sorted(provider.traits), _GENERATION: provider.generation}
    return Answer(200, body, modified=modified)


@route("GET", "/resource_providers/{uuid}/traits", (1, 6))
def _get_traits(state: FakeState, request: Request, uuid: str) -> Answer:
    if uuid not in state.providers:
        raise _gone(uuid)
    return _traits(state, uuid)


@route("PUT", "/resource_providers/{uuid}/traits", (1, 6))
def _put_traits(state: FakeState, request: Request, uuid: str) -> Answer:
    body = object_of(request.json(), {"traits", _GENERATION})
    check_generation(body[_GENERATION])
    check(isinstance(body["traits"], list), "traits is not of type 'array'")
    for name in body["traits"]:
        check_name(name, 255, 1)
    state.check_generation(uuid, body[_GENERATION], _STALE)
    state.set_traits(uuid, body["traits"])
    return _traits(state, uuid)


@route("DELETE", "/resource_providers/{uuid}/traits", (1, 6))
def _delete_traits(state: FakeState, request: Request, uuid: str) -> Answer:
    state.set_traits(uuid, ())
    return Answer(204)
