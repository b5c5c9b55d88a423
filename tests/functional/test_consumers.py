# SPDX-License-Identifier: Apache-2.0
"""What consumers hold: reading, claiming, moving, changing, giving up."""

from __future__ import annotations

import pickle
import uuid

import pytest
import requests

from reportclient import ProviderAllocInfo, RetryPolicy, Usages, exceptions

LATE = requests.exceptions.ReadTimeout("late")
CONCURRENT = {
    "errors": [
        {
            "status": 409,
            "code": "placement.concurrent_update",
            "detail": "Inventory and/or allocations changed while attempting to allocate: "
            "resource provider generation conflict for provider X",
        }
    ]
}


def new_uuid():
    return str(uuid.uuid4())


@pytest.fixture
def hosts(operator):
    """Two hosts with 8 cores each, and a shared disk."""
    made = [operator.create_provider(name) for name in ("host1", "host2", "disk")]
    for host in made[:2]:
        operator.set_inventory(host, {"VCPU": {"total": 8}, "MEMORY_MB": {"total": 1024}})
    operator.set_inventory(made[2], {"DISK_GB": {"total": 100}})
    return made


@pytest.fixture
def vm():
    return new_uuid()


def request_for(resources, **more):
    allocations = {provider: {"resources": dict(held)} for provider, held in resources.items()}
    return {"allocations": allocations, **more}


def claim(client, vm, resources, generation=None, **more):
    return client.claim_resources(
        None, vm, request_for(resources, **more), "p", "u", "1.36", generation
    )


def payload(resources, generation=None, **more):
    return {
        **request_for(resources),
        "project_id": "p",
        "user_id": "u",
        "consumer_generation": generation,
        **more,
    }


def held(operator, consumer):
    found = operator.call("GET", f"/allocations/{consumer}")["allocations"]
    return {provider: part["resources"] for provider, part in found.items()}


def generation(operator, consumer):
    return operator.call("GET", f"/allocations/{consumer}").get("consumer_generation")


def type_of(operator, consumer):
    return operator.call("GET", f"/allocations/{consumer}").get("consumer_type")


def writes(placement):
    return [f"{r.method} {r.status}" for r in placement.requests if r.method != "GET"]


# -- reading --------------------------------------------------------------------------


def test_reading_a_consumer(client, operator, hosts, vm):
    operator.allocate(vm, {hosts[0]: {"VCPU": 2}})
    raw = operator.call("GET", f"/allocations/{vm}")
    assert client.get_allocs_for_consumer(None, vm) == raw
    assert set(raw) == {
        "allocations",
        "project_id",
        "user_id",
        "consumer_generation",
        "consumer_type",
    }
    there = client.get_allocations_for_consumer(None, vm.upper())
    provider = operator.provider(hosts[0])["generation"]
    assert there == {hosts[0]: {"resources": {"VCPU": 2}, "generation": provider}}
    there[hosts[0]]["resources"]["VCPU"] = 99
    assert client.get_allocs_for_consumer(None, vm) == raw


def test_b86_a_consumer_that_nobody_knows(client, vm):
    assert client.get_allocs_for_consumer(None, vm) == {"allocations": {}}
    assert client.get_allocations_for_consumer(None, vm) == {}
    assert client.delete_allocation_for_instance(None, vm) is False
    with pytest.raises(exceptions.NotAllocated):
        client.remove_resources_from_instance_allocation(None, vm, {new_uuid(): {"VCPU": 1}})
    with pytest.raises(exceptions.NotAllocated):
        client.add_resources_to_instance_allocation(None, vm, {new_uuid(): {"VCPU": 1}})


def test_who_holds_something_of_a_provider(client, operator, hosts, vm):
    assert client.get_allocations_for_resource_provider(None, hosts[0]).allocations == {}
    operator.allocate(vm, {hosts[0]: {"VCPU": 2}, hosts[1]: {"VCPU": 1}})
    found = client.get_allocations_for_resource_provider(None, hosts[0])
    assert found == ProviderAllocInfo({vm: {"resources": {"VCPU": 2}}})
    with pytest.raises(exceptions.ResourceProviderNotFound):
        client.get_allocations_for_resource_provider(None, new_uuid())


def test_usages(client, operator, placement, hosts):
    for owner, amount in (("ann", 1), ("bob", 2)):
        operator.allocate(new_uuid(), {hosts[0]: {"VCPU": amount}}, project_id="p", user_id=owner)
    body = payload({hosts[1]: {"VCPU": 4, "MEMORY_MB": 64}}, consumer_type="MIGRATION")
    operator.call("PUT", f"/allocations/{new_uuid()}", body)
    untyped = payload({hosts[0]: {"MEMORY_MB": 1}})
    operator.call("PUT", f"/allocations/{new_uuid()}", untyped, version="1.28")
    found = client.get_usages(None, "p")
    assert (found.resources, found.consumers) == ({"VCPU": 7, "MEMORY_MB": 65}, 4)
    assert found.by_type == {
        "INSTANCE": Usages({"VCPU": 3}, 2),
        "MIGRATION": Usages({"VCPU": 4, "MEMORY_MB": 64}, 1),
        "unknown": Usages({"MEMORY_MB": 1}, 1),
    }
    assert client.get_usages(None, "p", "bob").resources == {"VCPU": 2}
    assert client.get_usages(None, "p", consumer_type="MIGRATION").consumers == 1
    assert client.get_usages(None, "p", consumer_type="unknown").resources == {"MEMORY_MB": 1}
    assert client.get_usages(None, "nobody").resources == {}
    assert client.get_usages_counts_for_limits(None, "p") == {"VCPU": 7, "MEMORY_MB": 65}
    assert client.get_usages_counts_for_limits(None, "nobody") == {}
    assert client.get_usages_counts_for_quota(None, "p") == {"project": {"cores": 7, "ram": 65}}
    assert client.get_usages_counts_for_quota(None, "p", "bob") == {
        "project": {"cores": 7, "ram": 65},
        "user": {"cores": 2, "ram": 0},
    }
    placement.respond(("GET", "/usages*"), status=500, body={"errors": []}, times=99)
    with pytest.raises(exceptions.UsagesRetrievalFailed):
        client.get_usages_counts_for_limits(None, "p")


def test_dedicated_cores_count_as_cores(client, operator, hosts, vm):
    operator.set_inventory(hosts[0], {"VCPU": {"total": 8}, "PCPU": {"total": 8}})
    operator.allocate(vm, {hosts[0]: {"VCPU": 2, "PCPU": 3}}, project_id="a&b c/d")
    assert client.get_usages_counts_for_quota(None, "a&b c/d")["project"]["cores"] == 5
    assert client.get_usages_counts_for_limits(None, "a&b c/d") == {"VCPU": 2, "PCPU": 3}


# -- claiming ------------------------------------------------------------------------


def test_claiming(client, operator, placement, hosts, vm):
    asked = request_for({hosts[0]: {"VCPU": 2}}, mappings={"": [hosts[0]]})
    before = pickle.dumps(asked)
    assert client.claim_resources(None, vm, asked, "p", "u", "1.36") is True
    assert pickle.dumps(asked) == before
    assert held(operator, vm) == {hosts[0]: {"VCPU": 2}}
    assert len(placement.requests) == 2
    # Whoever asks again for what it has is told so, and nothing is written.
    assert claim(client, vm, {hosts[0]: {"VCPU": 2}})
    assert len(placement.requests) == 3


def test_what_is_found_can_be_claimed(client, operator, hosts, vm):
    found = client.get_allocation_candidates(None, {"VCPU": 2})
    best = found.allocation_requests[0]
    assert client.claim_resources(None, vm, best, "p", "u", found.version)
    assert list(held(operator, vm).values()) == [{"VCPU": 2}]


def test_requests_of_a_list_are_understood(client, operator, hosts, vm):
    asked = {"allocations": [{"resource_provider": {"uuid": hosts[0]}, "resources": {"VCPU": 1}}]}
    assert client.claim_resources(None, vm, asked, "p", "u", "1.10")
    assert held(operator, vm) == {hosts[0]: {"VCPU": 1}}


def test_over_capacity_is_never_tried_again(client, operator, placement, hosts, vm):
    with pytest.raises(exceptions.CapacityExceeded) as caught:
        claim(client, vm, {hosts[0]: {"VCPU": 999, "MEMORY_MB": 1}})
    assert writes(placement) == ["PUT 409"]
    error = caught.value
    assert (error.provider, error.resource_classes) == (hosts[0], ("VCPU",))
    assert (error.consumer, error.status, error.retryable) == (vm, 409, False)
    assert isinstance(error, exceptions.AllocationUpdateFailed)
    assert pickle.loads(pickle.dumps(error)).resource_classes == ("VCPU",)
    assert held(operator, vm) == {}
    assert claim(client, vm, {hosts[0]: {"VCPU": 1}})


def test_what_does_not_fit_otherwise(client, operator, placement, hosts, vm):
    operator.set_inventory(hosts[0], {"VCPU": {"total": 8, "max_unit": 2}})
    for resources in ({hosts[0]: {"VCPU": 3}}, {hosts[0]: {"DISK_GB": 1}}):
        with pytest.raises(exceptions.AllocationDoesNotFit) as caught:
            claim(client, vm, resources)
        assert type(caught.value) is exceptions.AllocationDoesNotFit
        assert caught.value.provider == hosts[0]
    assert writes(placement) == ["PUT 409"] * 2


def test_claims_of_what_is_not_there(client, hosts, vm):
    with pytest.raises(exceptions.AllocationUpdateFailed, match="does not exist"):
        claim(client, vm, {new_uuid(): {"VCPU": 1}})
    with pytest.raises(exceptions.UnknownResourceClass) as caught:
        claim(client, new_uuid(), {hosts[0]: {"CUSTOM_NO": 1}})
    assert caught.value.names == ("CUSTOM_NO",)


def test_b85_a_claim_of_a_consumer_left_behind(client, operator, placement, hosts, vm):
    """A claim that failed leaves a consumer that refuses every later claim."""
    with pytest.raises(exceptions.AllocationUpdateFailed):
        claim(client, vm, {new_uuid(): {"VCPU": 1}})
    assert operator.call("GET", f"/allocations/{vm}") == {"allocations": {}}
    placement.requests.clear()
    assert claim(client, vm, {hosts[0]: {"VCPU": 1}})
    assert held(operator, vm) == {hosts[0]: {"VCPU": 1}}
    assert len(writes(placement)) <= 6


def test_b85_one_that_stays_is_told_clearly(client, placement, hosts, vm):
    detail = "consumer generation conflict - expected 0 but got None"
    refusal = {"errors": [{"code": "placement.concurrent_update", "detail": detail}]}
    placement.respond(("PUT", "/allocations/*"), status=409, body=refusal, times=999)
    with pytest.raises(exceptions.ConsumerConflict, match="shows nothing") as caught:
        claim(client, vm, {hosts[0]: {"VCPU": 1}})
    assert caught.value.phantom
    assert caught.value.found[vm]["allocations"] == {}
    assert len(writes(placement)) <= 8


def test_b87_an_evacuation_holds_both_sides_and_the_shared_disk_once(client, operator, hosts, vm):
    one, two, disk = hosts
    claim(client, vm, {one: {"VCPU": 6}, disk: {"DISK_GB": 60}})
    claim(client, vm, {two: {"VCPU": 8}, disk: {"DISK_GB": 60}})
    assert held(operator, vm) == {one: {"VCPU": 6}, two: {"VCPU": 8}, disk: {"DISK_GB": 60}}


def test_b87_a_resize_to_the_same_host_holds_both(client, operator, hosts, vm):
    migration = new_uuid()
    claim(client, vm, {hosts[0]: {"VCPU": 3}})
    client.move_allocations(None, vm, migration)
    claim(client, vm, {hosts[0]: {"VCPU": 5}})
    assert held(operator, migration) == {hosts[0]: {"VCPU": 3}}
    assert held(operator, vm) == {hosts[0]: {"VCPU": 5}}


@pytest.mark.parametrize("where", ["argument", "request"])
def test_a_claim_that_says_what_it_knows(client, operator, placement, hosts, vm, where):
    claim(client, vm, {hosts[0]: {"VCPU": 1}})
    known = generation(operator, vm)
    how = {"generation": known} if where == "argument" else {"consumer_generation": known}
    claim(client, vm, {hosts[1]: {"VCPU": 1}}, **how)
    placement.requests.clear()
    with pytest.raises(exceptions.ConsumerConflict) as caught:
        claim(client, vm, {hosts[2]: {"DISK_GB": 1}}, **how)
    assert writes(placement) == []
    assert set(caught.value.found[vm]["allocations"]) == set(hosts[:2])
    assert caught.value.wanted[vm]["consumer_generation"] == known


def test_a_claim_of_a_consumer_that_must_be_new(client, hosts, vm):
    claim(client, vm, {hosts[0]: {"VCPU": 1}})
    with pytest.raises(exceptions.ConsumerConflict):
        claim(client, vm, {hosts[1]: {"VCPU": 1}}, consumer_generation=None)


def test_two_claims_of_one_consumer(client, operator, placement, hosts, vm):
    placement.before(
        ("PUT", "/allocations/*"), lambda _: operator.allocate(vm, {hosts[1]: {"VCPU": 1}})
    )
    with pytest.raises(exceptions.ConsumerConflict) as caught:
        claim(client, vm, {hosts[0]: {"VCPU": 2}})
    error = pickle.loads(pickle.dumps(caught.value))
    assert error.wanted[vm]["allocations"] == {hosts[0]: {"resources": {"VCPU": 2}}}
    assert error.found[vm]["allocations"] == {hosts[1]: {"resources": {"VCPU": 1}}}
    assert (error.consumer, error.phantom, error.retryable) == (vm, False, False)
    assert isinstance(error, exceptions.ConcurrentUpdate)
    assert isinstance(error, exceptions.AllocationMoveFailed)
    assert writes(placement) == ["PUT 409"]


def test_a_provider_that_moved_is_not_the_callers_affair(client, operator, placement, hosts, vm):
    placement.respond(("PUT", "/allocations/*"), status=409, body=CONCURRENT, times=3)
    assert claim(client, vm, {hosts[0]: {"VCPU": 2}})
    assert writes(placement) == ["PUT 409"] * 3 + ["PUT 204"]


def test_a_race_without_end_has_an_end(make_client, placement, hosts, vm):
    client = make_client(retry=RetryPolicy(attempts=5))
    placement.respond(("PUT", "/allocations/*"), status=409, body=CONCURRENT, times=999)
    with pytest.raises(exceptions.ConcurrentUpdate) as caught:
        claim(client, vm, {hosts[0]: {"VCPU": 2}})
    assert caught.value.consumer == vm
    assert writes(placement) == ["PUT 409"] * 5


@pytest.mark.parametrize("applied", [True, False])
def test_b95_a_claim_whose_answer_is_lost(client, operator, placement, hosts, vm, applied):
    placement.fail(("PUT", "/allocations/*"), LATE, applied=applied)
    assert claim(client, vm, {hosts[0]: {"VCPU": 2}})
    assert held(operator, vm) == {hosts[0]: {"VCPU": 2}}
    assert len(writes(placement)) == (1 if applied else 2)


def test_b95_a_claim_that_arrives_late(client, operator, placement, hosts, vm):
    """The first is applied after it was looked for: the second meets it."""
    placement.fail(("PUT", "/allocations/*"), LATE)
    placement.before(
        ("PUT", "/allocations/*"),
        lambda sent: operator.call("PUT", sent.path, sent.json, version="1.28"),
        nth=2,
    )
    assert claim(client, vm, {hosts[0]: {"VCPU": 2}})
    assert held(operator, vm) == {hosts[0]: {"VCPU": 2}}


def test_answers_that_are_lost_again_and_again(client, placement, hosts, vm):
    placement.fail(("PUT", "/allocations/*"), LATE, times=999)
    with pytest.raises(exceptions.PlacementTimeout) as caught:
        claim(client, vm, {hosts[0]: {"VCPU": 2}})
    assert caught.value.consumer == vm
    assert len(writes(placement)) == 3


def test_nobody_can_tell_what_became_of_it(client, operator, placement, hosts, vm):
    placement.fail(("PUT", "/allocations/*"), LATE)
    placement.before(
        ("GET", "/allocations/*"), lambda _: operator.allocate(vm, {hosts[1]: {"VCPU": 1}}), nth=2
    )
    with pytest.raises(exceptions.ConsumerConflict, match="cannot be told") as caught:
        claim(client, vm, {hosts[0]: {"VCPU": 2}})
    assert caught.value.outcome_unknown
    assert len(writes(placement)) == 1


# -- writing all of it ----------------------------------------------------------------


def test_what_is_read_can_be_written_back(client, operator, hosts, vm):
    operator.allocate(vm, {hosts[0]: {"VCPU": 2}})
    there = client.get_allocs_for_consumer(None, vm)
    there["allocations"][hosts[0]]["resources"]["VCPU"] = 3
    assert client.put_allocations(None, vm, there) is True
    assert held(operator, vm) == {hosts[0]: {"VCPU": 3}}
    with pytest.raises(exceptions.ConsumerConflict):
        client.put_allocations(None, vm, there)


def test_b90_zero_amounts(client, operator, placement, hosts, vm):
    claim(client, vm, {hosts[0]: {"VCPU": 1, "MEMORY_MB": 0}, hosts[2]: {"DISK_GB": 0}})
    assert held(operator, vm) == {hosts[0]: {"VCPU": 1}}
    client.put_allocations(
        None, vm, payload({hosts[0]: {"VCPU": 2}, hosts[1]: {}}, generation(operator, vm))
    )
    assert held(operator, vm) == {hosts[0]: {"VCPU": 2}}
    nothing = payload({hosts[0]: {"VCPU": 0}}, generation(operator, vm))
    client.put_allocations(None, vm, nothing)
    assert client.get_allocs_for_consumer(None, vm) == {"allocations": {}}
    # Nothing at all for a new consumer would leave one that nobody can see.
    placement.requests.clear()
    client.put_allocations(None, vm, payload({}))
    assert writes(placement) == []
    assert claim(client, vm, {hosts[0]: {"VCPU": 1}})
    with pytest.raises(exceptions.ConsumerConflict):
        client.put_allocations(None, vm, payload({}))


def test_several_consumers_at_once(client, operator, placement, hosts):
    one, two, three = new_uuid(), new_uuid(), new_uuid()
    operator.allocate(three, {hosts[0]: {"VCPU": 8}})
    parts = {
        one: payload({hosts[0]: {"VCPU": 4}}),
        two: payload({hosts[0]: {"VCPU": 4}, hosts[1]: {"VCPU": 0}}),
        three: payload({}, generation(operator, three)),
    }
    with pytest.raises(exceptions.CapacityExceeded):
        client.post_allocations(None, {one: parts[one], two: parts[two]})
    assert (held(operator, one), held(operator, two)) == ({}, {})
    placement.fail(("POST", "/allocations"), LATE, applied=True)
    placement.requests.clear()
    assert client.post_allocations(None, parts) is True
    assert writes(placement) == ["POST None"]
    assert held(operator, one) == held(operator, two) == {hosts[0]: {"VCPU": 4}}
    assert held(operator, three) == {}
    with pytest.raises(exceptions.ConsumerConflict) as caught:
        client.post_allocations(None, parts)
    assert caught.value.found[one]["allocations"] == {hosts[0]: {"resources": {"VCPU": 4}}}


# -- moving -----------------------------------------------------------------------------


def test_moving(client, operator, placement, hosts, vm):
    migration = new_uuid()
    operator.allocate(vm, {hosts[0]: {"VCPU": 2}}, project_id="p1", user_id="u1")
    assert client.move_allocations(None, vm, migration) is True
    assert held(operator, vm) == {}
    there = operator.call("GET", f"/allocations/{migration}")
    assert (there["project_id"], there["user_id"]) == ("p1", "u1")
    assert writes(placement) == ["POST 204"]
    # Already moved.
    assert client.move_allocations(None, vm, migration) is True
    assert writes(placement) == ["POST 204"]
    # Back, and what is there now is replaced.
    claim(client, vm, {hosts[1]: {"VCPU": 1}})
    assert client.move_allocations(None, migration, vm)
    assert held(operator, vm) == {hosts[0]: {"VCPU": 2}}
    assert held(operator, migration) == {}


def test_b86_nothing_to_move(client, placement, vm):
    with pytest.raises(exceptions.NotAllocated) as caught:
        client.move_allocations(None, vm, new_uuid())
    assert caught.value.consumer == vm
    assert isinstance(caught.value, exceptions.AllocationMoveFailed)
    assert writes(placement) == []


@pytest.mark.parametrize("side", ["source", "target"])
def test_b93_a_consumer_changes_while_it_is_moved(client, operator, placement, hosts, vm, side):
    migration = new_uuid()
    operator.allocate(vm, {hosts[0]: {"VCPU": 2}})
    moving = vm if side == "source" else migration
    placement.before(
        ("POST", "/allocations"), lambda _: operator.allocate(moving, {hosts[1]: {"VCPU": 1}})
    )
    with pytest.raises(exceptions.ConsumerConflict) as caught:
        client.move_allocations(None, vm, migration)
    error = caught.value
    assert set(error.wanted) == set(error.found) == {vm, migration}
    assert error.found[moving]["allocations"] == {hosts[1]: {"resources": {"VCPU": 1}}}
    assert error.wanted[vm]["allocations"] == {}
    assert held(operator, moving) == {hosts[1]: {"VCPU": 1}}
    assert writes(placement) == ["POST 409"]


def test_b93_a_provider_changes_while_something_is_moved(client, operator, placement, hosts, vm):
    migration = new_uuid()
    operator.allocate(vm, {hosts[0]: {"VCPU": 2}})
    placement.respond(("POST", "/allocations"), status=409, body=CONCURRENT, times=2)
    assert client.move_allocations(None, vm, migration)
    assert held(operator, migration) == {hosts[0]: {"VCPU": 2}}


def test_b93_somebody_else_makes_the_same_move(client, operator, placement, hosts, vm):
    migration = new_uuid()
    operator.allocate(vm, {hosts[0]: {"VCPU": 2}})
    placement.before(
        ("POST", "/allocations"),
        lambda sent: operator.call("POST", sent.path, sent.json, version="1.28"),
    )
    assert client.move_allocations(None, vm, migration)
    assert held(operator, migration) == {hosts[0]: {"VCPU": 2}}


@pytest.mark.parametrize("applied", [True, False])
def test_a_move_whose_answer_is_lost(client, operator, placement, hosts, vm, applied):
    migration = new_uuid()
    operator.allocate(vm, {hosts[0]: {"VCPU": 2}})
    placement.fail(("POST", "/allocations"), LATE, applied=applied)
    assert client.move_allocations(None, vm, migration)
    assert (held(operator, vm), held(operator, migration)) == ({}, {hosts[0]: {"VCPU": 2}})
    assert len(writes(placement)) == (1 if applied else 2)


@pytest.mark.parametrize("nth", [1, 3, 5, 6, 7])
def test_a_move_to_a_consumer_left_behind(client, operator, placement, hosts, vm, nth):
    """It is taken over, unless the source goes elsewhere meanwhile."""
    migration = new_uuid()
    operator.allocate(vm, {hosts[0]: {"VCPU": 2}})
    with pytest.raises(exceptions.AllocationUpdateFailed):
        claim(client, migration, {new_uuid(): {"VCPU": 1}})
    placement.before(("POST", "/allocations"), lambda _: operator.allocate(vm, {}), nth=nth)
    if nth == 7:
        assert client.move_allocations(None, vm, migration)
        assert held(operator, migration) == {hosts[0]: {"VCPU": 2}}
    else:
        with pytest.raises(exceptions.ConsumerConflict) as caught:
            client.move_allocations(None, vm, migration)
        assert not caught.value.phantom
        assert held(operator, migration) == {}
    assert len(writes(placement)) <= 7


# -- more and less ---------------------------------------------------------------------


def test_b91_more_of_two_providers_at_once(client, operator, placement, hosts, vm):
    operator.allocate(vm, {hosts[0]: {"VCPU": 2}})
    more = {hosts[0]: {"resources": {"VCPU": 1}}, hosts[2]: {"DISK_GB": 10}}
    assert client.add_resources_to_instance_allocation(None, vm, more) is None
    assert held(operator, vm) == {hosts[0]: {"VCPU": 3}, hosts[2]: {"DISK_GB": 10}}
    assert writes(placement) == ["PUT 204"]
    with pytest.raises(exceptions.CapacityExceeded):
        client.add_resources_to_instance_allocation(
            None, vm, {hosts[0]: {"VCPU": 1}, hosts[2]: {"DISK_GB": 91}}
        )
    assert held(operator, vm) == {hosts[0]: {"VCPU": 3}, hosts[2]: {"DISK_GB": 10}}
    placement.requests.clear()
    client.add_resources_to_instance_allocation(None, vm, {})
    client.remove_resources_from_instance_allocation(None, vm, {hosts[0]: {"VCPU": 0}})
    assert placement.requests == []


def test_b91_less_than_nothing(client, operator, placement, hosts, vm):
    operator.allocate(vm, {hosts[0]: {"VCPU": 3}, hosts[2]: {"DISK_GB": 10}})
    for less, wanted in (
        ({hosts[0]: {"VCPU": 1}, hosts[2]: {"DISK_GB": 11}}, (hosts[2], "DISK_GB", 10, 11)),
        ({hosts[0]: {"MEMORY_MB": 1}}, (hosts[0], "MEMORY_MB", 0, 1)),
        ({hosts[1]: {"VCPU": 1}}, (hosts[1], "VCPU", 0, 1)),
    ):
        with pytest.raises(exceptions.NotAllocated) as caught:
            client.remove_resources_from_instance_allocation(None, vm, less)
        error = pickle.loads(pickle.dumps(caught.value))
        assert (error.provider, error.resource_class, error.held, error.wanted) == wanted
        assert error.consumer == vm
    assert writes(placement) == []
    less = {hosts[0]: {"resources": {"VCPU": 1}}, hosts[2]: {"resources": {"DISK_GB": 10}}}
    client.remove_resources_from_instance_allocation(None, vm, less)
    assert held(operator, vm) == {hosts[0]: {"VCPU": 2}}
    client.remove_resources_from_instance_allocation(None, vm, {hosts[0]: {"VCPU": 2}})
    assert generation(operator, vm) is None


def test_more_while_others_change_the_consumer(client, operator, placement, hosts, vm):
    operator.allocate(vm, {hosts[0]: {"VCPU": 2}})
    placement.before(
        ("PUT", "/allocations/*"), lambda _: operator.allocate(vm, {hosts[0]: {"VCPU": 4}})
    )
    client.add_resources_to_instance_allocation(None, vm, {hosts[0]: {"VCPU": 1}})
    assert held(operator, vm) == {hosts[0]: {"VCPU": 5}}
    assert writes(placement) == ["PUT 409", "PUT 204"]


@pytest.mark.parametrize("applied", [True, False])
def test_more_whose_answer_is_lost(client, operator, placement, hosts, vm, applied):
    operator.allocate(vm, {hosts[0]: {"VCPU": 2}})
    placement.fail(("PUT", "/allocations/*"), LATE, applied=applied)
    client.add_resources_to_instance_allocation(None, vm, {hosts[0]: {"VCPU": 1}})
    assert held(operator, vm) == {hosts[0]: {"VCPU": 3}}
    assert len(writes(placement)) == (1 if applied else 2)


def test_more_that_arrives_late_is_not_added_twice(client, operator, placement, hosts, vm):
    operator.allocate(vm, {hosts[0]: {"VCPU": 2}})
    placement.fail(("PUT", "/allocations/*"), LATE)
    placement.before(
        ("PUT", "/allocations/*"),
        lambda sent: operator.call("PUT", sent.path, sent.json, version="1.28"),
        nth=2,
    )
    client.add_resources_to_instance_allocation(None, vm, {hosts[0]: {"VCPU": 1}})
    assert held(operator, vm) == {hosts[0]: {"VCPU": 3}}


def test_more_of_which_nobody_can_tell(client, operator, placement, hosts, vm):
    operator.allocate(vm, {hosts[0]: {"VCPU": 2}})
    placement.fail(("PUT", "/allocations/*"), LATE)
    placement.before(
        ("GET", "/allocations/*"), lambda _: operator.allocate(vm, {hosts[0]: {"VCPU": 4}}), nth=2
    )
    with pytest.raises(exceptions.ConsumerConflict) as caught:
        client.add_resources_to_instance_allocation(None, vm, {hosts[0]: {"VCPU": 1}})
    assert caught.value.outcome_unknown
    assert held(operator, vm) == {hosts[0]: {"VCPU": 4}}


# -- giving up ----------------------------------------------------------------------------


def test_all_of_one_tree_is_taken(client, operator, placement, hosts, vm):
    child = operator.create_provider("child", parent=hosts[0])
    operator.set_inventory(child, {"VGPU": {"total": 2}})
    operator.allocate(
        vm,
        {
            hosts[0]: {"VCPU": 1},
            child: {"VGPU": 1},
            hosts[1]: {"VCPU": 1},
            hosts[2]: {"DISK_GB": 1},
        },
    )
    take = client.remove_provider_tree_from_instance_allocation
    assert take(None, vm, child) is True
    assert held(operator, vm) == {hosts[1]: {"VCPU": 1}, hosts[2]: {"DISK_GB": 1}}
    placement.requests.clear()
    assert take(None, vm, hosts[0]) is True
    assert writes(placement) == []
    with pytest.raises(exceptions.ResourceProviderNotFound):
        take(None, vm, new_uuid())


def test_b88_a_clean_up_that_fails_is_told(client, operator, placement, hosts, vm):
    operator.allocate(vm, {hosts[0]: {"VCPU": 1}, hosts[1]: {"VCPU": 1}})
    placement.respond(("PUT", "/allocations/*"), status=503, times=99)
    with pytest.raises(exceptions.ServiceUnavailable) as caught:
        client.remove_provider_tree_from_instance_allocation(None, vm, hosts[0])
    assert (caught.value.consumer, caught.value.provider) == (vm, hosts[0])
    placement.clear_hooks()
    assert client.remove_provider_tree_from_instance_allocation(None, vm, hosts[0])
    assert held(operator, vm) == {hosts[1]: {"VCPU": 1}}


@pytest.mark.parametrize("force", [False, True])
def test_deleting(client, operator, placement, hosts, vm, force):
    operator.allocate(vm, {hosts[0]: {"VCPU": 1}})
    delete = client.delete_allocation_for_instance
    assert delete(None, vm, force=force) is True
    assert held(operator, vm) == {}
    assert generation(operator, vm) is None
    assert writes(placement) == (["DELETE 204"] if force else ["PUT 204"])
    assert delete(None, vm, "migration", force=force) is False


def test_b92_nothing_to_delete_is_no_warning(client, vm, caplog):
    assert client.delete_allocation_for_instance(None, vm, force=True) is False
    assert client.delete_allocation_for_instance(None, vm) is False
    assert [r for r in caplog.records if r.levelname != "DEBUG"] == []


def test_b84_a_deletion_that_races(client, operator, placement, hosts, vm):
    operator.allocate(vm, {hosts[0]: {"VCPU": 1}})
    placement.before(
        ("PUT", "/allocations/*"), lambda _: operator.allocate(vm, {hosts[0]: {"VCPU": 2}})
    )
    with pytest.raises(exceptions.ConsumerConflict) as caught:
        client.delete_allocation_for_instance(None, vm)
    assert isinstance(caught.value, exceptions.AllocationDeleteFailed)
    assert caught.value.found[vm]["allocations"] == {hosts[0]: {"resources": {"VCPU": 2}}}
    assert client.delete_allocation_for_instance(None, vm, force=True)
    assert held(operator, vm) == {}


def test_b84_somebody_else_was_faster(client, operator, placement, hosts, vm):
    operator.allocate(vm, {hosts[0]: {"VCPU": 1}})
    placement.before(
        ("PUT", "/allocations/*"), lambda _: operator.call("DELETE", f"/allocations/{vm}")
    )
    assert client.delete_allocation_for_instance(None, vm)
    assert held(operator, vm) == {}


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("applied", [True, False])
def test_a_deletion_whose_answer_is_lost(client, operator, placement, hosts, vm, force, applied):
    operator.allocate(vm, {hosts[0]: {"VCPU": 1}})
    placement.fail(("DELETE" if force else "PUT", "/allocations/*"), LATE, applied=applied)
    assert client.delete_allocation_for_instance(None, vm, force=force) is True
    assert held(operator, vm) == {}


# -- types of consumers ------------------------------------------------------------------


def test_b96_a_type_that_is_unknown_is_not_written_back(client, operator, hosts, vm):
    body = payload({hosts[0]: {"VCPU": 1}})
    operator.call("PUT", f"/allocations/{vm}", body, version="1.28")
    there = client.get_allocs_for_consumer(None, vm)
    assert there["consumer_type"] == "unknown"
    client.put_allocations(None, vm, there)
    client.add_resources_to_instance_allocation(None, vm, {hosts[0]: {"VCPU": 1}})
    client.move_allocations(None, vm, new_uuid())


def test_b96_the_clients_own_type_is_the_default(make_client, operator, hosts, vm):
    client = make_client(consumer_type="INSTANCE")
    claim(client, vm, {hosts[0]: {"VCPU": 1}})
    assert type_of(operator, vm) == "INSTANCE"
    migration = new_uuid()
    client.move_allocations(None, vm, migration, consumer_type="MIGRATION")
    assert type_of(operator, migration) == "MIGRATION"
    claim(client, vm, {hosts[0]: {"VCPU": 2}})
    client.move_allocations(None, migration, vm)
    assert type_of(operator, vm) == "INSTANCE"
    old = new_uuid()
    body = payload({hosts[0]: {"VCPU": 1}})
    operator.call("PUT", f"/allocations/{old}", body, version="1.28")
    client.put_allocations(None, old, client.get_allocs_for_consumer(None, old))
    assert type_of(operator, old) == "INSTANCE"


def test_b96_a_type_that_is_there_stays(client, make_client, operator, hosts, vm):
    body = payload({hosts[0]: {"VCPU": 1}}, consumer_type="MIGRATION")
    operator.call("PUT", f"/allocations/{vm}", body)
    other = make_client(consumer_type="INSTANCE")
    client.add_resources_to_instance_allocation(None, vm, {hosts[0]: {"VCPU": 1}})
    for each in (client, other):
        each.claim_resources(None, vm, request_for({hosts[1]: {"VCPU": 1}}), "p", "u2", "1.36")
        there = each.get_allocs_for_consumer(None, vm)
        del there["consumer_type"]
        each.put_allocations(None, vm, there)
        each.remove_provider_tree_from_instance_allocation(None, vm, hosts[1])
    assert type_of(operator, vm) == "MIGRATION"


def test_b96_a_service_that_stumbles_over_consumers_without_a_type(
    client, operator, placement, hosts, vm
):
    operator.allocate(vm, {hosts[0]: {"VCPU": 1}})
    # Asked for its type it fails, however often; without it does not.
    placement.respond(("GET", "/allocations/*"), status=500, body={"errors": []}, times=3)
    there = client.get_allocs_for_consumer(None, vm)
    assert there["allocations"][hosts[0]]["resources"] == {"VCPU": 1}
    assert placement.requests[-1].microversion == "1.28"


# -- input that is refused -------------------------------------------------------------------

HOST, VM = new_uuid(), new_uuid()
BAD_RESOURCES = [
    ({HOST: {"resources": {"VCPU": -1}}}, exceptions.InvalidAllocation, "resources"),
    ({HOST: {"resources": {"VCPU": 1.5}}}, exceptions.InvalidAllocation, "resources"),
    ({HOST: {"resources": {"VCPU": True}}}, exceptions.InvalidAllocation, "resources"),
    ({HOST: {"resources": {"VCPU": "1"}}}, exceptions.InvalidAllocation, "resources"),
    ({HOST: {"resources": {"VCPU": 2**31}}}, exceptions.InvalidAllocation, "resources"),
    ({HOST: {"resources": None}}, exceptions.InvalidAllocation, "resources"),
    ({HOST: None}, exceptions.InvalidAllocation, "resources"),
    ({HOST: {"resources": {"vcpu": 1}}}, exceptions.InvalidResourceClass, "resource_class"),
    ({"host1": {"resources": {"VCPU": 1}}}, exceptions.InvalidUUID, "provider"),
    ({HOST: {"VCPU": 1}, HOST.upper(): {"VCPU": 1}}, exceptions.InvalidAllocation, "allocations"),
    ("VCPU", exceptions.InvalidAllocation, "allocations"),
    ([{"resources": {"VCPU": 1}}], exceptions.InvalidAllocation, "allocations"),
]


@pytest.mark.parametrize(("resources", "kind", "field"), BAD_RESOURCES)
def test_resources_that_make_no_sense(client, placement, resources, kind, field):
    whole = {"allocations": resources, "project_id": "p", "user_id": "u"}
    for call in (
        lambda: client.claim_resources(None, VM, {"allocations": resources}, "p", "u", "1.36"),
        lambda: client.put_allocations(None, VM, {**whole, "consumer_generation": None}),
        lambda: client.post_allocations(None, {VM: {**whole, "consumer_generation": None}}),
        lambda: client.add_resources_to_instance_allocation(None, VM, resources),
        lambda: client.remove_resources_from_instance_allocation(None, VM, resources),
        lambda: client.heal_allocations(None, {VM: whole}),
    ):
        with pytest.raises(kind) as caught:
            call()
        error = pickle.loads(pickle.dumps(caught.value))
        assert (error.field, error.consumer) == (field, VM)
        assert isinstance(error, ValueError)
    assert placement.requests == []


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"project_id": ""}, "project_id"),
        ({"project_id": None}, "project_id"),
        ({"user_id": "x" * 256}, "user_id"),
        ({"consumer_type": "vm"}, "consumer_type"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_payloads_that_make_no_sense(client, placement, more, field):
    with pytest.raises(exceptions.InvalidAllocation) as caught:
        client.put_allocations(None, VM, payload({HOST: {"VCPU": 1}}, **more))
    assert (caught.value.field, caught.value.consumer) == (field, VM)
    assert caught.value.value == more[field]
    assert placement.requests == []


def test_a_payload_without_a_generation(client, placement):
    given = payload({HOST: {"VCPU": 1}})
    del given["consumer_generation"]
    with pytest.raises(exceptions.InvalidAllocation, match="None is for a new") as caught:
        client.put_allocations(None, VM, given)
    assert caught.value.field == "consumer_generation"
    with pytest.raises(exceptions.InvalidAllocation):
        client.put_allocations(None, VM, None)


def test_several_payloads_that_make_no_sense(client, placement):
    good = payload({HOST: {"VCPU": 1}})
    for given in (None, [good], {VM: None}, {VM: [good]}, {VM: good, VM.upper(): good}):
        for call in (client.post_allocations, client.heal_allocations):
            with pytest.raises(exceptions.InvalidAllocation):
                call(None, given)
    with pytest.raises(exceptions.InvalidUUID):
        client.post_allocations(None, {"vm": good})
    assert client.post_allocations(None, {}) is True
    assert placement.requests == []


def test_consumers_are_uuids(client, placement):
    for call in (
        lambda: client.get_allocs_for_consumer(None, "vm"),
        lambda: client.get_allocations_for_consumer(None, "vm"),
        lambda: claim(client, "vm", {HOST: {"VCPU": 1}}),
        lambda: client.put_allocations(None, "vm", payload({HOST: {"VCPU": 1}})),
        lambda: client.move_allocations(None, "vm", VM),
        lambda: client.move_allocations(None, VM, "vm"),
        lambda: client.add_resources_to_instance_allocation(None, "vm", {HOST: {"VCPU": 1}}),
        lambda: client.remove_provider_tree_from_instance_allocation(None, "vm", HOST),
        lambda: client.remove_provider_tree_from_instance_allocation(None, VM, "host1"),
        lambda: client.delete_allocation_for_instance(None, "vm"),
        lambda: client.get_allocations_for_resource_provider(None, "host1"),
    ):
        with pytest.raises(exceptions.InvalidUUID):
            call()
    with pytest.raises(exceptions.InvalidAllocation, match="to itself"):
        client.move_allocations(None, VM, VM.upper())
    assert placement.requests == []


def test_other_things_that_make_no_sense(client, make_client, placement):
    asked = request_for({HOST: {"VCPU": 1}})
    for version in (None, 1.36, "2.0", "latest"):
        with pytest.raises(exceptions.InvalidAllocation) as caught:
            client.claim_resources(None, VM, asked, "p", "u", version)
        assert caught.value.field == "allocation_request_version"
    for empty in ({}, {"allocations": {}}, {"allocations": {HOST: {"VCPU": 0}}}, None):
        with pytest.raises(exceptions.InvalidAllocation):
            client.claim_resources(None, VM, empty, "p", "u", "1.36")
    with pytest.raises(exceptions.InvalidAllocation):
        client.get_usages(None, "")
    with pytest.raises(exceptions.InvalidAllocation):
        client.get_usages(None, "p", consumer_type="vm")
    with pytest.raises(ValueError, match="consumer_type"):
        make_client(consumer_type="vm")
    assert placement.requests == []


def test_a_service_that_fails_at_types_is_asked_for_the_sums(
    client, operator, placement, hosts, vm
):
    """On PostgreSQL: the database refuses the query behind it."""
    operator.allocate(vm, {hosts[0]: {"VCPU": 2}})
    placement.respond(("GET", "/usages*"), status=500, body={"errors": []}, times=3)
    assert client.get_usages(None, "project") == Usages({"VCPU": 2})
    assert placement.requests[-1].microversion == "1.9"
    placement.respond(("GET", "/usages*"), status=500, body={"errors": []}, times=99)
    with pytest.raises(exceptions.UsagesRetrievalFailed):
        client.get_usages(None, "project", consumer_type="INSTANCE")
