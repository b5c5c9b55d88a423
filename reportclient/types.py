# SPDX-License-Identifier: Apache-2.0
"""The shared vocabulary: what a provider, an inventory and a generation are.

Pure data. Nothing here knows HTTP, the cache or the clock.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

__all__ = [
    "ASPECTS",
    "Aspect",
    "Context",
    "Generation",
    "Inventory",
    "InventoryRecord",
    "ProviderData",
    "ProviderRecord",
    "ProviderSummary",
    "Scope",
]

#: A resource provider generation: a token that Placement hands out. It is
#: compared with ``==`` and sent back, nothing else (Launchpad bug 1746075).
#: The type is ``object`` so that a type checker refuses arithmetic on it.
#: ``None`` means "not known", and what is not known is never sent.
Generation = object

#: One inventory record: ``total``, ``reserved``, ``min_unit``, ``max_unit``,
#: ``step_size`` (integers, in the resource class's unit) and
#: ``allocation_ratio`` (a number). A missing field means "no opinion".
InventoryRecord = Mapping[str, int | float]

#: The whole inventory of a provider: resource class name -> record.
Inventory = Mapping[str, InventoryRecord]


class Aspect(enum.StrEnum):
    """One of the three parts of a provider that its generation guards."""

    INVENTORY = "inventory"
    AGGREGATES = "aggregates"
    TRAITS = "traits"


#: The aspects in the order in which a flush writes them.
ASPECTS = (Aspect.INVENTORY, Aspect.AGGREGATES, Aspect.TRAITS)


class Context(Protocol):
    """What the client reads of a request context (OpenStack's convention).

    ``global_id`` is the global request id, ``req-`` and a UUID; it is sent
    with every request of the call. ``None`` may be given for a context.
    """

    @property
    def global_id(self) -> str | None: ...


class ProviderData(NamedTuple):
    """A point-in-time copy of one provider, as `ProviderTree.data` gives it.

    Changing the contained dicts and sets changes nothing in the tree.
    """

    uuid: str
    name: str
    generation: Generation | None
    parent_uuid: str | None
    inventory: dict[str, dict[str, Any]]
    traits: set[str]
    aggregates: set[str]
    resources: dict[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class ProviderRecord:
    """What a tree holds of one provider. Immutable, so trees share records.

    The mappings must not be changed once they are in a record.

    :ivar generation: the last generation seen for the provider, or ``None``.
    :ivar inventory: the inventory, or ``None`` when nobody has said anything
        about it (a provider made locally, its inventory never set).
    :ivar traits: trait names, or ``None`` likewise.
    :ivar aggregates: aggregate UUIDs, or ``None`` likewise.
    :ivar resources: nova's ``resources`` (opaque to this library), or
        ``None``.
    :ivar sharing: True for a sharing provider of somebody else's tree, which
        this tree shows as a root. Such a provider is never created, deleted,
        renamed or moved on account of this tree.
    """

    uuid: str
    name: str
    parent_uuid: str | None = None
    generation: Generation | None = None
    inventory: Inventory | None = None
    traits: frozenset[str] | None = None
    aggregates: frozenset[str] | None = None
    resources: Mapping[str, Any] | None = None
    sharing: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class ProviderSummary:
    """A provider as a listing, a GET or a POST of Placement answers it.

    :ivar root_uuid: ``None`` where the server is older than 1.14.
    """

    uuid: str
    name: str
    generation: Generation
    parent_uuid: str | None = None
    root_uuid: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The provider with the keys that Placement's API uses."""
        return {
            "uuid": self.uuid,
            "name": self.name,
            "generation": self.generation,
            "parent_provider_uuid": self.parent_uuid,
            "root_provider_uuid": self.root_uuid,
        }


class Scope(NamedTuple):
    """Which providers an agent with many roots lists at once, in a large cloud.

    Only what all the conditions hold for is listed.

    :ivar member_of: in any of these aggregates; empty: whatever they are in.
    :ivar required: with all of these traits.
    """

    member_of: frozenset[str] = frozenset()
    required: frozenset[str] = frozenset()
