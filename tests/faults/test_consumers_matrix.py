# SPDX-License-Identifier: Apache-2.0
"""Every request of every call about consumers fails in every way (P6, P7).

Whatever happens, a call ends in the wanted state or in one typed exception;
and what consumers hold is then as it was or as it was to be, nothing between.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable

import pytest
from test_matrix import FAULTS, SURVIVED

from reportclient import ReportClient, RetryPolicy, exceptions
from reportclient.testing import EmbeddedPlacement, FakePlacement

HOST, OTHER = (str(uuid.UUID(int=n, version=4)) for n in (1, 2))
OLD, NEW, MIGRATION = (str(uuid.UUID(int=n, version=4)) for n in (21, 22, 23))


def body(consumer_generation=None, **resources):
    held = {HOST: resources} if resources else {}
    return {
        "allocations": {provider: {"resources": part} for provider, part in held.items()},
        "project_id": "project",
        "user_id": "user",
        "consumer_generation": consumer_generation,
    }


def read(client, consumer):
    return client.get_allocs_for_consumer(None, consumer).get("consumer_generation")


def claim(client):
    request = {"allocations": {HOST: {"resources": {"VCPU": 2}}}}
    client.claim_resources(None, NEW, request, "project", "user", "1.36")


def evacuate(client):
    request = {"allocations": {OTHER: {"resources": {"VCPU": 4}}}}
    client.claim_resources(None, OLD, request, "project", "user", "1.36")


def put(client):
    client.put_allocations(None, OLD, body(read(client, OLD), VCPU=3))


def post(client):
    parts = {OLD: body(read(client, OLD)), NEW: body(read(client, NEW), VCPU=4)}
    client.post_allocations(None, parts)


def move(client):
    client.move_allocations(None, OLD, MIGRATION)


def more(client):
    client.add_resources_to_instance_allocation(None, OLD, {OTHER: {"VCPU": 1}})


def less(client):
    client.remove_resources_from_instance_allocation(None, OLD, {HOST: {"VCPU": 1}})


def leave(client):
    client.remove_provider_tree_from_instance_allocation(None, OLD, HOST)


def delete(client):
    client.delete_allocation_for_instance(None, OLD)


def force(client):
    client.delete_allocation_for_instance(None, OLD, force=True)


def heal(client):
    failures = client.heal_allocations(None, {OLD: body(VCPU=1), NEW: body(VCPU=1)}).failures
    for error in failures.values():
        raise error


def audit(client):
    failures = client.audit_allocations(None, HOST, [], remove=True).failures
    for error in failures.values():
        raise error


CALLS: dict[str, Callable] = {
    call.__name__: call
    for call in (
        claim, evacuate, put, post, move, more, less, leave, delete, force, heal, audit,
    )
}  # fmt: skip
#: Those that mean something else the second time.
ONCE = {"more", "less"}


class Run:
    """A Placement in which somebody holds something, and a client."""

    def __init__(self, placement):
        self.placement, self.now = placement, 0.0
        for name, own in (("host", HOST), ("other", OTHER)):
            placement.operator.create_provider(name, uuid=own)
            placement.operator.set_inventory(own, {"VCPU": {"total": 8}})
        placement.operator.allocate(OLD, {HOST: {"VCPU": 4}})
        self.client = ReportClient(
            placement.adapter(),
            max_workers=1,
            clock=lambda: self.now,
            sleep=self.sleep,
            random=random.Random(3).random,
            retry=RetryPolicy(attempts=8),
        )

    def sleep(self, seconds):
        self.now += seconds

    def state(self):
        call = self.placement.operator.call
        held = (call("GET", f"/allocations/{each}") for each in (OLD, NEW, MIGRATION))
        return [
            (
                {provider: part["resources"] for provider, part in found["allocations"].items()},
                found.get("project_id"),
                found.get("user_id"),
            )
            for found in held
        ]


def strike(kind, name, fault, nth, wanted):
    """One cell of the matrix."""
    with kind() as placement:
        run = Run(placement)
        before = run.state()
        FAULTS[fault](placement, nth)
        failure = None
        try:
            CALLS[name](run.client)
        except exceptions.ReportClientError as error:
            failure = error
        if failure is None:
            assert run.state() == wanted, "succeeded, and it is not so"
        else:
            assert fault not in SURVIVED, f"should have survived: {failure!r}"
            assert run.state() in (before, wanted), "half done"
        placement.clear_hooks()
        if name in ONCE and run.state() == wanted:
            return
        CALLS[name](run.client)
        assert run.state() == wanted


@pytest.mark.parametrize(
    ("kind", "faults"),
    [
        (FakePlacement, list(FAULTS)),
        (EmbeddedPlacement, ["reset before", "reset after", "500", "409 {}"]),
    ],
    ids=["fake", "embedded"],
)
@pytest.mark.parametrize("name", CALLS)
def test_fault(name, kind, faults):
    with kind() as placement:
        run = Run(placement)
        placement.requests.clear()
        CALLS[name](run.client)
        wanted, count = run.state(), len(placement.requests)
    assert count
    for fault in faults:
        for nth in range(1, count + 1):
            try:
                strike(kind, name, fault, nth, wanted)
            except (AssertionError, exceptions.ReportClientError) as error:
                raise AssertionError(f"{fault} at request {nth} of {name}: {error}") from error
