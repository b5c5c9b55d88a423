# SPDX-License-Identifier: Apache-2.0
"""What this process believes Placement holds. No I/O; `refresh` fills it.

Each aspect of a provider is remembered together with the generation of the
very answer that delivered it (promise P2). An aspect whose generation equals
the newest one seen for the provider is *current*; any other is read again
before it is written.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterable, Mapping
from typing import Any

from reportclient.snapshot import TreeSnapshot
from reportclient.types import ASPECTS, Aspect, Generation, ProviderRecord, ProviderSummary

__all__ = ["Cache", "CachedProvider", "CachedTree", "CachedTreeState"]

_EMPTY: Mapping[Aspect, Any] = {
    Aspect.INVENTORY: {},
    Aspect.AGGREGATES: frozenset(),
    Aspect.TRAITS: frozenset(),
}


@dataclasses.dataclass(frozen=True, slots=True)
class CachedProvider:
    """A provider and the generation that each aspect was read with.

    :ivar record: name, parent, values; ``record.generation`` is the newest
        generation that an answer showed.
    """

    record: ProviderRecord
    inventory_generation: Generation | None = None
    aggregates_generation: Generation | None = None
    traits_generation: Generation | None = None

    @classmethod
    def just_created(cls, summary: ProviderSummary) -> CachedProvider:
        """A provider that our own POST made: empty at that generation.

        Whatever anybody wrote since has moved the generation, so nothing need
        be read to know this.
        """
        record = ProviderRecord(
            summary.uuid,
            summary.name,
            summary.parent_uuid,
            summary.generation,
            {},
            frozenset(),
            frozenset(),
        )
        return cls(record, *(summary.generation for _ in ASPECTS))

    def generation_of(self, aspect: Aspect) -> Generation | None:
        """The generation that the aspect's value was read with."""
        generation: Generation | None = getattr(self, f"{aspect}_generation")
        return generation

    def value_of(self, aspect: Aspect) -> Any:
        """The aspect's value as it was last read; empty if it never was."""
        value = getattr(self.record, aspect)
        return _EMPTY[aspect] if value is None else value

    def is_current(self, aspect: Aspect) -> bool:
        """Whether the value is that of the newest generation seen."""
        generation = self.generation_of(aspect)
        return generation is not None and generation == self.record.generation

    def outdated(self) -> list[Aspect]:
        """The aspects that must be read before they may be relied on."""
        return [aspect for aspect in ASPECTS if not self.is_current(aspect)]

    def seen(self, summary: ProviderSummary, *, sharing: bool = False) -> CachedProvider:
        """With name, parent and newest generation as a listing showed them."""
        record = dataclasses.replace(
            self.record,
            name=summary.name,
            parent_uuid=None if sharing else summary.parent_uuid,
            generation=summary.generation,
            sharing=sharing,
        )
        return self if record == self.record else dataclasses.replace(self, record=record)

    def read(self, aspect: Aspect, value: Any, generation: Generation | None) -> CachedProvider:
        """With an aspect as a GET showed it."""
        newest = self.record.generation if generation is None else generation
        values = {"generation": newest, str(aspect): value}
        record = dataclasses.replace(self.record, **values)
        return self._at({aspect: generation}, record)

    def written(
        self, aspect: Aspect, value: Any, guard: Generation | None, generation: Generation | None
    ) -> CachedProvider:
        """With an aspect as our own write left it.

        The write was guarded by ``guard`` and succeeded, so nothing else
        changed between the two generations: every aspect that stood at the
        guard stands at the new generation too. An answer without a generation
        (aggregates below 1.19) moves nothing.
        """
        if generation is None:
            return self.read(aspect, value, None)
        moved = {
            other: generation
            for other in ASPECTS
            if guard is not None and self.generation_of(other) == guard
        }
        return self.read(aspect, value, generation)._at(moved)

    def outdate(self, aspect: Aspect) -> CachedProvider:
        """With one aspect to be read again: its generation is outdated."""
        return self._at({aspect: None})

    def doubted(self) -> CachedProvider:
        """With no aspect current: a write may or may not have been applied."""
        return CachedProvider(self.record)

    def _at(
        self,
        generations: Mapping[Aspect, Generation | None],
        record: ProviderRecord | None = None,
    ) -> CachedProvider:
        now = {aspect: generations.get(aspect, self.generation_of(aspect)) for aspect in ASPECTS}
        return CachedProvider(
            record or self.record,
            now[Aspect.INVENTORY],
            now[Aspect.AGGREGATES],
            now[Aspect.TRAITS],
        )


@dataclasses.dataclass(frozen=True)
class CachedTreeState:
    """A tree as it is kept over restarts."""

    root: str
    own: tuple[CachedProvider, ...]
    sharing: tuple[CachedProvider, ...]
    last_modified: str | None
    wrote: bool
    listings: int


class CachedTree:
    """One tree, and which sharing providers it sees. Owned by `Cache`."""

    __slots__ = (
        "due_at",
        "last_modified",
        "listings",
        "own",
        "root",
        "sharing",
        "snapshot",
        "wrote",
    )

    def __init__(self, root: str) -> None:
        self.root = root
        self.own: dict[str, CachedProvider] = {}
        self.sharing: frozenset[str] = frozenset()
        #: When the next refresh is due; None: at once; inf: when asked for.
        self.due_at: float | None = None
        self.last_modified: str | None = None
        #: Whether this process wrote to the tree since the last listing.
        self.wrote = False
        #: Listings since everything was last read afresh.
        self.listings = 0
        self.snapshot: TreeSnapshot | None = None


class Cache:
    """Trees by root. Every method is atomic; none does I/O.

    Readers get immutable snapshots, so what they hold never changes under
    them (P12). Cost does not depend on how many other trees there are.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._trees: dict[str, CachedTree] = {}
        self._root_of: dict[str, str] = {}
        self._names: dict[str, str] = {}
        self._sharing: dict[str, CachedProvider] = {}
        self._seen_by: dict[str, set[str]] = {}
        #: Counts what would change a copy of the cache in a file.
        self.changes = 0

    def renew_lock(self) -> None:
        """Take a new lock: after a fork, another thread may have held it."""
        self._lock = threading.Lock()

    # -- reading ----------------------------------------------------------

    def roots(self) -> list[str]:
        """The roots of all trees known."""
        with self._lock:
            return list(self._trees)

    def root_of(self, uuid: str) -> str | None:
        """The root of the tree that a provider is in, if it is known."""
        with self._lock:
            return self._root_of.get(uuid)

    def find(self, name_or_uuid: str) -> str | None:
        """The UUID of a provider of a known tree."""
        with self._lock:
            if name_or_uuid in self._root_of:
                return name_or_uuid
            return self._names.get(name_or_uuid)

    def provider(self, uuid: str) -> CachedProvider | None:
        """A provider of a known tree, or a sharing provider."""
        with self._lock:
            root = self._root_of.get(uuid)
            return self._trees[root].own[uuid] if root else self._sharing.get(uuid)

    def shared(self, uuid: str) -> CachedProvider | None:
        """A sharing provider that some tree sees."""
        with self._lock:
            return self._sharing.get(uuid)

    def is_due(self, uuid: str, now: float) -> bool:
        """Whether the provider's tree is unknown, or due for a refresh."""
        with self._lock:
            tree = self._trees.get(self._root_of.get(uuid, ""))
            return tree is None or tree.due_at is None or now >= tree.due_at

    def is_doubted(self, uuid: str) -> bool:
        """Whether the provider's tree is known, but must be listed before use."""
        with self._lock:
            tree = self._trees.get(self._root_of.get(uuid, ""))
            return tree is not None and tree.due_at is None

    def snapshot(self, uuid: str) -> TreeSnapshot | None:
        """The tree of a provider, then its sharing providers as lone roots.

        The same object is handed out until something of it changes.
        """
        with self._lock:
            tree = self._trees.get(self._root_of.get(uuid, ""))
            if tree is None:
                return None
            if tree.snapshot is None:
                records = [provider.record for provider in tree.own.values()]
                records += [self._sharing[shared].record for shared in tree.sharing]
                tree.snapshot = TreeSnapshot.build(records)
            return tree.snapshot

    def own(self, root: str) -> dict[str, CachedProvider]:
        """The providers of a tree (a copy), without the sharing ones."""
        with self._lock:
            tree = self._trees.get(root)
            return dict(tree.own) if tree else {}

    def sharing(self, root: str) -> dict[str, CachedProvider]:
        """The sharing providers that a tree sees (a copy)."""
        with self._lock:
            tree = self._trees.get(root)
            return {uuid: self._sharing[uuid] for uuid in tree.sharing} if tree else {}

    def listing_facts(self, root: str) -> tuple[str | None, bool, int]:
        """Last-Modified of the last listing, own writes since, listings counted."""
        with self._lock:
            tree = self._trees.get(root)
            return (tree.last_modified, tree.wrote, tree.listings) if tree else (None, False, 0)

    def size(self) -> int:
        """How many entries all tables hold together (for leak checks)."""
        with self._lock:
            tables = (self._trees, self._root_of, self._names, self._sharing, self._seen_by)
            return sum(len(table) for table in tables)

    def states(self) -> list[CachedTreeState]:
        """All trees, to be kept over a restart."""
        with self._lock:
            return [
                CachedTreeState(
                    tree.root,
                    tuple(tree.own.values()),
                    tuple(self._sharing[uuid] for uuid in tree.sharing),
                    tree.last_modified,
                    tree.wrote,
                    tree.listings,
                )
                for tree in self._trees.values()
            ]

    # -- changing ---------------------------------------------------------

    def restore(self, state: CachedTreeState) -> None:
        """Believe what an earlier process knew, once it has been listed."""
        self.install(
            state.root,
            state.own,
            state.sharing,
            due_at=None,
            last_modified=state.last_modified,
            listings=state.listings,
            wrote=state.wrote,
        )

    def install(
        self,
        root: str,
        own: Iterable[CachedProvider],
        sharing: Iterable[CachedProvider],
        *,
        due_at: float | None,
        last_modified: str | None,
        listings: int,
        wrote: bool = False,
    ) -> None:
        """Replace what is known of a tree by what a whole refresh found."""
        own_by_uuid = {provider.record.uuid: provider for provider in own}
        shared = {provider.record.uuid: provider for provider in sharing}
        with self._lock:
            tree = self._trees.get(root) or CachedTree(root)
            if tree.own != own_by_uuid or tree.sharing != shared.keys():
                tree.snapshot = None
                self.changes += 1
            elif tree.last_modified != last_modified:
                self.changes += 1
            self._drop_members(tree)
            # A provider may have come from another tree: that one is outdated.
            for uuid in own_by_uuid:
                former = self._root_of.get(uuid)
                if former is not None:
                    self._forget_tree(former)
            self._trees[root] = tree
            tree.own = own_by_uuid
            for uuid, provider in own_by_uuid.items():
                self._root_of[uuid] = root
                self._names[provider.record.name] = uuid
            tree.sharing = frozenset(shared)
            for uuid, provider in shared.items():
                self._seen_by.setdefault(uuid, set()).add(root)
                self._set_sharing(provider)
            tree.due_at = due_at
            tree.last_modified = last_modified
            tree.listings = listings
            tree.wrote = wrote

    def add(self, root: str, provider: CachedProvider, *, due_at: float) -> None:
        """Remember a provider that was just created in a tree."""
        uuid = provider.record.uuid
        with self._lock:
            tree = self._trees.get(root)
            if tree is None:
                tree = self._trees[root] = CachedTree(root)
                tree.due_at = due_at
            tree.own[uuid] = provider
            tree.snapshot = None
            tree.wrote = True
            self.changes += 1
            self._root_of[uuid] = root
            self._names[provider.record.name] = uuid

    def update(self, provider: CachedProvider, *, wrote: bool) -> None:
        """Remember a provider as an answer showed it; unknown ones are ignored.

        :param wrote: whether the answer was that of our own write.
        """
        uuid = provider.record.uuid
        with self._lock:
            self.changes += 1
            root = self._root_of.get(uuid)
            if root is not None:
                tree = self._trees[root]
                former = tree.own[uuid]
                tree.own[uuid] = provider
                if former.record is not provider.record:
                    tree.snapshot = None
                tree.wrote |= wrote
                if former.record.name != provider.record.name:
                    self._drop_name(former.record)
                    self._names[provider.record.name] = uuid
            elif uuid in self._sharing:
                self._set_sharing(provider)

    def remove(self, uuid: str) -> None:
        """Forget a provider that was deleted (and its tree, if it is a root)."""
        with self._lock:
            root = self._root_of.get(uuid)
            if root is None:
                return
            self.changes += 1
            if root == uuid:
                self._forget_tree(root)
                return
            tree = self._trees[root]
            del self._root_of[uuid]
            self._drop_name(tree.own.pop(uuid).record)
            tree.snapshot = None
            tree.wrote = True

    def make_due(self, uuid: str) -> None:
        """Have a provider's tree listed before it is used again."""
        with self._lock:
            tree = self._trees.get(self._root_of.get(uuid, ""))
            if tree is not None:
                tree.due_at = None

    def forget(self, uuid: str) -> None:
        """Forget the whole tree of a provider."""
        with self._lock:
            root = self._root_of.get(uuid)
            if root is not None:
                self._forget_tree(root)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self.changes += 1
            self._trees.clear()
            self._root_of.clear()
            self._names.clear()
            self._sharing.clear()
            self._seen_by.clear()

    # -- with the lock held -------------------------------------------------

    def _set_sharing(self, provider: CachedProvider) -> None:
        uuid = provider.record.uuid
        former = self._sharing.get(uuid)
        self._sharing[uuid] = provider
        if former is None or former.record is not provider.record:
            for root in self._seen_by.get(uuid, ()):
                if root in self._trees:
                    self._trees[root].snapshot = None

    def _drop_name(self, record: ProviderRecord) -> None:
        if self._names.get(record.name) == record.uuid:
            del self._names[record.name]

    def _drop_members(self, tree: CachedTree) -> None:
        for uuid, provider in tree.own.items():
            self._root_of.pop(uuid, None)
            self._drop_name(provider.record)
        for uuid in tree.sharing:
            seen_by = self._seen_by[uuid]
            seen_by.discard(tree.root)
            if not seen_by:
                del self._seen_by[uuid], self._sharing[uuid]

    def _forget_tree(self, root: str) -> None:
        self.changes += 1
        self._drop_members(self._trees.pop(root))
