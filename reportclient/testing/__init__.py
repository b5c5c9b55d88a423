# SPDX-License-Identifier: Apache-2.0
"""Placements for tests: a fake that is quick, and the real one in process.

The rest of the library never imports this package.
"""

from reportclient.testing.embedded import EmbeddedPlacement
from reportclient.testing.fake import FakePlacement

__all__ = ["EmbeddedPlacement", "FakePlacement"]
