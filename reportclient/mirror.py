# SPDX-License-Identifier: Apache-2.0
"""Many hosts into their aggregates at once, with as few requests as that takes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from reportclient import exceptions, validation
from reportclient import workers as workers_
from reportclient.api import PlacementAPI
from reportclient.engine import Engine
from reportclient.result import SyncResult
from reportclient.single import SingleProvider, by_name
from reportclient.types import ProviderSummary

__all__ = ["HostAggregates", "mirror"]

#: From so many names on, one listing of all providers is cheaper.
_MANY = 10


@dataclasses.dataclass
class HostAggregates:
    """What was done for one host.

    :ivar uuid: its provider's; ``None`` if there is none.
    :ivar added: the aggregates that it was not in yet, and is in now.
    :ivar error: why not, if something went wrong.
    """

    uuid: str | None = None
    added: frozenset[str] = frozenset()
    error: exceptions.ReportClientError | None = None


def mirror(
    api: PlacementAPI,
    engine: Engine,
    single: SingleProvider,
    aggregates: Mapping[str, Iterable[str]],
) -> dict[str, HostAggregates]:
    """Put hosts into aggregates.

    :raises InvalidAggregate: before any request.
    :raises ResourceProviderRetrievalFailed, PlacementUnavailable: a listing
        failed; nothing was written.
    """
    wanted: dict[str, set[str]] = {}
    for aggregate, hosts in aggregates.items():
        [uuid] = validation.normalise_aggregates([aggregate])
        for host in hosts:
            wanted.setdefault(validation.check_name(host), set()).add(uuid)
    members = _members(api, engine, wanted)
    uuids = _uuids(api, engine, wanted, members.values())

    def add(host: str) -> frozenset[str]:
        uuid = uuids.get(host)
        if uuid is None:
            raise exceptions.ResourceProviderNotFound(
                f"There is no resource provider named {host!r}.", provider=host
            )
        missing = {
            aggregate
            for aggregate in wanted[host]
            if uuid not in {summary.uuid for summary in members.get(aggregate, ())}
        }
        if not missing:
            return frozenset()
        result = SyncResult()
        single.change_aggregates(api, result, host, uuid, add=missing)
        return frozenset(missing) if result.changed else frozenset()

    found = {}
    for host, outcome in zip(wanted, engine.workers.run(add, list(wanted)), strict=True):
        result = found[host] = HostAggregates(uuids.get(host))
        if isinstance(outcome.error, exceptions.ReportClientError):
            result.error = outcome.error
        else:
            result.added = outcome.unwrap()
    return found


def _members(
    api: PlacementAPI, engine: Engine, wanted: Mapping[str, set[str]]
) -> dict[str, tuple[ProviderSummary, ...]]:
    """Who is in the aggregates already; not asked if asking the hosts is cheaper."""
    aggregates = sorted(set().union(*wanted.values()))
    if len(aggregates) > len(wanted):
        return {}
    listed = workers_.values(
        engine.workers.run(lambda uuid: api.list_providers(member_of=[uuid]), aggregates)
    )
    return {uuid: part.providers for uuid, part in zip(aggregates, listed, strict=True)}


def _uuids(
    api: PlacementAPI,
    engine: Engine,
    hosts: Iterable[str],
    members: Iterable[Iterable[ProviderSummary]],
) -> dict[str, str]:
    """The providers of hosts, by host as it was given; without those that are not there."""
    names = {summary.name: summary.uuid for part in members for summary in part}
    found: dict[str, str] = {}
    unknown: list[str] = []
    for host in hosts:
        uuid = validation.uuid_or_text(host)
        if host in names:
            found[host] = names[host]
        elif validation.is_uuid(uuid):
            found[host] = uuid
        else:
            unknown.append(host)
    if len(unknown) >= _MANY:
        names = {summary.name: summary.uuid for summary in api.list_providers().providers}
        return {**found, **{host: names[host] for host in unknown if host in names}}
    for host, outcome in zip(
        unknown, engine.workers.run(lambda name: by_name(api, name), unknown), strict=True
    ):
        if not isinstance(outcome.error, exceptions.ResourceProviderNotFound):
            found[host] = outcome.unwrap().uuid
    return found
