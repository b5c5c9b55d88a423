# SPDX-License-Identifier: Apache-2.0
"""Counts the requests of calls about consumers on the real Placement; prints JSON.

Runs under the interpreter of either side: ``python -m bench.consumer_calls
ours`` or ``nova``. The Placement is the real service in this process.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
import uuid
from collections.abc import Callable
from typing import Any

from bench.sides import CONTEXT, SIDES
from reportclient.testing.embedded import EmbeddedPlacement

LIVES = 5
GPUS = 8
MOVED, MANY = 50, 200
PROJECT, USER = "project", "user"


class Request:
    """What nova's and our client ask for room with: anything that can say its query."""

    def to_querystring(self) -> str:
        """Two CPUs."""
        return "limit=10&resources=VCPU%3A2"


def new_uuid() -> str:
    """Somebody or something new."""
    return str(uuid.uuid4())


class Life:
    """One life of one side: a host, and what is done with its consumers."""

    def __init__(self, placement: EmbeddedPlacement, side: str) -> None:
        self.placement = placement
        # One worker: SQLite answers one request at a time.
        one = SIDES[side](placement.adapter, workers=1)
        self.client: Any = one.client
        self.context = getattr(one, "context", CONTEXT)
        self.root = new_uuid()
        self.found: dict[str, dict[str, float]] = {}

    def measure(self, title: str, call: Callable[[], Any]) -> Any:
        """Count and time a call."""
        self.placement.requests.clear()
        began = time.perf_counter()
        result = call()
        seconds = time.perf_counter() - began
        self.found[title] = {"requests": len(self.placement.requests), "seconds": seconds}
        return result

    def tree(self) -> Any:
        """The host's tree, read or made."""
        return self.client.get_provider_tree_and_ensure_root(self.context, self.root, name="host")

    def prepare(self) -> None:
        """A host with CPUs, and its GPUs on the root."""
        tree = self.tree()
        inventory = {"VCPU": 1000, "VGPU": 400}
        full = {"reserved": 0, "min_unit": 1, "step_size": 1, "allocation_ratio": 1.0}
        tree.update_inventory(
            self.root,
            {name: {"total": n, "max_unit": n, **full} for name, n in inventory.items()},
        )
        self.client.update_from_provider_tree(self.context, tree)

    def one_consumer(self) -> None:
        """Everything that may happen to one instance."""
        client, vm, target = self.client, new_uuid(), new_uuid()
        found = self.measure(
            "find room", lambda: client.get_allocation_candidates(self.context, Request())
        )
        requests, _, version = found
        self.measure(
            "claim",
            lambda: client.claim_resources(self.context, vm, requests[0], PROJECT, USER, version),
        )
        self.measure("read a consumer", lambda: client.get_allocs_for_consumer(self.context, vm))
        self.measure(
            "hold more",
            lambda: client.add_resources_to_instance_allocation(
                self.context, vm, {self.root: {"resources": {"VGPU": 1}}}
            ),
        )
        self.measure(
            "hold less",
            lambda: client.remove_resources_from_instance_allocation(
                self.context, vm, {self.root: {"resources": {"VGPU": 1}}}
            ),
        )
        self.measure("move", lambda: client.move_allocations(self.context, vm, target))
        self.measure(
            "usages for quota",
            lambda: client.get_usages_counts_for_quota(self.context, PROJECT, user_id=USER),
        )
        self.measure(
            "who uses a provider",
            lambda: client.get_allocations_for_resource_provider(self.context, self.root),
        )
        self.measure(
            "leave a tree",
            lambda: client.remove_provider_tree_from_instance_allocation(
                self.context, target, self.root
            ),
        )
        client.claim_resources(self.context, vm, requests[0], PROJECT, USER, version)
        self.measure("delete", lambda: client.delete_allocation_for_instance(self.context, vm))

    def many_consumers(self, number: int) -> None:
        """Instances with a GPU each."""
        for _ in range(number):
            self.placement.operator.allocate(
                new_uuid(), {self.root: {"VGPU": 1, "VCPU": 1}}, project_id=PROJECT, user_id=USER
            )

    def reshape(self) -> None:
        """Move the GPUs and who holds them to children."""
        self.client.invalidate_resource_provider(self.root)
        tree = self.tree()

        def reshape() -> None:
            allocations = self.client.get_allocations_for_provider_tree(self.context, "host")
            inventory = tree.data(self.root).inventory
            record = inventory.pop("VGPU")
            tree.update_inventory(self.root, inventory)
            children = []
            for n in range(GPUS):
                child = str(uuid.uuid5(uuid.UUID(self.root), str(n)))
                tree.new_child(f"host_gpu{n}", self.root, uuid=child)
                record = {**record, "total": 50, "max_unit": 50}
                tree.update_inventory(child, {"VGPU": record})
                children.append(child)
            for n, held in enumerate(allocations.values()):
                own = held["allocations"]
                amount = own[self.root]["resources"].pop("VGPU")
                own[children[n % GPUS]] = {"resources": {"VGPU": amount}}
            self.client.update_from_provider_tree(self.context, tree, allocations=allocations)

        self.measure(f"reshape: {GPUS} GPUs, {MOVED} consumers", reshape)

    def live(self) -> dict[str, dict[str, float]]:
        """All of it; requests and seconds by title."""
        self.prepare()
        self.one_consumer()
        self.many_consumers(MOVED)
        self.reshape()
        self.measure("read the tree after it", self.tree)
        self.many_consumers_of_children(MANY - MOVED)
        self.measure(
            f"allocations of a tree, {MANY} consumers",
            lambda: self.client.get_allocations_for_provider_tree(self.context, "host"),
        )
        return self.found

    def many_consumers_of_children(self, number: int) -> None:
        """Instances that hold CPUs of the root and a GPU of a child."""
        for n in range(number):
            child = str(uuid.uuid5(uuid.UUID(self.root), str(n % GPUS)))
            held = {self.root: {"VCPU": 1}, child: {"VGPU": 1}}
            self.placement.operator.allocate(new_uuid(), held, project_id=PROJECT, user_id=USER)


def main(side: str) -> None:
    """Some lives, and their medians."""
    lives = []
    with EmbeddedPlacement() as placement:
        for _ in range(LIVES):
            placement.reset()
            lives.append(Life(placement, side).live())
    found = {
        title: {
            "requests": first["requests"],
            "seconds": statistics.median(life[title]["seconds"] for life in lives),
        }
        for title, first in lives[0].items()
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
