# SPDX-License-Identifier: Apache-2.0
"""The life of many bare-metal nodes, told to a Placement by one side; prints JSON.

Runs under the interpreter of either side: ``python -m bench.fleet_life ours``.
"""

from __future__ import annotations

import argparse
import functools
import gc
import json
import os
import sys
import tempfile
import tracemalloc
from pathlib import Path
from typing import Any

from bench.reports import Fleet
from bench.sides import SIDES, MakeAdapter, http_adapter
from bench.stopwatch import Stopwatch, peak_mb

#: Of so many nodes nova's whole-tree mode runs a pass: each handles all nodes.
WHOLE_SAMPLE = 10
#: At least so many passes are timed where a pass takes no time to speak of.
MANY = 3000
CACHED = "restart with a cache file"


class TreeFleet:
    """The passes of a side that has trees and drivers."""

    def __init__(self, side: str, fleet: Fleet, adapter: MakeAdapter, **settings: Any) -> None:
        self._fleet = fleet
        self.peer = SIDES[side](adapter, **settings)

    def first(self) -> None:
        """All nodes are new."""
        self.peer.all_passes(self._fleet.nodes, self._fleet.edit)

    nothing = restart = first

    def refresh(self) -> None:
        """Nothing changed, but it is time to look."""
        self.peer.due()
        self.first()

    def one_by_one(self) -> None:
        """Nothing is due; a call for each node."""
        for uuid, name in self._fleet.nodes:
            self.peer.one_pass(uuid, name, lambda tree, name=name: self._fleet.edit(tree, name))

    def close(self) -> None:
        """End it."""
        self.peer.close()


def make(side: str, fleet: Fleet, adapter: MakeAdapter, **settings: Any) -> Any:
    """A side that knows nothing yet."""
    if side == "floor":
        from bench.floor import FloorFleet

        settings.pop("cache_file", None)
        return FloorFleet(fleet, adapter, **settings)
    return TreeFleet(side, fleet, adapter, **settings)


def whole_trees(peer: Any, fleet: Fleet, watch: Stopwatch) -> None:
    """nova's older mode, with what the same client has cached, for some nodes."""
    sample = Fleet(fleet.size, fleet.tag)
    sample.nodes = sample.nodes[:: max(1, len(sample.nodes) // WHOLE_SAMPLE)][:WHOLE_SAMPLE]
    peer.getter = SIDES["nova whole"].getter
    watch.measure("nothing due, whole trees", lambda: peer.all_passes(sample.nodes, sample.edit))
    found = watch.found["nothing due, whole trees"]
    # Every node costs the same: all have the same whole tree to go through.
    for key in ("wall", "cpu"):
        found[key] *= fleet.size / len(sample.nodes)
    found["passes run"] = len(sample.nodes)
    del peer.getter


def life(side: str, fleet: Fleet, adapter: MakeAdapter, watch: Stopwatch, workers: int) -> None:
    """All the passes."""
    peer = make(side, fleet, adapter, workers=workers)
    watch.measure("first report", peer.first)
    # What a first pass leaves to be read is read here, on all sides.
    peer.refresh()
    times = max(1, MANY // fleet.size)
    watch.measure("nothing due", peer.nothing, times=times)
    if side != "floor":
        watch.measure("nothing due, a call each", peer.one_by_one, times=times)
    if side == "nova":
        whole_trees(peer.peer, fleet, watch)
    watch.measure("refresh due", peer.refresh)
    peer.close()
    with tempfile.TemporaryDirectory() as folder:
        # The file is written when the client is closed.
        cache_file = Path(folder, "cache.json")
        peer = make(side, fleet, adapter, workers=workers, cache_file=cache_file)
        watch.measure("restart", peer.restart)
        peer.close()
        if side == "nova":
            return
        peer = make(side, fleet, adapter, workers=workers, cache_file=cache_file)
        watch.measure(CACHED, peer.refresh if side == "floor" else peer.restart)
        peer.close()
        if side == "ours":
            watch.found[CACHED]["bytes a node in the file"] = (
                os.path.getsize(cache_file) / fleet.size
            )


def memory(side: str, fleet: Fleet, adapter: MakeAdapter, workers: int) -> float:
    """Bytes a node that are freed when a client forgets all nodes, by tracemalloc."""
    tracemalloc.start()
    peer = make(side, fleet, adapter, workers=workers)
    peer.restart()
    gc.collect()
    full = tracemalloc.get_traced_memory()[0]
    peer.peer.client.clear_provider_cache()
    gc.collect()
    held = full - tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    peer.close()
    return held / fleet.size


def main() -> None:
    """Print what a life cost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("side", choices=[*SIDES, "floor"])
    parser.add_argument("--url", required=True)
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--size", type=int, default=1000)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--held", action="store_true", help="only: bytes held for each node")
    options = parser.parse_args()
    adapter = functools.partial(http_adapter, options.url)
    fleet = Fleet(options.size, "measured")
    if options.held:
        TreeFleet(options.side, Fleet(20, "warm"), adapter, workers=options.workers).first()
        held = memory(options.side, fleet, adapter, options.workers)
        json.dump({"bytes a node": held}, sys.stdout)
        return
    # A short life first: what is imported late, and the servers' own caches.
    life(options.side, Fleet(20, "warm"), adapter, Stopwatch(options.log), options.workers)
    imported = peak_mb()
    watch = Stopwatch(options.log)
    life(options.side, fleet, adapter, watch, options.workers)
    memory_ = {"peak MB": peak_mb(), "MB more than after imports": peak_mb() - imported}
    json.dump({"passes": watch.found, "memory": memory_}, sys.stdout)


if __name__ == "__main__":
    main()
