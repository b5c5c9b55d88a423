# SPDX-License-Identifier: Apache-2.0
"""Fixtures for all tests."""

from __future__ import annotations

import pytest

from reportclient.testing.embedded import EmbeddedPlacement
from reportclient.testing.fake import FakePlacement

KINDS = {"fake": FakePlacement, "embedded": EmbeddedPlacement}


@pytest.fixture(params=list(KINDS))
def placement(request):
    """A Placement: the fake and the real one in turn."""
    with KINDS[request.param]() as service:
        yield service
