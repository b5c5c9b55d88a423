# SPDX-License-Identifier: Apache-2.0
"""Writes of providers, aspects and names: the fake does as the service does.

After each, both hold the same; the harness compares every answer.
"""

from __future__ import annotations

import pytest
from side_by_side import AGGREGATE, CHILD, CONSUMER, INVENTORY, OTHER, PARENT, Of, an_id

MISSING, NEW = an_id(99), an_id(4)
P = f"/resource_providers/{PARENT}"
NOW = Of("provider", PARENT)
IN_USE = {"VCPU": {"total": 8}, "CUSTOM_X": {"total": 5}}


def guarded(**more):
    return {"resource_provider_generation": NOW, **more}


# -- providers -------------------------------------------------------------------------

NEW_PROVIDERS = [
    {},
    [],
    "x",
    None,
    {"name": ""},
    {"name": "x" * 201},
    {"name": "x" * 200},
    {"name": 7},
    {"name": None},
    {"name": "n", "colour": "red"},
    *({"name": "n", "uuid": bad} for bad in ("nonsense", "", None, 7)),
    {"name": "n", "uuid": NEW.replace("-", "").upper()},
    {"name": "n", "uuid": PARENT},
    {"name": "parent", "uuid": PARENT},
    {"name": "parent", "uuid": NEW},
    *({"name": "n", "parent_provider_uuid": p} for p in (PARENT, MISSING, None, "nonsense", 7)),
    {"name": "n", "parent_provider_uuid": NEW},
]


@pytest.mark.parametrize("version", ["1.0", "1.14", "1.19", "1.20", "1.39"])
def test_creating_providers(both, version):
    statuses = set()
    for body in NEW_PROVIDERS:
        if isinstance(body, dict) and "name" in body:
            body = {"uuid": NEW, **body}
        status, _ = both("POST", "/resource_providers", body, version)
        statuses.add(status)
        both("GET", f"/resource_providers/{NEW}", version=version)
        both("DELETE", f"/resource_providers/{NEW}", version=version)
    assert {400, 409} <= statuses


@pytest.mark.parametrize("version", ["1.0", "1.13", "1.14", "1.36", "1.37", "1.39"])
def test_renaming_and_moving(both, version):
    child = f"/resource_providers/{CHILD}"
    for body in (
        {},
        {"name": ""},
        {"name": "parent"},
        {"name": "child"},
        {"name": "x" * 201},
        {"name": "child", "uuid": CHILD},
        *(
            {"name": "moved", "parent_provider_uuid": parent}
            for parent in (PARENT, None, OTHER, MISSING, "nonsense", CHILD, PARENT)
        ),
    ):
        both("PUT", child, body, version)
        both("GET", child)
    both("PUT", P, {"name": "parent", "parent_provider_uuid": CHILD}, version)
    both("PUT", f"/resource_providers/{OTHER}", {"name": "other", "parent_provider_uuid": CHILD},
         version)  # fmt: skip
    both("PUT", f"/resource_providers/{MISSING}", {"name": "x"}, version)
    both("PUT", f"/resource_providers/{MISSING}", {}, version)
    both("GET", "/resource_providers")


def test_deleting_providers(both):
    for version in ("1.22", "1.39"):
        assert both("DELETE", P, version=version)[0] == 409
        assert both("DELETE", f"/resource_providers/{MISSING}", version=version)[0] == 404
    assert both("DELETE", f"/resource_providers/{CHILD}")[0] == 204
    assert both("DELETE", P)[0] == 409
    assert both("DELETE", f"/allocations/{CONSUMER}")[0] == 204
    assert both("DELETE", P)[0] == 204
    both("GET", "/resource_providers")


# -- inventories -----------------------------------------------------------------------

RECORDS = [
    {},
    *({"total": total} for total in (0, -1, 2**31, 2**31 - 1, "8", 8.0, 8.5, True, None)),
    *({"total": 8, "reserved": reserved} for reserved in (9, 8, 7, -1)),
    *({"total": 8, field: 0} for field in ("min_unit", "max_unit", "step_size")),
    *({"total": 8, "allocation_ratio": ratio} for ratio in (0, -1.0, 0.01, 3.5e38, "x", 16)),
    {"total": 8, "min_unit": 9, "max_unit": 2},
    {"total": 8, "colour": "red"},
    {"total": 8, "resource_provider_generation": "x"},
    {"total": 8, "resource_provider_generation": 5},
]


@pytest.mark.parametrize("version", ["1.25", "1.26"])
def test_records(both, version):
    statuses = set()
    for record in RECORDS:
        whole = guarded(inventories={**IN_USE, "DISK_GB": record})
        statuses.add(both("PUT", f"{P}/inventories", whole, version)[0])
        for name in ("DISK_GB", "PCI_DEVICE", "CUSTOM_NO"):
            both("PUT", f"{P}/inventories/{name}", guarded(**record), version)
        address = {"resource_class": "IPV4_ADDRESS", **record}
        both("POST", f"/resource_providers/{CHILD}/inventories", address, version)
        both("DELETE", f"/resource_providers/{CHILD}/inventories/IPV4_ADDRESS", version=version)
        both("GET", f"{P}/inventories", version=version)
    assert statuses == {200, 400}


@pytest.mark.parametrize("version", ["1.0", "1.5", "1.22", "1.39"])
def test_whole_sets_and_single_classes(both, version):
    inventories = f"{P}/inventories"
    for body in (
        None,
        [],
        {},
        {"inventories": {}},
        guarded(),
        guarded(inventories=[]),
        {"resource_provider_generation": "x", "inventories": {}},
        {"resource_provider_generation": None, "inventories": {}},
        {"resource_provider_generation": 12345, "inventories": {}},
        guarded(inventories={}),
        guarded(inventories={"VCPU": {"total": 8}}),
        guarded(inventories={**IN_USE, "CUSTOM_NO": {"total": 1}}),
        guarded(inventories={**IN_USE, "bad-name": {"total": 1}}),
        guarded(inventories=IN_USE, colour="red"),
        guarded(inventories={"VCPU": {"total": 1}, "CUSTOM_X": {"total": 1}}),
        guarded(inventories=INVENTORY),
        guarded(inventories=INVENTORY),
    ):
        both("PUT", inventories, body, version)
        both("PUT", f"/resource_providers/{MISSING}/inventories", body, version)
        both("GET", inventories, version=version)
    for name in ("VCPU", "PCI_DEVICE", "CUSTOM_NO", "DISK_GB"):
        both("DELETE", f"{inventories}/{name}", version=version)
    both("PUT", f"{inventories}/VCPU", {"resource_provider_generation": 1, "total": 1}, version)
    other = f"/resource_providers/{OTHER}/inventories"
    for body in (
        {"resource_class": "VCPU", "total": 8},
        {"resource_class": "VCPU", "total": 8},
        {"resource_class": "CUSTOM_NO", "total": 8},
        {"resource_class": "bad-name", "total": 8},
        {"total": 8},
        {"resource_class": "PCI_DEVICE", "total": 8, "reserved": 9},
    ):
        both("POST", other, body, version)
    both("POST", f"/resource_providers/{MISSING}/inventories", {}, version)
    for path in (inventories, other, f"/resource_providers/{MISSING}/inventories"):
        both("DELETE", path, version=version)
        both("GET", path, version=version)


# -- traits and aggregates -------------------------------------------------------------


@pytest.mark.parametrize("version", ["1.5", "1.6", "1.22", "1.39"])
def test_traits_of_a_provider(both, version):
    for body in (
        None,
        {},
        {"traits": []},
        *(guarded(traits=traits) for traits in (
            "x", [1], [""], ["lower"], ["x" * 256], ["CUSTOM_A", "CUSTOM_A"],
            ["CUSTOM_NO", "CUSTOM_NO2"], ["CUSTOM_A", "HW_CPU_X86_AVX2"], [], ["CUSTOM_A"],
            ["CUSTOM_A"],
        )),
        {"resource_provider_generation": 777, "traits": ["CUSTOM_NO"]},
        guarded(traits=[], colour="red"),
    ):  # fmt: skip
        both("PUT", f"{P}/traits", body, version)
        both("PUT", f"/resource_providers/{MISSING}/traits", body, version)
        both("GET", f"{P}/traits", version=version)
    for own in (OTHER, PARENT, MISSING):
        both("DELETE", f"/resource_providers/{own}/traits", version=version)
    both("GET", f"{P}/traits", version=version)


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.18", "1.19", "1.39"])
def test_aggregates_of_a_provider(both, version):
    path = f"{P}/aggregates"
    for given in (
        "x",
        [1],
        ["nonsense"],
        [AGGREGATE, AGGREGATE],
        [AGGREGATE],
        [AGGREGATE],
        [AGGREGATE.upper()],
        [AGGREGATE.replace("-", "")],
        [],
    ):
        for body in (
            given,
            {"aggregates": given},
            guarded(aggregates=given),
            {"aggregates": given, "resource_provider_generation": 8888},
        ):
            both("PUT", path, body, version)
            both("GET", path, version=version)
    both("PUT", f"/resource_providers/{MISSING}/aggregates", [], version)


# -- names -----------------------------------------------------------------------------

LONGEST = "CUSTOM_" + "X" * 248
NAMES = ["VCPU", "HW_CPU_X86_AVX", "CUSTOM_", "CUSTOM_a", "CUSTOM_NEW", LONGEST, f"{LONGEST}X"]


@pytest.mark.parametrize("kind", ["traits", "resource_classes"])
def test_making_and_deleting_names(both, kind):
    for version in ("1.1", "1.2", "1.6", "1.7", "1.39"):
        for name in (*NAMES, "CUSTOM_X", "CUSTOM_A"):
            for method in ("PUT", "GET", "PUT", "DELETE"):
                both(method, f"/{kind}/{name}", version=version)


@pytest.mark.parametrize("version", ["1.2", "1.6", "1.7", "1.39"])
def test_posting_and_renaming_classes(both, version):
    for body in (None, {}, *({"name": name} for name in (*NAMES, "CUSTOM_X", 7)),
                 {"name": "CUSTOM_Q", "colour": 1}):  # fmt: skip
        both("POST", "/resource_classes", body, version)
    for name, wanted in (
        ("CUSTOM_NEW", "CUSTOM_X"),
        ("CUSTOM_NEW", "CUSTOM_NEW"),
        ("VCPU", "CUSTOM_Y"),
        ("CUSTOM_NO", "CUSTOM_Y"),
        ("CUSTOM_X", "lower"),
        ("CUSTOM_X", "CUSTOM_Z"),
    ):
        both("PUT", f"/resource_classes/{name}", {"name": wanted}, version)
    both("GET", f"{P}/inventories")
    both("GET", f"/allocations/{CONSUMER}")
    both("GET", "/resource_classes")
