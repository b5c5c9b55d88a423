# SPDX-License-Identifier: Apache-2.0
"""The main job, as somebody runs it (issue: a real agent pass)."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from reportclient.cli import demo
from reportclient.cli.main import main
from reportclient.drivers import HostDriver
from reportclient.drivers.host_facts import HostFacts, NumaNode, PciDevice
from reportclient.testing.embedded import EmbeddedPlacement

INVENTORIES = "/resource_providers/{uuid}/inventories"


def two_sockets() -> HostFacts:
    return HostFacts(
        cpus=frozenset(range(8)),
        memory_mb=16384,
        disk_gb=100,
        architecture="x86_64",
        cpu_flags=frozenset({"avx2", "aes"}),
        numa_nodes=(
            NumaNode(0, frozenset(range(4)), 8192),
            NumaNode(1, frozenset(range(4, 8)), 8192),
        ),
        pci_devices=(PciDevice("0000:3b:00.0", 0x10DE, 0x20B5, 0x030200, numa_node=1),),
    )


def tiny() -> HostFacts:
    """All memory is reserved, so it cannot be given to a VM, nor more be reserved."""
    return HostFacts(cpus=frozenset({0}), memory_mb=512, disk_gb=None, architecture="riscv64")


@pytest.fixture
def facts(capsys):
    """Run the demo with ``--json``; what it printed."""

    def run(**settings):
        assert demo.run(as_json=True, **settings) == 0
        return json.loads(capsys.readouterr().out)

    return run


def test_main_job_on_this_machine(facts):
    seen = facts()
    assert seen["held"] is True
    assert all(one["holds"] for one in seen["expectations"])
    first, at_once, due, raced, afterwards = seen["passes"]
    assert first["requests"]["POST /resource_providers"] == len(seen["tree"])
    assert first["conflicts"] == 0
    assert at_once["requests"] == {}
    assert due["requests"] == {"GET /resource_providers": 1}
    assert [(one["request"], one["status"]) for one in raced["answers"]] == [
        (f"PUT {INVENTORIES}", 409),
        (f"GET {INVENTORIES}", 200),
        (f"PUT {INVENTORIES}", 200),
    ]
    assert raced["conflicts"] == 1
    assert raced["driver_runs"] == 1
    assert not afterwards["changed"]
    root = next(one for one in seen["tree"] if one["uuid"] == seen["uuid"])
    assert root["name"] == seen["name"]
    assert any("VCPU" in one["inventory"] for one in seen["tree"])


@pytest.mark.parametrize("machine", [two_sockets, tiny])
def test_main_job_on_other_machines(facts, machine):
    seen = facts(driver=HostDriver(facts=machine))
    assert seen["held"] is True
    change = seen["race"]["inventory"]
    assert change["before"] != change["after"]


def test_two_sockets_have_children(facts):
    seen = facts(driver=HostDriver(facts=two_sockets))
    parents = {one["name"].rpartition("_")[2]: one["parent_provider_uuid"] for one in seen["tree"]}
    assert {"numa0", "numa1", "0000:3b:00.0"} < set(parents)
    numa1 = next(one for one in seen["tree"] if one["name"].endswith("_numa1"))
    assert parents["0000:3b:00.0"] == numa1["uuid"]
    assert seen["race"]["provider"] != seen["uuid"]


@pytest.mark.parametrize(("columns", "widest"), [(None, 100), ("80", 80), ("160", 160)])
def test_same_facts_for_a_person(capsys, monkeypatch, columns, widest):
    monkeypatch.delenv("COLUMNS", raising=False)
    if columns:
        monkeypatch.setenv("COLUMNS", columns)
    assert main(["demo"]) == 0
    text = capsys.readouterr().out
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) <= widest
    for words in (
        "VCPU",
        "MEMORY_MB",
        "POST /resource_providers",
        "409 PUT /resource_providers/{uuid}/inventories",
        demo.TRAIT,
        "first report",
        "others write meanwhile",
        "All of it held",
    ):
        assert words in text


def test_as_a_program_leaves_nothing_else_on_stdout(tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "reportclient", "demo", "--json"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert done.stderr == ""
    assert done.returncode == 0
    assert json.loads(done.stdout)["held"] is True
    assert list(tmp_path.iterdir()) == []


class Restless:
    """A driver whose inventory is another one each time."""

    def __init__(self) -> None:
        self.total = 10

    def update_provider_tree(self, provider_tree, nodename, allocations=None):
        self.total += 1
        provider_tree.update_inventory(nodename, {"VCPU": {"total": self.total}})


class Idle:
    """A driver that has nothing."""

    def update_provider_tree(self, provider_tree, nodename, allocations=None):
        """Edit nothing."""


def _meddled(matcher, nth):
    """A Placement where somebody writes to all providers before a request."""
    placement = EmbeddedPlacement()

    def bump(_):
        for uuid in placement.operator.providers().values():
            placement.operator.bump(uuid)

    placement.before(matcher, bump, nth=nth)
    return placement


@pytest.mark.parametrize(
    ("settings", "expectation"),
    [
        (lambda: {"driver": Restless()}, "requests while nothing is due"),
        (lambda: {"driver": Idle()}, "there is a CPU to give away"),
        (
            lambda: {"placement": _meddled(("PUT", "*/inventories"), 3)},
            "conflicts met: expected 1, seen 2",
        ),
        (
            lambda: {"placement": _meddled(("GET", "/resource_providers?in_tree=*"), 2)},
            "requests of a refresh",
        ),
    ],
    ids=["writes", "nothing", "two conflicts", "more requests"],
)
@pytest.mark.parametrize("as_json", [False, True])
def test_a_step_that_does_not_hold_fails_loudly(capsys, settings, expectation, as_json):
    with pytest.raises(demo.DemoFailed, match=expectation):
        demo.run(as_json=as_json, **settings())
    out = capsys.readouterr().out
    if as_json:
        seen = json.loads(out)
        assert seen["held"] is False
        assert expectation.partition(":")[0] in seen["error"]
        assert [one["holds"] for one in seen["expectations"]].count(False) == 1
    else:
        assert "All of it held" not in out


def test_failed_demo_exits_1_and_says_why(capsys, monkeypatch):
    monkeypatch.setattr(demo, "HostDriver", Idle)
    assert main(["demo"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("reportclient: The demo failed: there is a CPU to give away")
    assert error.count("\n") == 1
