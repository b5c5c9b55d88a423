# SPDX-License-Identifier: Apache-2.0
"""Tell OpenStack Placement what a compute agent has, and keep telling the truth.

`ReportClient` is what an agent imports; `ProviderTree` is what a driver is
handed; `reportclient.exceptions` has what can go wrong, drawn as a tree;
`reportclient.testing` has Placements for tests.
"""

from reportclient import exceptions
from reportclient.audit import AuditResult, HealResult, Orphan
from reportclient.client import ReportClient, TraitInfo
from reportclient.client_consumers import ProviderAllocInfo
from reportclient.driver import Driver
from reportclient.exceptions import *  # noqa: F403 - the names are in exceptions.__all__
from reportclient.mirror import HostAggregates
from reportclient.plan import Plan
from reportclient.provider_tree import ProviderSubTree, ProviderTree, provider_uuid
from reportclient.resource_request import RequestGroup, ResourceRequest
from reportclient.result import ProviderResult, SyncResult
from reportclient.retry import RetryPolicy
from reportclient.shapes import AllocationCandidates, Usages
from reportclient.snapshot import TreeSnapshot
from reportclient.types import Aspect, ProviderData, Scope
from reportclient.validation import custom_resource_class

__all__ = [
    "AllocationCandidates",
    "Aspect",
    "AuditResult",
    "Driver",
    "HealResult",
    "HostAggregates",
    "Orphan",
    "Plan",
    "ProviderAllocInfo",
    "ProviderData",
    "ProviderResult",
    "ProviderSubTree",
    "ProviderTree",
    "ReportClient",
    "RequestGroup",
    "ResourceRequest",
    "RetryPolicy",
    "Scope",
    "SyncResult",
    "TraitInfo",
    "TreeSnapshot",
    "Usages",
    "custom_resource_class",
    "exceptions",
    "provider_uuid",
]
__all__ += exceptions.__all__
