# SPDX-License-Identifier: Apache-2.0
"""The part of the facade that finds room."""

from __future__ import annotations

from reportclient.client_base import ClientBase

__all__ = ["CandidateCalls"]


class CandidateCalls(ClientBase):
    """Where a request for resources could be satisfied."""
