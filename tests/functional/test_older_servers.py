# SPDX-License-Identifier: Apache-2.0
"""Older and newer servers: reported faults of the group "Microversion", replayed."""

from __future__ import annotations

import uuid

import pytest

from reportclient import exceptions
from reportclient.testing import FakePlacement

AGGREGATE = str(uuid.uuid4())


def everything(root):
    def edit(tree):
        tree.update_inventory(root, {"VCPU": {"total": 8}, "CUSTOM_A": {"total": 1}})
        tree.update_aggregates(root, {AGGREGATE})
        tree.update_traits(root, {"HW_CPU_X86_AVX", "CUSTOM_T"})

    return edit


@pytest.mark.parametrize("version", ["1.6", "1.13", "1.14", "1.17", "1.18", "1.19", "1.22"])
def test_b02_a_whole_life_on_an_older_server(older, make_client, root, editing, clock, version):
    service = older(version)
    client = make_client(service.adapter())
    result = client.report(None, root, "host1", editing(everything(root)))
    assert result.conflicts == 0
    there = service.operator.provider(root)
    assert set(there["inventory"]) == {"VCPU", "CUSTOM_A"}
    assert there["traits"] == ["CUSTOM_T", "HW_CPU_X86_AVX"]
    assert there["aggregates"] == [AGGREGATE]
    clock.now += 300
    service.requests.clear()
    assert not client.report(None, root, "host1", editing(everything(root))).changed
    assert {request.method for request in service.requests} == {"GET"}

    def meddled(tree):
        service.operator.add_trait(root, "CUSTOM_GOLD")
        tree.update_traits(root, {"HW_CPU_X86_AVX2"})

    client.report(None, root, "host1", editing(meddled))
    assert service.operator.provider(root)["traits"] == ["CUSTOM_GOLD", "HW_CPU_X86_AVX2"]
    client.report(
        None,
        root,
        "host1",
        editing(lambda t: t.update_inventory(root, {"VCPU": {"total": 9, "reserved": 1}})),
    )
    assert service.operator.provider(root)["inventory"]["VCPU"]["total"] == 9
    client.delete_resource_provider(None, root)
    assert service.operator.provider(root) is None


def test_b134_too_old_is_said_and_learned_once(older, make_client, root, editing):
    service = older("1.10")
    client = make_client(service.adapter())
    client.get_provider_tree_and_ensure_root(None, root, name="host1")

    def with_child(tree):
        tree.new_child("child", root)
        tree.update_inventory(root, {"VCPU": {"total": 8}})

    with pytest.raises(exceptions.ResourceProviderSyncFailed) as caught:
        client.report(None, root, "host1", editing(with_child))
    [failure] = caught.value.result.failures.values()
    assert (failure.needed, failure.offered) == ("1.14", ("1.0", "1.10"))
    assert "1.14" in str(failure)
    assert "1.10" in str(failure)
    assert service.operator.provider(root)["inventory"]["VCPU"]["total"] == 8
    assert [request.status for request in service.requests].count(406) == 1


def test_b134_an_upgrade_is_noticed(make_client, root, editing, clock):
    with FakePlacement(max_microversion="1.18") as service:
        client = make_client(service.adapter())
        client.get_provider_tree_and_ensure_root(None, root, name="host1")
        service.upgrade("1.39")
        clock.now += 3601
        client.report(None, root, "host1", editing(everything(root)))
        puts = [r for r in service.requests if r.path.endswith(f"{root}/aggregates")]
        assert puts[-1].microversion == "1.23"


def test_b135_every_request_names_its_microversion(client, placement, root, editing):
    client.report(None, root, "host1", editing(everything(root)))
    client.delete_resource_provider(None, root)
    for request in placement.requests:
        assert request.microversion is not None
        assert request.headers["Accept"] == "application/json"
        if request.json is not None:
            assert request.headers["Content-Type"] == "application/json"


def test_b136_versions_are_not_decimal_numbers(older, make_client, root):
    """1.10 is newer than 1.9, and 1.4 older than 1.39."""
    service = older("1.10")
    client = make_client(service.adapter())
    client.get_provider_tree_and_ensure_root(None, root, name="host1")
    client.set_traits_for_provider(None, root, ["CUSTOM_A"])
    assert service.operator.provider(root)["traits"] == ["CUSTOM_A"]


@pytest.mark.parametrize(
    "errors", [[{"status": 409, "detail": "odd"}], [], None, "odd", [None], {"a": 1}]
)
def test_b138_conflicts_without_a_code(client, placement, root, editing, errors):
    client.report(None, root, "host1", editing(lambda tree: None))
    placement.respond(("PUT", "*/traits"), status=409, body={"errors": errors}, times=50)
    with pytest.raises(exceptions.ReportClientError):
        client.report(
            None, root, "host1", editing(lambda tree: tree.add_traits(root, "HW_CPU_X86_AVX"))
        )


@pytest.mark.parametrize("aspect", ["inventories", "traits"])
def test_a_race_on_a_server_without_codes(older, make_client, root, editing, aspect):
    service = older("1.22")
    client = make_client(service.adapter())
    client.report(None, root, "host1", editing(everything(root)))
    service.operator.bump(root)

    def edit(tree):
        if aspect == "traits":
            tree.add_traits(root, "HW_CPU_X86_SSE")
        else:
            tree.update_inventory(root, {"VCPU": {"total": 3}, "CUSTOM_A": {"total": 1}})

    result = client.report(None, root, "host1", editing(edit))
    assert result.conflicts == 1
    assert result.complete


def test_in_use_and_name_conflicts_on_a_server_without_codes(older, make_client, root, editing):
    service = older("1.22")
    client = make_client(service.adapter())
    child = str(uuid.uuid4())

    def family(tree):
        everything(root)(tree)
        tree.new_child("c", root, uuid=child)
        tree.update_inventory(child, {"VGPU": {"total": 1}})

    client.report(None, root, "host1", editing(family))
    body = {
        "allocations": {
            root: {"resources": {"VCPU": 1}},
            child: {"resources": {"VGPU": 1}},
        },
        "project_id": "p",
        "user_id": "u",
    }
    service.operator.call("PUT", f"/allocations/{uuid.uuid4()}", body)

    def drop(tree):
        tree.update_inventory(root, {"CUSTOM_A": {"total": 2}})
        tree.remove(child)

    result = client.report(None, root, "host1", editing(drop))
    assert result.providers[root].kept.resource_classes == ("VCPU",)
    assert isinstance(result.providers[child].pending, exceptions.ResourceProviderInUse)
    holder = service.operator.create_provider("taken")
    with pytest.raises(exceptions.ResourceProviderNameConflict) as caught:
        client.get_provider_tree_and_ensure_root(None, str(uuid.uuid4()), name="taken")
    assert caught.value.holder == holder
    with pytest.raises(exceptions.ResourceProviderInUse):
        client.delete_resource_provider(None, root)


def payload(root, **more):
    return {
        "allocations": {root: {"resources": {"VCPU": 1}}},
        "project_id": "p",
        "user_id": "u",
        "consumer_generation": None,
        **more,
    }


@pytest.mark.parametrize("version", ["1.28", "1.34", "1.37", "1.38"])
@pytest.mark.parametrize("kind", [None, "INSTANCE"])
def test_consumers_on_a_server_with_and_without_types(older, make_client, root, version, kind):
    service = older(version)
    service.operator.create_provider("host1", uuid=root)
    service.operator.set_inventory(root, {"VCPU": {"total": 8}})
    client = make_client(service.adapter(), consumer_type=kind)
    one, two = str(uuid.uuid4()), str(uuid.uuid4())
    asked = {"allocations": {root: {"resources": {"VCPU": 2}}}, "mappings": {"": [root]}}
    assert client.claim_resources(None, one, asked, "p", "u", "1.36")
    client.move_allocations(None, one, two)
    client.put_allocations(None, one, payload(root, consumer_type="INSTANCE"))
    client.add_resources_to_instance_allocation(None, two, {root: {"VCPU": 1}})
    there = client.get_allocs_for_consumer(None, two)
    assert there["allocations"][root]["resources"] == {"VCPU": 3}
    typed = version == "1.38"
    assert there.get("consumer_type") == ((kind or "unknown") if typed else None)
    client.post_allocations(None, {two: there | {"allocations": {}}})
    found = client.get_usages(None, "p")
    assert found.resources == {"VCPU": 1}
    assert found.consumers == (1 if typed else None)
    assert client.delete_allocation_for_instance(None, one)
    if not typed:
        with pytest.raises(exceptions.MicroversionNotSupported):
            client.get_usages(None, "p", consumer_type="INSTANCE")


def test_consumers_on_a_server_without_a_guard(older, make_client, root):
    """No consumer is written to without its generation."""
    service = older("1.27")
    service.operator.create_provider("host1", uuid=root)
    service.operator.set_inventory(root, {"VCPU": {"total": 8}})
    client = make_client(service.adapter())
    one = str(uuid.uuid4())
    for call in (
        lambda: client.put_allocations(None, one, payload(root)),
        lambda: client.claim_resources(None, one, payload(root), "p", "u", "1.12"),
        lambda: client.move_allocations(None, one, root),
        lambda: client.get_allocs_for_consumer(None, one),
        lambda: client.delete_allocation_for_instance(None, one),
    ):
        with pytest.raises(exceptions.MicroversionNotSupported) as caught:
            call()
        assert caught.value.needed == "1.28"
    body = payload(root)
    del body["consumer_generation"]
    service.operator.call("PUT", f"/allocations/{one}", body, version="1.27")
    assert client.get_usages_counts_for_limits(None, "p") == {"VCPU": 1}
    assert client.get_usages(None, "p").resources == {"VCPU": 1}
    assert client.get_allocations_for_resource_provider(None, root).allocations == {
        one: {"resources": {"VCPU": 1}}
    }
    assert client.delete_allocation_for_instance(None, one, force=True)
