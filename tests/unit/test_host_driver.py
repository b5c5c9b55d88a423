# SPDX-License-Identifier: Apache-2.0
"""The driver for this machine, on small captured ``/proc`` and ``/sys`` trees."""

from __future__ import annotations

import dataclasses
import logging
import shutil
from pathlib import Path

import os_traits
import pytest

from reportclient import ProviderTree, exceptions
from reportclient.drivers import Driver, HostDriver
from reportclient.drivers.cpu_traits import cpu_traits
from reportclient.drivers.host_facts import read_facts

DATA = Path(__file__).parents[1] / "data" / "host"
ROOT = "f5d5b3c2-9a3e-4b9e-8c6a-0d3b8f1f6a11"


def new_tree():
    tree = ProviderTree()
    tree.new_root("host1", ROOT)
    return tree


def report(name, tree=None, **options):
    tree = new_tree() if tree is None else tree
    HostDriver(root=DATA / name, **options).update_provider_tree(tree, "host1")
    return tree


def by_name(tree):
    return {tree.data(uuid).name: tree.data(uuid) for uuid in tree.get_provider_uuids()}


def amounts(data):
    return {name: (r["total"], r["reserved"]) for name, r in data.inventory.items()}


def test_it_is_a_driver():
    assert isinstance(HostDriver(), Driver)


def test_single_socket():
    providers = by_name(report("single"))
    assert set(providers) == {"host1", "host1_0000:01:00.0"}
    root = providers["host1"]
    assert amounts(root) | {"DISK_GB": None} == {
        "VCPU": (4, 0),
        "MEMORY_MB": (8192, 512),
        "DISK_GB": None,
    }
    assert root.inventory["VCPU"] == {
        "total": 4,
        "reserved": 0,
        "min_unit": 1,
        "max_unit": 4,
        "step_size": 1,
    }
    assert {"HW_CPU_X86_AVX", "HW_CPU_X86_SVM", "HW_CPU_X86_AMD_SVM", "HW_ARCH_X86_64"} <= (
        root.traits
    )
    assert "HW_CPU_HYPERTHREADING" not in root.traits
    gpu = providers["host1_0000:01:00.0"]
    assert gpu.parent_uuid == ROOT
    assert amounts(gpu) == {"CUSTOM_PCI_1002_73BF": (1, 0)}


def test_two_sockets():
    providers = by_name(report("two-socket", reserved_host_cpus=5, reserved_host_memory_mb=1024))
    assert set(providers) == {
        "host1",
        "host1_numa0",
        "host1_numa1",
        "host1_0000:3b:00.0",
        "host1_0000:af:00.0",
        "host1_0000:5e:00.0",
    }
    assert set(providers["host1"].inventory) == {"DISK_GB"}
    assert amounts(providers["host1_numa0"]) == {"VCPU": (4, 4), "MEMORY_MB": (16384, 1024)}
    assert amounts(providers["host1_numa1"]) == {"VCPU": (4, 1), "MEMORY_MB": (16384, 0)}
    assert providers["host1_numa0"].traits == {"HW_NUMA_ROOT"}
    assert "HW_CPU_HYPERTHREADING" in providers["host1"].traits
    uuids = {name: data.uuid for name, data in providers.items()}
    parents = {name: data.parent_uuid for name, data in providers.items()}
    assert parents["host1_0000:3b:00.0"] == uuids["host1_numa0"]
    assert parents["host1_0000:af:00.0"] == uuids["host1_numa1"]
    nic = providers["host1_0000:5e:00.0"]
    assert amounts(nic) == {"CUSTOM_PCI_8086_1572": (64, 0)}
    assert nic.traits == {"HW_NIC_SRIOV"}


def test_arm():
    root = by_name(report("arm"))["host1"]
    assert amounts(root)["VCPU"] == (2, 0)
    assert {"HW_ARCH_AARCH64", "HW_CPU_AARCH64_ASIMD", "HW_CPU_AARCH64_ATOMICS"} <= root.traits


def test_container_without_sys():
    providers = by_name(report("container"))
    assert set(providers) == {"host1"}
    assert amounts(providers["host1"])["VCPU"] == (2, 0)
    assert amounts(providers["host1"])["MEMORY_MB"] == (2048, 512)


def test_garbage_is_left_out(caplog):
    providers = by_name(report("broken"))
    assert set(providers) == {"host1"}
    assert amounts(providers["host1"])["VCPU"] == (1, 0)
    [warning] = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert "vendor" in warning
    assert "nvidia" in warning


def test_nothing_to_read_is_not_ready():
    tree = new_tree()
    before = tree.snapshot()
    with pytest.raises(exceptions.DriverNotReady, match="cpuinfo"):
        report("none", tree)
    assert tree.snapshot() is before


@pytest.mark.parametrize("name", ["two-socket", "single", "arm", "container"])
def test_the_second_run_changes_nothing(name):
    tree = report(name)
    before = tree.snapshot()
    report(name, tree)
    assert tree.snapshot() is before
    assert report(name).snapshot() == before, "the same UUIDs after a restart"


def test_a_device_that_is_pulled_goes_and_the_rest_stays(tmp_path):
    shutil.copytree(DATA / "two-socket", tmp_path, dirs_exist_ok=True)
    tree = report("two-socket")
    tree.new_child("host1_ovs", ROOT)
    tree.new_child("host1_numa7", "host1_ovs")
    tree.new_child("accelerator", "host1_0000:af:00.0")
    tree.add_traits(ROOT, "CUSTOM_GOLD", "HW_CPU_X86_XOP", "COMPUTE_NODE")
    before = by_name(tree)
    shutil.rmtree(tmp_path / "sys/bus/pci/devices/0000:3b:00.0")
    HostDriver(root=tmp_path).update_provider_tree(tree, "host1")
    after = by_name(tree)
    assert set(before) - set(after) == {"host1_0000:3b:00.0"}
    assert {"CUSTOM_GOLD", "COMPUTE_NODE"} <= after["host1"].traits
    assert "HW_CPU_X86_XOP" not in after["host1"].traits


def test_a_renamed_host_keeps_its_children():
    tree = report("two-socket")
    uuids = set(tree.get_provider_uuids())
    tree.rename(ROOT, "host1.example.com")
    HostDriver(root=DATA / "two-socket").update_provider_tree(tree, "host1.example.com")
    assert set(tree.get_provider_uuids()) == uuids
    assert "host1.example.com_numa0" in by_name(tree)


def test_b69_shared_disk_is_not_counted_twice():
    tree = new_tree()
    tree.new_root("pool", "00000000-0000-4000-8000-000000000009")
    tree.update_inventory("pool", {"DISK_GB": {"total": 5000}})
    tree.update_traits("pool", {os_traits.MISC_SHARES_VIA_AGGREGATE})
    assert "DISK_GB" not in by_name(report("single", tree))["host1"].inventory


def test_what_others_reported_of_the_root_stays():
    tree = new_tree()
    tree.update_inventory(ROOT, {"CUSTOM_LICENCE": {"total": 3}, "VCPU": {"total": 1}})
    root = by_name(report("single", tree))["host1"]
    assert root.inventory["CUSTOM_LICENCE"] == {"total": 3}
    assert root.inventory["VCPU"]["total"] == 4


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"reserved_host_cpus": 5}, "reserved_host_cpus"),
        ({"reserved_host_memory_mb": 10**6}, "reserved_host_memory_mb"),
    ],
)
@pytest.mark.parametrize("machine", ["single", "two-socket"])
def test_more_reserved_than_there_is(machine, options, name):
    if machine == "two-socket":
        options = {option: value * 8 for option, value in options.items()}
    with pytest.raises(exceptions.InvalidInventory, match=name):
        report(machine, **options)


@pytest.mark.parametrize("value", [-1, 1.5, "2", True, None])
def test_options_that_make_no_sense(value):
    with pytest.raises(exceptions.InvalidInventory) as caught:
        HostDriver(reserved_host_cpus=value)
    assert caught.value.field == "reserved_host_cpus"
    assert caught.value.value is value


def test_disk_is_reserved_in_whole_gib():
    facts = dataclasses.replace(read_facts(DATA / "single"), disk_gb=100)
    tree = new_tree()
    driver = HostDriver(facts=lambda: facts, reserved_host_disk_mb=1025)
    driver.update_provider_tree(tree, "host1")
    assert amounts(by_name(tree)["host1"])["DISK_GB"] == (100, 2)


def test_this_machine():
    tree = new_tree()
    HostDriver(reserved_host_memory_mb=0).update_provider_tree(tree, "host1")
    totals = {
        name: record["total"]
        for data in by_name(tree).values()
        for name, record in data.inventory.items()
    }
    assert totals["VCPU"] >= 1
    assert totals["MEMORY_MB"] >= 128


def test_traits_are_those_of_os_traits():
    flags = "sse4_1 aes pni avx512_vnni gfni vmx not_a_flag"
    traits = cpu_traits("x86_64", flags.split(), 2)
    assert traits == {
        "HW_CPU_X86_SSE41",
        "HW_CPU_X86_AESNI",
        "HW_CPU_X86_SSE3",
        "HW_CPU_X86_AVX512VNNI",
        "HW_CPU_X86_AVX512GFNI",
        "HW_CPU_X86_VMX",
        "HW_CPU_X86_INTEL_VMX",
        "HW_CPU_HYPERTHREADING",
        "HW_ARCH_X86_64",
        "COMPUTE_ARCH_X86_64",
    }
    assert cpu_traits("x86_64", ["gfni"]) == {"HW_ARCH_X86_64", "COMPUTE_ARCH_X86_64"}
    assert cpu_traits("pdp11", ["flags"]) == frozenset()
