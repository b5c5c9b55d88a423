# SPDX-License-Identifier: Apache-2.0
"""What callers want consumers to hold, checked and in one form. No I/O.

The limits are those of Placement's API reference and JSON schemas. What is
refused here would be refused there, only later, and all of it.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping
from typing import Any

from reportclient import exceptions, validation
from reportclient.shapes import ConsumerAllocations

__all__ = [
    "added",
    "check_consumer_type",
    "check_version",
    "consumer_uuid",
    "doubled",
    "owner",
    "payload",
    "payloads",
    "removed",
    "request",
    "resources",
    "with_type",
]

_Resources = dict[str, dict[str, int]]

_TYPE = re.compile(r"[A-Z0-9_]{1,255}")
_VERSION = re.compile(r"1\.[0-9]+")
_KEYS = frozenset(
    {
        "allocations",
        "project_id",
        "user_id",
        "consumer_generation",
        "consumer_type",
        "mappings",
    }
)


# -- reading what is given -------------------------------------------------------


def consumer_uuid(uuid: Any, field: str = "consumer_uuid") -> str:
    """A consumer's UUID, in the form in which Placement answers it.

    :raises InvalidUUID: it is none.
    """
    return validation.normalise_uuid(uuid, field=field)


def payload(consumer: str, given: Any) -> ConsumerAllocations:
    """All that a consumer is to hold, as ``PUT /allocations`` takes it.

    What ``GET /allocations`` answers is accepted as it is. Zero amounts, and
    providers that nothing is left of, are left out (LP 1647316).

    :raises InvalidAllocation, InvalidUUID, InvalidResourceClass: names the
        consumer, the field and the value.
    """
    if not isinstance(given, Mapping):
        raise _refused(consumer, "payload", given, "is not a mapping")
    for key in given:
        if key not in _KEYS:
            raise _refused(consumer, str(key), given[key], "is not a field of allocations")
    if "consumer_generation" not in given:
        raise _refused(
            consumer, "consumer_generation", None, "is missing (None is for a new consumer)"
        )
    held = resources(consumer, given.get("allocations"))
    return ConsumerAllocations(
        held,
        owner(consumer, "project_id", given.get("project_id")),
        owner(consumer, "user_id", given.get("user_id")),
        given["consumer_generation"],
        check_consumer_type(given.get("consumer_type"), consumer),
    )


def payloads(
    given: Any, default_type: str | None, *, new: bool = False
) -> dict[str, ConsumerAllocations]:
    """All that several consumers are to hold, by consumer.

    :param default_type: of consumers that have none.
    :param new: they are new, and no generation need be given.
    :raises: as `payload`.
    """
    if not isinstance(given, Mapping):
        raise _refused(None, "allocations", given, "is not a mapping of consumers")
    found: dict[str, ConsumerAllocations] = {}
    for uuid, part in given.items():
        consumer = consumer_uuid(uuid)
        if consumer in found:
            raise _refused(consumer, "allocations", uuid, "is there twice")
        if new and isinstance(part, Mapping):
            part = {**part, "consumer_generation": None}
        found[consumer] = with_type(payload(consumer, part), default_type)
    return found


def request(consumer: str, given: Any) -> _Resources:
    """The resources of an allocation request of ``GET /allocation_candidates``.

    :raises: as `payload`.
    """
    if not isinstance(given, Mapping):
        raise _refused(consumer, "alloc_request", given, "is not a mapping")
    found = resources(consumer, given.get("allocations"))
    if not found:
        raise _refused(
            consumer, "allocations", given.get("allocations"), "asks for nothing at all"
        )
    return found


def resources(consumer: str, given: Any) -> _Resources:
    """Provider UUID -> resource class -> amount, without what is zero.

    Three forms are understood: ``{provider: {"resources": {class: amount}}}``;
    ``{provider: {class: amount}}``; and the list of Placement before 1.12.

    :raises: as `payload`.
    """
    if isinstance(given, list | tuple):
        given = dict(_listed(consumer, given))
    if not isinstance(given, Mapping):
        raise _refused(consumer, "allocations", given, "is not a mapping of providers")
    found: _Resources = {}
    for uuid, part in given.items():
        provider = _provider(consumer, uuid)
        if provider in found:
            raise _refused(consumer, "allocations", uuid, "is there twice")
        found[provider] = _amounts(consumer, provider, part)
    return {provider: held for provider, held in found.items() if held}


def _listed(consumer: str, given: Iterable[Any]) -> Iterable[tuple[Any, Any]]:
    for part in given:
        try:
            yield part["resource_provider"]["uuid"], {"resources": part["resources"]}
        except (KeyError, TypeError) as error:
            raise _refused(
                consumer, "allocations", part, "is not an allocation of a provider"
            ) from error


def _provider(consumer: str, uuid: Any) -> str:
    try:
        return validation.normalise_uuid(uuid, field="provider")
    except exceptions.InvalidUUID as error:
        error.consumer = consumer
        raise


def _amounts(consumer: str, provider: str, part: Any) -> dict[str, int]:
    held = part.get("resources", part) if isinstance(part, Mapping) else None
    if not isinstance(held, Mapping):
        raise _refused(
            consumer, "resources", part, "is not a mapping of resource classes", provider
        )
    found = {}
    for name, amount in held.items():
        try:
            symbol = validation.check_resource_class(name, provider=provider)
        except exceptions.InvalidResourceClass as error:
            error.consumer = consumer
            raise
        if type(amount) is not int or not 0 <= amount <= validation.MAX_INT:
            why = f"of {name} is not a whole number from 0 to {validation.MAX_INT}"
            raise _refused(consumer, "resources", amount, why, provider, name)
        if amount:
            found[symbol] = amount
    return found


def owner(consumer: str | None, field: str, value: Any) -> str:
    """A project or user: 1 to 255 characters.

    :raises InvalidAllocation: it is not.
    """
    if isinstance(value, str) and 0 < len(value) <= 255:
        return value
    raise _refused(consumer, field, value, "is not a text of 1 to 255 characters")


def check_consumer_type(value: Any, consumer: str | None = None) -> str | None:
    """A type of consumer: 1 to 255 of A-Z, 0-9 and ``_``; or ``None``.

    ``"unknown"``, which Placement answers and refuses, is passed on.

    :raises InvalidAllocation: it is none of these.
    """
    if value is None:
        return None
    match = _TYPE.fullmatch(value) if isinstance(value, str) else None
    if value == "unknown":
        return "unknown"
    if match is None:
        raise _refused(consumer, "consumer_type", value, "is not 1 to 255 of A-Z, 0-9 and _")
    return match.group()


def check_version(consumer: str, value: Any) -> None:
    """The microversion that an allocation request is of.

    :raises InvalidAllocation: it is no microversion.
    """
    if not isinstance(value, str) or not _VERSION.fullmatch(value):
        raise _refused(
            consumer, "allocation_request_version", value, "is not a microversion such as '1.36'"
        )


def _refused(
    consumer: str | None,
    field: str,
    value: Any,
    why: str,
    provider: str | None = None,
    resource_class: str | None = None,
) -> exceptions.InvalidAllocation:
    of = f"Consumer {consumer}: " if consumer else ""
    at = f" at provider {provider}" if provider else ""
    error = exceptions.InvalidAllocation(
        f"{of}{field} {validation.short(value)}{at} {why}.",
        provider=provider,
        resource_class=resource_class,
        field=field,
        value=value,
    )
    error.consumer = consumer
    return error


# -- making one of another -----------------------------------------------------------


def with_type(wanted: ConsumerAllocations, default: str | None) -> ConsumerAllocations:
    """With the type to write: its own; the default for none; else it stays.

    A consumer that is there and whose type was not read keeps the one it has,
    because nothing is said of it.
    """
    if wanted.consumer_type == "unknown" or (
        wanted.consumer_type is None and wanted.consumer_generation is None
    ):
        return dataclasses.replace(wanted, consumer_type=default)
    return wanted


def doubled(held: ConsumerAllocations, asked: _Resources) -> _Resources:
    """What is held and what is asked for together, while something moves.

    Providers that the consumer holds already stay as they are: a sharing
    provider serves both sides and is not counted twice.
    """
    mine = {uuid: dict(amounts) for uuid, amounts in held.resources.items()}
    return {**asked, **mine}


def added(consumer: str, held: ConsumerAllocations, more: _Resources) -> ConsumerAllocations:
    """What is held, and so much more.

    :raises NotAllocated: nothing is held.
    """
    if not held.resources:
        error = exceptions.NotAllocated(
            f"Consumer {consumer} holds nothing to add to: its project is not known."
        )
        error.consumer = consumer
        raise error
    new = {uuid: dict(amounts) for uuid, amounts in held.resources.items()}
    for uuid, amounts in more.items():
        there = new.setdefault(uuid, {})
        for name, amount in amounts.items():
            there[name] = there.get(name, 0) + amount
    return dataclasses.replace(held, resources=new)


def removed(consumer: str, held: ConsumerAllocations, less: _Resources) -> ConsumerAllocations:
    """What is held, and so much less; what is zero then is left out.

    :raises NotAllocated: it is not so much.
    """
    new = {uuid: dict(amounts) for uuid, amounts in held.resources.items()}
    for uuid, amounts in less.items():
        there = new.get(uuid, {})
        for name, amount in amounts.items():
            left = there.get(name, 0) - amount
            if left < 0:
                raise _too_little(consumer, uuid, name, there.get(name, 0), amount)
            there[name] = left
            if not left:
                del there[name]
    left_over = {uuid: amounts for uuid, amounts in new.items() if amounts}
    return dataclasses.replace(held, resources=left_over)


def _too_little(
    consumer: str, provider: str, name: str, held: int, amount: int
) -> exceptions.NotAllocated:
    error = exceptions.NotAllocated(
        f"Consumer {consumer} holds {held} of {name} at provider {provider}; {amount} cannot be "
        "taken from it. Nothing was written.",
        provider=provider,
    )
    error.consumer, error.resource_class = consumer, name
    error.held, error.wanted = held, amount
    return error
