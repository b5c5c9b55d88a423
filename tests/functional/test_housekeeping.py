# SPDX-License-Identifier: Apache-2.0
"""Orphans, missing allocations, and many hosts in aggregates."""

from __future__ import annotations

import pickle
import uuid

import pytest
import requests

from reportclient import exceptions


def new_uuid():
    return str(uuid.uuid4())


@pytest.fixture
def host(operator):
    """A host with a child, and another host."""
    root = operator.create_provider("host1")
    child = operator.create_provider("child", parent=root)
    other = operator.create_provider("host2")
    for each in (root, other):
        operator.set_inventory(each, {"VCPU": {"total": 8}})
    operator.set_inventory(child, {"VGPU": {"total": 8}})
    return root, child, other


@pytest.fixture
def crowd(operator, host):
    """One that is known, one that is not, one that is not and is elsewhere, too."""
    root, child, other = host
    known, orphan, wide = (new_uuid() for _ in range(3))
    operator.allocate(known, {root: {"VCPU": 1}, child: {"VGPU": 1}})
    operator.allocate(orphan, {child: {"VGPU": 2}}, project_id="lost")
    operator.allocate(wide, {root: {"VCPU": 2}, other: {"VCPU": 3}})
    return known, orphan, wide


def held(operator, consumer):
    found = operator.call("GET", f"/allocations/{consumer}")["allocations"]
    return {provider: part["resources"] for provider, part in found.items()}


def writes(placement):
    return [f"{r.method} {r.status}" for r in placement.requests if r.method != "GET"]


# -- orphans ----------------------------------------------------------------------------


@pytest.mark.parametrize("by", ["uuid", "name", "child"])
def test_b94_orphans_are_found(client, placement, host, crowd, by):
    root, child, other = host
    known, orphan, wide = crowd
    where = {"uuid": root, "name": "host1", "child": child}[by]
    found = client.audit_allocations(None, where, [known.upper()])
    assert set(found.providers) == {root, child}
    assert found.consumers == 3
    assert set(found.orphans) == {orphan, wide}
    assert found.orphans[orphan].resources == {child: {"VGPU": 2}}
    assert found.orphans[orphan].project_id == "lost"
    assert found.orphans[wide].resources == {root: {"VCPU": 2}}
    assert found.orphans[wide].elsewhere == {other: {"VCPU": 3}}
    assert writes(placement) == []
    assert not any(each.removed for each in found.orphans.values())
    assert pickle.loads(pickle.dumps(found)) == found


def test_b94_orphans_are_taken_away_on_request(client, operator, host, crowd):
    known, orphan, wide = crowd
    found = client.audit_allocations(None, host[0], {known}, remove=True)
    assert all(each.removed for each in found.orphans.values())
    assert found.failures == {}
    assert held(operator, orphan) == {}
    assert held(operator, wide) == {host[2]: {"VCPU": 3}}
    assert held(operator, known) == {host[0]: {"VCPU": 1}, host[1]: {"VGPU": 1}}
    assert client.audit_allocations(None, host[0], {known}).orphans == {}


def test_b94_a_function_is_asked_after_reading(client, operator, placement, host, crowd):
    known, _, _ = crowd
    asked = []

    def who(consumers):
        asked.append(set(consumers))
        operator.allocate(new_uuid(), {host[0]: {"VCPU": 1}})
        return [known, new_uuid()]

    found = client.audit_allocations(None, "host1", who, remove=True)
    assert asked == [set(crowd)]
    assert set(found.orphans) == set(crowd[1:])


def test_b94_what_changed_since_is_left_alone(client, operator, placement, host, crowd):
    _, orphan, wide = crowd
    placement.before(
        ("PUT", f"/allocations/{orphan}"),
        lambda _: operator.allocate(orphan, {host[0]: {"VCPU": 1}}),
    )
    placement.respond(("PUT", f"/allocations/{wide}"), status=403, body={"errors": []})
    found = client.audit_allocations(None, host[0], [crowd[0]], remove=True)
    assert set(found.failures) == {orphan, wide}
    assert isinstance(found.failures[orphan], exceptions.ConsumerConflict)
    assert isinstance(found.failures[wide], exceptions.AllocationUpdateFailed)
    assert held(operator, orphan) == {host[0]: {"VCPU": 1}}


def test_b94_a_lost_answer(client, operator, placement, host, crowd):
    placement.fail(("PUT", "*"), requests.exceptions.ReadTimeout("late"), applied=True)
    found = client.audit_allocations(None, host[0], [crowd[0]], remove=True)
    assert found.failures == {}
    assert held(operator, crowd[1]) == {}


def test_audits_that_make_no_sense(client, placement, host, crowd):
    with pytest.raises(exceptions.InvalidUUID) as caught:
        client.audit_allocations(None, host[0], ["vm1"], remove=True)
    assert caught.value.field == "known_consumers"
    assert writes(placement) == []
    for unknown in (new_uuid(), "host9"):
        with pytest.raises(exceptions.ResourceProviderNotFound):
            client.audit_allocations(None, unknown, [])


# -- what is missing ------------------------------------------------------------------------


def wanted(resources, **more):
    allocations = {provider: {"resources": part} for provider, part in resources.items()}
    return {"allocations": allocations, "project_id": "p", "user_id": "u", **more}


def test_missing_allocations_are_set(client, operator, placement, host, crowd):
    root, _, other = host
    one, two, big = (new_uuid() for _ in range(3))
    whole = {
        one: wanted({root: {"VCPU": 1}}),
        two: wanted({other: {"VCPU": 1}}, consumer_type="INSTANCE"),
        crowd[0]: wanted({other: {"VCPU": 1}}),
        big: wanted({root: {"VCPU": 99}}),
    }
    dry = client.heal_allocations(None, whole, dry_run=True)
    assert (set(dry.healed), dry.present) == ({one, two, big}, (crowd[0],))
    assert writes(placement) == []
    result = client.heal_allocations(None, whole)
    assert (set(result.healed), result.present) == ({one, two}, (crowd[0],))
    assert isinstance(result.failures[big], exceptions.CapacityExceeded)
    assert held(operator, one) == {root: {"VCPU": 1}}
    assert operator.call("GET", f"/allocations/{two}")["consumer_type"] == "INSTANCE"
    assert held(operator, crowd[0]) == {root: {"VCPU": 1}, host[1]: {"VGPU": 1}}
    again = client.heal_allocations(None, whole)
    assert again.healed == ()
    assert set(again.present) == {one, two, crowd[0]}
    assert pickle.loads(pickle.dumps(result)).healed == result.healed


def test_somebody_else_is_placed_while_healing(client, operator, placement, host):
    one = new_uuid()
    placement.before(("PUT", "*"), lambda _: operator.allocate(one, {host[2]: {"VCPU": 1}}))
    result = client.heal_allocations(None, {one: wanted({host[0]: {"VCPU": 1}})})
    assert (result.healed, result.present) == ((), (one,))
    assert held(operator, one) == {host[2]: {"VCPU": 1}}


# -- host aggregates ----------------------------------------------------------------------


def members(operator, aggregate):
    listed = operator.call("GET", f"/resource_providers?member_of={aggregate}")
    return {found["name"] for found in listed["resource_providers"]}


def test_many_hosts_into_their_aggregates(client, operator, placement):
    hosts = {f"h{n}": operator.create_provider(f"h{n}") for n in range(12)}
    one, two, own = new_uuid(), new_uuid(), new_uuid()
    operator.set_aggregates(hosts["h0"], {one, own})
    operator.set_aggregates(hosts["h1"], {own})
    outsider = operator.create_provider("disk")
    operator.set_aggregates(outsider, {one})
    result = client.mirror_aggregates(
        None, {one: list(hosts), two.upper(): [hosts["h1"], "h2", "gone", new_uuid()]}
    )
    assert members(operator, one) == {*hosts, "disk"}
    assert members(operator, two) == {"h1", "h2"}
    assert members(operator, own) == {"h0", "h1"}
    assert result["h0"].added == frozenset()
    assert result["h2"].added == {one, two}
    assert result["h2"].uuid == hosts["h2"]
    failed = {host for host, part in result.items() if part.error}
    assert "gone" in failed
    assert len(failed) == 2
    for host in failed:
        assert isinstance(result[host].error, exceptions.ResourceProviderNotFound)
    # Two listings of members, one of all, and two requests for each host that moves.
    kinds = placement.by_kind()
    assert kinds["GET /resource_providers"] == 3
    placement.requests.clear()
    again = client.mirror_aggregates(None, {one: list(hosts), two: ["h1", "h2"]})
    assert len(placement.requests) == 2
    assert not any(part.added or part.error for part in again.values())


def test_few_hosts_in_many_aggregates(client, operator, placement):
    host = operator.create_provider("h0")
    aggregates = {new_uuid(): ["h0"] for _ in range(20)}
    result = client.mirror_aggregates(None, aggregates)
    assert result["h0"].added == set(aggregates)
    assert set(operator.provider(host)["aggregates"]) == set(aggregates)
    # Looked up by name, read, written.
    assert len(placement.requests) == 3


def test_mirrors_that_make_no_sense(client, placement):
    with pytest.raises(exceptions.InvalidAggregate):
        client.mirror_aggregates(None, {"rack1": ["h0"]})
    with pytest.raises(exceptions.InvalidName):
        client.mirror_aggregates(None, {new_uuid(): [""]})
    assert client.mirror_aggregates(None, {}) == {}
    assert placement.requests == []


@pytest.mark.parametrize("many", [False, True])
def test_a_host_that_others_write_to(client, operator, placement, many):
    host = operator.create_provider("h0")
    mine, theirs = new_uuid(), new_uuid()
    placement.before(
        ("PUT", "*/aggregates"), lambda _: operator.set_aggregates(host, {theirs}), times=2
    )
    if many:
        assert client.mirror_aggregates(None, {mine: ["h0"]})["h0"].added == {mine}
    else:
        client.aggregate_add_host(None, mine, host_name="h0")
    assert set(operator.provider(host)["aggregates"]) == {mine, theirs}
    assert writes(placement) == ["PUT 409", "PUT 409", "PUT 200"]
    placement.before(("PUT", "*/aggregates"), lambda _: operator.bump(host))
    client.aggregate_remove_host(None, mine, "h0")
    assert operator.provider(host)["aggregates"] == [theirs]


@pytest.mark.parametrize("applied", [True, False])
def test_a_host_whose_answer_is_lost(client, operator, placement, applied):
    host = operator.create_provider("h0")
    mine = new_uuid()
    late = requests.exceptions.ReadTimeout("late")
    placement.fail(("PUT", "*/aggregates"), late, applied=applied)
    client.aggregate_add_host(None, mine, rp_uuid=host)
    assert operator.provider(host)["aggregates"] == [mine]
    placement.fail(("PUT", "*/aggregates"), late, applied=applied)
    client.aggregate_remove_host(None, mine, "h0")
    assert operator.provider(host)["aggregates"] == []


def test_two_who_add_and_remove_at_once(make_client, operator, placement):
    host = operator.create_provider("h0")
    first, second = new_uuid(), new_uuid()
    operator.set_aggregates(host, {first})
    one, other = make_client(), make_client()
    placement.before(
        ("PUT", "*/aggregates"), lambda _: other.aggregate_remove_host(None, first, "h0")
    )
    one.aggregate_add_host(None, second, host_name="h0")
    assert operator.provider(host)["aggregates"] == [second]
