# SPDX-License-Identifier: Apache-2.0
"""``GET /allocation_candidates``: the fake finds what the service finds."""

from __future__ import annotations

import pytest
from side_by_side import SideBySide, an_id, normal

HOST, NUMA0, NUMA1, NIC, FLAT, DISKS, FAR = (an_id(n) for n in range(1, 8))
RACK, ROOM, NOWHERE = (an_id(n) for n in range(101, 104))
MISSING = an_id(99)
C = "/allocation_candidates"
SHARES = "MISC_SHARES_VIA_AGGREGATE"


def prepare(operator):
    """A tree with two NUMA nodes and a NIC, a flat host, shared disks, a host apart."""
    operator.create_provider("host", HOST)
    operator.create_provider("numa0", NUMA0, HOST)
    operator.create_provider("numa1", NUMA1, HOST)
    operator.create_provider("nic", NIC, NUMA1)
    operator.create_provider("flat", FLAT)
    operator.create_provider("disks", DISKS)
    operator.create_provider("far", FAR)
    memory = {"total": 4096, "reserved": 512, "min_unit": 64, "step_size": 64}
    operator.set_inventory(HOST, {"DISK_GB": {"total": 100}})
    operator.set_inventory(NUMA0, {"VCPU": {"total": 4}, "MEMORY_MB": memory})
    operator.set_inventory(
        NUMA1, {"VCPU": {"total": 4, "allocation_ratio": 2.0}, "MEMORY_MB": memory}
    )
    operator.set_inventory(NIC, {"SRIOV_NET_VF": {"total": 8, "max_unit": 2}})
    operator.set_inventory(FLAT, {"VCPU": {"total": 16}, "MEMORY_MB": {"total": 8192}})
    operator.set_inventory(DISKS, {"DISK_GB": {"total": 1000}})
    operator.set_inventory(FAR, {"VCPU": {"total": 8}, "CUSTOM_X": {"total": 8}})
    operator.set_traits(HOST, {"CUSTOM_HOST", "COMPUTE_NODE"})
    operator.set_traits(NUMA0, {"CUSTOM_A", "HW_NUMA_ROOT"})
    operator.set_traits(NUMA1, {"CUSTOM_B", "HW_NUMA_ROOT"})
    operator.set_traits(NIC, {"CUSTOM_NIC"})
    operator.set_traits(FLAT, {"CUSTOM_A", "COMPUTE_NODE"})
    operator.set_traits(DISKS, {SHARES, "CUSTOM_SSD"})
    operator.set_aggregates(HOST, {RACK})
    operator.set_aggregates(NUMA0, {ROOM})
    operator.set_aggregates(FLAT, {RACK, ROOM})
    operator.set_aggregates(DISKS, {RACK})
    operator.allocate(an_id(201), {NUMA0: {"VCPU": 2, "MEMORY_MB": 1024}, DISKS: {"DISK_GB": 50}})


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


def used(answer):
    """Who gives something, in each of the answers."""
    return sorted(sorted(each["allocations"]) for each in answer["allocation_requests"])


@pytest.mark.parametrize("minor", range(40))
def test_every_microversion(both, minor):
    """Every parameter, from the version on that knows it."""
    statuses = [
        both("GET", f"{C}?{query}", version=f"1.{minor}")[0]
        for query in (
            "",
            "resources=VCPU:1",
            "resources=VCPU:1,MEMORY_MB:64,DISK_GB:5",
            "resources=CUSTOM_X:1",
            "resources=VCPU:1&limit=100",
            "resources=VCPU:1&required=CUSTOM_A",
            "resources=VCPU:1&required=!CUSTOM_A",
            "resources=VCPU:1&required=in:CUSTOM_A,CUSTOM_B",
            "resources=VCPU:1&required=CUSTOM_A&required=COMPUTE_NODE",
            f"resources=VCPU:1&member_of={RACK}",
            f"resources=VCPU:1&member_of=in:{RACK},{ROOM}",
            f"resources=VCPU:1&member_of={RACK}&member_of={ROOM}",
            f"resources=VCPU:1&member_of=!{ROOM}",
            f"resources=VCPU:1&member_of=!in:{RACK},{ROOM}",
            f"resources=VCPU:1&in_tree={NIC}",
            "resources1=VCPU:1",
            "resources1=VCPU:1&resources2=VCPU:1",
            "resources1=VCPU:1&resources2=VCPU:1&group_policy=none",
            "resources1=VCPU:1&resources2=VCPU:1&group_policy=isolate",
            "resources=MEMORY_MB:64&resources1=VCPU:1&required1=CUSTOM_A",
            f"resources1=VCPU:1&member_of1={ROOM}",
            f"resources1=VCPU:1&in_tree1={HOST}",
            "resources_CPU=VCPU:1&required_CPU=CUSTOM_A",
            "resources=VCPU:1&root_required=CUSTOM_HOST",
            "resources_A=VCPU:1&resources_B=SRIOV_NET_VF:1&group_policy=none&same_subtree=_A,_B",
            "resources_A=VCPU:1&required_N=CUSTOM_NIC&group_policy=none&same_subtree=_A,_N",
        )
    ]
    if minor < 10:
        assert set(statuses) == {404}
    elif minor < 39:
        assert set(statuses) == {200, 400}
    else:
        assert statuses.count(400) == 2


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("resources=VCPU:3", [[FAR], [FLAT], [NUMA1]]),
        ("resources=VCPU:5", [[FAR], [FLAT], [NUMA1]]),
        ("resources=VCPU:9", [[FLAT]]),
        ("resources=MEMORY_MB:65", [[FLAT]]),
        ("resources=MEMORY_MB:32", [[FLAT]]),
        ("resources=MEMORY_MB:2560", [[FLAT], [NUMA0], [NUMA1]]),
        ("resources=MEMORY_MB:2624", [[FLAT], [NUMA1]]),
        ("resources=SRIOV_NET_VF:2", [[NIC]]),
        ("resources=SRIOV_NET_VF:3", []),
        ("resources=DISK_GB:950", [[DISKS]]),
        ("resources=DISK_GB:951", []),
        ("resources=VCPU:1,DISK_GB:10",
         [[DISKS, FLAT], [DISKS, NUMA0], [DISKS, NUMA1], [HOST, NUMA0], [HOST, NUMA1]]),
        ("resources=VCPU:1,DISK_GB:10&required=CUSTOM_SSD,CUSTOM_A",
         [[DISKS, FLAT], [DISKS, NUMA0]]),
        ("resources=VCPU:1,DISK_GB:10&required=!CUSTOM_SSD", [[HOST, NUMA0], [HOST, NUMA1]]),
        (f"resources=VCPU:1,DISK_GB:10&in_tree={NIC}", [[HOST, NUMA0], [HOST, NUMA1]]),
        # The root's aggregate is the whole tree's; the root of a tree is not in its child's.
        (f"resources=VCPU:1&member_of={RACK}", [[FLAT], [NUMA0], [NUMA1]]),
        (f"resources=VCPU:1&member_of={ROOM}", [[FLAT], [NUMA0]]),
        (f"resources=VCPU:1&member_of=!{RACK}", [[FAR]]),
        (f"resources=VCPU:1&member_of=!{ROOM}", [[FAR], [NUMA1]]),
        # In a group with a suffix it is not.
        (f"resources1=VCPU:1&member_of1={RACK}", [[FLAT]]),
        (f"resources1=VCPU:1&member_of1=!{RACK}", [[FAR], [NUMA0], [NUMA1]]),
        (f"resources=VCPU:1&member_of={NOWHERE}", []),
        (f"resources=VCPU:1&in_tree={MISSING}", []),
        (f"resources=VCPU:1&in_tree={HOST.upper()}", [[NUMA0], [NUMA1]]),
        (f"resources=VCPU:1&in_tree={HOST.replace('-', '')}", []),
        (f"resources=VCPU:1&in_tree=+{FLAT}+", [[FLAT]]),
        ("resources=VCPU:1&root_required=CUSTOM_HOST", [[NUMA0], [NUMA1]]),
        ("resources=VCPU:1&root_required=!CUSTOM_HOST,COMPUTE_NODE", [[FLAT]]),
        ("resources=VCPU:1&root_required=CUSTOM_NIC", []),
        ("resources=VCPU:1&required=in:CUSTOM_B,CUSTOM_A", [[FLAT], [NUMA0], [NUMA1]]),
        ("resources=VCPU:1&required=in:CUSTOM_B,CUSTOM_A&required=COMPUTE_NODE", [[FLAT]]),
        ("resources=VCPU:1&required=CUSTOM_A,!COMPUTE_NODE", [[NUMA0]]),
        # Together more than one of them has.
        ("resources1=VCPU:2&resources2=VCPU:2&group_policy=none&required1=CUSTOM_A"
         "&required2=CUSTOM_A", [[FLAT]]),
        ("resources1=VCPU:1&resources2=VCPU:1&group_policy=isolate",
         [[NUMA0, NUMA1], [NUMA0, NUMA1]]),
        ("resources1=SRIOV_NET_VF:1&resources2=SRIOV_NET_VF:1&group_policy=none", [[NIC]]),
        ("resources1=SRIOV_NET_VF:2&resources2=SRIOV_NET_VF:1&group_policy=none", []),
        ("resources1=VCPU:1&resources2=DISK_GB:5&group_policy=none&required1=CUSTOM_A",
         [[DISKS, FLAT], [DISKS, NUMA0], [HOST, NUMA0]]),
        ("resources_A=VCPU:1&resources_B=SRIOV_NET_VF:1&group_policy=none&same_subtree=_A,_B",
         [[NIC, NUMA1]]),
        ("resources_A=VCPU:1&resources_B=SRIOV_NET_VF:1&group_policy=none",
         [[NIC, NUMA0], [NIC, NUMA1]]),
        ("resources_A=VCPU:1&required_N=CUSTOM_NIC&group_policy=none&same_subtree=_A,_N",
         [[NUMA1]]),
        ("resources_A=VCPU:1&required_N=CUSTOM_HOST&group_policy=isolate&same_subtree=_A,_N",
         [[NUMA0], [NUMA1]]),
        ("resources_A=VCPU:1&required_N=CUSTOM_A&group_policy=isolate&same_subtree=_A,_N", []),
        # A group without resources has to ask for something.
        ("resources_A=VCPU:1&required_N=!CUSTOM_NIC&group_policy=none&same_subtree=_A,_N", []),
        (f"resources_A=VCPU:1&in_tree_N={HOST}&group_policy=none&same_subtree=_A,_N", []),
        (f"resources_A=VCPU:1&member_of_N=!{RACK}&group_policy=none&same_subtree=_A,_N", []),
        (f"resources_A=VCPU:1&required_N=CUSTOM_A&in_tree_N={HOST}&group_policy=none"
         "&same_subtree=_A,_N", [[FLAT], [NUMA0]]),
        (f"resources_A=VCPU:1&member_of_N={RACK}&group_policy=none&same_subtree=_A,_N",
         [[FLAT], [NUMA0], [NUMA1]]),
    ],
)  # fmt: skip
def test_what_is_found(both, query, expected):
    status, answer = both("GET", f"{C}?{query}")
    assert (status, used(answer)) == (200, sorted(sorted(each) for each in expected))


@pytest.mark.parametrize(
    "query",
    [
        "resources=",
        "resources=VCPU",
        "resources=VCPU:0",
        "resources=VCPU:x",
        "resources=VCPU:1:2",
        "resources=VCPU:1,VCPU:9",
        "resources=VCPU:1&resources=VCPU:9",
        "resources=CUSTOM_NO:1",
        "resources=VCPU:999,CUSTOM_NO:1",
        "resources=VCPU:1&colour=red",
        "resources=VCPU:1&Resources=VCPU:1",
        *(f"resources=VCPU:1&limit={limit}" for limit in ("", "0", "-1", "x", "01", "1.5")),
        "resources=VCPU:1&limit=99&limit=100",
        *(f"resources=VCPU:1&required={value}" for value in (
            "", ",", "!", "!!CUSTOM_A", "CUSTOM_NO", "!CUSTOM_NO", "CUSTOM_A,!CUSTOM_A", "in:",
            "in:!CUSTOM_A", "in:CUSTOM_A,CUSTOM_NO", "%20CUSTOM_A%20,%20CUSTOM_B",
        )),
        "resources=VCPU:1&required=in:CUSTOM_A,CUSTOM_B&required=!CUSTOM_A,!CUSTOM_B",
        "resources=VCPU:1&required=CUSTOM_A&required=!CUSTOM_A",
        "resources=VCPU:1&required=CUSTOM_A&resources1=VCPU:1&required1=!CUSTOM_A,CUSTOM_A",
        *(f"resources=VCPU:1&member_of={value}" for value in (
            "", "x", "in:", "!", "!in:x", f"{RACK},{ROOM}", f"!{RACK},{ROOM}",
        )),
        f"resources=VCPU:1&member_of={NOWHERE}&required=CUSTOM_NO",
        f"resources1=VCPU:1&member_of1={RACK}&member_of1=!{ROOM}",
        f"resources=VCPU:1&in_tree={MISSING}&required=CUSTOM_NO",
        "resources=VCPU:1&in_tree=x",
        "resources=VCPU:1&in_tree=",
        "required=CUSTOM_A",
        f"member_of={RACK}",
        f"in_tree={HOST}",
        "resources=VCPU:1&required1=CUSTOM_A",
        "resources=VCPU:1&required1=!CUSTOM_A",
        f"resources=VCPU:1&member_of1={RACK}",
        f"resources=VCPU:1&in_tree1={HOST}",
        *(f"resources{suffix}=VCPU:1" for suffix in (
            "0", "01", "1", "10", "_", "-a", "A.B", "a%20b", "x" * 64, "x" * 65,
        )),
        "resources1=VCPU:999&resources2=CUSTOM_NO:1&group_policy=none",
        "resources2=CUSTOM_NO:1&resources1=VCPU:999&group_policy=none",
        "resources1=VCPU:1&resources2=VCPU:1&group_policy=",
        "resources1=VCPU:1&resources2=VCPU:1&group_policy=some",
        "resources1=VCPU:1&resources2=VCPU:1&group_policy=isolate&group_policy=none",
        "resources=VCPU:1&group_policy=none",
        "resources=VCPU:1&resources1=DISK_GB:1",
    ],
)  # fmt: skip
def test_queries_at_their_edges(both, query):
    for version in ("1.10", "1.24", "1.28", "1.38", "1.39"):
        both("GET", f"{C}?{query}", version=version)


@pytest.mark.parametrize(
    "more",
    [
        *(f"root_required={value}" for value in (
            "", "!", "CUSTOM_NO", "!CUSTOM_NO", "CUSTOM_A,!CUSTOM_A", "in:CUSTOM_A,CUSTOM_B",
            "CUSTOM_HOST&root_required=CUSTOM_A", "CUSTOM_HOST&required=CUSTOM_NO",
            "CUSTOM_NIC&required=CUSTOM_NO",
        )),
        *(f"same_subtree={value}" for value in ("", ",", "_A,", "_A", "_B", "%20_A%20")),
        "required_B=CUSTOM_A",
        "required_B=CUSTOM_A&group_policy=none",
        "required_B=CUSTOM_A&same_subtree=_A",
        "required_B=CUSTOM_A&same_subtree=_A,_B",
        "required_B=CUSTOM_A&same_subtree=_A,_B&group_policy=none",
        "required_B=CUSTOM_A&same_subtree=_B&group_policy=none",
        "required_B=CUSTOM_A&same_subtree=_A&same_subtree=_B&group_policy=isolate",
        "required=CUSTOM_A&same_subtree=_A",
        "resources=MEMORY_MB:64&same_subtree=_A",
    ],
)  # fmt: skip
def test_what_concerns_the_whole_query_at_its_edges(both, more):
    for version in ("1.34", "1.35", "1.36", "1.39"):
        both("GET", f"{C}?resources_A=VCPU:1&{more}", version=version)


@pytest.mark.parametrize("version", ["1.36", "1.39"])
def test_without_any_resources(both, version):
    for query in ("required_B=CUSTOM_A&same_subtree=_B", "group_policy=none", "limit=1"):
        assert both("GET", f"{C}?{query}", version=version)[0] == 400


def test_there_is_but_one_verb(both):
    for method in ("PUT", "POST", "DELETE"):
        assert both(method, C, {})[0] == 405


@pytest.mark.parametrize("version", ["1.16", "1.28", "1.29", "1.39"])
@pytest.mark.parametrize("limit", [1, 2, 4, 1000])
def test_a_limit(both, version, limit):
    """Which ones are left is not said; the summaries are of those."""
    query = f"{C}?resources=VCPU:1,DISK_GB:5"
    every = both("GET", query, version=version)[1]
    for service in both.services:
        answer = service.operator.call("GET", f"{query}&limit={limit}", version=version)
        requests = answer["allocation_requests"]
        assert len(requests) == min(limit, len(every["allocation_requests"]))
        for each in requests:
            each.get("mappings", {"": []})[""].sort()
            assert each in every["allocation_requests"]
        named = {uuid for each in requests for uuid in each["allocations"]}
        assert named <= answer["provider_summaries"].keys()
        assert answer["provider_summaries"].keys() <= every["provider_summaries"].keys()
        if limit == 1 and version != "1.16":
            assert answer["provider_summaries"].keys() < every["provider_summaries"].keys()


def test_what_is_found_can_be_allocated(both):
    """An answer is the body of the write that follows, but for who asks."""
    query = "resources=VCPU:1,DISK_GB:5&resources_NET=SRIOV_NET_VF:1&required_NET=CUSTOM_NIC"
    found = both("GET", f"{C}?{query}")[1]["allocation_requests"]
    assert found
    for each in found:
        body = each | {
            "project_id": "p", "user_id": "u",
            "consumer_generation": None, "consumer_type": "INSTANCE",
        }  # fmt: skip
        assert set(each["mappings"]) == {"", "_NET"}
        assert both("PUT", f"/allocations/{an_id(202)}", body)[0] == 204
        less = both("GET", f"{C}?{query}")[1]["provider_summaries"][NIC]["resources"]
        assert less == {"SRIOV_NET_VF": {"capacity": 8, "used": 1}}
        assert both("DELETE", f"/allocations/{an_id(202)}")[0] == 204


# -- where the service errs, and the fake does not -----------------------------------------


def answers(both, query, version="1.39"):
    """What each finds, in the form of the comparison; it may differ."""
    return [
        normal(service.operator.call("GET", f"{C}?{query}", version=version))
        for service in both.services
    ]


def test_what_sharing_providers_give_alone_goes_with_every_tree(both):
    """The service keeps one of the trees that they share with, whichever comes first.

    That is so if all that the group without a suffix asks for comes from them.
    """
    query = "resources=DISK_GB:500&resources1=VCPU:1&required1=CUSTOM_A"
    ours, theirs = answers(both, query)
    assert used(ours) == [[NUMA0, DISKS], [FLAT, DISKS]]
    assert len(theirs["allocation_requests"]) < 2
    assert all(each in ours["allocation_requests"] for each in theirs["allocation_requests"])
    # With a suffix it keeps them all.
    query = query.replace("resources=", "resources2=")
    assert used(both("GET", f"{C}?{query}&group_policy=none")[1]) == used(ours)


def test_one_class_in_two_groups_is_summed_once(both):
    """Unless there is a ``group_policy=none``, the service adds again what it has added."""
    query = f"resources=VCPU:1&resources1=VCPU:1&in_tree1={HOST}"
    ours, theirs = answers(both, query)
    assert used(ours) == [[NUMA0], [NUMA0, NUMA1], [NUMA0, NUMA1], [NUMA1]]
    for each in ours["allocation_requests"]:
        assert sum(of["resources"]["VCPU"] for of in each["allocations"].values()) == 2
    assert theirs != ours
    status, same = both("GET", f"{C}?{query}&group_policy=none")
    assert (status, used(same)) == (200, used(ours))


def test_a_sharing_provider_within_a_tree():
    """The service answers 500 if its own tree cannot give the rest."""
    with SideBySide() as both:
        both.each(prepare)
        both.each(lambda operator: operator.create_provider("rack", an_id(8)))
        body = {"name": "disks", "parent_provider_uuid": an_id(8)}
        assert both("PUT", f"/resource_providers/{DISKS}", body)[0] == 200
        query = f"{C}?resources=VCPU:1,DISK_GB:500"
        fake, real = (service.operator.try_call("GET", query) for service in both.services)
        assert real[0] == 500
        assert used(fake[1]) == [[NUMA0, DISKS], [NUMA1, DISKS], [FLAT, DISKS]]
        shown = fake[1]["provider_summaries"]
        assert shown[DISKS]["parent_provider_uuid"] == an_id(8)
        # Where it can, the service finds the same.
        assert used(both("GET", f"{C}?resources=DISK_GB:500")[1]) == [[DISKS]]
