# SPDX-License-Identifier: Apache-2.0
"""``python -m bench client``: the passes of one host, on real servers."""

from __future__ import annotations

import argparse
from typing import Any

from bench import rounds
from bench.tables import against, table

SIZES = (8, 500)
#: From so many children on a life takes minutes.
LARGE = 50


def counts(size: int, repeats: int, *, alone: bool) -> dict[str, int]:
    """How many lives of each side."""
    ours = repeats if size < LARGE else min(repeats, 3)
    found = {"ours": ours, "floor": ours}
    if not alone:
        found["nova"] = repeats if size < LARGE else 1
        if size < LARGE:
            found["nova whole"] = repeats
    return found


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """All sizes in all settings: by setting, by size, by side."""
    nova = "" if options.alone else options.nova_python or rounds.nova_python()
    found: dict[str, Any] = {}
    for database in options.database:
        for latency in options.latency:
            key = f"{database}, {latency:g} ms"
            with rounds.service(database, latency) as at:
                found[key] = {
                    str(size): rounds.lives(
                        "host_life",
                        at,
                        size,
                        counts(size, options.repeats, alone=options.alone),
                        nova=nova,
                    )
                    for size in options.size or SIZES
                }
    return found


def pass_table(found: dict[str, Any]) -> str:
    """One setting and size: every pass beside nova and the floor."""
    rows = []
    for title, ours in found["ours"]["passes"].items():
        nova = found.get("nova", {}).get("passes", {}).get(title, {})
        floor = found["floor"]["passes"].get(title, {})
        requests = f"{nova['requests']:g}" if nova else ""
        if nova.get("driver ran", 0) > 1:
            requests += "*"
        rows.append(
            (
                title,
                f"{ours['requests']:g}",
                requests,
                f"{ours['wall'] * 1e3:,.1f}",
                against(nova, ours, "wall"),
                against(ours, floor, "wall"),
                f"{ours['cpu'] * 1e3:,.1f}",
                against(nova, ours, "cpu"),
                against(ours, floor, "cpu"),
            )
        )
    header = ("pass", "requests", "nova", "ms", "nova", "floor", "CPU ms", "nova", "floor")
    return table(header, rows)


def latency_table(found: dict[str, Any], size: str) -> str:
    """How many times longer nova takes, by database and latency."""
    settings = [key for key in found if size in found[key] and "nova" in found[key][size]]
    if not settings:
        return ""
    titles = found[settings[0]][size]["nova"]["passes"]
    rows = [
        (
            title,
            *(
                against(
                    found[key][size]["nova"]["passes"][title],
                    found[key][size]["ours"]["passes"][title],
                    "wall",
                )
                for key in settings
            ),
        )
        for title in titles
    ]
    return table(("pass", *settings), rows)


def show(found: dict[str, Any]) -> str:
    """All tables, for a terminal."""
    parts = [
        f"{key}, {size} children\n\n{pass_table(by_size[size])}\n"
        for key, by_size in found.items()
        for size in by_size
    ]
    return "\n".join(parts)
