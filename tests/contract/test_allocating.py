# SPDX-License-Identifier: Apache-2.0
"""Allocations and reshapes: the fake does as the service does."""

from __future__ import annotations

import pytest
from side_by_side import CHILD, INVENTORY, OTHER, PARENT, Of, an_id

MISSING = an_id(99)
FIRST, SECOND, THIRD = an_id(201), an_id(202), an_id(203)
VERSIONS = ["1.0", "1.8", "1.12", "1.28", "1.34", "1.38"]
BULK = ["1.12", "1.13", "1.28", "1.38"]
GONE = object()


def number(version):
    return tuple(map(int, version.split(".")))


def a_body(version, consumer, held, bulk=False, **more):
    """What a consumer is to hold, in the form of a microversion."""
    since = number(version)
    body = {"allocations": {uuid: {"resources": resources} for uuid, resources in held.items()}}
    if since < (1, 12) and not bulk:
        body["allocations"] = [
            {"resource_provider": {"uuid": uuid}, "resources": resources}
            for uuid, resources in held.items()
        ]
    if since >= (1, 8) or bulk:
        body |= {"project_id": "p", "user_id": "u"}
    if since >= (1, 28):
        body["consumer_generation"] = Of("consumer", consumer)
    if since >= (1, 38):
        body["consumer_type"] = "INSTANCE"
    return {key: value for key, value in (body | more).items() if value is not GONE}


def look(both, version="1.39"):
    """Both hold the same."""
    both("GET", f"/allocations/{FIRST}", version=version)
    both("GET", f"/allocations/{SECOND}", version=version)
    both("GET", f"/resource_providers/{PARENT}/allocations", version=version)
    both("GET", "/usages?project_id=p")


def look_closely(both):
    """Both hold the same, down to those that were hardly touched."""
    look(both)
    both("GET", f"/allocations/{THIRD}")
    for own in (PARENT, CHILD, OTHER):
        both("GET", f"/resource_providers/{own}/allocations")
        both("GET", f"/resource_providers/{own}/usages")
        both("GET", f"/resource_providers/{own}/inventories")


@pytest.mark.parametrize("version", VERSIONS)
def test_replacing_what_a_consumer_holds(both, version):
    statuses = set()
    for held in (
        {PARENT: {"VCPU": 1}},
        {PARENT: {"VCPU": 9}},
        {PARENT: {"VCPU": 2, "DISK_GB": 10}},
        *({PARENT: {"DISK_GB": amount}} for amount in (3, 7, 55, 50)),
        {PARENT: {"DISK_GB": 50}, CHILD: {"VCPU": 8}},
        {PARENT: {"PCI_DEVICE": 1}},
        {OTHER: {"VCPU": 1}},
        {OTHER: {"VCPU": 1, "DISK_GB": 5}, PARENT: {"VCPU": 1}},
        {PARENT: {"CUSTOM_NO": 1}},
        *({PARENT: {"VCPU": amount}} for amount in (0, -1, "1", 1.0, 1.5, True)),
        {PARENT: {"bad-name": 1}},
        {PARENT: {}},
        {MISSING: {"VCPU": 1}},
        {"nonsense": {"VCPU": 1}},
        {CHILD: {"VCPU": 8}},
        {},
    ):
        status, _ = both("PUT", f"/allocations/{FIRST}", a_body(version, FIRST, held), version)
        statuses.add(status)
        look(both)
    assert statuses == {204, 400, 409}
    # A consumer that never came to hold anything stays behind all the same.
    both("PUT", f"/allocations/{THIRD}", a_body(version, THIRD, {MISSING: {"VCPU": 1}}), version)
    both("PUT", f"/allocations/{THIRD}", a_body(version, THIRD, {PARENT: {"VCPU": 1}}), version)
    look(both, version)
    look_closely(both)


@pytest.mark.parametrize("version", ["1.0", "1.12", "1.28", "1.38"])
@pytest.mark.parametrize("consumer", [FIRST, SECOND])
def test_bodies_at_their_edges(both, version, consumer):
    good = {PARENT: {"resources": {"VCPU": 1}}}
    for more in (
        *({"project_id": value} for value in (GONE, "", "x" * 256, 7, "another")),
        {"user_id": GONE},
        *({"consumer_generation": value} for value in (GONE, "x", 777, None)),
        *({"consumer_type": value} for value in (GONE, "lower", "", "MIGRATION")),
        *({"mappings": value} for value in (
            {}, {"": [PARENT]}, {"x": []}, {"x": ["n"]}, {"x": [PARENT]},
        )),
        *({"allocations": value} for value in (
            GONE, 5, good, {PARENT: 5}, [5],
            {PARENT: {**good[PARENT], "generation": 5}},
            {PARENT: {**good[PARENT], "generation": "x"}},
            {PARENT: {**good[PARENT], "colour": "red"}},
        )),
        {"colour": "red"},
    ):  # fmt: skip
        body = a_body(version, consumer, {PARENT: {"VCPU": 1}}, **more)
        both("PUT", f"/allocations/{consumer}", body, version)
        both("GET", f"/allocations/{consumer}")
    look(both, version)


def test_consumers_have_uuids(both):
    body = a_body("1.39", THIRD, {PARENT: {"VCPU": 1}})
    assert both("PUT", "/allocations/nonsense", body)[0] == 400
    shouted = THIRD.upper().replace("-", "")
    assert both("PUT", f"/allocations/{shouted}", body)[0] == 204
    assert both("GET", f"/allocations/{THIRD}")[1]["allocations"]
    assert both("DELETE", f"/allocations/{THIRD}")[0] == 204
    assert both("DELETE", f"/allocations/{THIRD}")[0] == 404
    both("GET", "/allocations/nonsense")


def test_beyond_capacity_less_is_welcome(both):
    """What was allocated stays when the inventory shrinks; then it may only shrink."""
    both.each(lambda operator: operator.allocate(FIRST, {CHILD: {"VCPU": 6}}))
    both.each(lambda operator: operator.set_inventory(CHILD, {"VCPU": {"total": 2}}))
    for amount, expected in ((7, 409), (6, 204), (5, 204), (6, 409)):
        body = a_body("1.39", FIRST, {CHILD: {"VCPU": amount}})
        assert both("PUT", f"/allocations/{FIRST}", body)[0] == expected


def test_which_generations_move(both):
    """A provider that a consumer merely no longer holds keeps its generation."""

    def generations():
        return [
            {own: service.operator.provider(own)["generation"] for own in (PARENT, CHILD)}
            for service in both.services
        ]

    def moved(before, after):
        return [{own for own in was if was[own] != now[own]} for was, now in
                zip(before, after, strict=True)]  # fmt: skip

    for held, expected in (({CHILD: {"VCPU": 1}}, {CHILD}), ({}, {CHILD})):
        before = generations()
        both("PUT", f"/allocations/{FIRST}", a_body("1.39", FIRST, held))
        assert moved(before, generations()) == [expected, expected]
    both("PUT", f"/allocations/{FIRST}", a_body("1.39", FIRST, {CHILD: {"VCPU": 1}}))
    before = generations()
    both("DELETE", f"/allocations/{FIRST}")
    assert moved(before, generations()) == [set(), set()]


@pytest.mark.parametrize("version", BULK)
def test_several_consumers_at_once(both, version):
    for parts in (
        {},
        {FIRST: {PARENT: {"VCPU": 1}}},
        {FIRST: {PARENT: {"VCPU": 1}}, SECOND: {PARENT: {"VCPU": 7}}},
        {FIRST: {PARENT: {"VCPU": 5}}, SECOND: {PARENT: {"VCPU": 4}}},
        {FIRST: {}, SECOND: {CHILD: {"VCPU": 8}}},
        {FIRST: {}, SECOND: {}},
        {FIRST: {}, THIRD: {}},
        {FIRST: {PARENT: {"CUSTOM_NO": 1}}},
        {FIRST: {MISSING: {"VCPU": 1}}},
        {THIRD: {MISSING: {"VCPU": 1}}, FIRST: {PARENT: {"VCPU": 1}}},
        {THIRD: {PARENT: {"VCPU": 1}}},
        {"nonsense": {PARENT: {"VCPU": 1}}},
    ):
        body = {
            consumer: a_body(
                version, FIRST if consumer == "nonsense" else consumer, held, bulk=True
            )
            for consumer, held in parts.items()
        }
        both("POST", "/allocations", body, version)
        look(both)
    stale = a_body(version, FIRST, {PARENT: {"VCPU": 1}}, bulk=True, consumer_generation=4444)
    new = a_body(version, an_id(204), {PARENT: {"VCPU": 1}}, bulk=True)
    both("POST", "/allocations", {an_id(204): new, FIRST: stale}, version)
    both("GET", f"/allocations/{an_id(204)}")
    for bad in ([], {FIRST: 5}, None):
        both("POST", "/allocations", bad, version)
    look_closely(both)


def test_every_route_at_every_microversion(both):
    """Hold, look, change, let go."""
    project = "/usages?project_id=p"
    for minor in range(40):
        version = f"1.{minor}"

        def ask(method, path, body=None, version=version):
            return both(method, path, body, version)[0]

        def look_around(ask=ask):
            assert ask("GET", f"/resource_providers/{PARENT}/allocations") == 200
            assert ask("GET", f"/resource_providers/{CHILD}/usages") == 200
            assert ask("GET", f"/allocations/{FIRST}") == 200
            ask("GET", project)
            ask("GET", f"{project}&user_id=u")
            ask("GET", f"{project}&consumer_type=INSTANCE")

        first, second = ({PARENT: {"VCPU": 1}, CHILD: {"VCPU": 2}}, {CHILD: {"VCPU": 1}})
        assert ask("PUT", f"/allocations/{FIRST}", a_body(version, FIRST, first)) == 204
        look_around()
        bodies = {
            FIRST: a_body(version, FIRST, second, bulk=True),
            THIRD: a_body(version, THIRD, first, bulk=True),
        }
        assert ask("POST", "/allocations", bodies) == (204 if minor >= 13 else 404)
        look_around()
        ask("PUT", f"/allocations/{FIRST}", a_body(version, FIRST, {}))
        ask("DELETE", f"/allocations/{FIRST}")
        assert ask("DELETE", f"/allocations/{FIRST}") == 404
        ask("DELETE", f"/allocations/{THIRD}")
        look_around()


def test_mappings_go_with_a_write_and_are_not_kept(both):
    for version, expected in (("1.33", 400), ("1.34", 204), ("1.39", 204)):
        mappings = {"": [PARENT], "_NET": [CHILD]}
        body = a_body(version, FIRST, {PARENT: {"VCPU": 1}}, mappings=mappings)
        assert both("PUT", f"/allocations/{FIRST}", body, version)[0] == expected
        look(both)
        body = {SECOND: a_body(version, SECOND, {CHILD: {"VCPU": 1}}, True, mappings=mappings)}
        assert both("POST", "/allocations", body, version)[0] == expected
        look(both)


def test_consumers_that_change_owner_and_type(both):
    """One that an old client wrote is of an unknown type until a newer one writes it."""
    for version, more in (
        ("1.37", {"project_id": "p", "user_id": "u"}),
        ("1.38", {"project_id": "p", "user_id": "another"}),
        ("1.38", {"project_id": "q", "user_id": "another", "consumer_type": "MIGRATION"}),
        ("1.37", {"project_id": "q", "user_id": "u"}),
        ("1.12", {"project_id": "p", "user_id": "u"}),
        ("1.0", {}),
        ("1.39", {"consumer_type": "unknown"}),
        ("1.39", {"consumer_type": "ALL"}),
    ):
        body = a_body(version, FIRST, {PARENT: {"VCPU": 1}}, **more)
        both("PUT", f"/allocations/{FIRST}", body, version)
        for project in ("p", "q", "00000000-0000-0000-0000-000000000000"):
            for rest in ("", "&user_id=u", "&user_id=another"):
                path = f"/usages?project_id={project}{rest}"
                both("GET", path, version="1.9")
                for kind in ("INSTANCE", "MIGRATION", "ALL", "unknown", "all"):
                    both("GET", f"{path}&consumer_type={kind}")
        both("GET", f"/allocations/{FIRST}")


# -- reshaping -------------------------------------------------------------------------

LEFT = {name: record for name, record in INVENTORY.items() if name != "VCPU"}


def inventories(**by_provider):
    return {
        own: {"resource_provider_generation": Of("provider", own), "inventories": inventory}
        for own, inventory in by_provider.items()
    }


@pytest.mark.parametrize("version", ["1.29", "1.30", "1.38"])
def test_reshaping(both, version):
    def claims(**by_consumer):
        return {
            consumer: a_body(version, consumer, held, bulk=True)
            for consumer, held in by_consumer.items()
        }

    both.each(lambda operator: operator.allocate(FIRST, {PARENT: {"VCPU": 4}}))
    both.each(
        lambda operator: operator.allocate(SECOND, {PARENT: {"VCPU": 2}, CHILD: {"VCPU": 1}})
    )
    moved = {
        FIRST: {OTHER: {"VCPU": 4}},
        SECOND: {OTHER: {"VCPU": 2}, CHILD: {"VCPU": 1}},
    }
    back = {FIRST: {PARENT: {"VCPU": 4}}, SECOND: {PARENT: {"VCPU": 2}, CHILD: {"VCPU": 1}}}
    eight = {"VCPU": {"total": 8}}
    statuses = set()
    for new, held in (
        ({}, {}),
        ({PARENT: LEFT}, {}),
        ({PARENT: LEFT, OTHER: eight}, {FIRST: moved[FIRST]}),
        ({PARENT: LEFT, OTHER: {"VCPU": {"total": 4}}}, moved),
        ({PARENT: {**INVENTORY, "CUSTOM_NO": {"total": 1}}}, {}),
        ({PARENT: {**INVENTORY, "VCPU": {"total": 8, "reserved": 9}}}, {}),
        ({PARENT: {**INVENTORY, "VCPU": {"total": 0}}}, {}),
        ({PARENT: INVENTORY}, {FIRST: {MISSING: {"VCPU": 4}}}),
        ({PARENT: INVENTORY}, {THIRD: {MISSING: {"VCPU": 4}}}),
        ({MISSING: {}}, {}),
        ({"nonsense": {}}, {}),
        ({PARENT: LEFT, OTHER: eight}, moved),
        ({PARENT: INVENTORY, OTHER: {}}, back),
        ({OTHER: {}}, {FIRST: {}}),
        ({PARENT: {}}, {}),
    ):
        body = {"inventories": inventories(**new), "allocations": claims(**held)}
        if "nonsense" in new:
            body["inventories"]["nonsense"]["resource_provider_generation"] = 1
        statuses.add(both("POST", "/reshaper", body, version)[0])
        look(both)
        for own in (PARENT, OTHER):
            both("GET", f"/resource_providers/{own}/inventories")
    assert statuses == ({404} if version == "1.29" else {204, 400, 409})
    for body in (
        None,
        {},
        {"inventories": inventories(**{PARENT: LEFT}), "allocations": {"nonsense": {}}},
        {"inventories": {PARENT: {"resource_provider_generation": 1, "inventories": {}}},
         "allocations": {}},
        {"inventories": inventories(**{PARENT: INVENTORY}),
         "allocations": {FIRST: a_body(version, FIRST, {}, bulk=True, consumer_generation=9)}},
    ):  # fmt: skip
        both("POST", "/reshaper", body, version)
    look_closely(both)
