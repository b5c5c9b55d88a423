# SPDX-License-Identifier: Apache-2.0
"""Finding room: every kind of request, on the fake and the real service, new and old."""

from __future__ import annotations

import copy
import uuid

import pytest

from reportclient import AllocationCandidates, RequestGroup, ResourceRequest, exceptions
from reportclient.testing import FakePlacement

HOST, NUMA0, NUMA1, NIC, FLAT, DISKS = (str(uuid.UUID(int=n, version=4)) for n in range(1, 7))
RACK, ROOM, NOWHERE = (str(uuid.UUID(int=n, version=4)) for n in range(101, 104))
VCPU = {"VCPU": 1}
ROUTE = ("GET", "/allocation_candidates*")


@pytest.fixture
def cloud(operator):
    """A host with two NUMA nodes, a NIC below the second; a flat host; shared disks."""
    operator.create_provider("host", HOST)
    operator.create_provider("numa0", NUMA0, HOST)
    operator.create_provider("numa1", NUMA1, HOST)
    operator.create_provider("nic", NIC, NUMA1)
    operator.create_provider("flat", FLAT)
    operator.create_provider("disks", DISKS)
    for numa in (NUMA0, NUMA1):
        operator.set_inventory(numa, {"VCPU": {"total": 4}, "MEMORY_MB": {"total": 4096}})
    operator.set_inventory(NIC, {"SRIOV_NET_VF": {"total": 8}})
    operator.set_inventory(FLAT, {"VCPU": {"total": 16}, "MEMORY_MB": {"total": 8192}})
    operator.set_inventory(DISKS, {"DISK_GB": {"total": 1000}})
    operator.set_traits(HOST, {"CUSTOM_HOST"})
    operator.set_traits(NUMA0, {"CUSTOM_A", "CUSTOM_GOLD"})
    operator.set_traits(NUMA1, {"CUSTOM_B"})
    operator.set_traits(NIC, {"CUSTOM_NIC"})
    operator.set_traits(FLAT, {"CUSTOM_A"})
    operator.set_traits(DISKS, {"MISC_SHARES_VIA_AGGREGATE"})
    operator.set_aggregates(HOST, {RACK})
    operator.set_aggregates(FLAT, {RACK, ROOM})
    operator.set_aggregates(DISKS, {RACK})
    return operator


def users(found):
    """Who gives something, in each of the answers."""
    return sorted(sorted(each["allocations"]) for each in found.allocation_requests)


def granular(*groups, **settings):
    return ResourceRequest(groups, **settings)


CPU = RequestGroup(VCPU, suffix="_CPU")
VF = RequestGroup({"SRIOV_NET_VF": 1}, suffix="_VF")
NEAR = RequestGroup(suffix="_NEAR", required=["CUSTOM_NIC"])


@pytest.mark.parametrize(
    ("request_", "expected", "version"),
    [
        ({"VCPU": 5}, [[FLAT]], "1.38"),
        ({"VCPU": 1, "DISK_GB": 5}, [[NUMA0, DISKS], [NUMA1, DISKS], [FLAT, DISKS]], "1.38"),
        (ResourceRequest.of(VCPU, required=["CUSTOM_A"]), [[NUMA0], [FLAT]], "1.38"),
        (ResourceRequest.of(VCPU, required=["CUSTOM_A", "CUSTOM_GOLD"]), [[NUMA0]], "1.38"),
        (ResourceRequest.of(VCPU, forbidden=["CUSTOM_A"]), [[NUMA1]], "1.38"),
        (ResourceRequest.of(VCPU, required=["CUSTOM_A"], forbidden=["CUSTOM_GOLD"]), [[FLAT]],
         "1.38"),
        (ResourceRequest.of(VCPU, any_of=[["CUSTOM_B", "CUSTOM_GOLD"]]), [[NUMA0], [NUMA1]],
         "1.39"),
        (ResourceRequest.of(VCPU, required=["CUSTOM_A"], any_of=[["CUSTOM_B", "CUSTOM_GOLD"]]),
         [[NUMA0]], "1.39"),
        (ResourceRequest.of(VCPU, member_of=[[RACK]]), [[NUMA0], [NUMA1], [FLAT]], "1.38"),
        (ResourceRequest.of(VCPU, member_of=[[ROOM, NOWHERE]]), [[FLAT]], "1.38"),
        (ResourceRequest.of(VCPU, member_of=[[RACK], [ROOM, NOWHERE]]), [[FLAT]], "1.38"),
        (ResourceRequest.of(VCPU, member_of=[[RACK], [NOWHERE]]), [], "1.38"),
        (ResourceRequest.of(VCPU, forbidden_aggregates=[ROOM, NOWHERE]), [[NUMA0], [NUMA1]],
         "1.38"),
        (ResourceRequest.of(VCPU, in_tree=NIC.upper()), [[NUMA0], [NUMA1]], "1.38"),
        (ResourceRequest.of(VCPU, root_required=["CUSTOM_HOST"]), [[NUMA0], [NUMA1]], "1.38"),
        (ResourceRequest.of(VCPU, root_forbidden=["CUSTOM_HOST"]), [[FLAT]], "1.38"),
        (granular(CPU, VF, group_policy="none"), [[NUMA0, NIC], [NUMA1, NIC]], "1.38"),
        (granular(CPU, VF, group_policy="none", same_subtree=[["_CPU", "_VF"]]), [[NUMA1, NIC]],
         "1.38"),
        (granular(CPU, NEAR, group_policy="none", same_subtree=[["_CPU", "_NEAR"]]), [[NUMA1]],
         "1.38"),
        (granular(RequestGroup({"MEMORY_MB": 512}), CPU, root_required=["CUSTOM_HOST"]),
         [[NUMA0], [NUMA0, NUMA1], [NUMA0, NUMA1], [NUMA1]], "1.38"),
        (granular(*(RequestGroup(VCPU, suffix=n, in_tree=HOST) for n in (1, 2)),
                  group_policy="isolate"), [[NUMA0, NUMA1], [NUMA0, NUMA1]], "1.38"),
        ({"VCPU": 99}, [], "1.38"),
    ],
)  # fmt: skip
def test_what_is_found(client, placement, cloud, request_, expected, version):
    found = client.get_allocation_candidates(None, request_)
    assert users(found) == sorted(sorted(each) for each in expected)
    assert found.version == version
    [sent] = placement.requests
    assert sent.microversion == version
    assert sent.response_json["allocation_requests"] == found.allocation_requests
    named = {uuid for each in found.allocation_requests for uuid in each["allocations"]}
    assert named <= found.provider_summaries.keys()
    if not expected:
        assert found == ([], {}, version)


def test_a_limit(client, cloud):
    found = client.get_allocation_candidates(None, ResourceRequest.of(VCPU, limit=2))
    assert len(found.allocation_requests) == 2


def test_what_an_answer_holds(client, cloud):
    found = client.get_allocation_candidates(None, granular(CPU, VF, group_policy="isolate"))
    assert isinstance(found, AllocationCandidates)
    one = next(each for each in found.allocation_requests if NUMA0 in each["allocations"])
    assert one == {
        "allocations": {
            NUMA0: {"resources": {"VCPU": 1}},
            NIC: {"resources": {"SRIOV_NET_VF": 1}},
        },
        "mappings": {"_CPU": [NUMA0], "_VF": [NIC]},
    }
    assert found.provider_summaries[NIC] == {
        "resources": {"SRIOV_NET_VF": {"capacity": 8, "used": 0}},
        "traits": ["CUSTOM_NIC"],
        "parent_provider_uuid": NUMA1,
        "root_provider_uuid": HOST,
    }
    assert found.provider_summaries.keys() == {HOST, NUMA0, NUMA1, NIC}


def test_what_is_found_can_be_claimed_at_its_version(client, cloud):
    request = ResourceRequest.of({"VCPU": 1, "DISK_GB": 5})
    found = client.get_allocation_candidates(None, request)
    body = {
        **found.allocation_requests[0],
        "project_id": "p",
        "user_id": "u",
        "consumer_generation": None,
        "consumer_type": "INSTANCE",
    }
    cloud.call("PUT", f"/allocations/{uuid.uuid4()}", body, version=found.version)
    again = client.get_allocation_candidates(None, request)
    assert again.provider_summaries[DISKS]["resources"]["DISK_GB"]["used"] == 5


def test_b160_an_answer_is_the_callers_own(client, cloud):
    found = client.get_allocation_candidates(None, VCPU)
    before = copy.deepcopy(found)
    found.allocation_requests.clear()
    found.provider_summaries.clear()
    again = client.get_allocation_candidates(None, VCPU)
    assert users(again) == users(before)
    assert again.provider_summaries.keys() == before.provider_summaries.keys()


def test_the_request_is_the_contexts(client, placement, cloud):
    class Context:
        global_id = f"req-{uuid.uuid4()}"

    client.get_allocation_candidates(Context(), VCPU)
    assert placement.requests[-1].headers["X-Openstack-Request-Id"] == Context.global_id


# -- requests that others make -------------------------------------------------------------


class Foreign:
    def __init__(self, text):
        self.text = text

    def to_querystring(self):
        return self.text


@pytest.mark.parametrize(
    ("text", "expected", "version"),
    [
        ("resources=VCPU%3A1&required=CUSTOM_A%2C%21CUSTOM_GOLD", [[FLAT]], "1.38"),
        ("?resources=VCPU:1&required=!CUSTOM_A", [[NUMA1]], "1.38"),
        ("limit=1000&resources=VCPU:1&in_tree=+" + FLAT, [[FLAT]], "1.38"),
        ("resources=VCPU:1&required=CUSTOM_A&required=CUSTOM_GOLD", [[NUMA0]], "1.39"),
        ("resources=VCPU:1&required=in:CUSTOM_B,CUSTOM_GOLD", [[NUMA0], [NUMA1]], "1.39"),
    ],
)
def test_any_object_with_a_query(client, cloud, text, expected, version):
    found = client.get_allocation_candidates(None, Foreign(text))
    assert (users(found), found.version) == (sorted(map(sorted, expected)), version)


def test_a_foreign_query_that_placement_refuses(client, placement, cloud):
    with pytest.raises(exceptions.AllocationCandidateRetrievalFailed) as caught:
        client.get_allocation_candidates(None, Foreign("resources=VCPU:1&colour=red"))
    error = caught.value
    assert (error.status, error.retryable) == (400, False)
    assert isinstance(error.__cause__, exceptions.BadRequest)
    assert "colour" in error.detail
    assert error.request_id


@pytest.mark.parametrize("given", [None, {}, {"VCPU": 0}, "resources=VCPU:1", Foreign("")])
def test_what_is_no_request_is_not_sent(client, placement, given):
    with pytest.raises(exceptions.InvalidResourceRequest):
        client.get_allocation_candidates(None, given)
    assert placement.requests == []


# -- older servers ----------------------------------------------------------------------------


def flat(service):
    service.operator.create_provider("flat", FLAT)
    service.operator.set_inventory(FLAT, {"VCPU": {"total": 16}, "MEMORY_MB": {"total": 8192}})
    return service


@pytest.mark.parametrize(
    "version", ["1.12", "1.16", "1.17", "1.28", "1.29", "1.33", "1.34", "1.36", "1.37"]
)
def test_b134_the_newest_that_an_older_server_has(older, make_client, version):
    service = flat(older(version))
    client = make_client(service.adapter())
    for _ in range(2):
        found = client.get_allocation_candidates(None, {"VCPU": 1, "MEMORY_MB": 64})
        assert found.version == version
        [one] = found.allocation_requests
        assert one["allocations"] == {FLAT: {"resources": {"VCPU": 1, "MEMORY_MB": 64}}}
        assert ("mappings" in one) == (version in ("1.34", "1.36", "1.37"))
        assert found.provider_summaries[FLAT]["resources"]["VCPU"]["capacity"] == 16
    assert [request.status for request in service.requests] == [406, 200, 200]


@pytest.mark.parametrize(
    ("request_", "needed"),
    [
        (ResourceRequest.of(VCPU, limit=1), 16),
        (ResourceRequest.of(VCPU, required=["HW_CPU_X86_AVX"]), 17),
        (ResourceRequest.of(VCPU, member_of=[[RACK]]), 21),
        (ResourceRequest.of(VCPU, forbidden=["HW_CPU_X86_AVX"]), 22),
        (ResourceRequest.of(VCPU, member_of=[[RACK], [ROOM]]), 24),
        (granular(RequestGroup(VCPU, suffix=1)), 25),
        (granular(*(RequestGroup(VCPU, suffix=n) for n in (1, 2)), group_policy="none"), 25),
        (ResourceRequest.of(VCPU, in_tree=FLAT), 31),
        (ResourceRequest.of(VCPU, forbidden_aggregates=[ROOM]), 32),
        (granular(CPU), 33),
        (ResourceRequest.of(VCPU, root_required=["HW_CPU_X86_AVX"]), 35),
        (granular(RequestGroup(VCPU, suffix=1), same_subtree=[[1]]), 36),
        (ResourceRequest.of(VCPU, any_of=[["HW_CPU_X86_AVX", "HW_CPU_X86_SSE"]]), 39),
        (Foreign("resources=VCPU:1&required=HW_CPU_X86_AVX&required=HW_CPU_X86_SSE"), 39),
    ],
)
def test_b134_b136_what_a_server_is_too_old_for(older, make_client, request_, needed):
    """It is refused, and never asked for with another meaning."""
    service = flat(older(f"1.{needed - 1}"))
    client = make_client(service.adapter())
    with pytest.raises(exceptions.MicroversionNotSupported) as caught:
        client.get_allocation_candidates(None, request_)
    assert (caught.value.needed, caught.value.offered) == (
        f"1.{needed}",
        ("1.0", f"1.{needed - 1}"),
    )
    assert [request.status for request in service.requests] == [406]
    # What it is not too old for still works, and no 406 is met again.
    if needed > 12:
        assert client.get_allocation_candidates(None, VCPU).version == f"1.{needed - 1}"
        assert len(service.requests) == 2


@pytest.mark.parametrize("version", ["1.9", "1.10", "1.11"])
def test_b134_servers_whose_answers_could_not_be_claimed(older, make_client, version):
    client = make_client(older(version).adapter())
    with pytest.raises(exceptions.MicroversionNotSupported) as caught:
        client.get_allocation_candidates(None, VCPU)
    assert caught.value.needed == "1.12"


def test_the_lowest_server_that_will_do(older, make_client):
    """All features but the newest, at the microversion that the last of them needs."""
    service = flat(older("1.36"))
    service.operator.set_traits(FLAT, ["CUSTOM_A"])
    service.operator.set_aggregates(FLAT, [RACK])
    request = granular(
        RequestGroup({"MEMORY_MB": 64}, in_tree=FLAT, member_of=[[RACK], [RACK, ROOM]]),
        RequestGroup(VCPU, suffix="_CPU", required=["CUSTOM_A"], forbidden_aggregates=[ROOM]),
        root_required=["CUSTOM_A"],
        same_subtree=[["_CPU"]],
        limit=5,
    )
    found = make_client(service.adapter()).get_allocation_candidates(None, request)
    assert (users(found), found.version) == ([[FLAT]], "1.36")


# -- failures ------------------------------------------------------------------------------------


def test_names_that_this_placement_does_not_know(client, cloud):
    with pytest.raises(exceptions.UnknownTrait) as caught:
        client.get_allocation_candidates(
            None, ResourceRequest.of(VCPU, required=["CUSTOM_A", "CUSTOM_NONE"])
        )
    assert caught.value.names == ("CUSTOM_NONE",)
    with pytest.raises(exceptions.UnknownResourceClass) as caught:
        client.get_allocation_candidates(None, {"CUSTOM_NONE": 1})
    assert caught.value.names == ("CUSTOM_NONE",)


@pytest.mark.parametrize("status", [413, 414, 431])
def test_b143_a_query_that_is_too_long_for_something_on_the_way(client, placement, status):
    placement.respond(ROUTE, status=status, body="<html>too long</html>", times=50)
    many = [str(uuid.uuid4()) for _ in range(500)]
    with pytest.raises(exceptions.AllocationCandidateRetrievalFailed) as caught:
        client.get_allocation_candidates(None, ResourceRequest.of(VCPU, member_of=[many]))
    assert isinstance(caught.value.__cause__, exceptions.RequestTooLarge)
    assert (caught.value.status, caught.value.retryable) == (status, False)
    assert len(placement.requests) == 1


def test_a_long_query_arrives(client, placement, cloud):
    many = [str(uuid.uuid4()) for _ in range(200)]
    request = ResourceRequest.of(VCPU, member_of=[[*many, ROOM]])
    assert users(client.get_allocation_candidates(None, request)) == [[FLAT]]


def test_a_failure_is_never_an_empty_answer(client, placement, cloud):
    placement.respond(ROUTE, status=500, body={"errors": [{"status": 500}]}, times=50)
    with pytest.raises(exceptions.AllocationCandidateRetrievalFailed) as caught:
        client.get_allocation_candidates(None, VCPU)
    assert (caught.value.status, caught.value.retryable) == (500, True)


def test_a_fault_that_passes_is_not_seen(client, placement, cloud):
    placement.respond(ROUTE, status=503, body="busy")
    assert users(client.get_allocation_candidates(None, VCPU)) == sorted(
        [[NUMA0], [NUMA1], [FLAT]]
    )


@pytest.mark.parametrize("status", [502, 503, 504, 429])
def test_b140_a_proxy_that_has_no_placement(client, placement, status):
    placement.respond(ROUTE, status=status, body="<html>sorry</html>", times=50)
    with pytest.raises(exceptions.PlacementUnavailable) as caught:
        client.get_allocation_candidates(None, VCPU)
    assert caught.value.status == status


REQUEST = {"allocations": {FLAT: {"resources": {"VCPU": 1}}}, "mappings": {"": [FLAT]}}
SUMMARY = {
    "resources": {"VCPU": {"capacity": 16, "used": 0}},
    "traits": [],
    "parent_provider_uuid": None,
    "root_provider_uuid": FLAT,
}


def body(request=REQUEST, summary=SUMMARY):
    return {"allocation_requests": [request], "provider_summaries": {FLAT: summary}}


def without(record, name):
    return {key: value for key, value in record.items() if key != name}


@pytest.mark.parametrize(
    "answer",
    [
        "<html>maintenance</html>",
        '{"allocation_requests": [',
        "",
        [],
        {},
        without(body(), "allocation_requests"),
        without(body(), "provider_summaries"),
        body() | {"allocation_requests": None},
        body() | {"allocation_requests": {}},
        body() | {"provider_summaries": []},
        *(body(given) for given in (
            None,
            [],
            without(REQUEST, "allocations"),
            without(REQUEST, "mappings"),
            REQUEST | {"allocations": {}},
            # The form below 1.12.
            REQUEST | {"allocations": [{"resource_provider": {"uuid": FLAT}}]},
            REQUEST | {"allocations": {FLAT: {}}},
            REQUEST | {"allocations": {FLAT: {"resources": None}}},
            REQUEST | {"allocations": {FLAT: {"resources": {"VCPU": "1"}}}},
            REQUEST | {"allocations": {FLAT: {"resources": {"VCPU": True}}}},
            REQUEST | {"mappings": []},
            REQUEST | {"mappings": {"": FLAT}},
            REQUEST | {"mappings": {"": [None]}},
        )),
        *(body(summary=given) for given in (
            None,
            *(without(SUMMARY, name) for name in SUMMARY),
            SUMMARY | {"resources": {"VCPU": {"capacity": 16}}},
            SUMMARY | {"resources": {"VCPU": {"capacity": None, "used": 0}}},
            SUMMARY | {"resources": {"VCPU": 16}},
            SUMMARY | {"traits": "CUSTOM_A"},
            SUMMARY | {"traits": [1]},
            SUMMARY | {"parent_provider_uuid": 1},
            SUMMARY | {"root_provider_uuid": None},
        )),
    ],
)  # fmt: skip
def test_b142_an_answer_of_another_shape(make_client, answer):
    with FakePlacement() as service:
        service.respond(ROUTE, status=200, body=answer, times=50)
        with pytest.raises(exceptions.BadAnswer) as caught:
            make_client(service.adapter()).get_allocation_candidates(None, VCPU)
        assert caught.value.status == 200


def test_an_answer_of_the_right_shape_with_more_in_it(client, placement):
    more = {"x": 1}
    placement.respond(ROUTE, status=200, body=body(REQUEST | more, SUMMARY | more) | more)
    found = client.get_allocation_candidates(None, VCPU)
    assert found == ([REQUEST | more], {FLAT: SUMMARY | more}, "1.38")
