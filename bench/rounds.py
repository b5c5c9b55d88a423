# SPDX-License-Identifier: Apache-2.0
"""Lives of all sides in turn, each in a process of its own, against real servers."""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bench import servers

HERE = Path(__file__).parent
ROOT = HERE.parent
NOVA = "nova==34.0.0"

#: Server processes and threads of each, by database. SQLite lets one write at a time.
SERVERS = {"sqlite": (1, 1), "postgresql": (2, 8)}
DATABASES: dict[str, Callable[[], contextlib.AbstractContextManager[str]]] = {
    "sqlite": servers.sqlite,
    "postgresql": servers.postgresql,
}


class Service(NamedTuple):
    """A Placement, its database, and the file in which it counts."""

    url: str
    database: str
    log: Path


@contextlib.contextmanager
def service(database: str, latency: float) -> Iterator[Service]:
    """A Placement for some rounds."""
    processes, threads = SERVERS[database]
    with tempfile.TemporaryDirectory(prefix="rc-bench-") as folder:
        log = Path(folder, "requests.log")
        with (
            DATABASES[database]() as at,
            servers.placement(
                at, processes=processes, threads=threads, latency=latency, log=log
            ) as url,
        ):
            yield Service(url, at, log)


def nova_python() -> str:
    """The interpreter of an environment that has nova; made if need be."""
    directory = ROOT / ".venv-nova"
    python = directory / "bin" / "python"
    if not (directory / ".installed").exists():
        print(f"Setting up {directory.name} with {NOVA} ...", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", "--clear", directory], check=True)
        command = [python, "-m", "pip", "install", "--quiet", NOVA, "openstack-placement"]
        subprocess.run(command, check=True, stdout=sys.stderr)
        (directory / ".installed").touch()
    return str(python)


def run(python: str, *arguments: str) -> Any:
    """Run one side and read the JSON that it prints."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [python, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(arguments)} failed:\n{done.stderr}")
    return json.loads(done.stdout)


def one_life(module: str, side: str, at: Service, *arguments: str, nova: str) -> Any:
    """A life of one side on an empty Placement."""
    servers.wipe(at.database)
    at.log.write_text("")
    python = nova if side.startswith("nova") else sys.executable
    return run(
        python, "-m", f"bench.{module}", side, "--url", at.url, "--log", str(at.log), *arguments
    )


def lives(
    module: str, at: Service, size: int, counts: dict[str, int], *, nova: str
) -> dict[str, Any]:
    """So many lives of each side, in turn; of every figure the median."""
    found: dict[str, list[Any]] = {side: [] for side in counts}
    for number in range(max(counts.values())):
        for side, count in counts.items():
            if number < count:
                say(f"{module} of {size}, {side}, {number + 1} of {count}")
                found[side].append(one_life(module, side, at, "--size", str(size), nova=nova))
    return {side: {"lives": len(all_), **median(all_)} for side, all_ in found.items()}


def median(found: Sequence[Any]) -> Any:
    """The median of figures that stand at the same places."""
    if isinstance(found[0], dict):
        keys = dict.fromkeys(key for one in found for key in one)
        return {key: median([one[key] for one in found if key in one]) for key in keys}
    return statistics.median(found)


def say(text: str) -> None:
    """What is being done, for those who wait."""
    print(text, file=sys.stderr, flush=True)
