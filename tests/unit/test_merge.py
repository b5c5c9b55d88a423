# SPDX-License-Identifier: Apache-2.0
"""Three-way merging: examples, and the laws that every merge obeys (P4)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reportclient.merge import Merged, differences, merge_inventory, merge_set, same_value
from reportclient.types import Aspect

NAMES = st.sampled_from(["VCPU", "MEMORY_MB", "DISK_GB", "CUSTOM_A", "CUSTOM_B"])
RECORDS = st.fixed_dictionaries(
    {
        "total": st.integers(1, 4),
        "reserved": st.integers(0, 1),
        "allocation_ratio": st.sampled_from([1.0, 1.5, 16.0]),
    }
)
INVENTORIES = st.dictionaries(NAMES, RECORDS, max_size=4)
SETS = st.frozensets(st.sampled_from("ABCDEFGH"))


def full(total: int, **other: float) -> dict[str, float]:
    return {"total": total, "reserved": 0, "allocation_ratio": 1.0, **other}


def test_untouched_aspect_is_theirs():
    theirs = {"VCPU": full(8)}
    assert merge_inventory({"VCPU": full(4)}, None, theirs) == Merged(theirs)
    assert merge_set(frozenset("A"), None, frozenset("B")) == frozenset("B")


def test_both_change_different_fields():
    base = {"VCPU": full(8)}
    mine = {"VCPU": full(16)}
    theirs = {"VCPU": full(8, allocation_ratio=4.0)}
    assert merge_inventory(base, mine, theirs).value == {"VCPU": full(16, allocation_ratio=4.0)}


def test_b24_both_add_a_class():
    merged = merge_inventory({}, {"CUSTOM_A": full(1)}, {"CUSTOM_B": full(2)})
    assert merged == Merged({"CUSTOM_B": full(2), "CUSTOM_A": full(1)})


def test_b03_clearing_keeps_what_somebody_else_added():
    base = {"VCPU": full(8)}
    theirs = {"VCPU": full(8), "CUSTOM_X": full(1)}
    assert merge_inventory(base, {}, theirs) == Merged({"CUSTOM_X": full(1)})


def test_same_field_changed_differently_is_a_clash():
    merged = merge_inventory({"VCPU": full(8)}, {"VCPU": full(16)}, {"VCPU": full(4)})
    [clash] = merged.clashes
    assert (clash.field, clash.base, clash.mine, clash.theirs) == ("VCPU.total", 8, 16, 4)
    assert str(clash) == "VCPU.total: 8 -> mine 16, theirs 4"


def test_same_field_changed_to_the_same_is_none():
    both = {"VCPU": full(16)}
    assert merge_inventory({"VCPU": full(8)}, both, both) == Merged(both)


@pytest.mark.parametrize(
    ("mine", "theirs"),
    [({}, {"VCPU": full(4)}), ({"VCPU": full(4)}, {})],
    ids=["removed by me, changed by them", "changed by me, removed by them"],
)
def test_removing_what_the_other_side_changed_is_a_clash(mine, theirs):
    merged = merge_inventory({"VCPU": full(8)}, mine, theirs)
    assert [clash.field for clash in merged.clashes] == ["VCPU"]


def test_removed_by_them_and_left_alone_by_me_stays_removed():
    base = {"VCPU": full(8)}
    assert merge_inventory(base, {"VCPU": {"total": 8}}, {}) == Merged({})


def test_missing_field_is_no_opinion():
    base = theirs = {"VCPU": full(8, allocation_ratio=16.0)}
    mine = {"VCPU": {"total": 9}}
    assert merge_inventory(base, mine, theirs).value == {"VCPU": full(9, allocation_ratio=16.0)}


def test_b12_field_that_the_old_record_does_not_have():
    base = {"VCPU": {"total": 8}}
    theirs = {"VCPU": full(8)}
    mine = {"VCPU": {"total": 8, "reserved": 1, "allocation_ratio": 16.0}}
    merged = merge_inventory(base, mine, theirs)
    assert merged == Merged({"VCPU": full(8, reserved=1, allocation_ratio=16.0)})


def test_added_on_both_sides_with_different_values_is_a_clash():
    merged = merge_inventory({}, {"VCPU": full(8)}, {"VCPU": full(9)})
    assert [clash.field for clash in merged.clashes] == ["VCPU.total"]


def test_b11_without_a_base_mine_wins_and_the_rest_stays():
    theirs = {"VCPU": full(9, allocation_ratio=4.0), "CUSTOM_X": full(1)}
    merged = merge_inventory(None, {"VCPU": {"total": 8}}, theirs)
    assert merged == Merged({"VCPU": full(8, allocation_ratio=4.0), "CUSTOM_X": full(1)})
    gold = frozenset({"CUSTOM_GOLD"})
    assert merge_set(None, frozenset({"COMPUTE_A"}), gold) == gold | {"COMPUTE_A"}


def test_b56_operators_trait_survives_a_new_set():
    base = frozenset({"COMPUTE_A"})
    theirs = frozenset({"COMPUTE_A", "CUSTOM_GOLD"})
    assert merge_set(base, frozenset({"COMPUTE_B"}), theirs) == {"COMPUTE_B", "CUSTOM_GOLD"}


def test_numbers_are_compared_as_placement_stores_them():
    stored = {"VCPU": full(16, allocation_ratio=1.100000023841858)}
    assert same_value(Aspect.INVENTORY, stored, {"VCPU": full(16.0, allocation_ratio=1.1)})
    merged = merge_inventory(stored, {"VCPU": full(16, allocation_ratio=1.1)}, stored)
    assert merged.value == stored


def test_differences_name_every_field_and_member():
    old, new = {"A": full(1), "B": full(1)}, {"B": full(2), "C": {"total": 3}}
    assert list(differences(Aspect.INVENTORY, old, new)) == ["-A", "B.total 1 -> 2", "+C total 3"]
    assert list(differences(Aspect.TRAITS, frozenset("AB"), frozenset("BC"))) == ["+C", "-A"]


@given(SETS, SETS, SETS)
def test_law_sets_keep_both_sides_changes(base, mine, theirs):
    merged = merge_set(base, mine, theirs)
    assert mine - base <= merged
    assert theirs - base <= merged
    assert not merged & ((base - mine) | (base - theirs))


@given(SETS, SETS, SETS)
def test_law_sets_commute_and_are_idempotent(base, mine, theirs):
    merged = merge_set(base, mine, theirs)
    assert merged == merge_set(base, theirs, mine)
    assert merge_set(base, mine, merged) == merged


@given(INVENTORIES, INVENTORIES)
def test_law_alone_i_get_what_i_want(base, mine):
    assert merge_inventory(base, mine, base) == Merged(merge_inventory(base, mine, base).value)
    assert same_value(Aspect.INVENTORY, merge_inventory(base, mine, base).value, mine)


@given(INVENTORIES, INVENTORIES)
def test_law_doing_nothing_changes_nothing(base, theirs):
    merged = merge_inventory(base, base, theirs)
    assert merged.clashes == ()
    assert same_value(Aspect.INVENTORY, merged.value, theirs)


@given(INVENTORIES, INVENTORIES, INVENTORIES)
def test_law_a_clash_for_one_is_a_clash_for_the_other(base, mine, theirs):
    one, other = merge_inventory(base, mine, theirs), merge_inventory(base, theirs, mine)
    assert {clash.field for clash in one.clashes} == {clash.field for clash in other.clashes}
    if not one.clashes:
        assert same_value(Aspect.INVENTORY, one.value, other.value)


@given(INVENTORIES, INVENTORIES, INVENTORIES)
def test_law_nothing_of_theirs_is_lost(base, mine, theirs):
    merged = merge_inventory(base, mine, theirs)
    clashing = {clash.field.partition(".")[0] for clash in merged.clashes}
    for name, record in theirs.items():
        if name in clashing:
            continue
        if name not in base:
            assert name in merged.value
        for field, value in record.items():
            if name in merged.value and base.get(name, {}).get(field) != value:
                assert merged.value[name][field] == value


@given(INVENTORIES, INVENTORIES, INVENTORIES)
def test_law_merging_again_changes_nothing(base, mine, theirs):
    merged = merge_inventory(base, mine, theirs)
    if not merged.clashes:
        again = merge_inventory(base, mine, merged.value)
        assert again.clashes == ()
        assert same_value(Aspect.INVENTORY, again.value, merged.value)
