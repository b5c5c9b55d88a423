# SPDX-License-Identifier: Apache-2.0
"""What conflicts and refusals say, word for word.

Servers older than 1.23 send no code: the text is all that a client has to
tell a conflict of generations from a name that is taken.
"""

from __future__ import annotations

import pytest
from side_by_side import AGGREGATE, CHILD, CONSUMER, OTHER, PARENT, Of, an_id, filled, prepare

P = f"/resource_providers/{PARENT}"
NOW = {"resource_provider_generation": Of("provider", PARENT)}
STALE = {"resource_provider_generation": 4711}
UNDEFINED = "placement.undefined_code"
CONCURRENT = "placement.concurrent_update"
CHANGED = (
    "Resource provider's generation already changed. Please update the generation and try again."
)
ALLOCATION = {"project_id": "p", "user_id": "u"}


def to_hold(name, amount, own=PARENT):
    return {"allocations": {own: {"resources": {name: amount}}}, **ALLOCATION}


@pytest.fixture
def said(placement):
    """Send a request at an old and at a new microversion; status, code and text."""
    prepare(placement.operator)

    def said(method, path, body=None, **newer):
        found = []
        for version in ("1.22", "1.39"):
            own = {**body, **(newer if version == "1.39" else {})} if body else None
            status, answer = placement.operator.try_call(
                method, path, filled(placement, own), version
            )
            [error] = answer["errors"]
            text = error["detail"].partition("\n\n")[2].strip()
            found.append((status, error.get("code"), text))
        (status, none, text), (same_status, code, same_text) = found
        assert none is None
        assert (status, text) == (same_status, same_text)
        return status, code, text

    return said


@pytest.mark.parametrize(
    ("name", "own", "taken"),
    [
        ("parent", an_id(9), "name: parent"),
        ("another", PARENT, f"uuid: {PARENT}"),
        # Which one is named depends on the database; this is SQLite's.
        ("parent", PARENT, "name: parent"),
    ],
)
def test_creating_what_is_there(said, name, own, taken):
    status, code, text = said("POST", "/resource_providers", {"name": name, "uuid": own})
    assert (status, code) == (409, "placement.duplicate_name")
    assert text == f"Conflicting resource provider {taken} already exists."


def test_renaming_to_a_name_that_is_taken(said):
    status, code, text = said("PUT", f"/resource_providers/{OTHER}", {"name": "parent"})
    assert (status, code) == (409, "placement.duplicate_name")
    assert text == "Conflicting resource provider parent already exists."


def test_parents(said):
    missing = {"name": "n", "uuid": an_id(9), "parent_provider_uuid": an_id(99)}
    status, code, text = said("POST", "/resource_providers", missing)
    assert (status, code) == (400, UNDEFINED)
    assert text == (
        f'Unable to create resource provider "n", {an_id(9)}: Object action create failed '
        "because: parent provider UUID does not exist."
    )
    below = {"name": "parent", "parent_provider_uuid": CHILD}
    status, code, text = said("PUT", P, below)
    assert (status, code) == (400, UNDEFINED)
    assert text == (
        f"Unable to save resource provider {PARENT}: Object action update failed because: "
        "creating loop in the provider tree is not allowed."
    )


@pytest.mark.parametrize(
    ("aspect", "value", "text"),
    [
        ("inventories", {}, "resource provider generation conflict"),
        ("inventories/VCPU", None, "resource provider generation conflict"),
        ("traits", [], CHANGED),
        ("aggregates", [], CHANGED),
    ],
)
def test_outdated_generations(said, aspect, value, text):
    body = STALE | ({"total": 1} if value is None else {aspect: value})
    assert said("PUT", f"{P}/{aspect}", body) == (409, CONCURRENT, text)


def test_inventory_in_use(said):
    both = f"Inventory for 'VCPU, CUSTOM_X' on resource provider '{PARENT}' in use."
    one = f"Inventory for 'VCPU' on resource provider '{PARENT}' in use."
    code = "placement.inventory.inuse"
    path = f"{P}/inventories"
    assert said("PUT", path, NOW | {"inventories": {}}) == (409, code, f"update conflict: {both}")
    assert said("DELETE", path) == (409, code, both)
    # The code of a conflict of generations, though it is none.
    assert said("DELETE", f"{path}/VCPU") == (
        409, CONCURRENT, f"Unable to delete inventory of class VCPU: {one}"
    )  # fmt: skip


def test_providers_in_use(said, placement):
    assert said("DELETE", P) == (
        409,
        "placement.resource_provider.cannot_delete_parent",
        f"Unable to delete parent resource provider {PARENT}: It has child resource providers.",
    )
    placement.operator.delete_provider(CHILD)
    assert said("DELETE", P) == (
        409,
        "placement.resource_provider.inuse",
        f"Unable to delete resource provider {PARENT}: Resource provider has allocations.",
    )


def test_names_that_are_not_there(said):
    inventories = {"VCPU": {"total": 8}, "CUSTOM_X": {"total": 8}, "CUSTOM_NO": {"total": 1}}
    assert said("PUT", f"{P}/inventories", NOW | {"inventories": inventories}) == (
        400,
        UNDEFINED,
        f"Unknown resource class in inventory for resource provider {PARENT}: "
        "No such resource class CUSTOM_NO.",
    )
    assert said("PUT", f"{P}/traits", NOW | {"traits": ["CUSTOM_NO"]}) == (
        400, UNDEFINED, "No such trait CUSTOM_NO"
    )  # fmt: skip
    assert said("GET", "/resource_providers?required=CUSTOM_NO") == (
        400,
        UNDEFINED,
        'Invalid trait(s) in "required" parameter: No such trait(s): CUSTOM_NO.',
    )
    assert said("DELETE", "/traits/CUSTOM_A") == (
        409, UNDEFINED, "The trait CUSTOM_A is in use by a resource provider."
    )  # fmt: skip
    assert said("DELETE", "/resource_classes/CUSTOM_X") == (
        409,
        UNDEFINED,
        "Error in delete resource class: Cannot delete resource class CUSTOM_X. "
        "Class is in use in inventory.",
    )


@pytest.mark.parametrize("path", [P, f"{P}/inventories"])
def test_providers_that_are_not_there(said, path):
    path = path.replace(PARENT, an_id(99))
    status, code, text = said("DELETE", path)
    assert (status, code) == (404, UNDEFINED)
    assert text.startswith(f"No resource provider with uuid {an_id(99)} found")


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (
            to_hold("VCPU", 9),
            f"Unable to create allocation for 'VCPU' on resource provider '{PARENT}'. "
            "The requested amount would exceed the capacity.",
        ),
        (
            to_hold("DISK_GB", 7),
            f"Unable to create allocation for 'DISK_GB' on resource provider '{PARENT}'. "
            "The requested amount would violate inventory constraints.",
        ),
        (
            to_hold("VCPU", 1, OTHER),
            f"Inventory for 'VCPU' on resource provider '{OTHER}' invalid.",
        ),
    ],
)
def test_allocations_that_do_not_fit(said, body, text):
    newer = {"consumer_generation": None, "consumer_type": "INSTANCE"}
    answer = said("PUT", f"/allocations/{an_id(209)}", body, **newer)
    assert answer == (409, UNDEFINED, f"Unable to allocate inventory: {text}")


def test_an_outdated_consumer(placement):
    """The code of an outdated provider; only the text tells them apart."""
    prepare(placement.operator)
    body = to_hold("VCPU", 1) | {"consumer_generation": None, "consumer_type": "INSTANCE"}
    status, answer = placement.operator.try_call("PUT", f"/allocations/{CONSUMER}", body)
    [error] = answer["errors"]
    assert (status, error["code"]) == (409, CONCURRENT)
    assert "consumer generation conflict - expected " in error["detail"]
    assert error["detail"].rstrip().endswith(" but got None")


def test_identical_aggregates_at_1_18_are_not_guarded(placement):
    prepare(placement.operator)
    before = placement.operator.provider(PARENT)["generation"]
    placement.operator.call("PUT", f"{P}/aggregates", [AGGREGATE], version="1.18")
    assert placement.operator.provider(PARENT)["generation"] == before
