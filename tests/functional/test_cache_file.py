# SPDX-License-Identifier: Apache-2.0
"""Restarts with a cache file: what they cost, and that the file is never truth."""

from __future__ import annotations

import json
import os
import stat
import uuid

import pytest

AGGREGATE = str(uuid.uuid4())


@pytest.fixture
def path(tmp_path):
    return tmp_path / "cache.json"


@pytest.fixture
def full(root, editing):
    def edit(tree):
        tree.update_inventory(root, {"VCPU": {"total": 8}})
        tree.update_traits(root, {"HW_CPU_X86_AVX"})
        tree.update_aggregates(root, {AGGREGATE})
        for n in range(3):
            if not tree.exists(f"c{n}"):
                tree.new_child(f"c{n}", root)
            tree.update_inventory(f"c{n}", {"VGPU": {"total": 1}})

    return editing(edit)


@pytest.fixture
def restarted(make_client, path, root, full):
    """An agent that has reported once, and stopped."""
    client = make_client(cache_file=path)
    client.report(None, root, "host1", full)
    client.refresh([root])
    client.close()
    return lambda **settings: make_client(cache_file=path, **settings)


def test_a_restart_costs_two_requests(restarted, placement, root, full):
    placement.requests.clear()
    result = restarted().report(None, root, "host1", full)
    assert result.requests == {"GET /resource_providers": 2}
    assert not result.changed


def test_what_changed_meanwhile_is_read(restarted, placement, operator, root, full):
    operator.add_trait(root, "CUSTOM_GOLD")
    placement.requests.clear()
    tree = restarted().get_provider_tree_and_ensure_root(None, root)
    assert tree.data(root).traits == {"HW_CPU_X86_AVX", "CUSTOM_GOLD"}
    assert len(placement.requests) == 5


def test_nothing_is_written_on_the_files_word_alone(restarted, placement, operator, root, editing):
    operator.set_inventory(root, {"VCPU": {"total": 8}, "CUSTOM_X": {"total": 1}})
    placement.requests.clear()
    grown = editing(
        lambda t: t.update_inventory(root, {**t.data(root).inventory, "VCPU": {"total": 9}})
    )
    result = restarted().report(None, root, "host1", grown)
    assert placement.requests[0].method == "GET"
    assert result.conflicts == 0
    there = operator.provider(root)["inventory"]
    assert set(there) == {"VCPU", "CUSTOM_X"}
    assert there["VCPU"]["total"] == 9


def test_the_file_is_private_and_whole(restarted, path):
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    content = json.loads(path.read_text())
    assert content["version"] == 1
    assert [name for name in os.listdir(path.parent) if name.startswith(".cache")] == []


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "null", '{"format": "other"}', '{"format": "reportclient cache"}', "\x00"],
)
def test_a_damaged_file_is_ignored_and_replaced(restarted, path, root, full, caplog, content):
    path.write_text(content)
    client = restarted()
    assert not client.report(None, root, "host1", full).changed
    assert [r for r in caplog.records if "is ignored" in r.getMessage()]
    client.close()
    assert json.loads(path.read_text())["trees"]


def test_a_file_with_a_wrong_member_is_ignored(restarted, path, root, full, caplog):
    content = json.loads(path.read_text())
    del content["trees"][0]["own"][0]["read_at"]
    path.write_text(json.dumps(content))
    assert not restarted().report(None, root, "host1", full).changed
    assert [r for r in caplog.records if "damaged" in r.getMessage()]


def test_a_file_for_another_endpoint_is_ignored(restarted, path, root, full, caplog):
    content = json.loads(path.read_text())
    content["endpoint"] = "http://elsewhere"
    path.write_text(json.dumps(content))
    restarted().report(None, root, "host1", full)
    assert [r for r in caplog.records if "http://elsewhere" in r.getMessage()]


def test_a_folder_that_is_not_there_is_said_once(make_client, tmp_path, root, full, caplog, clock):
    client = make_client(cache_file=tmp_path / "missing" / "cache.json")
    for _ in range(3):
        clock.now += 300
        client.report(None, root, "host1", full)
    client.close()
    warnings = [r for r in caplog.records if r.levelname == "WARNING"]
    [warning] = warnings
    assert "no such directory" in warning.getMessage()
    assert not (tmp_path / "missing").exists()


def test_a_long_running_agent_writes_it_now_and_then(
    make_client, path, root, full, clock, operator
):
    client = make_client(cache_file=path)
    client.report(None, root, "host1", full)
    assert not path.exists()
    clock.now += 61
    client.report(None, root, "host1", full)
    first = path.read_text()
    clock.now += 61
    client.report(None, root, "host1", full)
    assert path.read_text() == first, "nothing has changed"


def test_building_a_client_reads_nothing(make_client, placement, path):
    path.write_text("{")
    make_client(cache_file=path)
    assert placement.requests == []
