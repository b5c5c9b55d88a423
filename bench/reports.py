# SPDX-License-Identifier: Apache-2.0
"""What is reported in the measurements: one host, or a fleet of nodes."""

from __future__ import annotations

import dataclasses
import functools
import uuid
from collections.abc import Callable
from typing import Any, NamedTuple


def record(total: int, *, reserved: int = 0, ratio: float = 1.0) -> dict[str, Any]:
    """An inventory record with every field."""
    return {
        "total": total,
        "reserved": reserved,
        "min_unit": 1,
        "max_unit": total,
        "step_size": 1,
        "allocation_ratio": ratio,
    }


class Child(NamedTuple):
    """A child provider and the one class that it has."""

    uuid: str
    name: str
    resource_class: str


@dataclasses.dataclass
class Host:
    """A root with an aggregate, and children with one unit of a class each.

    :param size: how many children. From 50 on they share one class.
    :param tag: makes names and UUIDs of its own.
    """

    size: int
    tag: str

    def __post_init__(self) -> None:
        self.root = str(uuid.uuid5(uuid.NAMESPACE_OID, self.tag))
        self.name = f"host-{self.tag}"
        self.traits = ["HW_CPU_X86_AVX2"]
        self.aggregates = [str(uuid.uuid5(uuid.UUID(self.root), "aggregate"))]
        self.children = [
            Child(
                str(uuid.uuid5(uuid.UUID(self.root), str(n))),
                f"{self.name}-{n}",
                f"CUSTOM_GPU_{n}" if self.size < 50 else "CUSTOM_GPU",
            )
            for n in range(self.size)
        ]
        self._class_of = {child.uuid: child.resource_class for child in self.children}

    def inventory(self, provider: str, disk: int = 900) -> dict[str, Any]:
        """The inventory of one of the providers."""
        if provider != self.root:
            return {self._class_of[provider]: record(1)}
        return {
            "VCPU": record(16, reserved=1, ratio=4.0),
            "MEMORY_MB": record(65536, reserved=512),
            "DISK_GB": record(disk),
        }

    def edit(self, disk: int = 900) -> Callable[[Any], None]:
        """What a driver does to a tree."""
        return functools.partial(self._edit, disk)

    def _edit(self, disk: int, tree: Any) -> None:
        tree.update_inventory(self.root, self.inventory(self.root, disk))
        tree.add_traits(self.root, *self.traits)
        tree.add_aggregates(self.root, *self.aggregates)
        for child in self.children:
            if not tree.exists(child.uuid):
                tree.new_child(child.name, self.root, uuid=child.uuid)
            tree.update_inventory(child.uuid, self.inventory(child.uuid))


@dataclasses.dataclass
class Fleet:
    """Bare-metal nodes, each a root with one class and one trait."""

    size: int
    tag: str
    resource_class: str = "CUSTOM_BAREMETAL"
    trait: str = "CUSTOM_RACK"

    def __post_init__(self) -> None:
        space = uuid.uuid5(uuid.NAMESPACE_OID, self.tag)
        self.nodes = [
            (str(uuid.uuid5(space, str(n))), f"node-{self.tag}-{n}") for n in range(self.size)
        ]

    def inventory(self) -> dict[str, Any]:
        """The inventory of any node."""
        return {self.resource_class: record(1)}

    def edit(self, tree: Any, nodename: str) -> None:
        """What a driver does to the tree of a node."""
        tree.update_inventory(nodename, self.inventory())
        tree.update_traits(nodename, [self.trait])
