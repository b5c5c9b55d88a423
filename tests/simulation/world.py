# SPDX-License-Identifier: Apache-2.0
"""A deterministic world: real client code, one step at a time.

Every actor runs in a thread of its own, but only one thread runs at any time:
each waits before every request until the seeded scheduler lets it go. The
scheduler also decides which fault strikes and which process dies. So a seed
stands for one history, and replays exactly.
"""

from __future__ import annotations

import random
import threading
from typing import Any

import requests
import urllib3.exceptions
from keystoneauth1 import adapter as ksa_adapter
from keystoneauth1 import session as ksa_session
from keystoneauth1 import token_endpoint
from requests import adapters

from reportclient import ReportClient, exceptions, provider_uuid
from reportclient.testing import FakePlacement

ROOT = "00000000-0000-4000-8000-000000000001"
AGENTS = 3
#: The field of the common VCPU record that each agent is the master of.
FIELDS = ("total", "reserved", "max_unit")


class Broken(AssertionError):
    """A promise was not kept."""


class Died(BaseException):
    """The process of an actor was killed in the middle of a request."""


class World:
    """Placement, time, the actors, and who goes next."""

    def __init__(self, seed: int, steps: int = 6) -> None:
        self.seed = seed
        self.rng = random.Random(seed)
        self.steps = steps
        self.placement = FakePlacement(seed=seed).start()
        operator = self.placement.operator
        operator.create_provider("host1", uuid=ROOT)
        operator.set_inventory(ROOT, {"VCPU": {"total": 50, "reserved": 1, "max_unit": 50}})
        self.now = 0.0
        self.faults = True
        self.trace: list[str] = []
        self.broken: BaseException | None = None
        self.actors: list[Actor] = [Agent(self, n) for n in range(AGENTS)]
        self.actors += [Operator(self, "operator"), Scheduler(self, "scheduler")]
        self._wake = threading.Condition()
        self._turn: Actor | None = None

    def run(self) -> None:
        """Let everything happen; raises `Broken` when a promise is not kept."""
        for actor in self.actors:
            actor.start()
        while True:
            with self._wake:
                self._wake.wait_for(lambda: all(a.waiting or a.done for a in self.actors), 60)
                ready = [actor for actor in self.actors if not actor.done]
                if not ready or self.broken:
                    break
                chosen = self.rng.choice(ready)
                chosen.waiting = False
                self._turn = chosen
                self._wake.notify_all()
        if self.broken:
            self._abandon()
            raise self.broken
        self.calm()

    def _abandon(self) -> None:
        """Let all threads run to their end; nobody looks any more."""
        with self._wake:
            for actor in self.actors:
                actor.abandoned = True
            self._wake.notify_all()
        for actor in self.actors:
            actor.join()

    def wait_for_turn(self, actor: Actor) -> None:
        """Block an actor's thread until it is its turn."""
        with self._wake:
            actor.waiting = True
            self._wake.notify_all()
            self._wake.wait_for(lambda: self._turn is actor or actor.abandoned)
            if actor.abandoned:
                raise Died
            self._turn = None

    def finished(self, actor: Actor) -> None:
        """Note that an actor has nothing more to do."""
        with self._wake:
            actor.done = True
            self._wake.notify_all()

    def check(self) -> None:
        """Compare what Placement holds with what every actor wrote."""
        there = self.placement.providers
        for actor in self.actors:
            actor.check(there)

    def calm(self) -> None:
        """No more faults: everybody gets what it wants, and then nobody writes."""
        self.faults = False
        for agent in self.actors[:AGENTS]:
            agent.final()
        self.check()
        count = len(self.placement.requests)
        for agent in self.actors[:AGENTS]:
            agent.final()
        methods = {request.method for request in self.placement.requests[count:]}
        if methods - {"GET"}:
            raise Broken(f"written although nothing changed: {methods}")


class Gate(adapters.BaseAdapter):
    """One actor's way to Placement: waits for its turn, meets its faults."""

    def __init__(self, actor: Actor) -> None:
        super().__init__()
        self._actor = actor
        placement = actor.world.placement
        self._inner = placement.session().session.get_adapter(placement.url)

    def send(self, request: requests.PreparedRequest, **settings: Any) -> requests.Response:
        world, actor = self._actor.world, self._actor
        if not world.faults:
            return self._inner.send(request, **settings)
        world.wait_for_turn(actor)
        fault = world.rng.choice(FAULTS) if world.rng.random() < 0.08 else ""
        world.trace.append(f"{actor.name}: {request.method} {request.path_url} {fault}")
        if fault == "refused":
            inner = urllib3.exceptions.NewConnectionError(None, "refused")
            raise requests.exceptions.ConnectionError(
                urllib3.exceptions.MaxRetryError(None, "/", inner)
            )
        if fault == "died before":
            raise Died
        if fault == "reset before":
            raise requests.exceptions.ConnectionError("reset")
        response = self._inner.send(request, **settings)
        world.check()
        if fault == "died after":
            raise Died
        if fault == "lost":
            raise requests.exceptions.ReadTimeout("lost")
        if fault == "cut":
            response._content = b'{"cut'
        if fault == "503":
            response.status_code, response._content = 503, b"<html>busy</html>"
        return response

    def close(self) -> None:
        """Nothing is open."""


FAULTS = ("refused", "died before", "reset before", "died after", "lost", "cut", "503")


class Actor(threading.Thread):
    """Somebody who does things to Placement."""

    def __init__(self, world: World, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.world = world
        self.waiting = self.done = self.abandoned = False

    def run(self) -> None:
        try:
            for _ in range(self.world.steps):
                self.step()
        except Died:
            pass
        except Exception as error:  # noqa: BLE001 - raised again by the main thread
            self.world.broken = self.world.broken or error
        finally:
            self.world.finished(self)

    def step(self) -> None:
        """Do one thing."""
        raise NotImplementedError

    def check(self, there: Any) -> None:
        """Raise `Broken` if something that it wrote is not there."""


class Agent(Actor):
    """Reports traits, classes, children and one field of a common record."""

    def __init__(self, world: World, number: int) -> None:
        super().__init__(world, f"agent{number}")
        self.number = number
        self.own_rng = random.Random(world.seed * 10 + number)
        #: What it wants; and for each item, whether it may or may not be so yet.
        self.traits: dict[str, bool] = {}
        self.classes: dict[str, int | None] = {}
        self.children: dict[str, bool] = {}
        self.field: int | None = None
        self.uncertain: set[str] = set()
        self.client = self._new_client()

    def _new_client(self) -> ReportClient:
        http = requests.Session()
        http.trust_env = False
        http.mount("http://", Gate(self))
        session = ksa_session.Session(
            auth=token_endpoint.Token(self.world.placement.url, "admin"), session=http
        )
        return ReportClient(
            ksa_adapter.Adapter(session, service_type="placement"),
            max_workers=1,
            refresh_interval=100,
            clock=lambda: self.world.now,
            sleep=self._sleep,
            random=self.own_rng.random,
        )

    def _sleep(self, seconds: float) -> None:
        self.world.now += seconds

    def step(self) -> None:
        rng = self.own_rng
        n = self.number
        item = rng.choice(["trait", "trait", "class", "child", "field"])
        if item == "trait":
            name = f"CUSTOM_A{n}_{rng.randrange(3)}"
            self.traits[name] = not self.traits.get(name)
        elif item == "class":
            name = f"CUSTOM_C{n}_{rng.randrange(2)}"
            self.classes[name] = None if self.classes.get(name) else rng.randrange(1, 9)
        elif item == "child":
            name = f"child{n}_{rng.randrange(2)}"
            self.children[name] = not self.children.get(name)
        else:
            name, self.field = "field", rng.randrange(2, 40)
        self.uncertain.add(name)
        self.world.now += rng.choice([0, 10, 120])
        try:
            self.client.report(None, ROOT, "host1", self)
            self.uncertain.clear()
        except exceptions.ReportClientError as error:
            self.world.trace.append(f"{self.name}: {type(error).__name__}")
        except Died:
            if self.abandoned:
                raise
            self.world.trace.append(f"{self.name}: died")
            self.client = self._new_client()

    def update_provider_tree(self, provider_tree, nodename, allocations=None):
        """Edit what is its own."""
        for name, wanted in self.traits.items():
            (provider_tree.add_traits if wanted else provider_tree.remove_traits)(ROOT, name)
        inventory = provider_tree.data(ROOT).inventory
        for name, total in self.classes.items():
            inventory.pop(name, None)
            if total:
                inventory[name] = {"total": total}
        if self.field is not None:
            inventory["VCPU"] = {**inventory["VCPU"], FIELDS[self.number]: self.field}
            if FIELDS[self.number] == "total":
                inventory["VCPU"]["total"] += 100
        provider_tree.update_inventory(ROOT, inventory)
        for name, wanted in self.children.items():
            uuid = provider_uuid(ROOT, name)
            if wanted and not provider_tree.exists(uuid):
                provider_tree.new_child(name, ROOT, uuid=uuid)
                provider_tree.update_traits(uuid, {"CUSTOM_CHILD"})
            elif not wanted and provider_tree.exists(uuid):
                provider_tree.remove(uuid)

    def final(self) -> None:
        """Report once more, without faults."""
        self.world.now += 200
        self.client.report(None, ROOT, "host1", self)
        self.uncertain.clear()

    def check(self, there: Any) -> None:
        root = there[ROOT]
        for name, wanted in self.traits.items():
            self._is(name, name in root.traits, wanted)
        for name, total in self.classes.items():
            self._is(name, root.inventories.get(name, {}).get("total"), total)
        for name, wanted in self.children.items():
            self._is(name, provider_uuid(ROOT, name) in there, wanted)
        if self.field is not None:
            extra = 100 if FIELDS[self.number] == "total" else 0
            found = root.inventories["VCPU"][FIELDS[self.number]]
            self._is("field", found, self.field + extra)

    def _is(self, item: str, found: object, wanted: object) -> None:
        if item not in self.uncertain and found != wanted:
            raise Broken(f"{self.name}'s {item} is {found}, and {wanted} was written")


class Operator(Actor):
    """Sets traits, ratios and aggregates by hand, and removes some again."""

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        self.traits: set[str] = set()
        self.ratio: float | None = None
        self.aggregates: set[str] = set()

    def step(self) -> None:
        world = self.world
        world.wait_for_turn(self)
        # Each of these happens at once: somebody else's tool, with its own retries.
        rng, operator = world.rng, world.placement.operator
        what = rng.choice(["trait", "ratio", "aggregate", "bump"])
        world.trace.append(f"operator: {what}")
        root = world.placement.providers[ROOT]
        if what == "trait":
            self.traits ^= {f"CUSTOM_OP_{rng.randrange(3)}"}
            others = {name for name in root.traits if not name.startswith("CUSTOM_OP_")}
            operator.set_traits(ROOT, others | self.traits)
        elif what == "ratio":
            self.ratio = rng.choice([2.0, 4.0, 16.0])
            inventory = {name: dict(record) for name, record in root.inventories.items()}
            inventory["VCPU"]["allocation_ratio"] = self.ratio
            operator.set_inventory(ROOT, inventory)
        elif what == "aggregate":
            self.aggregates ^= {provider_uuid(ROOT, str(rng.randrange(2)))}
            operator.set_aggregates(ROOT, self.aggregates)
        else:
            operator.bump(ROOT)

    def check(self, there: Any) -> None:
        root = there[ROOT]
        if {name for name in root.traits if name.startswith("CUSTOM_OP_")} != self.traits:
            raise Broken(f"the operator's traits are {root.traits}, not {self.traits}")
        if self.ratio and root.inventories["VCPU"]["allocation_ratio"] != self.ratio:
            raise Broken("the operator's ratio is gone")
        if root.aggregates != self.aggregates:
            raise Broken(f"the aggregates are {root.aggregates}, not {self.aggregates}")


class Scheduler(Actor):
    """Places and removes VMs, which moves the generation."""

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        self.held: dict[str, int] = {}

    def step(self) -> None:
        world = self.world
        world.wait_for_turn(self)
        consumer = provider_uuid(ROOT, "vm", str(world.rng.randrange(2)))
        amount = 0 if self.held.get(consumer) else 1
        world.trace.append(f"scheduler: {consumer[:8]} {amount}")
        held = {ROOT: {"VCPU": amount}} if amount else {}
        world.placement.operator.allocate(consumer, held)
        self.held[consumer] = amount

    def check(self, there: Any) -> None:
        consumers = self.world.placement.state.consumers
        for consumer, amount in self.held.items():
            known = consumers.get(consumer)
            found = known.held.get(ROOT, {}).get("VCPU", 0) if known else 0
            if found != amount:
                raise Broken(f"VM {consumer} holds {found}, not {amount}")
