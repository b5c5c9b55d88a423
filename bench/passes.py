# SPDX-License-Identifier: Apache-2.0
"""Counts the requests of whole passes on the real Placement; prints JSON.

Runs under the interpreter of either side: ``python -m bench.passes ours`` or
``nova``. The Placement is the real service in this process.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
import uuid
from typing import Any

from bench.sides import SIDES
from reportclient.testing.embedded import EmbeddedPlacement

AGGREGATE = str(uuid.uuid4())
INVENTORY = {
    "VCPU": {"total": 16, "reserved": 1, "min_unit": 1, "max_unit": 16, "step_size": 1,
             "allocation_ratio": 4.0},
    "MEMORY_MB": {"total": 65536, "reserved": 512, "min_unit": 1, "max_unit": 65536,
                  "step_size": 1, "allocation_ratio": 1.0},
    "DISK_GB": {"total": 900, "reserved": 0, "min_unit": 1, "max_unit": 900, "step_size": 1,
                "allocation_ratio": 1.0},
}  # fmt: skip


def host_edit(root: str, children: int, disk: int = 900, own_class: bool = True) -> Any:
    """A root with children that have a class each (or all the same)."""

    def edit(tree: Any) -> None:
        tree.update_inventory(
            root,
            {**INVENTORY, "DISK_GB": {**INVENTORY["DISK_GB"], "total": disk, "max_unit": disk}},
        )
        tree.add_traits(root, "HW_CPU_X86_AVX2")
        tree.add_aggregates(root, AGGREGATE)
        for n in range(children):
            child = str(uuid.uuid5(uuid.UUID(root), str(n)))
            if not tree.exists(child):
                tree.new_child(f"{root}_{n}", root, uuid=child)
            name = f"CUSTOM_GPU_{n}" if own_class else "CUSTOM_GPU"
            tree.update_inventory(
                child,
                {name: {"total": 1, "reserved": 0, "min_unit": 1, "max_unit": 1, "step_size": 1,
                        "allocation_ratio": 1.0}},
            )  # fmt: skip

    return edit


def tree_scenario(side: str, children: int, own_class: bool) -> dict[str, Any]:
    """The life of one tree: first report, refresh, change, conflict, restart."""
    root = str(uuid.uuid4())
    found: dict[str, Any] = {}
    with EmbeddedPlacement() as placement:
        # One worker: SQLite answers one request at a time.
        peer = SIDES[side](placement.adapter, workers=1)

        def measure(title: str, edit: Any, name: str = "host1") -> None:
            placement.requests.clear()
            began = time.perf_counter()
            peer.one_pass(root, name, edit)
            found[title] = {
                "requests": len(placement.requests),
                "by kind": placement.by_kind(),
                "seconds": time.perf_counter() - began,
            }

        calls = 0

        def meddled(tree: Any) -> None:
            nonlocal calls
            calls += 1
            if calls == 1:
                placement.operator.add_trait(root, "CUSTOM_GOLD")
            host_edit(root, children, 902, own_class)(tree)

        measure("first report", host_edit(root, children, 900, own_class))
        # What a first pass leaves to be read is read here, on both sides.
        peer.due()
        peer.one_pass(root, "host1", host_edit(root, children, 900, own_class))
        measure("nothing due", host_edit(root, children, 900, own_class))
        peer.due()
        measure("refresh due, nothing changed", host_edit(root, children, 900, own_class))
        measure("one inventory changed", host_edit(root, children, 901, own_class))
        measure("somebody else moved the generation", meddled)
        found["somebody else moved the generation"]["driver ran"] = calls
        peer = SIDES[side](placement.adapter, workers=1)
        measure("restart, nothing changed", host_edit(root, children, 902, own_class))
    return found


def repeated(side: str, children: int, rounds: int) -> dict[str, Any]:
    """The scenario several times over; of the times the median."""
    own_class = children < 50
    tree_scenario(side, 1, own_class)  # what is imported late is imported here
    found = [tree_scenario(side, children, own_class) for _ in range(rounds)]
    for title, one in found[0].items():
        one["seconds"] = statistics.median(other[title]["seconds"] for other in found)
        assert all(other[title]["requests"] == one["requests"] for other in found)
    return found[0]


def main() -> None:
    """Print the requests of all scenarios of one side."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("side", choices=["nova", "ours"])
    parser.add_argument("--children", type=int, nargs="+", default=[8, 500])
    options = parser.parse_args()
    found = {
        f"{children} children": repeated(options.side, children, 9 if children < 50 else 3)
        for children in options.children
    }
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
