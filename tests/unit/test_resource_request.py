# SPDX-License-Identifier: Apache-2.0
"""Requests for resources: what is sent for them, what they need, what is refused."""

from __future__ import annotations

import copy
import dataclasses
import enum
import pickle
import string
import uuid
from urllib.parse import parse_qsl, urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reportclient import RequestGroup, ResourceRequest, exceptions
from reportclient.resource_request import asked_for, needed_by

A, B, C = (f"00000000-0000-4000-8000-00000000000{letter}" for letter in "abc")
VCPU = {"VCPU": 1}
#: A slow machine is no fault.
patiently = settings(deadline=None)


def group(**settings):
    return RequestGroup(VCPU, **settings)


def query(request):
    return parse_qsl(request.to_querystring(), keep_blank_values=True)


# -- what is sent, and what it needs ------------------------------------------------------


@pytest.mark.parametrize(
    ("request_", "querystring", "needed"),
    [
        (ResourceRequest.of({"VCPU": 2, "MEMORY_MB": 512}), "resources=MEMORY_MB:512,VCPU:2",
         (1, 10)),
        (ResourceRequest.of(VCPU, limit=10), "resources=VCPU:1&limit=10", (1, 16)),
        (ResourceRequest.of(VCPU, required=["CUSTOM_B", "CUSTOM_A"]),
         "resources=VCPU:1&required=CUSTOM_A,CUSTOM_B", (1, 17)),
        (ResourceRequest.of(VCPU, member_of=[{A}]), f"resources=VCPU:1&member_of={A}", (1, 21)),
        (ResourceRequest.of(VCPU, member_of=[{B, A}]),
         f"resources=VCPU:1&member_of=in:{A},{B}", (1, 21)),
        (ResourceRequest.of(VCPU, required=["CUSTOM_A"], forbidden=["CUSTOM_B"]),
         "resources=VCPU:1&required=CUSTOM_A,%21CUSTOM_B", (1, 22)),
        (ResourceRequest.of(VCPU, member_of=[{C}, {B, A}]),
         f"resources=VCPU:1&member_of=in:{A},{B}&member_of={C}", (1, 24)),
        (ResourceRequest([group(suffix=1)]), "resources1=VCPU:1", (1, 25)),
        (ResourceRequest([group(suffix="1")]), "resources1=VCPU:1", (1, 25)),
        (ResourceRequest([group(suffix=2), group(suffix=1)], group_policy="isolate"),
         "resources1=VCPU:1&resources2=VCPU:1&group_policy=isolate", (1, 25)),
        (ResourceRequest.of(VCPU, in_tree=A), f"resources=VCPU:1&in_tree={A}", (1, 31)),
        (ResourceRequest([group(suffix=1, in_tree=A)]),
         f"resources1=VCPU:1&in_tree1={A}", (1, 31)),
        (ResourceRequest.of(VCPU, forbidden_aggregates=[A]),
         f"resources=VCPU:1&member_of=%21{A}", (1, 32)),
        (ResourceRequest.of(VCPU, member_of=[{C}], forbidden_aggregates=[B, A]),
         f"resources=VCPU:1&member_of={C}&member_of=%21in:{A},{B}", (1, 32)),
        (ResourceRequest([group(suffix="_N"), group()]),
         "resources=VCPU:1&resources_N=VCPU:1", (1, 33)),
        (ResourceRequest([group(suffix="01")]), "resources01=VCPU:1", (1, 33)),
        (ResourceRequest.of(VCPU, root_required=["CUSTOM_A"], root_forbidden=["CUSTOM_B"]),
         "resources=VCPU:1&root_required=CUSTOM_A,%21CUSTOM_B", (1, 35)),
        (ResourceRequest([group(suffix=1), RequestGroup(suffix=2, required=["CUSTOM_A"])],
                         group_policy="none", same_subtree=[[2, "1"]]),
         "resources1=VCPU:1&required2=CUSTOM_A&group_policy=none&same_subtree=1,2", (1, 36)),
        (ResourceRequest.of(VCPU, any_of=[["CUSTOM_B", "CUSTOM_A"]]),
         "resources=VCPU:1&required=in:CUSTOM_A,CUSTOM_B", (1, 39)),
        (ResourceRequest.of(VCPU, required=["CUSTOM_C"], any_of=[["CUSTOM_B", "CUSTOM_A"]]),
         "resources=VCPU:1&required=CUSTOM_C&required=in:CUSTOM_A,CUSTOM_B", (1, 39)),
        # One of one is that one.
        (ResourceRequest.of(VCPU, any_of=[["CUSTOM_B"], ["CUSTOM_A"]]),
         "resources=VCPU:1&required=CUSTOM_A,CUSTOM_B", (1, 17)),
        # One of two, of which one is forbidden, is the other.
        (ResourceRequest.of(VCPU, any_of=[["CUSTOM_B", "CUSTOM_A"]], forbidden=["CUSTOM_A"]),
         "resources=VCPU:1&required=%21CUSTOM_A&required=in:CUSTOM_A,CUSTOM_B", (1, 39)),
    ],
)  # fmt: skip
def test_what_is_asked(request_, querystring, needed):
    assert (request_.to_querystring(), request_.needed) == (querystring, needed)
    assert asked_for(request_) == (querystring, needed)
    assert max(each.needed for each in request_.groups) <= needed


def test_b136_what_a_query_needs_is_no_decimal_number():
    assert needed_by([]) == needed_by([("colour", "red")]) == (1, 10)
    assert needed_by([("limit", "1")]) > (1, 9)


def test_uuids_are_brought_to_their_normal_form():
    request = ResourceRequest.of(
        VCPU,
        member_of=[[A.upper(), uuid.UUID(A), A.replace("-", "")]],
        forbidden_aggregates=["{" + B + "}"],
        in_tree=uuid.UUID(C),
    )
    assert query(request)[1:] == [("member_of", A), ("member_of", f"!{B}"), ("in_tree", C)]


def test_amounts_in_any_guise():
    class Count:
        def __index__(self):
            return 2

    text = enum.Enum("text", {"VCPU": "VCPU"}, type=str)
    request = ResourceRequest.of({text.VCPU: Count()})
    assert request.to_querystring() == "resources=VCPU:2"
    assert request == ResourceRequest.of({"VCPU": 2})


# -- values ---------------------------------------------------------------------------------


names = st.text("ABC_012", min_size=1, max_size=4).map("CUSTOM_{}".format)
ids = st.uuids().map(str)
suffixes = st.one_of(
    st.integers(1, 99).map(str), st.text(string.ascii_letters + "_-", min_size=1, max_size=64)
)


def sets(of, fewest=1):
    return st.lists(st.sets(of, min_size=fewest, max_size=3), max_size=3)


@st.composite
def group_settings(draw):
    forbidden = draw(st.sets(names, max_size=2))
    return {
        "resources": draw(
            st.dictionaries(names, st.integers(1, 2**31 - 1), min_size=1, max_size=3)
        ),
        "required": draw(st.sets(names, max_size=3)) - forbidden,
        "forbidden": forbidden,
        "any_of": [each for each in draw(sets(names)) if not each <= forbidden],
        "member_of": draw(sets(ids)),
        "forbidden_aggregates": draw(st.sets(ids, max_size=2)),
        "in_tree": draw(st.none() | ids),
    }


@st.composite
def request_settings(draw):
    given = draw(st.dictionaries(suffixes | st.just(""), group_settings(), min_size=1, max_size=3))
    named = sorted(suffix for suffix in given if suffix)
    forbidden = draw(st.sets(names, max_size=2))
    settings = {
        "limit": draw(st.none() | st.integers(1, 1000)),
        "group_policy": draw(st.sampled_from(["none", "isolate"])),
        "root_required": draw(st.sets(names, max_size=2)) - forbidden,
        "root_forbidden": forbidden,
        "same_subtree": draw(sets(st.sampled_from(named))) if named else [],
    }
    return given, settings


def built(given, settings, order=lambda items: items):
    groups = [
        RequestGroup(suffix=suffix, **{key: again(value, order) for key, value in each.items()})
        for suffix, each in order(list(given.items()))
    ]
    return ResourceRequest(groups, **{key: again(value, order) for key, value in settings.items()})


def again(value, order):
    """The same, said in another order."""
    if isinstance(value, dict):
        return dict(order(list(value.items())))
    if isinstance(value, set | list):
        return order([again(each, order) for each in value])
    return value


@patiently
@given(request_settings(), st.randoms(use_true_random=False))
def test_the_same_in_another_order_is_the_same(given_, rng):
    first = built(*given_)
    second = built(*given_, order=lambda items: rng.sample(items, len(items)))
    assert first == second
    assert hash(first) == hash(second)
    assert first.to_querystring() == second.to_querystring()


@patiently
@given(request_settings())
def test_nothing_is_lost_on_the_way(given_):
    """Whoever parses the query finds each set again."""
    given_groups, settings = given_
    request = built(*given_)
    pairs = query(request)
    assert pairs == request.to_pairs()
    values = {}
    for name, value in pairs:
        values.setdefault(name, []).append(value)
    for suffix, each in given_groups.items():
        [resources] = values[f"resources{suffix}"]
        assert dict(one.split(":") for one in resources.split(",")) == {
            name: str(amount) for name, amount in each["resources"].items()
        }
        required, forbidden = traits(values.get(f"required{suffix}", []))
        singles = {frozenset({trait}) for trait in each["required"]}
        assert required == singles | {frozenset(one) for one in each["any_of"]}
        assert forbidden == each["forbidden"]
        inside, outside = aggregates(values.get(f"member_of{suffix}", []))
        assert inside == {frozenset(one) for one in each["member_of"]}
        assert outside == each["forbidden_aggregates"]
        assert values.get(f"in_tree{suffix}", [None]) == [each["in_tree"]]
    required, forbidden = traits(values.get("root_required", []))
    assert required == {frozenset({trait}) for trait in settings["root_required"]}
    assert forbidden == settings["root_forbidden"]
    assert {frozenset(value.split(",")) for value in values.get("same_subtree", [])} == {
        frozenset(each) for each in settings["same_subtree"]
    }


def traits(values):
    required, forbidden = set(), set()
    for value in values:
        if value.startswith("in:"):
            required.add(frozenset(value[3:].split(",")))
            continue
        for trait in value.split(","):
            if trait.startswith("!"):
                forbidden.add(trait[1:])
            else:
                required.add(frozenset({trait}))
    return required, forbidden


def aggregates(values):
    inside, outside = set(), set()
    for value in values:
        found = value.removeprefix("!").removeprefix("in:").split(",")
        if value.startswith("!"):
            outside |= set(found)
        else:
            inside.add(frozenset(found))
    return inside, outside


@patiently
@given(request_settings())
def test_a_query_is_safe_to_put_behind_a_path(given_):
    text = built(*given_).to_querystring()
    assert set(text) <= set(string.ascii_letters + string.digits + "_-.:,=&%")
    assert urlsplit(f"http://placement.test/allocation_candidates?{text}").query == text


def test_requests_are_values():
    request = ResourceRequest([group(suffix="_N", required=["CUSTOM_A"]), group()], limit=3)
    for twin in (copy.copy(request), copy.deepcopy(request), pickle.loads(pickle.dumps(request))):
        assert twin == request
        assert twin.to_querystring() == request.to_querystring()
    assert "CUSTOM_A" in repr(request)
    for value in (request, request.groups[0]):
        for field in dataclasses.fields(value):
            with pytest.raises(dataclasses.FrozenInstanceError):
                setattr(value, field.name, None)


def test_b160_what_is_given_may_be_changed_afterwards():
    amounts, traits_ = {"VCPU": 1}, ["CUSTOM_A"]
    request = ResourceRequest.of(amounts, required=traits_)
    before = request.to_querystring()
    amounts["VCPU"] = 2
    traits_.append("CUSTOM_B")
    request.groups[0].resources["VCPU"] = 3
    assert request.to_querystring() == before


# -- what is refused --------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["", "1", "_NET"])
@pytest.mark.parametrize(
    ("settings", "kind", "field", "value"),
    [
        *(({"resources": {"VCPU": amount}}, exceptions.InvalidResourceRequest, "resources", amount)
          for amount in (0, -1, 1.0, 1.5, "1", None, True, 2**31)),
        ({"resources": {"vcpu": 1}}, exceptions.InvalidResourceClass, "resources", "vcpu"),
        ({"resources": {"VCPU:1,MEMORY_MB": 1}}, exceptions.InvalidResourceClass, "resources",
         "VCPU:1,MEMORY_MB"),
        ({"resources": {"CUSTOM_": 1}}, exceptions.InvalidResourceClass, "resources", "CUSTOM_"),
        ({"resources": "VCPU:1"}, exceptions.InvalidResourceRequest, "resources", "VCPU:1"),
        ({"resources": [("VCPU", 1)]}, exceptions.InvalidResourceRequest, "resources",
         [("VCPU", 1)]),
        ({"required": ["!CUSTOM_A"]}, exceptions.InvalidTrait, "required", "!CUSTOM_A"),
        ({"required": ["CUSTOM_A&limit=1"]}, exceptions.InvalidTrait, "required",
         "CUSTOM_A&limit=1"),
        ({"required": [""]}, exceptions.InvalidTrait, "required", ""),
        ({"required": ["A" * 256]}, exceptions.InvalidTrait, "required", "A" * 256),
        ({"required": "CUSTOM_A"}, exceptions.InvalidResourceRequest, "required", "CUSTOM_A"),
        ({"required": None}, exceptions.InvalidResourceRequest, "required", None),
        ({"forbidden": ["custom"]}, exceptions.InvalidTrait, "required", "custom"),
        ({"any_of": ["CUSTOM_A", "CUSTOM_B"]}, exceptions.InvalidResourceRequest, "required",
         "CUSTOM_A"),
        ({"any_of": [["in:CUSTOM_A"]]}, exceptions.InvalidTrait, "required", "in:CUSTOM_A"),
        ({"any_of": [["CUSTOM_A"], []]}, exceptions.InvalidResourceRequest, "required",
         [["CUSTOM_A"], []]),
        ({"member_of": [["x"]]}, exceptions.InvalidAggregate, "member_of", "x"),
        ({"member_of": [A]}, exceptions.InvalidResourceRequest, "member_of", A),
        ({"member_of": [[]]}, exceptions.InvalidResourceRequest, "member_of", [[]]),
        ({"member_of": uuid.UUID(A)}, exceptions.InvalidResourceRequest, "member_of",
         uuid.UUID(A)),
        ({"forbidden_aggregates": ["x"]}, exceptions.InvalidAggregate, "member_of", "x"),
        ({"forbidden_aggregates": A}, exceptions.InvalidResourceRequest, "member_of", A),
        ({"in_tree": "host1"}, exceptions.InvalidUUID, "in_tree", "host1"),
        ({"required": ["CUSTOM_A"], "forbidden": ["CUSTOM_A"]},
         exceptions.InvalidResourceRequest, "required", ["CUSTOM_A"]),
        ({"any_of": [["CUSTOM_A", "CUSTOM_B"]], "forbidden": ["CUSTOM_A", "CUSTOM_B"]},
         exceptions.InvalidResourceRequest, "required", ["CUSTOM_A", "CUSTOM_B"]),
    ],
)  # fmt: skip
def test_a_group_that_is_refused(suffix, settings, kind, field, value):
    with pytest.raises(exceptions.InvalidInput) as caught:
        RequestGroup(**{"resources": VCPU, "suffix": suffix, **settings})
    error = caught.value
    assert type(error) is kind
    assert (error.field, error.value) == (field + suffix, value)
    assert str(error).startswith(f"{field}{suffix}: ")
    assert isinstance(error, ValueError)


def test_an_amount_that_is_refused_names_its_class():
    with pytest.raises(exceptions.InvalidResourceRequest, match=r"VCPU.* 0 ") as caught:
        RequestGroup({"DISK_GB": 5, "VCPU": 0})
    assert caught.value.resource_class == "VCPU"


def test_what_is_long_is_shortened_in_messages():
    with pytest.raises(exceptions.InvalidResourceRequest) as caught:
        RequestGroup(VCPU, suffix="x" * 10000)
    assert len(str(caught.value)) < 300
    assert len(caught.value.value) == 10000


@pytest.mark.parametrize("suffix", [0, -1, True, None, 1.0, "a b", "é", "1\n", "_A,_B", "x" * 65])
def test_suffixes_that_are_refused(suffix):
    with pytest.raises(exceptions.InvalidResourceRequest) as caught:
        RequestGroup(VCPU, suffix=suffix)
    assert (caught.value.field, caught.value.value) == ("suffix", suffix)


@pytest.mark.parametrize("suffix", [1, 99, "0", "01", "_", "-", "a", "x" * 64, f"_PORT_{A}"])
def test_suffixes_that_are_taken(suffix):
    assert RequestGroup(VCPU, suffix=suffix).suffix == str(suffix)


NET = RequestGroup(suffix="_NET", required=["CUSTOM_A"])


@pytest.mark.parametrize(
    ("groups", "settings", "field", "words"),
    [
        ([], {}, "resources", "no group"),
        ([RequestGroup()], {}, "resources", "without resources"),
        ([RequestGroup(required=["CUSTOM_A"])], {}, "resources", "without resources"),
        ([group(), group()], {}, "suffix", "2 groups"),
        ([group(suffix=1), group(suffix="1")], {}, "suffix", "2 groups have the suffix '1'"),
        ([group(), NET], {}, "resources_NET", "same_subtree"),
        ([NET], {"same_subtree": [["_NET"]]}, "resources", "no group"),
        ([group(), RequestGroup(suffix="_NET")], {"same_subtree": [["_NET"]]}, "resources_NET",
         "nothing"),
        ([group(suffix=1)], {"same_subtree": [["1", "2", "_NET"]]}, "same_subtree", "2, _NET"),
        ([group()], {"same_subtree": [[""]]}, "same_subtree", "cannot be named"),
        ([group(suffix=1)], {"same_subtree": [[]]}, "same_subtree", "empty"),
        ([group(suffix=1)], {"same_subtree": ["1"]}, "same_subtree", "not a collection"),
        ([group(suffix=1), group(suffix=2)], {}, "group_policy", "isolate"),
        ([group(suffix=1), NET], {"same_subtree": [[1, "_NET"]]}, "group_policy", "isolate"),
        ([group()], {"group_policy": "some"}, "group_policy", "'some'"),
        *(([group()], {"limit": limit}, "limit", "whole number")
          for limit in (0, -1, "1", 1.5, True)),
        ([group()], {"root_required": ["CUSTOM_A"], "root_forbidden": ["CUSTOM_A"]},
         "root_required", "CUSTOM_A"),
        ([group()], {"root_required": "CUSTOM_A"}, "root_required", "not a collection"),
        ([VCPU], {}, "groups", "no RequestGroup"),
        (group(), {}, "groups", "not a collection"),
    ],
)  # fmt: skip
def test_a_request_that_is_refused(groups, settings, field, words):
    with pytest.raises(exceptions.InvalidResourceRequest) as caught:
        ResourceRequest(groups, **settings)
    assert caught.value.field == field
    assert words in str(caught.value)


def test_a_root_trait_that_is_none():
    for name in ("root_required", "root_forbidden"):
        with pytest.raises(exceptions.InvalidTrait) as caught:
            ResourceRequest.of(VCPU, **{name: ["in:CUSTOM_A"]})
        assert caught.value.field == "root_required"


# -- what others make ---------------------------------------------------------------------------


class Foreign:
    def __init__(self, text):
        self.text = text

    def to_querystring(self):
        return self.text


@pytest.mark.parametrize(
    ("text", "sent", "needed"),
    [
        ("resources=VCPU:1", "resources=VCPU:1", (1, 10)),
        ("?resources=VCPU%3A1", "resources=VCPU:1", (1, 10)),
        ("resources=VCPU:1&required=!CUSTOM_A", "resources=VCPU:1&required=%21CUSTOM_A", (1, 22)),
        ("resources=VCPU:1&required=A&required=B", "resources=VCPU:1&required=A&required=B",
         (1, 39)),
        ("resources7=VCPU:1&member_of7=%21in%3Aa%2Cb", "resources7=VCPU:1&member_of7=%21in:a,b",
         (1, 32)),
        ("resources=VCPU:1&in_tree=a b#c\n", "resources=VCPU:1&in_tree=a%20b%23c%0A", (1, 31)),
        ("resources=VCPU:1&colour=red&x", "resources=VCPU:1&colour=red&x=", (1, 10)),
        ("same_subtree=_A", "same_subtree=_A", (1, 36)),
    ],
)  # fmt: skip
def test_a_foreign_query_is_encoded_anew_and_tells_what_it_needs(text, sent, needed):
    assert asked_for(Foreign(text)) == (sent, needed)


def test_a_mapping_is_a_request():
    assert asked_for({"VCPU": 1, "DISK_GB": 5}) == ("resources=DISK_GB:5,VCPU:1", (1, 10))


@pytest.mark.parametrize(
    "given", [None, 1, "resources=VCPU:1", ["VCPU"], {}, *map(Foreign, ("", "?", None, b"a=b"))]
)
def test_what_is_no_request(given):
    with pytest.raises(exceptions.InvalidResourceRequest):
        asked_for(given)
