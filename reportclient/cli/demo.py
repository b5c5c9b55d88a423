# SPDX-License-Identifier: Apache-2.0
"""The main job, on this machine, with the real Placement in this process."""

from __future__ import annotations

import dataclasses
import json
import platform
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from reportclient import exceptions
from reportclient.cli import render
from reportclient.client import ReportClient
from reportclient.drivers.host import HostDriver
from reportclient.provider_tree import ProviderTree, provider_uuid
from reportclient.result import SyncResult
from reportclient.testing.embedded import EmbeddedPlacement

__all__ = ["DemoFailed", "run"]

_TRAIT = "CUSTOM_OPERATORS_CHOICE"
_REFRESH_INTERVAL = 300.0


class DemoFailed(exceptions.ReportClientError):
    """A step did not hold."""


@dataclasses.dataclass
class _Pass:
    """One pass: what it was about, what it took, and what it came to."""

    title: str
    result: SyncResult
    seconds: float
    expected: str

    @property
    def requests(self) -> int:
        return sum(self.result.requests.values())


class _Clock:
    """The machine's clock, and a way to say that time has passed."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.ahead


class _MeddledWith:
    """The host driver, while others write and the machine loses a CPU."""

    def __init__(self, driver: HostDriver, meanwhile: Callable[[], None]) -> None:
        self._driver = driver
        self._meanwhile = meanwhile
        self.runs = 0

    def update_provider_tree(
        self,
        provider_tree: ProviderTree,
        nodename: str,
        allocations: Mapping[str, Any] | None = None,
    ) -> None:
        self.runs += 1
        self._driver.update_provider_tree(provider_tree, nodename, allocations)
        self._meanwhile()
        inventory = provider_tree.data(nodename).inventory
        name = "DISK_GB" if "DISK_GB" in inventory else next(iter(inventory))
        inventory[name] = {**inventory[name], "reserved": inventory[name]["total"] // 10 + 1}
        provider_tree.update_inventory(nodename, inventory)


def _expect(holds: bool, expected: str, seen: object) -> None:
    if not holds:
        raise DemoFailed(f"The demo failed. Expected: {expected}. Seen: {seen}")


def run(*, as_json: bool = False) -> int:
    """Run the demo and print it; 0 if every step held.

    :raises DemoFailed: a step did not hold; says which, and what was seen.
    """
    began = time.perf_counter()
    out = render.console()
    clock = _Clock()
    with EmbeddedPlacement() as placement:
        client = ReportClient(placement.adapter(), refresh_interval=_REFRESH_INTERVAL, clock=clock)
        with client:
            if not as_json:
                version = placement.operator.call("GET", "/")["versions"][0]["max_version"]
                out.print(
                    f"[bold]1.[/bold] Placement runs in this process (microversion {version}).\n"
                )
            show = None if as_json else out.print
            tree, passes, proof = _passes(client, placement, clock, show)
    seconds = time.perf_counter() - began
    if as_json:
        print(json.dumps(_facts(tree, passes, proof, seconds), indent=2))
        return 0
    rows = [
        (one.title, str(one.requests), str(one.result.conflicts), f"{one.seconds * 1000:.0f} ms")
        for one in passes
    ]
    out.print(
        render.sequence_table(
            "5. Requests per pass", ("pass", "requests", "conflicts", "time"), rows
        )
    )
    out.print(f"Every step held, in {seconds:.1f} s.")
    return 0


def _passes(
    client: ReportClient,
    placement: EmbeddedPlacement,
    clock: _Clock,
    show: Callable[..., None] | None,
) -> tuple[ProviderTree, list[_Pass], dict[str, Any]]:
    say = show or (lambda *_: None)
    operator = placement.operator
    name = platform.node() or "this-machine"
    root = provider_uuid(uuid.NAMESPACE_DNS, name)
    driver = HostDriver()

    first = _timed("first report", lambda: client.report(None, root, name, driver))
    there = operator.provider(root)
    _expect(there is not None, f"a provider {root} in Placement", there)
    _expect(first.result.complete, "a complete first report", first.result)
    _expect(first.result.conflicts == 0, "no conflict in the first report", first.result)
    tree = client.get_provider_tree_and_ensure_root(None, root)
    say(
        f"[bold]2.[/bold] This machine, as Placement has it now ({len(tree.snapshot())} provider"
        f"{'s' if len(tree.snapshot()) > 1 else ''}):"
    )
    for one in render.provider_tree(tree):
        say(one)
    say(render.requests_table("What that took", first.result.requests))

    clock.ahead += _REFRESH_INTERVAL
    second = _timed("unchanged, refresh due", lambda: client.report(None, root, name, driver))
    _expect(
        second.result.requests == {"GET /resource_providers": 1},
        "one listing for a refresh that finds nothing new",
        second.result.requests,
    )
    _expect(not second.result.changed, "nothing written", second.result)
    say(
        render.requests_table(
            "3. Reported again: nothing has changed, and the refresh is due",
            second.result.requests,
        )
    )

    third, proof = _race(client, placement, root, name, driver)
    say(
        render.requests_table(
            "4. While the driver worked, an operator set a trait and a VM was placed",
            third.result.requests,
        )
    )
    say(
        f"   The write met its 409, was merged and sent again; the driver ran {proof['runs']} "
        f"time.\n   In Placement now: the operator's {_TRAIT}, the VM's "
        f"{proof['allocated']} and our {proof['changed']}.\n"
    )
    tree = client.get_provider_tree_and_ensure_root(None, root)
    return tree, [first, second, third], proof


def _race(
    client: ReportClient,
    placement: EmbeddedPlacement,
    root: str,
    name: str,
    driver: HostDriver,
) -> tuple[_Pass, dict[str, Any]]:
    operator = placement.operator
    consumer = str(uuid.uuid4())
    holder = next(
        uuid_
        for uuid_ in client.get_provider_tree_and_ensure_root(None, root).get_provider_uuids(root)
        if "VCPU" in (operator.provider(uuid_) or {})["inventory"]
    )

    def meanwhile() -> None:
        operator.add_trait(root, _TRAIT)
        operator.allocate(consumer, {holder: {"VCPU": 1}})

    meddled = _MeddledWith(driver, meanwhile)
    one = _timed("operator and VM meanwhile", lambda: client.report(None, root, name, meddled))
    path = "/resource_providers/{uuid}/inventories"
    expected = {f"PUT {path}": 2, f"GET {path}": 1}
    _expect(one.result.conflicts == 1, "one conflict", one.result)
    _expect(one.result.requests == expected, f"{expected}", one.result.requests)
    _expect(meddled.runs == 1, "one run of the driver", meddled.runs)
    there = operator.provider(root) or {}
    _expect(_TRAIT in there["traits"], "the operator's trait is still there", there["traits"])
    changed = next(n for n, r in there["inventory"].items() if r["reserved"] > r["total"] // 10)
    held = operator.call("GET", f"/allocations/{consumer}")["allocations"]
    _expect(holder in held, "the VM's allocation is still there", held)
    return one, {
        "runs": meddled.runs,
        "trait": _TRAIT,
        "allocated": "1 VCPU",
        "changed": f"{changed} reserved {there['inventory'][changed]['reserved']}",
    }


def _timed(title: str, call: Callable[[], SyncResult]) -> _Pass:
    began = time.perf_counter()
    result = call()
    return _Pass(title, result, time.perf_counter() - began, "")


def _facts(
    tree: ProviderTree, passes: list[_Pass], proof: dict[str, Any], seconds: float
) -> dict[str, Any]:
    return {
        "tree": tree.to_dict()["providers"],
        "passes": [
            {"title": one.title, "seconds": one.seconds, **render.result_facts(one.result)}
            for one in passes
        ],
        "race": proof,
        "seconds": seconds,
    }
