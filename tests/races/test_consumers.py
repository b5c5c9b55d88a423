# SPDX-License-Identifier: Apache-2.0
"""Claimers, movers and reshapers on two hosts, all at once, on the real service.

After every step the books are compared: what every consumer holds, and the sum
of it with what the providers say is in use. While the step goes on, somebody
looks at the movers' project: what is used there must never change.

More rounds: ``ROUNDS=200 python -m pytest tests/races/test_consumers.py``.
"""

from __future__ import annotations

import collections
import concurrent.futures
import os
import random
import threading
import uuid

import pytest
from keystoneauth1 import adapter, session, token_endpoint

from bench import servers
from reportclient import ReportClient, exceptions, provider_uuid

ROUNDS = int(os.environ.get("ROUNDS", "4"))
CAPACITY = 16
MOVED = 3

pytestmark = pytest.mark.skipif(
    servers.postgres_bin() is None, reason="PostgreSQL's server is not installed"
)


@pytest.fixture(scope="module")
def url():
    # An administrator may reshape: by default only services may.
    os.environ["OS_OSLO_POLICY__ENFORCE_NEW_DEFAULTS"] = "false"
    try:
        with servers.postgresql() as database, servers.placement(database) as url:
            yield url
    finally:
        del os.environ["OS_OSLO_POLICY__ENFORCE_NEW_DEFAULTS"]


@pytest.fixture
def make_client(url):
    made = []

    def make():
        auth = token_endpoint.Token(url, "admin")
        http = adapter.Adapter(session.Session(auth=auth), service_type="placement")
        made.append(ReportClient(http, refresh_interval=0.001, max_workers=2))
        return made[-1]

    yield make
    for client in made:
        client.close()


class Reshaper:
    """Moves a host's cores between the root and a child, back and forth."""

    def __init__(self, client, root):
        self.client, self.root, self.won = client, root, 0

    def act(self):
        self.client.report(None, self.root, self.root, self, startup=True)
        self.won += 1

    def update_provider_tree(self, provider_tree, nodename, allocations=None):
        if allocations is None:
            raise exceptions.ReshapeNeeded
        child = provider_uuid(self.root, "numa")
        if not provider_tree.exists(child):
            provider_tree.new_child(f"{nodename}_numa", nodename, uuid=child)
        source, target = self.root, child
        if "VCPU" not in provider_tree.data(source).inventory:
            source, target = target, source
        provider_tree.update_inventory(target, provider_tree.data(source).inventory)
        provider_tree.update_inventory(source, {})
        for part in allocations.values():
            held = part["allocations"]
            if source in held:
                held[target] = held.pop(source)


class Claimer:
    """Claims, adds to, takes from and gives up what is its own."""

    def __init__(self, client, number):
        self.client, self.random = client, random.Random(number)
        self.holds = {}
        self.tried, self.won = set(), 0

    def act(self):
        doing = [self.claim, self.claim]
        if self.holds:
            doing += [self.more, self.less, self.give_up, self.put]
        self.random.choice(doing)()
        self.won += 1

    def some(self):
        return self.random.choice(sorted(self.holds))

    def claim(self):
        amount = self.random.randint(1, 4)
        found = self.client.get_allocation_candidates(None, {"VCPU": amount})
        if not found.allocation_requests:
            return
        vm, asked = str(uuid.uuid4()), self.random.choice(found.allocation_requests)
        self.tried.add(vm)
        self.client.claim_resources(None, vm, asked, "claimers", "u", found.version)
        self.holds[vm] = amount

    def more(self):
        vm = self.some()
        [provider] = self.client.get_allocations_for_consumer(None, vm)
        self.client.add_resources_to_instance_allocation(None, vm, {provider: {"VCPU": 1}})
        self.holds[vm] += 1

    def less(self):
        vm = self.some()
        [provider] = self.client.get_allocations_for_consumer(None, vm)
        self.client.remove_resources_from_instance_allocation(None, vm, {provider: {"VCPU": 1}})
        self.holds[vm] -= 1
        if not self.holds[vm]:
            del self.holds[vm]

    def put(self):
        vm = self.some()
        there = self.client.get_allocs_for_consumer(None, vm)
        [part] = there["allocations"].values()
        part["resources"]["VCPU"] = amount = self.random.randint(1, 4)
        self.client.put_allocations(None, vm, there)
        self.holds[vm] = amount

    def give_up(self):
        vm = self.some()
        self.client.delete_allocation_for_instance(None, vm, force=self.random.random() < 0.5)
        del self.holds[vm]


class Mover:
    """Moves to and fro between two consumers, which reshapers write to as well.

    A pair for each: of two requests that make the same new consumer at once,
    Placement (16.0.0) lets the loser clean up the record that the winner uses,
    and the winner's allocations are shown to nobody any more.
    """

    def __init__(self, client):
        self.client, self.won = client, 0
        self.pair = [str(uuid.uuid4()) for _ in range(2)]

    def act(self):
        self.client.move_allocations(None, *self.pair)
        self.pair.reverse()
        self.won += 1


class Watcher(threading.Thread):
    """Asks all the while what the movers' project uses: one query of the database."""

    def __init__(self, client, expected):
        super().__init__()
        self.client, self.expected = client, expected
        self.stop = threading.Event()
        self.seen = collections.Counter()

    def run(self):
        while not self.stop.is_set():
            used = self.client.get_usages_counts_for_limits(None, "movers")
            self.seen[used.get("VCPU", 0)] += 1


def attempt(actor):
    """One action; what it lost to, if it lost."""
    try:
        actor.act()
    except (
        exceptions.ConsumerConflict,
        exceptions.ConcurrentUpdate,
        exceptions.AllocationDoesNotFit,
        exceptions.AllocationUpdateFailed,
        exceptions.ReshapeFailed,
    ) as error:
        return type(error).__name__
    return "won"


def check(client, hosts, claimers, movers):
    """The books agree."""
    holders = {}
    for host in hosts:
        for provider in (host, provider_uuid(host, "numa")):
            there = client.get_allocations_for_resource_provider(None, provider).allocations
            for consumer, part in there.items():
                holders[consumer] = holders.get(consumer, 0) + part["resources"]["VCPU"]
    winners = {vm: amount for claimer in claimers for vm, amount in claimer.holds.items()}
    for mover in movers:
        holder, nobody = mover.pair
        assert client.get_allocations_for_consumer(None, nobody) == {}
        winners[holder] = MOVED
    assert holders == winners
    trees = {host: client.get_provider_tree_and_ensure_root(None, host) for host in hosts}
    for host, tree in trees.items():
        client.refresh([host])
        there = [tree.data(each).inventory for each in tree.get_provider_uuids(host)]
        assert sum(part["VCPU"]["total"] for part in there if part) == CAPACITY, there
        # Not that no more than that is used: Placement (16.0.0) tries again
        # inside its transaction, takes what it has just written for what was
        # used before, and lets a claim that no longer fits pass as no worse.
    projects = (client.get_usages(None, name).resources for name in ("claimers", "movers"))
    assert sum(part.get("VCPU", 0) for part in projects) == sum(winners.values())
    for claimer in claimers:
        for lost in sorted(claimer.tried - set(claimer.holds))[-2:]:
            assert client.get_allocs_for_consumer(None, lost) == {"allocations": {}}


def test_claimers_movers_and_reshapers(make_client):
    judge = make_client()
    hosts = [str(uuid.uuid4()) for _ in range(2)]
    claimers = [Claimer(make_client(), number) for number in range(3)]
    movers = [Mover(make_client()) for _ in range(3)]
    reshapers = [Reshaper(make_client(), host) for host in hosts]
    for host in hosts:
        judge.get_provider_tree_and_ensure_root(None, host, name=host)
        judge.get_provider_tree_and_ensure_root(
            None, provider_uuid(host, "numa"), f"{host}_numa", parent_provider_uuid=host
        )
        judge.set_inventory_for_provider(None, host, {"VCPU": {"total": CAPACITY}})
    for number, mover in enumerate(movers):
        asked = {"allocations": {hosts[number % 2]: {"resources": {"VCPU": MOVED}}}}
        judge.claim_resources(None, mover.pair[0], asked, "movers", "u", "1.36")
    actors = [*claimers, *movers, *reshapers]
    watcher = Watcher(make_client(), MOVED * len(movers))
    watcher.start()
    outcomes = collections.Counter()
    try:
        with concurrent.futures.ThreadPoolExecutor(len(actors)) as pool:
            for _ in range(ROUNDS):
                outcomes.update(pool.map(attempt, actors))
                check(judge, hosts, claimers, movers)
    finally:
        watcher.stop.set()
        watcher.join()
    print(outcomes, dict(watcher.seen))
    assert set(watcher.seen) == {watcher.expected}
    assert all(sum(actor.won for actor in part) for part in (claimers, movers, reshapers))
