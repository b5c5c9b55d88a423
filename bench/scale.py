# SPDX-License-Identifier: Apache-2.0
"""``python -m bench scale``: thousands of bare-metal nodes, on real servers."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from bench import rounds
from bench.tables import against, table

SIZES = (10, 1000, 10000)
#: Up to so many nodes all sides run, and several times; beyond it ours, once.
COMPARED = 1000
#: Nodes for the bytes that a client holds for each.
HELD = 300


def counts(size: int, repeats: int, *, alone: bool) -> dict[str, int]:
    """How many lives of each side."""
    if size > COMPARED:
        return {"ours": 1}
    small = size < COMPARED / 10
    ours = repeats if small else min(repeats, 3)
    found = {"ours": ours, "floor": ours}
    if not alone:
        found["nova"] = ours if small else 1
    return found


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """All sizes in all settings: by setting, by size, by side."""
    nova = "" if options.alone else options.nova_python or rounds.nova_python()
    found: dict[str, Any] = {}
    for database in options.database:
        for latency in options.latency:
            with rounds.service(database, latency) as at:
                by_size = found[f"{database}, {latency:g} ms"] = {
                    str(size): rounds.lives(
                        "fleet_life",
                        at,
                        size,
                        counts(size, options.repeats, alone=options.alone),
                        nova=nova,
                    )
                    for size in options.size or SIZES
                }
                by_size["held"] = held(at, nova, alone=options.alone)
    return found


def held(at: rounds.Service, nova: str, *, alone: bool) -> dict[str, float]:
    """Bytes that a client holds for each node."""
    found = {}
    for side in ["ours"] if alone else ["ours", "nova"]:
        rounds.say(f"memory of {side}")
        # The nodes must be there to be read: nova, too, reads what we reported.
        rounds.one_life("fleet_life", "floor", at, "--size", str(HELD), nova=nova)
        found[side] = rounds.run(
            nova if side == "nova" else sys.executable,
            "-m",
            "bench.fleet_life",
            side,
            "--url",
            at.url,
            "--log",
            str(at.log),
            "--size",
            str(HELD),
            "--held",
        )["bytes a node"]
    return found


def pass_table(found: dict[str, Any]) -> str:
    """One number of nodes: every pass beside nova and the floor."""
    rows = []
    for title, ours in found["ours"]["passes"].items():
        nova = found.get("nova", {}).get("passes", {}).get(title, {})
        floor = found.get("floor", {}).get("passes", {}).get(title, {})
        rows.append(
            (
                title,
                f"{ours['requests']:,g}",
                f"{nova['requests']:,g}" if nova else "",
                f"{ours['wall']:,.2f}",
                against(nova, ours, "wall"),
                against(ours, floor, "wall"),
                f"{ours['cpu']:,.2f}",
                against(nova, ours, "cpu"),
                against(ours, floor, "cpu"),
            )
        )
    whole = found.get("nova", {}).get("passes", {}).get("nothing due, whole trees")
    if whole:
        ours = found["ours"]["passes"]["nothing due, a call each"]
        ratio = against(whole, ours, "cpu")
        rows.append(("... nova's whole-tree mode", "", "0", "", "", "", "", ratio, ""))
    header = ("pass over all", "requests", "nova", "s", "nova", "floor", "CPU s", "nova", "floor")
    return table(header, rows)


def growth_table(found: dict[str, Any]) -> str:
    """What a node costs, by the number of nodes."""
    rows = []
    for size, sides in found.items():
        if size == "held":
            continue
        passes = sides["ours"]["passes"]

        def each(title: str, what: str = "cpu", *, passes: Any = passes, size: str = size) -> str:
            return f"{passes[title][what] / int(size) * 1e6:,.0f}"

        rows.append(
            (
                f"{int(size):,}",
                each("nothing due, a call each"),
                each("nothing due"),
                each("refresh due"),
                each("first report"),
                each("first report", "wall"),
                f"{sides['ours']['memory']['peak MB']:,.0f}",
            )
        )
    header = ("nodes", "a call each", "nothing due", "refresh due", "first report", "wall", "MB")
    return table(header, rows)


def show(found: dict[str, Any]) -> str:
    """All tables, for a terminal."""
    parts = []
    for key, by_size in found.items():
        parts += [
            f"{key}, {size} nodes\n\n{pass_table(sides)}\n"
            for size, sides in by_size.items()
            if size != "held"
        ]
        parts.append(f"{key}: CPU and wall, us a node; peak memory\n\n{growth_table(by_size)}\n")
        parts.append(f"Bytes held for each node: {by_size['held']}\n")
    return "\n".join(parts)
