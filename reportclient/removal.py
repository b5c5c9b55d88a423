# SPDX-License-Identifier: Apache-2.0
"""Deleting a provider and all below it, as Placement has them."""

from __future__ import annotations

from collections.abc import Iterable

from reportclient import allocations, exceptions, flush, sync
from reportclient.api import PlacementAPI
from reportclient.engine import Engine
from reportclient.plan import DeleteProvider, Plan
from reportclient.result import SyncResult
from reportclient.types import ProviderSummary

__all__ = ["delete_below"]


def delete_below(
    uuid: str,
    listing: Iterable[ProviderSummary],
    api: PlacementAPI,
    engine: Engine,
    result: SyncResult,
    *,
    cascade: bool = False,
) -> None:
    """Delete a provider of a listed tree and its descendants, leaf first.

    :param cascade: take away first what consumers hold of them; what these
        hold elsewhere stays.
    :raises ResourceProviderInUse, CannotDeleteParent: some stay; all that
        could be deleted is, and ``result`` says so.
    :raises ResourceProviderSyncFailed: something else went wrong.
    """
    below = _below(uuid, listing)
    if not below:
        engine.cache.forget(uuid)
        return
    if cascade:
        allocations.release(api, engine, [provider.uuid for provider in below])
    result.plan = Plan(
        tuple(DeleteProvider(p.uuid, p.name, p.parent_uuid) for p in reversed(below))
    )
    sync.carry_out(result.plan, api, engine, result)
    flush.judge(result)
    pending = [provider.pending for provider in result.providers.values() if provider.pending]
    for error in sorted(pending, key=lambda e: isinstance(e, exceptions.CannotDeleteParent)):
        error.result = result
        raise error


def _below(uuid: str, listing: Iterable[ProviderSummary]) -> list[ProviderSummary]:
    """The provider and its descendants, top-down."""
    providers = list(listing)
    found = [provider for provider in providers if provider.uuid == uuid]
    for provider in found:
        # The list grows while it is walked: children of children come last.
        found += [child for child in providers if child.parent_uuid == provider.uuid]
    return found
