# SPDX-License-Identifier: Apache-2.0
"""Fixtures for all tests."""

from __future__ import annotations

import pytest

from reportclient.testing.embedded import EmbeddedPlacement


@pytest.fixture(params=["embedded"])
def placement(request):
    """A Placement: the fake and the real one in turn."""
    with EmbeddedPlacement() as service:
        yield service
