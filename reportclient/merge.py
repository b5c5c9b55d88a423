# SPDX-License-Identifier: Apache-2.0
"""Three-way merging of one aspect of a provider. Pure functions.

``base`` is what the driver was handed, ``mine`` what it made of it, and
``theirs`` what Placement holds now. The result holds what the driver changed
(``base`` to ``mine``) on top of what everybody else changed (``base`` to
``theirs``), so nothing of either is lost (promise P4).

``mine is None`` means that the driver never touched the aspect: the result is
``theirs``. ``base is None`` means that nobody knows what the driver started
from (it made the provider itself, and Placement turned out to have it
already): what the driver says wins, what it does not mention stays.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from reportclient import validation
from reportclient.types import Aspect, Inventory, InventoryRecord

__all__ = [
    "Clash",
    "Merged",
    "differences",
    "merge_aspect",
    "merge_inventory",
    "merge_set",
    "news",
    "same_value",
]


@dataclasses.dataclass(frozen=True, slots=True)
class Clash:
    """One field (or a whole class) that both sides changed, differently.

    :ivar field: ``"VCPU.total"``, or ``"VCPU"`` when one side removed the
        class that the other one changed.
    :ivar base: the value both started from; ``None`` where there was none.
    """

    field: str
    base: Any
    mine: Any
    theirs: Any

    def __str__(self) -> str:
        return f"{self.field}: {self.base!r} -> mine {self.mine!r}, theirs {self.theirs!r}"


@dataclasses.dataclass(frozen=True, slots=True)
class Merged:
    """The result of a merge: to be written only when there is no clash.

    :ivar value: an inventory, or a frozenset of traits or aggregates.
    """

    value: Any
    clashes: tuple[Clash, ...] = ()


def merge_aspect(aspect: Aspect, base: Any, mine: Any, theirs: Any) -> Merged:
    """Merge the values of any aspect."""
    if aspect is Aspect.INVENTORY:
        return merge_inventory(base, mine, theirs)
    return Merged(merge_set(base, mine, theirs))


def same_value(aspect: Aspect, one: Any, other: Any) -> bool:
    """Whether two values of an aspect are the same to Placement."""
    if aspect is Aspect.INVENTORY:
        return next(_diff_inventory(one, other), None) is None
    return bool(one == other)


def differences(aspect: Aspect, old: Any, new: Any) -> Iterator[str]:
    """Say how two values differ: ``"VCPU.total 8 -> 16"``, ``"+CUSTOM_GOLD"``."""
    if aspect is Aspect.INVENTORY:
        yield from _diff_inventory(old, new)
    else:
        yield from (f"+{member}" for member in sorted(new - old))
        yield from (f"-{member}" for member in sorted(old - new))


def merge_set(
    base: frozenset[str] | None, mine: frozenset[str] | None, theirs: frozenset[str]
) -> frozenset[str]:
    """Merge traits or aggregates. Sets cannot clash: each member stands alone."""
    if mine is None:
        return theirs
    if base is None:
        return theirs | mine
    return (theirs - (base - mine)) | (mine - base)


def merge_inventory(base: Inventory | None, mine: Inventory | None, theirs: Inventory) -> Merged:
    """Merge inventories class by class, and field by field within a class.

    A field that is missing from ``mine`` is "no opinion" and keeps the value
    of ``theirs``; a class that is missing from ``mine`` and was in ``base`` is
    removed. Numbers are compared as Placement stores them.
    """
    if mine is None:
        return Merged(theirs)
    known = base is not None
    value: dict[str, InventoryRecord] = {}
    clashes: list[Clash] = []
    # The order of theirs, then of mine, keeps bodies and logs stable.
    for name in dict.fromkeys([*theirs, *mine]):
        record, found = _merge_class(
            name, base.get(name) if base else None, mine.get(name), theirs.get(name), known
        )
        if record is not None:
            value[name] = record
        clashes += found
    return Merged(value, tuple(clashes))


def _merge_class(
    name: str,
    base: InventoryRecord | None,
    mine: InventoryRecord | None,
    theirs: InventoryRecord | None,
    known: bool,
) -> tuple[InventoryRecord | None, list[Clash]]:
    if mine is None:
        if base is None or theirs is None:
            return theirs, []
        if validation.same_record(base, theirs):
            return None, []
        return theirs, [Clash(name, base, None, theirs)]
    if theirs is None:
        if base is None:
            return mine, []
        if _says_nothing_new(base, mine):
            return None, []
        return None, [Clash(name, base, mine, None)]
    if not known:
        return {**theirs, **news(theirs, mine)}, []
    return _merge_fields(name, base, mine, theirs)


def _merge_fields(
    name: str, base: InventoryRecord | None, mine: InventoryRecord, theirs: InventoryRecord
) -> tuple[InventoryRecord, list[Clash]]:
    record = dict(theirs)
    clashes = []
    for field, wanted in news(base or {}, mine).items():
        was, now = (base or {}).get(field), theirs.get(field)
        if _same(now, wanted):
            continue
        # A base that is silent about the field (the driver had no opinion
        # when it was flushed) gives nothing to clash with.
        if _same(now, was) or (base is not None and was is None):
            record[field] = wanted
        else:
            clashes.append(Clash(f"{name}.{field}", was, wanted, now))
    return record, clashes


def news(old: InventoryRecord, new: InventoryRecord) -> dict[str, int | float]:
    """The fields of ``new`` that ``old`` has not, or has otherwise."""
    return {field: value for field, value in new.items() if not _same(old.get(field), value)}


def _says_nothing_new(base: InventoryRecord, mine: InventoryRecord) -> bool:
    return not news(base, mine)


def _same(a: int | float | None, b: int | float | None) -> bool:
    if a is None or b is None:
        return a is b
    return validation.same_number(a, b)


def _diff_inventory(old: Inventory, new: Inventory) -> Iterator[str]:
    for name in dict.fromkeys([*old, *new]):
        before, after = old.get(name), new.get(name)
        if before is None:
            yield f"+{name} {_brief(after or {})}"
        elif after is None:
            yield f"-{name}"
        else:
            for field in dict.fromkeys([*before, *after]):
                if not _same(before.get(field), after.get(field)):
                    yield f"{name}.{field} {before.get(field)} -> {after.get(field)}"


def _brief(record: Mapping[str, Any]) -> str:
    return ", ".join(f"{field} {value}" for field, value in record.items())
