# SPDX-License-Identifier: Apache-2.0
"""Many writers on one tree, on the real service with PostgreSQL and threads.

More rounds: ``ROUNDS=200 python -m pytest tests/races``.
"""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import os
import threading
import uuid

import pytest
from keystoneauth1 import adapter, session, token_endpoint

from bench import servers
from reportclient import ReportClient, provider_uuid

ROUNDS = int(os.environ.get("ROUNDS", "4"))
WRITERS = 8
#: Every so many rounds a writer adds something of every kind; ten times at
#: most, so that it is the race that grows with the rounds, not the tree.
ADDS_EVERY = max(1, ROUNDS // 10)
ADDING = range(0, ROUNDS, ADDS_EVERY)
ROOT = "00000000-0000-4000-8000-000000000001"

pytestmark = pytest.mark.skipif(
    servers.postgres_bin() is None, reason="PostgreSQL's server is not installed"
)


@pytest.fixture(scope="module")
def url():
    with servers.postgresql() as database, servers.placement(database) as url:
        yield url


def make_client(url, **settings):
    auth = token_endpoint.Token(url, "admin")
    http = adapter.Adapter(session.Session(auth=auth), service_type="placement")
    return ReportClient(http, refresh_interval=1, **settings)


class Writer:
    """Changes a field of its own each round, and now and then adds of every kind."""

    def __init__(self, number):
        self.number = number
        self.round = 0

    def update_provider_tree(self, provider_tree, nodename, allocations=None):
        n, root = self.number, provider_tree.data(nodename).uuid
        inventory = provider_tree.data(root).inventory
        inventory[f"CUSTOM_W{n}"] = {"total": 1 + self.round}
        if self.round in ADDING:
            inventory[f"CUSTOM_C{n}_{self.round}"] = {"total": 1}
        provider_tree.update_inventory(root, inventory)
        if self.round not in ADDING:
            return
        provider_tree.add_traits(root, f"CUSTOM_T{n}_{self.round}")
        provider_tree.add_aggregates(root, provider_uuid(root, "aggregate", f"{n} {self.round}"))
        child = provider_uuid(root, "child", f"{n} {self.round}")
        if not provider_tree.exists(child):
            provider_tree.new_child(f"{root}_{n}_{self.round}", root, uuid=child)


def write(client, root, number, rounds):
    """All rounds of one writer; how many conflicts it met."""
    writer, conflicts = Writer(number), 0
    for writer.round in range(rounds):
        conflicts += client.report(None, root, root, writer).conflicts
    return conflicts


def write_alone(url, root, number, rounds):
    """A writer in a process of its own."""
    with make_client(url, max_workers=2) as client:
        return write(client, root, number, rounds)


class Scheduler(threading.Thread):
    """Places and removes VMs all the while, which moves the generation."""

    def __init__(self, url, root):
        super().__init__()
        self.session = session.Session(auth=token_endpoint.Token(url, "admin"))
        self.url, self.root = url, root
        self.stop = threading.Event()
        self.placed = 0

    def run(self):
        while not self.stop.wait(0.5):
            consumer = f"{self.url}/allocations/{uuid.uuid4()}"
            headers = {"OpenStack-API-Version": "placement 1.28"}
            body = {
                "allocations": {self.root: {"resources": {"VCPU": 1}}},
                "project_id": "p",
                "user_id": "u",
                "consumer_generation": None,
            }
            answer = self.session.put(consumer, json=body, headers=headers, raise_exc=False)
            self.placed += answer.status_code == 204
            if answer.status_code == 204:
                self.session.delete(consumer, headers=headers)


@pytest.fixture
def busy(url):
    """A root with room, and a scheduler at work on it."""
    root = str(uuid.uuid4())
    with make_client(url) as client:
        client.get_provider_tree_and_ensure_root(None, root, name=root)
        client.set_inventory_for_provider(None, root, {"VCPU": {"total": 1000}})
    scheduler = Scheduler(url, root)
    scheduler.start()
    yield root
    scheduler.stop.set()
    scheduler.join()
    assert scheduler.placed


def check(url, root, rounds):
    """Everything that anybody wrote is there."""
    with make_client(url) as client:
        tree = client.get_provider_tree_and_ensure_root(None, root)
    data = tree.data(root)
    assert data.traits == {f"CUSTOM_T{n}_{r}" for n in range(WRITERS) for r in ADDING}
    assert set(data.inventory) == {"VCPU"} | {
        name
        for n in range(WRITERS)
        for name in (f"CUSTOM_W{n}", *(f"CUSTOM_C{n}_{r}" for r in ADDING))
    }
    assert {data.inventory[f"CUSTOM_W{n}"]["total"] for n in range(WRITERS)} == {rounds}
    assert len(data.aggregates) == WRITERS * len(ADDING)
    assert len(tree.get_provider_uuids(root)) == 1 + WRITERS * len(ADDING)


def test_eight_processes_lose_nothing(url, busy):
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(WRITERS, context) as pool:
        jobs = [pool.submit(write_alone, url, busy, n, ROUNDS) for n in range(WRITERS)]
        conflicts = sum(job.result() for job in jobs)
    assert conflicts, "there was a race"
    check(url, busy, ROUNDS)


def test_eight_threads_on_one_client_lose_nothing(url, busy):
    with (
        make_client(url, max_workers=4) as client,
        concurrent.futures.ThreadPoolExecutor(WRITERS) as pool,
    ):
        list(pool.map(lambda n: write(client, busy, n, ROUNDS), range(WRITERS)))
    check(url, busy, ROUNDS)
