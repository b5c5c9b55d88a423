# SPDX-License-Identifier: Apache-2.0
"""The part of the facade about host aggregates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from reportclient import mirror
from reportclient.client_base import ClientBase
from reportclient.mirror import HostAggregates
from reportclient.result import SyncResult
from reportclient.types import Context

__all__ = ["AggregateCalls"]


class AggregateCalls(ClientBase):
    """Hosts into aggregates, and out of them."""

    def aggregate_add_host(
        self,
        context: Context | None,
        agg_uuid: str,
        host_name: str | None = None,
        rp_uuid: str | None = None,
    ) -> None:
        """Put a provider into an aggregate; its other aggregates stay.

        :param host_name: the provider's name, if ``rp_uuid`` is not given.
        :raises ValueError: neither is given.
        :raises ResourceProviderNotFound: there is no such provider.
        :raises ResourceProviderAggregateRetrievalFailed: Placement refused the
            reading.
        :raises ResourceProviderUpdateFailed: ... or the writing.
        :raises ResourceProviderUpdateConflict: others never stopped writing.
        :raises PlacementUnavailable: it could not be reached.
        """
        if host_name is None and rp_uuid is None:
            raise ValueError("Either host_name or rp_uuid is required")
        call, result = self._calls.begin(context), SyncResult()
        with self._calls.accounted(call, result):
            self._single.change_aggregates(call.api, result, host_name, rp_uuid, add={agg_uuid})

    def aggregate_remove_host(
        self, context: Context | None, agg_uuid: str, host_name: str
    ) -> None:
        """Take a provider out of an aggregate; its other aggregates stay.

        :raises: as `aggregate_add_host`.
        """
        call, result = self._calls.begin(context), SyncResult()
        with self._calls.accounted(call, result):
            self._single.change_aggregates(call.api, result, host_name, None, remove={agg_uuid})

    def mirror_aggregates(
        self, context: Context | None, aggregates: Mapping[str, Iterable[str]]
    ) -> dict[str, HostAggregates]:
        """Put many hosts into their aggregates at once.

        Who is in an aggregate already is listed first (one request for each
        aggregate, unless there are more of them than hosts), so hosts that
        are where they belong cost nothing more, and the others two requests
        each, side by side. Other aggregates of a host stay, and nobody is
        taken out of one: sharing providers are members, too.

        :param aggregates: aggregate UUID -> names or UUIDs of hosts.
        :returns: what was done, by host as it was given. What happens to one
            host does not stop the others: it is in its ``error``.
        :raises InvalidAggregate, InvalidName: before any request.
        :raises ResourceProviderRetrievalFailed, PlacementUnavailable: a
            listing failed; nothing was written.
        """
        api = self._calls.begin(context).api
        return mirror.mirror(api, self._engine, self._single, aggregates)
