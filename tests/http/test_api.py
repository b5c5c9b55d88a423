# SPDX-License-Identifier: Apache-2.0
"""Placement's routes: on the fake and on the real service, new and old; and odd answers."""

from __future__ import annotations

import itertools
import unicodedata
import uuid as uuid_
from urllib.parse import unquote

import pytest
import requests
import requests_mock

from reportclient import exceptions
from reportclient.api import UNCHANGED, AspectValue, ConsumerAllocations, PlacementAPI
from reportclient.request_log import RequestLog
from reportclient.testing.embedded import EmbeddedPlacement

RP = "4e8e5957-649f-477b-9e5b-f1f75b21c03c"
CHILD = "a0b15655-273a-4b3d-9792-2e579b7d5ad9"
OTHER = "9a6f2f0e-6a34-4d3a-8f0e-0d7a4b6f2c11"
AGGREGATES = [f"00000000-0000-4000-8000-{number:012d}" for number in range(1000)]


@pytest.fixture
def real(placement, make_transport):
    """The API on a fake or real service of the newest kind."""
    return PlacementAPI(make_transport(adapter=placement.adapter(), resend_attempts=0))


@pytest.fixture
def older(make_transport):
    """Build the API on a real service that is older; also the service."""
    services = []

    def older(highest):
        services.append(EmbeddedPlacement(max_microversion=highest).start())
        transport = make_transport(adapter=services[-1].adapter(), resend_attempts=0)
        return PlacementAPI(transport), services[-1]

    yield older
    for service in services:
        service.stop()


def asked(service):
    """What was sent, as method, path and microversion, less what was refused."""
    return [
        (request.method, request.path, request.microversion)
        for request in service.requests
        if request.status != 406
    ]


# -- providers --------------------------------------------------------------------------


def test_create_read_list_and_delete(real):
    made = real.create_provider(RP, "host1")
    assert (made.uuid, made.name, made.parent_uuid, made.root_uuid) == (RP, "host1", None, RP)
    child = real.create_provider(CHILD, "child", RP)
    assert (child.parent_uuid, child.root_uuid) == (RP, RP)
    real.create_provider(OTHER, "host2")
    assert real.get_provider(CHILD) == child
    listing = real.list_providers(in_tree=CHILD)
    assert set(listing.providers) == {made, child}
    assert listing.last_modified is not None
    assert [one.uuid for one in real.list_providers(name="host2").providers] == [OTHER]
    assert [one.uuid for one in real.list_providers(uuid=CHILD).providers] == [CHILD]
    assert {one.uuid for one in real.list_providers().providers} == {RP, CHILD, OTHER}
    real.delete_provider(CHILD)
    assert real.list_providers(in_tree=RP).providers == (made,)


def test_nothing_found_is_an_empty_listing(real):
    assert real.list_providers(in_tree=RP).providers == ()
    assert real.list_providers(name="nobody").providers == ()


def test_no_filter_is_not_an_empty_filter(real):
    real.create_provider(RP, "host1")
    assert len(real.list_providers(member_of=None).providers) == 1
    assert real.list_providers(member_of=[]).providers == ()
    assert real.list_providers(member_of=iter([])).providers == ()
    with pytest.raises(exceptions.ResourceProviderRetrievalFailed):
        real.list_providers(in_tree="")


def test_what_is_not_there(real):
    for call in (
        real.get_provider,
        real.delete_provider,
        real.get_inventories,
        real.get_aggregates,
        real.get_traits,
        real.get_provider_allocations,
        real.get_provider_usages,
        lambda uuid: real.update_provider(uuid, name="x"),
        lambda uuid: real.put_inventories(uuid, {}, 0),
        lambda uuid: real.put_traits(uuid, [], 0),
        lambda uuid: real.put_aggregates(uuid, [], 0),
    ):
        with pytest.raises(exceptions.ResourceProviderNotFound) as caught:
            call(RP)
        assert caught.value.provider == RP
        assert caught.value.status == 404
        assert RP in str(caught.value)
        assert caught.value.request_id


@pytest.mark.parametrize(("uuid", "name"), [(RP, "other"), (OTHER, "host1"), (RP, "host1")])
def test_uuid_or_name_taken(real, uuid, name):
    real.create_provider(RP, "host1")
    with pytest.raises(exceptions.DuplicateProvider) as caught:
        real.create_provider(uuid, name)
    assert caught.value.code == "placement.duplicate_name"
    assert caught.value.provider == uuid


def test_a_parent_that_does_not_exist(real):
    with pytest.raises(exceptions.ParentProviderNotFound) as caught:
        real.create_provider(CHILD, "child", RP)
    assert (caught.value.status, caught.value.provider) == (400, CHILD)
    assert RP in str(caught.value)


@pytest.mark.parametrize("parent", ["not-a-uuid", ""])
def test_a_parent_that_is_no_uuid_is_another_mistake(real, parent):
    with pytest.raises(exceptions.ResourceProviderCreationFailed) as caught:
        real.create_provider(CHILD, "child", parent)
    assert not isinstance(caught.value, exceptions.ParentProviderNotFound)


def test_b30_rename_leaves_the_parent(real):
    real.create_provider(RP, "host1")
    child = real.create_provider(CHILD, "child", RP)
    renamed = real.update_provider(CHILD, name="new")
    assert (renamed.name, renamed.parent_uuid) == ("new", RP)
    assert renamed.generation == child.generation


@pytest.mark.parametrize("highest", ["1.14", "1.22", "1.36"])
def test_b30_rename_leaves_the_parent_on_older_servers(older, highest):
    api, _ = older(highest)
    api.create_provider(RP, "host1")
    api.create_provider(CHILD, "child", RP)
    assert api.update_provider(CHILD, name="new", parent_uuid=UNCHANGED).parent_uuid == RP


def test_b30_null_is_sent_only_when_asked(real, placement):
    real.create_provider(RP, "host1")
    real.create_provider(CHILD, "child", RP)
    real.update_provider(CHILD, name="new")
    assert placement.requests[-1].json == {"name": "new"}
    assert real.update_provider(CHILD, name="new", parent_uuid=None).parent_uuid is None
    assert placement.requests[-1].json == {"name": "new", "parent_provider_uuid": None}


def test_b31_a_move(real):
    for uuid, name in [(RP, "host1"), (OTHER, "host2")]:
        real.create_provider(uuid, name)
    real.create_provider(CHILD, "child", RP)
    moved = real.update_provider(CHILD, name="child", parent_uuid=OTHER)
    assert (moved.parent_uuid, moved.root_uuid) == (OTHER, OTHER)


@pytest.mark.parametrize("parent", [OTHER, None])
def test_b30_b31_moving_on_an_older_server_names_what_it_needs(older, parent):
    api, service = older("1.36")
    api.create_provider(RP, "host1")
    api.create_provider(OTHER, "host2")
    api.create_provider(CHILD, "child", RP)
    for _ in range(3):
        with pytest.raises(exceptions.MicroversionNotSupported) as caught:
            api.update_provider(CHILD, name="child", parent_uuid=parent)
        assert caught.value.needed == "1.37"
        assert caught.value.offered == ("1.0", "1.36")
        assert caught.value.provider == CHILD
    # Refused once, known from then on; the rest goes on.
    assert [request.method for request in service.requests].count("PUT") == 1
    assert api.update_provider(CHILD, name="new").parent_uuid == RP


def test_rings_are_refused(real):
    real.create_provider(RP, "host1")
    real.create_provider(CHILD, "child", RP)
    with pytest.raises(exceptions.ResourceProviderUpdateFailed) as caught:
        real.update_provider(RP, name="host1", parent_uuid=CHILD)
    assert isinstance(caught.value.__cause__, exceptions.BadRequest)


def test_what_cannot_be_deleted(real, placement):
    real.create_provider(RP, "host1")
    real.create_provider(CHILD, "child", RP)
    with pytest.raises(exceptions.CannotDeleteParent):
        real.delete_provider(RP)
    placement.operator.set_inventory(CHILD, {"VCPU": {"total": 4}})
    placement.operator.allocate(OTHER, {CHILD: {"VCPU": 1}})
    with pytest.raises(exceptions.ResourceProviderInUse):
        real.delete_provider(CHILD)


@pytest.mark.parametrize("highest", ["1.0", "1.13", "1.14", "1.19"])
def test_b02_a_server_that_does_not_answer_with_the_provider(older, highest):
    api, service = older(highest)
    service.after(
        ("POST", "/resource_providers"),
        lambda *_: [service.operator.bump(RP) for _ in range(3)],
        nth=2,  # the first is refused for its microversion
    )
    made = api.create_provider(RP, "host1")
    there = service.operator.call("GET", f"/resource_providers/{RP}")
    assert made.generation == there["generation"] == 3
    assert [(method, path) for method, path, _ in asked(service)][-2:] == [
        ("POST", "/resource_providers"),
        ("GET", f"/resource_providers/{RP}"),
    ]


def test_b02_no_extra_request_where_it_does(real, placement):
    real.create_provider(RP, "host1")
    assert placement.by_kind() == {"POST /resource_providers": 1}


def test_b02_what_the_second_request_meets_leaves_the_provider_created(older):
    api, service = older("1.19")
    service.respond(("GET", f"/resource_providers/{RP}"), status=503)
    with pytest.raises(exceptions.ServiceUnavailable) as caught:
        api.create_provider(RP, "host1")
    assert caught.value.outcome_unknown


def test_children_need_1_14(older):
    api, _ = older("1.13")
    api.create_provider(RP, "host1")
    with pytest.raises(exceptions.MicroversionNotSupported) as caught:
        api.create_provider(CHILD, "child", RP)
    assert caught.value.needed == "1.14"


@pytest.mark.parametrize("highest", ["1.0", "1.13"])
def test_before_there_were_trees_a_tree_is_one_provider(older, highest):
    api, service = older(highest)
    api.create_provider(RP, "host1")
    api.create_provider(OTHER, "host2")
    for _ in range(2):
        (found,) = api.list_providers(in_tree=RP).providers
        assert (found.uuid, found.parent_uuid, found.root_uuid) == (RP, None, None)
    assert [path for _, path, _ in asked(service)][-2:] == [f"/resource_providers?uuid={RP}"] * 2


def test_1_14_has_trees_but_not_when_they_changed(older):
    api, _ = older("1.14")
    api.create_provider(RP, "host1")
    api.create_provider(CHILD, "child", RP)
    listing = api.list_providers(in_tree=RP)
    assert len(listing.providers) == 2
    assert listing.last_modified is None


def test_a_tree_is_not_looked_for_otherwise_because_a_proxy_refused(mock, api, url):
    mock.get(f"{url}/resource_providers", status_code=406, text="<html>")
    with pytest.raises(exceptions.MicroversionNotSupported):
        api.list_providers(in_tree=RP)
    assert mock.call_count == 1


@pytest.mark.parametrize(
    "name",
    [
        "hôte-日本-😀",
        unicodedata.normalize("NFD", "hôte"),
        unicodedata.normalize("NFC", "hôte"),
        "a b+c&d=e#f%20g/h?i,j:k;l",
        "in:x,y",
        '"quotes"\\',
        "x" * 200,
        "日" * 200,
    ],
)
def test_b153_names_come_back_exactly(real, name):
    made = real.create_provider(RP, name)
    assert made.name == name
    assert real.get_provider(RP).name == name
    assert [one.name for one in real.list_providers(name=name).providers] == [name]
    other = real.update_provider(RP, name="plain")
    assert other.name == "plain"
    assert real.update_provider(RP, name=name).name == name


# -- sharing ----------------------------------------------------------------------------


def sharing(operator, uuid, *aggregates):
    operator.create_provider(f"shared-{uuid}", uuid)
    operator.set_traits(uuid, ["MISC_SHARES_VIA_AGGREGATE"])
    operator.set_aggregates(uuid, aggregates)


def test_members_of_aggregates_with_a_trait(real, placement):
    sharing(placement.operator, RP, AGGREGATES[0], AGGREGATES[1])
    sharing(placement.operator, OTHER, AGGREGATES[2])
    real.create_provider(CHILD, "no trait")
    placement.operator.set_aggregates(CHILD, [AGGREGATES[0]])
    trait = ["MISC_SHARES_VIA_AGGREGATE"]

    def found(*aggregates):
        listing = real.list_providers(member_of=aggregates, required=trait)
        return {one.uuid for one in listing.providers}

    assert found(AGGREGATES[0]) == {RP}
    assert found(*AGGREGATES[:3]) == {RP, OTHER}
    assert found(AGGREGATES[9]) == set()
    assert {one.uuid for one in real.list_providers(required=trait).providers} == {RP, OTHER}


def test_b128_a_thousand_aggregates_are_asked_for_in_parts(real, placement):
    sharing(placement.operator, RP, AGGREGATES[0], AGGREGATES[-1])
    sharing(placement.operator, OTHER, AGGREGATES[500])
    placement.requests.clear()
    listing = real.list_providers(member_of=AGGREGATES, required=["MISC_SHARES_VIA_AGGREGATE"])
    assert sorted(one.uuid for one in listing.providers) == sorted([RP, OTHER])
    assert all(len(request.path) < 4096 - 200 for request in placement.requests)
    asked_for = [
        aggregate
        for request in placement.requests
        for aggregate in unquote(request.path).partition("in:")[2].partition("&")[0].split(",")
    ]
    assert sorted(asked_for) == AGGREGATES


@pytest.mark.parametrize("limit", [1, 36, 37, 73, 74, 4000])
def test_b128_the_limit_can_be_chosen(mock, transport, url, limit):
    mock.get(f"{url}/resource_providers", json={"resource_providers": []})
    PlacementAPI(transport, max_query_bytes=limit).list_providers(member_of=AGGREGATES[:10])
    lists = [
        unquote(request.query).partition("in:")[2].split(",") for request in mock.request_history
    ]
    assert list(itertools.chain(*lists)) == AGGREGATES[:10]
    assert all(len(chunk) == 1 or len(",".join(chunk)) <= limit for chunk in lists)
    assert len(lists) == {1: 10, 36: 10, 37: 10, 73: 5, 74: 5, 4000: 1}[limit]


def test_b128_a_limit_that_is_lower_still_is_said(mock, api, url):
    mock.get(f"{url}/resource_providers", status_code=414, text="<html>")
    with pytest.raises(exceptions.ResourceProviderRetrievalFailed) as caught:
        api.list_providers(member_of=AGGREGATES)
    assert isinstance(caught.value.__cause__, exceptions.RequestTooLarge)
    assert not caught.value.retryable


def test_b61_a_trait_that_this_placement_does_not_know(real):
    with pytest.raises(exceptions.UnknownTrait) as caught:
        real.list_providers(required=["CUSTOM_NEW"])
    assert caught.value.names == ("CUSTOM_NEW",)


def test_filtering_by_trait_needs_1_18_by_aggregate_1_3(older):
    api, service = older("1.17")
    service.operator.create_provider("host1", RP)
    service.operator.set_aggregates(RP, AGGREGATES[:1])
    assert [one.uuid for one in api.list_providers(member_of=AGGREGATES[:2]).providers] == [RP]
    with pytest.raises(exceptions.MicroversionNotSupported) as caught:
        api.list_providers(member_of=AGGREGATES[:1], required=["CUSTOM_A"])
    assert caught.value.needed == "1.18"


# -- inventories ------------------------------------------------------------------------


def test_inventories(real):
    generation = real.create_provider(RP, "host1").generation
    assert real.get_inventories(RP) == AspectValue({}, generation)
    written = real.put_inventories(RP, {"VCPU": {"total": 8, "reserved": 1}}, generation)
    assert written.value["VCPU"]["total"] == 8
    assert written.generation != generation
    assert real.get_inventories(RP) == written
    emptied = real.put_inventories(RP, {}, written.generation)
    assert emptied.value == {}


def test_p3_no_inventory_is_a_put_too(real, placement):
    generation = real.create_provider(RP, "host1").generation
    real.put_inventories(RP, {}, generation)
    last = placement.requests[-1]
    assert (last.method, last.json) == (
        "PUT",
        {"inventories": {}, "resource_provider_generation": generation},
    )


@pytest.mark.parametrize("aspect", ["inventories", "traits", "aggregates"])
def test_outdated_generations(real, placement, aspect):
    generation = real.create_provider(RP, "host1").generation
    placement.operator.bump(RP)
    with pytest.raises(exceptions.ConcurrentUpdate) as caught:
        getattr(real, f"put_{aspect}")(RP, {} if aspect == "inventories" else [], generation)
    assert caught.value.provider == RP
    assert caught.value.code == "placement.concurrent_update"


@pytest.mark.parametrize("highest", ["1.19", "1.22"])
@pytest.mark.parametrize("aspect", ["inventories", "traits", "aggregates"])
def test_outdated_generations_on_servers_without_codes(older, aspect, highest):
    api, service = older(highest)
    generation = api.create_provider(RP, "host1").generation
    service.operator.bump(RP)
    with pytest.raises(exceptions.ConcurrentUpdate) as caught:
        getattr(api, f"put_{aspect}")(RP, {} if aspect == "inventories" else [], generation)
    assert caught.value.code is None


@pytest.mark.parametrize("aspect", ["inventories", "traits", "aggregates"])
def test_p1_a_generation_that_is_not_known_is_not_sent(mock, api, aspect):
    with pytest.raises(ValueError, match="generation"):
        getattr(api, f"put_{aspect}")(RP, {} if aspect == "inventories" else [], None)
    with pytest.raises(ValueError, match="generation"):
        api.reshape({RP: AspectValue({}, None)}, {})
    assert mock.call_count == 0


@pytest.mark.parametrize("generation", [0, 7, 2**31 - 1, "opaque-7"])
def test_p1_generations_go_back_as_they_came(mock, api, url, generation):
    path = f"{url}/resource_providers/{RP}/traits"
    mock.get(path, json={"traits": [], "resource_provider_generation": generation})
    mock.put(path, json={"traits": [], "resource_provider_generation": generation})
    api.put_traits(RP, [], api.get_traits(RP).generation)
    assert mock.last_request.json()["resource_provider_generation"] == generation


@pytest.mark.parametrize("full", [{"total": 1, "reserved": 1}])
def test_b49_all_of_it_reserved(real, full):
    generation = real.create_provider(RP, "host1").generation
    written = real.put_inventories(RP, {"VCPU": full, "DISK_GB": {"total": 5}}, generation)
    assert written.value["VCPU"]["reserved"] == 1


def test_b49_needs_1_26_and_says_so(older):
    api, service = older("1.25")
    generation = api.create_provider(RP, "host1").generation
    service.requests.clear()
    for _ in range(2):
        with pytest.raises(exceptions.MicroversionNotSupported) as caught:
            api.put_inventories(RP, {"VCPU": {"total": 1, "reserved": 1}}, generation)
        assert (caught.value.needed, caught.value.offered[1]) == ("1.26", "1.25")
    assert asked(service) == []
    assert api.put_inventories(RP, {"VCPU": {"total": 1}}, generation).value


def test_b49_works_from_1_26_on(older):
    api, _ = older("1.26")
    generation = api.create_provider(RP, "host1").generation
    assert api.put_inventories(RP, {"VCPU": {"total": 1, "reserved": 1}}, generation).value


@pytest.mark.parametrize("highest", ["1.22", "1.39"])
def test_inventory_in_use(older, highest):
    api, service = older(highest)
    api.create_provider(RP, "host1")
    service.operator.set_inventory(RP, {"VCPU": {"total": 8}, "DISK_GB": {"total": 5}})
    service.operator.call(
        "PUT",
        f"/allocations/{OTHER}",
        {
            "allocations": {RP: {"resources": {"VCPU": 2}}},
            "project_id": "project",
            "user_id": "user",
        },
        version="1.12",
    )
    assert api.get_provider_usages(RP) == {"VCPU": 2, "DISK_GB": 0}
    now = api.get_inventories(RP)
    with pytest.raises(exceptions.InventoryInUse):
        api.put_inventories(RP, {"DISK_GB": {"total": 5}}, now.generation)
    held = api.get_provider_allocations(RP)
    assert held == ({OTHER: {"VCPU": 2}}, now.generation)


def test_a_class_that_this_placement_does_not_know(real):
    generation = real.create_provider(RP, "host1").generation
    with pytest.raises(exceptions.UnknownResourceClass) as caught:
        real.put_inventories(RP, {"CUSTOM_GPU": {"total": 1}}, generation)
    assert caught.value.names == ("CUSTOM_GPU",)
    assert caught.value.provider == RP


def test_values_that_placement_refuses(real):
    generation = real.create_provider(RP, "host1").generation
    with pytest.raises(exceptions.ResourceProviderUpdateFailed) as caught:
        real.put_inventories(RP, {"VCPU": {"total": -1}}, generation)
    cause = caught.value.__cause__
    assert type(cause) is exceptions.BadRequest
    assert caught.value.facts == cause.facts
    assert caught.value.status == 400
    assert (caught.value.provider, caught.value.retryable) == (RP, False)


# -- aggregates -------------------------------------------------------------------------


def test_aggregates(real):
    generation = real.create_provider(RP, "host1").generation
    assert real.get_aggregates(RP) == AspectValue(frozenset(), generation)
    written = real.put_aggregates(RP, set(AGGREGATES[:2]), generation)
    assert written.value == set(AGGREGATES[:2])
    assert real.get_aggregates(RP) == written


def test_b64_the_last_aggregate_can_be_removed(real, placement):
    generation = real.create_provider(RP, "host1").generation
    written = real.put_aggregates(RP, AGGREGATES[:1], generation)
    assert real.put_aggregates(RP, [], written.generation).value == frozenset()
    last = placement.requests[-1]
    assert last.json == {"aggregates": [], "resource_provider_generation": written.generation}
    assert last.headers["Content-Type"] == "application/json"


@pytest.mark.parametrize("highest", ["1.1", "1.18"])
def test_b65_below_1_19_there_is_a_bare_list_and_no_generation(older, highest):
    api, service = older(highest)
    generation = api.create_provider(RP, "host1").generation
    assert api.get_aggregates(RP) == AspectValue(frozenset(), None)
    written = api.put_aggregates(RP, AGGREGATES[:2], None)
    assert written == AspectValue(frozenset(AGGREGATES[:2]), None)
    assert service.requests[-1].json == AGGREGATES[:2]
    assert api.put_aggregates(RP, [], None).value == frozenset()
    assert service.requests[-1].json == []
    assert service.requests[-1].headers["Content-Type"] == "application/json"
    # Nothing moved, and nothing was thought to have.
    assert api.get_provider(RP).generation == generation


def test_b65_found_out_by_the_write_itself(older):
    api, service = older("1.18")
    service.operator.create_provider("host1", RP)
    assert api.put_aggregates(RP, AGGREGATES[:1], 0).generation is None
    assert service.requests[-1].json == AGGREGATES[:1]


def test_b65_from_1_19_on_it_is_guarded(older):
    api, service = older("1.19")
    generation = api.create_provider(RP, "host1").generation
    written = api.put_aggregates(RP, AGGREGATES[:1], generation)
    assert written.generation != generation
    assert service.requests[-1].microversion == "1.19"


def test_b65_a_guard_is_not_left_out_because_a_proxy_refused(mock, api, url):
    mock.put(f"{url}/resource_providers/{RP}/aggregates", status_code=406, text="<html>")
    with pytest.raises(exceptions.MicroversionNotSupported):
        api.put_aggregates(RP, AGGREGATES[:1], 3)
    assert mock.call_count == 1


def test_aggregates_need_1_1(older):
    api, _ = older("1.0")
    api.create_provider(RP, "host1")
    for call in (lambda: api.get_aggregates(RP), lambda: api.put_aggregates(RP, [], 0)):
        with pytest.raises(exceptions.MicroversionNotSupported) as caught:
            call()
        assert caught.value.needed == "1.1"


# -- traits, classes --------------------------------------------------------------------


def test_traits(real):
    generation = real.create_provider(RP, "host1").generation
    assert real.ensure_trait("CUSTOM_A")
    written = real.put_traits(RP, {"CUSTOM_A", "HW_CPU_X86_AVX"}, generation)
    assert written.value == {"CUSTOM_A", "HW_CPU_X86_AVX"}
    assert real.get_traits(RP) == written
    assert real.put_traits(RP, [], written.generation).value == frozenset()


@pytest.mark.parametrize("highest", ["1.6", "1.39"])
def test_b58_a_trait_that_is_there_already_is_no_failure(older, highest):
    api, service = older(highest)
    assert api.ensure_trait("CUSTOM_X") is True
    assert api.ensure_trait("CUSTOM_X") is False
    assert [request.status for request in service.requests if request.status != 406] == [201, 204]


def test_names_that_cannot_be_made(real):
    for create, kind in (
        (real.ensure_trait, exceptions.TraitCreationFailed),
        (real.ensure_resource_class, exceptions.ResourceClassCreationFailed),
    ):
        for name in ("STANDARD_NAME", "CUSTOM_a/b ?"):
            with pytest.raises(kind) as caught:
                create(name)
            assert name in str(caught.value)
            assert isinstance(caught.value.__cause__, exceptions.PlacementError)


@pytest.mark.parametrize("call", ["ensure_trait", "delete_trait", "ensure_resource_class"])
def test_odd_names_do_not_lead_to_other_routes(mock, api, call):
    mock.register_uri(requests_mock.ANY, requests_mock.ANY, status_code=204)
    getattr(api, call)("../resource_providers?a#b c")
    assert mock.last_request.url.endswith("/..%2Fresource_providers%3Fa%23b%20c")


def test_an_unknown_trait(real):
    generation = real.create_provider(RP, "host1").generation
    with pytest.raises(exceptions.UnknownTrait) as caught:
        real.put_traits(RP, ["CUSTOM_A", "HW_CPU_X86_AVX", "CUSTOM_B"], generation)
    assert set(caught.value.names) == {"CUSTOM_A", "CUSTOM_B"}
    assert caught.value.provider == RP


def test_listing_traits(real):
    generation = real.create_provider(RP, "host1").generation
    for name in ("CUSTOM_A", "CUSTOM_B"):
        real.ensure_trait(name)
    real.put_traits(RP, ["CUSTOM_A"], generation)
    assert {"CUSTOM_A", "CUSTOM_B", "HW_CPU_X86_AVX"} <= real.list_traits()
    assert real.list_traits(startswith="CUSTOM_") == {"CUSTOM_A", "CUSTOM_B"}
    assert real.list_traits(names=["CUSTOM_A", "CUSTOM_Z"]) == {"CUSTOM_A"}
    assert real.list_traits(names=[]) == frozenset()
    assert real.list_traits(associated=True) == {"CUSTOM_A"}
    assert real.list_traits(associated=False, startswith="CUSTOM_") == {"CUSTOM_B"}


def test_many_names_are_asked_for_in_parts(real, placement):
    real.ensure_trait("CUSTOM_A")
    names = [f"CUSTOM_{'X' * 200}_{number}" for number in range(100)]
    placement.requests.clear()
    assert real.list_traits(names=["CUSTOM_A", *names]) == {"CUSTOM_A"}
    assert len(placement.requests) > 1
    assert all(len(request.path) < 4096 - 200 for request in placement.requests)


def test_deleting_traits_and_classes(real, placement):
    for create, delete, listed in (
        (real.ensure_trait, real.delete_trait, real.list_traits),
        (real.ensure_resource_class, real.delete_resource_class, real.list_resource_classes),
    ):
        create("CUSTOM_A")
        delete("CUSTOM_A")
        assert "CUSTOM_A" not in listed()
        with pytest.raises(exceptions.OperationFailed) as caught:
            delete("CUSTOM_A")
        assert isinstance(caught.value.__cause__, exceptions.NotFound)


def test_traits_and_classes_in_use_are_not_deleted(real):
    generation = real.create_provider(RP, "host1").generation
    real.ensure_trait("CUSTOM_A")
    real.ensure_resource_class("CUSTOM_A")
    written = real.put_traits(RP, ["CUSTOM_A"], generation)
    real.put_inventories(RP, {"CUSTOM_A": {"total": 1}}, written.generation)
    for delete in (real.delete_trait, real.delete_resource_class):
        with pytest.raises(exceptions.PlacementAPIConflict) as caught:
            delete("CUSTOM_A")
        assert type(caught.value) is exceptions.PlacementAPIConflict


def test_resource_classes(real):
    assert real.ensure_resource_class("CUSTOM_A") is True
    assert real.ensure_resource_class("CUSTOM_A") is False
    assert {"VCPU", "CUSTOM_A"} <= real.list_resource_classes()


@pytest.mark.parametrize("highest", ["1.2", "1.6", "1.7", "1.22"])
def test_resource_classes_on_older_servers(older, highest):
    api, service = older(highest)
    assert api.ensure_resource_class("CUSTOM_A") is True
    assert api.ensure_resource_class("CUSTOM_A") is False
    assert "CUSTOM_A" in api.list_resource_classes()
    verb = "POST" if highest in ("1.2", "1.6") else "PUT"
    assert [method for method, *_ in asked(service)] == [verb, verb, "GET"]


def test_traits_need_1_6_and_classes_1_2(older):
    api, _ = older("1.1")
    for call, needed in (
        (api.list_traits, "1.6"),
        (lambda: api.ensure_trait("CUSTOM_A"), "1.6"),
        (lambda: api.get_traits(RP), "1.6"),
        (lambda: api.put_traits(RP, [], 0), "1.6"),
        (api.list_resource_classes, "1.2"),
        (lambda: api.ensure_resource_class("CUSTOM_A"), "1.2"),
    ):
        with pytest.raises(exceptions.MicroversionNotSupported) as caught:
            call()
        assert caught.value.needed == needed


def test_a_class_is_not_made_otherwise_because_a_proxy_refused(mock, api, url):
    mock.put(f"{url}/resource_classes/CUSTOM_A", status_code=406, text="<html>")
    with pytest.raises(exceptions.MicroversionNotSupported):
        api.ensure_resource_class("CUSTOM_A")
    assert mock.call_count == 1


# -- allocations ------------------------------------------------------------------------


def test_allocations_of_a_consumer(real, placement):
    real.create_provider(RP, "host1")
    placement.operator.set_inventory(RP, {"VCPU": {"total": 8}})
    nothing = real.get_allocations(OTHER)
    assert nothing == ConsumerAllocations({}, None, None, None)
    project, user = str(uuid_.uuid4()), str(uuid_.uuid4())
    wanted = ConsumerAllocations({RP: {"VCPU": 3, "DISK_GB": 0}}, project, user, None)
    real.put_allocations(OTHER, wanted)
    held = real.get_allocations(OTHER)
    assert (held.resources, held.project_id, held.user_id) == (
        {RP: {"VCPU": 3}},
        project,
        user,
    )
    with pytest.raises(exceptions.ConcurrentUpdate):
        real.put_allocations(OTHER, wanted)
    with pytest.raises(exceptions.PlacementAPIConflict) as caught:
        real.put_allocations(
            OTHER,
            ConsumerAllocations({RP: {"VCPU": 99}}, project, user, held.consumer_generation),
        )
    assert type(caught.value) is exceptions.CapacityExceeded
    assert (caught.value.provider, caught.value.resource_classes) == (RP, ("VCPU",))
    real.put_allocations(OTHER, held.without({RP}))
    assert real.get_allocations(OTHER).resources == {}


# -- every request, every failure -------------------------------------------------------

CALLS = {
    "list_providers": lambda api: api.list_providers(in_tree=RP),
    "get_provider": lambda api: api.get_provider(RP),
    "create_provider": lambda api: api.create_provider(RP, "host1"),
    "update_provider": lambda api: api.update_provider(RP, name="host1"),
    "delete_provider": lambda api: api.delete_provider(RP),
    "get_inventories": lambda api: api.get_inventories(RP),
    "put_inventories": lambda api: api.put_inventories(RP, {}, 1),
    "get_aggregates": lambda api: api.get_aggregates(RP),
    "put_aggregates": lambda api: api.put_aggregates(RP, [], 1),
    "get_traits": lambda api: api.get_traits(RP),
    "put_traits": lambda api: api.put_traits(RP, [], 1),
    "list_traits": lambda api: api.list_traits(),
    "ensure_trait": lambda api: api.ensure_trait("CUSTOM_A"),
    "delete_trait": lambda api: api.delete_trait("CUSTOM_A"),
    "list_resource_classes": lambda api: api.list_resource_classes(),
    "ensure_resource_class": lambda api: api.ensure_resource_class("CUSTOM_A"),
    "delete_resource_class": lambda api: api.delete_resource_class("CUSTOM_A"),
    "get_provider_allocations": lambda api: api.get_provider_allocations(RP),
    "get_provider_usages": lambda api: api.get_provider_usages(RP),
    "get_allocations": lambda api: api.get_allocations(RP),
    "put_allocations": lambda api: api.put_allocations(
        RP, ConsumerAllocations({}, "p", "u", None)
    ),
    "post_allocations": lambda api: api.post_allocations(
        {RP: ConsumerAllocations({}, "p", "u", None)}
    ),
    "delete_allocations": lambda api: api.delete_allocations(RP),
    "get_raw_allocations": lambda api: api.get_raw_allocations(RP),
    "get_usages": lambda api: api.get_usages("p"),
    "reshape": lambda api: api.reshape({RP: AspectValue({}, 1)}, {}),
}
FAILURES = {
    "list_providers": exceptions.ResourceProviderRetrievalFailed,
    "get_provider": exceptions.ResourceProviderRetrievalFailed,
    "create_provider": exceptions.ResourceProviderCreationFailed,
    "update_provider": exceptions.ResourceProviderUpdateFailed,
    "delete_provider": exceptions.ResourceProviderDeletionFailed,
    "get_inventories": exceptions.ResourceProviderRetrievalFailed,
    "put_inventories": exceptions.ResourceProviderUpdateFailed,
    "get_aggregates": exceptions.ResourceProviderAggregateRetrievalFailed,
    "put_aggregates": exceptions.ResourceProviderUpdateFailed,
    "get_traits": exceptions.ResourceProviderTraitRetrievalFailed,
    "put_traits": exceptions.ResourceProviderUpdateFailed,
    "list_traits": exceptions.TraitRetrievalFailed,
    "ensure_trait": exceptions.TraitCreationFailed,
    "delete_trait": exceptions.OperationFailed,
    "list_resource_classes": exceptions.ResourceClassRetrievalFailed,
    "ensure_resource_class": exceptions.ResourceClassCreationFailed,
    "delete_resource_class": exceptions.OperationFailed,
    "get_provider_allocations": exceptions.ResourceProviderAllocationRetrievalFailed,
    "get_provider_usages": exceptions.ResourceProviderRetrievalFailed,
    "get_allocations": exceptions.ConsumerAllocationRetrievalFailed,
    "put_allocations": exceptions.AllocationUpdateFailed,
    "post_allocations": exceptions.AllocationUpdateFailed,
    "delete_allocations": exceptions.AllocationUpdateFailed,
    "get_raw_allocations": exceptions.ConsumerAllocationRetrievalFailed,
    "get_usages": exceptions.UsagesRetrievalFailed,
    "reshape": exceptions.ReshapeFailed,
}
#: Those whose answers hold nothing that is needed.
SILENT = {
    "delete_provider",
    "ensure_trait",
    "delete_trait",
    "ensure_resource_class",
    "delete_resource_class",
    "put_allocations",
    "post_allocations",
    "delete_allocations",
    "reshape",
}
READS = {name for name in CALLS if name.startswith(("get_", "list_"))}


@pytest.fixture
def answered(mock, api):
    """Make a call, every request of which is answered so; the exception."""

    def answered(call, **answer):
        mock.register_uri(requests_mock.ANY, requests_mock.ANY, **answer)
        with pytest.raises(exceptions.ReportClientError) as caught:
            CALLS[call](api)
        return caught.value

    return answered


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("status", [400, 403, 500])
def test_what_failed_is_said_and_why(answered, call, status):
    body = {"errors": [{"status": status, "detail": "because", "code": "placement.x"}]}
    headers = {"x-openstack-request-id": "req-9"}
    error = answered(call, status_code=status, json=body, headers=headers)
    assert type(error) is FAILURES[call]
    cause = error.__cause__
    assert isinstance(cause, exceptions.PlacementError)
    assert error.facts == cause.facts
    assert (error.status, error.detail, error.request_id) == (status, "because", "req-9")
    assert error.retryable == (status == 500)
    assert error.outcome_unknown == (status == 500 and call not in READS)
    assert "because" in str(error)


@pytest.mark.parametrize("call", CALLS)
def test_b102_unavailable_stays_unavailable(answered, call):
    error = answered(call, status_code=503, text="<html>")
    assert type(error) is exceptions.ServiceUnavailable
    error = answered(call, exc=requests.ConnectionError("gone"))
    assert type(error) is exceptions.ConnectFailed
    assert error.outcome_unknown == (call not in READS)


@pytest.mark.parametrize("call", [call for call in CALLS if call not in SILENT])
@pytest.mark.parametrize(
    "body", [{}, [], None, "text", 7, {"resource_providers": None}, {"traits": {}}]
)
def test_b142_json_of_another_shape(answered, call, body):
    error = answered(call, json=body)
    assert type(error) is exceptions.BadAnswer
    assert error.outcome_unknown == (call not in READS)
    assert error.status == 200
    assert error.method in str(error)


SHAPES = [
    ("list_providers", {"resource_providers": [{"uuid": RP, "name": "a"}]}),
    ("list_providers", {"resource_providers": [{"uuid": RP, "name": "a", "generation": None}]}),
    ("list_providers", {"resource_providers": [{"uuid": 7, "name": "a", "generation": 1}]}),
    ("list_providers", {"resource_providers": [{"uuid": RP, "name": None, "generation": 1}]}),
    ("list_providers", {"resource_providers": [None]}),
    ("list_providers", {"resource_providers": "none"}),
    ("get_provider", {"uuid": RP, "name": "a", "generation": 1, "parent_provider_uuid": 7}),
    ("get_provider", {"uuid": RP, "name": "a", "generation": 1, "root_provider_uuid": []}),
    ("get_inventories", {"inventories": {}}),
    ("get_inventories", {"inventories": {}, "resource_provider_generation": None}),
    ("get_inventories", {"inventories": [], "resource_provider_generation": 1}),
    ("get_inventories", {"inventories": {"A": None}, "resource_provider_generation": 1}),
    ("get_inventories", {"inventories": {"A": {"total": "8"}}, "resource_provider_generation": 1}),
    (
        "get_inventories",
        {"inventories": {"A": {"total": None}}, "resource_provider_generation": 1},
    ),
    (
        "get_inventories",
        {"inventories": {"A": {"total": True}}, "resource_provider_generation": 1},
    ),
    ("get_aggregates", {"aggregates": ["a"]}),
    ("get_aggregates", {"aggregates": [None], "resource_provider_generation": 1}),
    ("put_aggregates", {"aggregates": "a", "resource_provider_generation": 1}),
    ("get_traits", {"traits": ["A"]}),
    ("get_traits", {"traits": "A", "resource_provider_generation": 1}),
    ("put_traits", {"traits": [7], "resource_provider_generation": 1}),
    ("list_traits", {"traits": None}),
    ("list_resource_classes", {"resource_classes": [{}]}),
    ("list_resource_classes", {"resource_classes": ["VCPU"]}),
    ("get_provider_usages", {"usages": {"VCPU": "1"}}),
    ("get_provider_usages", {"usages": []}),
    ("get_provider_allocations", {"allocations": {}}),
    ("get_provider_allocations", {"allocations": {"c": {}}, "resource_provider_generation": 1}),
    ("get_allocations", {"allocations": None}),
    ("get_allocations", {"allocations": {RP: {"resources": None}}}),
    ("get_allocations", {"allocations": {RP: {"resources": {"VCPU": None}}}}),
]


@pytest.mark.parametrize(("call", "body"), SHAPES)
def test_b142_json_that_is_almost_right(answered, call, body):
    assert type(answered(call, json=body)) is exceptions.BadAnswer


@pytest.mark.parametrize("call", CALLS)
def test_b142_a_maintenance_page(answered, call):
    error = answered(call, text="<html>back soon</html>", headers={"Content-Type": "text/html"})
    assert type(error) is exceptions.BadAnswer
    assert error.outcome_unknown == (call not in READS)


@pytest.mark.parametrize("call", CALLS)
def test_a_page_that_is_not_found_is_no_provider_that_is_not_found(answered, call):
    error = answered(call, status_code=404, text="<html>")
    assert type(error) is exceptions.BadAnswer


def test_b117_every_request_carries_the_calls_id_and_is_logged(older):
    api, service = older("1.6")
    log = RequestLog()
    api = PlacementAPI(api.transport, global_request_id="req-call", log=log)
    api.create_provider(RP, "host1")
    api.ensure_resource_class("CUSTOM_A")
    api.put_aggregates(RP, AGGREGATES[:1], 0)
    api.list_providers(in_tree=RP)
    headers = [request.headers["X-Openstack-Request-Id"] for request in service.requests]
    assert set(headers) == {"req-call"}
    assert log.by_kind() == service.by_kind()
    assert len(log.request_ids()) == len(service.requests)
