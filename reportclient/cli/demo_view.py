# SPDX-License-Identifier: Apache-2.0
"""The demo, told to a person or to a program."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

from reportclient.cli import render
from reportclient.exceptions import ReportClientError

if TYPE_CHECKING:
    from reportclient.cli.demo import Demo, Pass

__all__ = ["JSONView", "TextView"]

_MOST_TRAITS = 6


class JSONView:
    """One JSON document, at the end."""

    def __init__(self, demo: Demo) -> None:
        self._demo = demo

    def step(self, step: str) -> None:
        """Nothing: the document is one."""

    def end(self, seconds: float, error: ReportClientError | None) -> None:
        """Print the document."""
        demo = self._demo
        facts = {
            "held": error is None,
            "error": None if error is None else str(error),
            "microversion": demo.microversion,
            "name": demo.name,
            "uuid": demo.root,
            "tree": demo.tree.to_dict()["providers"],
            "passes": [_facts(one) for one in demo.passes],
            "race": demo.race,
            "expectations": [dataclasses.asdict(one) for one in demo.expectations],
            "seconds": round(seconds, 3),
        }
        print(json.dumps(facts, indent=2, default=sorted), flush=True)


class TextView:
    """The steps as they are done, and a table at the end."""

    def __init__(self, demo: Demo) -> None:
        self._demo = demo
        self._out = render.console()

    def step(self, step: str) -> None:
        """Say what a step did."""
        getattr(self, f"_{step}")()

    def end(self, seconds: float, error: ReportClientError | None) -> None:
        """Say how it ended; what failed is for the caller to say."""
        if error is not None:
            return
        checked = len(self._demo.expectations)
        self._out.print(
            render.line(f"All of it held ({checked} checks), in {seconds:.1f} s.", "bold green")
        )

    # -- the steps -------------------------------------------------------------------

    def _started(self) -> None:
        version = self._demo.microversion
        self._heading(
            1, f"The real Placement is running in this process (microversion {version})."
        )
        self._out.print()

    def _reported(self) -> None:
        self._heading(2, "This machine was read and reported. Placement now holds:")
        self._out.print()
        for one in render.trees(self._demo.tree, most_traits=_MOST_TRAITS):
            self._out.print(one)
        self._requests(self._demo.passes[0])

    def _refreshed(self) -> None:
        at_once, due = self._demo.passes[1:3]
        self._heading(3, "Reported again; nothing has changed.")
        if not at_once.result.requests:
            self._say("At once it takes no request at all. With the refresh due it takes")
        self._requests(due)

    def _raced(self) -> None:
        race, one = self._demo.race, self._demo.passes[3]
        change = race["inventory"]
        took = ", ".join(f"{amount} {name}" for name, amount in race["allocation"].items())
        self._heading(4, "While the driver held its tree, others wrote to the same provider:")
        self._say(f"an operator added the trait {race['trait']};")
        self._say(f"a VM was given {took};")
        self._say(
            f"and the driver changed {change['resource_class']} reserved "
            f"from {change['before']} to {change['after']}."
        )
        self._out.print()
        for kind, status in one.answers:
            outdated = status == 409
            self._out.print(
                render.styled(
                    (f"   {status} ", "yellow" if outdated else "green"),
                    (kind, ""),
                    ("   the generation was outdated" if outdated else "", "dim"),
                )
            )
        self._out.print()
        self._say("Read again, merged, written: all three changes stand. The driver ran once.")
        self._out.print()

    def _settled(self) -> None:
        self._heading(5, "Requests per pass:")
        rows = [
            (
                one.title,
                str(sum(one.result.requests.values())),
                str(one.result.conflicts),
                str(one.driver_runs),
                f"{one.seconds * 1000:.0f} ms",
            )
            for one in self._demo.passes
        ]
        columns = ("pass", "requests", "conflicts", "driver runs", "time")
        self._out.print()
        self._out.print(render.table(columns, rows))
        self._out.print()

    # -- tools -------------------------------------------------------------------------

    def _heading(self, number: int, text: str) -> None:
        self._out.print(render.styled((f"{number}. ", "bold cyan"), (text, "bold")))

    def _say(self, text: str) -> None:
        self._out.print(render.line(f"   {text}"))

    def _requests(self, one: Pass) -> None:
        self._out.print()
        self._out.print(render.requests_table(one.result.requests))
        self._out.print()


def _facts(one: Pass) -> dict[str, Any]:
    return {
        "title": one.title,
        "driver_runs": one.driver_runs,
        "answers": [{"request": kind, "status": status} for kind, status in one.answers],
        **render.result_facts(one.result),
        "seconds": round(one.seconds, 4),
    }
