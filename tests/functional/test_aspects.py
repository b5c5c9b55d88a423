# SPDX-License-Identifier: Apache-2.0
"""Reported faults of inventories, traits, aggregates and sharing, replayed."""

from __future__ import annotations

import uuid

import pytest

import reportclient
from reportclient import exceptions

NEW = "placement.undefined_code"


def new_uuid():
    return str(uuid.uuid4())


@pytest.fixture
def flush(client, root, editing):
    """Report a root with some inventory, traits or aggregates."""

    def flush(inventory=None, traits=None, aggregates=None, using=client):
        def edit(tree):
            if inventory is not None:
                tree.update_inventory(root, inventory)
            if traits is not None:
                tree.update_traits(root, traits)
            if aggregates is not None:
                tree.update_aggregates(root, aggregates)

        return using.report(None, root, "host1", editing(edit))

    return flush


def refused(error):
    """Every single fault of an `InvalidInput`."""
    return getattr(error, "errors", None) or (error,)


# -- inventories --------------------------------------------------------------


def test_b48_reserved_above_total(flush, placement):
    with pytest.raises(exceptions.InvalidInventory) as caught:
        flush({"DISK_GB": {"total": 40, "reserved": 51200}})
    error = caught.value
    assert (error.resource_class, error.field, error.value) == ("DISK_GB", "reserved", 51200)
    assert "host1" in error.provider
    assert {request.method for request in placement.requests} == {"GET"}


def test_b49_all_reserved(flush, operator, root, client):
    full = {"CUSTOM_BM": {"total": 1, "reserved": 1}}
    flush(full)
    assert operator.provider(root)["inventory"]["CUSTOM_BM"]["reserved"] == 1
    client.set_inventory_for_provider(None, root, {"CUSTOM_BM": {"total": 2, "reserved": 2}})
    assert operator.provider(root)["inventory"]["CUSTOM_BM"]["reserved"] == 2


def test_b49_all_reserved_on_an_older_server(flush, older, make_client, root):
    service = older("1.25")
    client = make_client(service.adapter())
    with pytest.raises(exceptions.ResourceProviderSyncFailed) as caught:
        flush({"CUSTOM_BM": {"total": 1, "reserved": 1}}, using=client)
    failure = caught.value.result.failures[root]
    assert isinstance(failure, exceptions.MicroversionNotSupported)
    assert failure.needed == "1.26"
    flush({"CUSTOM_BM": {"total": 2, "reserved": 1}}, using=client)
    assert service.operator.provider(root)["inventory"]["CUSTOM_BM"]["reserved"] == 1


def test_b50_zero_is_left_out_and_negative_is_refused(flush, operator, root):
    flush({"VCPU": {"total": 0}, "DISK_GB": {"total": 10}})
    assert set(operator.provider(root)["inventory"]) == {"DISK_GB"}
    with pytest.raises(exceptions.InvalidInventory, match="MEMORY_MB: total -512"):
        flush({"MEMORY_MB": {"total": -512}, "DISK_GB": {"total": 11}})
    assert operator.provider(root)["inventory"]["DISK_GB"]["total"] == 10


def test_b50_zero_total_of_a_class_in_use(flush, operator, root):
    flush({"VCPU": {"total": 4}, "DISK_GB": {"total": 10}})
    operator.allocate(new_uuid(), {root: {"VCPU": 1}})
    result = flush({"VCPU": {"total": 0}, "DISK_GB": {"total": 11}})
    kept = result.providers[root].kept
    assert kept.resource_classes == ("VCPU",)
    assert (kept.status, kept.method, kept.code) == (409, "PUT", "placement.inventory.inuse")
    assert kept.request_id
    there = operator.provider(root)["inventory"]
    assert (there["VCPU"]["total"], there["DISK_GB"]["total"]) == (4, 11)


def test_in_use_is_kept_until_it_is_free(flush, placement, operator, root, caplog):
    flush({"VCPU": {"total": 4}, "VGPU": {"total": 2}, "DISK_GB": {"total": 10}})
    consumer = new_uuid()
    operator.allocate(consumer, {root: {"VGPU": 1}})
    for disk in (11, 12):
        result = flush({"DISK_GB": {"total": disk}})
        assert result.providers[root].kept.resource_classes == ("VGPU",)
        assert set(operator.provider(root)["inventory"]) == {"VGPU", "DISK_GB"}
    assert len([r for r in caplog.records if r.levelname == "WARNING"]) == 1
    operator.allocate(consumer, {})
    assert flush({"DISK_GB": {"total": 12}}).complete
    assert set(operator.provider(root)["inventory"]) == {"DISK_GB"}


def test_in_use_when_setting_one_inventory(client, flush, operator, root):
    flush({"VCPU": {"total": 4}, "DISK_GB": {"total": 10}})
    operator.allocate(new_uuid(), {root: {"VCPU": 1}})
    with pytest.raises(exceptions.InventoryInUse) as caught:
        client.set_inventory_for_provider(None, root, {"DISK_GB": {"total": 11}})
    assert caught.value.resource_classes == ("VCPU",)
    assert operator.provider(root)["inventory"]["DISK_GB"]["total"] == 11


def test_b51_only_given_fields_are_sent_and_not_for_ever(flush, placement):
    flush({"VCPU": {"total": 4}})
    [put] = [r for r in placement.requests if r.method == "PUT"]
    assert put.json["inventories"] == {"VCPU": {"total": 4}}
    assert flush({"VCPU": {"total": 4}}).requests == {}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("total", 2147483648),
        ("total", -1),
        ("total", "16"),
        ("total", True),
        ("total", 16.5),
        ("max_unit", 2**40),
        ("reserved", -1),
        ("step_size", 0),
        ("min_unit", 0),
        ("allocation_ratio", float("nan")),
        ("allocation_ratio", float("inf")),
        ("allocation_ratio", 0.0),
        ("allocation_ratio", -1.0),
        ("allocation_ratio", "4"),
        ("colour", 1),
    ],
)
def test_b53_b54_b55_values_that_placement_refuses(flush, placement, field, value):
    with pytest.raises(exceptions.InvalidInventory) as caught:
        flush({"VCPU": {"total": 16, field: value}})
    assert (caught.value.resource_class, caught.value.field) == ("VCPU", field)
    assert "PUT" not in {request.method for request in placement.requests}


def test_b53_b54_values_at_the_limits(flush, operator, root):
    class NumpyInt(int):
        """Stands for any integer type of a library."""

    flush({"VCPU": {"total": 2147483647, "max_unit": NumpyInt(8)}, "DISK_GB": {"total": 16.0}})
    there = operator.provider(root)["inventory"]
    assert there["VCPU"]["total"] == 2147483647
    assert there["DISK_GB"]["total"] == 16


def test_every_fault_of_every_provider_at_once(client, placement, root, editing):
    def edit(tree):
        tree.update_inventory(root, {"VCPU": {"total": -1}, "bad": {"total": 1}})
        tree.update_traits(root, {"custom_x"})
        tree.new_child("c", root)
        tree.update_aggregates("c", {"not-a-uuid"})

    with pytest.raises(exceptions.InvalidProviderTree) as caught:
        client.report(None, root, "host1", editing(edit))
    assert sorted(type(error).__name__ for error in caught.value.errors) == [
        "InvalidAggregate",
        "InvalidInventory",
        "InvalidResourceClass",
        "InvalidTrait",
    ]
    assert {request.method for request in placement.requests} == {"GET"}


def test_ratios_are_not_sent_again_for_ever(client, placement, root, editing):
    """A database keeps 1.1 in single precision and shows it so."""
    placement.respond(
        ("PUT", "*/inventories"),
        status=200,
        body={
            "resource_provider_generation": 7,
            "inventories": {"VCPU": {"total": 4, "allocation_ratio": 1.10000002384185791015625}},
        },
    )
    driver = editing(
        lambda t: t.update_inventory(root, {"VCPU": {"total": 4, "allocation_ratio": 1.1}})
    )
    client.report(None, root, "host1", driver)
    assert client.report(None, root, "host1", driver).requests == {}


# -- traits --------------------------------------------------------------------


def test_b56_the_operators_trait_survives(client, flush, operator, root, editing):
    flush(traits={"HW_CPU_X86_AVX"})
    operator.add_trait(root, "CUSTOM_GOLD")

    def edit(tree):
        tree.remove_traits(root, "HW_CPU_X86_AVX")
        tree.add_traits(root, "HW_CPU_X86_AVX2")

    client.report(None, root, "host1", editing(edit))
    assert operator.provider(root)["traits"] == ["CUSTOM_GOLD", "HW_CPU_X86_AVX2"]


def test_b57_a_trait_goes_away_after_it_was_ensured(client, flush, placement, operator, root):
    flush(traits={"CUSTOM_A"})
    flush(traits=set())
    operator.call("DELETE", "/traits/CUSTOM_A")
    assert flush(traits={"CUSTOM_A"}).complete
    assert operator.provider(root)["traits"] == ["CUSTOM_A"]


def test_b58_a_trait_that_is_there_already(flush, placement, operator, root):
    operator.call("PUT", "/traits/CUSTOM_A")
    flush(traits={"CUSTOM_A"})
    assert 204 in [r.status for r in placement.requests if r.path == "/traits/CUSTOM_A"]
    assert operator.provider(root)["traits"] == ["CUSTOM_A"]


@pytest.mark.parametrize(
    "trait", ["CUSTOM_foo-bar", "custom_x", "CUSTOM_", "A" * 256, "CUSTOM_A\n", "", 7]
)
def test_b62_traits_that_placement_refuses(flush, placement, trait):
    with pytest.raises(exceptions.InvalidTrait) as caught:
        flush(traits=[trait])
    assert caught.value.value == trait
    assert {request.method for request in placement.requests} == {"GET"}


@pytest.mark.parametrize(
    "given",
    [set, tuple, dict.fromkeys, iter, lambda names: [*names, *names]],
    ids=["set", "tuple", "dict", "generator", "duplicates"],
)
def test_b63_any_iterable_of_traits(flush, placement, operator, root, given):
    names = ["HW_CPU_X86_AVX", "HW_CPU_X86_AVX2"]
    flush(traits=given(names))
    assert operator.provider(root)["traits"] == names
    placement.requests.clear()
    assert not flush(traits=given(names)).changed
    assert placement.requests == []


def test_a_standard_trait_that_placement_does_not_know(
    make_client, flush, placement, operator, clock, root, caplog
):
    client = make_client()
    for _ in range(3):
        result = flush(traits={"HW_CPU_FUTURE", "HW_CPU_X86_AVX"}, using=client)
        assert operator.provider(root)["traits"] == ["HW_CPU_X86_AVX"]
    [warning] = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    assert "HW_CPU_FUTURE" in warning
    assert result.requests == {}
    clock.now += 300
    placement.requests.clear()
    flush(traits={"HW_CPU_FUTURE", "HW_CPU_X86_AVX"}, using=client)
    assert [r.status for r in placement.requests if r.path.endswith(f"{root}/traits")] == [400]


def test_a_standard_trait_that_placement_does_not_know_strictly(make_client, flush, root):
    client = make_client(strict=True)
    with pytest.raises(exceptions.ResourceProviderSyncFailed) as caught:
        flush(traits={"HW_CPU_FUTURE"}, using=client)
    failure = caught.value.result.failures[root]
    assert isinstance(failure, exceptions.UnknownTrait)
    assert "HW_CPU_FUTURE" in failure.names


# -- resource classes -----------------------------------------------------------


def test_b74_a_new_standard_class_is_not_created(flush, placement, operator, root):
    for _ in range(3):
        # Every pass says so, whether it asked again or not.
        result = flush({"FUTURE_CLASS": {"total": 1}, "VCPU": {"total": 1}})
        assert result.providers[root].left_out == {"FUTURE_CLASS"}
        assert not result.complete
    assert not [r for r in placement.requests if r.path.startswith("/resource_classes/")]
    assert set(operator.provider(root)["inventory"]) == {"VCPU"}


def test_b76_a_class_goes_away_after_it_was_ensured(flush, operator, root):
    flush({"CUSTOM_A": {"total": 1}})
    flush({})
    operator.call("DELETE", "/resource_classes/CUSTOM_A")
    assert flush({"CUSTOM_A": {"total": 1}}).complete
    assert set(operator.provider(root)["inventory"]) == {"CUSTOM_A"}


def test_names_are_asked_for_once(client, placement, root, editing):
    """Ten children that share a class and a trait."""

    def edit(tree):
        for n in range(10):
            tree.new_child(f"c{n}", root)
            tree.update_inventory(f"c{n}", {"CUSTOM_GPU": {"total": 1}})
            tree.update_traits(f"c{n}", {"CUSTOM_FAST"})

    client.report(None, root, "host1", editing(edit))
    kinds = placement.by_kind()
    assert kinds["PUT /resource_classes/{name}"] == 1
    assert kinds["PUT /traits/{name}"] == 1


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("straße-gpu 2.0", "CUSTOM_STRA_E_GPU_2_0"),
        ("a b", "CUSTOM_A_B"),
        ("CUSTOM_GPU", "CUSTOM_GPU"),
        ("CUSTOM_x", "CUSTOM_CUSTOM_X"),
    ],
)
def test_b77_a_class_for_a_devices_name(text, name):
    assert reportclient.custom_resource_class(text) == name
    assert reportclient.custom_resource_class(name) == name


@pytest.mark.parametrize("text", ["", None, "x" * 300])
def test_b77_no_class_for_no_name(text):
    with pytest.raises(exceptions.InvalidResourceClass):
        reportclient.custom_resource_class(text)


def test_b61_names_are_made_before_they_are_asked_for(client, placement, operator):
    client.ensure_traits(None, ["CUSTOM_NEW", "HW_CPU_X86_AVX"])
    client.ensure_resource_classes(None, ["CUSTOM_A", "CUSTOM_B", "CUSTOM_C", "VCPU"])
    operator.call("GET", "/resource_providers?required=CUSTOM_NEW")
    operator.call("GET", "/resource_classes/CUSTOM_C")
    placement.requests.clear()
    client.ensure_traits(None, ["CUSTOM_NEW"])
    assert placement.requests == []
    with pytest.raises(exceptions.InvalidTrait):
        client.ensure_traits(None, ["bad"])


# -- aggregates -----------------------------------------------------------------


def test_b64_the_last_aggregate_is_taken_away(flush, placement, operator, root):
    flush(aggregates={new_uuid()})
    flush(aggregates=set())
    put = [r for r in placement.requests if r.method == "PUT"][-1]
    assert put.json["aggregates"] == []
    assert put.headers["Content-Type"] == "application/json"
    assert operator.provider(root)["aggregates"] == []


@pytest.mark.parametrize("version", ["1.18", "1.19"])
def test_b65_aggregates_on_an_older_server(flush, older, make_client, root, version):
    service = older(version)
    client = make_client(service.adapter())
    one, two = sorted([new_uuid(), new_uuid()])
    flush(aggregates={one}, using=client)
    result = flush(inventory={"VCPU": {"total": 1}}, aggregates={one, two}, using=client)
    assert result.conflicts == 0
    assert service.operator.provider(root)["aggregates"] == [one, two]
    bodies = [
        r.json for r in service.requests if r.path.endswith("/aggregates") and r.status == 200
    ]
    assert isinstance(bodies[-1], list if version == "1.18" else dict)


@pytest.mark.parametrize("status", [500, 409])
def test_b66_a_race_inside_the_server(flush, placement, operator, root, status):
    flush()
    text = "A duplicate entry: concurrent update" if status == 409 else "Duplicate entry"
    body = {"errors": [{"status": status, "code": NEW, "detail": text}]}
    placement.respond(("PUT", "*/aggregates"), status=status, body=body)
    aggregate = new_uuid()
    assert flush(aggregates={aggregate}).complete
    assert operator.provider(root)["aggregates"] == [aggregate]


def test_b67_one_aggregate_in_three_spellings(flush, placement, operator, root):
    aggregate = new_uuid()
    flush(aggregates=[aggregate, aggregate.upper(), aggregate.replace("-", "")])
    assert operator.provider(root)["aggregates"] == [aggregate]
    with pytest.raises(exceptions.InvalidAggregate, match="rack-7"):
        flush(aggregates=["rack-7"])


def test_aggregate_add_and_remove_host(client, placement, operator, root):
    operator.create_provider("host1", uuid=root)
    mine, other = new_uuid(), new_uuid()
    operator.set_aggregates(root, {other})
    placement.before(("PUT", "*/aggregates"), lambda request: operator.add_trait(root, "CUSTOM_X"))
    client.aggregate_add_host(None, mine, host_name="host1")
    assert set(operator.provider(root)["aggregates"]) == {mine, other}
    placement.requests.clear()
    client.aggregate_add_host(None, mine, rp_uuid=root)
    assert [r.method for r in placement.requests] == ["GET"]
    client.aggregate_remove_host(None, mine, "host1")
    assert operator.provider(root)["aggregates"] == [other]
    with pytest.raises(ValueError, match="host_name or rp_uuid"):
        client.aggregate_add_host(None, mine)


# -- sharing providers ------------------------------------------------------------


@pytest.fixture
def shared_disk(operator):
    """A storage pool that an aggregate shares, and the aggregate."""
    aggregate = new_uuid()
    pool = operator.create_provider("pool")
    operator.set_inventory(pool, {"DISK_GB": {"total": 5000}})
    operator.set_traits(pool, {"MISC_SHARES_VIA_AGGREGATE"})
    operator.set_aggregates(pool, {aggregate})
    return pool, aggregate


def test_b69_shared_disk_is_seen(client, root, operator, shared_disk):
    pool, aggregate = shared_disk
    operator.create_provider("host1", uuid=root)
    operator.set_aggregates(root, {aggregate})
    tree = client.get_provider_subtree_and_ensure_root(None, root)
    assert tree.has_sharing_provider("DISK_GB")
    assert not tree.has_sharing_provider("VCPU")
    assert [provider.uuid for provider in tree.roots] == [root, pool]


def test_b71_other_hosts_of_the_aggregate_are_not_read(
    client, placement, root, operator, shared_disk
):
    pool, aggregate = shared_disk
    operator.create_provider("host1", uuid=root)
    for uuid_ in (root, *(operator.create_provider(f"other{n}") for n in range(5))):
        operator.set_aggregates(uuid_, {aggregate})
    tree = client.get_provider_tree_and_ensure_root(None, root)
    assert set(tree.get_provider_uuids()) == {root, pool}
    [query] = [r.path for r in placement.requests if "member_of" in r.path]
    assert "required=MISC_SHARES_VIA_AGGREGATE" in query
    assert aggregate in query


def test_b72_a_sharing_provider_in_somebody_elses_tree(
    client, placement, root, operator, shared_disk, editing, clock
):
    _, aggregate = shared_disk
    elsewhere = operator.create_provider("array")
    child = operator.create_provider("volume", parent=elsewhere)
    operator.set_inventory(child, {"CUSTOM_IOPS": {"total": 100}})
    operator.set_traits(child, {"MISC_SHARES_VIA_AGGREGATE"})
    operator.set_aggregates(child, {aggregate})
    operator.create_provider("host1", uuid=root)
    operator.set_aggregates(root, {aggregate})
    before = operator.provider(child)

    def drop(tree):
        assert tree.data(child).parent_uuid is None
        tree.remove(child)
        tree.update_inventory(root, {"VCPU": {"total": 1}})

    assert client.report(None, root, "host1", editing(drop)).complete
    assert operator.provider(child) == before
    clock.now += 300
    client.report(None, root, "host1", editing(lambda tree: None))
    assert operator.provider(child) == before


def test_b73_the_host_leaves_the_aggregate(client, root, operator, shared_disk, clock):
    pool, aggregate = shared_disk
    operator.create_provider("host1", uuid=root)
    operator.set_aggregates(root, {aggregate})
    assert client.get_provider_tree_and_ensure_root(None, root).exists(pool)
    operator.set_aggregates(root, set())
    clock.now += 300
    tree = client.get_provider_tree_and_ensure_root(None, root)
    assert not tree.exists(pool)
    assert not tree.has_sharing_provider("DISK_GB")
    assert operator.provider(pool)["aggregates"] == [aggregate]


def test_sharing_providers_cost_one_listing(client, placement, root, operator, shared_disk, clock):
    _, aggregate = shared_disk
    operator.create_provider("host1", uuid=root)
    operator.set_aggregates(root, {aggregate})
    client.get_provider_tree_and_ensure_root(None, root)
    placement.requests.clear()
    clock.now += 300
    client.get_provider_tree_and_ensure_root(None, root)
    assert placement.by_kind() == {"GET /resource_providers": 2}


def test_a_driver_may_report_for_a_sharing_provider(client, root, operator, shared_disk, editing):
    pool, aggregate = shared_disk
    operator.create_provider("host1", uuid=root)
    operator.set_aggregates(root, {aggregate})

    def edit(tree):
        tree.update_inventory(pool, {"DISK_GB": {"total": 6000}})
        tree.add_traits(pool, "CUSTOM_FAST")

    assert client.report(None, root, "host1", editing(edit)).complete
    there = operator.provider(pool)
    assert there["inventory"]["DISK_GB"]["total"] == 6000
    assert there["traits"] == ["CUSTOM_FAST", "MISC_SHARES_VIA_AGGREGATE"]


@pytest.mark.parametrize("inventory", [[], None, "VCPU", 7])
def test_an_inventory_that_is_no_mapping(client, root, editing, inventory):
    with pytest.raises(exceptions.InvalidInventory, match="mapping"):
        client.report(None, root, "h", editing(lambda t: t.update_inventory(root, inventory)))


@pytest.mark.parametrize("times", [1, 2, 3])
def test_a_class_that_was_made_and_is_not_there(flush, placement, operator, root, times):
    # Placement on PostgreSQL, when somebody else makes another class at the same moment.
    placement.respond(("PUT", "/resource_classes/CUSTOM_GPU"), status=204, times=times)
    result = flush(inventory={"CUSTOM_GPU": {"total": 1}})
    assert result.complete
    assert set(operator.provider(root)["inventory"]) == {"CUSTOM_GPU"}
