# SPDX-License-Identifier: Apache-2.0
"""One provider at a time: made to be there, or one aspect of it written."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from reportclient import exceptions, validation
from reportclient.api import PlacementAPI
from reportclient.engine import Engine
from reportclient.identity import ProviderKeeper
from reportclient.locks import TreeLocks
from reportclient.passes import TreeReader, no_parent
from reportclient.plan import CreateProvider, MoveProvider, RenameProvider, WriteAspect
from reportclient.result import ProviderResult, SyncResult
from reportclient.types import Aspect, Generation, ProviderSummary
from reportclient.writer import AspectWriter

__all__ = ["SingleProvider", "by_name"]


class SingleProvider:
    """What the client's methods for a single provider have in common."""

    def __init__(self, engine: Engine, locks: TreeLocks, reader: TreeReader) -> None:
        self._engine = engine
        self._locks = locks
        self._reader = reader

    def ensure(self, api: PlacementAPI, uuid: str, name: str | None, parent: str | None) -> None:
        """Create, rename or move a provider so that it is as asked for.

        :raises: as `ReportClient.get_provider_tree_and_ensure_root`.
        """
        cache = self._engine.cache
        keeper = ProviderKeeper(api, self._engine, SyncResult())
        with self._locks.held([cache.root_of(uuid) or uuid]):
            known = cache.provider(uuid)
            if known is None:
                if parent is not None and cache.root_of(parent) is None:
                    for error in self._reader.refresh(api, [parent]).values():
                        raise error
                    if cache.root_of(parent) is None:
                        raise no_parent(uuid, name or uuid, parent)
                keeper.create(CreateProvider(uuid, name or uuid, parent))
                return
            record = known.record
            if name is not None and record.name != name:
                keeper.rename(RenameProvider(uuid, name, record.name))
            if parent is not None and record.parent_uuid != parent:
                keeper.move(MoveProvider(uuid, name or record.name, parent, record.parent_uuid))

    def set_aspect(
        self,
        api: PlacementAPI,
        result: SyncResult,
        rp_uuid: str,
        aspect: Aspect,
        mine: Any,
        *,
        generation: Generation | None = None,
        use_cache: bool = True,
    ) -> ProviderResult:
        """Make a value that of a provider that exists, compared with the cache.

        :param generation: the caller's own: written once, and exactly so.
        :raises: as `ReportClient.set_inventory_for_provider`.
        """
        uuid = validation.normalise_uuid(rp_uuid, field="rp_uuid")
        cache = self._engine.cache
        writer = AspectWriter(api, self._engine, result)
        if generation is not None:
            writer.write_exactly(uuid, aspect, mine, generation, use_cache=use_cache)
            return result.of(uuid, uuid)
        if cache.is_doubted(uuid) or cache.provider(uuid) is None:
            self._reader.fresh_snapshot(api, uuid)
        with self._locks.held([cache.root_of(uuid) or uuid]):
            provider = cache.provider(uuid)
            if provider is None:
                raise exceptions.ResourceProviderNotFound(
                    f"There is no resource provider {uuid}.", provider=uuid
                )
            value, name = provider.value_of(aspect), provider.record.name
            operation = WriteAspect(
                uuid, name, aspect, value, mine, value, provider.generation_of(aspect)
            )
            try:
                writer.write(operation)
            except exceptions.ReportClientError:
                cache.make_due(uuid)
                raise
        return result.of(uuid, name)

    def change_aggregates(
        self,
        api: PlacementAPI,
        result: SyncResult,
        host_name: str | None,
        rp_uuid: str | None,
        *,
        remove: Iterable[str] = (),
        add: Iterable[str] = (),
    ) -> None:
        """Put a provider into aggregates and take it out of others.

        :raises: as `ReportClient.aggregate_add_host`.
        """
        base = validation.normalise_aggregates(remove, provider=host_name or rp_uuid)
        mine = validation.normalise_aggregates(add, provider=host_name or rp_uuid)
        if rp_uuid is None:
            summary = by_name(api, str(host_name))
            uuid, name = summary.uuid, summary.name
        else:
            uuid = validation.normalise_uuid(rp_uuid, field="rp_uuid")
            name = host_name or uuid
        operation = WriteAspect(uuid, name, Aspect.AGGREGATES, base, mine, None)
        with self._locks.held([self._engine.cache.root_of(uuid) or uuid]):
            AspectWriter(api, self._engine, result).write(operation, cached=False)


def by_name(api: PlacementAPI, name: str) -> ProviderSummary:
    """The provider that has a name, spelled exactly so.

    :raises ResourceProviderNotFound: there is none; says which one is near.
    """
    found = api.list_providers(name=name).providers
    for summary in found:
        if summary.name == name:
            return summary
    near = f" (there is {found[0].name!r}, {found[0].uuid})" if found else ""
    raise exceptions.ResourceProviderNotFound(
        f"There is no resource provider named {name!r}{near}.", provider=name
    )
