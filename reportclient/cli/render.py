# SPDX-License-Identifier: Apache-2.0
"""Trees, plans and tables: in colour on a terminal, plain text when piped."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from reportclient.cli.errors import printable
from reportclient.plan import CreateProvider, DeleteProvider, Operation, Plan, WriteAspect
from reportclient.provider_tree import ProviderTree
from reportclient.result import SyncResult
from reportclient.snapshot import TreeSnapshot
from reportclient.types import ProviderRecord

__all__ = [
    "console",
    "line",
    "operation_facts",
    "plan",
    "requests_table",
    "result_facts",
    "styled",
    "table",
    "trees",
]

#: Piped text has no width of its own.
_PIPED_WIDTH = 100
#: Values that say nothing; 2147483647 is Placement's default for no limit.
_PLAIN: Mapping[str, tuple[float, ...]] = {
    "reserved": (0,),
    "min_unit": (1,),
    "max_unit": (2147483647,),
    "step_size": (1,),
    "allocation_ratio": (1.0,),
}
_SIGNS = {"+": "green", "-": "red"}


def console() -> Console:
    """A console for standard output."""
    chosen = sys.stdout.isatty() or "COLUMNS" in os.environ
    return Console(width=None if chosen else _PIPED_WIDTH, highlight=False, markup=False)


def line(text: str, style: str = "") -> Text:
    """A text that is printed as it is, whatever it holds."""
    return Text("\n".join(map(printable, text.split("\n"))), style=style, overflow="fold")


def styled(*parts: tuple[str, str]) -> Text:
    """Texts with a style each, on one line."""
    return Text.assemble(*((printable(text), style) for text, style in parts), overflow="fold")


# -- trees ------------------------------------------------------------------------


def trees(tree: ProviderTree, *, most_traits: int | None = None) -> Iterator[Tree]:
    """One rich tree for each root.

    :param most_traits: how many of a family of traits are named; ``None``: all.
    """
    snapshot = tree.snapshot()
    for root in snapshot.roots:
        shown = Tree(_title(snapshot.records[root]), guide_style="dim")
        _fill(shown, snapshot, root, most_traits)
        yield shown


def _fill(shown: Tree, snapshot: TreeSnapshot, uuid: str, most_traits: int | None) -> None:
    record = snapshot.records[uuid]
    if record.inventory:
        shown.add(_inventory(record.inventory))
    if record.traits:
        shown.add(_traits(record.traits, most_traits))
    for aggregate in sorted(record.aggregates or ()):
        shown.add(line(f"aggregate {aggregate}", "magenta"))
    for child in snapshot.children(uuid):
        _fill(shown.add(_title(snapshot.records[child])), snapshot, child, most_traits)


def _title(record: ProviderRecord) -> Text:
    shares = "  shares with this tree" if record.sharing else ""
    return styled((record.name, "bold"), (f"  {record.uuid}", "dim"), (shares, "yellow"))


def _inventory(inventory: Mapping[str, Mapping[str, Any]]) -> Table:
    shown = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    for name, record in sorted(inventory.items()):
        total = record.get("total")
        shown.add_row(
            line(name, "green"),
            Text(str(total), justify="right"),
            line(", ".join(_details(record)), "dim"),
        )
    return shown


def _details(record: Mapping[str, Any]) -> Iterator[str]:
    """The fields that say something: all but the usual values."""
    total = record.get("total")
    for field, value in record.items():
        usual = value in _PLAIN.get(field, ()) or (field == "max_unit" and value == total)
        if field not in ("total", "resource_provider_generation") and not usual:
            yield f"{field} {value}"


def _traits(traits: Iterable[str], most: int | None) -> Group:
    """A line for each family: a CPU alone has dozens of traits."""
    families: dict[str, list[str]] = {}
    for trait in sorted(traits):
        families.setdefault(_family(trait), []).append(trait)
    lines = []
    for family, names in families.items():
        whole = len(names) < 3
        shown = names if whole else [name.removeprefix(family) for name in names]
        more = 0 if most is None or len(shown) <= most + 1 else len(shown) - most
        lines.append(
            styled(
                ("" if whole else f"{family}* ", "cyan"),
                (" ".join(shown[: len(shown) - more]), "cyan" if whole else ""),
                (f" and {more} more" if more else "", "dim"),
            )
        )
    return Group(*lines)


def _family(trait: str) -> str:
    """What a trait's name begins with that others' names begin with too."""
    parts = trait.split("_")
    depth = {"HW": 3, "COMPUTE": 2}.get(parts[0], 1)
    return "_".join(parts[: min(depth, len(parts) - 1)]) + "_"


# -- plans and results ------------------------------------------------------------


def plan(what: Plan) -> RenderableType:
    """One operation a line, and one line for each field that is written."""
    if not what:
        return line("nothing to do")
    lines = []
    for operation in what:
        head, _, tail = str(operation).partition(": ")
        style = {CreateProvider: "green", DeleteProvider: "red"}.get(type(operation), "yellow")
        lines.append(line(head, style))
        if isinstance(operation, WriteAspect):
            lines += [
                line(f"    {difference}", _SIGNS.get(difference[0], ""))
                for difference in operation.differences()
            ]
        elif tail:
            lines.append(line(f"    {tail}"))
    return Group(*lines)


def operation_facts(operation: Operation) -> dict[str, Any]:
    """An operation as plain data for JSON."""
    facts: dict[str, Any] = {
        "operation": type(operation).__name__,
        "uuid": operation.uuid,
        "name": operation.name,
    }
    for field in ("parent_uuid", "old_parent_uuid", "old_name"):
        if hasattr(operation, field):
            facts[field] = getattr(operation, field)
    if isinstance(operation, WriteAspect):
        facts |= {"aspect": str(operation.aspect), "changes": list(operation.differences())}
    return facts


def result_facts(result: SyncResult) -> dict[str, Any]:
    """A result as plain data for JSON."""
    providers = []
    for provider in result.providers.values():
        facts = dataclasses.asdict(
            dataclasses.replace(provider, kept=None, pending=None, failed=None)
        )
        for field in ("written", "merged", "left_out"):
            facts[field] = sorted(map(str, getattr(provider, field)))
        facts["kept"] = list(provider.kept.resource_classes) if provider.kept else []
        for field in ("pending", "failed"):
            error = getattr(provider, field)
            facts[field] = None if error is None else str(error)
        providers.append(facts)
    return {
        "complete": result.complete,
        "changed": result.changed,
        "conflicts": result.conflicts,
        "requests": dict(result.requests),
        "request_ids": list(result.request_ids),
        "seconds": round(result.seconds, 4),
        "providers": providers,
    }


# -- tables -----------------------------------------------------------------------


def requests_table(requests: Mapping[str, int]) -> Table:
    """How many requests there were of each kind."""
    shown = Table(box=None, show_header=False, padding=(0, 1, 0, 0))
    total = sum(requests.values())
    shown.add_column(justify="right", min_width=4)
    for kind, count in sorted(requests.items(), key=lambda item: (-item[1], item[0])):
        shown.add_row(str(count), line(kind))
    shown.add_row(str(total), f"request{'' if total == 1 else 's'} in all", style="bold")
    return shown


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """A table: the first column to the left, the others to the right."""
    shown = Table(box=box.SIMPLE_HEAD, padding=(0, 1), show_edge=False)
    for n, column in enumerate(columns):
        shown.add_column(column, justify="right" if n else "left", overflow="fold")
    for row in rows:
        shown.add_row(*map(line, row))
    return shown
