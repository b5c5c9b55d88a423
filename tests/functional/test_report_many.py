# SPDX-License-Identifier: Apache-2.0
"""An agent with many nodes, each a root of its own."""

from __future__ import annotations

import pytest

from reportclient import Scope, exceptions, provider_uuid

SPACE = "00000000-0000-4000-8000-000000000001"
NODES = [(provider_uuid(SPACE, str(n)), f"node{n}") for n in range(40)]


class Ironic:
    """A driver that says one thing of every node."""

    def __init__(self, total=1, broken=()):
        self.total = total
        self.broken = broken

    def update_provider_tree(self, provider_tree, nodename, allocations=None):
        if nodename in self.broken:
            raise RuntimeError(f"{nodename} is on fire")
        provider_tree.update_inventory(nodename, {"CUSTOM_BM": {"total": self.total}})
        provider_tree.add_traits(nodename, "CUSTOM_RACK")


@pytest.fixture(params=[1, 4], ids=["no threads", "4 threads"])
def client(request, make_client):
    return make_client(max_workers=request.param)


def test_first_report_costs_three_requests_a_node(client, placement, operator):
    results = client.report_many(None, NODES, Ironic())
    assert list(results) == [uuid for uuid, _ in NODES]
    assert all(result.complete for result in results.values())
    assert len(placement.requests) <= 3 * len(NODES) + 20
    assert len(operator.providers()) == len(NODES)


def test_nothing_due_and_refresh_due(client, placement, clock):
    client.report_many(None, NODES, Ironic())
    placement.requests.clear()
    client.report_many(None, NODES, Ironic())
    assert placement.requests == []
    clock.now += 300
    results = client.report_many(None, NODES, Ironic())
    assert placement.by_kind() == {"GET /resource_providers": 1}
    assert not any(result.changed for result in results.values())


def test_one_node_does_not_stop_the_others(client, placement, operator):
    operator.create_provider("node3")
    seen = {}
    results = client.report_many(
        None,
        NODES,
        Ironic(broken={"node5"}),
        progress=lambda uuid, result: seen.update({uuid: result}),
    )
    assert seen == results
    failed = {uuid: result.error for uuid, result in results.items() if result.error}
    assert set(failed) == {NODES[3][0], NODES[5][0]}
    assert isinstance(failed[NODES[3][0]], exceptions.ResourceProviderSyncFailed)
    assert str(failed[NODES[5][0]]) == "node5 is on fire"
    assert not results[NODES[5][0]].complete
    assert len(operator.providers()) == len(NODES) - 1


def test_a_node_that_cannot_be_read_does_not_stop_the_others(client, placement, operator, clock):
    client.report_many(None, NODES, Ironic())
    bad = NODES[7][0]
    operator.add_trait(bad, "CUSTOM_GOLD")
    clock.now += 300
    placement.respond(("GET", f"/resource_providers/{bad}/traits"), status=500, times=99)
    results = client.report_many(None, NODES, Ironic(total=2))
    assert [uuid for uuid, result in results.items() if result.error] == [bad]
    placement.clear_hooks()
    results = client.report_many(None, NODES, Ironic(total=2))
    assert results[bad].complete
    assert operator.provider(bad)["inventory"]["CUSTOM_BM"]["total"] == 2
    assert operator.provider(bad)["traits"] == ["CUSTOM_GOLD", "CUSTOM_RACK"]


def test_a_listing_that_fails_fails_them_all(client, placement):
    placement.respond(("GET", "/resource_providers"), status=503, times=99)
    with pytest.raises(exceptions.ServiceUnavailable):
        client.report_many(None, NODES, Ironic())


def test_bad_input_is_refused_before_anything(client, placement):
    with pytest.raises(exceptions.InvalidUUID):
        client.report_many(None, [*NODES, ("nonsense", "x")], Ironic())
    with pytest.raises(exceptions.InvalidName):
        client.report_many(None, [*NODES, (SPACE, "")], Ironic())
    assert placement.requests == []


# -- a scope -----------------------------------------------------------------------

PARTITION = provider_uuid(SPACE, "partition")


class Partitioned(Ironic):
    """Puts its nodes into an aggregate."""

    def update_provider_tree(self, provider_tree, nodename, allocations=None):
        super().update_provider_tree(provider_tree, nodename, allocations)
        provider_tree.add_aggregates(nodename, PARTITION)


SCOPES = [
    Scope(member_of=frozenset({PARTITION})),
    Scope(required=frozenset({"CUSTOM_RACK"})),
    Scope(frozenset({PARTITION.upper()}), frozenset({"CUSTOM_RACK"})),
]


@pytest.mark.parametrize("scope", SCOPES, ids=["aggregate", "trait", "both"])
def test_a_scope_is_listed_in_place_of_all(make_client, placement, operator, clock, scope):
    for n in range(5):
        operator.create_provider(f"other{n}")
    client = make_client(scope=scope)
    client.report_many(None, NODES, Partitioned())
    clock.now += 300
    placement.requests.clear()
    results = client.report_many(None, NODES, Partitioned())
    assert not any(result.changed or result.error for result in results.values())
    many = [r for r in placement.requests if "MISC_SHARES" not in r.path]
    [listing] = many
    assert "other0" not in str(listing.response_json)
    assert len(listing.response_json["resource_providers"]) == len(NODES)


def test_what_a_scope_cannot_show_whole_is_listed_by_itself(
    make_client, placement, operator, clock
):
    """A child outside the scope is nobody's to delete, and no change is missed."""
    client = make_client(scope=SCOPES[0], deep_refresh_every=0)
    client.report_many(None, NODES, Partitioned())
    parent, left = NODES[0][0], NODES[1][0]
    with make_client() as other:
        tree = other.get_provider_tree_and_ensure_root(None, parent)
        tree.new_child("child", parent)
        other.update_from_provider_tree(None, tree)
    client.invalidate_resource_provider(parent)
    operator.set_aggregates(left, set())
    operator.add_trait(left, "CUSTOM_OP")
    clock.now += 300
    seen = {}

    class Looking(Partitioned):
        def update_provider_tree(self, provider_tree, nodename, allocations=None):
            seen[nodename] = {
                provider_tree.data(u).name for u in provider_tree.get_provider_uuids()
            }
            super().update_provider_tree(provider_tree, nodename, allocations)

    for _ in range(3):
        clock.now += 300
        results = client.report_many(None, NODES, Looking())
        assert not any(result.error for result in results.values())
        assert seen["node0"] == {"node0", "child"}
    assert operator.provider(left)["aggregates"] == [PARTITION]
    assert "CUSTOM_OP" in operator.provider(left)["traits"]
    assert "child" in operator.providers()


def test_a_deep_refresh_sees_children_that_a_scope_hides(make_client, operator, clock):
    client = make_client(scope=SCOPES[0], deep_refresh_every=2)
    client.report_many(None, NODES, Partitioned())
    operator.create_provider("child", parent=NODES[0][0])
    for _ in range(3):
        clock.now += 300
        client.report_many(None, NODES, Partitioned())
    tree = client.get_provider_tree_and_ensure_root(None, NODES[0][0])
    assert tree.exists("child")


def test_a_server_too_old_for_a_scope_lists_all(older, make_client, clock):
    placement = older("1.17")
    client = make_client(placement.adapter(), scope=SCOPES[1])
    client.report_many(None, NODES, Ironic())
    clock.now += 300
    results = client.report_many(None, NODES, Ironic())
    assert not any(result.changed or result.error for result in results.values())


@pytest.mark.parametrize(
    "scope",
    [
        ["CUSTOM_X"],
        Scope(member_of=frozenset({"rack"})),
        Scope(required=frozenset({"rack"})),
    ],
)
def test_what_is_no_scope_is_refused(make_client, scope):
    with pytest.raises(ValueError, match=r"scope|rack"):
        make_client(scope=scope)
