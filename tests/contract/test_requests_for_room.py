# SPDX-License-Identifier: Apache-2.0
"""What a `ResourceRequest` says of itself is what the services say of it.

Whatever can be built is taken at the microversion that it needs, and at all
newer ones; one below it is refused. What cannot be built is refused by them, too.
"""

from __future__ import annotations

import random

import pytest
from side_by_side import SideBySide, an_id

from reportclient import RequestGroup, ResourceRequest, exceptions

C = "/allocation_candidates"
NEWEST = (1, 39)
REQUESTS = 120
AGGREGATES = [an_id(n) for n in (101, 102, 103)]
HOST, NUMA = an_id(1), an_id(2)
TRAITS = ["CUSTOM_A", "CUSTOM_B", "CUSTOM_C"]
CLASSES = ["VCPU", "MEMORY_MB", "CUSTOM_X"]
SUFFIXES = ["1", "22", "_NET", "a-b", "0"]
VCPU = {"VCPU": 1}


@pytest.fixture(scope="module")
def _kept():
    with SideBySide() as pair:
        pair.each(prepare)
        yield pair


@pytest.fixture
def both(_kept):
    """Both hold the same; again if another test ended the real one."""
    if _kept.real.app is None:
        _kept.__enter__()
        _kept.each(prepare)
    return _kept


def prepare(operator):
    operator.create_provider("host", HOST)
    operator.create_provider("numa", NUMA, HOST)
    operator.set_inventory(HOST, {name: {"total": 64} for name in CLASSES})
    operator.set_inventory(NUMA, {name: {"total": 64} for name in CLASSES})
    operator.set_traits(HOST, TRAITS[:2])
    operator.set_traits(NUMA, TRAITS[1:])
    operator.set_aggregates(HOST, AGGREGATES[:2])


def version(pair):
    return f"1.{pair[1]}"


def some(rng, choices, most=2):
    return rng.sample(choices, rng.randrange(most + 1))


def a_group(rng, suffix, plain):
    """One group by chance; a plain one asks for what is old only."""
    forbidden = [] if plain else some(rng, TRAITS, 1)
    settings = {
        "required": [trait for trait in some(rng, TRAITS) if trait not in forbidden],
        "forbidden": forbidden,
        "member_of": [some(rng, AGGREGATES) or AGGREGATES[:1] for _ in range(rng.randrange(3))],
    }
    if not plain and rng.random() < 0.3:
        settings["any_of"] = [rng.sample(TRAITS, 2) for _ in range(rng.randrange(3))]
    if not plain and rng.random() < 0.3:
        settings["forbidden_aggregates"] = some(rng, AGGREGATES)
    if not plain and rng.random() < 0.3:
        settings["in_tree"] = rng.choice([HOST, NUMA, an_id(99)])
    names = rng.sample(CLASSES, rng.randrange(1, 4))
    return RequestGroup({name: rng.randrange(1, 4) for name in names}, suffix=suffix, **settings)


def a_request(rng):
    plain = rng.random() < 0.5
    suffixes = [""] if rng.random() < 0.4 else rng.sample(["", *SUFFIXES], rng.randrange(1, 4))
    groups = [a_group(rng, suffix, plain) for suffix in suffixes]
    named = [suffix for suffix in suffixes if suffix]
    settings = {}
    if len(named) > 1:
        settings["group_policy"] = rng.choice(["none", "isolate"])
    if rng.random() < 0.3:
        settings["limit"] = rng.randrange(1, 5)
    if not plain and rng.random() < 0.3:
        settings["root_required"], settings["root_forbidden"] = TRAITS[:1], TRAITS[2:]
    if not plain and named and rng.random() < 0.5:
        settings["same_subtree"] = [named]
    return ResourceRequest(groups, **settings)


@pytest.mark.parametrize("block", range(4))
def test_what_is_needed_is_enough_and_no_more(both, block):
    for seed in range(block, REQUESTS, 4):
        request = a_request(random.Random(seed))
        needed, query = request.needed, f"{C}?{request.to_querystring()}"
        newer = random.Random(seed).randrange(needed[1], NEWEST[1] + 1)
        for at in {needed, (1, newer), NEWEST}:
            for service in both.services:
                status, body = service.operator.try_call("GET", query, version=version(at))
                assert status == 200, (seed, at, query, body)
        older = (1, needed[1] - 1)
        for service in both.services:
            status, _ = service.operator.try_call("GET", query, version=version(older))
            assert status == (404 if older == (1, 9) else 400), (seed, older, query)


@pytest.mark.parametrize(
    ("query", "build"),
    [
        ("resources=VCPU:0", lambda: ResourceRequest.of({"VCPU": 0})),
        ("resources=VCPU:1.5", lambda: ResourceRequest.of({"VCPU": 1.5})),
        ("resources=vcpu:1", lambda: ResourceRequest.of({"vcpu": 1})),
        ("resources=", lambda: ResourceRequest.of({})),
        ("", lambda: ResourceRequest([])),
        ("required=CUSTOM_A", lambda: ResourceRequest([RequestGroup(required=["CUSTOM_A"])])),
        ("resources=VCPU:1&limit=0", lambda: ResourceRequest.of(VCPU, limit=0)),
        ("resources=VCPU:1&required=a", lambda: ResourceRequest.of(VCPU, required=["a"])),
        ("resources=VCPU:1&required=", lambda: ResourceRequest.of(VCPU, required=[""])),
        ("resources=VCPU:1&required=in:", lambda: ResourceRequest.of(VCPU, any_of=[[]])),
        ("resources=VCPU:1&required=CUSTOM_A,!CUSTOM_A",
         lambda: ResourceRequest.of(VCPU, required=["CUSTOM_A"], forbidden=["CUSTOM_A"])),
        ("resources=VCPU:1&required=in:CUSTOM_A,CUSTOM_B&required=!CUSTOM_A,!CUSTOM_B",
         lambda: ResourceRequest.of(VCPU, any_of=[TRAITS[:2]], forbidden=TRAITS[:2])),
        ("resources=VCPU:1&root_required=CUSTOM_A,!CUSTOM_A",
         lambda: ResourceRequest.of(
             VCPU, root_required=["CUSTOM_A"], root_forbidden=["CUSTOM_A"])),
        ("resources=VCPU:1&member_of=x", lambda: ResourceRequest.of(VCPU, member_of=[["x"]])),
        ("resources=VCPU:1&member_of=!x",
         lambda: ResourceRequest.of(VCPU, forbidden_aggregates=["x"])),
        ("resources=VCPU:1&in_tree=x", lambda: ResourceRequest.of(VCPU, in_tree="x")),
        ("resources=VCPU:1&required_B=CUSTOM_A",
         lambda: ResourceRequest([RequestGroup(VCPU),
                                  RequestGroup(suffix="_B", required=["CUSTOM_A"])])),
        ("required_B=CUSTOM_A&same_subtree=_B",
         lambda: ResourceRequest([RequestGroup(suffix="_B", required=["CUSTOM_A"])],
                                 same_subtree=[["_B"]])),
        ("resources_A=VCPU:1&same_subtree=_A,_B",
         lambda: ResourceRequest([RequestGroup(VCPU, suffix="_A")],
                                 same_subtree=[["_A", "_B"]])),
        ("resources=VCPU:1&same_subtree=",
         lambda: ResourceRequest([RequestGroup(VCPU)], same_subtree=[[""]])),
        ("resources1=VCPU:1&resources2=VCPU:1",
         lambda: ResourceRequest([RequestGroup(VCPU, suffix=n) for n in (1, 2)])),
        ("resources1=VCPU:1&required2=CUSTOM_A&same_subtree=1,2",
         lambda: ResourceRequest([RequestGroup(VCPU, suffix=1),
                                  RequestGroup(suffix=2, required=["CUSTOM_A"])],
                                 same_subtree=[[1, 2]])),
        ("resources1=VCPU:1&group_policy=some",
         lambda: ResourceRequest([RequestGroup(VCPU, suffix=1)], group_policy="some")),
        ("resources.=VCPU:1", lambda: ResourceRequest([RequestGroup(VCPU, suffix=".")])),
        (f"resources{'x' * 65}=VCPU:1",
         lambda: ResourceRequest([RequestGroup(VCPU, suffix="x" * 65)])),
    ],
)  # fmt: skip
def test_what_cannot_be_built_would_be_refused(both, query, build):
    with pytest.raises(exceptions.InvalidInput):
        build()
    assert both("GET", f"{C}?{query}")[0] == 400


def test_the_order_in_which_groups_are_sent_does_not_matter(both):
    request = ResourceRequest(
        [RequestGroup({"CUSTOM_X": 1}, suffix=n, required=[TRAITS[n]]) for n in (1, 2)],
        group_policy="none",
    )
    sent = request.to_querystring().split("&")
    found = both("GET", f"{C}?{'&'.join(sent)}")
    assert found == both("GET", f"{C}?{'&'.join(reversed(sent))}")
    assert found[1]["allocation_requests"]
