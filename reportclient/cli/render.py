# SPDX-License-Identifier: Apache-2.0
"""Trees and tables on a terminal; plain text when piped."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from reportclient.provider_tree import ProviderTree
from reportclient.result import SyncResult
from reportclient.snapshot import TreeSnapshot
from reportclient.types import ProviderRecord

__all__ = ["console", "provider_tree", "requests_table", "result_facts"]

#: So many traits are shown of a family before the rest is counted.
_TRAITS_SHOWN = 3


def console() -> Console:
    """A console for standard output."""
    # Piped text has no natural width, and must not be cut in the middle.
    return Console(width=None if sys.stdout.isatty() else 120, highlight=False)


def provider_tree(tree: ProviderTree) -> Iterable[Tree]:
    """One rich tree for each root."""
    snapshot = tree.snapshot()
    for root in snapshot.roots:
        shown = Tree(_title(snapshot.records[root]), guide_style="dim")
        _fill(shown, snapshot, root)
        yield shown


def _fill(shown: Tree, snapshot: TreeSnapshot, uuid: str) -> None:
    record = snapshot.records[uuid]
    if record.inventory:
        shown.add(_inventory(record.inventory))
    for line in _traits(record.traits or frozenset()):
        shown.add(Text(line, style="cyan"))
    for aggregate in sorted(record.aggregates or ()):
        shown.add(Text(f"aggregate {aggregate}", style="magenta"))
    for child in snapshot.children(uuid):
        _fill(shown.add(_title(snapshot.records[child])), snapshot, child)


def _title(record: ProviderRecord) -> str:
    shared = " [yellow]sharing[/yellow]" if record.sharing else ""
    return f"[bold]{escape(record.name)}[/bold] [dim]{record.uuid}[/dim]{shared}"


def _inventory(inventory: Mapping[str, Mapping[str, Any]]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    for name, record in sorted(inventory.items()):
        details = [f"reserved {record['reserved']}"] if record.get("reserved") else []
        if record.get("allocation_ratio", 1.0) != 1.0:
            details.append(f"ratio {record['allocation_ratio']}")
        table.add_row(
            Text(name, style="green"),
            Text(str(record["total"]), justify="right"),
            Text(", ".join(details), style="dim"),
        )
    return table


def _traits(traits: Iterable[str]) -> Iterable[str]:
    """One line for each family, shortened: a CPU has dozens of traits."""
    families: dict[str, list[str]] = {}
    for trait in sorted(traits):
        parts = trait.split("_")
        depth = 3 if parts[0] == "HW" else 2 if parts[0] == "COMPUTE" else 1
        families.setdefault("_".join(parts[:depth]), []).append(trait)
    for names in families.values():
        more = len(names) - _TRAITS_SHOWN
        shown = names if more <= 1 else names[:_TRAITS_SHOWN]
        yield " ".join(shown) + (f" and {more} more" if more > 1 else "")


def requests_table(title: str, requests: Mapping[str, int]) -> Table:
    """How many requests of each kind."""
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", title_style="bold")
    table.add_column("requests", justify="right")
    table.add_column("kind")
    for kind, count in sorted(requests.items(), key=lambda item: (-item[1], item[0])):
        table.add_row(str(count), Text(kind))
    table.add_row(Text(str(sum(requests.values())), style="bold"), Text("in all", style="bold"))
    return table


def result_facts(result: SyncResult) -> dict[str, Any]:
    """A result as plain data for JSON."""
    providers = []
    for provider in result.providers.values():
        facts = dataclasses.asdict(
            dataclasses.replace(provider, kept=None, pending=None, failed=None)
        )
        facts["written"] = sorted(provider.written)
        facts["merged"] = sorted(provider.merged)
        facts["left_out"] = sorted(provider.left_out)
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
        "plan": [str(operation) for operation in result.plan],
        "providers": providers,
    }


def sequence_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """A small table: the first column to the left, the others to the right."""
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", title_style="bold")
    for n, column in enumerate(columns):
        table.add_column(column, justify="right" if n else "left")
    for row in rows:
        table.add_row(*map(Text, row))
    return table
