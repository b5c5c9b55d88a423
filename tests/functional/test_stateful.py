# SPDX-License-Identifier: Apache-2.0
"""Agents, their drivers and an operator in any order, against a model in plain dicts.

Everybody owns some items: a trait, an aggregate, a class's total or ratio, a
child. Both agents report the same root. After every step nobody's items may
be other than their owner made them; an agent's that a failed or disturbed
pass was to change may be as they were or as they were to be.

More histories: ``EXAMPLES=2000 python -m pytest tests/functional/test_stateful.py``.
"""

from __future__ import annotations

import contextlib
import os
import random
import tempfile
from pathlib import Path

import pytest
import requests
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)

from reportclient import ReportClient, exceptions, provider_uuid
from reportclient.testing import FakePlacement
from reportclient.testing.embedded import EmbeddedPlacement
from tests.simulation.bugs import BUGS

# The fake's Last-Modified never moves, so that a history replays exactly.
KINDS = {"fake": lambda: FakePlacement(clock=lambda: 1e9), "embedded": EmbeddedPlacement}
#: Histories by default; the real service takes longer over each.
EXAMPLES = {"fake": 60, "embedded": 8}
STEPS = 15

INTERVAL = 100
AGENTS = (0, 1)
ROOT = "00000000-0000-4000-8000-000000000001"
AGGREGATES = {who: provider_uuid(ROOT, "aggregate", str(who)) for who in (*AGENTS, "op")}
#: The children of each agent below the common root; the second is below the first.
CHILDREN = {n: tuple(provider_uuid(ROOT, "child", f"{n} {k}") for k in range(2)) for n in AGENTS}
FOREIGN = provider_uuid(ROOT, "foreign")
NAMES = {uuid: f"child{n}_{k}" for n in AGENTS for k, uuid in enumerate(CHILDREN[n])}
PARENTS = {CHILDREN[n][k]: (ROOT, CHILDREN[n][0])[k] for n in AGENTS for k in range(2)}
CONSUMER = provider_uuid(ROOT, "vm")
OPERATORS = "CUSTOM_OP"


def owner_of(item):
    """Whose an item is: an agent's number, or None for the operator."""
    kind, uuid, *rest = item
    if kind == "provider":
        return next((n for n in AGENTS if uuid in CHILDREN[n]), None)
    if kind == "ratio" or (kind == "total" and rest == ["VCPU"]):
        return None
    return next((n for n in AGENTS if rest[0] in (f"CUSTOM_{n}", AGGREGATES[n])), None)


def items_of(agent):
    """All that may be an agent's."""
    places = (ROOT, *CHILDREN[agent])
    return [
        *(("provider", uuid) for uuid in CHILDREN[agent]),
        *(("trait", uuid, f"CUSTOM_{agent}") for uuid in places),
        *(("aggregate", uuid, AGGREGATES[agent]) for uuid in places),
        *(("total", uuid, f"CUSTOM_{agent}") for uuid in places),
    ]


class Driver:
    """Makes of a tree what its agent wants, and leaves alone what is others'."""

    def __init__(self, agent, wants, meanwhile, error):
        self.agent, self.wants, self.meanwhile, self.error = agent, wants, meanwhile, error

    def update_provider_tree(self, provider_tree, nodename, allocations=None):
        for uuid in CHILDREN[self.agent]:
            self.child(provider_tree, uuid)
        for kind, uuid, *rest in items_of(self.agent):
            if kind != "provider" and provider_tree.exists(uuid):
                self.edit(provider_tree, kind, uuid, *rest)
        self.meanwhile()
        if self.error is not None:
            raise self.error

    def child(self, tree, uuid):
        if self.wants.get(("provider", uuid)) and not tree.exists(uuid):
            if tree.exists(PARENTS[uuid]):
                tree.new_child(NAMES[uuid], PARENTS[uuid], uuid=uuid)
        elif not self.wants.get(("provider", uuid)) and self.is_all_own(tree, uuid):
            tree.remove(uuid)

    def is_all_own(self, tree, uuid):
        """Whether it is there, and nobody put anything below it."""
        below = set(tree.get_provider_uuids(uuid)) if tree.exists(uuid) else set()
        return bool(below) and below <= set(CHILDREN[self.agent])

    def edit(self, tree, kind, uuid, name):
        wanted = self.wants.get((kind, uuid, name))
        if kind == "trait":
            (tree.add_traits if wanted else tree.remove_traits)(uuid, name)
        elif kind == "aggregate":
            (tree.add_aggregates if wanted else tree.remove_aggregates)(uuid, name)
        else:
            inventory = tree.data(uuid).inventory
            record = inventory.pop(name, {})
            if wanted:
                # The second agent's driver has no opinion on other fields.
                inventory[name] = {**({} if self.agent else record), "total": wanted}
            tree.update_inventory(uuid, inventory)


class Agent:
    """An agent's process, and what it wants."""

    def __init__(self, number):
        self.number = number
        self.wants = {}
        self.cache_file = None
        self.client = None


def changes_of(agent):
    """What an agent may come to want: an item and a value."""
    items = [(i, (8, 9, None) if i[0] == "total" else (True, None)) for i in items_of(agent)]
    changes = [(item, value) for item, values in items for value in values]
    # Most of what happens happens where all meet.
    return st.sampled_from(changes + 4 * [(i, value) for i, value in changes if i[1] == ROOT])


PLACES = st.sampled_from([*4 * [ROOT], *CHILDREN[0], *CHILDREN[1]])
OPERATIONS = st.one_of(
    st.tuples(st.just("tag"), PLACES),
    st.tuples(st.just("group"), PLACES),
    st.tuples(st.just("oversubscribe"), PLACES, st.sampled_from([2.0, 4.0])),
    st.tuples(st.just("allocate"), PLACES),
    st.tuples(st.just("bump"), PLACES),
    st.tuples(st.just("delete"), st.sampled_from([*CHILDREN[0], *CHILDREN[1]])),
    st.tuples(st.just("adopt"), PLACES),
    st.tuples(st.just("abandon")),
)
#: When the operator comes in between: while the driver runs, or before the
#: n-th request of a kind.
MEDDLINGS = st.tuples(
    st.sampled_from(["driver", "PUT", "PUT", "POST", "GET", "DELETE"]),
    st.integers(1, 3),
    OPERATIONS,
)
#: Which requests fail (the n-th that matches, so many), and how.
FAULTS = st.tuples(
    st.sampled_from(["PUT", "PUT", "POST", "DELETE", "GET", "*"]),
    st.integers(1, 4),
    st.sampled_from([1, 1, 2, 30]),
    st.sampled_from(["refused", "reset", "lost", "503", "503 applied", "cut"]),
)


class Histories(RuleBasedStateMachine):
    """Two agents, an operator, and what happens to them."""

    def __init__(self, service, folder):
        super().__init__()
        self.service, self.operator = service, service.operator
        service.reset()
        self.folder = Path(tempfile.mkdtemp(dir=folder))
        self.now = 1000.0
        #: What the operator made, by item.
        self.made = {}
        #: What an agent's item may be: more than one value after a failure.
        self.possible = {}
        self.operator.create_provider("host", ROOT)
        self.operator.set_inventory(ROOT, {"VCPU": {"total": 100}})
        self.made["provider", ROOT] = True
        self.made["total", ROOT, "VCPU"] = 100
        self.made["ratio", ROOT, "VCPU"] = 1.0
        self.agents = [Agent(number) for number in AGENTS]
        for agent in self.agents:
            self.start(agent)

    def start(self, agent):
        agent.client = ReportClient(
            self.service.adapter(),
            refresh_interval=INTERVAL,
            max_workers=1,
            cache_file=agent.cache_file,
            clock=lambda: self.now,
            sleep=self.sleep,
            random=random.Random(7 + agent.number).random,
        )

    def sleep(self, seconds):
        self.now += seconds

    def teardown(self):
        try:
            self.everybody_gets_their_way()
        finally:
            self.service.clear_hooks()
            for agent in self.agents:
                agent.client.close()

    # -- what Placement holds ---------------------------------------------------------

    def observe(self):
        """All that Placement holds, as items."""
        items = {}
        for uuid in (ROOT, *NAMES, FOREIGN):
            found = self.operator.provider(uuid)
            if found is None:
                continue
            items["provider", uuid] = True
            items |= {("trait", uuid, name): True for name in found["traits"]}
            items |= {("aggregate", uuid, name): True for name in found["aggregates"]}
            for name, record in found["inventory"].items():
                items["total", uuid, name] = record["total"]
                items["ratio", uuid, name] = record["allocation_ratio"]
        return items

    def forget(self, uuid):
        """A provider is gone, and all on it."""
        self.made = {item: value for item, value in self.made.items() if item[1] != uuid}
        for item in [item for item in self.possible if item[1] == uuid]:
            self.possible[item] = {None}

    @invariant()
    def everything_is_as_its_owner_made_it(self):
        observed = self.observe()
        for item in list(self.possible):
            if item[0] == "provider" and item not in observed:
                assert None in self.possible[item], f"{item} is gone"
                self.forget(item[1])
        for item, values in self.possible.items():
            assert observed.get(item) in values, (item, observed.get(item), values)
        # A class takes its ratio along.
        for item in [i for i in self.made if i[0] == "ratio"]:
            if owner_of(("total", *item[1:])) is not None and ("total", *item[1:]) not in observed:
                del self.made[item]
        theirs = {item: value for item, value in observed.items() if owner_of(item) is None}
        for item, value in theirs.items():
            if item[0] == "ratio" and item not in self.made:
                assert value == 1.0, (item, value)
        theirs = {i: v for i, v in theirs.items() if i[0] != "ratio" or i in self.made}
        assert theirs == self.made
        assert all(item in self.possible for item in observed if owner_of(item) is not None)

    # -- the operator ---------------------------------------------------------------

    def operate(self, operation):
        name, *arguments = operation
        if not arguments or self.operator.provider(arguments[0]) is not None:
            getattr(self, f"op_{name}")(*arguments)

    def op_tag(self, uuid):
        self.toggle(("trait", uuid, OPERATORS), self.operator.set_traits, "traits")

    def op_group(self, uuid):
        item = ("aggregate", uuid, AGGREGATES["op"])
        self.toggle(item, self.operator.set_aggregates, "aggregates")

    def toggle(self, item, write, aspect):
        uuid, name = item[1:]
        names = set(self.operator.provider(uuid)[aspect]) ^ {name}
        write(uuid, names)
        self.made.pop(item, None)
        if name in names:
            self.made[item] = True

    def op_oversubscribe(self, uuid, ratio):
        inventory = self.operator.provider(uuid)["inventory"]
        for name, record in inventory.items():
            record.pop("resource_provider_generation", None)
            record["allocation_ratio"] = ratio
            self.made["ratio", uuid, name] = ratio
        self.operator.set_inventory(uuid, inventory)

    def op_allocate(self, uuid):
        inventory = self.operator.provider(uuid)["inventory"]
        if inventory:
            self.operator.allocate(CONSUMER, {uuid: {min(inventory): 1}})

    def op_bump(self, uuid):
        self.operator.bump(uuid)

    def op_delete(self, uuid):
        status, _ = self.operator.try_call("DELETE", f"/resource_providers/{uuid}")
        if status == 204:
            self.forget(uuid)

    def op_adopt(self, uuid):
        if ("provider", FOREIGN) not in self.made:
            self.operator.create_provider("foreign", FOREIGN, uuid)
            self.made["provider", FOREIGN] = True

    def op_abandon(self):
        self.operator.try_call("DELETE", f"/allocations/{CONSUMER}")
        if self.made.pop(("provider", FOREIGN), None):
            self.operator.call("DELETE", f"/resource_providers/{FOREIGN}")

    # -- an agent's pass ----------------------------------------------------------------

    def arrange(self, fault):
        method, nth, times, kind = fault
        which, matcher = {"nth": nth, "times": times}, (method, "*")
        if kind.startswith("503"):
            applied = kind.endswith("applied")
            self.service.respond(matcher, status=503, body="<html>", applied=applied, **which)
        elif kind == "cut":
            self.service.respond(matcher, status=200, body='{"cut', applied=True, **which)
        else:
            error = requests.exceptions.ConnectionError(kind)
            self.service.fail(matcher, error, applied=kind == "lost", **which)

    def report(self, agent, meddling=None, fault=None, error=None):
        """One pass; its result, or None if it failed."""
        when, nth, operation = meddling or (None, 0, None)
        pending = [operation] if when == "driver" else []

        def meanwhile():
            if pending:
                self.operate(pending.pop())

        if when not in (None, "driver"):
            self.service.before((when, "*"), lambda _: self.operate(operation), nth=nth)
        if fault:
            self.arrange(fault)
        started = self.now
        for item in items_of(agent.number):
            values = self.possible.setdefault(item, {None})
            self.possible[item] = values | {agent.wants.get(item)} if error is None else values
        driver, result = Driver(agent.number, agent.wants, meanwhile, error), None
        # Undisturbed it has to succeed.
        excuse = (exceptions.ReportClientError,) if meddling or fault else ()
        excuse += (type(error),) if error else ()
        with contextlib.suppress(*excuse):
            result = agent.client.report(None, ROOT, "host", driver)
        self.service.clear_hooks()
        assert result is None or error is None
        assert self.now - started < 1000
        return result

    # -- rules ------------------------------------------------------------------------

    @rule(data=st.data(), number=st.sampled_from(AGENTS), due=st.booleans())
    def an_agent_reports(self, data, number, due):
        agent = self.agents[number]
        self.now += 2 * INTERVAL if due else 0
        agent.wants |= dict(data.draw(st.lists(changes_of(number), max_size=5), label="changes"))
        meddling = data.draw(st.none() | MEDDLINGS, label="meddling")
        fault = None if meddling else data.draw(st.none() | FAULTS, label="fault")
        self.report(agent, meddling, fault)

    @rule(
        number=st.sampled_from(AGENTS),
        error=st.sampled_from([exceptions.DriverNotReady("not yet"), ZeroDivisionError("a bug")]),
        operation=OPERATIONS,
    )
    def a_driver_fails(self, number, error, operation):
        count = len(self.service.requests)
        self.report(self.agents[number], ("driver", 1, operation), error=error)
        assert {request.method for request in self.service.requests[count:]} <= {"GET"}

    @rule(operation=OPERATIONS)
    def the_operator_writes(self, operation):
        self.operate(operation)

    @rule(seconds=st.sampled_from([10, 2 * INTERVAL]))
    def time_passes(self, seconds):
        self.now += seconds

    @rule(
        number=st.sampled_from(AGENTS),
        killed=st.booleans(),
        cache_file=st.booleans(),
    )
    def an_agent_restarts(self, number, killed, cache_file):
        agent = self.agents[number]
        if not killed:
            agent.client.close()
        agent.cache_file = self.folder / f"agent{number}.json" if cache_file else None
        self.start(agent)

    @rule()
    def everybody_gets_their_way(self):
        """Nobody disturbs anybody: what is wanted is there, and then nothing is sent."""
        self.op_abandon()
        for agent in self.agents:
            self.now += 2 * INTERVAL
            result = self.report(agent)
            assert result.complete, str(result)
        observed = self.observe()
        for agent in self.agents:
            for item in items_of(agent.number):
                wanted = agent.wants.get(item)
                above = PARENTS.get(item[1])
                if ("provider", item[1]) not in observed:
                    orphaned = above and ("provider", above) not in observed
                    assert not agent.wants.get(("provider", item[1])) or orphaned
                    wanted = None
                assert observed.get(item) == wanted, item
                self.possible[item] = {wanted}
        for agent in self.agents:
            self.now += 2 * INTERVAL
            count = len(self.service.requests)
            assert not self.report(agent).changed
            assert {r.method for r in self.service.requests[count:]} <= {"GET"}


def play(kind, folder, examples, phases=tuple(Phase)):
    with KINDS[kind]() as service:
        run_state_machine_as_test(
            lambda: Histories(service, folder),
            settings=settings(
                max_examples=examples,
                stateful_step_count=STEPS,
                deadline=None,
                derandomize=True,
                database=None,
                phases=phases,
                suppress_health_check=list(HealthCheck),
            ),
        )


@pytest.mark.parametrize("kind", list(KINDS))
def test_nothing_of_anybodys_is_lost_in_any_history(kind, tmp_path):
    play(kind, tmp_path, int(os.environ.get("EXAMPLES", EXAMPLES[kind])))


@pytest.mark.parametrize("plant", BUGS)
def test_a_planted_bug_is_found(monkeypatch, plant, tmp_path):
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        play("fake", tmp_path, 300, phases=[Phase.generate])
