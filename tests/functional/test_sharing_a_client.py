# SPDX-License-Identifier: Apache-2.0
"""Threads, forks, copies and pickles (P12)."""

from __future__ import annotations

import concurrent.futures
import copy
import gc
import multiprocessing
import os
import pickle
import threading
import uuid
import warnings

import pytest

import reportclient
from reportclient.testing import EmbeddedPlacement, FakePlacement


def test_threads_write_one_tree_and_lose_nothing(make_client, operator, root, editing):
    client = make_client(max_workers=4)
    client.get_provider_tree_and_ensure_root(None, root, name="host1")

    def work(n):
        for step in range(4):
            trait = f"CUSTOM_T{n}_{step}"
            client.report(
                None, root, "host1", editing(lambda t, trait=trait: t.add_traits(root, trait))
            )

    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(6)))
    wanted = sorted(f"CUSTOM_T{n}_{step}" for n in range(6) for step in range(4))
    assert operator.provider(root)["traits"] == wanted


def test_two_clients_write_one_tree_and_lose_nothing(make_client, operator, root, editing):
    clients = [make_client() for _ in range(3)]
    clients[0].get_provider_tree_and_ensure_root(None, root, name="host1")

    def work(n):
        inventory = {}
        for step in range(4):
            inventory[f"CUSTOM_C{n}_{step}"] = {"total": 1 + step}

            def edit(tree, child=f"child{n}_{step}"):
                there = tree.data(root).inventory
                tree.update_inventory(root, {**there, **inventory})
                tree.new_child(child, root)

            clients[n].report(None, root, "host1", editing(edit))

    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        list(pool.map(work, range(3)))
    there = operator.provider(root)
    assert set(there["inventory"]) == {f"CUSTOM_C{n}_{s}" for n in range(3) for s in range(4)}
    assert len(operator.providers()) == 1 + 12


def test_b159_a_slow_tree_does_not_block_another(client, placement, operator):
    slow, other = operator.create_provider("slow"), operator.create_provider("other")
    client.get_provider_tree_and_ensure_root(None, other)
    entered, leave = threading.Event(), threading.Event()

    def stuck(request):
        entered.set()
        assert leave.wait(30)

    placement.before(("GET", f"/resource_providers/{slow}/traits"), stuck)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        future = pool.submit(client.get_provider_tree_and_ensure_root, None, slow)
        assert entered.wait(30)
        client.get_provider_tree_and_ensure_root(None, other)
        client.set_traits_for_provider(None, other, ["HW_CPU_X86_AVX"])
        assert not future.done()
        leave.set()
        assert future.result(30).exists(slow)


def test_b160_what_is_handed_out_is_the_callers_own(client, placement, root, editing):
    inventory = {"VCPU": {"total": 4}}
    client.report(None, root, "h", editing(lambda t: t.update_inventory(root, inventory)))
    inventory["VCPU"]["total"] = 99
    tree = client.get_provider_tree_and_ensure_root(None, root)
    data = tree.data(root)
    data.inventory["VCPU"]["total"] = 99
    data.traits.add("CUSTOM_X")
    tree.remove(root)
    again = client.get_provider_tree_and_ensure_root(None, root)
    assert again.data(root).inventory["VCPU"]["total"] == 4
    assert again.data(root).traits == set()


@pytest.mark.parametrize(
    "duplicate",
    [copy.deepcopy, copy.copy, lambda tree: pickle.loads(pickle.dumps(tree))],
    ids=["deepcopy", "copy", "pickle"],
)
def test_b156_a_copy_of_a_tree_can_be_flushed(client, operator, root, editing, duplicate):
    client.report(
        None, root, "h", editing(lambda t: (t.new_child("a", root), t.new_child("b", root)))
    )
    tree = duplicate(client.get_provider_tree_and_ensure_root(None, root))
    operator.create_provider("foreign", parent=root)
    tree.remove("a")
    result = client.update_from_provider_tree(None, tree)
    assert sorted(operator.providers()) == ["b", "foreign", "h"]
    again = pickle.loads(pickle.dumps(result))
    assert again.providers == result.providers
    assert str(again) == str(result)


def test_exceptions_survive_pickling(client, operator, root):
    operator.create_provider("taken")
    with pytest.raises(reportclient.exceptions.ResourceProviderNameConflict) as caught:
        client.get_provider_tree_and_ensure_root(None, root, name="taken")
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)
    assert again.holder == caught.value.holder
    assert again.status == 409


def _child(connection, client, root, driver):
    try:
        result = client.report(None, root, "host1", driver)
        connection.send((result.changed, os.getpid()))
    finally:
        connection.close()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_client_is_used_on_both_sides_of_a_fork(root, editing):
    """The child has a Placement of its own (the memory is copied), and new locks."""
    with FakePlacement() as placement:
        client = reportclient.ReportClient(placement.adapter(), max_workers=4)
        client.report(None, root, "host1", editing(lambda t: t.new_child("a", root)))
        context = multiprocessing.get_context("fork")
        ours, theirs = context.Pipe()
        driver = editing(lambda t: [t.add_traits(u, "CUSTOM_A") for u in t.get_provider_uuids()])
        # Held while forking, as by another thread that does not come along.
        busy, done = threading.Event(), threading.Event()

        def hold(tree):
            busy.set()
            done.wait(30)

        other = threading.Thread(target=client.report, args=(None, root, "host1", editing(hold)))
        other.start()
        assert busy.wait(30)
        process = context.Process(target=_child, args=(theirs, client, root, driver))
        process.start()
        theirs.close()
        assert ours.poll(60), "the child is stuck"
        changed, pid = ours.recv()
        process.join(30)
        ours.close()
        done.set()
        other.join()
        assert changed
        assert pid != os.getpid()
        assert client.report(None, root, "host1", driver).changed
        client.close()


def test_b131_closing_leaves_nothing_open(root, editing):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with EmbeddedPlacement() as placement, placement.serve() as url:
            from keystoneauth1 import adapter, session, token_endpoint

            real = adapter.Adapter(
                session.Session(auth=token_endpoint.Token(url, "admin")),
                service_type="placement",
            )
            with reportclient.ReportClient(real, max_workers=4) as client:
                client.report(None, root, "h", editing(lambda t: t.new_child("c", root)))
        del client, real
        gc.collect()


def test_a_client_that_is_closed_in_the_middle_of_a_pass_ends_the_pass(
    make_client, placement, operator, root, editing
):
    client = make_client(max_workers=4)

    def grow(tree):
        for n in range(3):
            tree.new_child(f"c{n}", root)

    client.report(None, root, "h", editing(grow))
    closed = []

    def close(request):
        closed.append(request.path)
        client.close()

    placement.before(("PUT", "/resource_classes/CUSTOM_A"), close)

    def use(tree):
        for n in range(3):
            tree.update_inventory(f"c{n}", {"CUSTOM_A": {"total": 1 + n}})

    assert client.report(None, root, "h", editing(use)).complete
    assert closed
    there = operator.providers()
    for n in range(3):
        assert operator.provider(there[f"c{n}"])["inventory"]["CUSTOM_A"]["total"] == 1 + n
    client.close()


def test_b130_building_clients_is_cheap_and_does_no_io(placement):
    adapter = placement.adapter()

    def build(_):
        return reportclient.ReportClient(adapter)

    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        clients = list(pool.map(build, range(100)))
    assert placement.requests == []
    assert threading.active_count() < 20
    assert len({id(client) for client in clients}) == 100


def test_a_global_request_id_goes_with_every_request(client, placement, root, editing):
    class Context:
        global_id = "req-" + str(uuid.uuid4())

    def edit(tree):
        tree.update_inventory(root, {"CUSTOM_A": {"total": 1}})
        tree.add_traits(root, "CUSTOM_T")
        tree.add_aggregates(root, str(uuid.uuid4()))

    result = client.report(Context(), root, "h", editing(edit))
    assert len(placement.requests) >= 6
    for request in placement.requests:
        assert request.headers["X-OpenStack-Request-ID"] == Context.global_id
    assert len(result.request_ids) == len(placement.requests)
