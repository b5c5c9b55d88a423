# SPDX-License-Identifier: Apache-2.0
"""``python -m bench tree | passes``: measure beside nova, or alone.

nova comes from PyPI into an environment of its own, ``.venv-nova``. Results go
to the terminal and, with ``--save``, to ``bench/results``, from which
``python -m bench page`` writes the page in the documentation.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parent
RESULTS = HERE / "results"
NOVA = "nova==34.0.0"
SIZES = (1000, 5000)


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


def tree(alone: bool) -> dict[str, Any]:
    """The operations of the two ProviderTrees."""
    found: dict[str, Any] = {}
    for size in SIZES:
        ours = run(sys.executable, "bench/tree_ops.py", "reportclient.provider_tree", str(size))
        nova = {}
        if not alone:
            nova = run(nova_python(), "bench/tree_ops.py", "nova.compute.provider_tree", str(size))
        found[str(size)] = {"ours": ours, "nova": nova}
    return found


def passes(alone: bool) -> dict[str, Any]:
    """Requests and time of whole passes, on the real Placement in process."""
    found: dict[str, Any] = {"ours": run(sys.executable, "-m", "bench.passes", "ours")}
    if not alone:
        found["nova"] = run(nova_python(), "-m", "bench.passes", "nova")
    return found


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """An RST grid that also reads well in a terminal."""
    widths = [max(len(row[n]) for row in (header, *rows)) for n in range(len(header))]
    line = "  ".join("=" * width for width in widths)

    def one(row: Sequence[str]) -> str:
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        return "  ".join(cells).rstrip()

    return "\n".join([line, one(header), line, *map(one, rows), line])


def tree_table(found: dict[str, Any], size: str) -> str:
    """One table for a size of tree."""
    ours, nova = found[size]["ours"], found[size]["nova"]
    rows = []
    for name, value in ours.items():
        unit = "" if name.startswith("bytes") else " us"
        scale = 1.0 if name.startswith("bytes") else 1e6
        other = nova.get(name)
        rows.append(
            (
                name,
                f"{value * scale:,.1f}{unit}",
                f"{other * scale:,.1f}{unit}" if other else "",
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


PAGE = """\
Measured
========

Everything on this page was written by ``python -m bench page`` from the results of the
commands shown; run them to get your own. Ratios are nova's figure divided by ours, both
measured in the same run. Requests are counted on the real Placement service
(openstack-placement from PyPI, in process, on SQLite), so the time ratios have no network
in them: every request that is saved counts for more where there is one.

Machine: {machine}.

Requests per pass
-----------------

``python -m bench passes``. The host is a root with three resource classes, a trait and an
aggregate, and children with one custom class each (500 children share a class). Times are
medians: of nine lives of the small tree, of three of the large one.

{passes}

Operations of the tree
----------------------

``python -m bench tree``. A root, a tenth of all providers as its children, the rest below
these; every provider with one inventory record and two traits.

{tree}
"""


def page() -> str:
    """The page of the documentation, from the saved results."""
    tree_found = json.loads((RESULTS / "tree.json").read_text())
    passes_found = json.loads((RESULTS / "passes.json").read_text())
    return PAGE.format(
        machine=tree_found["machine"],
        passes="\n\n".join(
            f"With {name}:\n\n{passes_table(passes_found['found'], name)}"
            for name in passes_found["found"]["ours"]
        ),
        tree="\n\n".join(
            f"{int(size):,} providers:\n\n{tree_table(tree_found['found'], size)}"
            for size in tree_found["found"]
        ),
    )


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("what", choices=["tree", "passes", "page"])
    parser.add_argument("--alone", action="store_true", help="without nova")
    parser.add_argument("--save", action="store_true", help="keep the results")
    options = parser.parse_args()
    if options.what == "page":
        (ROOT / "docs" / "measured.rst").write_text(page())
        return
    found = {"tree": tree, "passes": passes}[options.what](options.alone)
    keys = found if options.what == "tree" else found["ours"]
    show = tree_table if options.what == "tree" else passes_table
    for key in keys:
        print(f"{key}{' providers' if options.what == 'tree' else ''}\n\n{show(found, key)}\n")
    if options.save:
        RESULTS.mkdir(exist_ok=True)
        machine = f"{os.cpu_count()} CPUs, Python {platform.python_version()}, {platform.system()}"
        text = json.dumps({"machine": machine, "found": found}, indent=1)
        (RESULTS / f"{options.what}.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
