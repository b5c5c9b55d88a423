# SPDX-License-Identifier: Apache-2.0
"""Whole passes of an agent, and what they cost (design: P1 to P5, P9, P10)."""

from __future__ import annotations

import uuid

import pytest
import requests

import reportclient
from reportclient import exceptions

INVENTORY = {
    "VCPU": {"total": 16, "reserved": 1, "max_unit": 16, "allocation_ratio": 4.0},
    "MEMORY_MB": {"total": 65536, "reserved": 512, "max_unit": 65536},
    "DISK_GB": {"total": 900, "max_unit": 900},
}
AGGREGATE = str(uuid.uuid4())


@pytest.fixture
def host(root):
    """A root, eight children with a custom class each, one aggregate."""
    gpus = {n: reportclient.provider_uuid(root, "gpu", str(n)) for n in range(8)}

    def edit(tree):
        tree.update_inventory(root, INVENTORY)
        tree.add_traits(root, "HW_CPU_X86_AVX2", "CUSTOM_RACK_7")
        tree.add_aggregates(root, AGGREGATE)
        for n, child in gpus.items():
            if not tree.exists(child):
                tree.new_child(f"{root}_gpu{n}", root, uuid=child)
            tree.update_inventory(child, {f"CUSTOM_GPU_{n}": {"total": 1, "max_unit": 1}})

    return edit


def test_first_report_of_a_host(client, placement, operator, root, host, editing):
    result = client.report(None, root, "host1", editing(host))
    assert sum(result.requests.values()) <= 40
    assert result.conflicts == 0
    assert result.complete
    assert {provider.created for provider in result.providers.values()} == {True}
    there = operator.provider(root)
    assert there["name"] == "host1"
    assert there["inventory"]["VCPU"]["total"] == 16
    assert there["inventory"]["VCPU"]["allocation_ratio"] == 4.0
    assert set(there["traits"]) == {"HW_CPU_X86_AVX2", "CUSTOM_RACK_7"}
    assert set(there["aggregates"]) == {AGGREGATE}
    child = operator.provider(reportclient.provider_uuid(root, "gpu", "3"))
    assert child["inventory"]["CUSTOM_GPU_3"]["total"] == 1
    assert child["parent"] == root


def test_b127_nothing_due_costs_nothing(client, placement, root, host, editing):
    client.report(None, root, "host1", editing(host))
    placement.requests.clear()
    for _ in range(10):
        assert not client.report(None, root, "host1", editing(host)).changed
    assert placement.requests == []


def test_refresh_due_costs_two_requests(client, placement, clock, root, host, editing):
    client.report(None, root, "host1", editing(host))
    client.refresh([root])
    clock.now += 300
    result = client.report(None, root, "host1", editing(host))
    assert result.requests == {"GET /resource_providers": 2}
    assert not result.changed


def test_one_change_costs_one_request(client, root, host, editing):
    client.report(None, root, "host1", editing(host))

    def grow(tree):
        host(tree)
        tree.update_inventory(root, {**INVENTORY, "DISK_GB": {"total": 901, "max_unit": 901}})

    result = client.report(None, root, "host1", editing(grow))
    assert result.requests == {"PUT /resource_providers/{uuid}/inventories": 1}


def test_a_conflict_costs_three_requests_and_no_second_run(client, operator, root, host, editing):
    client.report(None, root, "host1", editing(host))
    driver = editing(
        lambda tree: (
            operator.add_trait(root, "CUSTOM_GOLD"),
            tree.update_inventory(root, {**INVENTORY, "DISK_GB": {"total": 901}}),
        )
    )
    result = client.report(None, root, "host1", driver)
    assert result.requests == {
        "PUT /resource_providers/{uuid}/inventories": 2,
        "GET /resource_providers/{uuid}/inventories": 1,
    }
    assert result.conflicts == 1
    assert driver.calls == 1
    there = operator.provider(root)
    assert there["inventory"]["DISK_GB"]["total"] == 901
    assert "CUSTOM_GOLD" in there["traits"]


def test_p4_allocation_written_while_the_driver_runs(client, operator, root, host, editing):
    client.report(None, root, "host1", editing(host))
    consumer = str(uuid.uuid4())
    driver = editing(
        lambda tree: (
            operator.allocate(consumer, {root: {"VCPU": 2}}),
            tree.update_inventory(root, {**INVENTORY, "VCPU": {"total": 15}}),
        )
    )
    result = client.report(None, root, "host1", driver)
    assert result.conflicts == 1
    vcpu = operator.provider(root)["inventory"]["VCPU"]
    assert (vcpu["total"], vcpu["allocation_ratio"], vcpu["reserved"]) == (15, 4.0, 1)


def test_real_clash_runs_the_driver_again(client, operator, root, editing):
    client.report(
        None, root, "host1", editing(lambda t: t.update_inventory(root, {"VCPU": {"total": 8}}))
    )
    seen = []

    def edit(tree):
        seen.append(tree.data(root).inventory["VCPU"]["total"])
        if len(seen) == 1:
            operator.set_inventory(root, {"VCPU": {"total": 4}})
        tree.update_inventory(root, {"VCPU": {"total": 16}})

    result = client.report(None, root, "host1", editing(edit))
    assert seen == [8, 4]
    assert result.redriven == 1
    assert operator.provider(root)["inventory"]["VCPU"]["total"] == 16


def test_what_was_done_before_the_driver_ran_again_is_in_the_result(
    client, operator, root, editing
):
    client.report(
        None, root, "host1", editing(lambda t: t.update_inventory(root, {"VCPU": {"total": 8}}))
    )
    child = reportclient.provider_uuid(root, "child")
    others = iter([{"VCPU": {"total": 4}}])

    def edit(tree):
        for inventory in others:
            operator.set_inventory(root, inventory)
        if not tree.exists(child):
            tree.new_child("child", root, uuid=child)
        tree.update_inventory(root, {"VCPU": {"total": 16}})

    result = client.report(None, root, "host1", editing(edit))
    assert result.redriven == 1
    assert result.providers[child].created
    assert result.providers[root].written
    assert result.complete


def test_b23_an_endless_fight_ends_with_a_hint(client, operator, root, editing):
    client.report(
        None, root, "host1", editing(lambda t: t.update_inventory(root, {"VCPU": {"total": 8}}))
    )
    totals = iter(range(100, 200))

    def edit(tree):
        operator.set_inventory(root, {"VCPU": {"total": next(totals)}})
        tree.update_inventory(root, {"VCPU": {"total": 16}})

    driver = editing(edit)
    with pytest.raises(exceptions.ResourceProviderUpdateConflict) as caught:
        client.report(None, root, "host1", driver)
    assert driver.calls == 4
    assert caught.value.fields == ("VCPU.total",)
    assert caught.value.mine == {"VCPU.total": 16}
    assert caught.value.their_generation != caught.value.base_generation


def test_driver_not_ready_leaves_placement_alone(client, placement, root):
    class NotReady:
        def update_provider_tree(self, provider_tree, nodename, allocations=None):
            raise exceptions.DriverNotReady

    with pytest.raises(exceptions.DriverNotReady):
        client.report(None, root, "host1", NotReady())
    assert {request.method for request in placement.requests} == {"GET"}


def test_b46_a_tree_without_providers_deletes_nothing(client, placement, root, host, editing):
    client.report(None, root, "host1", editing(host))
    placement.requests.clear()
    with pytest.raises(exceptions.MassRemovalRefused):
        client.report(None, root, "host1", editing(lambda tree: tree.remove(root)))
    assert placement.requests == []


def test_b16_one_failure_does_not_stop_the_others(client, placement, operator, root, editing):
    children = [reportclient.provider_uuid(root, "c", str(n)) for n in range(3)]

    def edit(total):
        def edit(tree):
            for n, child in enumerate(children):
                if not tree.exists(child):
                    tree.new_child(f"{root}_{n}", root, uuid=child)
                tree.update_inventory(child, {"VGPU": {"total": total}})

        return edit

    client.report(None, root, "host1", editing(edit(1)))
    path = f"/resource_providers/{children[1]}/inventories"
    placement.respond(("PUT", path), status=400, body={"errors": [{"status": 400}]}, times=1)
    with pytest.raises(exceptions.ResourceProviderSyncFailed) as caught:
        client.report(None, root, "host1", editing(edit(2)))
    assert list(caught.value.result.failures) == [children[1]]
    totals = [operator.provider(c)["inventory"]["VGPU"]["total"] for c in children]
    assert totals == [2, 1, 2]
    result = client.report(None, root, "host1", editing(edit(2)))
    assert result.requests == {
        "GET /resource_providers": 1,
        "PUT /resource_providers/{uuid}/inventories": 1,
    }
    assert operator.provider(children[1])["inventory"]["VGPU"]["total"] == 2


def test_dry_run_writes_nothing(client, placement, root, host):
    tree = client.get_provider_tree_and_ensure_root(None, root, name="host1")
    host(tree)
    placement.requests.clear()
    plan = client.update_from_provider_tree(None, tree, dry_run=True)
    assert placement.requests == []
    assert f"create {root}_gpu0" in str(plan)
    result = client.update_from_provider_tree(None, tree)
    assert result.plan == plan
    assert not client.update_from_provider_tree(None, tree, dry_run=True)


def test_flushed_tree_has_a_new_base(client, placement, root, host):
    tree = client.get_provider_tree_and_ensure_root(None, root, name="host1")
    host(tree)
    client.update_from_provider_tree(None, tree)
    placement.requests.clear()
    assert not client.update_from_provider_tree(None, tree).changed
    tree.update_inventory(root, {**INVENTORY, "VCPU": {"total": 3, "reserved": 0}})
    assert client.update_from_provider_tree(None, tree).requests == {
        "PUT /resource_providers/{uuid}/inventories": 1
    }


@pytest.mark.parametrize("max_workers", [1, 4])
@pytest.mark.parametrize(
    "matcher",
    [
        ("POST", "/resource_providers"),
        ("PUT", "*/inventories"),
        ("PUT", "*/traits"),
        ("DELETE", "/resource_providers/*"),
    ],
    ids=["create", "inventory", "traits", "delete"],
)
def test_what_nobody_foresaw_is_raised_and_the_next_pass_goes_on(
    make_client, placement, operator, root, editing, matcher, max_workers
):
    """P7: a bug in a transport, or an assertion in a test's hook, is not "done"."""
    client = make_client(max_workers=max_workers)
    gone = reportclient.provider_uuid(root, "gone")

    def first(tree):
        tree.new_child(f"{root}_gone", root, uuid=gone)

    def then(tree):
        if tree.exists(gone):
            tree.remove(gone)
        tree.update_inventory(root, INVENTORY)
        tree.add_traits(root, "CUSTOM_RACK_7")
        for n in range(2):
            child = reportclient.provider_uuid(root, "gpu", str(n))
            if not tree.exists(child):
                tree.new_child(f"{root}_gpu{n}", root, uuid=child)

    client.report(None, root, "host1", editing(first))
    placement.fail(matcher, RuntimeError("a bug"))
    with pytest.raises(RuntimeError, match="a bug"):
        client.report(None, root, "host1", editing(then))
    assert client.report(None, root, "host1", editing(then)).complete
    held = operator.provider(root)
    assert set(held["inventory"]) == set(INVENTORY)
    assert held["traits"] == ["CUSTOM_RACK_7"]
    assert operator.provider(gone) is None
    assert len(operator.providers()) == 3


def test_children_of_a_parent_that_could_not_be_reached_are_unreachable_too(
    client, placement, root, editing
):
    def edit(tree):
        for n in range(3):
            tree.new_child(f"c{n}", root)

    placement.fail(("POST", "*"), requests.exceptions.ConnectionError("refused"), times=99)
    with pytest.raises(exceptions.SyncUnavailable) as caught:
        client.report(None, root, "host1", editing(edit))
    assert str(caught.value).count("refused") == 1
    assert len(caught.value.result.failures) == 4


def test_children_of_a_parent_that_was_refused_name_it_and_say_the_reason_once(
    client, placement, root, editing
):
    placement.respond(("POST", "*"), status=403, body={}, times=99)
    with pytest.raises(exceptions.ResourceProviderSyncFailed) as caught:
        client.report(None, root, "host1", editing(lambda tree: tree.new_child("c", root)))
    failures = {str(failure) for failure in caught.value.result.failures.values()}
    assert len([text for text in failures if "403" in text]) == 1
    assert [text for text in failures if "parent host1" in text and "403" not in text]
