# SPDX-License-Identifier: Apache-2.0
"""Reported faults of conflict retries and of deletion, replayed."""

from __future__ import annotations

import random
import uuid

import pytest
import requests

from reportclient import RetryPolicy, exceptions, provider_uuid
from reportclient.drivers import FileDriver, HostDriver

CONCURRENT = {
    "errors": [
        {"status": 409, "code": "placement.concurrent_update", "detail": "it is in use elsewhere"}
    ]
}


def test_b18_waits_grow_are_jittered_and_come_from_outside(
    make_client, placement, clock, root, editing
):
    waits = []
    for seed in range(3):
        client = make_client(random=random.Random(seed).random)
        name, own = f"h{seed}", str(uuid.uuid4())
        client.report(None, own, name, editing(lambda tree: None))
        placement.clear_hooks()
        placement.respond(("PUT", "*/traits"), status=409, body=CONCURRENT, times=6)
        clock.slept.clear()
        result = client.report(
            None, own, name, editing(lambda t, own=own: t.add_traits(own, "HW_CPU_X86_AVX"))
        )
        assert result.conflicts == 6
        assert result.complete
        waits.append(list(clock.slept))
    policy = RetryPolicy()
    for own in waits:
        # The first conflict is answered at once.
        assert len(own) == 5
        for n, wait in enumerate(own):
            assert 0 <= wait <= min(policy.max_delay, policy.base_delay * 2**n)
    assert waits[0] != waits[1] != waits[2]


def test_b19_when_the_attempts_run_out_it_says_so(make_client, placement, root, editing):
    client = make_client(retry=RetryPolicy(attempts=20))
    client.report(None, root, "host1", editing(lambda tree: None))
    placement.respond(("PUT", "*/traits"), status=409, body=CONCURRENT, times=999)
    with pytest.raises(exceptions.ResourceProviderUpdateConflict) as caught:
        client.report(None, root, "host1", editing(lambda t: t.add_traits(root, "HW_CPU_X86_AVX")))
    error = caught.value
    assert error.attempts == 20
    assert error.provider == root
    assert (error.status, error.code) == (409, "placement.concurrent_update")
    assert "in use elsewhere" in error.detail
    assert "same" in str(error), "hints at two agents with one UUID"
    assert error.fields == ()
    assert error.result.failures == {root: error}


def test_b19_the_deadline_bounds_it_too(make_client, placement, clock, root, editing):
    client = make_client(retry=RetryPolicy(deadline=5.0, attempts=1000, base_delay=1.0))
    client.report(None, root, "host1", editing(lambda tree: None))
    placement.respond(("PUT", "*/traits"), status=409, body=CONCURRENT, times=9999)
    began = clock.now
    with pytest.raises(exceptions.ResourceProviderUpdateConflict):
        client.report(None, root, "host1", editing(lambda t: t.add_traits(root, "HW_CPU_X86_AVX")))
    assert clock.now - began <= 5.0


def test_b24_two_writers_add_a_class_each(make_client, operator, root, editing):
    one, other = make_client(), make_client()
    for client in (one, other):
        client.get_provider_tree_and_ensure_root(None, root, name="host1")
    one.set_inventory_for_provider(None, root, {"CUSTOM_A": {"total": 1}})
    other.set_inventory_for_provider(None, root, {"CUSTOM_B": {"total": 1}})
    assert set(operator.provider(root)["inventory"]) == {"CUSTOM_A", "CUSTOM_B"}


def test_a_conflict_with_a_sibling_aspect_that_we_have_just_written(
    client, placement, operator, root, editing
):
    """Somebody writes after each of our own writes."""
    placement.after(("PUT", "*/inventories"), lambda *_: operator.add_trait(root, "CUSTOM_X"))
    placement.after(("PUT", "*/aggregates"), lambda *_: operator.bump(root))
    aggregate = str(uuid.uuid4())

    def edit(tree):
        tree.update_inventory(root, {"VCPU": {"total": 4}})
        tree.update_aggregates(root, {aggregate})
        tree.update_traits(root, {"HW_CPU_X86_AVX"})

    result = client.report(None, root, "host1", editing(edit))
    # The third aspect is known to be outdated by then: it is read, not tried.
    assert result.conflicts == 1
    there = operator.provider(root)
    assert there["traits"] == ["CUSTOM_X", "HW_CPU_X86_AVX"]
    assert there["aggregates"] == [aggregate]
    assert "traits" in result.providers[root].merged


def test_b40_a_node_in_use_does_not_keep_the_others(client, operator):
    nodes = [operator.create_provider(f"node{n}") for n in range(5)]
    operator.set_inventory(nodes[1], {"CUSTOM_BM": {"total": 1}})
    consumer = str(uuid.uuid4())
    operator.allocate(consumer, {nodes[1]: {"CUSTOM_BM": 1}})
    kept = {}
    for node in nodes:
        try:
            client.delete_resource_provider(None, node)
        except exceptions.ResourceProviderInUse as error:
            kept[node] = error.consumers
    assert kept == {nodes[1]: (consumer,)}
    assert operator.providers() == {"node1": nodes[1]}


def test_b40_a_child_in_use_does_not_keep_its_siblings(client, operator, root):
    operator.create_provider("host1", uuid=root)
    children = [operator.create_provider(f"c{n}", parent=root) for n in range(3)]
    operator.set_inventory(children[1], {"VGPU": {"total": 1}})
    operator.allocate(str(uuid.uuid4()), {children[1]: {"VGPU": 1}})
    with pytest.raises(exceptions.ResourceProviderInUse) as caught:
        client.delete_resource_provider(None, root)
    outcome = caught.value.result.providers
    assert outcome[children[0]].deleted
    assert outcome[children[2]].deleted
    assert outcome[children[1]].pending
    assert outcome[root].pending
    assert set(operator.providers()) == {"host1", "c1"}


@pytest.mark.parametrize("kind", ["host", "file"])
def test_b45_children_of_other_services_stay(client, operator, root, tmp_path, clock, kind):
    driver = HostDriver()
    if kind == "file":
        tree = tmp_path / "tree.yaml"
        tree.write_text("name: $NODENAME\nchildren: [{name: $NODENAME_gpu, traits: [CUSTOM_A]}]\n")
        driver = FileDriver(tree)
    client.report(None, root, "host1", driver)
    foreign = operator.create_provider("host1:ovs:br-ex", parent=root)
    operator.set_inventory(foreign, {"NET_BW_EGR_KILOBIT_PER_SEC": {"total": 1000}})
    before = operator.provider(foreign)
    if kind == "file":
        tree.write_text("name: $NODENAME\n")
    for _ in range(2):
        clock.now += 300
        assert client.report(None, root, "host1", driver).complete
    assert operator.provider(foreign) == before
    assert "host1_gpu" not in operator.providers()


def test_b59_an_old_trait_that_somebody_still_uses(client, operator, root, caplog):
    operator.create_provider("host1", uuid=root)
    operator.set_traits(root, {"CUSTOM_USED"})
    operator.call("PUT", "/traits/CUSTOM_OLD")
    assert client.delete_traits(None, ["CUSTOM_OLD", "CUSTOM_USED", "CUSTOM_NEVER"]) == {
        "CUSTOM_OLD"
    }
    assert operator.provider(root)["traits"] == ["CUSTOM_USED"]
    assert not [record for record in caplog.records if record.levelname != "DEBUG"]
    client.set_traits_for_provider(None, root, ["CUSTOM_OLD"])
    assert operator.provider(root)["traits"] == ["CUSTOM_OLD"]


def test_b128_a_host_in_hundreds_of_aggregates(client, placement, operator, root, clock):
    operator.create_provider("host1", uuid=root)
    aggregates = [provider_uuid(root, str(n)) for n in range(400)]
    pool = operator.create_provider("pool")
    operator.set_traits(pool, {"MISC_SHARES_VIA_AGGREGATE"})
    operator.set_inventory(pool, {"DISK_GB": {"total": 1}})
    operator.set_aggregates(pool, [aggregates[0], aggregates[-1]])
    operator.set_aggregates(root, aggregates)
    tree = client.get_provider_tree_and_ensure_root(None, root)
    assert [provider.uuid for provider in tree.roots] == [root, pool]
    queries = [request.path for request in placement.requests if "member_of" in request.path]
    assert len(queries) > 1
    assert max(map(len, queries)) < 4000


def test_b132_allocations_are_not_read_without_a_reshape(
    client, placement, operator, clock, root, editing
):
    full = editing(lambda t: t.update_inventory(root, {"VCPU": {"total": 8}}))
    client.report(None, root, "host1", full)
    operator.allocate(str(uuid.uuid4()), {root: {"VCPU": 1}})
    for _ in range(5):
        clock.now += 300
        client.report(None, root, "host1", full, startup=True)
    assert not [request for request in placement.requests if "allocations" in request.path]


@pytest.mark.parametrize("aspect", ["traits", "aggregates"])
def test_a_race_lost_inside_the_server_again_and_again(
    client, placement, operator, root, editing, aspect
):
    """Placement answers 500 then; it is a conflict, and waited out like one."""
    client.report(None, root, "host1", editing(lambda tree: None))
    body = {"errors": [{"status": 500, "code": "placement.undefined_code", "detail": "oops"}]}
    placement.respond(("PUT", f"*/{aspect}"), status=500, body=body, times=5)
    aggregate = str(uuid.uuid4())

    def edit(tree):
        tree.add_traits(root, "HW_CPU_X86_AVX")
        tree.add_aggregates(root, aggregate)

    result = client.report(None, root, "host1", editing(edit))
    assert result.complete
    assert result.conflicts == 5
    assert operator.provider(root)["traits"] == ["HW_CPU_X86_AVX"]
    assert operator.provider(root)["aggregates"] == [aggregate]


@pytest.mark.parametrize("path", ["/traits/CUSTOM_A", "*/traits"])
def test_lost_answers_have_a_small_budget_of_their_own(client, placement, operator, root, path):
    """Others' writes are waited out; a Placement that does not answer is not."""
    operator.create_provider("host1", uuid=root)
    lost = requests.exceptions.ReadTimeout("slow")
    placement.fail(("PUT", path), lost, times=999)
    with pytest.raises(exceptions.PlacementTimeout):
        client.set_traits_for_provider(None, root, ["CUSTOM_A"])
    limit = 1 + RetryPolicy().resend_attempts
    assert len([r for r in placement.requests if r.method == "PUT"]) <= limit * limit + 1
