# SPDX-License-Identifier: Apache-2.0
"""What a pass cost: requests by kind, wall, CPU; and what a process holds."""

from __future__ import annotations

import collections
import gc
import resource
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from reportclient.request_log import route_of


class Stopwatch:
    """Measures passes of one process.

    :param log: where the servers write down each request.
    """

    def __init__(self, log: Path) -> None:
        self.found: dict[str, dict[str, Any]] = {}
        self._log = log
        self._wall = self._cpu = 0.0

    def measure(self, title: str, one_pass: Callable[[], None], *, times: int = 1) -> None:
        """Run a pass and note what it cost; of several runs the mean."""
        # Rubbish that another pass left is not this one's to collect.
        gc.collect()
        before = self._log.stat().st_size
        self._wall = self._cpu = 0.0
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in range(times):
            one_pass()
        self._cpu += time.process_time() - cpu
        self._wall += time.perf_counter() - wall
        kinds = self._kinds(before)
        self.found[title] = {
            "requests": sum(kinds.values()) / times,
            "by kind": {kind: number / times for kind, number in sorted(kinds.items())},
            "wall": self._wall / times,
            "cpu": self._cpu / times,
        }

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Time that is not the measured side's."""
        wall, cpu = time.perf_counter(), time.process_time()
        yield
        self._wall -= time.perf_counter() - wall
        self._cpu -= time.process_time() - cpu

    def _kinds(self, start: int) -> collections.Counter[str]:
        with self._log.open() as stream:
            stream.seek(start)
            requests = [line.split() for line in stream]
        return collections.Counter(f"{method} {route_of(path)}" for method, path in requests)


def peak_mb() -> float:
    """The most memory that this process ever had resident, in MB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # In bytes on macOS, in KiB elsewhere.
    return peak / (1e6 if sys.platform == "darwin" else 1e6 / 1024)
