# SPDX-License-Identifier: Apache-2.0
"""Fixtures for projects that use the library; pytest finds them by itself.

Nothing is imported until a fixture is used.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from reportclient.testing.embedded import EmbeddedPlacement
    from reportclient.testing.fake import FakePlacement


@pytest.fixture
def fake_placement() -> Iterator[FakePlacement]:
    """A `FakePlacement` with nothing in it.

    Give ``fake_placement.adapter()`` to the code under test.
    """
    from reportclient.testing.fake import FakePlacement

    with FakePlacement() as placement:
        yield placement


@pytest.fixture
def embedded_placement() -> Iterator[EmbeddedPlacement]:
    """The real Placement service in this process, with an empty database.

    Needs the extra ``embedded``.
    """
    from reportclient.testing.embedded import EmbeddedPlacement

    with EmbeddedPlacement() as placement:
        yield placement
