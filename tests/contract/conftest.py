# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the contract suite."""

from __future__ import annotations

import pytest
from side_by_side import SideBySide, prepare


@pytest.fixture
def both():
    """Ask the fake and the real service the same; they hold the same."""
    with SideBySide() as pair:
        pair.each(prepare)
        yield pair


@pytest.fixture(scope="module")
def _kept():
    with SideBySide() as pair:
        pair.each(prepare)
        yield pair


@pytest.fixture
def both_to_read(_kept):
    """The same for tests that only read; made once, or again if another ended it."""
    if _kept.real.app is None:
        _kept.__enter__()
        _kept.each(prepare)
    return _kept
