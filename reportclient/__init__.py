# SPDX-License-Identifier: Apache-2.0
"""Tell OpenStack Placement what a compute agent has."""

from reportclient.client import ReportClient, TraitInfo
from reportclient.plan import Plan
from reportclient.provider_tree import ProviderSubTree, ProviderTree, provider_uuid
from reportclient.result import ProviderResult, SyncResult
from reportclient.retry import RetryPolicy
from reportclient.types import ProviderData

__all__ = [
    "Plan",
    "ProviderData",
    "ProviderResult",
    "ProviderSubTree",
    "ProviderTree",
    "ReportClient",
    "RetryPolicy",
    "SyncResult",
    "TraitInfo",
    "provider_uuid",
]
