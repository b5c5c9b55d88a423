# SPDX-License-Identifier: Apache-2.0
"""``python -m bench tree | passes | consumers | client | scale``: measure beside nova, or alone.

``tree`` times the two ProviderTrees, ``passes`` and ``consumers`` count
requests on the real Placement in this process; ``client`` and ``scale`` start PostgreSQL or SQLite
and Placement as processes on loopback. nova comes from PyPI into an
environment of its own, ``.venv-nova``. Results go to the terminal and, with
``--save``, to ``bench/results``, from which ``python -m bench page`` writes
the page in the documentation.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from typing import Any

from bench import client, page, rounds, scale, servers
from bench.tables import table

SIZES = (1000, 5000)
KINDS = ("tree", "passes", "consumers", "client", "scale")


def tree(options: argparse.Namespace) -> dict[str, Any]:
    """The operations of the two ProviderTrees."""
    found: dict[str, Any] = {}
    for size in SIZES:
        module = "reportclient.provider_tree"
        ours = rounds.run(sys.executable, "bench/tree_ops.py", module, str(size))
        nova = {}
        if not options.alone:
            module = "nova.compute.provider_tree"
            nova = rounds.run(nova_python(options), "bench/tree_ops.py", module, str(size))
        found[str(size)] = {"ours": ours, "nova": nova}
    return found


def passes(options: argparse.Namespace) -> dict[str, Any]:
    """Requests and time of whole passes, on the real Placement in process."""
    found: dict[str, Any] = {"ours": rounds.run(sys.executable, "-m", "bench.passes", "ours")}
    if not options.alone:
        found["nova"] = rounds.run(nova_python(options), "-m", "bench.passes", "nova")
    return found


def consumers(options: argparse.Namespace) -> dict[str, Any]:
    """Requests and time of calls about consumers, likewise."""
    module = "bench.consumer_calls"
    found: dict[str, Any] = {"ours": rounds.run(sys.executable, "-m", module, "ours")}
    if not options.alone:
        found["nova"] = rounds.run(nova_python(options), "-m", module, "nova")
    return found


def nova_python(options: argparse.Namespace) -> str:
    """The interpreter that has nova."""
    return str(options.nova_python or rounds.nova_python())


def tree_table(found: dict[str, Any], size: str) -> str:
    """One table for a size of tree."""
    ours, nova = found[size]["ours"], found[size]["nova"]
    rows = []
    for name, value in ours.items():
        unit = "" if name.startswith("bytes") else " us"
        scale_ = 1.0 if name.startswith("bytes") else 1e6
        other = nova.get(name)
        rows.append(
            (
                name,
                f"{value * scale_:,.1f}{unit}",
                f"{other * scale_:,.1f}{unit}" if other else "",
                f"{other / value:,.1f}" if other else "",
            )
        )
    return table(("operation", "reportclient", "nova 34", "ratio"), rows)


def passes_table(found: dict[str, Any], tree_: str) -> str:
    """One table for a tree."""
    rows = []
    for title, ours in found["ours"][tree_].items():
        nova = found.get("nova", {}).get(tree_, {}).get(title)
        ran = f" (driver ran {nova['driver ran']} times)" if nova and "driver ran" in nova else ""
        rows.append(
            (
                title,
                str(ours["requests"]),
                f"{nova['requests']}{ran}" if nova else "",
                f"{nova['seconds'] / ours['seconds']:,.1f}" if nova else "",
            )
        )
    return table(("pass", "requests", "nova 34", "time ratio"), rows)


def consumers_table(found: dict[str, Any]) -> str:
    """One table for all calls."""
    rows = []
    for title, ours in found["ours"].items():
        nova = found.get("nova", {}).get(title)
        rows.append(
            (
                title,
                str(ours["requests"]),
                str(nova["requests"]) if nova else "",
                f"{nova['seconds'] / ours['seconds']:,.1f}" if nova else "",
            )
        )
    return table(("call", "requests", "nova 34", "time ratio"), rows)


def show(what: str, found: dict[str, Any]) -> str:
    """The tables of a measurement."""
    if what == "client":
        return client.show(found)
    if what == "scale":
        return scale.show(found)
    if what == "consumers":
        return consumers_table(found)
    if what == "tree":
        return "\n".join(f"{size} providers\n\n{tree_table(found, size)}\n" for size in found)
    return "\n".join(f"{key}\n\n{passes_table(found, key)}\n" for key in found["ours"])


def save(what: str, found: dict[str, Any]) -> None:
    """Keep the results; of ``client`` and ``scale`` what this run did not measure stays."""
    page.RESULTS.mkdir(exist_ok=True)
    path = page.RESULTS / f"{what}.json"
    if what in ("client", "scale") and path.exists():
        kept = json.loads(path.read_text())["found"]
        found = {key: {**kept.get(key, {}), **found.get(key, {})} for key in {**kept, **found}}
    machine = f"{os.cpu_count()} CPUs, Python {platform.python_version()}, {platform.system()}"
    path.write_text(json.dumps({"machine": machine, "found": found}, indent=1) + "\n")


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("what", choices=[*KINDS, "page"])
    parser.add_argument("--alone", action="store_true", help="without nova")
    parser.add_argument("--save", action="store_true", help="keep the results")
    parser.add_argument("--nova-python", help="an interpreter that has nova, to use as it is")
    real = parser.add_argument_group("client and scale")
    database = "postgresql" if servers.postgres_bin() else "sqlite"
    real.add_argument("--database", nargs="+", choices=list(rounds.SERVERS), default=[database])
    real.add_argument("--latency", nargs="+", type=float, default=[5.0], help="milliseconds")
    real.add_argument("--repeats", type=int, default=5, help="of which the median is taken")
    real.add_argument("--size", nargs="+", type=int, help="children, or nodes")
    options = parser.parse_args()
    if options.what == "page":
        page.write(tree_table, passes_table, consumers_table)
        return
    kinds = {
        "tree": tree,
        "passes": passes,
        "consumers": consumers,
        "client": client.measure,
        "scale": scale.measure,
    }
    found = kinds[options.what](options)
    print(show(options.what, found))
    if options.save:
        save(options.what, found)


if __name__ == "__main__":
    main()
