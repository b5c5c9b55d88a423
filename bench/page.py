# SPDX-License-Identifier: Apache-2.0
"""The page of the documentation, written from the saved results."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench import client, scale, targets
from bench.reasons import REASONS

HERE = Path(__file__).parent
RESULTS = HERE / "results"
PAGE = """\
Measured
========

Everything on this page was written by ``python -m bench page`` from the results of the
commands shown; run them to get your own. Where there is a ratio to nova, both were measured
in the same run. nova is 34.0.0 from PyPI, Placement is openstack-placement from PyPI.

Machine: {machine}.
Clients, Placement and the database share its CPUs, and it was not otherwise idle: compare
ratios, not milliseconds.

What must be shown
------------------

Times are ratios in one run, with PostgreSQL and 5 ms between request and answer.

{targets}

{missed}
How it is measured
------------------

``python -m bench client`` and ``python -m bench scale`` start a PostgreSQL (or a SQLite
file) and Placement with waitress on loopback: two processes of eight threads with
PostgreSQL, one thread with SQLite. A small WSGI layer delays every request by the latency
asked for and counts it. Each side lives its life in a process of its own, on an emptied
database; the sides take turns, and of each figure the median of their lives is shown.
``--alone`` leaves nova out, ``--save`` keeps the results.

* *ours* is ``ReportClient`` with eight workers.
* *nova* is ``SchedulerReportClient``, driven as nova's resource tracker drives it, with
  ``get_provider_subtree_and_ensure_root``. Where its older whole-tree mode
  (``get_provider_tree_and_ensure_root``) matters, it is shown too.
* *floor* is a script that sends just the necessary requests through keystoneauth, with
  eight threads, step after step, and does nothing else: no driver, no cache, no checks.
  Ours makes classes while it creates and writes providers, so its first report can take
  less time than the floor's.

Times are wall time and the CPU time of the client's process (all its threads). "nova"
columns are nova's figure divided by ours, "floor" columns ours divided by the floor's:
large is good in the first, 1 is ideal in the second. "Nothing due" is the mean of many
passes. ``*``: nova runs the driver a second time. Peak memory is ``ru_maxrss`` of each
side's process.

One host
--------

``python -m bench client``. The host is a root with three resource classes, a trait and an
aggregate, and children with one custom class each (500 children share a class). In
"conflict" somebody gives the root a trait while the driver runs.

{client}

How many times longer nova takes for the host with 8 children, by database and latency
(``--size 8 --database sqlite postgresql --latency 0 5 20``; median of {matrix_lives}):

{matrix}

Thousands of nodes
------------------

``python -m bench scale``. Every node is a root of its own with one custom class and one
trait. Ours are reported with ``report_many``; "a call each" is ``report`` for one node after
the other, which is how nova does it always. nova's whole-tree mode is measured on ten of the
nodes and multiplied: each of its passes goes through all of them.

{scale}

What a node costs, by the number of nodes: microseconds of CPU a node for the passes, wall
time for the first report, and the peak memory of the process. A pass over one of many nodes
("a call each") must not depend on how many there are. ``report_many`` ("nothing due") keeps a
result for each node until it returns, and with 10,000 the garbage collector has to look at
them: against canned answers a node took 24 us with the collector off, 27 to 39 us with it.

{growth}

{held}

Requests per pass
-----------------

``python -m bench passes``: without servers, the real Placement in process on SQLite, so the
time ratios have no network in them. Medians of nine lives of the small tree, of three of the
large one.

{passes}

Consumers
---------

``python -m bench consumers``: likewise without servers; medians of five lives. ``VGPU`` moves
from the root to eight children while instances hold it; what a consumer holds is read and written
in one request each, whoever does it, so there is little to save.

{consumers}

Operations of the tree
----------------------

``python -m bench tree``. A root, a tenth of all providers as its children, the rest below
these; every provider with one inventory record and two traits.

{tree}
"""

Table = Callable[[dict[str, Any], str], str]
OneTable = Callable[[dict[str, Any]], str]


def write(tree_table: Table, passes_table: Table, consumers_table: OneTable) -> None:
    """Write the page."""
    text = page(tree_table, passes_table, consumers_table)
    (HERE.parent / "docs" / "measured.rst").write_text(text)


def page(tree_table: Table, passes_table: Table, consumers_table: OneTable) -> str:
    """The page, from the saved results."""
    tree, passes, consumers, hosts, fleets = (
        json.loads((RESULTS / f"{name}.json").read_text())
        for name in ("tree", "passes", "consumers", "client", "scale")
    )
    main_hosts = hosts["found"][targets.SETTING]
    main_fleets = fleets["found"][targets.SETTING]
    wanted = targets.targets(hosts["found"], fleets["found"])
    return PAGE.format(
        machine=hosts["machine"],
        targets=targets.show(wanted),
        missed=missed(wanted),
        client="\n\n".join(
            f"{size} children ({lives(sides)}):\n\n{client.pass_table(sides)}\n\n{memory(sides)}"
            for size, sides in main_hosts.items()
        ),
        matrix=client.latency_table(hosts["found"], "8"),
        matrix_lives=_matrix_lives(hosts["found"]),
        scale="\n\n".join(
            f"{int(size):,} nodes ({lives(sides)}):\n\n{scale.pass_table(sides)}\n\n"
            f"{memory(sides)}"
            for size, sides in main_fleets.items()
            if size != "held"
        ),
        growth=scale.growth_table(main_fleets),
        held=held(main_fleets["held"]),
        passes="\n\n".join(
            f"With {name}:\n\n{passes_table(passes['found'], name)}"
            for name in passes["found"]["ours"]
        ),
        consumers=consumers_table(consumers["found"]),
        tree="\n\n".join(
            f"{int(size):,} providers:\n\n{tree_table(tree['found'], size)}"
            for size in tree["found"]
        ),
    )


def missed(wanted: list[targets.Target]) -> str:
    """Why targets were missed, if any were."""
    reasons: dict[str, list[str]] = {}
    for target in wanted:
        if not target.met:
            reason = REASONS.get(target.reason, "No reason is known yet.")
            reasons.setdefault(reason, []).append(target.what)
    if not reasons:
        return ""
    lines = [f"* {'; '.join(whats)}. {reason}" for reason, whats in reasons.items()]
    return "Where a target was missed, and why:\n\n" + "\n".join(lines) + "\n"


def lives(sides: dict[str, Any]) -> str:
    """How often each side lived."""
    parts = ", ".join(f"{side} {found['lives']}" for side, found in sides.items())
    return f"lives: {parts}"


def memory(sides: dict[str, Any]) -> str:
    """The peaks of the sides' processes."""
    parts = ", ".join(f"{side} {found['memory']['peak MB']:,.0f}" for side, found in sides.items())
    return f"Peak memory in MB: {parts}."


def held(found: dict[str, float]) -> str:
    """What a client keeps of each node."""
    text = f"``ReportClient`` holds {found['ours']:,.0f} bytes for each node"
    if "nova" in found:
        text += f", nova {found['nova']:,.0f}"
    return f"{text}: what is freed when it forgets {scale.HELD} nodes, by tracemalloc."


def _matrix_lives(found: dict[str, Any]) -> str:
    numbers = {sides["8"]["ours"]["lives"] for sides in found.values() if "8" in sides}
    return " or ".join(map(str, sorted(numbers)))
