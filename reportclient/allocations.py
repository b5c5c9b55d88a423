# SPDX-License-Identifier: Apache-2.0
"""Who holds what of a tree, and taking it away before a tree is deleted."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from reportclient import exceptions, text
from reportclient import workers as workers_
from reportclient.api import ConsumerAllocations, PlacementAPI
from reportclient.engine import Engine

__all__ = ["from_dict", "of_providers", "release", "to_dict"]

LOG = text.logger(__name__)


def of_providers(
    api: PlacementAPI, engine: Engine, providers: Collection[str]
) -> dict[str, ConsumerAllocations]:
    """All that the consumers of some providers hold, there and elsewhere.

    Each consumer is read once. A consumer that went away meanwhile is left
    out.

    :raises ResourceProviderAllocationRetrievalFailed,
        ConsumerAllocationRetrievalFailed, PlacementUnavailable: see there.
    """
    listed = workers_.values(engine.workers.run(api.get_provider_allocations, list(providers)))
    consumers = sorted({consumer for part in listed for consumer in part.consumers})
    read = workers_.values(engine.workers.run(api.get_allocations, consumers))
    return {
        consumer: held for consumer, held in zip(consumers, read, strict=True) if held.resources
    }


def release(api: PlacementAPI, engine: Engine, providers: Collection[str]) -> list[str]:
    """Take away what consumers hold of some providers; the rest they keep.

    :returns: the consumers that held something.
    :raises ConcurrentUpdate: a consumer never stopped changing.
    :raises AllocationUpdateFailed, PlacementUnavailable: see there.
    """
    consumers = list(of_providers(api, engine, providers))
    going = frozenset(providers)

    def take(consumer: str) -> None:
        held = api.get_allocations(consumer)
        left = held.without(going)
        if left.resources != held.resources:
            api.put_allocations(consumer, left)
            LOG.info("Took %d providers' allocations from consumer %s.", len(going), consumer)

    def until_taken(consumer: str) -> None:
        # Reading first settles a write whose answer was lost.
        retrying, _ = engine.settling(consumers=True)
        retrying(take, consumer)

    workers_.values(engine.workers.run(until_taken, consumers))
    return consumers


def to_dict(allocations: Mapping[str, ConsumerAllocations]) -> dict[str, Any]:
    """As a driver is handed them: nova's shape, independent copies."""
    return {
        consumer: {
            "allocations": {
                uuid: {"resources": dict(resources)} for uuid, resources in held.resources.items()
            },
            "project_id": held.project_id,
            "user_id": held.user_id,
            "consumer_generation": held.consumer_generation,
        }
        for consumer, held in allocations.items()
    }


def from_dict(given: Mapping[str, Any]) -> dict[str, ConsumerAllocations]:
    """What a driver made of them.

    :raises InvalidInput: it is not of that shape; names consumer and field.
    """
    found: dict[str, ConsumerAllocations] = {}
    for consumer, part in given.items():
        try:
            found[consumer] = ConsumerAllocations(
                {
                    uuid: {
                        name: _amount(consumer, name, n) for name, n in held["resources"].items()
                    }
                    for uuid, held in part["allocations"].items()
                },
                part["project_id"],
                part["user_id"],
                part.get("consumer_generation"),
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise exceptions.InvalidInput(
                f"The allocations of consumer {consumer} are not of the shape that Placement "
                f"has: {error!r}",
                field="allocations",
                value=part,
            ) from error
    return found


def _amount(consumer: str, name: str, amount: Any) -> int:
    if isinstance(amount, bool) or not isinstance(amount, int) or amount < 0:
        raise exceptions.InvalidInput(
            f"Consumer {consumer}: {amount!r} of {name} is not a whole number of 0 or more.",
            resource_class=name,
            field="resources",
            value=amount,
        )
    return amount
