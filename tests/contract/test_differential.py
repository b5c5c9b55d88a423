# SPDX-License-Identifier: Apache-2.0
"""The same random requests to the fake and to the real service: same answers."""

from __future__ import annotations

import random

import pytest
from side_by_side import Of, SideBySide, an_id

STEPS = 200
NAMES = [f"p{n}" for n in range(5)]
UUIDS = [an_id(n + 1) for n in range(6)]
AGGREGATES = [an_id(n + 100) for n in range(3)]
CONSUMERS = [an_id(n + 200) for n in range(3)]
TRAITS = ["HW_CPU_X86_AVX", "CUSTOM_A", "CUSTOM_B", "HW_FUTURE"]
CLASSES = ["VCPU", "DISK_GB", "CUSTOM_X", "FUTURE_CLASS"]
VERSIONS = ["1.39", "1.39", "1.39", "1.36", "1.22", "1.18"]


def some(rng, choices):
    return rng.sample(choices, rng.randrange(len(choices)))


def requests(rng):
    """One random request: method, path, body, version."""
    own, version = rng.choice(UUIDS), rng.choice(VERSIONS)
    path = f"/resource_providers/{own}"
    stale = rng.random() < 0.1
    guard = 99 if stale else Of("provider", own)
    kinds = [
        ("POST", "/resource_providers", {"name": rng.choice(NAMES), "uuid": own}),
        ("POST", "/resource_providers",
         {"name": rng.choice(NAMES), "uuid": own, "parent_provider_uuid": rng.choice(UUIDS)}),
        ("PUT", path, {"name": rng.choice(NAMES)}),
        ("PUT", path, {"name": rng.choice(NAMES),
                       "parent_provider_uuid": rng.choice([*UUIDS, None])}),
        ("DELETE", path, None),
        ("GET", path, None),
        ("GET", f"/resource_providers?in_tree={own}", None),
        ("GET", f"/resource_providers?name={rng.choice(NAMES)}", None),
        ("GET", f"/resource_providers?member_of=in:{','.join(AGGREGATES[:2])}", None),
        ("GET", f"/resource_providers?required={rng.choice(TRAITS)}", None),
        ("GET", f"/resource_providers?resources=VCPU:{rng.randrange(1, 9)}", None),
        ("GET", f"/traits?associated={rng.choice([True, False])}&name=startswith:CUS", None),
        ("GET", f"/traits?name=in:{','.join(TRAITS)}", None),
        ("PUT", f"/traits/{rng.choice(TRAITS)}", None),
        ("DELETE", f"/traits/{rng.choice(TRAITS)}", None),
        ("PUT", f"/resource_classes/{rng.choice(CLASSES)}", None),
        ("DELETE", f"/resource_classes/{rng.choice(CLASSES)}", None),
        ("GET", f"/resource_classes/{rng.choice(CLASSES)}", None),
        ("DELETE", f"/allocations/{rng.choice(CONSUMERS)}", None),
        ("GET", f"/usages?project_id=p{rng.randrange(2)}", None),
        ("GET", f"/allocations/{rng.choice(CONSUMERS)}", None),
        *((method, f"{path}/{aspect}", None)
          for method in ("GET", "DELETE") for aspect in ("inventories", "traits")),
        *(("GET", f"{path}/{what}", None) for what in ("aggregates", "usages", "allocations")),
    ]  # fmt: skip
    inventories = {
        name: {"total": rng.randrange(9), "reserved": rng.randrange(3)}
        for name in some(rng, CLASSES)
    }
    single = rng.choice(CLASSES)
    aggregates = some(rng, AGGREGATES)
    kinds += 3 * [
        ("PUT", f"{path}/inventories",
         {"resource_provider_generation": guard, "inventories": inventories}),
        ("PUT", f"{path}/traits",
         {"resource_provider_generation": guard, "traits": some(rng, TRAITS)}),
        ("PUT", f"{path}/aggregates",
         {"resource_provider_generation": guard, "aggregates": aggregates}
         if version != "1.18" else aggregates),
        ("PUT", f"{path}/inventories/{single}",
         {"resource_provider_generation": guard, "total": rng.randrange(1, 9)}),
        ("DELETE", f"{path}/inventories/{single}", None),
    ]  # fmt: skip
    consumer = rng.choice(CONSUMERS)
    allocations = {
        "allocations": {
            target: {"resources": {rng.choice(CLASSES[:3]): rng.randrange(1, 4)}}
            for target in some(rng, UUIDS[:3])
        },
        "project_id": f"p{rng.randrange(2)}",
        "user_id": "u",
        "consumer_generation": 99 if stale else Of("consumer", consumer),
        "consumer_type": "INSTANCE",
    }
    kinds += 6 * [("PUT", f"/allocations/{consumer}", allocations)]
    return (*rng.choice(kinds), version)


@pytest.mark.parametrize("seed", range(4))
def test_fake_and_real_answer_alike(seed):
    rng = random.Random(seed)
    statuses = set()
    with SideBySide() as both:
        for own in UUIDS[:3]:
            both("POST", "/resource_providers", {"name": f"p{own[-1]}", "uuid": own})
        for _ in range(STEPS):
            method, path, body, version = requests(rng)
            if path.startswith("/allocations") and method == "PUT":
                version = "1.39"
            statuses.add(both(method, path, body, version)[0])
    assert {200, 204, 400, 404, 409} <= statuses
