# SPDX-License-Identifier: Apache-2.0
"""What Placement answers: one suite for the fake and for the real service.

Every row of the table "what Placement really does", in raw HTTP.
"""

from __future__ import annotations

import uuid

import pytest

UNDEFINED = "placement.undefined_code"
CONCURRENT = "placement.concurrent_update"


def new_uuid():
    return str(uuid.uuid4())


@pytest.fixture
def call(operator):
    """Send a request: ``(status, code of the error, body)``."""

    def call(method, path, body=None, version="1.39"):
        status, answer = operator.try_call(method, path, body, version)
        errors = answer.get("errors") if isinstance(answer, dict) else None
        return status, errors[0].get("code") if errors else None, answer

    return call


@pytest.fixture
def operator(placement):
    return placement.operator


@pytest.fixture
def provider(operator):
    """A provider with inventory, half of it in use by one consumer."""
    own = operator.create_provider("host1")
    operator.set_inventory(own, {"VCPU": {"total": 8}, "DISK_GB": {"total": 100}})
    operator.allocate(new_uuid(), {own: {"VCPU": 4}})
    return own


def generation(operator, own):
    return operator.call("GET", f"/resource_providers/{own}")["generation"]


@pytest.mark.parametrize(("version", "status"), [("1.39", 200), ("1.20", 200), ("1.19", 201)])
def test_creating_answers_with_a_body_from_1_20(call, version, status):
    own = new_uuid()
    got, _, body = call("POST", "/resource_providers", {"name": "a", "uuid": own}, version)
    assert got == status
    assert (body or {}).get("uuid") == (own if status == 200 else None)


@pytest.mark.parametrize("version", ["1.39", "1.22"])
@pytest.mark.parametrize("same", ["uuid", "name", "both"])
def test_duplicates(call, operator, version, same):
    own = operator.create_provider("host1")
    body = {
        "uuid": new_uuid() if same == "name" else own,
        "name": "other" if same == "uuid" else "host1",
    }
    status, code, answer = call("POST", "/resource_providers", body, version)
    assert (status, code) == (409, "placement.duplicate_name" if version == "1.39" else None)
    assert "already exists" in answer["errors"][0]["detail"]


def test_identical_inventory_moves_the_generation(call, operator, provider):
    before = generation(operator, provider)
    operator.bump(provider)
    assert generation(operator, provider) != before


def test_identical_traits_do_not_move_the_generation(operator, provider):
    operator.set_traits(provider, {"CUSTOM_A"})
    before = generation(operator, provider)
    operator.set_traits(provider, {"CUSTOM_A"})
    assert generation(operator, provider) == before


@pytest.mark.parametrize(("version", "moves"), [("1.19", True), ("1.18", False)])
def test_identical_aggregates(call, operator, provider, version, moves):
    aggregate = new_uuid()
    operator.set_aggregates(provider, {aggregate})
    before = generation(operator, provider)
    path = f"/resource_providers/{provider}/aggregates"
    guarded = {"aggregates": [aggregate], "resource_provider_generation": before}
    body = guarded if moves else [aggregate]
    status, _, answer = call("PUT", path, body, version)
    assert status == 200
    assert ("resource_provider_generation" in answer) == moves
    assert (generation(operator, provider) != before) == moves


def test_an_allocation_moves_the_generation(operator, provider):
    before = generation(operator, provider)
    operator.allocate(new_uuid(), {provider: {"VCPU": 1}})
    assert generation(operator, provider) != before


def test_renaming_and_moving_leave_the_generation(call, operator, provider):
    before = generation(operator, provider)
    parent = operator.create_provider("parent")
    body = {"name": "renamed", "parent_provider_uuid": parent}
    assert call("PUT", f"/resource_providers/{provider}", body)[0] == 200
    there = operator.provider(provider)
    assert (there["generation"], there["parent"]) == (before, parent)
    assert call("PUT", f"/resource_providers/{provider}", {"name": "again"})[0] == 200
    assert operator.provider(provider)["parent"] == parent
    body = {"name": "again", "parent_provider_uuid": None}
    for version, status in (("1.36", 400), ("1.37", 200)):
        assert call("PUT", f"/resource_providers/{provider}", body, version)[0] == status


@pytest.mark.parametrize("aspect", ["inventories", "traits", "aggregates"])
@pytest.mark.parametrize("version", ["1.39", "1.22"])
def test_outdated_generation(call, operator, provider, aspect, version):
    stale = generation(operator, provider)
    operator.bump(provider)
    body = {
        "resource_provider_generation": stale,
        aspect: {} if aspect == "inventories" else [],
    }
    status, code, answer = call("PUT", f"/resource_providers/{provider}/{aspect}", body, version)
    assert (status, code) == (409, CONCURRENT if version == "1.39" else None)
    assert "conflict" in answer["errors"][0]["detail"]


def test_outdated_consumer_generation(call, provider):
    body = {
        "allocations": {provider: {"resources": {"VCPU": 1}}},
        "project_id": "p",
        "user_id": "u",
        "consumer_generation": 4711,
        "consumer_type": "INSTANCE",
    }
    status, code, answer = call("PUT", f"/allocations/{new_uuid()}", body)
    assert (status, code) == (409, CONCURRENT)
    assert "consumer generation conflict" in answer["errors"][0]["detail"]


def test_removing_a_class_in_use(call, operator, provider):
    body = {
        "resource_provider_generation": generation(operator, provider),
        "inventories": {"DISK_GB": {"total": 1}},
    }
    path = f"/resource_providers/{provider}/inventories"
    assert call("PUT", path, body)[:2] == (409, "placement.inventory.inuse")


def test_total_below_usage_is_accepted(call, operator, provider):
    operator.set_inventory(provider, {"VCPU": {"total": 1}, "DISK_GB": {"total": 1}})
    assert operator.provider(provider)["inventory"]["VCPU"]["total"] == 1


def test_over_capacity(call, provider):
    body = {
        "allocations": {provider: {"resources": {"VCPU": 5}}},
        "project_id": "p",
        "user_id": "u",
        "consumer_generation": None,
        "consumer_type": "INSTANCE",
    }
    assert call("PUT", f"/allocations/{new_uuid()}", body)[:2] == (409, UNDEFINED)


def test_deleting_what_is_in_use_or_has_children(call, operator, provider):
    path = f"/resource_providers/{provider}"
    assert call("DELETE", path)[:2] == (409, "placement.resource_provider.inuse")
    operator.create_provider("child", parent=provider)
    code = "placement.resource_provider.cannot_delete_parent"
    assert call("DELETE", path)[:2] == (409, code)


def test_unknown_names_in_writes(call, operator, provider):
    now = generation(operator, provider)
    path = f"/resource_providers/{provider}"
    body = {"resource_provider_generation": now, "traits": ["CUSTOM_NOBODY"]}
    status, code, answer = call("PUT", f"{path}/traits", body)
    assert (status, code) == (400, UNDEFINED)
    assert "No such trait" in answer["errors"][0]["detail"]
    inventories = {"VCPU": {"total": 8}, "CUSTOM_NOBODY": {"total": 1}}
    body = {"resource_provider_generation": now, "inventories": inventories}
    status, code, answer = call("PUT", f"{path}/inventories", body)
    assert (status, code) == (400, UNDEFINED)
    assert "nknown resource class" in answer["errors"][0]["detail"]


@pytest.mark.parametrize("kind", ["traits", "resource_classes"])
def test_making_names(call, kind):
    assert call("PUT", f"/{kind}/CUSTOM_X")[0] == 201
    assert call("PUT", f"/{kind}/CUSTOM_X")[0] == 204
    assert call("PUT", f"/{kind}/CUSTOM_X")[0] == 204
    assert call("PUT", f"/{kind}/HW_STANDARD")[0] == 400
    assert call("PUT", f"/{kind}/CUSTOM_")[0] == 400
    assert call("DELETE", f"/{kind}/CUSTOM_X")[0] == 204
    assert call("DELETE", f"/{kind}/CUSTOM_X")[0] == 404


def test_the_tree_of_an_unknown_provider_is_empty(call):
    status, _, answer = call("GET", f"/resource_providers?in_tree={new_uuid()}")
    assert (status, answer) == (200, {"resource_providers": []})


def test_a_microversion_that_is_not_there(call):
    status, _, answer = call("GET", "/resource_providers", version="1.99")
    assert status == 406
    error = answer["errors"][0]
    assert (error["min_version"], error["max_version"]) == ("1.0", "1.39")


def test_an_unknown_consumer_holds_nothing(call):
    assert call("GET", f"/allocations/{new_uuid()}") == (200, None, {"allocations": {}})


def test_headers(placement):
    session = placement.session()
    answer = session.get(
        f"{placement.url}/resource_providers",
        headers={"OpenStack-API-Version": "placement 1.15"},
    )
    assert answer.headers["x-openstack-request-id"].startswith("req-")
    assert answer.headers["Last-Modified"].endswith("GMT")
    assert answer.headers["openstack-api-version"] == "placement 1.15"
    assert "ETag" not in answer.headers


@pytest.mark.parametrize(("version", "status"), [("1.26", 200), ("1.25", 400)])
def test_reserving_all(call, operator, provider, version, status):
    body = {
        "resource_provider_generation": generation(operator, provider),
        "inventories": {"VCPU": {"total": 8, "reserved": 8}, "DISK_GB": {"total": 1}},
    }
    path = f"/resource_providers/{provider}/inventories"
    assert call("PUT", path, body, version)[0] == status


def test_inventories_are_answered_with_every_field(operator, provider):
    assert operator.provider(provider)["inventory"]["VCPU"] == {
        "total": 8,
        "reserved": 0,
        "min_unit": 1,
        "max_unit": 2147483647,
        "step_size": 1,
        "allocation_ratio": 1.0,
    }


@pytest.mark.parametrize(
    "query",
    ["name=host1", "in_tree={p}", "uuid={p}", "member_of={a}", "member_of=in:{a},{b}",
     "required=CUSTOM_A", "required=CUSTOM_A,!CUSTOM_B", "required=in:CUSTOM_A,CUSTOM_B",
     "resources=VCPU:4", "member_of=!{b}&name=host1", "name=nobody&required=CUSTOM_A"],
)  # fmt: skip
def test_filters(call, operator, provider, query):
    aggregate, other = new_uuid(), new_uuid()
    operator.set_aggregates(provider, {aggregate})
    operator.set_traits(provider, {"CUSTOM_A"})
    operator.call("PUT", "/traits/CUSTOM_B")
    operator.create_provider("bystander")
    query = query.format(p=provider, a=aggregate, b=other)
    status, _, answer = call("GET", f"/resource_providers?{query}")
    assert status == 200
    found = [one["uuid"] for one in answer["resource_providers"]]
    assert found == ([] if "nobody" in query else [provider])


@pytest.mark.parametrize(
    ("query", "version"),
    [
        ("colour=red", "1.39"),
        ("in_tree=nonsense", "1.39"),
        ("in_tree=00000000-0000-4000-8000-000000000000", "1.13"),
        ("member_of=nonsense", "1.39"),
        ("required=CUSTOM_NOBODY", "1.39"),
        ("required=HW_CPU_X86_AVX", "1.17"),
        ("required=!HW_CPU_X86_AVX", "1.21"),
        ("required=in:HW_CPU_X86_AVX", "1.38"),
        ("resources=VCPU:x", "1.39"),
    ],
)
def test_filters_that_are_refused(call, query, version):
    assert call("GET", f"/resource_providers?{query}", version=version)[0] == 400


@pytest.mark.parametrize(
    ("method", "path", "since"),
    [
        ("GET", "/resource_classes", (1, 2)),
        ("GET", "/traits", (1, 6)),
        ("GET", "/resource_providers/{p}/traits", (1, 6)),
        ("GET", "/resource_providers/{p}/aggregates", (1, 1)),
    ],
)
def test_routes_begin_at_their_microversion(call, provider, method, path, since):
    path = path.format(p=provider)
    assert call(method, path, version=f"1.{since[1]}")[0] == 200
    assert call(method, path, version=f"1.{since[1] - 1}")[0] == 404


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"name": ""},
        {"name": "x" * 201},
        {"name": 7},
        {"name": "a", "uuid": "nonsense"},
        {"name": "a", "colour": "red"},
        {"name": "a", "parent_provider_uuid": "nonsense"},
        {"name": "a", "parent_provider_uuid": "00000000-0000-4000-8000-000000000000"},
    ],
)
def test_creations_that_are_refused(call, body):
    assert call("POST", "/resource_providers", body)[:2] == (400, UNDEFINED)


@pytest.mark.parametrize(
    "record",
    [
        {},
        {"total": 0},
        {"total": 2147483648},
        {"total": "8"},
        {"total": 8, "reserved": 9},
        {"total": 8, "reserved": -1},
        {"total": 8, "min_unit": 0},
        {"total": 8, "step_size": 0},
        {"total": 8, "max_unit": 0},
        {"total": 8, "colour": 1},
    ],
)
def test_inventories_that_are_refused(call, operator, provider, record):
    body = {
        "resource_provider_generation": generation(operator, provider),
        "inventories": {"VCPU": record, "DISK_GB": {"total": 1}},
    }
    path = f"/resource_providers/{provider}/inventories"
    assert call("PUT", path, body)[:2] == (400, UNDEFINED)


def test_not_there(call, provider):
    missing = new_uuid()
    for path in ("", "/inventories", "/traits", "/usages", "/allocations"):
        assert call("GET", f"/resource_providers/{missing}{path}")[0] == 404
    assert call("DELETE", f"/resource_providers/{missing}")[0] == 404
    assert call("GET", "/nonsense")[0] == 404
    assert call("PATCH", f"/resource_providers/{provider}")[0] == 405


def test_rings_are_refused(call, operator, provider):
    child = operator.create_provider("child", parent=provider)
    body = {"name": "host1", "parent_provider_uuid": child}
    assert call("PUT", f"/resource_providers/{provider}", body)[0] == 400


def test_usages_and_allocations_of_a_provider(operator, provider):
    usages = operator.call("GET", f"/resource_providers/{provider}/usages")
    assert usages["usages"] == {"VCPU": 4, "DISK_GB": 0}
    listed = operator.call("GET", f"/resource_providers/{provider}/allocations")
    [held] = listed["allocations"].values()
    assert held["resources"] == {"VCPU": 4}
    assert listed["resource_provider_generation"] == usages["resource_provider_generation"]


def test_a_consumer_that_lets_go_is_gone(operator, provider):
    consumer = new_uuid()
    operator.allocate(consumer, {provider: {"VCPU": 1}})
    first = operator.call("GET", f"/allocations/{consumer}")
    assert first["allocations"][provider]["resources"] == {"VCPU": 1}
    assert (first["project_id"], first["consumer_type"]) == ("project", "INSTANCE")
    operator.allocate(consumer, {})
    assert operator.call("GET", f"/allocations/{consumer}") == {"allocations": {}}
