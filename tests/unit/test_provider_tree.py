# SPDX-License-Identifier: Apache-2.0
"""The tree that drivers edit: nova's behaviour, and what goes beyond it."""

from __future__ import annotations

import concurrent.futures
import contextlib
import copy
import json
import multiprocessing
import os
import pickle
import sys
import threading
import uuid

import pytest

from reportclient import exceptions
from reportclient.provider_tree import (
    ProviderSubTree,
    ProviderTree,
    TreeSnapshot,
    provider_uuid,
)
from reportclient.types import ProviderData, ProviderRecord

HOST = "a0000000-0000-4000-8000-000000000001"
NUMA0 = "a0000000-0000-4000-8000-000000000002"
NUMA1 = "a0000000-0000-4000-8000-000000000003"
GPU = "a0000000-0000-4000-8000-000000000004"
DISKS = "a0000000-0000-4000-8000-000000000005"
NEW = "a0000000-0000-4000-8000-000000000009"
AGG = "b0000000-0000-4000-8000-00000000000a"
OTHER_AGG = "b0000000-0000-4000-8000-00000000000b"

ALL = [HOST, NUMA0, GPU, NUMA1, DISKS]
VCPU = {"VCPU": {"total": 8, "reserved": 1, "allocation_ratio": 16.0}}
SHARES = "MISC_SHARES_VIA_AGGREGATE"


def listed(own, name, parent=None, generation=None):
    """A provider as Placement lists it."""
    return {
        "uuid": own,
        "name": name,
        "generation": generation,
        "parent_provider_uuid": parent,
    }


def make_tree() -> ProviderTree:
    """A host with two NUMA nodes, a GPU under the first, and lone disks."""
    tree = ProviderTree()
    tree.new_root("host", HOST, generation=7)
    tree.new_child("numa0", "host", NUMA0)
    tree.new_child("numa1", HOST, NUMA1)
    tree.new_child("gpu", "numa0", GPU)
    tree.new_root("disks", DISKS)
    return tree


@pytest.fixture
def tree() -> ProviderTree:
    return make_tree()


def content(tree: ProviderTree) -> list[ProviderData]:
    return [tree.data(own) for own in tree.get_provider_uuids()]


# -- finding -------------------------------------------------------------------


def test_an_empty_tree_has_nothing():
    tree = ProviderTree()
    assert list(tree.roots) == []
    assert tree.get_provider_uuids() == []
    assert not tree.exists(HOST)
    assert tree.base is None


def test_providers_are_found_by_name_and_by_uuid(tree):
    for name, own in [("host", HOST), ("numa0", NUMA0), ("gpu", GPU), ("disks", DISKS)]:
        assert tree.exists(name)
        assert tree.exists(own)
        assert tree.data(name) == tree.data(own)
        assert tree.data(own).uuid == own
    assert not tree.exists("numa2")
    assert not tree.exists(NEW)


def test_roots_have_nova_s_attributes(tree):
    assert [(root.uuid, root.name, root.parent_uuid) for root in tree.roots] == [
        (HOST, "host", None),
        (DISKS, "disks", None),
    ]


def test_uuids_come_parents_first(tree):
    assert tree.get_provider_uuids() == ALL
    assert tree.get_provider_uuids("host") == [HOST, NUMA0, GPU, NUMA1]
    assert tree.get_provider_uuids(name_or_uuid=NUMA0) == [NUMA0, GPU]
    assert tree.get_provider_uuids("gpu") == [GPU]


def test_uuids_of_the_whole_tree_that_a_provider_is_in(tree):
    for member in ("host", GPU, "numa1"):
        assert tree.get_provider_uuids_in_tree(member) == [HOST, NUMA0, GPU, NUMA1]
    assert tree.get_provider_uuids_in_tree("disks") == [DISKS]


CALLS_ON_ONE = {
    "get_provider_uuids": (),
    "get_provider_uuids_in_tree": (),
    "data": (),
    "remove": (),
    "rename": ("other",),
    "move": (None,),
    "subtree": (),
    "has_inventory": (),
    "has_inventory_changed": ({},),
    "update_inventory": ({},),
    "has_traits": ([],),
    "have_traits_changed": ([],),
    "update_traits": ([],),
    "add_traits": ("HW_CPU_X86_AVX",),
    "remove_traits": ("HW_CPU_X86_AVX",),
    "in_aggregates": ([],),
    "have_aggregates_changed": ([],),
    "update_aggregates": ([],),
    "add_aggregates": (),
    "remove_aggregates": (),
    "update_resources": ({},),
}


@pytest.mark.parametrize("method", CALLS_ON_ONE)
@pytest.mark.parametrize("who", ["numa2", NEW])
def test_an_unknown_provider_is_a_value_error_that_names_it(tree, method, who):
    before = tree.snapshot()
    with pytest.raises(ValueError, match=f"No such provider {who}"):
        getattr(tree, method)(who, *CALLS_ON_ONE[method])
    assert tree.snapshot() is before


def test_adding_or_removing_no_traits_is_nothing_to_do_as_in_nova(tree):
    assert tree.add_traits("numa2") is None
    assert tree.remove_traits("numa2") is None


# -- UUIDs in any spelling -----------------------------------------------------


@pytest.mark.parametrize(
    "spell",
    [str.upper, lambda own: own.replace("-", ""), uuid.UUID],
    ids=["upper", "bare", "object"],
)
def test_uuids_are_in_normal_form_in_and_out(tree, spell):
    assert tree.data(spell(GPU)).name == "gpu"
    assert tree.exists(spell(NUMA1))
    assert tree.new_child("new", spell(NUMA1), spell(NEW)) == NEW
    assert tree.data(NEW).parent_uuid == NUMA1
    tree.update_aggregates("new", [spell(AGG)])
    assert tree.data("new").aggregates == {AGG}
    assert tree.in_aggregates("new", [spell(AGG)])
    assert not tree.have_aggregates_changed("new", [spell(AGG), AGG])
    tree.add_aggregates("new", spell(OTHER_AGG))
    tree.remove_aggregates("new", spell(AGG))
    assert tree.data("new").aggregates == {OTHER_AGG}
    tree.populate_from_iterable([listed(spell(NEW), "newer", spell(HOST))])
    assert tree.data(NEW)[:4] == (NEW, "newer", None, HOST)


def test_what_is_no_uuid_is_kept_until_it_is_flushed():
    tree = ProviderTree()
    assert tree.new_root("host", "Not A UUID") == "Not A UUID"
    tree.add_aggregates("host", "Rack 1")
    assert tree.data("Not A UUID").aggregates == {"Rack 1"}


# -- adding --------------------------------------------------------------------


def test_a_new_provider_is_empty(tree):
    assert tree.new_child("new", "gpu", NEW, generation=3) == NEW
    assert tree.data("new") == ProviderData(NEW, "new", 3, GPU, {}, set(), set(), {})
    assert tree.data("disks") == ProviderData(DISKS, "disks", None, None, {}, set(), set(), {})


def test_arguments_have_nova_s_names():
    tree = ProviderTree()
    assert tree.new_root(name="host", uuid=HOST, generation=1) == HOST
    assert tree.new_child(name="numa0", parent="host", uuid=NUMA0, generation=2) == NUMA0
    tree.populate_from_iterable(provider_dicts=[listed(NUMA1, "numa1", HOST)])
    who = {"name_or_uuid": "host"}
    assert tree.update_inventory(**who, inventory=VCPU, generation=5)
    assert tree.has_inventory_changed(**who, inventory={})
    assert tree.update_traits(**who, traits=["HW_CPU_X86_AVX"], generation=6)
    assert tree.has_traits(**who, traits=["HW_CPU_X86_AVX"])
    assert not tree.have_traits_changed(**who, traits=["HW_CPU_X86_AVX"])
    assert tree.update_aggregates(**who, aggregates=[AGG], generation=7)
    assert tree.in_aggregates(**who, aggregates=[AGG])
    assert not tree.have_aggregates_changed(**who, aggregates=[AGG])
    assert tree.update_resources(**who, resources={"VPMEM": {1}})
    assert not tree.has_sharing_provider(resource_class="VCPU")
    assert tree.data(**who).generation == 7
    assert tree.subtree(**who).exists(**who)
    assert tree.get_provider_uuids_in_tree(**who) == [HOST, NUMA0, NUMA1]


def test_a_provider_without_a_uuid_gets_a_random_one(tree):
    own = tree.new_child("new", "host")
    assert str(uuid.UUID(own)) == own
    assert tree.data(own).name == "new"
    root = tree.new_root("rack", None)
    assert tree.data(root).name == "rack"
    assert own != root


@pytest.mark.parametrize(
    ("add", "holder"),
    [
        (lambda tree: tree.new_root("other", HOST), HOST),
        (lambda tree: tree.new_root("other", GPU), GPU),
        (lambda tree: tree.new_child("other", "host", NUMA0), NUMA0),
        (lambda tree: tree.new_child("other", "host", NUMA0.upper()), NUMA0),
    ],
)
def test_a_uuid_that_is_taken_is_refused(tree, add, holder):
    before = tree.snapshot()
    with pytest.raises(ValueError, match=f"other.*already exists.*{holder}"):
        add(tree)
    assert tree.snapshot() is before


@pytest.mark.parametrize(
    ("add", "holder"),
    [
        (lambda tree: tree.new_root("host", NEW), HOST),
        (lambda tree: tree.new_root("gpu", NEW), GPU),
        (lambda tree: tree.new_child("gpu", "numa0", NEW), GPU),
        (lambda tree: tree.new_child("gpu", "disks", NEW), GPU),
        (lambda tree: tree.rename("numa1", "gpu"), GPU),
        (lambda tree: tree.populate_from_iterable([listed(NEW, "gpu", HOST)]), GPU),
    ],
    ids=["root", "root like child", "same parent", "other root", "rename", "populate"],
)
def test_b36_a_name_that_is_taken_is_refused_naming_both(tree, add, holder):
    before = tree.snapshot()
    with pytest.raises(ValueError, match=holder) as caught:
        add(tree)
    assert any(own in str(caught.value) for own in (NEW, NUMA1))
    assert tree.snapshot() is before


def test_a_child_needs_its_parent(tree):
    with pytest.raises(ValueError, match="No such provider numa2"):
        tree.new_child("new", "numa2", NEW)
    assert not tree.exists(NEW)


# -- populating ----------------------------------------------------------------


def test_populating_takes_any_order_and_any_iterable():
    tree = ProviderTree()
    tree.populate_from_iterable(
        given
        for given in [
            listed(GPU, "gpu", NUMA0, 4),
            listed(NUMA1, "numa1", HOST, 3),
            listed(NUMA0, "numa0", HOST, 2),
            listed(HOST, "host", None, "any token"),
        ]
    )
    assert tree.get_provider_uuids() == [HOST, NUMA1, NUMA0, GPU]
    assert tree.data("gpu")[:4] == (GPU, "gpu", 4, NUMA0)
    assert tree.data("host").generation == "any token"


def test_populating_needs_no_parent_or_generation():
    tree = ProviderTree()
    tree.populate_from_iterable([{"uuid": HOST, "name": "host"}])
    assert tree.data("host")[:4] == (HOST, "host", None, None)


@pytest.mark.parametrize("nothing", [[], (), None, iter(())])
def test_populating_with_nothing_changes_nothing(tree, nothing):
    before = tree.snapshot()
    tree.populate_from_iterable(nothing)
    assert tree.snapshot() is before


def test_populating_replaces_and_drops_what_was_below(tree):
    tree.update_inventory("numa0", VCPU)
    tree.update_traits("numa1", ["HW_CPU_X86_AVX"])
    tree.populate_from_iterable([listed(NUMA0, "node0", HOST, 5)])
    assert tree.data(NUMA0) == ProviderData(NUMA0, "node0", 5, HOST, {}, set(), set(), {})
    assert not tree.exists("numa0")
    assert not tree.exists(GPU)
    assert tree.data("numa1").traits == {"HW_CPU_X86_AVX"}
    assert tree.get_provider_uuids() == [HOST, NUMA1, NUMA0, DISKS]


def test_populating_keeps_below_what_is_given_as_well(tree):
    tree.populate_from_iterable([listed(GPU, "gpu", NUMA0), listed(NUMA0, "numa0", HOST)])
    assert tree.get_provider_uuids("numa0") == [NUMA0, GPU]


def test_populating_can_exchange_names_and_parents(tree):
    tree.populate_from_iterable([listed(NUMA0, "numa1", HOST), listed(NUMA1, "numa0", NUMA0)])
    assert tree.data(NUMA0).name == "numa1"
    assert tree.data("numa0")[:4] == (NUMA1, "numa0", None, NUMA0)


def test_all_missing_parents_are_named_and_nothing_changes(tree):
    lost = [NEW, "c0000000-0000-4000-8000-000000000001"]
    before = tree.snapshot()
    with pytest.raises(ValueError, match="parents were not found") as caught:
        tree.populate_from_iterable(
            [
                listed(NUMA0, "node0", HOST),
                listed("c0000000-0000-4000-8000-000000000002", "x", lost[0]),
                listed("c0000000-0000-4000-8000-000000000003", "y", lost[1]),
                listed("c0000000-0000-4000-8000-000000000004", "z", GPU),
            ]
        )
    for own in lost:
        assert own in str(caught.value)
    assert GPU not in str(caught.value)
    assert tree.snapshot() is before


@pytest.mark.parametrize(
    "ring",
    [
        [listed(NEW, "new", NEW)],
        [listed(NUMA0, "numa0", GPU), listed(GPU, "gpu", NUMA0)],
    ],
    ids=["itself", "two"],
)
def test_b32_populating_refuses_rings(tree, ring):
    before = tree.snapshot()
    with pytest.raises(ValueError, match="ring") as caught:
        tree.populate_from_iterable([listed(DISKS, "disks2"), *ring])
    assert all(given["uuid"] in str(caught.value) for given in ring)
    assert tree.snapshot() is before


def test_populating_refuses_a_parent_that_it_drops(tree):
    before = tree.snapshot()
    with pytest.raises(ValueError, match=f"{NEW}.*{NUMA0}"):
        tree.populate_from_iterable([listed(NEW, "new", NUMA0), listed(HOST, "host")])
    assert tree.snapshot() is before


def test_populating_a_deep_line_from_its_end_is_no_trouble():
    depth = 3000
    line = [str(uuid.UUID(int=n + 1)) for n in range(depth)]
    tree = ProviderTree()
    tree.populate_from_iterable(
        listed(line[n], f"p{n}", line[n - 1] if n else None) for n in reversed(range(depth))
    )
    assert tree.get_provider_uuids() == line
    assert tree.get_provider_uuids_in_tree(line[-1]) == line


# -- removing, renaming, moving ------------------------------------------------


def test_removing_takes_all_below(tree):
    tree.remove("numa0")
    assert tree.get_provider_uuids() == [HOST, NUMA1, DISKS]
    assert not tree.exists("gpu")
    tree.remove(HOST)
    assert tree.get_provider_uuids() == [DISKS]
    tree.remove("disks")
    assert list(tree.roots) == []


def test_what_was_removed_can_be_added_again(tree):
    tree.update_inventory("gpu", VCPU)
    tree.remove("numa0")
    tree.new_child("gpu", "numa1", GPU)
    assert tree.data("gpu") == ProviderData(GPU, "gpu", None, NUMA1, {}, set(), set(), {})


def test_renaming_keeps_all_else(tree):
    tree.update_inventory("host", VCPU)
    before = tree.data("host")
    tree.rename(HOST, "compute1")
    assert tree.data("compute1") == before._replace(name="compute1")
    assert not tree.exists("host")
    assert tree.get_provider_uuids() == ALL
    tree.new_root("host", NEW)
    assert tree.data("host").uuid == NEW


def test_renaming_to_the_same_name_changes_nothing(tree):
    before = tree.snapshot()
    tree.rename("gpu", "gpu")
    assert tree.snapshot() is before


def test_a_name_that_is_another_s_uuid_would_be_ambiguous(tree):
    before = tree.snapshot()
    for change in (
        lambda: tree.rename("gpu", HOST),
        lambda: tree.new_child(HOST, "numa0", NEW),
    ):
        with pytest.raises(ValueError, match=HOST):
            change()
    assert tree.snapshot() is before
    # Bare-metal nodes are named after their own UUIDs.
    tree.rename("gpu", GPU)
    assert tree.data(GPU).name == GPU
    assert tree.new_root(NEW, NEW) == NEW


def test_moving_takes_all_below_along(tree):
    tree.update_traits("gpu", ["CUSTOM_GPU"])
    tree.move("numa0", "disks")
    assert tree.data("numa0").parent_uuid == DISKS
    assert tree.get_provider_uuids() == [HOST, NUMA1, DISKS, NUMA0, GPU]
    assert tree.data("gpu").traits == {"CUSTOM_GPU"}
    assert tree.get_provider_uuids_in_tree("gpu") == [DISKS, NUMA0, GPU]
    tree.move(NUMA0, None)
    assert tree.data("numa0").parent_uuid is None
    assert [root.name for root in tree.roots] == ["host", "disks", "numa0"]
    tree.move("disks", "gpu")
    assert tree.get_provider_uuids("numa0") == [NUMA0, GPU, DISKS]


@pytest.mark.parametrize(("who", "where"), [("gpu", NUMA0), ("host", None)])
def test_moving_to_where_it_is_changes_nothing(tree, who, where):
    before = tree.snapshot()
    tree.move(who, where)
    assert tree.snapshot() is before


@pytest.mark.parametrize("where", ["host", "numa0", GPU])
def test_b32_a_ring_is_refused_before_anything_changes(tree, where):
    before = tree.snapshot()
    with pytest.raises(ValueError, match="ring"):
        tree.move("host", where)
    assert tree.snapshot() is before


def test_moving_needs_the_new_parent(tree):
    before = tree.snapshot()
    with pytest.raises(ValueError, match="No such provider numa2"):
        tree.move("gpu", "numa2")
    assert tree.snapshot() is before


# -- inventory -----------------------------------------------------------------


def test_inventory_is_kept_as_it_was_given(tree):
    assert not tree.has_inventory("host")
    assert tree.has_inventory_changed("host", VCPU)
    assert tree.update_inventory("host", VCPU)
    assert tree.has_inventory("host")
    assert tree.data("host").inventory == VCPU
    assert not tree.has_inventory_changed("host", VCPU)
    assert not tree.update_inventory("host", copy.deepcopy(VCPU))


def test_what_was_given_can_be_changed_afterwards(tree):
    given = {"VCPU": {"total": 8}, "ODD": {"total": [1]}, "WRONG": [1]}
    tree.update_inventory("host", given)
    given["VCPU"]["total"] = 9
    given["ODD"]["total"].append(2)
    given["WRONG"].append(2)
    given["DISK_GB"] = {"total": 1}
    expected = {"VCPU": {"total": 8}, "ODD": {"total": [1]}, "WRONG": [1]}
    assert tree.data("host").inventory == expected


def test_what_is_no_record_differs_from_one(tree):
    tree.update_inventory("host", {"VCPU": [1]})
    assert not tree.has_inventory_changed("host", {"VCPU": [1]})
    assert tree.has_inventory_changed("host", {"VCPU": [2]})
    assert tree.has_inventory_changed("host", {"VCPU": {"total": 1}})


@pytest.mark.parametrize(
    "same",
    [
        {"VCPU": {"total": 8}},
        {"VCPU": {}},
        {"VCPU": {"total": 8.0, "allocation_ratio": 16}},
        {"VCPU": {"total": 8, "allocation_ratio": 16.0000001}},
    ],
    ids=["fields left out", "all left out", "other types", "single precision"],
)
def test_no_opinion_and_no_real_difference_are_no_change(tree, same):
    tree.update_inventory("host", VCPU)
    before = tree.snapshot()
    assert not tree.has_inventory_changed("host", same)
    assert not tree.update_inventory("host", same)
    assert tree.snapshot() is before
    assert tree.data("host").inventory == VCPU


@pytest.mark.parametrize(
    "other",
    [
        {},
        {"PCPU": {"total": 8}},
        {**VCPU, "DISK_GB": {"total": 1}},
        {"VCPU": {"total": 9}},
        {"VCPU": {"total": 8, "step_size": 1}},
        {"VCPU": {"total": 8, "allocation_ratio": 16.1}},
    ],
    ids=["none", "another class", "one more", "other total", "new field", "other ratio"],
)
def test_changes_of_inventory(tree, other):
    tree.update_inventory("host", VCPU)
    assert tree.has_inventory_changed("host", other)
    assert tree.update_inventory("host", other)
    assert tree.data("host").inventory == other


def test_amounts_beyond_six_digits_are_changes_also_as_floats(tree):
    tree.update_inventory("host", {"MEMORY_MB": {"total": 2097152}})
    assert tree.update_inventory("host", {"MEMORY_MB": {"total": 2097153.0}})


def test_no_inventory_said_aloud_is_kept_apart_from_nothing_said(tree):
    assert tree.snapshot().records[HOST].inventory is None
    assert not tree.update_inventory("host", {})
    assert not tree.update_traits("host", [])
    assert not tree.update_aggregates("host", [])
    record = tree.snapshot().records[HOST]
    assert (record.inventory, record.traits, record.aggregates) == ({}, frozenset(), frozenset())
    assert not tree.has_inventory("host")


def test_sharing_providers_are_told_by_their_trait(tree):
    assert not tree.has_sharing_provider("DISK_GB")
    tree.update_inventory("disks", {"DISK_GB": {"total": 100}})
    assert not tree.has_sharing_provider("DISK_GB")
    tree.add_traits("disks", SHARES)
    assert tree.has_sharing_provider("DISK_GB")
    assert not tree.has_sharing_provider("VCPU")
    tree.update_inventory("gpu", {"VGPU": {"total": 1}})
    assert not tree.has_sharing_provider("VGPU")


# -- traits and aggregates -----------------------------------------------------

ONE, TWO, THREE = "HW_CPU_X86_AVX", "HW_CPU_X86_AVX2", "CUSTOM_GOLD"


def test_traits(tree):
    assert tree.has_traits("gpu", [])
    assert not tree.has_traits("gpu", [ONE])
    assert not tree.have_traits_changed("gpu", [])
    assert tree.have_traits_changed("gpu", [ONE])
    assert tree.update_traits("gpu", [ONE, TWO])
    assert not tree.update_traits("gpu", [TWO, ONE])
    assert tree.data("gpu").traits == {ONE, TWO}
    assert tree.has_traits("gpu", [ONE])
    assert tree.has_traits("gpu", [ONE, TWO])
    assert not tree.has_traits("gpu", [ONE, THREE])
    tree.add_traits("gpu", THREE, ONE)
    tree.remove_traits("gpu", ONE, "HW_CPU_X86_SSE")
    assert tree.data("gpu").traits == {TWO, THREE}
    assert tree.update_traits("gpu", ())
    assert tree.data("gpu").traits == set()


def test_aggregates(tree):
    assert tree.in_aggregates("gpu", [])
    assert not tree.in_aggregates("gpu", [AGG])
    assert not tree.have_aggregates_changed("gpu", [])
    assert tree.have_aggregates_changed("gpu", [AGG])
    assert tree.update_aggregates("gpu", [AGG, OTHER_AGG])
    assert not tree.update_aggregates("gpu", [OTHER_AGG, AGG])
    assert tree.data("gpu").aggregates == {AGG, OTHER_AGG}
    assert tree.in_aggregates("gpu", [AGG])
    assert not tree.in_aggregates("gpu", [AGG, NEW])
    tree.add_aggregates("gpu", NEW, AGG)
    tree.remove_aggregates("gpu", AGG, HOST)
    assert tree.data("gpu").aggregates == {OTHER_AGG, NEW}
    assert tree.update_aggregates("gpu", ())
    assert tree.data("gpu").aggregates == set()


@pytest.mark.parametrize(
    "kind",
    [
        set,
        tuple,
        lambda members: dict.fromkeys(members).keys(),
        lambda members: (member for member in members),
        lambda members: [*members, *members],
    ],
    ids=["set", "tuple", "keys", "generator", "twice"],
)
def test_b63_any_iterable_will_do_and_is_read_once(tree, kind):
    assert tree.update_traits("gpu", kind([ONE, TWO]))
    assert tree.data("gpu").traits == {ONE, TWO}
    assert not tree.update_traits("gpu", kind([ONE, TWO]))
    assert not tree.have_traits_changed("gpu", kind([ONE, TWO]))
    assert tree.has_traits("gpu", kind([ONE, TWO]))
    assert tree.update_aggregates("gpu", kind([AGG, OTHER_AGG]))
    assert tree.data("gpu").aggregates == {AGG, OTHER_AGG}
    assert not tree.update_aggregates("gpu", kind([AGG, OTHER_AGG]))
    assert not tree.have_aggregates_changed("gpu", kind([AGG, OTHER_AGG]))
    assert tree.in_aggregates("gpu", kind([AGG, OTHER_AGG]))


def test_adding_and_removing_say_nothing_about_a_set_that_was_never_set(tree):
    before = tree.snapshot()
    tree.remove_traits("gpu", ONE)
    tree.add_aggregates("gpu")
    tree.remove_aggregates("gpu", AGG)
    assert tree.snapshot() is before
    assert before.records[GPU].traits is None
    tree.add_traits("gpu", ONE)
    assert tree.snapshot().records[GPU].traits == {ONE}


# -- generations and what stays as it is ---------------------------------------

UPDATES = {
    "update_inventory": VCPU,
    "update_traits": {ONE},
    "update_aggregates": {AGG},
}


@pytest.mark.parametrize("update", UPDATES)
def test_p1_a_generation_is_taken_over_also_without_a_change(tree, update):
    call = getattr(tree, update)
    assert call("host", UPDATES[update])
    assert tree.data("host").generation == 7
    assert not call("host", UPDATES[update], generation="another token")
    assert tree.data("host").generation == "another token"
    assert call("host", {}, generation=0)
    assert tree.data("host").generation == 0
    assert not call("host", {}, generation=None)
    assert tree.data("host").generation == 0


@pytest.mark.parametrize("update", UPDATES)
def test_an_update_that_changes_nothing_leaves_the_very_same_tree(tree, update):
    call = getattr(tree, update)
    call("host", UPDATES[update])
    before = tree.snapshot()
    assert not call("host", UPDATES[update])
    assert not call("host", UPDATES[update], 7)
    tree.add_traits("host", *tree.data("host").traits)
    tree.add_aggregates("host", *tree.data("host").aggregates)
    assert tree.snapshot() is before


def test_a_change_leaves_the_records_of_all_others_alone(tree):
    before = tree.snapshot()
    tree.update_traits("gpu", [ONE])
    after = tree.snapshot()
    assert after is not before
    changed = [own for own in ALL if after.records[own] is not before.records[own]]
    assert changed == [GPU]


# -- resources -----------------------------------------------------------------


def test_resources_are_kept_and_copied_on_the_way_in_and_out(tree):
    given = {"CUSTOM_PMEM": [{"path": "/dev/pmem0"}]}
    assert tree.update_resources("host", given)
    expected = copy.deepcopy(given)
    given["CUSTOM_PMEM"].append("x")
    assert tree.data("host").resources == expected
    tree.data("host").resources["CUSTOM_PMEM"][0]["path"] = "changed"
    assert tree.data("host").resources == expected
    before = tree.snapshot()
    assert not tree.update_resources("host", copy.deepcopy(expected))
    assert tree.snapshot() is before
    assert tree.update_resources("host", {})
    assert tree.data("host").resources == {}


def test_no_resources_are_no_change_where_there_are_none(tree):
    before = tree.snapshot()
    assert not tree.update_resources("host", {})
    assert tree.snapshot() is before


# -- data ----------------------------------------------------------------------


def test_data_is_an_independent_copy(tree):
    tree.update_inventory("host", VCPU)
    tree.update_traits("host", [ONE])
    tree.update_aggregates("host", [AGG])
    data = tree.data("host")
    data.inventory["VCPU"]["total"] = 99
    data.inventory["DISK_GB"] = {"total": 1}
    data.traits.add(TWO)
    data.aggregates.clear()
    assert tree.data("host") == ProviderData(HOST, "host", 7, None, VCPU, {ONE}, {AGG}, {})
    kept = tree.data("host")
    tree.update_inventory("host", {})
    assert kept.inventory == VCPU


# -- copies, snapshots, bases --------------------------------------------------


def through_pickle(tree):
    return pickle.loads(pickle.dumps(tree))


COPIES = {
    "copy": lambda tree: tree.copy(),
    "copy.copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": through_pickle,
    "from_snapshot": lambda tree: ProviderTree.from_snapshot(tree.snapshot(), tree.base),
}


@pytest.mark.parametrize("duplicate", COPIES.values(), ids=COPIES)
def test_b156_copies_are_equal_and_independent_on_both_sides(duplicate):
    tree = ProviderTree.from_snapshot(make_tree().snapshot(), base=make_tree().snapshot())
    tree.update_inventory("gpu", {"VGPU": {"total": 1}})
    tree.update_resources("gpu", {"VGPU": [1]})
    other = duplicate(tree)
    before = content(tree)
    assert content(other) == before
    assert other.base == tree.base
    assert other.base is not None

    other.remove("numa0")
    other.rename("host", "other")
    other.new_root("new", NEW)
    assert content(tree) == before
    third = duplicate(tree)
    tree.move("gpu", "numa1")
    tree.update_traits("disks", [ONE])
    assert content(third) == before
    assert other.get_provider_uuids() == [HOST, NUMA1, DISKS, NEW]
    assert other.data("disks").traits == set()


@pytest.mark.parametrize(
    "duplicate",
    [copy.copy, copy.deepcopy, ProviderTree.copy],
    ids=["copy.copy", "deepcopy", "copy"],
)
def test_copies_share_what_neither_side_has_changed(tree, duplicate):
    tree.rebase(make_tree().snapshot())
    other = duplicate(tree)
    assert other.snapshot() is tree.snapshot()
    assert other.base is tree.base


def test_a_pickle_knows_that_nothing_was_changed(tree):
    snapshot = tree.snapshot()
    other = through_pickle(ProviderTree.from_snapshot(snapshot, base=snapshot))
    assert other.base is other.snapshot()
    assert other.base == snapshot


def _with_gold(tree):
    tree.add_traits("gpu", THREE)
    return tree


def test_b156_trees_travel_between_processes(tree):
    tree.rebase(tree.snapshot())
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
        returned = pool.submit(_with_gold, tree).result()
    assert returned.data("gpu").traits == {THREE}
    assert returned.base == tree.base
    assert tree.data("gpu").traits == set()


def test_a_tree_remembers_its_base(tree):
    assert tree.base is None
    snapshot = tree.snapshot()
    handed_out = ProviderTree.from_snapshot(snapshot, base=snapshot)
    handed_out.remove("disks")
    assert handed_out.base is snapshot
    assert DISKS in snapshot.records
    handed_out.rebase(handed_out.snapshot())
    assert DISKS not in handed_out.base.records
    assert ProviderTree.from_snapshot(snapshot).base is None


def test_a_tree_takes_over_the_content_of_another_and_keeps_its_base(tree):
    snapshot = tree.snapshot()
    mine = ProviderTree.from_snapshot(snapshot, base=snapshot)
    draft = mine.copy()
    draft.remove("host")
    mine.become(draft)
    assert mine.get_provider_uuids() == [DISKS]
    assert mine.base is snapshot
    draft.remove("disks")
    mine.new_root("host", HOST)
    assert mine.get_provider_uuids() == [DISKS, HOST]
    assert draft.get_provider_uuids() == []


# -- snapshots -----------------------------------------------------------------


def test_a_snapshot_never_changes(tree):
    snapshot = tree.snapshot()
    assert tree.snapshot() is snapshot
    tree.remove("numa0")
    tree.update_traits("host", [ONE])
    tree.rename("disks", "ceph")
    assert snapshot.top_down() == ALL
    assert snapshot.top_down(NUMA0) == [NUMA0, GPU]
    assert set(snapshot.records) == set(ALL)
    assert snapshot.records[HOST].traits is None
    assert snapshot.by_name == {snapshot.records[own].name: own for own in ALL}
    assert snapshot.by_name["gpu"] == GPU
    assert snapshot.roots == (HOST, DISKS)
    assert snapshot.children(HOST) == (NUMA0, NUMA1)
    assert snapshot.children(GPU) == ()
    assert len(snapshot) == len(ALL)


def test_a_snapshot_cannot_be_written_to(tree):
    snapshot = tree.snapshot()
    with pytest.raises(TypeError):
        snapshot.records[HOST] = None
    with pytest.raises(TypeError):
        snapshot.by_name["host"] = NEW


def test_snapshots_are_equal_when_their_providers_are(tree):
    snapshot = tree.snapshot()
    assert snapshot == make_tree().snapshot()
    assert snapshot != TreeSnapshot.build(())
    assert snapshot != "host"
    tree.add_traits("gpu", ONE)
    assert tree.snapshot() != snapshot


def test_a_snapshot_is_built_from_records():
    records = [ProviderRecord(GPU, "gpu", HOST), ProviderRecord(HOST, "host", "not there")]
    snapshot = TreeSnapshot.build(record for record in records)
    assert snapshot.top_down() == [HOST, GPU]
    assert snapshot.records[HOST].parent_uuid is None
    assert snapshot.records[GPU] is records[0]
    for twice in (ProviderRecord(GPU, "other"), ProviderRecord(NEW, "gpu")):
        with pytest.raises(ValueError, match=GPU):
            TreeSnapshot.build([*records, twice])


# -- subtrees ------------------------------------------------------------------


@pytest.mark.parametrize("who", ["host", HOST])
def test_a_subtree_is_one_root_and_all_below(tree, who):
    tree.update_inventory("gpu", VCPU)
    part = tree.subtree(who)
    assert isinstance(part, ProviderSubTree)
    assert isinstance(part, ProviderTree)
    assert part.scope_rp_uuid == who
    assert part.get_provider_uuids() == [HOST, NUMA0, GPU, NUMA1]
    assert part.data("gpu") == tree.data("gpu")
    assert not part.exists("disks")
    assert part.base is None


def test_a_subtree_is_independent(tree):
    part = tree.subtree("host")
    part.remove("numa0")
    tree.add_traits("numa1", ONE)
    assert tree.exists("gpu")
    assert part.data("numa1").traits == set()


@pytest.mark.parametrize("who", ["numa0", GPU])
def test_only_a_root_has_a_subtree(tree, who):
    with pytest.raises(ValueError, match="not a root"):
        tree.subtree(who)


def test_the_base_of_a_subtree_is_that_part_of_the_base(tree):
    snapshot = tree.snapshot()
    tree = ProviderTree.from_snapshot(snapshot, base=snapshot)
    part = tree.subtree("host")
    assert part.base.top_down() == [HOST, NUMA0, GPU, NUMA1]
    assert part.base is part.snapshot()
    tree.remove("numa0")
    part = tree.subtree("host")
    assert part.base.top_down() == [HOST, NUMA0, GPU, NUMA1]
    assert part.get_provider_uuids() == [HOST, NUMA1]
    tree.new_root("rack", NEW)
    assert tree.subtree("rack").base.top_down() == []
    assert tree.base is snapshot


def test_the_subtree_of_a_lone_root_costs_nothing_and_is_independent():
    tree = ProviderTree()
    tree.new_root("host", HOST)
    part = tree.subtree("host")
    assert part.snapshot() is tree.snapshot()
    for first, second in ((tree, part), (part, tree)):
        own = first.new_child("numa", "host")
        assert not second.exists(own)
        first.remove(own)

    changed = tree.subtree("host")
    changed.add_traits("host", ONE)
    part = tree.subtree("host")
    tree.add_traits("host", TWO)
    assert part.data("host").traits == set()
    assert changed.data("host").traits == {ONE}


def test_the_first_change_after_a_subtree_was_taken_leaves_it_alone():
    tree = ProviderTree()
    tree.new_root("host", HOST)
    part = tree.subtree("host")
    tree.new_child("numa0", "host", NUMA0)
    assert part.get_provider_uuids() == [HOST]


def test_the_subtree_of_a_handed_out_lone_root_keeps_its_base():
    tree = ProviderTree()
    tree.new_root("host", HOST)
    tree = ProviderTree.from_snapshot(tree.snapshot(), base=tree.snapshot())
    part = tree.subtree("host")
    assert part.base is part.snapshot()
    part.add_traits("host", ONE)
    tree.new_child("numa0", "host", NUMA0)
    assert tree.data("host").traits == set()
    assert not part.exists("numa0")
    assert part.base.records[HOST].traits is None


def test_sharing_roots_stay_out_of_a_subtree():
    records = [ProviderRecord(HOST, "host"), ProviderRecord(DISKS, "disks", sharing=True)]
    snapshot = TreeSnapshot.build(records)
    part = ProviderTree.from_snapshot(snapshot, base=snapshot).subtree("host")
    assert part.get_provider_uuids() == [HOST]
    assert part.base.top_down() == [HOST]


@pytest.mark.parametrize("duplicate", [copy.deepcopy, through_pickle, ProviderTree.copy])
def test_a_copy_of_a_subtree_keeps_its_scope(tree, duplicate):
    other = duplicate(tree.subtree("host"))
    assert isinstance(other, ProviderSubTree)
    assert other.scope_rp_uuid == "host"
    assert other.get_provider_uuids() == [HOST, NUMA0, GPU, NUMA1]


def test_a_subtree_can_be_made_of_a_whole_tree(tree):
    tree.rebase(tree.snapshot())
    part = ProviderSubTree.scoped("host", tree)
    assert part.scope_rp_uuid == "host"
    assert part.get_provider_uuids() == ALL
    assert part.base is tree.base
    part.remove("disks")
    assert tree.exists("disks")


def test_a_subtree_made_from_a_snapshot_has_its_root_for_a_scope():
    records = [ProviderRecord(DISKS, "disks", sharing=True), ProviderRecord(HOST, "host")]
    part = ProviderSubTree.from_snapshot(TreeSnapshot.build(records))
    assert part.scope_rp_uuid == HOST
    assert ProviderSubTree("host").scope_rp_uuid == "host"
    for wrong in ([], [ProviderRecord(HOST, "host"), ProviderRecord(NEW, "new")]):
        with pytest.raises(ValueError, match="one root"):
            ProviderSubTree.from_snapshot(TreeSnapshot.build(wrong))


# -- as data and as text -------------------------------------------------------


@pytest.fixture
def full_tree(tree) -> ProviderTree:
    tree.update_inventory("host", VCPU)
    tree.update_inventory("gpu", {"VGPU": {"total": 4}})
    tree.update_traits("host", [TWO, ONE])
    tree.update_aggregates("host", [OTHER_AGG, AGG])
    tree.update_traits("numa1", [])
    return tree


def test_a_tree_survives_json(full_tree):
    full_tree.update_resources("gpu", {"VGPU": [object()]})
    plain = json.loads(json.dumps(full_tree.to_dict()))
    again = ProviderTree.from_dict(plain)
    assert again.base is None
    assert again.get_provider_uuids() == full_tree.get_provider_uuids()
    # Resources are the caller's own objects, and stay out.
    full_tree.update_resources("gpu", {})
    assert content(again) == content(full_tree)
    # "None at all" and "never said" stay apart.
    assert again.snapshot().records[NUMA1].traits == frozenset()
    assert again.snapshot().records[NUMA0].traits is None
    assert again.to_dict() == plain


def test_plain_data_is_sorted_and_independent(full_tree):
    plain = full_tree.to_dict()
    host = plain["providers"][0]
    assert host == {
        "uuid": HOST,
        "name": "host",
        "parent_provider_uuid": None,
        "generation": 7,
        "inventory": VCPU,
        "traits": [ONE, TWO],
        "aggregates": [AGG, OTHER_AGG],
    }
    host["inventory"]["VCPU"]["total"] = 99
    assert full_tree.data("host").inventory == VCPU


def test_plain_data_tells_sharing_providers():
    snapshot = TreeSnapshot.build([ProviderRecord(DISKS, "disks", sharing=True)])
    plain = ProviderTree.from_snapshot(snapshot).to_dict()
    assert ProviderTree.from_dict(plain).snapshot().records[DISKS].sharing


def test_plain_data_may_come_in_any_order_and_spelling(full_tree):
    plain = full_tree.to_dict()
    plain["providers"].reverse()
    for given in plain["providers"]:
        given["uuid"] = given["uuid"].upper()
    plain["providers"][-1]["aggregates"] = [AGG.upper(), OTHER_AGG]
    again = ProviderTree.from_dict(plain)
    assert again.data("host") == full_tree.data("host")
    assert set(again.get_provider_uuids()) == set(ALL)


def provider(**changed):
    return {"providers": [{"uuid": HOST, "name": "host", **changed}]}


MALFORMED = {
    "None": None,
    "list": [],
    "empty": {},
    "providers None": {"providers": None},
    "provider text": {"providers": ["host"]},
    "no uuid": {"providers": [{"name": "host"}]},
    "no name": {"providers": [{"uuid": HOST}]},
    "uuid None": provider(uuid=None),
    "name None": provider(name=None),
    "inventory list": provider(inventory=["VCPU"]),
    "record number": provider(inventory={"VCPU": 8}),
    "traits text": provider(traits="HW_CPU_X86_AVX"),
    "traits number": provider(traits=5),
    "traits unhashable": provider(traits=[[]]),
    "aggregates text": provider(aggregates=AGG),
    "parent lost": provider(parent_provider_uuid=NEW),
    "ring": provider(parent_provider_uuid=HOST),
    "twice": {"providers": provider()["providers"] * 2},
    "name twice": {"providers": [*provider()["providers"], {"uuid": NEW, "name": "host"}]},
}


@pytest.mark.parametrize("plain", MALFORMED.values(), ids=MALFORMED)
def test_malformed_plain_data_is_refused(plain):
    with pytest.raises(exceptions.InvalidProviderTree) as caught:
        ProviderTree.from_dict(plain)
    assert caught.value.field == "providers"
    assert isinstance(caught.value, ValueError)


def test_a_tree_can_be_read(full_tree):
    assert full_tree.render().splitlines() == [
        f"host ({HOST})",
        "|   VCPU: total 8, reserved 1, allocation_ratio 16.0",
        f"|   traits: {ONE}, {TWO}",
        f"|   aggregates: {AGG}, {OTHER_AGG}",
        f"|-- numa0 ({NUMA0})",
        f"|   `-- gpu ({GPU})",
        "|           VGPU: total 4",
        f"`-- numa1 ({NUMA1})",
        f"disks ({DISKS})",
    ]
    assert ProviderTree().render() == ""


def test_a_sharing_provider_is_marked():
    snapshot = TreeSnapshot.build([ProviderRecord(DISKS, "disks", sharing=True)])
    assert ProviderTree.from_snapshot(snapshot).render() == f"disks ({DISKS}) [sharing]"


def test_rendering_is_no_change(full_tree):
    before = full_tree.snapshot()
    full_tree.render()
    full_tree.to_dict()
    assert full_tree.snapshot() is before


def test_a_tree_says_in_short_what_it_is(tree):
    assert repr(tree) == "<ProviderTree of 5 providers, roots ['host', 'disks']>"
    assert repr(tree.subtree("host")) == "<ProviderSubTree of 4 providers, roots ['host']>"
    assert repr(tree.snapshot()) == "<TreeSnapshot of 5 providers>"


# -- stable UUIDs --------------------------------------------------------------


def test_the_same_parts_give_the_same_uuid():
    own = provider_uuid(HOST, "gpu", "0000:3b:00.0")
    assert own == provider_uuid(uuid.UUID(HOST), "gpu", "0000:3b:00.0")
    assert own == provider_uuid(HOST.upper(), "gpu", "0000:3b:00.0")
    assert uuid.UUID(own).version == 5
    assert own == str(uuid.UUID(own))
    # Providers keep their UUIDs over releases of this library, too.
    assert own == "f5a1e077-0f90-59f6-ae78-73d9797f520a"


def test_other_parts_give_another_uuid():
    made = [
        provider_uuid(HOST),
        provider_uuid(HOST, ""),
        provider_uuid(HOST, "", ""),
        provider_uuid(HOST, "a", "bc"),
        provider_uuid(HOST, "ab", "c"),
        provider_uuid(HOST, "abc"),
        provider_uuid(HOST, "1:a"),
        provider_uuid(NEW, "abc"),
    ]
    assert len(set(made)) == len(made)


def test_the_namespace_has_to_be_a_uuid():
    with pytest.raises(exceptions.InvalidUUID) as caught:
        provider_uuid("host", "gpu")
    assert (caught.value.field, caught.value.value) == ("namespace", "host")


# -- threads and processes -----------------------------------------------------


@pytest.fixture
def _frequent_switches():
    """Threads take turns as often as they can."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def run_together(*functions) -> None:
    """Run functions in threads; raise what one of them raised."""
    with concurrent.futures.ThreadPoolExecutor(len(functions)) as pool:
        for future in [pool.submit(function) for function in functions]:
            future.result()


@pytest.mark.usefixtures("_frequent_switches")
def test_b158_threads_may_add_remove_and_iterate(tree):
    rounds = 150

    def adds(number):
        for n in range(rounds):
            parent = tree.new_child(f"t{number}-{n}", "host")
            tree.new_child(f"t{number}-{n}-below", parent)
            tree.update_traits(parent, [ONE])
            tree.remove(parent)

    def reads():
        for _ in range(rounds):
            snapshot = tree.snapshot()
            order = snapshot.top_down()
            assert len(order) == len(snapshot.records) == len(snapshot.by_name)
            for record in snapshot.records.values():
                assert record.parent_uuid is None or record.parent_uuid in snapshot.records
            tree.get_provider_uuids()
            tree.has_sharing_provider("DISK_GB")
            tree.copy().new_root("mine", NEW)
            tree.to_dict()
            tree.render()
            assert [root.name for root in tree.roots] == ["host", "disks"]

    run_together(lambda: adds(1), lambda: adds(2), reads, reads)
    assert tree.get_provider_uuids() == ALL


@pytest.mark.usefixtures("_frequent_switches")
def test_p12_a_reader_meets_no_half_made_change(tree):
    done = threading.Event()

    def renames():
        try:
            for _ in range(2000):
                tree.rename(GPU, "fast")
                tree.rename(GPU, "gpu")
        finally:
            done.set()

    def reads():
        while not done.is_set():
            for name in ("gpu", "fast"):
                with contextlib.suppress(ValueError):
                    assert tree.data(name).name == name

    run_together(renames, reads)


@pytest.mark.usefixtures("_frequent_switches")
def test_p12_a_branch_goes_as_a_whole():
    tree = ProviderTree()
    tree.new_root("host", HOST)
    branch = [listed(NUMA0, "numa0", HOST)]
    branch += [listed(str(uuid.UUID(int=n + 1)), f"vf{n}", NUMA0) for n in range(99)]
    done = threading.Event()

    def changes():
        try:
            for _ in range(200):
                tree.populate_from_iterable(branch)
                tree.remove("numa0")
        finally:
            done.set()

    def reads():
        while not done.is_set():
            assert len(tree.get_provider_uuids()) in (1, 101)
            assert len(tree.to_dict()["providers"]) in (1, 101)
            assert len(tree.get_provider_uuids_in_tree("host")) in (1, 101)
            assert not tree.has_sharing_provider("DISK_GB")

    run_together(changes, reads)


@pytest.mark.usefixtures("_frequent_switches")
def test_b158_a_tree_changed_in_place_is_read_as_a_whole():
    tree = ProviderTree()
    tree.new_root("host", HOST)
    for n in range(100):
        tree.new_child(f"vf{n}", "host")
    done = threading.Event()

    def changes():
        try:
            for _ in range(3000):
                # Another UUID each time: what is gone does not come back.
                tree.remove(tree.new_child("last", "host"))
        finally:
            done.set()

    def reads():
        while not done.is_set():
            assert len(tree.to_dict()["providers"]) in (101, 102)
            assert len(tree.get_provider_uuids_in_tree("host")) in (101, 102)
            assert not tree.has_sharing_provider("DISK_GB")

    run_together(changes, reads)


@pytest.mark.usefixtures("_frequent_switches")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_p12_a_forked_child_has_a_whole_tree_and_no_locked_lock(tree):
    done = threading.Event()

    def changes():
        while not done.is_set():
            tree.rename(GPU, "fast")
            tree.rename(GPU, "gpu")
            tree.remove(tree.new_child("new", "gpu"))

    worker = threading.Thread(target=changes)
    worker.start()
    try:
        for _ in range(30):
            assert os.waitstatus_to_exitcode(_check_in_a_child(tree)) == 0
    finally:
        done.set()
        worker.join()


def _check_in_a_child(tree) -> int:
    """Fork; let the child look at the tree and change it. Its exit status."""
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1]
    codes = []

    def check():
        name = tree.data(GPU).name
        plain = tree.to_dict()["providers"]
        whole = tree.data(name).uuid == GPU and len(plain) == len(tree.snapshot().records)
        tree.rename(GPU, "mine")
        codes.append(0 if whole and tree.data("mine").uuid == GPU else 2)

    try:
        # A thread that never held the lock; should it wait for ever, so do not we.
        worker = threading.Thread(target=check, daemon=True)
        worker.start()
        worker.join(20)
    finally:
        os._exit(codes[0] if codes else 3)
