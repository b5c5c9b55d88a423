# SPDX-License-Identifier: Apache-2.0
"""What a fake Placement holds, and the rules that it keeps. No HTTP.

Generations begin at random and jump at random: code that guesses them fails.
"""

from __future__ import annotations

import dataclasses
import random
import uuid as uuid_
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import os_resource_classes
import os_traits

__all__ = ["Consumer", "FakeState", "Provider", "Refusal"]

_DEFAULTS: Mapping[str, int | float] = {
    "reserved": 0,
    "min_unit": 1,
    "max_unit": 2147483647,
    "step_size": 1,
    "allocation_ratio": 1.0,
}
_UNDEFINED = "placement.undefined_code"
_CONCURRENT = "placement.concurrent_update"


class Refusal(Exception):
    """An answer other than 2xx."""

    def __init__(self, status: int, detail: str, code: str = _UNDEFINED) -> None:
        super().__init__(detail)
        self.status, self.detail, self.code = status, detail, code


@dataclasses.dataclass
class Provider:
    """A resource provider."""

    uuid: str
    name: str
    generation: int
    parent: str | None = None
    inventories: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)
    traits: set[str] = dataclasses.field(default_factory=set)
    aggregates: set[str] = dataclasses.field(default_factory=set)


@dataclasses.dataclass
class Consumer:
    """A consumer and what it holds: provider UUID -> class -> amount."""

    uuid: str
    generation: int
    project_id: str
    user_id: str
    type: str | None
    held: dict[str, dict[str, int]] = dataclasses.field(default_factory=dict)


class FakeState:
    """Providers, consumers, traits and classes.

    :param seed: for the generations.
    """

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)  # noqa: S311 - no secret
        self.providers: dict[str, Provider] = {}
        self.consumers: dict[str, Consumer] = {}
        self.traits: set[str] = set(os_traits.get_traits())
        self.classes: set[str] = set(os_resource_classes.STANDARDS)

    # -- generations --------------------------------------------------------------

    def first_generation(self) -> int:
        """A generation for something new."""
        return self._random.randrange(1, 2**31)

    def bump(self, uuid: str) -> None:
        """Move a provider's generation: somewhere else, not necessarily up."""
        provider = self.providers[uuid]
        former = provider.generation
        while provider.generation == former:
            provider.generation = self.first_generation()

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
        if parent == uuid:
            raise Refusal(400, "parent provider UUID cannot be the provider's own.")
        if parent is not None and parent not in self.providers:
            raise Refusal(400, f"parent provider UUID '{parent}' does not exist.")
        if uuid in self.providers or self.by_name(name) is not None:
            raise Refusal(
                409,
                f"Conflicting resource provider name: {name} already exists.",
                "placement.duplicate_name",
            )
        self.providers[uuid] = Provider(uuid, name, self.first_generation(), parent)
        return self.providers[uuid]

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
        """Rename or move a provider."""
        provider = self.provider(uuid)
        parent = changes.get("parent", provider.parent)
        name = changes.get("name", provider.name)
        if parent != provider.parent:
            if provider.parent is not None and not may_move:
                what = "un-parenting" if parent is None else "re-parenting"
                raise Refusal(400, f"Unable to save resource provider: {what} is not allowed")
            if parent is not None and parent not in self.providers:
                raise Refusal(400, f"parent provider UUID {parent} does not exist.")
            if parent is not None and parent in self.below(uuid):
                raise Refusal(400, "creating loop in the provider tree is not allowed.")
        holder = self.by_name(name)
        if holder is not None and holder.uuid != uuid:
            raise Refusal(
                409,
                f"Conflicting resource provider name: {name} already exists.",
                "placement.duplicate_name",
            )
        provider.name, provider.parent = name, parent

    def delete_provider(self, uuid: str) -> None:
        """Delete a provider that nobody uses."""
        provider = self.provider(uuid)
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
        del self.providers[provider.uuid]

    # -- aspects -------------------------------------------------------------------------

    def check_generation(self, uuid: str, generation: object) -> Provider:
        """The provider, if it still stands at a generation."""
        provider = self.provider(uuid)
        if provider.generation != generation:
            raise Refusal(409, "resource provider generation conflict", _CONCURRENT)
        return provider

    def check_inventories(
        self, inventories: Mapping[str, Mapping[str, Any]], *, full_reserve: bool
    ) -> dict[str, dict[str, Any]]:
        """Inventories with all fields; refuses what the service refuses."""
        for name, record in inventories.items():
            if name not in self.classes:
                raise Refusal(400, f"Unknown resource class in inventory: No such class {name}.")
            reserved = record.get("reserved", 0)
            if reserved > record["total"] or (reserved == record["total"] and not full_reserve):
                raise Refusal(400, f"Invalid inventory for '{name}': reserved is too much.")
        return {name: {**_DEFAULTS, **record} for name, record in inventories.items()}

    def set_inventories(self, uuid: str, inventories: dict[str, dict[str, Any]]) -> None:
        """Replace a provider's inventory."""
        provider = self.provider(uuid)
        used = self.usages(uuid)
        for name in provider.inventories.keys() - inventories.keys():
            if used.get(name):
                raise Refusal(
                    409,
                    f"Inventory for '{name}' on resource provider '{uuid}' in use.",
                    "placement.inventory.inuse",
                )
        provider.inventories = inventories
        self.bump(uuid)

    def set_traits(self, uuid: str, traits: Iterable[str]) -> None:
        """Replace a provider's traits; the same ones do not move its generation."""
        provider = self.provider(uuid)
        wanted = set(traits)
        if missing := wanted - self.traits:
            raise Refusal(400, f"No such trait {', '.join(sorted(missing))}")
        if wanted != provider.traits:
            provider.traits = wanted
            self.bump(uuid)

    def usages(self, uuid: str) -> dict[str, int]:
        """How much of each class is in use."""
        used = dict.fromkeys(self.provider(uuid).inventories, 0)
        for consumer in self.consumers.values():
            for name, amount in consumer.held.get(uuid, {}).items():
                used[name] = used.get(name, 0) + amount
        return used

    # -- allocations -----------------------------------------------------------------------

    def check_consumer(self, uuid: str, generation: object) -> None:
        """Refuse an outdated consumer generation; ``None``: must be new."""
        known = self.consumers.get(uuid)
        there = known.generation if known else None
        if there != generation:
            raise Refusal(
                409,
                f"consumer generation conflict - expected {there} but got {generation}",
                _CONCURRENT,
            )

    def check_allocations(self, wanted: Mapping[str, Mapping[str, Mapping[str, int]]]) -> None:
        """Refuse what does not fit beside all other consumers."""
        for consumer, held in wanted.items():
            for uuid in held:
                if uuid not in self.providers:
                    self._remember_phantom(consumer)
                    raise Refusal(
                        400, f"Allocation for resource provider '{uuid}' that does not exist."
                    )
        for _, name in _classes_of(wanted):
            if name not in self.classes:
                raise Refusal(400, f"No such resource class {name}.")
        for uuid, name in _classes_of(wanted):
            others = sum(
                other.held.get(uuid, {}).get(name, 0)
                for other in self.consumers.values()
                if other.uuid not in wanted
            )
            amounts = [held[uuid][name] for held in wanted.values() if name in held.get(uuid, {})]
            self._check_capacity(uuid, name, others, amounts)

    def _check_capacity(self, uuid: str, name: str, others: int, amounts: list[int]) -> None:
        record = self.providers[uuid].inventories.get(name)
        if record is None:
            raise Refusal(409, f"Unable to allocate inventory: no inventory of {name} on {uuid}")
        capacity = int((record["total"] - record["reserved"]) * record["allocation_ratio"])
        for amount in amounts:
            if (
                amount < record["min_unit"]
                or amount > record["max_unit"]
                or amount % record["step_size"]
            ):
                raise Refusal(409, f"Unable to allocate inventory: {name} violates constraints")
        if others + sum(amounts) > capacity:
            raise Refusal(
                409,
                f"Unable to allocate inventory: {name} on {uuid}. The requested amount "
                "would exceed the capacity.",
            )

    def store_allocations(
        self,
        uuid: str,
        held: Mapping[str, Mapping[str, int]],
        *,
        project_id: str,
        user_id: str,
        type_: str | None,
    ) -> None:
        """Replace what a consumer holds; nothing: the consumer goes away."""
        known = self.consumers.get(uuid)
        for provider in held:
            self.bump(provider)
        if not held:
            if known is not None and known.held:
                del self.consumers[uuid]
            else:
                self._remember_phantom(uuid)
            return
        kept = known.type if known and type_ is None else type_
        self.consumers[uuid] = Consumer(
            uuid,
            self._next(known.generation if known else None),
            project_id,
            user_id,
            kept,
            {provider: dict(resources) for provider, resources in held.items()},
        )

    def _remember_phantom(self, uuid: str) -> None:
        """The service keeps a consumer that never came to hold anything (LP 1778576)."""
        if uuid not in self.consumers:
            self.consumers[uuid] = Consumer(uuid, self.first_generation(), "", "", None)

    def _next(self, former: int | None) -> int:
        while (generation := self.first_generation()) == former:
            pass
        return generation


def _classes_of(
    wanted: Mapping[str, Mapping[str, Mapping[str, int]]],
) -> Iterator[tuple[str, str]]:
    seen = dict.fromkeys(
        (uuid, name)
        for held in wanted.values()
        for uuid, resources in held.items()
        for name in resources
    )
    yield from seen
