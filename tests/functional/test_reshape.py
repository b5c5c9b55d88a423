# SPDX-License-Identifier: Apache-2.0
"""Moving inventory that is in use, replayed on the real service."""

from __future__ import annotations

import uuid

import pytest
import requests

import reportclient
from reportclient import exceptions


def new_uuid():
    return str(uuid.uuid4())


class Reshaper:
    """Moves VGPU from the root to two children, and drops an old child."""

    def __init__(self, root, hook=lambda: None):
        self.root = root
        self.gpus = [reportclient.provider_uuid(root, "pgpu", str(n)) for n in range(2)]
        self.old = reportclient.provider_uuid(root, "old")
        self.hook = hook
        self.calls = []

    def update_provider_tree(self, provider_tree, nodename, allocations=None):
        self.calls.append(allocations is not None)
        if "VGPU" not in provider_tree.data(nodename).inventory:
            return
        if allocations is None:
            raise exceptions.ReshapeNeeded
        self.hook()
        inventory = provider_tree.data(nodename).inventory
        vgpu = inventory.pop("VGPU")
        provider_tree.update_inventory(nodename, inventory)
        for n, gpu in enumerate(self.gpus):
            provider_tree.new_child(f"pgpu{n}", nodename, uuid=gpu)
            provider_tree.update_inventory(gpu, {"VGPU": {**vgpu, "total": 4, "max_unit": 4}})
            provider_tree.update_traits(gpu, {"CUSTOM_GPU"})
        if provider_tree.exists(self.old):
            provider_tree.remove(self.old)
        for part in allocations.values():
            held = part["allocations"]
            for source in (self.root, self.old):
                amount = held.get(source, {"resources": {}})["resources"].pop("VGPU", 0)
                if amount:
                    target = held.setdefault(self.gpus[0], {"resources": {"VGPU": 0}})
                    target["resources"]["VGPU"] += amount


@pytest.fixture
def reshaper(operator, root):
    driver = Reshaper(root)
    operator.create_provider("host1", uuid=root)
    operator.set_inventory(root, {"VCPU": {"total": 8}, "VGPU": {"total": 8}})
    operator.create_provider("old", uuid=driver.old, parent=root)
    operator.set_inventory(driver.old, {"VGPU": {"total": 2}})
    return driver


@pytest.fixture
def consumers(operator, reshaper, root):
    """One on the root; one on the old child and on another host; one without a GPU."""
    elsewhere = operator.create_provider("elsewhere")
    operator.set_inventory(elsewhere, {"VCPU": {"total": 8}})
    one, two, three = new_uuid(), new_uuid(), new_uuid()
    operator.allocate(one, {root: {"VCPU": 2, "VGPU": 1}})
    operator.allocate(two, {reshaper.old: {"VGPU": 2}, elsewhere: {"VCPU": 3}})
    operator.allocate(three, {root: {"VCPU": 1}})
    return one, two, three, elsewhere


def held(operator, consumer):
    found = operator.call("GET", f"/allocations/{consumer}")["allocations"]
    return {provider: part["resources"] for provider, part in found.items()}


def test_b79_b80_b82_reshape_at_start_up(client, placement, operator, root, reshaper, consumers):
    one, two, _, elsewhere = consumers
    result = client.report(None, root, "host1", reshaper, startup=True)
    assert reshaper.calls == [False, True]
    assert result.conflicts == 0
    assert held(operator, one) == {root: {"VCPU": 2}, reshaper.gpus[0]: {"VGPU": 1}}
    assert held(operator, two) == {elsewhere: {"VCPU": 3}, reshaper.gpus[0]: {"VGPU": 2}}
    assert operator.provider(reshaper.old) is None
    assert result.providers[reshaper.old].deleted
    assert set(operator.provider(root)["inventory"]) == {"VCPU"}
    assert operator.provider(reshaper.gpus[0])["traits"] == ["CUSTOM_GPU"]
    [sent] = [r.json for r in placement.requests if r.path == "/reshaper"]
    assert set(sent["allocations"]) == {one, two}
    assert set(sent["inventories"]) == {root, reshaper.old, *reshaper.gpus}
    assert sent["inventories"][reshaper.old]["inventories"] == {}
    assert not client.report(None, root, "host1", reshaper).changed


def test_b83_not_outside_start_up(client, placement, root, reshaper, consumers):
    with pytest.raises(exceptions.ReshapeNeeded):
        client.report(None, root, "host1", reshaper)
    assert {request.method for request in placement.requests} == {"GET"}


def test_b78_a_vm_is_placed_meanwhile(client, operator, root, reshaper, consumers):
    late = new_uuid()
    hooks = iter([lambda: operator.allocate(late, {root: {"VGPU": 1}})])
    reshaper.hook = lambda: next(hooks, lambda: None)()
    result = client.report(None, root, "host1", reshaper, startup=True)
    assert reshaper.calls == [False, True, False, True]
    assert result.redriven == 1
    assert held(operator, late) == {reshaper.gpus[0]: {"VGPU": 1}}


def test_b78_a_vm_that_only_placement_knows_of(
    client, placement, operator, root, reshaper, consumers
):
    """It was placed after the allocations were read and before the inventory was."""
    late = new_uuid()
    placement.before(("POST", "/reshaper"), lambda _: operator.allocate(late, {root: {"VGPU": 1}}))
    body = {"errors": [{"status": 409, "code": "placement.inventory.inuse", "detail": "in use"}]}
    placement.respond(("POST", "/reshaper"), status=409, body=body)
    result = client.report(None, root, "host1", reshaper, startup=True)
    assert (result.complete, result.conflicts >= 1) == (True, True)
    assert held(operator, late) == {reshaper.gpus[0]: {"VGPU": 1}}


def test_a_driver_that_leaves_somebody_behind(client, operator, root, reshaper, consumers):
    """It is run again a few times; nothing is half done."""
    edit = reshaper.update_provider_tree

    def forgetful(tree, nodename, allocations=None):
        if allocations is not None:
            allocations = {c: p for c, p in allocations.items() if c != consumers[0]}
        edit(tree, nodename, allocations)

    reshaper.update_provider_tree = forgetful
    with pytest.raises(exceptions.PlacementReshapeConflict, match="in use"):
        client.report(None, root, "host1", reshaper, startup=True)
    assert held(operator, consumers[0]) == {root: {"VCPU": 2, "VGPU": 1}}
    assert held(operator, consumers[1])[reshaper.old] == {"VGPU": 2}


def test_a_lost_answer_is_settled_by_reading(
    client, placement, operator, root, reshaper, consumers
):
    placement.fail(("POST", "/reshaper"), requests.exceptions.ReadTimeout("late"), applied=True)
    assert client.report(None, root, "host1", reshaper, startup=True).complete
    assert [r.path for r in placement.requests].count("/reshaper") == 1
    assert held(operator, consumers[0])[reshaper.gpus[0]] == {"VGPU": 1}


def test_a_reshape_that_was_not_applied_is_sent_again(
    client, placement, operator, root, reshaper, consumers
):
    placement.fail(("POST", "/reshaper"), requests.exceptions.ReadTimeout("late"))
    assert client.report(None, root, "host1", reshaper, startup=True).complete
    assert [r.path for r in placement.requests].count("/reshaper") == 2


def test_a_refused_reshape_moves_nothing(client, placement, operator, root, reshaper, consumers):
    body = {"errors": [{"status": 400, "detail": "no"}]}
    placement.respond(("POST", "/reshaper"), status=400, body=body)
    with pytest.raises(exceptions.ReshapeFailed):
        client.report(None, root, "host1", reshaper, startup=True)
    assert held(operator, consumers[0]) == {root: {"VCPU": 2, "VGPU": 1}}
    assert client.report(None, root, "host1", reshaper, startup=True).complete


def test_as_novas_resource_tracker_does_it(client, operator, root, reshaper, consumers):
    tree = client.get_provider_tree_and_ensure_root(None, root, name="host1")
    allocations = client.get_allocations_for_provider_tree(None, "host1")
    assert set(allocations) == set(consumers[:3])
    reshaper.update_provider_tree(tree, "host1", allocations)
    client.update_from_provider_tree(None, tree, allocations)
    assert held(operator, consumers[1])[reshaper.gpus[0]] == {"VGPU": 2}


def test_allocations_of_another_shape_are_refused(client, placement, root, reshaper):
    tree = client.get_provider_tree_and_ensure_root(None, root)
    placement.requests.clear()
    for bad in (
        {"c": {}},
        {
            "c": {
                "allocations": {root: {"resources": {"VCPU": "1"}}},
                "project_id": "p",
                "user_id": "u",
            }
        },
    ):
        with pytest.raises(exceptions.InvalidInput, match="onsumer c"):
            client.update_from_provider_tree(None, tree, bad)
    assert placement.requests == []


def test_cascade_takes_only_what_is_held_there(client, operator, root, reshaper, consumers):
    with pytest.raises(exceptions.ResourceProviderInUse) as caught:
        client.delete_resource_provider(None, root)
    assert set(caught.value.consumers) <= set(consumers)
    client.delete_resource_provider(None, root, cascade=True)
    assert operator.provider(root) is None
    assert held(operator, consumers[0]) == {}
    assert held(operator, consumers[1]) == {consumers[3]: {"VCPU": 3}}
