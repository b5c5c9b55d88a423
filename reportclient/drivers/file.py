# SPDX-License-Identifier: Apache-2.0
"""A desired tree from a file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import os_traits

from reportclient import exceptions
from reportclient.drivers.desired import NODENAME, DesiredProvider, load
from reportclient.provider_tree import ProviderTree, provider_uuid

__all__ = ["FileDriver"]


class FileDriver:
    """Reports what a YAML or JSON file says: see `reportclient.drivers.desired.load`.

    What the file does not mention is left alone: an aspect that is not in it
    is not touched, and of providers that are not in it only those are removed
    that this driver made. It knows them by their owner trait, which it gives
    to every child that it makes. The file is read again whenever it has
    changed; a file with faults raises and changes nothing.

    :param path: the file.
    :param owner: who owns what is made: the trait is ``OWNER_<owner>`` where
        os-traits has it, and ``CUSTOM_OWNER_<owner>`` otherwise. Two drivers
        for one tree need two owners.
    :param prune: also remove children that somebody else made and that are
        not in the file (never sharing providers).
    :raises InvalidTrait: the owner cannot be part of a trait's name.
    """

    def __init__(self, path: str | Path, *, owner: str = "FILE", prune: bool = False) -> None:
        self._path = Path(path)
        self._prune = prune
        if not re.fullmatch(r"[A-Z0-9_]{1,200}", owner):
            raise exceptions.InvalidTrait(
                f"owner {owner!r} is not 1 to 200 of A-Z, 0-9 and _.", field="owner", value=owner
            )
        standard = f"OWNER_{owner}"
        self.owner_trait = (
            standard if standard in os_traits.get_traits("OWNER_") else f"CUSTOM_{standard}"
        )
        self._read: tuple[tuple[int, int] | None, DesiredProvider] | None = None

    def update_provider_tree(
        self,
        provider_tree: ProviderTree,
        nodename: str,
        allocations: Mapping[str, Any] | None = None,
    ) -> None:
        """Make the tree say what the file says. See `reportclient.Driver`.

        :raises InvalidProviderTree: the file has faults; all of them are in
            ``errors``, and the tree is as it was.
        """
        del allocations  # A file cannot say what moves where.
        desired = self._desired()
        edited = provider_tree.copy()
        root = edited.data(nodename).uuid
        named = desired.name.replace(NODENAME, nodename)
        if named != nodename or desired.uuid not in (None, root):
            raise exceptions.InvalidProviderTree(
                f"{self._path}: the provider is {named!r} ({desired.uuid}), and the node is "
                f"{nodename!r} ({root}).",
                provider=named,
                field="name",
                value=desired.name,
            )
        wanted = {root}
        self._apply(edited, root, desired)
        self._apply_children(edited, root, root, desired, nodename, wanted)
        for uuid in reversed(edited.get_provider_uuids(root)):
            if uuid not in wanted and not set(edited.get_provider_uuids(uuid)) & wanted:
                own = self.owner_trait in edited.data(uuid).traits
                below = edited.get_provider_uuids(uuid)[1:]
                if self._prune or (own and not below):
                    edited.remove(uuid)
        provider_tree.become(edited)

    def _apply_children(
        self,
        tree: ProviderTree,
        root: str,
        parent: str,
        desired: DesiredProvider,
        nodename: str,
        wanted: set[str],
    ) -> None:
        for child in desired.children:
            name = child.name.replace(NODENAME, nodename)
            uuid = child.uuid or (
                tree.data(name).uuid if tree.exists(name) else provider_uuid(root, "file", name)
            )
            made = not tree.exists(uuid)
            if made:
                tree.new_child(name, parent, uuid=uuid)
            else:
                tree.rename(uuid, name)
                tree.move(uuid, parent)
            own = made or self.owner_trait in tree.data(uuid).traits
            wanted.add(uuid)
            self._apply(tree, uuid, child)
            if own:
                tree.add_traits(uuid, self.owner_trait)
            self._apply_children(tree, root, uuid, child, nodename, wanted)

    @staticmethod
    def _apply(tree: ProviderTree, uuid: str, desired: DesiredProvider) -> None:
        if desired.inventory is not None:
            tree.update_inventory(uuid, desired.inventory)
        if desired.traits is not None:
            tree.update_traits(uuid, desired.traits)
        if desired.aggregates is not None:
            tree.update_aggregates(uuid, desired.aggregates)

    def _desired(self) -> DesiredProvider:
        try:
            status = self._path.stat()
            state = (status.st_mtime_ns, status.st_size)
        except OSError:
            state = None  # Reading it says what is wrong.
        if self._read is None or self._read[0] != state or state is None:
            self._read = (state, load(self._path))
        return self._read[1]
