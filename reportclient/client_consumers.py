# SPDX-License-Identifier: Apache-2.0
"""The part of the facade about consumers and what they hold."""

from __future__ import annotations

from typing import Any

from reportclient import allocations as allocations_
from reportclient.client_base import ClientBase
from reportclient.single import by_name
from reportclient.types import Context

__all__ = ["ConsumerCalls"]


class ConsumerCalls(ClientBase):
    """Reading, claiming, moving and giving up what consumers hold."""

    def get_allocations_for_provider_tree(
        self, context: Context | None, nodename: str
    ) -> dict[str, dict[str, Any]]:
        """All that the consumers of a tree hold, there and elsewhere.

        The tree is that of the provider that has the name, and the sharing
        providers of its aggregates are in it. Each consumer is read once.

        :returns: consumer UUID -> ``{"allocations": {provider UUID:
            {"resources": {class: amount}}}, "project_id", "user_id",
            "consumer_generation"}``: what a driver's ``update_provider_tree``
            takes, and `update_from_provider_tree` takes back.
        :raises ResourceProviderNotFound: no provider has the name.
        :raises ResourceProviderAllocationRetrievalFailed: Placement refused.
        :raises ConsumerAllocationRetrievalFailed: likewise, for a consumer.
        :raises PlacementUnavailable: it could not be reached.
        """
        call = self._calls.begin(context)
        uuid = self._engine.cache.find(nodename) or by_name(call.api, nodename).uuid
        snapshot = self._reader.fresh_snapshot(call.api, uuid)
        uuids = [] if snapshot is None else list(snapshot.records)
        return allocations_.to_dict(allocations_.of_providers(call.api, self._engine, uuids))
