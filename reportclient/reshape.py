# SPDX-License-Identifier: Apache-2.0
"""Moving inventory that is in use to other providers, in one transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from reportclient import exceptions, merge, text
from reportclient import workers as workers_
from reportclient.api import AspectValue, ConsumerAllocations, PlacementAPI
from reportclient.cache import CachedProvider
from reportclient.engine import Engine
from reportclient.plan import DeleteProvider, WriteAspect
from reportclient.refresh import read_aspect
from reportclient.result import SyncResult
from reportclient.types import Aspect, Inventory

__all__ = ["reshape"]

LOG = text.logger(__name__)


def reshape(
    writes: Sequence[WriteAspect],
    deletes: Sequence[DeleteProvider],
    allocations: Mapping[str, ConsumerAllocations],
    api: PlacementAPI,
    engine: Engine,
    result: SyncResult,
) -> None:
    """Write inventories and allocations at once; providers to be deleted are emptied.

    The providers exist already. A normal return guarantees that Placement
    held all of it. Otherwise none of it was written.

    :param writes: the inventories that change.
    :param deletes: the providers that will be deleted.
    :param allocations: all that each consumer that changes holds.
    :raises PlacementReshapeConflict: a generation is outdated, or somebody
        holds what is to be moved.
    :raises ResourceProviderUpdateConflict: both sides changed an inventory.
    :raises ReshapeFailed: Placement refused.
    :raises PlacementUnavailable: it could not be reached.
    """
    wanted: dict[str, AspectValue[Inventory]] = {}
    for operation in writes:
        provider = _current(operation.uuid, api, engine)
        theirs = provider.value_of(Aspect.INVENTORY)
        merged = merge.merge_inventory(operation.base, operation.mine, theirs)
        if merged.clashes:
            raise exceptions.ResourceProviderUpdateConflict(
                f"{operation.name} ({operation.uuid}) was changed by two writers: "
                + "; ".join(map(str, merged.clashes)),
                provider=operation.uuid,
            )
        wanted[operation.uuid] = AspectValue(
            merged.value, provider.generation_of(Aspect.INVENTORY)
        )
    for gone in deletes:
        provider = _current(gone.uuid, api, engine)
        if provider.value_of(Aspect.INVENTORY):
            wanted[gone.uuid] = AspectValue({}, provider.generation_of(Aspect.INVENTORY))
    names = {name for part in wanted.values() for name in part.value}
    engine.names.ensure_classes(api, names)
    _send(wanted, allocations, api, engine, result)
    for uuid, part in wanted.items():
        known = engine.cache.provider(uuid)
        if known is not None:
            # Which generation it stands at now was not said: it is read when needed.
            stored = known.read(Aspect.INVENTORY, part.value, known.record.generation).doubted()
            engine.cache.update(stored, wrote=True)
    for operation in writes:
        result.of(operation.uuid, operation.name).written.add(Aspect.INVENTORY)
    LOG.info("Reshaped %d providers and %d consumers.", len(wanted), len(allocations))


def _current(uuid: str, api: PlacementAPI, engine: Engine) -> CachedProvider:
    provider = engine.cache.provider(uuid)
    if provider is None:
        raise exceptions.ResourceProviderNotFound(f"Provider {uuid} is not known.", provider=uuid)
    if not provider.is_current(Aspect.INVENTORY):
        provider = read_aspect(api, provider, Aspect.INVENTORY)
        engine.cache.update(provider, wrote=False)
    return provider


def _send(
    wanted: Mapping[str, AspectValue[Inventory]],
    allocations: Mapping[str, ConsumerAllocations],
    api: PlacementAPI,
    engine: Engine,
    result: SyncResult,
) -> None:
    # A conflict is for the driver: the tree and the allocations are outdated.
    retrying, settling = engine.settling(conflicts=False)

    def attempt() -> None:
        if settling.lost and _applied(wanted, allocations, api, engine):
            return
        try:
            api.reshape(wanted, allocations)
        except exceptions.ConcurrentUpdate as error:
            result.count_conflict()
            raise exceptions.PlacementReshapeConflict(
                f"A generation was outdated while reshaping: {error}", **error.facts
            ) from error
        except exceptions.InventoryInUse as error:
            # Somebody was placed after the allocations were read, and before
            # the inventory was: its generation cannot show it.
            result.count_conflict()
            raise exceptions.PlacementReshapeConflict(
                f"Something that is to be moved is still in use: {error}", **error.facts
            ) from error

    retrying(attempt)


def _applied(
    wanted: Mapping[str, AspectValue[Inventory]],
    allocations: Mapping[str, ConsumerAllocations],
    api: PlacementAPI,
    engine: Engine,
) -> bool:
    """Whether a reshape whose answer was lost was applied.

    It was whole or not at all, so what shows it for one shows it for all; but
    the rest is compared too, for others may have written since.
    """
    inventories = workers_.values(engine.workers.run(api.get_inventories, list(wanted)))
    same = [
        _covers(now.value, part.value) and now.generation != part.generation
        for now, part in zip(inventories, wanted.values(), strict=True)
    ]
    held = workers_.values(engine.workers.run(api.get_allocations, list(allocations)))
    same += [
        now.to_body()["allocations"] == part.to_body()["allocations"]
        for now, part in zip(held, allocations.values(), strict=True)
    ]
    return all(same)


def _covers(now: Inventory, wanted: Inventory) -> bool:
    """Whether all fields that were sent are as they were sent."""
    return now.keys() == wanted.keys() and not any(
        merge.news(now[name], record) for name, record in wanted.items()
    )
