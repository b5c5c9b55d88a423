# SPDX-License-Identifier: Apache-2.0
"""From three trees to an ordered list of operations. Pure; prints well.

A plan is made from ``base`` (what the driver was handed), ``mine`` (what it
made of it) and ``theirs`` (what Placement is believed to hold). Nothing is
sent here; `reportclient.sync` carries a plan out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any

from reportclient import merge, text
from reportclient.snapshot import TreeSnapshot
from reportclient.types import ASPECTS, Aspect, ProviderRecord

__all__ = [
    "CreateProvider",
    "DeleteProvider",
    "MoveProvider",
    "Operation",
    "Plan",
    "RenameProvider",
    "WriteAspect",
    "changed_providers",
    "make_plan",
    "without_names",
]

_EMPTY = TreeSnapshot.build(())


@dataclasses.dataclass(frozen=True, slots=True)
class Operation:
    """One thing to do to one provider."""

    uuid: str
    name: str

    def __str__(self) -> str:
        return f"{type(self).__name__} {self.name} ({self.uuid})"


@dataclasses.dataclass(frozen=True, slots=True)
class CreateProvider(Operation):
    """Create a provider, under ``parent_uuid`` or as a root."""

    parent_uuid: str | None

    def __str__(self) -> str:
        where = f"under {self.parent_uuid}" if self.parent_uuid else "as a root"
        return f"create {self.name} ({self.uuid}) {where}"


@dataclasses.dataclass(frozen=True, slots=True)
class RenameProvider(Operation):
    """Give a provider the name ``name``; its parent stays as it is."""

    old_name: str

    def __str__(self) -> str:
        return f"rename {self.old_name} to {self.name} ({self.uuid})"


@dataclasses.dataclass(frozen=True, slots=True)
class MoveProvider(Operation):
    """Put a provider under another parent (``None``: make it a root)."""

    parent_uuid: str | None
    old_parent_uuid: str | None

    def __str__(self) -> str:
        old, new = self.old_parent_uuid or "no parent", self.parent_uuid or "no parent"
        return f"move {self.name} ({self.uuid}) from {old} to {new}"


@dataclasses.dataclass(frozen=True, slots=True)
class DeleteProvider(Operation):
    """Delete a provider that was in the base and that the driver removed."""

    parent_uuid: str | None

    def __str__(self) -> str:
        return f"delete {self.name} ({self.uuid})"


@dataclasses.dataclass(frozen=True, slots=True)
class WriteAspect(Operation):
    """Write one aspect: the merge of ``base``, ``mine`` and ``theirs``.

    ``base`` and ``theirs`` are ``None`` where they are not known;
    ``base_generation`` is the generation that the base was handed out with.
    """

    aspect: Aspect
    base: Any
    mine: Any
    theirs: Any
    base_generation: object = None

    def __str__(self) -> str:
        return f"write {self.aspect} of {self.name} ({self.uuid}): {'; '.join(self.differences())}"

    def differences(self) -> Iterator[str]:
        """What the write changes, one text per field or member."""
        merged = merge.merge_aspect(self.aspect, self.base, self.mine, self.believed)
        yield from (f"both changed {clash}" for clash in merged.clashes)
        yield from merge.differences(self.aspect, self.believed, merged.value)

    @property
    def believed(self) -> Any:
        """``theirs``, or the empty value where that is not known."""
        if self.theirs is not None:
            return self.theirs
        return {} if self.aspect is Aspect.INVENTORY else frozenset()


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """What a flush would do, in the order in which it would do it.

    Operations on independent providers may run side by side; the order within
    a provider, of parents before children (creation) and of children before
    parents (deletion) holds. ``bool(plan)`` says whether there is anything to
    do, and ``str(plan)`` is one operation a line.
    """

    operations: tuple[Operation, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.operations)

    def __len__(self) -> int:
        return len(self.operations)

    def __iter__(self) -> Iterator[Operation]:
        return iter(self.operations)

    def __str__(self) -> str:
        return (
            "\n".join(text.one_line(str(operation)) for operation in self.operations)
            or "nothing to do"
        )


def changed_providers(
    base: TreeSnapshot | None, mine: TreeSnapshot
) -> tuple[list[str], list[str]]:
    """The providers that differ: those to look at (top-down), and those removed.

    Records that are the very object of the base are not looked into, so the
    cost of an unchanged tree is one comparison.
    """
    if mine is base:
        return [], []
    old = (base or _EMPTY).records
    touched = [uuid for uuid, record in mine.records.items() if old.get(uuid) is not record]
    removed = [uuid for uuid in old if uuid not in mine.records]
    if len(touched) > 1:
        wanted = set(touched)
        touched = [uuid for uuid in mine.top_down() if uuid in wanted]
    return touched, removed


def make_plan(
    base: TreeSnapshot | None,
    mine: TreeSnapshot,
    theirs: Mapping[str, ProviderRecord],
    *,
    leave_out: Container[str] = (),
    reshape: bool = False,
) -> Plan:
    """Say what has to be done so that Placement holds what the driver wants.

    :param base: the tree that the driver was handed; ``None`` for a tree
        built by hand of which nothing is known.
    :param mine: the tree that the driver made of it.
    :param theirs: what Placement is believed to hold, at least of the
        providers of the other two, by UUID.
    :param leave_out: names of traits and resource classes that this Placement
        does not know; they are not sent.
    :param reshape: whether inventories are written in one transaction, after
        which providers that had some can be deleted: then none is before.
    :returns: an ordered plan. A provider that is in neither ``base`` nor
        ``mine`` is never in it (P5); untouched aspects are not either (P4);
        nor are writes that would change nothing (P9).
    """
    old = (base or _EMPTY).records
    touched, removed = changed_providers(base, mine)
    creates: list[CreateProvider] = []
    renames: list[RenameProvider] = []
    moves: list[MoveProvider] = []
    writes: list[WriteAspect] = []
    for uuid in touched:
        record, before, there = mine.records[uuid], old.get(uuid), theirs.get(uuid)
        if there is None:
            if not record.sharing:
                creates.append(CreateProvider(uuid, record.name, record.parent_uuid))
            # Somebody deleted it, or it never was: there is no base any more.
            before = None
        elif not (record.sharing or there.sharing):
            renames += _rename(record, before, there)
            moves += _move(record, before, there)
        writes += _writes(record, before, there, leave_out)
    deletes = [
        DeleteProvider(uuid, theirs[uuid].name, theirs[uuid].parent_uuid)
        for uuid in reversed(_top_down(removed, theirs))
        if uuid in theirs and not (theirs[uuid].sharing or old[uuid].sharing)
    ]
    takers: list[CreateProvider | RenameProvider] = [] if reshape else [*creates, *renames]
    early, late = _split_deletes(deletes, takers, theirs)
    ordered = _order_renames(renames)
    return Plan((*early, *ordered, *creates, *moves, *late, *writes))


def _rename(
    record: ProviderRecord, before: ProviderRecord | None, there: ProviderRecord
) -> Iterator[RenameProvider]:
    if record.name != there.name and (before is None or before.name != record.name):
        yield RenameProvider(record.uuid, record.name, there.name)


def _move(
    record: ProviderRecord, before: ProviderRecord | None, there: ProviderRecord
) -> Iterator[MoveProvider]:
    if record.parent_uuid != there.parent_uuid and (
        before is None or before.parent_uuid != record.parent_uuid
    ):
        yield MoveProvider(record.uuid, record.name, record.parent_uuid, there.parent_uuid)


def _writes(
    record: ProviderRecord,
    before: ProviderRecord | None,
    there: ProviderRecord | None,
    leave_out: Container[str],
) -> Iterator[WriteAspect]:
    for aspect in ASPECTS:
        mine = getattr(record, aspect)
        base = getattr(before, aspect) if before else None
        if mine is None or mine is base:
            continue
        mine = without_names(aspect, mine, leave_out)
        theirs = getattr(there, aspect) if there else None
        operation = WriteAspect(
            record.uuid,
            record.name,
            aspect,
            base,
            mine,
            theirs,
            before.generation if before else None,
        )
        if next(operation.differences(), None) is not None:
            yield operation


def without_names(aspect: Aspect, value: Any, leave_out: Container[str]) -> Any:
    """An inventory or traits without some classes or traits."""
    if aspect is Aspect.AGGREGATES:
        return value
    if not any(name in leave_out for name in value):
        return value
    if aspect is Aspect.TRAITS:
        return frozenset(name for name in value if name not in leave_out)
    return {name: record for name, record in value.items() if name not in leave_out}


def _top_down(uuids: Iterable[str], records: Mapping[str, ProviderRecord]) -> list[str]:
    def depth(uuid: str | None) -> int:
        steps = 0
        while uuid is not None and uuid in records and steps <= len(records):
            uuid = records[uuid].parent_uuid
            steps += 1
        return steps

    return sorted(uuids, key=depth)


def _split_deletes(
    deletes: list[DeleteProvider],
    takers: list[CreateProvider | RenameProvider],
    theirs: Mapping[str, ProviderRecord],
) -> tuple[list[DeleteProvider], list[DeleteProvider]]:
    """Delete early what holds a name that another provider is to take."""
    wanted = {operation.name for operation in takers}
    going = {operation.uuid for operation in deletes}
    early: set[str] = set()
    for operation in deletes:
        if operation.name in wanted:
            below = _descendants(operation.uuid, theirs)
            if below <= going:
                early |= below | {operation.uuid}
    return (
        [operation for operation in deletes if operation.uuid in early],
        [operation for operation in deletes if operation.uuid not in early],
    )


def _descendants(uuid: str, records: Mapping[str, ProviderRecord]) -> set[str]:
    found: set[str] = set()
    frontier = {uuid}
    while frontier:
        frontier = {u for u, r in records.items() if r.parent_uuid in frontier} - found
        found |= frontier
    return found


def _order_renames(renames: list[RenameProvider]) -> list[RenameProvider]:
    """Free a name before it is taken; break a ring with a name that is free.

    Placement checks that names are unique at every single request, so two
    providers that swap names need three renames.
    """
    waiting = {operation.old_name: operation for operation in renames}
    ordered: list[RenameProvider] = []
    while waiting:
        free = [op for op in waiting.values() if op.name not in waiting]
        if free:
            for operation in free:
                ordered.append(operation)
                del waiting[operation.old_name]
            continue
        operation = next(iter(waiting.values()))
        ordered.append(dataclasses.replace(operation, name=operation.uuid))
        del waiting[operation.old_name]
        waiting[operation.uuid] = dataclasses.replace(operation, old_name=operation.uuid)
    return ordered
