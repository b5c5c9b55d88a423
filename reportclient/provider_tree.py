# SPDX-License-Identifier: Apache-2.0
"""The tree of resource providers that a driver is handed and edits.

`ProviderTree` can stand in for nova's: the same methods, arguments, results
and ``ValueError`` s. What it does otherwise:

* UUIDs are in normal form (lower case, dashes), in and out.
* A name or UUID that another provider of the tree has is refused, wherever it
  is (nova lets a root take another root's name).
* Numbers are compared as Placement stores them: 16 is 16.0, and ratios are of
  single precision.
* Any iterable does for traits and aggregates.
* Copying a tree costs nothing until the copy, or the original, is changed;
  look-ups and `data` cost the same however large the tree is.
* `rename`, `move`, `copy`, `to_dict`, `from_dict`, `render`.
"""

from __future__ import annotations

import copy
import dataclasses
import os
import threading
from collections.abc import Iterable, Mapping
from typing import Any, Self

import os_traits

from reportclient import exceptions
from reportclient.records import copied, data_of, inventory_changed, own_uuid, provider_uuid
from reportclient.snapshot import TreeSnapshot, check_parents, part_of
from reportclient.tree_formats import record_from_dict, record_to_dict, render_tree
from reportclient.types import Generation, Inventory, ProviderData, ProviderRecord
from reportclient.validation import uuid_or_text

__all__ = ["ProviderSubTree", "ProviderTree", "TreeSnapshot", "provider_uuid"]

# One lock for all trees, as in nova: it is only ever held for pure computing,
# and trees without a lock of their own can be copied and pickled as they are.
# Look-ups take it too: a state is changed in place, and a reader must not meet
# a provider that has lost its old name and has not got the new one.
_lock = threading.RLock()


def _before_fork() -> None:
    # The child gets the memory as it is, so nobody may be halfway in a tree.
    _lock.acquire()


def _after_fork_in_parent() -> None:
    _lock.release()


def _after_fork_in_child() -> None:
    global _lock
    _lock = threading.RLock()


os.register_at_fork(
    before=_before_fork,
    after_in_parent=_after_fork_in_parent,
    after_in_child=_after_fork_in_child,
)


class ProviderTree:
    """Providers in trees, for a driver to edit. See the module's text.

    Every method is atomic: many threads may use one tree. Where a provider is
    looked up, its name or its UUID will do, and ``ValueError`` is raised when
    there is none.
    """

    def __init__(self) -> None:
        self._state = TreeSnapshot()
        # False while the state is shared: a write copies it first.
        self._writable = True
        self._base: TreeSnapshot | None = None

    # -- snapshots and copies -----------------------------------------------

    @classmethod
    def from_snapshot(cls, snapshot: TreeSnapshot, base: TreeSnapshot | None = None) -> Self:
        """A tree of its own that begins as the snapshot. Costs nothing.

        :param base: what the tree is compared with when it is flushed.
        """
        tree = cls.__new__(cls)
        tree._state, tree._writable, tree._base = snapshot, False, base
        return tree

    def snapshot(self) -> TreeSnapshot:
        """The tree as it is now, never to change. Costs nothing.

        The same object is returned until the tree changes.
        """
        with _lock:
            self._writable = False
            return self._state

    @property
    def base(self) -> TreeSnapshot | None:
        """What the tree was when it was handed out or last flushed.

        ``None`` for a tree that was built by hand.
        """
        return self._base

    def rebase(self, base: TreeSnapshot) -> None:
        """Have the tree compared with another base when it is flushed."""
        self._base = base

    def copy(self) -> Self:
        """An independent tree with the same content and base. Costs nothing."""
        new = type(self).__new__(type(self))
        with _lock:
            self._writable = False
            new.__dict__.update(self.__dict__)
        return new

    def become(self, other: ProviderTree) -> None:
        """Take over another tree's content at once; the base stays.

        A driver that may fail halfway edits a `copy` and hands it over whole.
        """
        with _lock:
            self._state, self._writable = other.snapshot(), False

    def __copy__(self) -> Self:
        return self.copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.copy()

    def __getstate__(self) -> dict[str, Any]:
        with _lock:
            self._writable = False
            return self.__dict__.copy()

    # -- finding -----------------------------------------------------------------

    @property
    def roots(self) -> list[ProviderData]:
        """The providers without a parent, as `data` gives them."""
        with _lock:
            records = [self._state._records[root] for root in self._state._roots]
        return [data_of(record) for record in records]

    def get_provider_uuids(self, name_or_uuid: str | None = None) -> list[str]:
        """UUIDs of a provider and all below it (or of all), parents first.

        :raises ValueError: there is no such provider.
        """
        with _lock:
            top = None if name_or_uuid is None else self._find(name_or_uuid).uuid
            return self._state.top_down(top)

    def get_provider_uuids_in_tree(self, name_or_uuid: str) -> list[str]:
        """UUIDs of the whole tree that a provider is in, parents first.

        :raises ValueError: there is no such provider.
        """
        with _lock:
            return self._state.top_down(self._state.root_of(self._find(name_or_uuid).uuid))

    def exists(self, name_or_uuid: str) -> bool:
        """Whether the tree has such a provider."""
        with _lock:
            return self._state.find(name_or_uuid) is not None

    def data(self, name_or_uuid: str) -> ProviderData:
        """An independent copy of all that the tree says of a provider.

        :raises ValueError: there is no such provider.
        """
        return data_of(self._find(name_or_uuid))

    # -- providers ---------------------------------------------------------------

    def populate_from_iterable(self, provider_dicts: Iterable[Mapping[str, Any]]) -> None:
        """Add or replace providers, given as Placement lists them.

        A provider that is replaced loses its inventory, traits and
        aggregates, and all below it that is not in ``provider_dicts`` too.

        :param provider_dicts: dicts with ``uuid``, ``name``, ``generation``
            and ``parent_provider_uuid``, in any order.
        :raises ValueError: parents are neither in the tree nor in
            ``provider_dicts`` (it names them all), or a name is taken, or
            parents form a ring. Nothing has changed then.
        """
        coming = {}
        for given in provider_dicts or ():
            parent = given.get("parent_provider_uuid")
            record = ProviderRecord(
                uuid_or_text(given["uuid"]),
                given["name"],
                None if parent is None else uuid_or_text(parent),
                given.get("generation"),
            )
            coming[record.uuid] = record
        if not coming:
            return
        with _lock:
            known = self._state._records
            check_parents(coming, known)
            state = self._state.clone()
            for uuid in coming:
                if uuid in state._records:
                    state.remove(uuid)
            # In the order given, so that siblings stand as they do in nova.
            for record in coming.values():
                parent = record.parent_uuid
                if parent is not None and parent not in coming and parent not in state._records:
                    raise ValueError(
                        f"Provider {record.uuid} was to be put under {parent}, "
                        "which is replaced without being in the iterable."
                    )
                state.insert(record)
            self._state, self._writable = state, True

    def new_root(self, name: str, uuid: str | None, generation: Generation | None = None) -> str:
        """Add a provider without a parent.

        :param uuid: ``None`` makes a random one, as in nova.
        :returns: its UUID.
        :raises ValueError: another provider has the UUID or the name.
        """
        return self._add(ProviderRecord(own_uuid(uuid), name, None, generation))

    def new_child(
        self,
        name: str,
        parent: str,
        uuid: str | None = None,
        generation: Generation | None = None,
    ) -> str:
        """Add a provider under another one.

        :param parent: name or UUID of the parent.
        :param uuid: a random one by default; `provider_uuid` makes one that
            stays the same over restarts.
        :returns: its UUID.
        :raises ValueError: there is no such parent, or another provider has
            the UUID or the name.
        """
        with _lock:
            above = self._find(parent).uuid
            return self._add(ProviderRecord(own_uuid(uuid), name, above, generation))

    def remove(self, name_or_uuid: str) -> None:
        """Take a provider and all below it out of the tree.

        :raises ValueError: there is no such provider.
        """
        with _lock:
            found = self._find(name_or_uuid)
            self._own_state().remove(found.uuid)

    def rename(self, name_or_uuid: str, new_name: str) -> None:
        """Give a provider another name.

        :raises ValueError: there is no such provider, or another one has the
            name (or has it for a UUID).
        """
        with _lock:
            found = self._find(name_or_uuid)
            if found.name == new_name:
                return
            holder = self._state.find(new_name)
            if holder is not None and holder.uuid != found.uuid:
                raise ValueError(
                    f"The name {new_name!r}, wanted for {found.uuid}, belongs to {holder.uuid}."
                )
            self._own_state().rename(found.uuid, new_name)

    def move(self, name_or_uuid: str, new_parent: str | None) -> None:
        """Put a provider, and all below it, under another one.

        :param new_parent: name or UUID; ``None`` makes the provider a root.
        :raises ValueError: there is no such provider, or the new parent is
            the provider itself or below it.
        """
        with _lock:
            found = self._find(name_or_uuid)
            parent = None if new_parent is None else self._find(new_parent).uuid
            if parent == found.parent_uuid:
                return
            if parent is not None and self._is_at_or_below(parent, found.uuid):
                raise ValueError(
                    f"Provider {found.name!r} ({found.uuid}) cannot be moved under {parent}, "
                    "which is itself or below it: that would be a ring."
                )
            self._own_state().move(found.uuid, parent)

    def subtree(self, name_or_uuid: str) -> ProviderSubTree:
        """A tree of its own that holds one root and all below it.

        Its base is that part of this tree's base, so flushing it does not
        touch the rest.

        :raises ValueError: there is no such provider, or it has a parent.
        """
        with _lock:
            found = self._find(name_or_uuid)
            if found.parent_uuid is not None:
                raise ValueError(f"Provider {name_or_uuid} is not a root provider")
            new = ProviderSubTree(name_or_uuid)
            new._state, new._writable = part_of(self._state, found.uuid), False
            if new._state is self._state:
                self._writable = False
            if self._base is not None:
                unchanged = self._base is self._state
                new._base = new._state if unchanged else part_of(self._base, found.uuid)
            return new

    # -- inventory ---------------------------------------------------------------

    def has_inventory(self, name_or_uuid: str) -> bool:
        """Whether a provider has any inventory.

        :raises ValueError: there is no such provider.
        """
        return bool(self._find(name_or_uuid).inventory)

    def has_inventory_changed(self, name_or_uuid: str, inventory: Inventory) -> bool:
        """Whether an inventory differs from the one that a provider has.

        A *class* that is in only one of them is a change. A *field* that is
        missing from ``inventory`` is "no opinion", and by itself none.

        :raises ValueError: there is no such provider.
        """
        return inventory_changed(self._find(name_or_uuid).inventory or {}, inventory)

    def update_inventory(
        self, name_or_uuid: str, inventory: Inventory, generation: Generation | None = None
    ) -> bool:
        """Set a provider's inventory.

        :param inventory: resource class -> record with ``total`` and, where
            there is an opinion, ``reserved``, ``min_unit``, ``max_unit``,
            ``step_size``, ``allocation_ratio``. Checked when it is flushed.
        :param generation: drivers should not give one.
        :returns: whether it differs from what the provider had.
        :raises ValueError: there is no such provider.
        """
        with _lock:
            found = self._find(name_or_uuid)
            changed = inventory_changed(found.inventory or {}, inventory)
            if changed or found.inventory is None:
                stored = {name: copied(record) for name, record in inventory.items()}
                self._store(found, generation, inventory=stored)
            else:
                self._store(found, generation)
            return changed

    def has_sharing_provider(self, resource_class: str) -> bool:
        """Whether some provider of the tree shares inventory of a class.

        Such a one has the trait ``MISC_SHARES_VIA_AGGREGATE``.
        """
        with _lock:
            return any(
                resource_class in (record.inventory or ())
                and os_traits.MISC_SHARES_VIA_AGGREGATE in (record.traits or ())
                for record in self._state._records.values()
            )

    # -- traits ---------------------------------------------------------------------

    def has_traits(self, name_or_uuid: str, traits: Iterable[str]) -> bool:
        """Whether a provider has all of some traits (true if there are none).

        :raises ValueError: there is no such provider.
        """
        return (self._find(name_or_uuid).traits or frozenset()).issuperset(traits)

    def have_traits_changed(self, name_or_uuid: str, traits: Iterable[str]) -> bool:
        """Whether traits differ from those that a provider has.

        :raises ValueError: there is no such provider.
        """
        return (self._find(name_or_uuid).traits or frozenset()) != frozenset(traits)

    def update_traits(
        self, name_or_uuid: str, traits: Iterable[str], generation: Generation | None = None
    ) -> bool:
        """Set a provider's traits.

        :returns: whether they differ from what the provider had.
        :raises ValueError: there is no such provider.
        """
        return self._update_set(name_or_uuid, "traits", frozenset(traits), generation)

    def add_traits(self, name_or_uuid: str, *traits: str) -> None:
        """Add traits to a provider; those that it has are no error.

        :raises ValueError: there is no such provider (unless no trait is
            given: that is nothing to do, as in nova).
        """
        if not traits:
            return
        self._change_set(name_or_uuid, "traits", add=frozenset(traits))

    def remove_traits(self, name_or_uuid: str, *traits: str) -> None:
        """Take traits from a provider; those that it lacks are no error.

        :raises ValueError: there is no such provider (unless no trait is
            given: that is nothing to do, as in nova).
        """
        if not traits:
            return
        self._change_set(name_or_uuid, "traits", remove=frozenset(traits))

    # -- aggregates -------------------------------------------------------------------

    def in_aggregates(self, name_or_uuid: str, aggregates: Iterable[str]) -> bool:
        """Whether a provider is in all of some aggregates.

        :raises ValueError: there is no such provider.
        """
        there = self._find(name_or_uuid).aggregates or frozenset()
        return there.issuperset(map(uuid_or_text, aggregates))

    def have_aggregates_changed(self, name_or_uuid: str, aggregates: Iterable[str]) -> bool:
        """Whether aggregates differ from those that a provider is in.

        :raises ValueError: there is no such provider.
        """
        there = self._find(name_or_uuid).aggregates or frozenset()
        return there != frozenset(map(uuid_or_text, aggregates))

    def update_aggregates(
        self, name_or_uuid: str, aggregates: Iterable[str], generation: Generation | None = None
    ) -> bool:
        """Set the aggregates that a provider is in.

        :returns: whether they differ from what they were.
        :raises ValueError: there is no such provider.
        """
        new = frozenset(map(uuid_or_text, aggregates))
        return self._update_set(name_or_uuid, "aggregates", new, generation)

    def add_aggregates(self, name_or_uuid: str, *aggregates: str) -> None:
        """Put a provider into aggregates; those that it is in are no error.

        :raises ValueError: there is no such provider.
        """
        self._change_set(name_or_uuid, "aggregates", add=frozenset(map(uuid_or_text, aggregates)))

    def remove_aggregates(self, name_or_uuid: str, *aggregates: str) -> None:
        """Take a provider out of aggregates; those that it is not in are no error.

        :raises ValueError: there is no such provider.
        """
        gone = frozenset(map(uuid_or_text, aggregates))
        self._change_set(name_or_uuid, "aggregates", remove=gone)

    # -- resources ---------------------------------------------------------------------

    def update_resources(self, name_or_uuid: str, resources: Mapping[str, Any]) -> bool:
        """Set nova's ``resources`` of a provider: kept here, never sent.

        :returns: whether they differ from what they were.
        :raises ValueError: there is no such provider.
        """
        with _lock:
            found = self._find(name_or_uuid)
            if (found.resources or {}) == resources:
                return False
            self._store(found, None, resources=copy.deepcopy(dict(resources)))
            return True

    # -- as data and as text ---------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """The tree as plain data for JSON or YAML: see `from_dict`.

        nova's ``resources`` and the base are not in it.
        """
        with _lock:
            records = [self._state._records[uuid] for uuid in self._state.top_down()]
        return {"providers": [record_to_dict(record) for record in records]}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """A tree from what `to_dict` made; it has no base.

        :raises InvalidProviderTree: it is not of that shape, a parent is not
            in it, parents form a ring, or a name or UUID is there twice.
        """
        try:
            records: dict[str, ProviderRecord] = {}
            for given in content["providers"]:
                record = record_from_dict(given)
                if record.uuid in records:
                    raise ValueError(f"provider {record.uuid} is there twice")
                records[record.uuid] = record
            check_parents(records, ())
            snapshot = TreeSnapshot.build(records.values())
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise exceptions.InvalidProviderTree(
                f"This is not a provider tree: {error!r}", field="providers", value=content
            ) from error
        return cls.from_snapshot(snapshot)

    def render(self) -> str:
        """The tree as text, one provider a line and what it has below it."""
        with _lock:
            state, self._writable = self._state, False
        return "\n".join(line for root in state.roots for line in render_tree(state, root, "", ""))

    def __repr__(self) -> str:
        with _lock:
            names = [self._state._records[root].name for root in self._state._roots]
        return f"<{type(self).__name__} of {len(self._state)} providers, roots {names}>"

    # -- inside ---------------------------------------------------------------------------

    def _find(self, name_or_uuid: str) -> ProviderRecord:
        with _lock:
            found = self._state.find(name_or_uuid)
        if found is None:
            raise ValueError(f"No such provider {name_or_uuid}")
        return found

    def _own_state(self) -> TreeSnapshot:
        if not self._writable:
            self._state, self._writable = self._state.clone(), True
        return self._state

    def _is_at_or_below(self, uuid: str | None, top: str) -> bool:
        while uuid is not None and uuid != top:
            uuid = self._state._records[uuid].parent_uuid
        return uuid == top

    def _add(self, record: ProviderRecord) -> str:
        with _lock:
            holder = self._state.find(record.uuid) or self._state.find(record.name)
            if holder is not None:
                raise ValueError(
                    f"Provider {record.name!r} ({record.uuid}) already exists: "
                    f"there is {holder.name!r} ({holder.uuid})."
                )
            self._own_state().insert(record)
            return record.uuid

    def _store(self, found: ProviderRecord, generation: Generation | None, **values: Any) -> None:
        if generation is not None and generation != found.generation:
            values["generation"] = generation
        # A tree that is not changed keeps its state, so that nobody need look
        # into it to see that.
        if values:
            self._own_state().replace(dataclasses.replace(found, **values))

    def _update_set(
        self, name_or_uuid: str, field: str, new: frozenset[str], generation: Generation | None
    ) -> bool:
        with _lock:
            found = self._find(name_or_uuid)
            there = getattr(found, field)
            if there == new:
                self._store(found, generation)
            else:
                self._store(found, generation, **{field: new})
            return (there or frozenset()) != new

    def _change_set(
        self,
        name_or_uuid: str,
        field: str,
        *,
        add: frozenset[str] = frozenset(),
        remove: frozenset[str] = frozenset(),
    ) -> None:
        with _lock:
            found = self._find(name_or_uuid)
            there = getattr(found, field) or frozenset()
            new = (there | add) - remove
            # Unlike an update, this says nothing about the set as a whole: one
            # that was never set is not made an empty one.
            if new != there:
                self._store(found, None, **{field: new})


class ProviderSubTree(ProviderTree):
    """One root and all below it, as nova 34 names it.

    :param scope_rp_uuid: name or UUID of the root.
    """

    def __init__(self, scope_rp_uuid: str) -> None:
        super().__init__()
        self._scope_rp_uuid = scope_rp_uuid

    @classmethod
    def from_snapshot(cls, snapshot: TreeSnapshot, base: TreeSnapshot | None = None) -> Self:
        """A subtree that begins as the snapshot.

        :raises ValueError: it has not one root (sharing providers aside).
        """
        own = [root for root in snapshot.roots if not snapshot.records[root].sharing]
        if len(own) != 1:
            raise ValueError(f"A subtree has one root, not {len(own)}.")
        tree = super().from_snapshot(snapshot, base)
        tree._scope_rp_uuid = own[0]
        return tree

    @classmethod
    def scoped(cls, scope_rp_uuid: str, tree: ProviderTree) -> ProviderSubTree:
        """The whole of a tree, as a subtree of one of its providers."""
        new = cls(scope_rp_uuid)
        new._state, new._writable, new._base = tree.snapshot(), False, tree.base
        return new

    @property
    def scope_rp_uuid(self) -> str:
        """Name or UUID of the root."""
        return self._scope_rp_uuid
