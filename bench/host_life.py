# SPDX-License-Identifier: Apache-2.0
"""The life of one host, told to a Placement by one side; prints JSON.

Runs under the interpreter of either side: ``python -m bench.host_life ours``.
"""

from __future__ import annotations

import argparse
import functools
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.reports import Host
from bench.sides import SIDES, MakeAdapter, http_adapter
from bench.stopwatch import Stopwatch, peak_mb

#: How often a pass is repeated that takes no time to speak of.
MANY = 20


class TreeHost:
    """The passes of a side that has trees and drivers."""

    def __init__(self, side: str, host: Host, adapter: MakeAdapter, **settings: Any) -> None:
        self._host = host
        self._peer = SIDES[side](adapter, **settings)
        self.driver_ran = 0

    def _pass(self, edit: Callable[[Any], None]) -> None:
        self._peer.one_pass(self._host.root, self._host.name, edit)

    def first(self) -> None:
        """The first report."""
        self._pass(self._host.edit())

    def refresh(self) -> None:
        """Nothing changed, but it is time to look."""
        self._peer.due()
        self._pass(self._host.edit())

    def nothing(self) -> None:
        """Nothing changed, and it is not time."""
        self._pass(self._host.edit())

    def change(self, disk: int) -> None:
        """One inventory changed."""
        self._pass(self._host.edit(disk))

    def conflict(self, disk: int, meddle: Callable[[], None]) -> None:
        """... and meanwhile somebody else wrote."""
        self.driver_ran = 0

        def edit(tree: Any) -> None:
            self.driver_ran += 1
            if self.driver_ran == 1:
                meddle()
            self._host.edit(disk)(tree)

        self._pass(edit)

    def restart(self, disk: int) -> None:
        """The first pass of a new process."""
        self._pass(self._host.edit(disk))

    def close(self) -> None:
        """End it."""
        self._peer.close()


def make(side: str, host: Host, adapter: MakeAdapter, **settings: Any) -> Any:
    """A side that knows nothing yet."""
    if side == "floor":
        from bench.floor import FloorHost

        settings.pop("cache_file", None)
        return FloorHost(host, adapter, **settings)
    return TreeHost(side, host, adapter, **settings)


def meddle(adapter: MakeAdapter, root: str) -> None:
    """Give a provider a trait, as an operator would; not counted, not late."""
    headers = {"OpenStack-API-Version": "placement 1.26", "X-Bench-Aside": "1"}
    operator = adapter(additional_headers=headers)
    path = f"/resource_providers/{root}/traits"
    operator.put("/traits/CUSTOM_GOLD")
    body = operator.get(path).json()
    body["traits"].append("CUSTOM_GOLD")
    operator.put(path, json=body)


def life(side: str, host: Host, adapter: MakeAdapter, watch: Stopwatch, workers: int) -> None:
    """All the passes."""

    def others_write() -> None:
        with watch.stopped():
            meddle(adapter, host.root)

    peer = make(side, host, adapter, workers=workers)
    watch.measure("first report", peer.first)
    # What a first pass leaves to be read is read here, on all sides.
    peer.refresh()
    watch.measure("nothing due", peer.nothing, times=MANY)
    watch.measure("refresh due", peer.refresh)
    watch.measure("one inventory changed", functools.partial(peer.change, 901))
    watch.measure("conflict", functools.partial(peer.conflict, 902, others_write))
    watch.found["conflict"]["driver ran"] = getattr(peer, "driver_ran", 0)
    peer.close()
    with tempfile.TemporaryDirectory() as folder:
        settings = {"workers": workers, "cache_file": Path(folder, "cache.json")}
        # The connection is new as well; the interpreter and its imports are not.
        peer = make(side, host, adapter, **settings)
        watch.measure("restart", functools.partial(peer.restart, 902))
        # The file is written when the client is closed.
        peer.close()
        if side in ("ours", "floor"):
            peer = make(side, host, adapter, **settings)
            again = peer.refresh if side == "floor" else functools.partial(peer.restart, 902)
            watch.measure("restart with a cache file", again)
            peer.close()


def main() -> None:
    """Print what a life cost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("side", choices=[*SIDES, "floor"])
    parser.add_argument("--url", required=True)
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--size", type=int, default=8)
    parser.add_argument("--workers", type=int, default=8)
    options = parser.parse_args()
    adapter = functools.partial(http_adapter, options.url)
    # A short life first: what is imported late, and the servers' own caches.
    warm = Stopwatch(options.log)
    life(options.side, Host(1, "warm"), adapter, warm, options.workers)
    imported = peak_mb()
    watch = Stopwatch(options.log)
    life(options.side, Host(options.size, "measured"), adapter, watch, options.workers)
    memory = {"peak MB": peak_mb(), "MB more than after imports": peak_mb() - imported}
    json.dump({"passes": watch.found, "memory": memory}, sys.stdout)


if __name__ == "__main__":
    main()
