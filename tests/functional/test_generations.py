# SPDX-License-Identifier: Apache-2.0
"""Reported faults of generation handling, replayed (P1, P2)."""

from __future__ import annotations

import random
import uuid

import pytest
import requests

from reportclient import exceptions

AGGREGATE = str(uuid.uuid4())


def generations_sent(placement):
    return [
        request.json["resource_provider_generation"]
        for request in placement.requests
        if request.method == "PUT" and "resource_provider_generation" in (request.json or {})
    ]


def everything(root):
    def edit(tree):
        tree.update_inventory(root, {"VCPU": {"total": 8}})
        tree.update_aggregates(root, {AGGREGATE})
        tree.update_traits(root, {"HW_CPU_X86_AVX"})

    return edit


def test_b01_b04_every_write_carries_the_generation_last_seen(client, placement, root, editing):
    result = client.report(None, root, "host1", editing(everything(root)))
    assert result.conflicts == 0
    assert [request.status for request in placement.requests if request.method != "GET"] == [
        200
    ] * 4
    answered = [
        request.response_json.get(
            "resource_provider_generation", request.response_json.get("generation")
        )
        for request in placement.requests
        if request.method != "GET"
    ]
    assert generations_sent(placement) == answered[:-1]


def test_b03_clearing_the_inventory_does_not_lose_what_was_added(
    client, placement, operator, root, editing
):
    client.report(None, root, "host1", editing(everything(root)))
    operator.set_inventory(root, {"VCPU": {"total": 8}, "CUSTOM_X": {"total": 1}})
    client.set_inventory_for_provider(None, root, {})
    assert set(operator.provider(root)["inventory"]) == {"CUSTOM_X"}
    assert "DELETE" not in {request.method for request in placement.requests}


def test_b05_single_trait_change_against_a_stale_cache(client, operator, root, editing):
    disabled = "COMPUTE_STATUS_DISABLED"
    client.report(None, root, "host1", editing(lambda tree: tree.add_traits(root, disabled)))
    operator.set_inventory(root, {"VCPU": {"total": 8}})
    operator.allocate(str(uuid.uuid4()), {root: {"VCPU": 1}})
    traits = client.get_provider_traits(None, root).traits
    client.set_traits_for_provider(None, root, traits - {disabled})
    assert operator.provider(root)["traits"] == []


def test_b08_deleted_and_added_again(client, placement, operator, root, editing):
    client.report(None, root, "host1", editing(everything(root)))
    client.delete_resource_provider(None, root)
    assert operator.provider(root) is None
    placement.requests.clear()
    tree = client.get_provider_tree_and_ensure_root(None, root, name="host1")
    assert "POST" in {request.method for request in placement.requests}
    assert tree.data(root).inventory == {}


def test_b09_placement_comes_up_after_the_agent(client, placement, operator, root, editing):
    refused = requests.exceptions.ConnectionError("refused")
    placement.fail(("GET", "*"), refused, times=20)
    with pytest.raises(exceptions.PlacementUnavailable):
        client.report(None, root, "host1", editing(everything(root)))
    placement.clear_hooks()
    assert client.report(None, root, "host1", editing(everything(root))).complete
    assert operator.provider(root)["inventory"]["VCPU"]["total"] == 8


def test_b10_a_refresh_is_all_or_nothing(client, placement, operator, clock, root, editing):
    client.report(None, root, "host1", editing(everything(root)))
    operator.add_trait(root, "CUSTOM_GOLD")
    clock.now += 300
    placement.respond(("GET", f"/resource_providers/{root}/inventories"), status=503, times=20)
    with pytest.raises(exceptions.ServiceUnavailable):
        client.get_provider_tree_and_ensure_root(None, root)
    placement.clear_hooks()
    tree = client.get_provider_tree_and_ensure_root(None, root)
    assert tree.data(root).inventory["VCPU"]["total"] == 8
    assert "CUSTOM_GOLD" in tree.data(root).traits


def test_b11_an_adopted_provider_is_read_before_it_is_written(
    client, placement, operator, root, editing
):
    def somebody_else(request):
        operator.create_provider("host1", uuid=root)
        operator.add_trait(root, "CUSTOM_GOLD")
        operator.set_inventory(root, {"CUSTOM_X": {"total": 1}})
        operator.set_aggregates(root, {AGGREGATE})

    placement.before(("POST", "/resource_providers"), somebody_else)
    client.report(
        None, root, "host1", editing(lambda t: t.update_inventory(root, {"VCPU": {"total": 8}}))
    )
    there = operator.provider(root)
    assert set(there["inventory"]) == {"VCPU", "CUSTOM_X"}
    assert there["traits"] == ["CUSTOM_GOLD"]
    assert there["aggregates"] == [AGGREGATE]


def test_b12_new_fields_are_sent(client, operator, root, editing):
    client.report(
        None, root, "host1", editing(lambda t: t.update_inventory(root, {"VCPU": {"total": 8}}))
    )
    full = {"VCPU": {"total": 8, "reserved": 1, "allocation_ratio": 16.0}}
    client.report(None, root, "host1", editing(lambda t: t.update_inventory(root, full)))
    vcpu = operator.provider(root)["inventory"]["VCPU"]
    assert (vcpu["reserved"], vcpu["allocation_ratio"]) == (1, 16.0)


def test_b13_a_missing_field_keeps_what_is_stored(client, operator, root, editing):
    both = {"DISK_GB": {"total": 100, "reserved": 40}}
    client.report(None, root, "host1", editing(lambda t: t.update_inventory(root, both)))
    client.report(
        None,
        root,
        "host1",
        editing(lambda t: t.update_inventory(root, {"DISK_GB": {"total": 99}})),
    )
    disk = operator.provider(root)["inventory"]["DISK_GB"]
    assert (disk["total"], disk["reserved"]) == (99, 40)


def test_b14_what_an_admin_removed_comes_back_after_the_refresh(
    client, operator, clock, root, editing
):
    driver = editing(lambda tree: tree.add_traits(root, "HW_CPU_X86_AVX", "HW_CPU_X86_AVX2"))
    client.report(None, root, "host1", driver)
    operator.set_traits(root, {"HW_CPU_X86_AVX"})
    client.report(None, root, "host1", driver)
    assert operator.provider(root)["traits"] == ["HW_CPU_X86_AVX"]
    clock.now += 300
    client.report(None, root, "host1", driver)
    assert operator.provider(root)["traits"] == ["HW_CPU_X86_AVX", "HW_CPU_X86_AVX2"]


def test_b14_refresh_now(client, operator, root, editing):
    driver = editing(lambda tree: tree.add_traits(root, "HW_CPU_X86_AVX"))
    client.report(None, root, "host1", driver)
    operator.set_traits(root, set())
    client.refresh([root])
    client.report(None, root, "host1", driver)
    assert operator.provider(root)["traits"] == ["HW_CPU_X86_AVX"]


def test_b15_interval_zero_loads_once_and_then_on_request(
    make_client, placement, operator, clock, root
):
    operator.create_provider("host1", uuid=root)
    client = make_client(refresh_interval=0)
    client.get_provider_tree_and_ensure_root(None, root)
    placement.requests.clear()
    for _ in range(2):
        clock.now += 10**9
        client.get_provider_tree_and_ensure_root(None, root)
    assert placement.requests == []
    client.clear_provider_cache()
    client.get_provider_tree_and_ensure_root(None, root)
    assert len(placement.requests) == 4


def test_b16_the_other_trees_keep_their_cache(client, placement, root, editing):
    other = str(uuid.uuid4())
    for rp_uuid in (root, other):
        client.report(None, rp_uuid, rp_uuid, editing(everything(rp_uuid)))
    placement.respond(("PUT", f"/resource_providers/{root}/*"), status=500, times=20)
    with pytest.raises(exceptions.ResourceProviderSyncFailed):
        client.report(
            None, root, root, editing(lambda t: t.update_inventory(root, {"VCPU": {"total": 1}}))
        )
    placement.clear_hooks()
    placement.requests.clear()
    client.get_provider_tree_and_ensure_root(None, other)
    assert placement.requests == []
    client.get_provider_tree_and_ensure_root(None, root)
    assert placement.requests


def test_b17_what_could_not_be_written_is_sent_again(client, placement, operator, root, editing):
    client.report(None, root, "host1", editing(everything(root)))
    grown = editing(lambda tree: tree.update_inventory(root, {"VCPU": {"total": 9}}))
    placement.respond(("PUT", "*/inventories"), status=503, times=20)
    with pytest.raises(exceptions.PlacementUnavailable):
        client.report(None, root, "host1", grown)
    placement.clear_hooks()
    client.report(None, root, "host1", grown)
    assert operator.provider(root)["inventory"]["VCPU"]["total"] == 9


def test_b20_the_callers_own_generation_is_not_retried(client, placement, operator, root):
    operator.create_provider("host1", uuid=root)
    stale = operator.provider(root)["generation"]
    operator.set_inventory(root, {"VCPU": {"total": 1}})
    placement.requests.clear()
    with pytest.raises(exceptions.ResourceProviderUpdateConflict) as caught:
        client.set_traits_for_provider(None, root, ["CUSTOM_A"], generation=stale)
    assert caught.value.base_generation == stale
    assert [r.method for r in placement.requests if r.path.endswith(f"{root}/traits")] == ["PUT"]
    with pytest.raises(exceptions.ResourceProviderUpdateConflict):
        client.set_aggregates_for_provider(
            None, root, [AGGREGATE], use_cache=False, generation=stale
        )
    fresh = operator.provider(root)["generation"]
    client.set_aggregates_for_provider(None, root, [AGGREGATE], use_cache=False, generation=fresh)
    assert operator.provider(root)["aggregates"] == [AGGREGATE]
    with pytest.raises(ValueError, match="generation"):
        client.set_aggregates_for_provider(None, root, [AGGREGATE], use_cache=False)


def test_p2_torn_reads_need_no_special_case(client, placement, operator, root, editing):
    """Somebody writes between the three reads of a provider."""
    operator.create_provider("host1", uuid=root)
    operator.set_inventory(root, {"VCPU": {"total": 8}})
    placement.before(
        ("GET", f"/resource_providers/{root}/traits"),
        lambda request: operator.set_inventory(
            root, {"VCPU": {"total": 8}, "CUSTOM_X": {"total": 1}}
        ),
    )
    client.report(
        None, root, "host1", editing(lambda t: t.update_inventory(root, {"VCPU": {"total": 7}}))
    )
    assert set(operator.provider(root)["inventory"]) == {"VCPU", "CUSTOM_X"}


def test_generations_jump_at_random(client, operator, root, editing):
    """Writes by others between all of ours: nothing is lost, nothing guessed."""
    rng = random.Random(1)
    wanted = set()
    for n in range(10):
        for _ in range(rng.randrange(3)):
            operator.bump(root) if n else None
        wanted.add(f"CUSTOM_T{n}")
        client.report(
            None, root, "host1", editing(lambda t, n=n: t.add_traits(root, f"CUSTOM_T{n}"))
        )
    assert set(operator.provider(root)["traits"]) == wanted
