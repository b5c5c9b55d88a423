# SPDX-License-Identifier: Apache-2.0
"""Placements for tests: a fake that is quick, and the real one in process.

The rest of the library never imports this package. Importing it is cheap:
pytest does so for every project that has this library installed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reportclient.testing.embedded import EmbeddedPlacement
    from reportclient.testing.fake import FakePlacement

__all__ = ["EmbeddedPlacement", "FakePlacement"]


def __getattr__(name: str) -> Any:
    """The Placements are imported when they are asked for."""
    if name == "EmbeddedPlacement":
        from reportclient.testing.embedded import EmbeddedPlacement

        return EmbeddedPlacement
    if name == "FakePlacement":
        from reportclient.testing.fake import FakePlacement

        return FakePlacement
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
