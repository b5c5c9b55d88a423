# SPDX-License-Identifier: Apache-2.0
"""``demo``: the main job, on this machine, with the real Placement in process.

Every step says what it expects of Placement and of the requests that were
sent; a step that does not hold ends the demo with `DemoFailed`.
"""

from __future__ import annotations

import argparse
import dataclasses
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from reportclient import exceptions
from reportclient.cli.machine import machine_name
from reportclient.client import ReportClient
from reportclient.driver import Driver
from reportclient.drivers.host import HostDriver
from reportclient.provider_tree import ProviderTree, provider_uuid
from reportclient.result import SyncResult
from reportclient.testing.embedded import EmbeddedPlacement

__all__ = ["Demo", "DemoFailed", "Expectation", "Pass", "command", "run"]

TRAIT = "CUSTOM_OPERATORS_CHOICE"
REFRESH_INTERVAL = 300.0
_LISTING = "GET /resource_providers"
_INVENTORIES = "/resource_providers/{uuid}/inventories"
#: MiB that the VM takes, and that the driver reserves meanwhile.
_MEMORY = 64


class DemoFailed(exceptions.ReportClientError):
    """A step of the demo did not hold."""


@dataclasses.dataclass(frozen=True)
class Expectation:
    """Something that has to be so, and what was seen."""

    what: str
    wanted: Any
    seen: Any
    holds: bool


@dataclasses.dataclass(frozen=True)
class Pass:
    """A pass: its result, and the answers to its requests in their order."""

    title: str
    result: SyncResult
    answers: tuple[tuple[str, int | None], ...]
    driver_runs: int
    seconds: float


class _Clock:
    """The machine's clock, and a way to say that time has passed: nobody waits."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.ahead

    def sleep(self, seconds: float) -> None:
        """Be so much later at once."""
        self.ahead += seconds


class _Machine:
    """A driver that others write beside of, and that changes its mind."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self.runs = 0
        self.meanwhile: Callable[[ProviderTree], None] | None = None
        self.change: Callable[[ProviderTree], None] | None = None

    def update_provider_tree(
        self,
        provider_tree: ProviderTree,
        nodename: str,
        allocations: Mapping[str, Any] | None = None,
    ) -> None:
        self.runs += 1
        self._driver.update_provider_tree(provider_tree, nodename, allocations)
        if self.change is not None:
            self.change(provider_tree)
        if self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            meanwhile(provider_tree)


class Demo:
    """The steps of the demo, and all that came of them.

    :ivar tree: the tree that Placement held after the first report.
    :ivar passes: the passes so far.
    :ivar expectations: what was checked so far; the last one may not hold.
    :ivar race: what others wrote while the driver held its tree, and what it
        wrote itself.
    """

    def __init__(self, placement: EmbeddedPlacement, driver: Driver) -> None:
        self._placement = placement
        self._machine = _Machine(driver)
        self._clock = _Clock()
        self.name = machine_name()
        self.root = provider_uuid(uuid.NAMESPACE_DNS, self.name)
        self.microversion: str | None = None
        self.tree = ProviderTree()
        self.passes: list[Pass] = []
        self.expectations: list[Expectation] = []
        self.race: dict[str, Any] = {}

    def steps(self) -> Iterator[str]:
        """Go through the demo; the name of each step once it has held.

        :raises DemoFailed: a step did not hold; says which, and what was seen.
        """
        document = self._placement.operator.call("GET", "/")
        self.microversion = document["versions"][0]["max_version"]
        yield "started"
        with ReportClient(
            self._placement.adapter(),
            refresh_interval=REFRESH_INTERVAL,
            clock=self._clock,
            sleep=self._clock.sleep,
        ) as client:
            self._first(client)
            yield "reported"
            self._unchanged(client)
            yield "refreshed"
            self._raced(client)
            yield "raced"
            self._afterwards(client)
            yield "settled"

    # -- the steps ----------------------------------------------------------------

    def _first(self, client: ReportClient) -> None:
        one = self._pass(client, "first report", startup=True)
        self.tree = client.get_provider_tree_and_ensure_root(None, self.root)
        uuids = self.tree.get_provider_uuids(self.root)
        self._expect("everything was taken", True, one.result.complete)
        self._expect("conflicts", 0, one.result.conflicts)
        self._expect(
            "providers in Placement",
            sorted(uuids),
            sorted(self._placement.operator.providers().values()),
        )
        for uuid_ in uuids:
            ours, theirs = self.tree.data(uuid_), self._placement.operator.provider(uuid_) or {}
            self._expect(f"traits of {ours.name}", sorted(ours.traits), theirs.get("traits"))
            self._expect(f"inventory of {ours.name}", ours.inventory, theirs.get("inventory"))
        self._expect("there is a CPU to give away", True, self._target(self.tree) is not None)
        kinds = one.result.requests
        self._expect("providers created", len(uuids), kinds.get("POST /resource_providers"))
        self._expect("at most one write of each aspect", True, _written_once(kinds, len(uuids)))

    def _unchanged(self, client: ReportClient) -> None:
        one = self._pass(client, "again at once, nothing is due")
        self._expect("requests while nothing is due", {}, dict(one.result.requests))
        self._clock.ahead += REFRESH_INTERVAL
        one = self._pass(client, "again, the refresh is due")
        self._expect("requests of a refresh", {_LISTING: 1}, dict(one.result.requests))
        self._expect("anything written", False, one.result.changed)

    def _raced(self, client: ReportClient) -> None:
        consumer, held = str(uuid.uuid4()), {"VCPU": 1}
        target = self._target(self.tree)
        assert target is not None  # noqa: S101 - the first step has checked it
        before = self.tree.data(target).inventory
        resource_class = "MEMORY_MB" if "MEMORY_MB" in before else "VCPU"
        record = before[resource_class]
        free = record["total"] - record["reserved"]
        # Whatever it is, it must differ from what Placement holds.
        reserved = record["reserved"] + min(_MEMORY, free) if free else 0
        if resource_class == "MEMORY_MB" and free >= _MEMORY:
            held[resource_class] = _MEMORY

        def change(tree: ProviderTree) -> None:
            inventory = tree.data(target).inventory
            inventory[resource_class] = {**inventory[resource_class], "reserved": reserved}
            tree.update_inventory(target, inventory)

        def meanwhile(_: ProviderTree) -> None:
            self._placement.operator.add_trait(target, TRAIT)
            self._placement.operator.allocate(consumer, {target: held})

        self._machine.change, self._machine.meanwhile = change, meanwhile
        self.race = {
            "provider": target,
            "trait": TRAIT,
            "consumer": consumer,
            "allocation": held,
            "inventory": {
                "resource_class": resource_class,
                "field": "reserved",
                "before": record["reserved"],
                "after": reserved,
            },
        }
        one = self._pass(client, "others write meanwhile")
        self._expect("conflicts met", 1, one.result.conflicts)
        path = _INVENTORIES
        self._expect(
            "requests, and their answers",
            [[f"PUT {path}", 409], [f"GET {path}", 200], [f"PUT {path}", 200]],
            [list(answer) for answer in one.answers],
        )
        self._expect("runs of the driver", 1, one.driver_runs)
        self._expect("everything was taken", True, one.result.complete)
        there = self._placement.operator.provider(target) or {}
        self._expect(
            f"{resource_class} reserved", reserved, there["inventory"][resource_class]["reserved"]
        )
        others = {name: rest for name, rest in before.items() if name != resource_class}
        left = {name: there["inventory"].get(name) for name in others}
        self._expect("the rest of the inventory", others, left)
        wanted = sorted({*self.tree.data(target).traits, TRAIT})
        self._expect("our traits and the operator's", wanted, there["traits"])
        allocations = self._placement.operator.call("GET", f"/allocations/{consumer}")
        now = {u: a["resources"] for u, a in allocations["allocations"].items()}
        self._expect("the VM's allocation", {target: held}, now)

    def _afterwards(self, client: ReportClient) -> None:
        self._clock.ahead += REFRESH_INTERVAL
        one = self._pass(client, "afterwards, the refresh is due")
        self._expect("anything written", False, one.result.changed)
        self._expect("methods used", ["GET"], sorted({k.split()[0] for k in one.result.requests}))
        tree = client.get_provider_tree_and_ensure_root(None, self.root)
        seen = TRAIT in tree.data(self.race["provider"]).traits
        self._expect("the operator's trait in our tree", True, seen)

    # -- tools -----------------------------------------------------------------------

    def _pass(self, client: ReportClient, title: str, *, startup: bool = False) -> Pass:
        sent, runs = len(self._placement.requests), self._machine.runs
        began = time.perf_counter()
        result = client.report(None, self.root, self.name, self._machine, startup)
        one = Pass(
            title,
            result,
            tuple((each.kind, each.status) for each in self._placement.requests[sent:]),
            self._machine.runs - runs,
            time.perf_counter() - began,
        )
        self.passes.append(one)
        self._expect(f"requests counted, {title}", len(one.answers), sum(result.requests.values()))
        return one

    def _expect(self, what: str, wanted: Any, seen: Any) -> None:
        self.expectations.append(Expectation(what, wanted, seen, wanted == seen))
        if wanted != seen:
            raise DemoFailed(f"The demo failed: {what}: expected {wanted!r}, seen {seen!r}")

    def _target(self, tree: ProviderTree) -> str | None:
        """The provider that VMs take CPUs from."""
        return next(
            (u for u in tree.get_provider_uuids(self.root) if "VCPU" in tree.data(u).inventory),
            None,
        )


def _written_once(kinds: Mapping[str, int], providers: int) -> bool:
    return all(
        count <= providers
        for kind, count in kinds.items()
        if kind.startswith("PUT /resource_providers/")
    )


def command(given: argparse.Namespace) -> int:
    """Run the demo on this machine and print it."""
    return run(as_json=given.json)


def run(
    *,
    as_json: bool = False,
    placement: EmbeddedPlacement | None = None,
    driver: Driver | None = None,
) -> int:
    """Run the demo and print it; 0 if every step held.

    :param placement: one that is not started yet.
    :param driver: what to report instead of this machine.
    :raises DemoFailed: a step did not hold; what went before is printed.
    """
    from reportclient.cli import demo_view

    began = time.perf_counter()
    with placement or EmbeddedPlacement() as service:
        demo = Demo(service, driver or HostDriver())
        view = demo_view.JSONView(demo) if as_json else demo_view.TextView(demo)
        try:
            for step in demo.steps():
                view.step(step)
        except exceptions.ReportClientError as error:
            view.end(time.perf_counter() - began, error)
            raise
    view.end(time.perf_counter() - began, None)
    return 0
