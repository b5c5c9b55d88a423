# SPDX-License-Identifier: Apache-2.0
"""Reading ``/proc`` and ``/sys``: what this machine has. No policy.

Containers hide files, and odd firmware writes odd ones: what cannot be read
is left out, and said in `HostFacts.unreadable`.
"""

from __future__ import annotations

import dataclasses
import os
import platform
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

__all__ = ["HostFacts", "NumaNode", "PciDevice", "read_facts"]


@dataclasses.dataclass(frozen=True)
class NumaNode:
    """A NUMA node: its number, logical CPUs and memory (MiB)."""

    number: int
    cpus: frozenset[int]
    memory_mb: int


@dataclasses.dataclass(frozen=True)
class PciDevice:
    """A PCI device.

    :ivar address: ``0000:3b:00.0``.
    :ivar class_code: 24 bits: base class, subclass, interface.
    :ivar numa_node: ``None`` where the firmware does not say.
    :ivar virtual_functions: how many it can have (SR-IOV); 0: none.
    :ivar is_virtual_function: whether it is one itself.
    """

    address: str
    vendor: int
    product: int
    class_code: int
    numa_node: int | None = None
    virtual_functions: int = 0
    is_virtual_function: bool = False


@dataclasses.dataclass(frozen=True)
class HostFacts:
    """What a machine has.

    :ivar cpus: the logical CPUs that are online.
    :ivar memory_mb: MiB; ``None`` if it cannot be read.
    :ivar disk_gb: GiB of the file system asked for; ``None`` likewise.
    :ivar architecture: as ``uname -m`` says.
    :ivar cpu_flags: flags (x86) or features (ARM) of the CPUs.
    :ivar threads_per_core: hardware threads; 1 where it is not known.
    :ivar unreadable: what could not be read, and why.
    """

    cpus: frozenset[int]
    memory_mb: int | None
    disk_gb: int | None
    architecture: str
    cpu_flags: frozenset[str] = frozenset()
    threads_per_core: int = 1
    numa_nodes: tuple[NumaNode, ...] = ()
    pci_devices: tuple[PciDevice, ...] = ()
    unreadable: tuple[str, ...] = ()


class _Reader:
    """Reads files below a root, and remembers which could not be read."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.unreadable: list[str] = []

    def text(self, path: str, *, must: bool = False) -> str | None:
        try:
            return (self._root / path).read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            if must:
                self.unreadable.append(f"/{path}: {error.strerror}")
            return None

    def number(self, path: str, base: int = 10) -> int | None:
        text = self.text(path)
        try:
            return None if text is None else int(text.strip(), base)
        except ValueError:
            self.unreadable.append(f"/{path}: {text!r} is no number")
            return None

    def entries(self, path: str) -> list[str]:
        try:
            return sorted(entry.name for entry in (self._root / path).iterdir())
        except OSError:
            return []

    def exists(self, path: str) -> bool:
        return (self._root / path).exists()


def read_facts(root: str | os.PathLike[str] = "/", disk_path: str = "/") -> HostFacts:
    """Read what a machine has.

    On the live machine psutil has the last word on memory and CPUs; anywhere
    else only the files below ``root`` count.

    :param root: where ``proc`` and ``sys`` are.
    :param disk_path: a path on the file system whose size is the disk.
    """
    reader = _Reader(Path(root))
    live = Path(root).resolve() == Path("/")
    cpuinfo = _cpuinfo(reader)
    cpus = _cpus(reader, cpuinfo)
    memory = _memory(reader)
    if live:
        cpus, memory = _by_psutil(cpus, memory)
    return HostFacts(
        cpus=cpus,
        memory_mb=memory,
        disk_gb=_disk(reader, Path(root), disk_path),
        architecture=_architecture(cpuinfo, live),
        cpu_flags=_flags(cpuinfo),
        threads_per_core=_threads_per_core(reader, cpus),
        numa_nodes=tuple(_numa_nodes(reader)),
        pci_devices=tuple(_pci_devices(reader)),
        unreadable=tuple(reader.unreadable),
    )


# -- CPUs -------------------------------------------------------------------------


def _cpuinfo(reader: _Reader) -> list[tuple[str, str]]:
    text = reader.text("proc/cpuinfo", must=True) or ""
    pairs = (line.partition(":") for line in text.splitlines())
    return [(key.strip().lower(), value.strip()) for key, colon, value in pairs if colon]


def _cpus(reader: _Reader, cpuinfo: list[tuple[str, str]]) -> frozenset[int]:
    online = _cpu_list(reader.text("sys/devices/system/cpu/online"))
    return online or frozenset(
        int(value) for key, value in cpuinfo if key == "processor" and value.isdigit()
    )


def _cpu_list(text: str | None) -> frozenset[int]:
    """``0-3,8`` as numbers; nothing if it is not such a list."""
    cpus: set[int] = set()
    for part in (text or "").strip().split(","):
        first, dash, last = part.partition("-")
        if first.isdigit() and (not dash or last.isdigit()):
            cpus.update(range(int(first), int(last if dash else first) + 1))
    return frozenset(cpus)


def _flags(cpuinfo: list[tuple[str, str]]) -> frozenset[str]:
    """What all CPUs have: a guest may land on any of them."""
    each = [frozenset(value.split()) for key, value in cpuinfo if key in ("flags", "features")]
    return frozenset.intersection(*each) if each else frozenset()


def _threads_per_core(reader: _Reader, cpus: frozenset[int]) -> int:
    siblings = (
        _cpu_list(reader.text(f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"))
        for cpu in cpus
    )
    return max((len(group) for group in siblings), default=0) or 1


def _architecture(cpuinfo: list[tuple[str, str]], live: bool) -> str:
    if live:
        return platform.machine()
    keys = {key for key, _ in cpuinfo}
    if "flags" in keys:
        return "x86_64"
    return "aarch64" if "features" in keys else ""


# -- memory and disk ------------------------------------------------------------------


def _memory(reader: _Reader) -> int | None:
    text = reader.text("proc/meminfo", must=True) or ""
    return _kib_of(text, r"^MemTotal:\s*(\d+) kB")


def _kib_of(text: str, pattern: str) -> int | None:
    found = re.search(pattern, text, re.M)
    return int(found[1]) // 1024 if found else None


def _by_psutil(cpus: frozenset[int], memory: int | None) -> tuple[frozenset[int], int | None]:
    try:
        import psutil
    except ImportError:
        return cpus, memory
    count = psutil.cpu_count() or len(cpus)
    if len(cpus) != count:
        cpus = frozenset(range(count))
    return cpus, psutil.virtual_memory().total // 2**20


def _disk(reader: _Reader, root: Path, disk_path: str) -> int | None:
    path = root / disk_path.lstrip("/")
    try:
        return shutil.disk_usage(path).total // 2**30
    except OSError as error:
        reader.unreadable.append(f"{path}: {error.strerror}")
        return None


# -- NUMA and PCI --------------------------------------------------------------------------


def _numa_nodes(reader: _Reader) -> Iterator[NumaNode]:
    base = "sys/devices/system/node"
    numbers = (re.fullmatch(r"node(\d+)", name) for name in reader.entries(base))
    for number in sorted(int(match[1]) for match in numbers if match):
        cpus = _cpu_list(reader.text(f"{base}/node{number}/cpulist"))
        meminfo = reader.text(f"{base}/node{number}/meminfo") or ""
        memory = _kib_of(meminfo, r"MemTotal:\s*(\d+) kB")
        yield NumaNode(number, cpus, memory or 0)


def _pci_devices(reader: _Reader) -> Iterator[PciDevice]:
    base = "sys/bus/pci/devices"
    for address in reader.entries(base):
        at = f"{base}/{address}"
        vendor, product, code = (
            reader.number(f"{at}/{name}", 16) for name in ("vendor", "device", "class")
        )
        if vendor is None or product is None or code is None:
            continue
        node = reader.number(f"{at}/numa_node") if reader.exists(f"{at}/numa_node") else None
        yield PciDevice(
            address,
            vendor,
            product,
            code,
            None if node is None or node < 0 else node,
            reader.number(f"{at}/sriov_totalvfs") or 0,
            reader.exists(f"{at}/physfn"),
        )
