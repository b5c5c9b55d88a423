# SPDX-License-Identifier: Apache-2.0
"""Reading by generation: what is asked for, what is not, and the two holes."""

from __future__ import annotations

import uuid

import pytest

from reportclient import exceptions

AGGREGATE = str(uuid.uuid4())


@pytest.fixture
def trees(client, operator, editing):
    """Two roots with three children each, all known to the client."""
    roots = [str(uuid.uuid4()) for _ in range(2)]
    for root in roots:

        def edit(tree, root=root):
            for n in range(3):
                tree.new_child(f"{root}_{n}", root)
                tree.update_inventory(f"{root}_{n}", {"VGPU": {"total": 1}})

        client.report(None, root, root, editing(edit))
    return roots


def get(client, root):
    return client.get_provider_tree_and_ensure_root(None, root)


def test_only_what_moved_is_read(client, placement, operator, clock, trees):
    child = get(client, trees[0]).data(f"{trees[0]}_1").uuid
    operator.add_trait(child, "CUSTOM_A")
    clock.now += 300
    placement.requests.clear()
    assert get(client, trees[0]).has_traits(child, {"CUSTOM_A"})
    assert placement.by_kind() == {
        "GET /resource_providers": 1,
        "GET /resource_providers/{uuid}/inventories": 1,
        "GET /resource_providers/{uuid}/aggregates": 1,
        "GET /resource_providers/{uuid}/traits": 1,
    }


def test_providers_come_and_go(client, operator, clock, trees):
    root = trees[0]
    gone = get(client, root).data(f"{root}_0").uuid
    operator.delete_provider(gone)
    new = operator.create_provider("new", parent=root)
    operator.set_inventory(new, {"VCPU": {"total": 3}})
    operator.rename_provider(get(client, root).data(f"{root}_1").uuid, "renamed")
    assert get(client, root).exists(gone), "not due yet"
    clock.now += 300
    tree = get(client, root)
    assert not tree.exists(gone)
    assert tree.data("new").inventory["VCPU"]["total"] == 3
    assert tree.exists("renamed")
    assert not tree.exists(f"{root}_1")


def test_every_so_often_everything_is_read(make_client, placement, operator, clock, root):
    operator.create_provider("host1", uuid=root)
    client = make_client(deep_refresh_every=3, random=lambda: 0.0)
    get(client, root)
    seen = []
    for _ in range(6):
        clock.now += 300
        placement.requests.clear()
        get(client, root)
        seen.append(len(placement.requests))
    assert seen == [1, 4, 1, 1, 4, 1]


def test_hole_aggregates_written_without_a_generation(client, operator, clock, root):
    """Below 1.19 aggregates are written and no generation moves."""
    operator.create_provider("host1", uuid=root)
    get(client, root)
    operator.call("PUT", f"/resource_providers/{root}/aggregates", [AGGREGATE], version="1.18")
    for _ in range(10):
        clock.now += 300
        tree = get(client, root)
    assert tree.in_aggregates(root, [AGGREGATE])


def test_hole_time_moved_though_no_generation_did(client, placement, operator, clock, root):
    operator.create_provider("host1", uuid=root)
    headers = iter(["Mon, 01 Jan 2024 00:00:00 GMT"] * 3 + ["Mon, 01 Jan 2024 00:00:09 GMT"] * 9)

    def listing(request, reply):
        reply.headers = {**reply.headers, "Last-Modified": next(headers)}
        reply.headers.pop("last-modified", None)

    placement.after(("GET", "/resource_providers"), listing, times=99)
    get(client, root)
    operator.call("PUT", f"/resource_providers/{root}/aggregates", [AGGREGATE], version="1.18")
    sizes = []
    for _ in range(4):
        clock.now += 300
        placement.requests.clear()
        tree = get(client, root)
        sizes.append(len([r for r in placement.requests if r.path.count("/") > 1]))
    assert sizes == [0, 0, 3, 0]
    assert tree.in_aggregates(root, [AGGREGATE])


def test_hole_a_provider_made_anew_under_its_uuid(make_client, operator, clock, root, editing):
    """Whatever it was, it is nothing now; and what the driver wants is written again."""
    client = make_client(deep_refresh_every=1)
    full = editing(lambda tree: tree.update_inventory(root, {"VCPU": {"total": 4}}))
    client.report(None, root, "host1", full)
    operator.delete_provider(root)
    operator.create_provider("host1", uuid=root)
    clock.now += 300
    client.report(None, root, "host1", full)
    assert operator.provider(root)["inventory"]["VCPU"]["total"] == 4


def test_our_own_writes_do_not_make_a_refresh_suspicious(client, placement, clock, root, editing):
    for total in range(1, 5):
        client.report(
            None,
            root,
            "host1",
            editing(lambda t, n=total: t.update_inventory(root, {"VCPU": {"total": n}})),
        )
    client.refresh([root])
    placement.requests.clear()
    clock.now += 300
    get(client, root)
    assert placement.by_kind() == {"GET /resource_providers": 1}


def test_many_roots_are_served_by_one_listing(client, placement, operator, clock, editing):
    roots = [operator.create_provider(f"node{n}") for n in range(12)]
    client.refresh(roots)
    clock.now += 300
    placement.requests.clear()
    client.refresh(roots)
    assert placement.by_kind() == {"GET /resource_providers": 1}
    placement.requests.clear()
    for root in roots:
        get(client, root)
    assert placement.requests == []


def test_a_tree_that_cannot_be_read_does_not_stop_the_others(client, placement, operator):
    good, bad = operator.create_provider("good"), operator.create_provider("bad")
    placement.respond(("GET", f"/resource_providers/{bad}/traits"), status=500, times=99)
    with pytest.raises(exceptions.ReportClientError):
        client.refresh([good, bad])
    placement.clear_hooks()
    placement.requests.clear()
    get(client, good)
    assert placement.requests == []
    get(client, bad)
    assert placement.requests


def test_a_provider_that_goes_away_between_listing_and_reading(client, placement, operator, root):
    operator.create_provider("host1", uuid=root)
    child = operator.create_provider("child", parent=root)
    placement.before(
        ("GET", f"/resource_providers/{child}/*"), lambda _: operator.delete_provider(child)
    )
    assert get(client, root).get_provider_uuids() == [root]


def test_invalidate(client, placement, trees):
    placement.requests.clear()
    client.invalidate_resource_provider(trees[0].upper(), cacheonly=True)
    get(client, trees[0])
    assert placement.by_kind() == {"GET /resource_providers": 1}
    placement.requests.clear()
    client.invalidate_resource_provider(f"{trees[0]}_1")
    get(client, trees[0])
    assert len(placement.requests) == 13
    client.invalidate_resource_provider("nobody")
    placement.requests.clear()
    get(client, trees[1])
    assert placement.requests == []


def test_b133_what_is_gone_takes_no_room(make_client, operator, editing):
    """A thousand nodes come and go; afterwards a snapshot of the tables is as before."""
    client = make_client()
    steady = operator.create_provider("steady")
    get(client, steady)
    for n in range(30):
        root = str(uuid.uuid4())
        client.report(None, root, f"n{n}", editing(lambda t: t.new_child("c", t.roots[0].uuid)))
        if n % 2:
            client.invalidate_resource_provider(f"n{n}")
        client.delete_resource_provider(None, root)
    assert client.cached_entries() == 3


@pytest.mark.parametrize(
    "body",
    ["<html>maintenance</html>", '{"resource_providers": [{"uuid": "x"', {}, [],
     {"resource_providers": None}, {"resource_providers": [{"uuid": 7}]}, "null"],
)  # fmt: skip
def test_b142_nonsense_with_status_200_changes_nothing(
    client, placement, operator, clock, trees, body
):
    clock.now += 300
    before = operator.providers()
    placement.respond(("GET", "/resource_providers"), status=200, body=body, times=9)
    with pytest.raises(exceptions.BadAnswer):
        get(client, trees[0])
    placement.clear_hooks()
    placement.requests.clear()
    assert get(client, trees[0]).exists(f"{trees[0]}_2")
    assert {request.method for request in placement.requests} == {"GET"}
    assert operator.providers() == before


def test_a_provider_that_is_listed_and_never_there_is_an_error(client, placement, operator, root):
    """Not "there is nothing": that would have it created."""
    operator.create_provider("host1", uuid=root)
    body = {"errors": [{"status": 404, "detail": "No resource provider"}]}
    placement.respond(
        ("GET", f"/resource_providers/{root}/traits"), status=404, body=body, times=99
    )
    with pytest.raises(exceptions.ResourceProviderNotFound):
        get(client, root)
    assert {request.method for request in placement.requests} == {"GET"}
