# SPDX-License-Identifier: Apache-2.0
"""What the client asks of a driver."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from reportclient.provider_tree import ProviderTree

__all__ = ["Driver"]


@runtime_checkable
class Driver(Protocol):
    """Knows what there is, and edits the tree so that it says so."""

    def update_provider_tree(
        self,
        provider_tree: ProviderTree,
        nodename: str,
        allocations: Mapping[str, Any] | None = None,
    ) -> None:
        """Make the tree say what there is. Nothing is returned.

        The driver sets what it knows of (`ProviderTree.update_inventory`,
        `ProviderTree.add_traits`, `ProviderTree.new_child` ...), removes what
        it made and what is gone, and leaves alone what it does not know. It
        gives no generations. Its changes are merged with those of others when
        they are sent.

        :param provider_tree: the tree that Placement holds, the driver's own
            copy: the provider named ``nodename``, all others of its tree, and
            the sharing providers of its aggregates as further roots.
        :param nodename: the name of the provider that stands for the node.
        :param allocations: only when a reshape is going on: consumer UUID ->
            ``{"allocations": {provider UUID: {"resources": {class: amount}}},
            "project_id", "user_id", "consumer_generation"}``, to be edited so
            that it says where each consumer's resources are afterwards.
        :raises DriverNotReady: it cannot say yet; Placement is left alone.
        :raises ReshapeNeeded: inventory that is in use has to move to other
            providers and ``allocations`` was not given.
        """
