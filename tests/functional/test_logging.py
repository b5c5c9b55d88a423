# SPDX-License-Identifier: Apache-2.0
"""What is said, how often, and what never is (P11)."""

from __future__ import annotations

import logging
import uuid
from types import SimpleNamespace

import pytest
import requests

import reportclient
from reportclient import exceptions


@pytest.fixture
def said(caplog):
    """The lines said by the library, from some level on."""
    caplog.set_level(logging.DEBUG)

    def said(level=logging.DEBUG):
        return [
            record.getMessage()
            for record in caplog.records
            if record.name.startswith(("reportclient", "keystoneauth")) and record.levelno >= level
        ]

    said.clear = caplog.clear
    return said


def test_b120_a_hundred_failures_and_then_recovery(client, placement, clock, root, editing, said):
    client.report(None, root, "host1", editing(lambda tree: None))
    placement.respond(("GET", "*"), status=503, times=9999)
    for _ in range(100):
        clock.now += 300
        with pytest.raises(exceptions.ServiceUnavailable):
            client.report(None, root, "host1", editing(lambda tree: None))
    warnings = said(logging.WARNING)
    assert 1 < len(warnings) < 15
    assert "503" in warnings[0]
    assert "times before" in warnings[1]
    said.clear()
    placement.clear_hooks()
    for _ in range(3):
        clock.now += 300
        client.report(None, root, "host1", editing(lambda tree: None))
    assert [line for line in said(logging.INFO) if "again" in line] == [
        "Placement can be reached again."
    ]


def test_b123_b124_a_change_is_explained_and_no_change_is_silent(
    client, operator, root, editing, said, clock
):
    client.report(
        None, root, "host1", editing(lambda t: t.update_inventory(root, {"VCPU": {"total": 8}}))
    )
    before = operator.provider(root)["generation"]
    said.clear()
    client.report(
        None, root, "host1", editing(lambda t: t.update_inventory(root, {"VCPU": {"total": 9}}))
    )
    after = operator.provider(root)["generation"]
    [line] = said(logging.INFO)
    for word in ("inventory", "host1", root, "VCPU.total 8 -> 9", f"{before} -> {after}"):
        assert word in line
    said.clear()
    client.report(None, root, "host1", editing(lambda tree: None))
    clock.now += 300
    client.report(None, root, "host1", editing(lambda tree: None))
    assert len(said()) <= 1


def test_b124_a_large_tree_is_not_poured_into_the_log(client, root, editing, said):
    def edit(tree):
        for n in range(50):
            tree.new_child(f"c{n}", root)
            tree.update_traits(f"c{n}", {f"CUSTOM_T{m}" for m in range(50)})

    client.report(None, root, "host1", editing(edit))
    said.clear()
    client.report(None, root, "host1", editing(lambda tree: None))
    assert sum(map(len, said())) < 200


def test_what_others_write_cannot_forge_a_line(client, placement, root, editing, said):
    name = "evil\nERROR root: all is lost %s {0} \x1b[31m"
    client.report(None, root, name, editing(lambda t: t.add_traits(root, "HW_CPU_X86_AVX")))
    placement.respond(("GET", "*"), status=503, body="down\r\nERROR root: forged %d {x}", times=99)
    client.clear_provider_cache()
    with pytest.raises(exceptions.ServiceUnavailable) as caught:
        client.report(None, root, name, editing(lambda tree: None))
    for line in [*said(), str(caught.value)]:
        assert "\n" not in line
        assert "\r" not in line
        assert "\x1b" not in line


def test_b121_tokens_are_never_said(placement, root, editing, said):
    from keystoneauth1 import adapter, session, token_endpoint

    token = "gAAAA-secret-token"
    http = requests.Session()
    http.mount("http://", placement.session().session.get_adapter(placement.url))
    auth = token_endpoint.Token(placement.url, token)
    client = reportclient.ReportClient(
        adapter.Adapter(session.Session(auth=auth, session=http), service_type="placement"),
        sleep=lambda seconds: None,
    )
    placement.respond(("PUT", "*"), status=500, body={"errors": [{"status": 500}]}, times=99)
    with pytest.raises(exceptions.ReportClientError) as caught:
        client.report(None, root, "h", editing(lambda t: t.add_traits(root, "HW_CPU_X86_AVX")))
    client.close()
    texts = [*said(), str(caught.value), repr(caught.value), repr(caught.value.__dict__)]
    for failure in caught.value.result.failures.values():
        texts += [str(failure), repr(failure), repr(failure.facts)]
    assert not [text for text in texts if token in text]


def test_b102_every_call_fails_in_the_same_way(placement, make_client, root):
    placement.fail(("*", "*"), requests.exceptions.ConnectionError("refused"), times=9999)
    client = make_client()
    tree = reportclient.ProviderTree()
    tree.new_root("h", root)

    class Driver:
        def update_provider_tree(self, provider_tree, nodename, allocations=None):
            provider_tree.add_traits(nodename, "HW_CPU_X86_AVX")

    agg = str(uuid.uuid4())
    calls = [
        lambda: client.report(None, root, "h", Driver()),
        lambda: client.plan_report(None, root, "h", Driver()),
        lambda: client.get_provider_tree_and_ensure_root(None, root),
        lambda: client.get_provider_subtree_and_ensure_root(None, root),
        lambda: client.update_from_provider_tree(None, tree),
        lambda: client.refresh([root]),
        lambda: client.set_inventory_for_provider(None, root, {"VCPU": {"total": 1}}),
        lambda: client.set_traits_for_provider(None, root, ["HW_CPU_X86_AVX"]),
        lambda: client.set_traits_for_provider(None, root, ["HW_CPU_X86_AVX"], generation=1),
        lambda: client.set_aggregates_for_provider(None, root, [agg]),
        lambda: client.aggregate_add_host(None, agg, host_name="h"),
        lambda: client.aggregate_remove_host(None, agg, "h"),
        lambda: client.get_providers_in_tree(None, root),
        lambda: client.get_provider_traits(None, root),
        lambda: client.get_provider_by_name(None, "h"),
        lambda: client.get_allocations_for_provider_tree(None, "h"),
        lambda: client.delete_resource_provider(None, root),
        lambda: client.ensure_traits(None, ["CUSTOM_A"]),
        lambda: client.ensure_resource_classes(None, ["CUSTOM_A"]),
        lambda: client.delete_traits(None, ["CUSTOM_A"]),
    ]
    for call in calls:
        with pytest.raises(exceptions.PlacementUnavailable):
            call()


def test_what_others_changed_is_said_with_both_generations(
    client, operator, root, editing, said, clock
):
    client.report(None, root, "host1", editing(lambda t: t.new_child("child", root)))
    child = operator.providers()["child"]
    before = operator.provider(root)["generation"]
    operator.set_inventory(root, {"VCPU": {"total": 8}})
    operator.set_traits(root, {"CUSTOM_OP"})
    operator.rename_provider(child, "renamed")
    operator.create_provider("foreign", parent=root)
    after = operator.provider(root)["generation"]
    said.clear()
    clock.now += 300
    client.report(None, root, "host1", editing(lambda tree: None))
    lines = said(logging.INFO)
    for words in (
        ("traits", "host1", root, "+CUSTOM_OP", f"{before} -> {after}"),
        ("inventory", "host1", "VCPU", f"{before} -> {after}"),
        (child, "renamed"),
        ("foreign",),
    ):
        assert [line for line in lines if all(word in line for word in words)], (words, lines)
    operator.delete_provider(child)
    said.clear()
    clock.now += 300
    client.report(None, root, "host1", editing(lambda tree: None))
    assert [line for line in said(logging.INFO) if child in line]


def test_every_write_is_said_with_its_request_id(client, placement, root, editing, said):
    context = SimpleNamespace(global_id="req-11111111-2222-4333-8444-555555555555")

    def edit(tree):
        tree.new_child("child", root)
        tree.update_inventory(root, {"VCPU": {"total": 8}})

    result = client.report(context, root, "host1", editing(edit))
    client.report(context, root, "host2", editing(lambda tree: tree.remove("child")))
    for word in ("Created host1", "Created child", "Wrote inventory", "Renamed", "Deleted child"):
        [line] = [line for line in said(logging.INFO) if word in line]
        assert context.global_id in line
        assert "req-" in line.replace(context.global_id, "")
    assert all(
        any(request_id in line for line in said()) for request_id in result.request_ids[-1:]
    )


def test_what_placement_refuses_is_a_warning_that_does_not_repeat(
    client, placement, root, editing, said
):
    placement.respond(("PUT", "*/inventories"), status=403, body={}, times=999)
    driver = editing(lambda t: t.update_inventory(root, {"VCPU": {"total": 1}}))
    for _ in range(20):
        with pytest.raises(exceptions.ResourceProviderSyncFailed):
            client.report(None, root, "h", driver)
    [line] = said(logging.WARNING)
    assert "403" in line


def test_a_driver_that_is_run_again_is_said_and_counted(client, operator, root, editing, said):
    client.report(
        None, root, "h", editing(lambda t: t.update_inventory(root, {"VCPU": {"total": 1}}))
    )
    totals = iter([3, 5, 7, 9])

    def edit(tree):
        operator.set_inventory(root, {"VCPU": {"total": next(totals)}})
        tree.update_inventory(root, {"VCPU": {"total": 100}})

    with pytest.raises(exceptions.ResourceProviderUpdateConflict) as caught:
        client.report(None, root, "h", editing(edit))
    assert caught.value.attempts > 3
    assert "run again 3 times" in str(caught.value)
    assert "same UUID" in str(caught.value)
    assert (
        len([line for line in said(logging.INFO) if "is run again" in line and root in line]) == 3
    )
    settled = iter([11])

    def edit_once(tree):
        for total in settled:
            operator.set_inventory(root, {"VCPU": {"total": total}})
        tree.update_inventory(root, {"VCPU": {"total": 100}})

    result = client.report(None, root, "h", editing(edit_once))
    assert "run again 1 times" in str(result)
    assert result.redriven == 1
