# SPDX-License-Identifier: Apache-2.0
"""What the measurements must show, and whether they do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from bench.tables import table

#: The setting that the targets are meant for.
SETTING = "postgresql, 5 ms"


class Target(NamedTuple):
    """One figure: the wanted bound, and what was measured.

    :ivar reason: key of the reason to give, should it be missed.
    """

    what: str
    least: float | None
    most: float | None
    measured: float
    command: str
    reason: str = ""

    @property
    def met(self) -> bool:
        """Whether the figure is within its bound, as it is shown."""
        shown = float(number(self.measured).replace(",", ""))
        return (self.least is None or shown >= self.least) and (
            self.most is None or shown <= self.most
        )

    def row(self) -> tuple[str, ...]:
        """Its line of the table."""
        bound = f">= {self.least:g}" if self.least is not None else f"<= {self.most:g}"
        return (
            self.what,
            bound,
            number(self.measured),
            "yes" if self.met else "**no**",
            self.command,
        )


def number(value: float) -> str:
    """A figure with two digits behind the point where they matter."""
    if value == int(value):
        return f"{value:,.0f}"
    return f"{value:,.2f}" if value < 10 else f"{value:,.1f}"


def targets(client: dict[str, Any], scale: dict[str, Any]) -> list[Target]:
    """All targets for which there are results."""
    found: list[Target] = []
    hosts, fleets = client.get(SETTING, {}), scale.get(SETTING, {})
    for size, make in (("8", _host), ("500", _large)):
        if "nova" in hosts.get(size, {}):
            found += make(hosts[size])
    if "nova" in fleets.get("1000", {}):
        found += _fleet(fleets["1000"])
    if "nova" in fleets.get("held", {}):
        held = fleets["held"]
        ratio = held["ours"] / held["nova"]
        found.append(Target("bytes held for a node: of nova's", None, 1, ratio, "scale", "memory"))
    if "8" in hosts:
        found += _floor("host", hosts["8"], _HOST_PASSES, "client")
    if "1000" in fleets:
        found += _floor("1,000 nodes", fleets["1000"], _FLEET_PASSES, "scale")
    return found


_HOST_PASSES = ("first report", "refresh due", "one inventory changed")
_FLEET_PASSES = ("first report", "refresh due")


def show(found: list[Target]) -> str:
    """The table."""
    header = ("what", "target", "measured", "met", "python -m bench")
    return table(header, [target.row() for target in found])


def _readers(sides: dict[str, Any]) -> tuple[Callable[..., float], Callable[..., float]]:
    def requests(title: str) -> float:
        return float(sides["ours"]["passes"][title]["requests"])

    def faster(title: str, what: str = "wall", theirs: str = "") -> float:
        nova = sides["nova"]["passes"][theirs or title][what]
        return float(nova / sides["ours"]["passes"][title][what])

    return requests, faster


def _host(sides: dict[str, Any]) -> Iterator[Target]:
    requests, faster = _readers(sides)
    ran = sides["ours"]["passes"]["conflict"]["driver ran"]
    wanted: list[tuple[str, float | None, float | None, float, str]] = [
        ("nothing due: requests", None, 0, requests("nothing due"), ""),
        ("refresh due: requests", None, 2, requests("refresh due"), ""),
        ("refresh due: times faster", 10, None, faster("refresh due"), "time"),
        ("one change: requests", None, 1, requests("one inventory changed"), ""),
        ("conflict: requests", None, 3, requests("conflict"), ""),
        ("conflict: driver runs", None, 1, ran, ""),
        ("conflict: times faster", 6, None, faster("conflict"), "time"),
        ("first report: requests", None, 40, requests("first report"), ""),
        ("first report: times faster", 3, None, faster("first report"), "first host"),
        ("restart: times faster", 3, None, faster("restart"), "restart"),
        ("restart, cache file: requests", None, 2, requests("restart with a cache file"), ""),
    ]
    for what, least, most, measured, reason in wanted:
        yield Target(f"host, {what}", least, most, measured, "client", reason)


def _large(sides: dict[str, Any]) -> Iterator[Target]:
    requests, faster = _readers(sides)
    wanted: list[tuple[str, float | None, float | None, float, str]] = [
        ("refresh due: requests", None, 2, requests("refresh due"), ""),
        ("refresh due: times faster", 150, None, faster("refresh due"), "time"),
        ("conflict: requests", None, 3, requests("conflict"), ""),
        ("first report: requests a child", None, 4, requests("first report") / 500, ""),
        ("first report: times faster", 3, None, faster("first report"), "first large"),
    ]
    for what, least, most, measured, reason in wanted:
        yield Target(f"500 children, {what}", least, most, measured, "client", reason)


def _fleet(sides: dict[str, Any]) -> Iterator[Target]:
    requests, faster = _readers(sides)
    each, whole = "nothing due, a call each", "nothing due, whole trees"
    wanted: list[tuple[str, float | None, float | None, float, str]] = [
        ("refresh due: requests", None, 1, requests("refresh due"), ""),
        ("refresh due: times faster", 100, None, faster("refresh due"), "time"),
        ("nothing due: times less CPU", 3, None, faster(each, "cpu"), "cpu"),
        ("nothing due, whole tree: times less CPU", 100, None, faster(each, "cpu", whole), "cpu"),
        ("first report: requests", None, 3020, requests("first report"), ""),
    ]
    for what, least, most, measured, reason in wanted:
        yield Target(f"1,000 nodes, {what}", least, most, measured, "scale", reason)


def _floor(
    who: str, sides: dict[str, Any], passes: tuple[str, ...], command: str
) -> Iterator[Target]:
    for title in passes:
        for what, name in (("wall", "wall time"), ("cpu", "client CPU")):
            ours = sides["ours"]["passes"][title][what]
            ratio = ours / sides["floor"]["passes"][title][what]
            reason = f"floor {who} {title} {what}"
            yield Target(f"{who}, {title}: {name} of the floor", None, 1.2, ratio, command, reason)
