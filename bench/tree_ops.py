# SPDX-License-Identifier: Apache-2.0
"""Times the operations of one ProviderTree class; prints JSON.

Runs under the interpreter of either side, so it imports nothing else of them.
"""

from __future__ import annotations

import argparse
import copy
import gc
import importlib
import json
import sys
import time
import tracemalloc
import uuid

FANOUT = 10


def provider_dicts(size: int) -> list[dict]:
    """A root with children, each of which has grandchildren."""
    ids = [str(uuid.UUID(int=n + 1)) for n in range(size)]
    dicts = []
    for n, own in enumerate(ids):
        if n == 0:
            parent = None
        elif n <= size // FANOUT:
            parent = ids[0]
        else:
            parent = ids[1 + n % (size // FANOUT)]
        dicts.append(
            {"uuid": own, "name": f"p{n}", "generation": n, "parent_provider_uuid": parent}
        )
    return dicts


def fill(tree, dicts) -> None:
    """Inventory and traits for every provider."""
    for given in dicts:
        tree.update_inventory(
            given["uuid"],
            {
                "VCPU": {
                    "total": 8,
                    "reserved": 0,
                    "min_unit": 1,
                    "max_unit": 8,
                    "step_size": 1,
                    "allocation_ratio": 16.0,
                }
            },
        )
        tree.update_traits(given["uuid"], {"HW_CPU_X86_AVX", "HW_CPU_X86_AVX2"})


def best(function, at_least: float = 0.2) -> float:
    """Seconds a call: the best of several rounds, each long enough to measure."""
    function()
    count = 1
    while True:
        began = time.perf_counter()
        for _ in range(count):
            function()
        spent = time.perf_counter() - began
        if spent >= at_least / 4:
            break
        count *= 4
    rounds = [spent / count]
    for _ in range(3):
        began = time.perf_counter()
        for _ in range(count):
            function()
        rounds.append((time.perf_counter() - began) / count)
    return min(rounds)


def once(function) -> float:
    """Seconds of a single call, the best of three."""
    spent = []
    for _ in range(3):
        gc.collect()
        began = time.perf_counter()
        function()
        spent.append(time.perf_counter() - began)
    return min(spent)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("module")
    parser.add_argument("size", type=int)
    options = parser.parse_args()
    make = importlib.import_module(options.module).ProviderTree
    dicts = provider_dicts(options.size)

    def populated():
        tree = make()
        tree.populate_from_iterable(dicts)
        return tree

    tree = populated()
    fill(tree, dicts)
    child = f"p{options.size // FANOUT}"
    grandchild = dicts[-1]["uuid"]
    unchanged = {"HW_CPU_X86_AVX", "HW_CPU_X86_AVX2"}
    result = {
        "populate": once(populated),
        "exists(child name)": best(lambda: tree.exists(child)),
        "exists(grandchild uuid)": best(lambda: tree.exists(grandchild)),
        "data(grandchild uuid)": best(lambda: tree.data(grandchild)),
        "update_traits, unchanged": best(lambda: tree.update_traits(grandchild, unchanged)),
        "deepcopy": best(lambda: copy.deepcopy(tree)),
        "get_provider_uuids": best(tree.get_provider_uuids),
        "has_sharing_provider": best(lambda: tree.has_sharing_provider("DISK_GB")),
    }
    gc.collect()
    tracemalloc.start()
    held = populated()
    fill(held, dicts)
    gc.collect()
    result["bytes a provider"] = tracemalloc.get_traced_memory()[0] / options.size
    json.dump(result, sys.stdout)


if __name__ == "__main__":
    main()
