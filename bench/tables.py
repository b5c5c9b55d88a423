# SPDX-License-Identifier: Apache-2.0
"""Tables for a terminal and for the documentation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """An RST grid that also reads well in a terminal."""
    widths = [max(len(row[n]) for row in (header, *rows)) for n in range(len(header))]
    line = "  ".join("=" * width for width in widths)

    def one(row: Sequence[str]) -> str:
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        return "  ".join(cells).rstrip()

    return "\n".join([line, one(header), line, *map(one, rows), line])


def against(one: dict[str, Any], other: dict[str, Any], what: str) -> str:
    """How many times the other one's figure this one's is; empty if there is none."""
    if not one or not other or other["requests"] == 0 == other[what]:
        return ""
    # What the floor does in no time is not divided by.
    if other[what] < 1e-5:
        return ""
    ratio: float = one[what] / other[what]
    return f"{ratio:,.1f}" if ratio >= 10 else f"{ratio:,.2f}"
