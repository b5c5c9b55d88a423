# SPDX-License-Identifier: Apache-2.0
"""Every GET at every microversion: the fake answers as the service does."""

from __future__ import annotations

import pytest
from side_by_side import AGGREGATE, CHILD, CONSUMER, OTHER, PARENT, SECOND, an_id

MISSING = an_id(99)
P = f"/resource_providers/{PARENT}"
FILTERS = [
    "",
    "name=parent",
    "name=",
    "name=parent&name=other",
    f"uuid={PARENT}",
    f"in_tree={CHILD}",
    f"member_of={AGGREGATE}",
    f"member_of=in:{AGGREGATE},{SECOND}",
    f"member_of={AGGREGATE}&member_of={SECOND}",
    f"member_of=!{AGGREGATE}",
    f"member_of=!in:{AGGREGATE},{SECOND}",
    "required=CUSTOM_A",
    "required=!CUSTOM_A",
    "required=in:CUSTOM_A,HW_CPU_X86_AVX",
    "required=CUSTOM_A&required=!HW_CPU_X86_AVX",
    "resources=VCPU:7",
    "resources=VCPU:1,CUSTOM_X:9",
    f"name=parent&in_tree={CHILD}&required=CUSTOM_A&resources=DISK_GB:5",
]
PATHS = [
    "/",
    *(f"/resource_providers?{query}" for query in FILTERS),
    P,
    f"{P}/inventories",
    f"{P}/inventories/VCPU",
    f"{P}/traits",
    f"{P}/aggregates",
    f"{P}/usages",
    f"{P}/allocations",
    f"/allocations/{CONSUMER}",
    f"/allocations/{MISSING}",
    "/usages?project_id=project",
    "/usages?project_id=project&user_id=user",
    "/usages?project_id=project&user_id=nobody",
    "/usages",
    "/usages?project_id=project&consumer_type=INSTANCE",
    "/usages?project_id=project&consumer_type=all",
    "/usages?project_id=project&consumer_type=unknown",
    "/traits?name=startswith:CUSTOM",
    "/traits?associated=true",
    "/resource_classes/VCPU",
    "/resource_classes/CUSTOM_X",
    "/traits/CUSTOM_A",
    "/nonsense",
]


@pytest.mark.parametrize("minor", range(40))
def test_every_route_at_every_microversion(both_to_read, minor):
    statuses = {both_to_read("GET", path, version=f"1.{minor}")[0] for path in PATHS}
    assert {200, 404} <= statuses


@pytest.mark.parametrize(
    "path",
    [
        "/traits",
        "/resource_classes",
        "/traits?name=x",
        "/traits?name=x:y",
        "/traits?name=in:CUSTOM_A,NOBODY",
        "/traits?associated=maybe",
        "/traits?associated=FALSE&name=in:CUSTOM_A,HW_CPU_X86_AVX2",
        "/traits?colour=red",
        "/traits/CUSTOM_NO",
        "/resource_classes/CUSTOM_NO",
        "/resource_classes/bad-name",
        f"{P}/inventories/PCI_DEVICE",
        f"{P}/inventories/CUSTOM_NO",
        f"/resource_providers/{OTHER}/inventories",
        f"/resource_providers/{OTHER}/traits",
        f"/resource_providers/{MISSING}",
        *(
            f"/resource_providers/{MISSING}/{what}"
            for what in (
                "inventories", "inventories/VCPU", "traits", "aggregates", "usages", "allocations"
            )
        ),
    ],
)  # fmt: skip
def test_reading_what_is_not_there(both_to_read, path):
    for version in ("1.1", "1.6", "1.39"):
        both_to_read("GET", path, version=version)


@pytest.mark.parametrize(
    "query",
    [
        "colour=red",
        "name=parent&colour=red",
        "uuid=x",
        f"uuid={PARENT.replace('-', '')}",
        f"uuid={PARENT.upper()}",
        f"in_tree={PARENT.replace('-', '')}",
        f"in_tree={MISSING}",
        f"in_tree={MISSING}&required=CUSTOM_NO",
        "name=%70arent",
        "name=a+b",
        "name=zz&required=CUSTOM_NO",
        "name=zz&resources=CUSTOM_NO:1",
        "required=",
        "required=,",
        "required=!",
        "required=!!HW_CPU_X86_AVX",
        "required=HW_CPU_X86_AVX2&resources=CUSTOM_NO:1",
        "required=CUSTOM_NO,CUSTOM_NO2",
        "required=!CUSTOM_NO",
        "required=HW_CPU_X86_AVX,!HW_CPU_X86_AVX",
        "required=in:",
        "required=in:!HW_CPU_X86_AVX",
        "required=in:CUSTOM_NO,HW_CPU_X86_AVX",
        "resources=",
        "resources=VCPU",
        "resources=VCPU:0",
        "resources=VCPU:-1",
        "resources=VCPU:x",
        "resources=VCPU:1:2",
        "resources=VCPU:1,VCPU:9",
        "resources=DISK_GB:7",
        "resources=DISK_GB:55",
        "resources=CUSTOM_NO:1",
        "member_of=",
        "member_of=x",
        "member_of=in:",
        f"member_of={AGGREGATE},{SECOND}",
        f"member_of=!{AGGREGATE},{SECOND}",
        f"member_of={AGGREGATE.upper()}",
        f"member_of={MISSING}&resources=CUSTOM_NO:1",
        f"member_of=!{AGGREGATE}&member_of=in:{AGGREGATE},{SECOND}",
    ],
)
def test_filters_at_their_edges(both_to_read, query):
    for version in ("1.0", "1.18", "1.22", "1.32", "1.39"):
        both_to_read("GET", f"/resource_providers?{query}", version=version)


@pytest.mark.parametrize(
    "query",
    [
        "project_id=",
        "project_id=project&user_id=",
        f"project_id={'x' * 256}",
        "project_id=project&colour=red",
        "project_id=project&consumer_type=lower",
        "project_id=project&consumer_type=",
        "project_id=project&consumer_type=MIGRATION",
        "user_id=user",
    ],
)
def test_usages_at_their_edges(both_to_read, query):
    for version in ("1.8", "1.9", "1.37", "1.38"):
        both_to_read("GET", f"/usages?{query}", version=version)
