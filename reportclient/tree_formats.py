# SPDX-License-Identifier: Apache-2.0
"""A tree as plain data and as text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from reportclient import text
from reportclient.records import copied
from reportclient.snapshot import TreeSnapshot
from reportclient.types import ProviderRecord
from reportclient.validation import uuid_or_text

__all__ = ["record_from_dict", "record_to_dict", "render_tree"]


def record_to_dict(record: ProviderRecord) -> dict[str, Any]:
    """One provider as plain data."""
    content: dict[str, Any] = {
        "uuid": record.uuid,
        "name": record.name,
        "parent_provider_uuid": record.parent_uuid,
        "generation": record.generation,
    }
    if record.inventory is not None:
        content["inventory"] = {name: copied(r) for name, r in record.inventory.items()}
    if record.traits is not None:
        content["traits"] = sorted(record.traits)
    if record.aggregates is not None:
        content["aggregates"] = sorted(record.aggregates)
    if record.sharing:
        content["sharing"] = True
    return content


def record_from_dict(given: Mapping[str, Any]) -> ProviderRecord:
    """One provider from plain data.

    :raises KeyError, TypeError, AttributeError, ValueError: it is none.
    """
    parent, inventory = given.get("parent_provider_uuid"), given.get("inventory")
    for field in ("uuid", "name"):
        if not isinstance(given[field], str):
            raise TypeError(f"the {field} {given[field]!r} is not a text")
    aggregates = _members(given, "aggregates")
    return ProviderRecord(
        uuid_or_text(given["uuid"]),
        given["name"],
        None if parent is None else uuid_or_text(parent),
        given.get("generation"),
        None if inventory is None else {name: dict(r) for name, r in inventory.items()},
        _members(given, "traits"),
        None if aggregates is None else frozenset(map(uuid_or_text, aggregates)),
        sharing=bool(given.get("sharing", False)),
    )


def _members(given: Mapping[str, Any], field: str) -> frozenset[str] | None:
    members = given.get(field)
    if isinstance(members, str) or not isinstance(members, Iterable | None):
        raise TypeError(f"the {field} {members!r} are not a list")
    return None if members is None else frozenset(members)


def render_tree(state: TreeSnapshot, uuid: str, lead: str, below: str) -> Iterator[str]:
    """A provider and all below it, line by line.

    :param lead: what stands before its name.
    :param below: what stands before everything else of it.
    """
    record = state.records[uuid]
    children = state.children(uuid)
    yield f"{lead}{text.one_line(record.name)} ({uuid}){' [sharing]' if record.sharing else ''}"
    bar = below + ("|   " if children else "    ")
    for name, fields in sorted((record.inventory or {}).items()):
        amounts = ", ".join(f"{field} {value}" for field, value in fields.items())
        yield f"{bar}{name}: {amounts}"
    if record.traits:
        yield f"{bar}traits: {', '.join(sorted(record.traits))}"
    if record.aggregates:
        yield f"{bar}aggregates: {', '.join(sorted(record.aggregates))}"
    for child in children:
        last = child == children[-1]
        yield from render_tree(
            state,
            child,
            below + ("`-- " if last else "|-- "),
            below + ("    " if last else "|   "),
        )
