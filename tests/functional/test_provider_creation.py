# SPDX-License-Identifier: Apache-2.0
"""Reported faults of creating, renaming, moving and deleting, replayed."""

from __future__ import annotations

import uuid

import pytest

import reportclient
from reportclient import exceptions


def new_uuid():
    return str(uuid.uuid4())


def nothing(tree):
    """A driver that changes nothing."""


def test_b25_b26_the_name_belongs_to_another_uuid(client, placement, operator, root, editing):
    holder = operator.create_provider("host1")
    operator.set_inventory(holder, {"VCPU": {"total": 4}})
    consumer = new_uuid()
    operator.allocate(consumer, {holder: {"VCPU": 1}})
    with pytest.raises(exceptions.ResourceProviderNameConflict) as caught:
        client.get_provider_tree_and_ensure_root(None, root, name="host1")
    assert (caught.value.holder, caught.value.name) == (holder, "host1")
    assert caught.value.holder_consumers == (consumer,)
    assert holder in str(caught.value)
    with pytest.raises(exceptions.ResourceProviderSyncFailed) as caught:
        client.report(None, root, "host1", editing(nothing))
    assert isinstance(caught.value.result.failures[root], exceptions.ResourceProviderNameConflict)
    assert operator.provider(root) is None
    other = new_uuid()
    assert client.report(None, other, "host2", editing(nothing)).complete
    operator.allocate(consumer, {})
    operator.delete_provider(holder)
    assert client.report(None, root, "host1", editing(nothing)).complete


def test_b28_adopted_with_another_name_and_parent(client, placement, operator, root, editing):
    elsewhere = operator.create_provider("p9")
    child = new_uuid()

    def somebody_else(request):
        operator.create_provider("old", uuid=child, parent=elsewhere)

    client.report(None, root, "host1", editing(nothing))
    placement.before(("POST", "/resource_providers"), somebody_else)
    result = client.report(
        None, root, "host1", editing(lambda tree: tree.new_child("new", root, uuid=child))
    )
    assert result.providers[child].adopted
    there = operator.provider(child)
    assert (there["name"], there["parent"]) == ("new", root)


def test_b29_a_host_is_renamed(client, operator, root, editing):
    client.report(
        None,
        root,
        "a",
        editing(
            lambda t: (t.update_inventory(root, {"VCPU": {"total": 1}}), t.new_child("c", root))
        ),
    )
    operator.allocate(new_uuid(), {root: {"VCPU": 1}})
    result = client.report(None, root, "a.example.com", editing(nothing))
    assert result.requests == {"PUT /resource_providers/{uuid}": 1}
    assert set(operator.providers()) == {"a.example.com", "c"}
    assert client.get_provider_by_name(None, "a.example.com")["uuid"] == root


def test_b29_the_new_name_is_taken(client, operator, root, editing):
    client.report(None, root, "a", editing(nothing))
    holder = operator.create_provider("b")
    with pytest.raises(exceptions.ResourceProviderSyncFailed) as caught:
        client.report(None, root, "b", editing(nothing))
    assert caught.value.result.failures[root].holder == holder
    assert operator.provider(root)["name"] == "a"


@pytest.mark.parametrize("version", ["1.14", "1.36", "1.39"])
def test_b30_renaming_a_child_leaves_its_parent(older, make_client, root, editing, version):
    service = older(version)
    client = make_client(service.adapter())
    child = new_uuid()
    client.report(None, root, "host1", editing(lambda t: t.new_child("child", root, uuid=child)))
    client.report(None, root, "host1", editing(lambda t: t.rename(child, "renamed")))
    there = service.operator.provider(child)
    assert (there["name"], there["parent"]) == ("renamed", root)


def test_b30_becoming_a_root_is_said_with_null(client, placement, operator, root, editing):
    child = new_uuid()
    client.report(None, root, "h", editing(lambda t: t.new_child("child", root, uuid=child)))
    placement.requests.clear()
    client.report(None, root, "h", editing(lambda t: t.move(child, None)))
    [put] = [r for r in placement.requests if r.method == "PUT"]
    assert put.json == {"name": "child", "parent_provider_uuid": None}
    assert operator.provider(child)["root"] == child


def test_b31_moving_where_the_server_cannot(older, make_client, root, editing):
    client = make_client(older("1.36").adapter())
    one, two = new_uuid(), new_uuid()
    client.report(
        None,
        root,
        "h",
        editing(
            lambda t: (t.new_child("one", root, uuid=one), t.new_child("two", root, uuid=two))
        ),
    )

    def move(tree):
        tree.move(two, one)
        tree.update_inventory(two, {"VGPU": {"total": 1}})
        tree.update_inventory(root, {"VCPU": {"total": 1}})

    with pytest.raises(exceptions.ResourceProviderSyncFailed) as caught:
        client.report(None, root, "h", editing(move))
    failure = caught.value.result.failures[two]
    assert isinstance(failure, exceptions.MicroversionNotSupported)
    assert (failure.needed, failure.offered[1]) == ("1.37", "1.36")
    assert not failure.retryable
    assert caught.value.result.providers[root].written
    assert caught.value.result.providers[two].written, "it is there, only in the wrong place"


def test_b31_moving_where_it_can(client, operator, root, editing):
    one, two = new_uuid(), new_uuid()
    client.report(
        None,
        root,
        "h",
        editing(
            lambda t: (t.new_child("one", root, uuid=one), t.new_child("two", root, uuid=two))
        ),
    )
    assert client.report(None, root, "h", editing(lambda t: t.move(two, one))).complete
    assert operator.provider(two)["parent"] == one


def test_b32_a_ring_is_refused_before_any_request(client, placement, root):
    tree = client.get_provider_tree_and_ensure_root(None, root, name="a")
    tree.new_child("b", root)
    placement.requests.clear()
    with pytest.raises(ValueError, match="ring"):
        tree.move(root, "b")
    assert placement.requests == []


def test_b33_a_subtree_moves_to_another_root(client, operator, editing):
    r1, r2, a, b, c = (new_uuid() for _ in range(5))

    def family(tree):
        tree.new_child("a", r1, uuid=a)
        tree.new_child("b", a, uuid=b)
        tree.new_child("c", b, uuid=c)

    client.report(None, r1, "r1", editing(family))
    client.report(None, r2, "r2", editing(nothing))
    operator.call("PUT", f"/resource_providers/{a}", {"name": "a", "parent_provider_uuid": r2})
    client.refresh([r1, r2])
    assert client.get_provider_tree_and_ensure_root(None, c).get_provider_uuids() == [r2, a, b, c]
    assert client.get_provider_tree_and_ensure_root(None, r1).get_provider_uuids() == [r1]
    assert client.get_provider_tree_and_ensure_root(None, a).get_provider_uuids(a) == [a, b, c]


def test_b34_a_parent_that_cannot_be_found(client, placement, root, operator):
    with pytest.raises(exceptions.ParentProviderNotFound):
        client.get_provider_tree_and_ensure_root(
            None, root, name="child", parent_provider_uuid=new_uuid()
        )
    parent = operator.create_provider("parent")
    placement.respond(("GET", "*"), status=503, times=50)
    with pytest.raises(exceptions.ServiceUnavailable):
        client.get_provider_tree_and_ensure_root(
            None, root, name="child", parent_provider_uuid=parent
        )
    assert {request.method for request in placement.requests} == {"GET"}
    placement.clear_hooks()
    client.get_provider_tree_and_ensure_root(None, root, name="child", parent_provider_uuid=parent)
    assert operator.provider(root)["parent"] == parent


def test_b35_a_name_that_nobody_has(client, placement, operator):
    operator.create_provider("host1.example.com")
    with pytest.raises(exceptions.ResourceProviderNotFound, match="'host1'"):
        client.get_provider_by_name(None, "host1")
    with pytest.raises(exceptions.ResourceProviderNotFound, match="'host1'"):
        client.aggregate_add_host(None, new_uuid(), host_name="host1")
    assert {request.method for request in placement.requests} == {"GET"}


def test_b36_two_children_of_one_name(client, placement, root):
    tree = client.get_provider_tree_and_ensure_root(None, root, name="h")
    first = tree.new_child("gpu", root)
    second = new_uuid()
    with pytest.raises(ValueError, match=f"{second}.*{first}"):
        tree.new_child("gpu", root, uuid=second)


def test_b36_a_childs_name_that_another_host_has(client, operator, root, editing):
    holder = operator.create_provider("gpu0", parent=operator.create_provider("other"))
    child = new_uuid()

    def edit(tree):
        tree.new_child("gpu0", root, uuid=child)
        tree.new_child("below", child)
        tree.update_inventory(root, {"VCPU": {"total": 1}})

    with pytest.raises(exceptions.ResourceProviderSyncFailed) as caught:
        client.report(None, root, "h", editing(edit))
    failures = caught.value.result.failures
    assert failures[child].holder == holder
    assert len(failures) == 2, "what was to go below it is named too"
    assert operator.provider(root)["inventory"]["VCPU"]["total"] == 1


@pytest.mark.parametrize("name", ["x" * 201, ""])
def test_b38_a_name_that_is_too_long(client, placement, root, editing, name):
    with pytest.raises(exceptions.InvalidName):
        client.get_provider_tree_and_ensure_root(None, root, name=name)
    with pytest.raises(exceptions.InvalidName):
        client.report(None, root, name, editing(nothing))
    assert placement.requests == []


@pytest.mark.parametrize("name", ["x" * 200, "ü" * 200, "hôte-日本-😀", "a b&c=d/e?f#g%h+i"])
def test_b38_b153_names_go_round_exactly(client, root, name):
    client.get_provider_tree_and_ensure_root(None, root, name=name)
    assert client.get_provider_by_name(None, name)["uuid"] == root
    client.clear_provider_cache()
    assert client.get_provider_tree_and_ensure_root(None, root).data(root).name == name


def test_b153_composed_and_decomposed_are_two_names(client, operator):
    composed, decomposed = "h\u00f4te", "ho\u0302te"
    one, two = new_uuid(), new_uuid()
    client.get_provider_tree_and_ensure_root(None, one, name=composed)
    client.get_provider_tree_and_ensure_root(None, two, name=decomposed)
    assert operator.providers() == {composed: one, decomposed: two}


def test_b155_a_name_that_differs_in_case_is_another_one(client, placement, root):
    """As MySQL's default collation answers."""
    found = {"uuid": new_uuid(), "name": "host1", "generation": 3}
    placement.respond(
        ("GET", "/resource_providers?name=Host1*"),
        status=200,
        body={"resource_providers": [found]},
        times=9,
    )
    placement.respond(
        ("POST", "/resource_providers"),
        status=409,
        body={"errors": [{"status": 409, "code": "placement.duplicate_name", "detail": "x"}]},
    )
    with pytest.raises(exceptions.ResourceProviderNotFound, match="'host1'"):
        client.get_provider_by_name(None, "Host1")
    with pytest.raises(exceptions.ResourceProviderNameConflict) as caught:
        client.get_provider_tree_and_ensure_root(None, root, name="Host1")
    assert (caught.value.name, caught.value.holder) == ("host1", found["uuid"])


def test_b39_a_tree_that_is_partly_unknown_is_deleted_leaf_first(
    client, placement, operator, root, editing
):
    child = new_uuid()
    client.report(None, root, "h", editing(lambda t: t.new_child("c", root, uuid=child)))
    grandchild = operator.create_provider("gc", parent=child)
    placement.requests.clear()
    result = client.delete_resource_provider(None, root)
    deleted = [r.path.rpartition("/")[2] for r in placement.requests if r.method == "DELETE"]
    assert deleted == [grandchild, child, root]
    assert all(r.status == 204 for r in placement.requests if r.method == "DELETE")
    assert all(provider.deleted for provider in result.providers.values())
    assert client.delete_resource_provider(None, root).providers == {}


def test_b41_b42_a_provider_in_use_is_pending(client, operator, root, editing, caplog):
    child = reportclient.provider_uuid(root, "c")

    def with_child(tree):
        tree.new_child("c", root, uuid=child)
        tree.update_inventory(child, {"VGPU": {"total": 1}})

    def without(total):
        def edit(tree):
            if tree.exists(child):
                tree.remove(child)
            tree.update_inventory(root, {"VCPU": {"total": total}})

        return edit

    client.report(None, root, "h", editing(with_child))
    consumer = new_uuid()
    operator.allocate(consumer, {child: {"VGPU": 1}})
    result = client.report(None, root, "h", editing(without(7)))
    assert operator.provider(root)["inventory"]["VCPU"]["total"] == 7
    pending = result.providers[child].pending
    assert isinstance(pending, exceptions.ResourceProviderInUse)
    assert pending.consumers == (consumer,)
    assert not result.complete
    client.report(None, root, "h", editing(without(8)))
    assert len([r for r in caplog.records if r.levelname == "WARNING"]) == 1
    operator.allocate(consumer, {})
    result = client.report(None, root, "h", editing(without(8)))
    assert result.providers[child].deleted
    assert result.complete


def test_b43_deleted_twice_is_deleted(client, placement, operator, root, editing):
    child = new_uuid()
    client.report(None, root, "h", editing(lambda t: t.new_child("c", root, uuid=child)))
    placement.before(("DELETE", "*"), lambda request: operator.delete_provider(child))
    result = client.report(None, root, "h", editing(lambda t: t.remove(child)))
    assert result.providers[child].deleted
    assert result.complete


def test_a_root_deleted_by_somebody_else_is_made_again(client, operator, root, editing, clock):
    full = editing(lambda t: t.update_inventory(root, {"VCPU": {"total": 2}}))
    client.report(None, root, "h", full)
    operator.delete_provider(root)
    grow = editing(lambda t: t.update_inventory(root, {"VCPU": {"total": 3}}))
    result = client.report(None, root, "h", grow)
    assert result.redriven == 1
    assert operator.provider(root)["inventory"]["VCPU"]["total"] == 3


def test_swapping_names_and_turning_a_branch_over(client, operator, root, editing):
    one, two = new_uuid(), new_uuid()

    def family(tree):
        tree.new_child("one", root, uuid=one)
        tree.new_child("two", one, uuid=two)

    client.report(None, root, "h", editing(family))

    def swap(tree):
        tree.rename(one, "three")
        tree.rename(two, "one")
        tree.rename(one, "two")
        tree.move(two, root)
        tree.move(one, two)

    assert client.report(None, root, "h", editing(swap)).complete
    assert operator.provider(one)["name"] == "two"
    assert operator.provider(two)["name"] == "one"
    assert operator.provider(one)["parent"] == two


def test_the_new_name_of_a_host_is_that_of_its_child(client, operator, root, editing):
    client.report(None, root, "h", editing(lambda t: t.new_child("kid", root)))
    with pytest.raises(exceptions.ResourceProviderNameConflict) as caught:
        client.report(None, root, "kid", editing(nothing))
    assert caught.value.holder == operator.providers()["kid"]


def test_a_tree_built_by_hand_for_a_host_that_nobody_has_read(client, operator):
    """What is there and is not mentioned stays: nobody knows what it began as."""
    root = operator.create_provider("x")
    operator.create_provider("foreign", parent=root)
    operator.set_inventory(root, {"VCPU": {"total": 1}})
    tree = reportclient.ProviderTree()
    tree.new_root("x", root)
    tree.new_child("own", root)
    tree.update_inventory(root, {"MEMORY_MB": {"total": 5}})
    result = client.update_from_provider_tree(None, tree)
    assert result.providers[root].adopted
    assert set(operator.providers()) == {"x", "foreign", "own"}
    assert set(operator.provider(root)["inventory"]) == {"VCPU", "MEMORY_MB"}


def test_the_name_of_a_provider(client, operator):
    uuid = operator.create_provider("hôte 1")
    assert client.get_resource_provider_name(None, uuid.upper()) == "hôte 1"
    operator.rename_provider(uuid, "host2")
    assert client.get_resource_provider_name(None, uuid) == "host2"
    with pytest.raises(exceptions.ResourceProviderNotFound):
        client.get_resource_provider_name(None, new_uuid())
