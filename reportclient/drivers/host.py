# SPDX-License-Identifier: Apache-2.0
"""This machine as a provider tree."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import os_traits

from reportclient import exceptions
from reportclient.drivers.cpu_traits import OWN_PREFIXES, cpu_traits
from reportclient.drivers.host_facts import HostFacts, NumaNode, PciDevice, read_facts
from reportclient.provider_tree import ProviderTree, provider_uuid

__all__ = ["HostDriver"]

LOG = logging.getLogger(__name__)

_DISPLAY, _ACCELERATOR, _NETWORK = 0x03, 0x12, 0x02
#: Vendors whose display devices are for graphics consoles of servers or of
#: virtual machines, not for work: ASPEED, Matrox, Cirrus, Bochs, VMware, virtio.
_CONSOLES = frozenset({0x1A03, 0x102B, 0x1013, 0x1234, 0x15AD, 0x1AF4})


class HostDriver:
    """Reports CPUs, memory, disk, NUMA nodes and PCI devices of a machine.

    The root provider has ``VCPU``, ``MEMORY_MB`` and ``DISK_GB`` and the
    traits of the CPU. Where there is more than one NUMA node, each is a child
    with ``VCPU`` and ``MEMORY_MB`` (and the root has ``DISK_GB`` only). GPUs,
    accelerators and network cards that can be split (SR-IOV) are children
    with one custom class each, named after vendor and product as nova names
    them; the amount is 1, or the number of virtual functions.

    Children have the same UUIDs at every start. Only what this driver makes
    is ever changed or removed: other children, and traits outside the
    families of `OWN_PREFIXES`, are left alone. Allocation ratios are not
    reported, so those that an operator sets stay.

    It reads the machine, not the limits of a container it may run in.

    :param root: where ``proc`` and ``sys`` are read.
    :param reserved_host_cpus: CPUs that are not for guests.
    :param reserved_host_memory_mb: MiB that are not for guests.
    :param reserved_host_disk_mb: MiB that are not for guests; rounded up to
        whole GiB.
    :param disk_path: a path on the file system that guests' disks are on.
    :param facts: read the machine's facts in another way.
    :raises InvalidInventory: an amount reserved is not a whole number of 0 or
        more.
    """

    def __init__(
        self,
        *,
        root: str | os.PathLike[str] = "/",
        reserved_host_cpus: int = 0,
        reserved_host_memory_mb: int = 512,
        reserved_host_disk_mb: int = 0,
        disk_path: str = "/",
        facts: Callable[[], HostFacts] | None = None,
    ) -> None:
        self._reserved = {
            "reserved_host_cpus": reserved_host_cpus,
            "reserved_host_memory_mb": reserved_host_memory_mb,
            "reserved_host_disk_mb": reserved_host_disk_mb,
        }
        for option, value in self._reserved.items():
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise exceptions.InvalidInventory(
                    f"{option} {value!r} is not a whole number of 0 or more.",
                    field=option,
                    value=value,
                )
        self._facts = facts or (lambda: read_facts(root, disk_path))
        self._warned = False

    def update_provider_tree(
        self,
        provider_tree: ProviderTree,
        nodename: str,
        allocations: Mapping[str, Any] | None = None,
    ) -> None:
        """Make the tree say what the machine has. See `Driver`.

        :raises DriverNotReady: neither CPUs nor memory can be read.
        :raises InvalidInventory: more is reserved than there is.
        """
        del allocations  # Nothing ever moves between these providers.
        facts = self._facts()
        self._say_unreadable(facts)
        if not facts.cpus or not facts.memory_mb:
            raise exceptions.DriverNotReady(
                "The machine's CPUs or memory cannot be read: "
                + ("; ".join(facts.unreadable) or "there is nothing to read")
            )
        root = provider_tree.data(nodename).uuid
        nodes = facts.numa_nodes if len(facts.numa_nodes) > 1 else ()
        self._update_root(provider_tree, root, facts, nodes)
        wanted = self._update_numa(provider_tree, root, nodes, nodename)
        wanted |= self._update_devices(provider_tree, root, facts, nodename)
        for uuid in provider_tree.get_provider_uuids(root):
            if uuid not in wanted and provider_tree.exists(uuid) and uuid != root:
                name = provider_tree.data(uuid).name
                if uuid in (self._numa_uuid_of(root, name), self._pci_uuid_of(root, name)):
                    provider_tree.remove(uuid)

    # -- the root ----------------------------------------------------------------

    def _update_root(
        self, tree: ProviderTree, root: str, facts: HostFacts, nodes: tuple[NumaNode, ...]
    ) -> None:
        inventory: dict[str, dict[str, int]] = {}
        if not nodes:
            inventory["VCPU"] = self._amount(
                "VCPU", len(facts.cpus), "reserved_host_cpus", self._reserved["reserved_host_cpus"]
            )
            inventory["MEMORY_MB"] = self._amount(
                "MEMORY_MB",
                facts.memory_mb or 0,
                "reserved_host_memory_mb",
                self._reserved["reserved_host_memory_mb"],
            )
        # A sharing provider's disk is everybody's: it must not count twice.
        if facts.disk_gb and not tree.has_sharing_provider("DISK_GB"):
            reserved = -(-self._reserved["reserved_host_disk_mb"] // 1024)
            inventory["DISK_GB"] = self._amount(
                "DISK_GB", facts.disk_gb, "reserved_host_disk_mb", reserved
            )
        there = tree.data(root).inventory
        foreign = {name: record for name, record in there.items() if name not in _OWN_CLASSES}
        tree.update_inventory(root, foreign | inventory)
        self._update_traits(
            tree, root, cpu_traits(facts.architecture, facts.cpu_flags, facts.threads_per_core)
        )

    @staticmethod
    def _update_traits(tree: ProviderTree, uuid: str, traits: Iterable[str]) -> None:
        foreign = {t for t in tree.data(uuid).traits if not t.startswith(OWN_PREFIXES)}
        tree.update_traits(uuid, foreign | set(traits))

    @staticmethod
    def _amount(name: str, total: int, option: str, reserved: int) -> dict[str, int]:
        if reserved > total:
            raise exceptions.InvalidInventory(
                f"{name}: {option} reserves {reserved}, and there are only {total}.",
                resource_class=name,
                field=option,
                value=reserved,
            )
        return {
            "total": total,
            "reserved": reserved,
            "min_unit": 1,
            "max_unit": total,
            "step_size": 1,
        }

    # -- NUMA nodes ------------------------------------------------------------------

    def _update_numa(
        self, tree: ProviderTree, root: str, nodes: tuple[NumaNode, ...], nodename: str
    ) -> set[str]:
        made = set()
        cpus = self._reserved["reserved_host_cpus"]
        memory = self._reserved["reserved_host_memory_mb"]
        for node in nodes:
            uuid = self._child(
                tree, root, f"{nodename}_numa{node.number}", self._numa_uuid(root, node.number)
            )
            made.add(uuid)
            inventory = {}
            # What is reserved is taken from the first nodes that have it.
            if node.cpus:
                take = min(cpus, len(node.cpus))
                cpus -= take
                inventory["VCPU"] = self._amount(
                    "VCPU", len(node.cpus), "reserved_host_cpus", take
                )
            if node.memory_mb:
                take = min(memory, node.memory_mb)
                memory -= take
                inventory["MEMORY_MB"] = self._amount(
                    "MEMORY_MB", node.memory_mb, "reserved_host_memory_mb", take
                )
            tree.update_inventory(uuid, inventory)
            self._update_traits(tree, uuid, {os_traits.HW_NUMA_ROOT})
        if nodes:
            self._amount("VCPU", 0, "reserved_host_cpus", cpus)
            self._amount("MEMORY_MB", 0, "reserved_host_memory_mb", memory)
        return made

    @staticmethod
    def _numa_uuid(root: str, number: int) -> str:
        return provider_uuid(root, "numa", str(number))

    def _numa_uuid_of(self, root: str, name: str) -> str | None:
        """The UUID that the NUMA node of a name has, if it is one's name."""
        number = name.rpartition("_numa")[2]
        return self._numa_uuid(root, int(number)) if number.isdecimal() else None

    # -- PCI devices -------------------------------------------------------------------

    def _update_devices(
        self, tree: ProviderTree, root: str, facts: HostFacts, nodename: str
    ) -> set[str]:
        made = set()
        for device in facts.pci_devices:
            amount, traits = _worth_reporting(device)
            if not amount:
                continue
            parent = root
            if device.numa_node is not None:
                numa = self._numa_uuid(root, device.numa_node)
                parent = numa if tree.exists(numa) else root
            name = f"{nodename}_{device.address}"
            uuid = self._child(tree, parent, name, self._pci_uuid(root, device.address))
            made.add(uuid)
            resource_class = f"CUSTOM_PCI_{device.vendor:04X}_{device.product:04X}"
            tree.update_inventory(
                uuid, {resource_class: self._amount(resource_class, amount, "", 0)}
            )
            tree.add_traits(uuid, *traits)
        return made

    @staticmethod
    def _pci_uuid(root: str, address: str) -> str:
        return provider_uuid(root, "pci", address)

    def _pci_uuid_of(self, root: str, name: str) -> str:
        return self._pci_uuid(root, name.rpartition("_")[2])

    @staticmethod
    def _child(tree: ProviderTree, parent: str, name: str, uuid: str) -> str:
        if not tree.exists(uuid):
            return tree.new_child(name, parent, uuid=uuid)
        found = tree.data(uuid)
        if found.name != name:
            tree.rename(uuid, name)
        if found.parent_uuid != parent:
            tree.move(uuid, parent)
        return uuid

    def _say_unreadable(self, facts: HostFacts) -> None:
        if facts.unreadable and not self._warned:
            LOG.warning("Not all of the machine can be read: %s", "; ".join(facts.unreadable))
        self._warned = bool(facts.unreadable)


_OWN_CLASSES = frozenset({"VCPU", "MEMORY_MB", "DISK_GB"})


def _worth_reporting(device: PciDevice) -> tuple[int, tuple[str, ...]]:
    """How many there are to give away, and the traits that go with it."""
    base_class = device.class_code >> 16
    if device.is_virtual_function or device.vendor in _CONSOLES:
        return 0, ()
    if base_class in (_DISPLAY, _ACCELERATOR):
        return device.virtual_functions or 1, ()
    if base_class == _NETWORK and device.virtual_functions:
        return device.virtual_functions, (os_traits.HW_NIC_SRIOV,)
    return 0, ()
