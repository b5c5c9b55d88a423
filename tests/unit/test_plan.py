# SPDX-License-Identifier: Apache-2.0
"""From three trees to an ordered plan."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reportclient.plan import (
    CreateProvider,
    DeleteProvider,
    MoveProvider,
    RenameProvider,
    WriteAspect,
    make_plan,
)
from reportclient.provider_tree import ProviderTree
from reportclient.snapshot import TreeSnapshot
from reportclient.types import Aspect, ProviderRecord


def uuid(n: int) -> str:
    return f"00000000-0000-4000-8000-{n:012x}"


def record(n: int, parent: int | None = None, name: str | None = None, **values) -> ProviderRecord:
    values = {"inventory": {}, "traits": frozenset(), "aggregates": frozenset(), **values}
    parent_uuid = None if parent is None else uuid(parent)
    return ProviderRecord(uuid(n), name or f"p{n}", parent_uuid, f"gen-{n}", **values)


def handed_out(*records: ProviderRecord) -> tuple[TreeSnapshot, ProviderTree]:
    base = TreeSnapshot.build(records)
    return base, ProviderTree.from_snapshot(base, base=base)


def plan_of(base, tree, **kw):
    return make_plan(base, tree.snapshot(), kw.pop("theirs", dict(base.records)), **kw)


def test_unchanged_tree_is_an_empty_plan():
    base, tree = handed_out(record(1), record(2, 1))
    plan = plan_of(base, tree)
    assert not plan
    assert str(plan) == "nothing to do"


def test_creation_goes_from_the_top():
    base, tree = handed_out(record(1))
    tree.new_child("child", uuid(1), uuid=uuid(2))
    tree.new_child("grandchild", uuid(2), uuid=uuid(3))
    assert list(plan_of(base, tree)) == [
        CreateProvider(uuid(2), "child", uuid(1)),
        CreateProvider(uuid(3), "grandchild", uuid(2)),
    ]


def test_b39_deletion_goes_from_the_leaves():
    base, tree = handed_out(record(1), record(2, 1), record(3, 2))
    tree.remove(uuid(2))
    assert [operation.uuid for operation in plan_of(base, tree)] == [uuid(3), uuid(2)]


def test_p5_what_appeared_meanwhile_is_never_deleted():
    base, tree = handed_out(record(1))
    tree.update_traits(uuid(1), {"COMPUTE_NODE"})
    theirs = {**base.records, uuid(9): record(9, 1)}
    assert {operation.uuid for operation in plan_of(base, tree, theirs=theirs)} == {uuid(1)}


def test_p5_what_is_gone_already_is_not_deleted():
    base, tree = handed_out(record(1), record(2, 1))
    tree.remove(uuid(2))
    assert not plan_of(base, tree, theirs={uuid(1): base.records[uuid(1)]})


def test_what_somebody_deleted_and_the_driver_still_has_is_made_again_whole():
    base, tree = handed_out(
        record(1), record(2, 1, inventory={"VGPU": {"total": 1}}, traits=frozenset({"CUSTOM_A"}))
    )
    tree.update_traits(uuid(2), {"CUSTOM_A", "CUSTOM_B"})
    create, inventory, traits = plan_of(base, tree, theirs={uuid(1): base.records[uuid(1)]})
    assert create == CreateProvider(uuid(2), "p2", uuid(1))
    assert (inventory.aspect, inventory.mine) == (Aspect.INVENTORY, {"VGPU": {"total": 1}})
    assert (traits.aspect, traits.base, traits.mine) == (
        Aspect.TRAITS,
        None,
        {"CUSTOM_A", "CUSTOM_B"},
    )


def test_p4_untouched_aspects_are_not_written():
    base, tree = handed_out(record(1, traits=frozenset({"CUSTOM_A"})))
    tree.update_inventory(uuid(1), {"VCPU": {"total": 4}})
    [write] = plan_of(base, tree)
    assert isinstance(write, WriteAspect)
    assert write.aspect is Aspect.INVENTORY


def test_p9_what_placement_holds_already_is_not_written():
    base, tree = handed_out(record(1))
    tree.update_traits(uuid(1), {"CUSTOM_A"})
    theirs = {uuid(1): record(1, traits=frozenset({"CUSTOM_A"}))}
    assert not plan_of(base, tree, theirs=theirs)


def test_writes_say_what_they_change():
    base, tree = handed_out(record(1, inventory={"VCPU": {"total": 4}, "VGPU": {"total": 1}}))
    tree.update_inventory(uuid(1), {"VCPU": {"total": 8}})
    assert str(plan_of(base, tree)) == (
        f"write inventory of p1 ({uuid(1)}): VCPU.total 4 -> 8; -VGPU"
    )


def test_a_clash_is_in_the_plan():
    base, tree = handed_out(record(1, inventory={"VCPU": {"total": 4}}))
    tree.update_inventory(uuid(1), {"VCPU": {"total": 8}})
    theirs = {uuid(1): record(1, inventory={"VCPU": {"total": 2}})}
    assert "both changed VCPU.total: 4 -> mine 8, theirs 2" in str(
        plan_of(base, tree, theirs=theirs)
    )


def test_names_that_placement_does_not_know_are_left_out():
    base, tree = handed_out(record(1))
    tree.update_traits(uuid(1), {"COMPUTE_FUTURE", "CUSTOM_A"})
    tree.update_inventory(uuid(1), {"FUTURE": {"total": 1}})
    [write] = plan_of(base, tree, leave_out={"COMPUTE_FUTURE", "FUTURE"})
    assert write.mine == {"CUSTOM_A"}


def test_b29_rename():
    base, tree = handed_out(record(1, name="a"))
    tree.rename(uuid(1), "a.example.com")
    assert list(plan_of(base, tree)) == [RenameProvider(uuid(1), "a.example.com", "a")]


def test_a_rename_by_somebody_else_is_left_alone():
    base, tree = handed_out(record(1, name="a"))
    tree.update_traits(uuid(1), {"CUSTOM_A"})
    [write] = plan_of(base, tree, theirs={uuid(1): record(1, name="b")})
    assert isinstance(write, WriteAspect)


def test_swapping_names_takes_three_renames():
    base, tree = handed_out(record(1), record(2, 1, name="a"), record(3, 1, name="b"))
    tree.rename(uuid(2), "free")
    tree.rename(uuid(3), "a")
    tree.rename(uuid(2), "b")
    plan = plan_of(base, tree)
    assert len(plan) == 3
    names = {operation.uuid: base.records[operation.uuid].name for operation in plan}
    for operation in plan:
        assert operation.name not in names.values(), "taken while another still has it"
        names[operation.uuid] = operation.name
    assert names == {uuid(2): "b", uuid(3): "a"}


@given(st.permutations(range(4)))
def test_law_any_permutation_of_names_never_takes_a_name_in_use(order):
    base, tree = handed_out(record(9), *(record(n, 9) for n in range(4)))
    for n in range(4):
        tree.rename(uuid(n), f"away-{n}")
    for n, m in enumerate(order):
        tree.rename(uuid(n), f"p{m}")
    names = {n: r.name for n, r in base.records.items()}
    for operation in plan_of(base, tree):
        assert operation.name not in names.values()
        names[operation.uuid] = operation.name
    assert names == {u: r.name for u, r in tree.snapshot().records.items()}


def test_a_name_is_freed_by_deletion_before_it_is_given_again():
    base, tree = handed_out(record(1), record(2, 1, name="gpu"), record(3, 2))
    tree.remove("gpu")
    tree.new_child("gpu", uuid(1), uuid=uuid(4))
    assert [(type(operation), operation.uuid) for operation in plan_of(base, tree)] == [
        (DeleteProvider, uuid(3)),
        (DeleteProvider, uuid(2)),
        (CreateProvider, uuid(4)),
    ]


def test_move():
    base, tree = handed_out(record(1), record(2, 1), record(3, 1))
    tree.move(uuid(3), uuid(2))
    assert list(plan_of(base, tree)) == [MoveProvider(uuid(3), "p3", uuid(2), uuid(1))]


def test_parent_and_child_change_places_without_a_ring():
    base, tree = handed_out(record(1), record(2, 1), record(3, 2))
    tree.move(uuid(3), uuid(1))
    tree.move(uuid(2), uuid(3))
    parents = {u: r.parent_uuid for u, r in base.records.items()}
    for operation in plan_of(base, tree):
        parents[operation.uuid] = operation.parent_uuid
        above = operation.parent_uuid
        for _ in range(5):
            assert above != operation.uuid, "a ring"
            above = parents.get(above)
    assert parents == {uuid(1): None, uuid(3): uuid(1), uuid(2): uuid(3)}


@pytest.mark.parametrize("change", ["remove", "rename", "move"])
def test_b72_sharing_providers_are_never_deleted_renamed_or_moved(change):
    base, tree = handed_out(record(1), record(7, sharing=True))
    if change == "remove":
        tree.remove(uuid(7))
    elif change == "rename":
        tree.rename(uuid(7), "other")
    else:
        tree.move(uuid(7), uuid(1))
    assert not plan_of(base, tree)


def test_built_by_hand_untouched_aspects_are_no_opinion():
    tree = ProviderTree()
    tree.new_root("p1", uuid(1))
    tree.update_traits(uuid(1), {"CUSTOM_A"})
    theirs = {uuid(1): record(1, inventory={"VCPU": {"total": 1}})}
    [write] = make_plan(None, tree.snapshot(), theirs)
    assert write.aspect is Aspect.TRAITS


def test_operations_print_one_a_line():
    base, tree = handed_out(record(1), record(2, 1), record(3, 1))
    tree.remove(uuid(2))
    tree.new_child("n", uuid(1), uuid=uuid(4))
    tree.rename(uuid(3), "c")
    tree.move(uuid(3), None)
    assert str(plan_of(base, tree)).splitlines() == [
        f"rename p3 to c ({uuid(3)})",
        f"create n ({uuid(4)}) under {uuid(1)}",
        f"move c ({uuid(3)}) from {uuid(1)} to no parent",
        f"delete p2 ({uuid(2)})",
    ]


def test_plan_is_a_value():
    base, tree = handed_out(record(1))
    tree.update_traits(uuid(1), {"CUSTOM_A"})
    one, other = plan_of(base, tree), plan_of(base, tree)
    assert one == other
    assert len(one) == 1
    assert bool(one)
    assert list(itertools.chain(one)) == list(one.operations)
