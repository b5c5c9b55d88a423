# SPDX-License-Identifier: Apache-2.0
"""The page of the documentation, written from the saved results."""

from __future__ import annotations

from pathlib import Path

HERE = Path(__file__).parent
RESULTS = HERE / "results"


def write(*_: object) -> None:
    """Not yet."""
