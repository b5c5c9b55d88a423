# SPDX-License-Identifier: Apache-2.0
"""What a fake Placement holds, and the rules that it keeps. No HTTP.

Generations begin at random and jump at random: code that guesses them fails.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import random
import time
import uuid as uuid_
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import os_resource_classes
import os_traits

__all__ = ["CONCURRENT", "Consumer", "FakeState", "Provider", "Refusal", "UnknownClass"]

CONCURRENT = "placement.concurrent_update"
_UNDEFINED = "placement.undefined_code"
_DEFAULTS: Mapping[str, int | float] = {
    "reserved": 0,
    "min_unit": 1,
    "max_unit": 2147483647,
    "step_size": 1,
    "allocation_ratio": 1.0,
}


class Refusal(Exception):
    """An answer other than 2xx.

    :ivar detail: what the service says, without its opening phrase.
    :ivar allow: the methods that a route has, where another was used.
    """

    def __init__(
        self, status: int, detail: str = "", code: str = _UNDEFINED, allow: str | None = None
    ) -> None:
        super().__init__(detail)
        self.status, self.detail, self.code, self.allow = status, detail, code, allow


class UnknownClass(Refusal):
    """A resource class that is not there; every route words it differently."""

    def __init__(self, name: str) -> None:
        super().__init__(404, f"No such resource class {name}.")


@dataclasses.dataclass
class Provider:
    """A resource provider.

    :ivar created: when, in seconds since the epoch.
    :ivar updated: when its name, parent or generation last changed.
    :ivar inventories_written: when its inventory was last written.
    """

    uuid: str
    name: str
    generation: int
    parent: str | None = None
    inventories: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)
    traits: set[str] = dataclasses.field(default_factory=set)
    aggregates: set[str] = dataclasses.field(default_factory=set)
    created: float = 0.0
    updated: float | None = None
    inventories_written: float = 0.0

    @property
    def modified(self) -> float:
        """When anything of it last changed."""
        return self.created if self.updated is None else self.updated


@dataclasses.dataclass
class Consumer:
    """A consumer and what it holds: provider UUID -> class -> amount.

    :ivar type: ``None`` for one that was never written at 1.38 or newer.
    """

    uuid: str
    generation: int
    project_id: str
    user_id: str
    type: str | None
    held: dict[str, dict[str, int]] = dataclasses.field(default_factory=dict)
    modified: float = 0.0


class FakeState:
    """Providers, consumers, traits and classes.

    :param seed: for the generations.
    :param clock: seconds since the epoch, for ``Last-Modified``.
    """

    def __init__(self, seed: int = 0, clock: Callable[[], float] = time.time) -> None:
        self._random = random.Random(seed)  # noqa: S311 - no secret
        self.clock = clock
        self.providers: dict[str, Provider] = {}
        self.consumers: dict[str, Consumer] = {}
        #: Trait -> when it was made.
        self.traits: dict[str, float] = dict.fromkeys(os_traits.get_traits(), clock())
        #: Class -> when it was made (the service does not say of standard ones).
        self.classes: dict[str, float | None] = dict.fromkeys(os_resource_classes.STANDARDS)

    @contextlib.contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """Take back what the block did to providers and consumers if it refuses."""
        providers, consumers = copy.deepcopy((self.providers, self.consumers))
        try:
            yield
        except Refusal:
            _restore(self.providers, providers)
            _restore(self.consumers, consumers)
            raise

    # -- generations --------------------------------------------------------------

    def new_generation(self, former: int | None = None) -> int:
        """A generation: somewhere else than the former one, not necessarily up."""
        while (generation := self._random.randrange(1, 2**31)) == former:
            pass
        return generation

    def bump(self, uuid: str) -> None:
        """Move a provider's generation."""
        provider = self.providers[uuid]
        provider.generation = self.new_generation(provider.generation)
        provider.updated = self.clock()

    def check_generation(self, uuid: str, generation: object, detail: str) -> Provider:
        """The provider, if it still stands at a generation."""
        provider = self.provider(uuid)
        if provider.generation != generation:
            raise Refusal(409, detail, CONCURRENT)
        return provider

    # -- providers ---------------------------------------------------------------------

    def provider(self, uuid: str) -> Provider:
        """A provider that exists."""
        if uuid not in self.providers:
            raise Refusal(404, f"No resource provider with uuid {uuid} found")
        return self.providers[uuid]

    def add_provider(
        self, name: str, uuid: str | None = None, parent: str | None = None
    ) -> Provider:
        """Create a provider."""
        uuid = uuid or str(uuid_.uuid4())
        self._check_new(name, uuid, parent)
        now = self.clock()
        provider = Provider(uuid, name, self.new_generation(), parent, created=now)
        if parent is None:
            # The service writes a root twice: it is its own root.
            provider.updated = now
        self.providers[uuid] = provider
        return provider

    def _check_new(self, name: str, uuid: str, parent: str | None) -> None:
        problem = None
        if not name:
            problem = "name is required"
        elif parent == uuid:
            problem = (
                "parent provider UUID cannot be same as UUID. Please set parent provider "
                "UUID to None if there is no parent."
            )
        elif parent is not None and parent not in self.providers:
            problem = "parent provider UUID does not exist."
        if problem:
            why = f"Object action create failed because: {problem}"
            raise Refusal(400, f'Unable to create resource provider "{name}", {uuid}: {why}')
        # Where both are taken, the text depends on the database: SQLite's.
        for what, value, taken in (
            ("name", name, self.by_name(name) is not None),
            ("uuid", uuid, uuid in self.providers),
        ):
            if taken:
                raise self._duplicate(f"{what}: {value}")

    @staticmethod
    def _duplicate(what: str) -> Refusal:
        detail = f"Conflicting resource provider {what} already exists."
        return Refusal(409, detail, "placement.duplicate_name")

    def by_name(self, name: str) -> Provider | None:
        """The provider that has a name."""
        return next((p for p in self.providers.values() if p.name == name), None)

    def root_of(self, uuid: str) -> str:
        """The root of a provider's tree."""
        while (parent := self.providers[uuid].parent) is not None:
            uuid = parent
        return uuid

    def below(self, uuid: str) -> set[str]:
        """A provider and all below it."""
        found = {uuid}
        while more := {p.uuid for p in self.providers.values() if p.parent in found} - found:
            found |= more
        return found

    def update_provider(self, uuid: str, changes: Mapping[str, Any], *, may_move: bool) -> None:
        """Rename or move a provider. Its generation stays."""
        provider = self.provider(uuid)
        parent = changes.get("parent", provider.parent)
        name = changes["name"]
        if problem := self._why_not_move(provider, parent, may_move=may_move):
            raise Refusal(400, f"Unable to save resource provider {uuid}: Object action {problem}")
        holder = self.by_name(name)
        if holder is not None and holder.uuid != uuid:
            raise self._duplicate(name)
        former_root = self.root_of(uuid)
        changed = {uuid} if (name, parent) != (provider.name, provider.parent) else set()
        provider.name, provider.parent = name, parent
        if self.root_of(uuid) != former_root:
            # Each knows its root.
            changed |= self.below(uuid)
        for each in changed:
            self.providers[each].updated = self.clock()

    def _why_not_move(
        self, provider: Provider, parent: str | None, *, may_move: bool
    ) -> str | None:
        if parent is not None and parent not in self.providers:
            return "create failed because: parent provider UUID does not exist."
        if parent != provider.parent and provider.parent is not None and not may_move:
            what = "un-parenting" if parent is None else "re-parenting"
            return f"update failed because: {what} a provider is not currently allowed."
        if parent is not None and parent in self.below(provider.uuid):
            return "update failed because: creating loop in the provider tree is not allowed."
        return None

    def delete_provider(self, uuid: str) -> None:
        """Delete a provider that nobody uses."""
        self.provider(uuid)
        if any(child.parent == uuid for child in self.providers.values()):
            raise Refusal(
                409,
                f"Unable to delete parent resource provider {uuid}: "
                "It has child resource providers.",
                "placement.resource_provider.cannot_delete_parent",
            )
        if any(uuid in consumer.held for consumer in self.consumers.values()):
            raise Refusal(
                409,
                f"Unable to delete resource provider {uuid}: Resource provider has allocations.",
                "placement.resource_provider.inuse",
            )
        del self.providers[uuid]

    # -- aspects -------------------------------------------------------------------------

    def complete(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """An inventory record with every field."""
        return {**_DEFAULTS, **record}

    def set_inventories(self, uuid: str, inventories: Mapping[str, dict[str, Any]]) -> None:
        """Replace a provider's inventory (records with every field).

        :raises UnknownClass: a class is not there.
        :raises Refusal: 409, a class that is in use would go.
        """
        provider = self.provider(uuid)
        for name in inventories:
            self.check_class(name)
        used = self.usages(uuid)
        gone = [n for n in self.classes if n in provider.inventories and n not in inventories]
        if in_use := [name for name in gone if used[name]]:
            names = ", ".join(in_use)
            raise Refusal(
                409,
                f"Inventory for '{names}' on resource provider '{uuid}' in use.",
                "placement.inventory.inuse",
            )
        provider.inventories = {name: dict(record) for name, record in inventories.items()}
        provider.inventories_written = self.clock()
        self.bump(uuid)

    def set_aggregates(self, uuid: str, aggregates: Iterable[str], *, bump: bool) -> None:
        """Replace a provider's aggregates."""
        self.provider(uuid).aggregates = set(aggregates)
        if bump:
            self.bump(uuid)

    def set_traits(self, uuid: str, traits: Iterable[str]) -> None:
        """Replace a provider's traits; the same ones do not move its generation."""
        provider = self.provider(uuid)
        wanted = set(traits)
        if missing := wanted - self.traits.keys():
            raise Refusal(400, f"No such trait {', '.join(sorted(missing))}")
        if wanted != provider.traits:
            provider.traits = wanted
            self.bump(uuid)

    def usages(self, uuid: str) -> dict[str, int]:
        """How much of each class of a provider's inventory is in use."""
        used = dict.fromkeys(self.provider(uuid).inventories, 0)
        for consumer in self.consumers.values():
            for name, amount in consumer.held.get(uuid, {}).items():
                used[name] = used.get(name, 0) + amount
        return used

    # -- names -----------------------------------------------------------------------------

    def check_class(self, name: str) -> None:
        """Refuse a resource class that is not there."""
        if name not in self.classes:
            raise UnknownClass(name)

    def rename_class(self, former: str, name: str) -> None:
        """Give a custom class another name, wherever it is used."""
        self.classes = {name if key == former else key: at for key, at in self.classes.items()}
        for provider in self.providers.values():
            _rename(provider.inventories, former, name)
        for consumer in self.consumers.values():
            for held in consumer.held.values():
                _rename(held, former, name)

    def delete_class(self, name: str) -> None:
        """Delete a custom class that no inventory has."""
        self.check_class(name)
        start = "Error in delete resource class: Cannot delete"
        if not name.startswith("CUSTOM_"):
            raise Refusal(400, f"{start} standard resource class {name}.")
        if any(name in provider.inventories for provider in self.providers.values()):
            raise Refusal(409, f"{start} resource class {name}. Class is in use in inventory.")
        del self.classes[name]

    def delete_trait(self, name: str) -> None:
        """Delete a custom trait that no provider has."""
        if name not in self.traits:
            raise Refusal(404, f"No such trait(s): {name}.")
        if not name.startswith("CUSTOM_"):
            raise Refusal(400, f"Cannot delete standard trait {name}.")
        if any(name in provider.traits for provider in self.providers.values()):
            raise Refusal(409, f"The trait {name} is in use by a resource provider.")
        del self.traits[name]


def _restore(now: dict[str, Any], before: dict[str, Any]) -> None:
    """Put back what was there; objects that somebody holds stay the same ones."""
    for uuid, kept in before.items():
        vars(now.setdefault(uuid, kept)).update(vars(kept))


def _rename(mapping: dict[str, Any], former: str, name: str) -> None:
    if former in mapping:
        mapping[name] = mapping.pop(former)
