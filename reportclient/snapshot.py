# SPDX-License-Identifier: Apache-2.0
"""A tree of providers at one point in time, with its indexes."""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Iterable, Mapping
from types import MappingProxyType

from reportclient.types import ProviderRecord
from reportclient.validation import uuid_or_text

__all__ = ["TreeSnapshot", "check_parents", "part_of"]


class TreeSnapshot:
    """A tree at one point in time. Never changes once it was handed out.

    :ivar records: the providers by UUID.
    """

    __slots__ = ("_by_name", "_children", "_records", "_roots")

    def __init__(self) -> None:
        self._records: dict[str, ProviderRecord] = {}
        self._by_name: dict[str, str] = {}
        self._children: dict[str, dict[str, None]] = {}
        self._roots: dict[str, None] = {}

    @classmethod
    def build(cls, records: Iterable[ProviderRecord]) -> TreeSnapshot:
        """A snapshot of some providers; a missing parent makes one a root.

        :raises ValueError: two of them have the same UUID or name.
        """
        snapshot = cls()
        records = list(records)
        known = {record.uuid for record in records}
        for record in records:
            if record.parent_uuid is not None and record.parent_uuid not in known:
                record = dataclasses.replace(record, parent_uuid=None)
            snapshot.insert(record)
        return snapshot

    @property
    def records(self) -> Mapping[str, ProviderRecord]:
        """The providers by UUID."""
        return MappingProxyType(self._records)

    @property
    def by_name(self) -> Mapping[str, str]:
        """The UUIDs by name."""
        return MappingProxyType(self._by_name)

    @property
    def roots(self) -> tuple[str, ...]:
        """The UUIDs of the providers without a parent."""
        return tuple(self._roots)

    def children(self, uuid: str) -> tuple[str, ...]:
        """The UUIDs of the providers right below one."""
        return tuple(self._children.get(uuid, ()))

    def top_down(self, uuid: str | None = None) -> list[str]:
        """A provider and all below it (or all there are), parents first."""
        found: list[str] = []
        waiting = list(reversed(self._roots)) if uuid is None else [uuid]
        while waiting:
            current = waiting.pop()
            found.append(current)
            waiting.extend(reversed(self._children.get(current, {})))
        return found

    def root_of(self, uuid: str) -> str:
        """The UUID of the root above a provider."""
        while (parent := self._records[uuid].parent_uuid) is not None:
            uuid = parent
        return uuid

    def find(self, name_or_uuid: str) -> ProviderRecord | None:
        """A provider by UUID, or else by name."""
        # Nearly all are asked for in normal form; only the rest is parsed.
        return (
            self._records.get(name_or_uuid)
            or self._records.get(self._by_name.get(name_or_uuid, ""))
            or self._records.get(uuid_or_text(name_or_uuid))
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TreeSnapshot):
            return NotImplemented
        return self is other or self._records == other._records

    __hash__ = None  # type: ignore[assignment]

    def __len__(self) -> int:
        return len(self._records)

    def __repr__(self) -> str:
        return f"<TreeSnapshot of {len(self._records)} providers>"

    # -- for the tree that owns it, before it is handed out --------------------

    def clone(self) -> TreeSnapshot:
        """A copy that may be changed; the records are shared."""
        new = TreeSnapshot()
        new._records = self._records.copy()
        new._by_name = self._by_name.copy()
        new._children = {parent: below.copy() for parent, below in self._children.items()}
        new._roots = self._roots.copy()
        return new

    def insert(self, record: ProviderRecord) -> None:
        """Add a provider.

        :raises ValueError: another one has its UUID or name.
        """
        if record.uuid in self._records:
            raise ValueError(
                f"Provider {record.uuid} already exists; it is "
                f"named {self._records[record.uuid].name!r}."
            )
        holder = self._by_name.get(record.name)
        if holder is not None:
            raise ValueError(
                f"Provider {record.name!r} already exists: the name, wanted for {record.uuid}, "
                f"belongs to {holder}."
            )
        self._records[record.uuid] = record
        self._by_name[record.name] = record.uuid
        self._siblings(record.parent_uuid)[record.uuid] = None

    def replace(self, record: ProviderRecord) -> None:
        """Put a new record in place of the one with its UUID (same name and parent)."""
        self._records[record.uuid] = record

    def rename(self, uuid: str, name: str) -> None:
        """Give a provider a name that nobody has."""
        record = self._records[uuid]
        del self._by_name[record.name]
        self._by_name[name] = uuid
        self._records[uuid] = dataclasses.replace(record, name=name)

    def move(self, uuid: str, parent: str | None) -> None:
        """Put a provider under another one."""
        record = self._records[uuid]
        self._leave(record)
        self._siblings(parent)[uuid] = None
        self._records[uuid] = dataclasses.replace(record, parent_uuid=parent)

    def remove(self, uuid: str) -> None:
        """Take a provider and all below it out."""
        self._leave(self._records[uuid])
        for gone in self.top_down(uuid):
            self._children.pop(gone, None)
            del self._by_name[self._records.pop(gone).name]

    def _siblings(self, parent: str | None) -> dict[str, None]:
        return self._roots if parent is None else self._children.setdefault(parent, {})

    def _leave(self, record: ProviderRecord) -> None:
        siblings = self._siblings(record.parent_uuid)
        del siblings[record.uuid]
        if not siblings and record.parent_uuid is not None:
            del self._children[record.parent_uuid]

    def __getstate__(self) -> tuple[ProviderRecord, ...]:
        return tuple(self._records[uuid] for uuid in self.top_down())

    def __setstate__(self, records: tuple[ProviderRecord, ...]) -> None:
        self.__init__()  # type: ignore[misc]
        for record in records:
            self.insert(record)


def part_of(state: TreeSnapshot, root: str) -> TreeSnapshot:
    """One root and all below it; the same object if there is nothing else."""
    if state.roots == (root,):
        return state
    if root not in state.records:
        return TreeSnapshot()
    return TreeSnapshot.build([state.records[uuid] for uuid in state.top_down(root)])


def check_parents(coming: Mapping[str, ProviderRecord], known: Container[str]) -> None:
    """Refuse parents that are nowhere, and rings.

    :raises ValueError: names all of them.
    """
    missing = {
        record.parent_uuid
        for record in coming.values()
        if record.parent_uuid is not None
        and record.parent_uuid not in coming
        and record.parent_uuid not in known
    }
    if missing:
        raise ValueError("The following parents were not found: " + ", ".join(sorted(missing)))
    done: set[str] = set()
    for record in coming.values():
        path: dict[str, None] = {}
        current: ProviderRecord | None = record
        while current is not None and current.uuid not in done:
            if current.uuid in path:
                raise ValueError(f"The parents of the following form a ring: {', '.join(path)}")
            path[current.uuid] = None
            current = coming.get(current.parent_uuid or "")
        done.update(path)
