# SPDX-License-Identifier: Apache-2.0
"""What may be sent, what is refused and with which words, what counts as equal."""

from __future__ import annotations

import enum
import math
import struct
import uuid
from decimal import Decimal
from fractions import Fraction
from types import MappingProxyType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reportclient import exceptions, validation

UUID = "5d0ab0e3-4b92-4a57-8c1e-0d5b6e9f1a23"
OTHER = "0c6c1f7a-93ad-4a86-b7f5-1f0f2bb2d1c4"


#: What services have that are older than enum.StrEnum.
Text = enum.Enum("Text", {"VCPU": "VCPU"}, type=str)

#: A slow machine is no fault.
patiently = settings(deadline=None)


class Count:
    """A whole number as numpy has them: not an int, but usable as an index."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __index__(self) -> int:
        return self.value


# -- UUIDs -------------------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    [
        UUID,
        UUID.upper(),
        UUID.replace("-", ""),
        "{" + UUID + "}",
        "urn:uuid:" + UUID,
        uuid.UUID(UUID),
    ],
    ids=["normal", "upper", "bare", "braces", "urn", "object"],
)
def test_a_uuid_in_any_spelling_is_brought_to_its_normal_form(given):
    assert validation.normalise_uuid(given) == UUID
    assert validation.uuid_or_text(given) == UUID


# uuid.UUID reads most of these, as the UUID of another number.
NO_UUIDS = {
    "word": "compute1",
    "empty": "",
    "short": UUID[:-1],
    "long": UUID + "0",
    "newline": UUID + "\n",
    "underscores": "12345678_1234_1234_1234_12345678",
    "sign": "+" + "1" * 31,
    "space": " " + "1" * 31,
    "wide digits": "\uff11" * 32,
}


@pytest.mark.parametrize("given", NO_UUIDS.values(), ids=NO_UUIDS)
def test_a_text_that_is_no_uuid_is_refused_or_kept_as_it_is(given):
    with pytest.raises(exceptions.InvalidUUID) as caught:
        validation.normalise_uuid(given, field="parent", provider="host")
    error = caught.value
    assert (error.provider, error.field, error.value) == ("host", "parent", given)
    assert "host" in str(error)
    assert "parent" in str(error)
    assert validation.uuid_or_text(given) == given


@pytest.mark.parametrize("given", [None, 5, b"5" * 32, ["x"]])
def test_a_uuid_has_to_be_a_text(given):
    with pytest.raises(exceptions.InvalidUUID):
        validation.normalise_uuid(given)


# -- names and symbols ---------------------------------------------------------


@pytest.mark.parametrize("name", ["a", "x" * 200, "compute1_PCI_0000:81:00.0", "büro"])
def test_names_of_1_to_200_characters_pass(name):
    assert validation.check_name(name) == name


@pytest.mark.parametrize("name", ["", "x" * 201, None, 5, b"compute1"])
def test_other_names_are_refused(name):
    with pytest.raises(exceptions.InvalidName) as caught:
        validation.check_name(name, provider=UUID)
    assert (caught.value.provider, caught.value.field) == (UUID, "name")
    assert caught.value.value == name
    assert UUID in str(caught.value)


SYMBOLS = ["VCPU", "HW_CPU_X86_AVX", "CUSTOM_A", "CUSTOM_1", "CUSTOM__", "A" * 255]
NO_SYMBOLS = ["", "vcpu", "VCPU\n", "A B", "A-B", "CUSTOM_", "\u00c4", "A" * 256, None, 5, b"VCPU"]


@pytest.mark.parametrize("name", SYMBOLS)
def test_traits_and_classes_that_placement_can_hold_pass(name):
    assert validation.check_trait(name) == name
    assert validation.check_resource_class(name) == name


@pytest.mark.parametrize("name", NO_SYMBOLS)
def test_other_traits_and_classes_are_refused(name):
    with pytest.raises(exceptions.InvalidTrait) as caught:
        validation.check_trait(name, provider="host")
    assert (caught.value.provider, caught.value.field) == ("host", "traits")
    assert caught.value.value == name
    with pytest.raises(exceptions.InvalidResourceClass) as caught_class:
        validation.check_resource_class(name, provider="host")
    assert caught_class.value.provider == "host"
    assert caught_class.value.field == "resource_class"
    assert caught_class.value.value == name


def test_a_member_of_a_text_enum_is_taken_for_its_text():
    for check in (validation.check_trait, validation.check_resource_class):
        assert type(check(Text.VCPU)) is str
        assert check(Text.VCPU) == "VCPU"
    assert list(validation.normalise_inventory({Text.VCPU: {"total": 1}})) == ["VCPU"]


def test_a_long_value_is_shortened_in_the_message():
    with pytest.raises(exceptions.InvalidName) as caught:
        validation.check_name("x" * 5000)
    assert len(str(caught.value)) < 400
    assert "5002 characters" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("GPU 2.0", "CUSTOM_GPU_2_0"),
        ("baremetal-gold", "CUSTOM_BAREMETAL_GOLD"),
        ("CUSTOM_GPU", "CUSTOM_GPU"),
    ],
)
def test_a_device_name_becomes_a_custom_class(text, name):
    assert validation.custom_resource_class(text) == name


@pytest.mark.parametrize("text", ["", None, "x" * 300])
def test_a_device_name_of_which_nothing_or_too_much_is_left_is_refused(text):
    with pytest.raises(exceptions.InvalidResourceClass):
        validation.custom_resource_class(text)


# -- traits and aggregates -------------------------------------------------------


ITERABLES = {
    "set": set,
    "tuple": tuple,
    "list": list,
    "keys": lambda members: dict.fromkeys(members).keys(),
    "generator": lambda members: (member for member in members),
    "twice": lambda members: [*members, *members],
}


@pytest.mark.parametrize("kind", ITERABLES.values(), ids=ITERABLES)
def test_b63_any_collection_of_traits_or_aggregates_will_do(kind):
    traits = ["HW_CPU_X86_AVX", "CUSTOM_GOLD"]
    assert validation.normalise_traits(kind(traits)) == frozenset(traits)
    assert validation.normalise_aggregates(kind([UUID, OTHER])) == {UUID, OTHER}


def test_the_same_aggregate_in_two_spellings_is_one():
    given = [UUID.upper(), UUID, uuid.UUID(UUID)]
    assert validation.normalise_aggregates(given) == {UUID}


@pytest.mark.parametrize("given", ["CUSTOM_GOLD", b"CUSTOM_GOLD", None, 5])
def test_a_single_text_is_no_collection(given):
    with pytest.raises(exceptions.InvalidTrait) as caught:
        validation.normalise_traits(given, provider="host")
    assert (caught.value.provider, caught.value.field) == ("host", "traits")
    with pytest.raises(exceptions.InvalidAggregate) as caught_aggregate:
        validation.normalise_aggregates(given, provider="host")
    assert caught_aggregate.value.field == "aggregates"


def test_one_wrong_member_is_raised_by_itself():
    with pytest.raises(exceptions.InvalidTrait) as caught:
        validation.normalise_traits(["GOOD", "bad"], provider="host")
    assert caught.value.value == "bad"
    with pytest.raises(exceptions.InvalidAggregate) as caught_aggregate:
        validation.normalise_aggregates([UUID, "rack1"], provider="host")
    error = caught_aggregate.value
    assert (error.provider, error.field, error.value) == ("host", "aggregates", "rack1")


def test_several_wrong_members_are_raised_together():
    with pytest.raises(exceptions.InvalidProviderTree) as caught:
        validation.normalise_traits(["bad", "GOOD", "worse"])
    assert [error.value for error in caught.value.errors] == ["bad", "worse"]
    assert all(isinstance(error, exceptions.InvalidTrait) for error in caught.value.errors)
    with pytest.raises(exceptions.InvalidProviderTree) as caught_aggregates:
        validation.normalise_aggregates(["rack1", UUID, "rack2"])
    assert [error.value for error in caught_aggregates.value.errors] == ["rack1", "rack2"]


# -- inventories --------------------------------------------------------------------


FULL = {
    "total": 8,
    "reserved": 1,
    "min_unit": 1,
    "max_unit": 4,
    "step_size": 1,
    "allocation_ratio": 16.0,
}


def test_a_whole_record_passes_as_it_is():
    assert validation.normalise_inventory({"VCPU": FULL}) == {"VCPU": FULL}


def test_an_empty_inventory_is_an_inventory():
    assert validation.normalise_inventory({}) == {}


def test_the_result_is_independent_of_what_was_given():
    given = {"VCPU": {"total": 8}}
    normal = validation.normalise_inventory(given)
    normal["VCPU"]["total"] = 9
    assert given == {"VCPU": {"total": 8}}


def test_any_mapping_will_do():
    given = MappingProxyType({"VCPU": MappingProxyType({"total": 8})})
    assert validation.normalise_inventory(given) == {"VCPU": {"total": 8}}


def test_b51_fields_without_an_opinion_stay_out():
    assert validation.normalise_inventory({"VCPU": {"total": 4}}) == {"VCPU": {"total": 4}}


def test_b50_none_of_a_class_leaves_it_out():
    given = {"VCPU": {"total": 0, "reserved": 2}, "DISK_GB": {"total": 10}}
    assert validation.normalise_inventory(given) == {"DISK_GB": {"total": 10}}


def test_b50_less_than_none_is_refused():
    given = {"MEMORY_MB": {"total": -512}, "DISK_GB": {"total": 10}}
    with pytest.raises(exceptions.InvalidInventory) as caught:
        validation.normalise_inventory(given, provider="host")
    error = caught.value
    assert (error.provider, error.resource_class) == ("host", "MEMORY_MB")
    assert (error.field, error.value) == ("total", -512)
    for word in ("host", "MEMORY_MB", "total", "-512"):
        assert word in str(error)


def test_b49_all_of_a_class_may_be_reserved():
    given = {"CUSTOM_BM": {"total": 1, "reserved": 1}}
    assert validation.normalise_inventory(given) == given


@pytest.mark.parametrize(
    "value", [16, 16.0, Fraction(16), Count(16)], ids=["int", "float", "fraction", "index"]
)
def test_whole_numbers_of_any_type_become_int(value):
    total = validation.normalise_inventory({"VCPU": {"total": value}})["VCPU"]["total"]
    assert total == 16
    assert type(total) is int


@pytest.mark.parametrize("ratio", [1, 1.5, 16.0, 0.001, Fraction(3, 2), 3.40282e38])
def test_ratios_above_zero_pass(ratio):
    normal = validation.normalise_inventory({"VCPU": {"total": 1, "allocation_ratio": ratio}})
    assert normal["VCPU"]["allocation_ratio"] == ratio
    assert isinstance(normal["VCPU"]["allocation_ratio"], int | float)


WHOLE = ("total", "reserved", "min_unit", "max_unit", "step_size")
NO_WHOLE = {
    "negative": -1,
    "too large": 2147483648,
    "beyond a double": Fraction(10**400, 3),
    "half": 0.5,
    "True": True,
    "text": "8",
    "None": None,
    "nan": math.nan,
    "inf": math.inf,
    "decimal": Decimal(8),
    "list": [8],
}


@pytest.mark.parametrize("field", WHOLE)
@pytest.mark.parametrize("value", NO_WHOLE.values(), ids=NO_WHOLE)
def test_amounts_that_are_no_whole_numbers_are_refused(field, value):
    with pytest.raises(exceptions.InvalidInventory) as caught:
        validation.normalise_inventory({"VCPU": {"total": 8, field: value}}, provider="host")
    error = caught.value
    assert (error.provider, error.resource_class, error.field) == ("host", "VCPU", field)
    assert error.value is value


@pytest.mark.parametrize("field", ["min_unit", "max_unit", "step_size"])
def test_units_are_at_least_one(field):
    assert validation.normalise_inventory({"VCPU": {"total": 8, field: 1}})
    with pytest.raises(exceptions.InvalidInventory) as caught:
        validation.normalise_inventory({"VCPU": {"total": 8, field: 0}})
    assert caught.value.field == field


@pytest.mark.parametrize("field", ["total", "max_unit"])
def test_the_largest_amount_passes(field):
    given = {"DISK_GB": {"total": 8, field: 2147483647}}
    assert validation.normalise_inventory(given) == given


NO_RATIO = {
    "zero": 0.0,
    "whole zero": 0,
    "minus one": -1.0,
    "nan": math.nan,
    "inf": math.inf,
    "too large": 3.5e38,
    "beyond a double": 10**400,
    "True": True,
    "text": "16.0",
    "None": None,
}


@pytest.mark.parametrize("ratio", NO_RATIO.values(), ids=NO_RATIO)
def test_b55_ratios_that_are_no_numbers_above_zero_are_refused(ratio):
    with pytest.raises(exceptions.InvalidInventory) as caught:
        validation.normalise_inventory({"VCPU": {"total": 8, "allocation_ratio": ratio}})
    assert (caught.value.resource_class, caught.value.field) == ("VCPU", "allocation_ratio")
    assert caught.value.value is ratio


def test_more_cannot_be_reserved_than_there_is():
    with pytest.raises(exceptions.InvalidInventory) as caught:
        validation.normalise_inventory({"VCPU": {"total": 8, "reserved": 9}})
    assert (caught.value.field, caught.value.value) == ("reserved", 9)


@pytest.mark.parametrize("field", ["resource_provider_generation", "used", "Total", 5])
def test_unknown_fields_are_refused(field):
    with pytest.raises(exceptions.InvalidInventory) as caught:
        validation.normalise_inventory({"VCPU": {"total": 8, field: 3}})
    assert (caught.value.field, caught.value.value) == (str(field), 3)


def test_a_record_has_a_total():
    with pytest.raises(exceptions.InvalidInventory) as caught:
        validation.normalise_inventory({"VCPU": {"reserved": 1}})
    assert caught.value.field == "total"
    assert "missing" in str(caught.value)


@pytest.mark.parametrize("record", [None, 8, "8", [8], {"total"}])
def test_a_record_is_a_mapping(record):
    with pytest.raises(exceptions.InvalidInventory) as caught:
        validation.normalise_inventory({"VCPU": record})
    assert (caught.value.resource_class, caught.value.field) == ("VCPU", "record")


@pytest.mark.parametrize("inventory", [None, 8, "VCPU", ["VCPU"]])
def test_an_inventory_is_a_mapping(inventory):
    with pytest.raises(exceptions.InvalidInventory) as caught:
        validation.normalise_inventory(inventory, provider="host")
    assert (caught.value.provider, caught.value.field) == ("host", "inventory")


def test_a_wrong_class_is_refused_by_name():
    with pytest.raises(exceptions.InvalidResourceClass) as caught:
        validation.normalise_inventory({"vcpu": {"total": 8}})
    assert caught.value.resource_class == "vcpu"


def test_every_fault_is_found_at_once():
    given = {
        "VCPU": {"total": -1, "allocation_ratio": 0.0, "colour": "red"},
        "bad class": {"total": 1},
        "DISK_GB": {"total": 10},
        "MEMORY_MB": {},
    }
    with pytest.raises(exceptions.InvalidProviderTree) as caught:
        validation.normalise_inventory(given, provider="host")
    found = {(error.resource_class, error.field) for error in caught.value.errors}
    assert found == {
        ("VCPU", "total"),
        ("VCPU", "allocation_ratio"),
        ("VCPU", "colour"),
        ("bad class", "resource_class"),
        ("MEMORY_MB", "total"),
    }
    assert isinstance(caught.value, ValueError)
    assert all(error.provider == "host" for error in caught.value.errors)
    for error in caught.value.errors:
        assert str(error) in str(caught.value)


# -- what is the same to Placement ------------------------------------------------------


def single(number: float) -> float:
    """What a single-precision column makes of a number."""
    return struct.unpack("f", struct.pack("f", number))[0]


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (16, 16),
        (16, 16.0),
        (1.1, single(1.1)),
        (1.23456789, 1.23457),
        (1.0, 1.00000001),
        (1e38, single(1e38)),
        (math.nan, math.nan),
        (1.5, Fraction(3, 2)),
        (1 / 3, Fraction(1, 3)),
    ],
)
def test_numbers_that_placement_stores_alike_are_the_same(a, b):
    assert validation.same_number(a, b)
    assert validation.same_number(b, a)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (16, 17),
        (1.1, 1.2),
        (1.00001, 1.00002),
        (2147483647, 2147483646),
        (16, math.nan),
        (16, math.inf),
        (math.inf, -math.inf),
        (10**400, 1.0),
        ("8", 8.0),
        (None, 8.0),
        ([8], 8.0),
    ],
)
def test_other_numbers_are_not(a, b):
    assert not validation.same_number(a, b)
    assert not validation.same_number(b, a)


@pytest.mark.parametrize(
    ("a", "b"), [(2097152, 2097153.0), (2097152.0, 2097153.0), (2147483647, 2147483646.0)]
)
def test_amounts_are_compared_to_the_last_unit_also_as_floats(a, b):
    assert not validation.same_number(a, b)
    assert not validation.same_number(b, a)


@patiently
@given(st.floats(min_value=1e-30, max_value=3e38))
def test_a_ratio_is_the_same_after_placement_has_stored_it(ratio):
    # Whole numbers in the range of amounts are amounts: no ratio is that large.
    stored = single(ratio)
    if not (ratio.is_integer() and 2**24 < ratio <= 2**31):
        assert validation.same_number(ratio, stored)
        assert validation.same_number(stored, ratio)


@patiently
@given(st.integers(0, 2147483647), st.integers(0, 2147483647))
def test_amounts_are_the_same_only_when_equal(a, b):
    assert validation.same_number(a, float(b)) == (a == b)
    assert validation.same_number(float(a), float(b)) == (a == b)


def test_records_are_compared_both_ways():
    assert validation.same_record(FULL, {**FULL, "total": 8.0})
    assert validation.same_record(FULL, FULL)
    assert not validation.same_record(FULL, {**FULL, "total": 9})
    assert not validation.same_record({"total": 8}, {"total": 8, "reserved": 0})
    assert not validation.same_record({"total": 8, "reserved": 0}, {"total": 8})


def test_inventories_are_compared_both_ways():
    one = {"VCPU": FULL}
    assert validation.same_inventory(one, one)
    assert validation.same_inventory(one, {"VCPU": {**FULL, "allocation_ratio": 16}})
    assert not validation.same_inventory(one, {})
    assert not validation.same_inventory({}, one)
    assert not validation.same_inventory(one, {"VCPU": {**FULL, "reserved": 2}})
    assert not validation.same_inventory(one, {"PCPU": FULL})
    assert validation.same_inventory({}, {})


RECORDS = st.fixed_dictionaries(
    {"total": st.integers(0, 2147483647)},
    optional={
        "min_unit": st.integers(1, 2147483647),
        "max_unit": st.integers(1, 2147483647),
        "step_size": st.integers(1, 2147483647),
        "allocation_ratio": st.floats(min_value=0.001, max_value=1e6),
    },
)


@patiently
@given(st.dictionaries(st.from_regex(r"CUSTOM_[A-Z0-9_]{1,20}", fullmatch=True), RECORDS))
def test_what_was_normalised_once_stays_as_it_is(inventory):
    normal = validation.normalise_inventory(inventory)
    assert validation.normalise_inventory(normal) == normal
    assert normal == {name: record for name, record in inventory.items() if record["total"]}
    assert validation.same_inventory(normal, normal.copy())
