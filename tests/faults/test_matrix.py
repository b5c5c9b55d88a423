# SPDX-License-Identifier: Apache-2.0
"""Every request of every pass fails in every way (P6, P7, P10).

The matrix is generated: each pass is run once without faults to see which
requests it sends, and then once for each of them and each fault. Whatever
happens, the pass ends in the wanted state or in one typed exception, and the
next pass without faults ends in the wanted state without a single conflict:
the client never sends a generation that it should have known to be outdated.
"""

from __future__ import annotations

import dataclasses
import itertools
import random
import uuid
from collections.abc import Callable
from typing import Any

import pytest
import requests
import urllib3.exceptions

from reportclient import ReportClient, exceptions
from reportclient.testing import EmbeddedPlacement, FakePlacement

ROOT, ONE, TWO = (str(uuid.UUID(int=n, version=4)) for n in (1, 2, 3))
AGGREGATE, OTHER = (str(uuid.UUID(int=n, version=4)) for n in (11, 12))


# -- the passes ----------------------------------------------------------------


def full(tree):
    """The host as it is first reported."""
    tree.update_inventory(ROOT, {"VCPU": {"total": 8}, "CUSTOM_A": {"total": 1}})
    tree.update_aggregates(ROOT, {AGGREGATE})
    tree.update_traits(ROOT, {"HW_CPU_X86_AVX", "CUSTOM_T"})
    if not tree.exists(ONE):
        tree.new_child("one", ROOT, uuid=ONE)
    tree.update_inventory(ONE, {"VGPU": {"total": 4}})
    if not tree.exists(TWO):
        tree.new_child("two", ONE, uuid=TWO)
    tree.update_traits(TWO, {"CUSTOM_T"})


def changed(edit):
    def both(tree):
        full(tree)
        edit(tree)

    return both


def inventory(tree):
    tree.update_inventory(ROOT, {"VCPU": {"total": 9}, "CUSTOM_B": {"total": 1}})


def traits(tree):
    tree.update_traits(ROOT, {"HW_CPU_X86_AVX2", "CUSTOM_U"})


def aggregates(tree):
    tree.update_aggregates(ROOT, {OTHER})


def all_aspects(tree):
    inventory(tree)
    traits(tree)
    aggregates(tree)


def add_child(tree):
    if not tree.exists("three"):
        tree.new_child("three", TWO, uuid=str(uuid.UUID(int=4, version=4)))
    tree.update_inventory("three", {"VGPU": {"total": 1}})


def remove_children(tree):
    if tree.exists(ONE):
        tree.remove(ONE)


def rename(tree):
    tree.rename(ONE, "renamed")


def move(tree):
    tree.move(TWO, ROOT)


def operator_changes(placement):
    """What makes a refresh read something."""
    placement.operator.add_trait(ONE, "CUSTOM_GOLD")
    placement.operator.set_aggregates(TWO, {AGGREGATE})


@dataclasses.dataclass(frozen=True)
class Pass:
    """A pass: the driver's edit, and what happens before it."""

    edit: Callable[[Any], None]
    first: bool = False
    due: bool = False
    before: Callable[[Any], None] = lambda placement: None
    delete: bool = False


PASSES = {
    "first report": Pass(full, first=True),
    "refresh": Pass(full, due=True, before=operator_changes),
    "inventory": Pass(changed(inventory)),
    "traits": Pass(changed(traits)),
    "aggregates": Pass(changed(aggregates)),
    "all aspects": Pass(changed(all_aspects)),
    "all aspects, outdated": Pass(changed(all_aspects), before=lambda p: p.operator.bump(ROOT)),
    "add a child": Pass(changed(add_child)),
    "remove children": Pass(remove_children),
    "rename": Pass(changed(rename)),
    "move": Pass(changed(move)),
    "delete": Pass(full, delete=True),
}


# -- the faults --------------------------------------------------------------------


def refused():
    inner = urllib3.exceptions.NewConnectionError(None, "Connection refused")
    return requests.exceptions.ConnectionError(urllib3.exceptions.MaxRetryError(None, "/", inner))


def reset():
    return requests.exceptions.ConnectionError(
        urllib3.exceptions.ProtocolError("Connection aborted.", ConnectionResetError(104, "reset"))
    )


HTML = "<html><body>A proxy's page</body></html>"
FAULTS: dict[str, Callable[[Any, int], None]] = {
    "refused": lambda p, n: p.fail(("*", "*"), refused(), nth=n),
    "reset before": lambda p, n: p.fail(("*", "*"), reset(), nth=n),
    "reset after": lambda p, n: p.fail(("*", "*"), reset(), nth=n, applied=True),
    "timeout after": lambda p, n: p.fail(
        ("*", "*"), requests.exceptions.ReadTimeout("slow"), nth=n, applied=True
    ),
    "500": lambda p, n: p.respond(
        ("*", "*"), status=500, body={"errors": [{"status": 500, "detail": "oops"}]}, nth=n
    ),
    "502 HTML": lambda p, n: p.respond(("*", "*"), status=502, body=HTML, nth=n),
    "503 Retry-After": lambda p, n: p.respond(
        ("*", "*"), status=503, body=HTML, headers={"Retry-After": "30"}, nth=n
    ),
    "401 once": lambda p, n: p.respond(("*", "*"), status=401, body=HTML, nth=n),
    "401 always": lambda p, n: p.respond(("*", "*"), status=401, body=HTML, nth=n, times=999),
    "406": lambda p, n: p.respond(("*", "*"), status=406, body={"errors": []}, nth=n),
    "200 cut JSON": lambda p, n: p.respond(
        ("*", "*"), status=200, body='{"resource_prov', nth=n, applied=True
    ),
    "200 HTML": lambda p, n: p.respond(("*", "*"), status=200, body=HTML, nth=n, applied=True),
    "200 HTML, not applied": lambda p, n: p.respond(("*", "*"), status=200, body=HTML, nth=n),
    "409 HTML": lambda p, n: p.respond(("*", "*"), status=409, body=HTML, nth=n),
    "409 {}": lambda p, n: p.respond(("*", "*"), status=409, body={}, nth=n),
    "unreachable from then on": lambda p, n: p.fail(("*", "*"), refused(), nth=n, times=999),
}
#: Faults that are over at once and that reading can settle: the pass itself succeeds.
SURVIVED = {"refused", "reset before", "reset after", "timeout after", "500", "502 HTML",
            "503 Retry-After"}  # fmt: skip


class Driver:
    """Edits as it is told."""

    def __init__(self, edit):
        self.edit = edit

    def update_provider_tree(self, provider_tree, nodename, allocations=None):
        self.edit(provider_tree)


class Run:
    """One life: a Placement, a client, and time."""

    def __init__(self, placement, one):
        self.placement = placement
        self.one = one
        self.now = 0.0
        self.client = ReportClient(
            placement.adapter(),
            max_workers=1,
            clock=lambda: self.now,
            sleep=self.sleep,
            random=random.Random(3).random,
        )
        if not one.first:
            self.client.report(None, ROOT, "host1", Driver(full))
            self.client.refresh([ROOT])
        one.before(placement)
        if one.due:
            self.now += 300
        placement.requests.clear()

    def sleep(self, seconds):
        self.now += seconds

    def go(self):
        """The pass; its result, or the exception that it ended in."""
        if self.one.delete:
            return self.client.delete_resource_provider(None, ROOT)
        return self.client.report(None, ROOT, "host1", Driver(self.one.edit))

    def state(self):
        """What Placement holds, without generations."""
        operator = self.placement.operator
        found = {}
        for own in operator.providers().values():
            provider = operator.provider(own)
            del provider["generation"]
            found[own] = provider
        return found


def wanted_of(kind, one):
    """The state after the pass, and how many requests it takes, without faults."""
    with kind() as placement:
        run = Run(placement, one)
        run.go()
        count = len(placement.requests)
        return run.state(), count


def strike(kind, one, fault, nth, wanted):
    """One cell of the matrix."""
    with kind() as placement:
        run = Run(placement, one)
        FAULTS[fault](placement, nth)
        failure = None
        try:
            run.go()
        except exceptions.ReportClientError as error:
            failure = error
        if failure is None:
            assert run.state() == wanted, "succeeded, and it is not so"
        else:
            assert str(failure), "says what went wrong"
            assert fault not in SURVIVED, f"should have survived: {failure!r}"
        placement.clear_hooks()
        placement.requests.clear()
        result = run.go()
        assert run.state() == wanted
        outdated = 1 if one.before is not PASSES["inventory"].before else 0
        assert result.conflicts <= outdated, [r.kind for r in placement.requests]
        placement.requests.clear()
        run.now += 600
        run.go()
        assert {request.method for request in placement.requests} <= {"GET"}
        assert run.state() == wanted


@pytest.fixture(scope="module")
def counted():
    """How many combinations ran."""
    seen = itertools.count()
    yield seen
    print(f"\n{next(seen)} combinations of request and fault")


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", PASSES)
def test_fault(name, fault, counted):
    wanted, count = wanted_of(FakePlacement, PASSES[name])
    assert count
    for nth in range(1, count + 1):
        next(counted)
        try:
            strike(FakePlacement, PASSES[name], fault, nth, wanted)
        except AssertionError as error:
            raise AssertionError(f"{fault} at request {nth} of {name}: {error}") from error


@pytest.mark.parametrize("fault", ["reset after", "timeout after", "500", "409 {}"])
@pytest.mark.parametrize("name", ["all aspects, outdated", "add a child"])
def test_fault_on_the_real_service(name, fault):
    wanted, count = wanted_of(EmbeddedPlacement, PASSES[name])
    for nth in range(1, count + 1):
        strike(EmbeddedPlacement, PASSES[name], fault, nth, wanted)
