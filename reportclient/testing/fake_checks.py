# SPDX-License-Identifier: Apache-2.0
"""What the fake Placement accepts as a body: the rules of the service's schemas.

The status is the service's; the text begins as the service's does, and goes
on in the fake's own words.
"""

from __future__ import annotations

import re
import uuid as uuid_
from collections.abc import Collection, Mapping
from typing import Any

from reportclient.testing.fake_state import Refusal

__all__ = [
    "allocations_of",
    "check",
    "check_class_name",
    "check_custom_name",
    "check_generation",
    "check_inventories",
    "check_name",
    "check_record",
    "check_uuid",
    "is_custom",
    "is_uuid",
    "object_of",
]

_Version = tuple[int, int]
_NAME = re.compile(r"^[A-Z0-9_]+$")
_CUSTOM = re.compile(r"^CUSTOM_[A-Z0-9_]+$")
_UUID_KEY = re.compile(r"^[0-9a-fA-F-]{36}$")
_GROUP = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_LARGEST = 2147483647
_LARGEST_FLOAT = 3.40282e38
#: field -> smallest value
_FIELDS = {"total": 1, "reserved": 0, "min_unit": 1, "max_unit": 1, "step_size": 1}
RECORD = frozenset({*_FIELDS, "allocation_ratio", "resource_provider_generation"})


def check(condition: object, detail: str) -> None:
    """Refuse a body that breaks a rule."""
    if not condition:
        raise Refusal(400, f"JSON does not validate: {detail}")


def object_of(body: Any, required: Collection[str], allowed: Collection[str] = ()) -> Any:
    """A JSON object that has the required keys, perhaps the allowed, no others."""
    check(isinstance(body, dict), f"{body!r} is not of type 'object'")
    for key in sorted(set(required) - body.keys()):
        check(False, f"{key!r} is a required property")
    for key in sorted(body.keys() - set(required) - set(allowed)):
        check(False, f"Additional properties are not allowed ({key!r} was unexpected)")
    return body


def _is_integer(value: Any) -> bool:
    if isinstance(value, bool):
        return False
    return isinstance(value, int) or (isinstance(value, float) and value.is_integer())


def is_uuid(value: Any) -> bool:
    """Whether oslo.utils calls it a UUID: dashes and case do not matter."""
    text = str(value).replace("urn:", "").replace("uuid:", "").strip("{}").replace("-", "")
    try:
        return uuid_.UUID(text).hex == text.lower()
    except ValueError:
        return False


def is_custom(value: Any) -> bool:
    """Whether it is the name of a custom trait or class."""
    return isinstance(value, str) and len(value) <= 255 and bool(_CUSTOM.search(value))


def check_custom_name(value: Any) -> None:
    """Refuse what is not a custom class's name."""
    check(is_custom(value), f"{value!r} does not match '^CUSTOM_[A-Z0-9_]+$'")


def check_class_name(value: Any) -> None:
    """Refuse what cannot be a resource class's name."""
    check_name(value, _LARGEST)
    check(_NAME.search(value), f"{value!r} does not match '^[A-Z0-9_]+$'")


def check_uuid(value: Any) -> None:
    """Refuse what is not a UUID in text."""
    check(isinstance(value, str) and is_uuid(value), f"{value!r} is not a 'uuid'")


def check_generation(value: Any) -> None:
    """Refuse a provider generation that is not a number."""
    check(_is_integer(value), f"{value!r} is not of type 'integer'")


def check_name(value: Any, longest: int = 200, shortest: int = 0) -> None:
    """Refuse a name, or another text, that is too short or too long."""
    check(isinstance(value, str), f"{value!r} is not of type 'string'")
    check(shortest <= len(value) <= longest, f"{value!r} is too short or too long")


# -- inventories -----------------------------------------------------------------------


def check_record(record: Any, required: Collection[str] = ("total",), more: str = "") -> Any:
    """An inventory record, with ``more`` as one more field that it must have."""
    needed = {*required, *({more} if more else ())}
    object_of(record, needed, RECORD)
    for field, value in record.items():
        if field == "allocation_ratio":
            check(
                isinstance(value, int | float) and not isinstance(value, bool),
                f"{value!r} is not of type 'number'",
            )
            check(not value > _LARGEST_FLOAT, f"{value!r} is greater than the maximum")
        elif field == "resource_provider_generation":
            check_generation(value)
        elif field in _FIELDS:
            check(_is_integer(value), f"{value!r} is not of type 'integer'")
            check(_FIELDS[field] <= value <= _LARGEST, f"{value!r} is out of range")
    return record


def check_inventories(body: Any) -> Mapping[str, Mapping[str, Any]]:
    """The inventories of a body that replaces a provider's whole set."""
    object_of(body, {"resource_provider_generation", "inventories"})
    check_generation(body["resource_provider_generation"])
    check(isinstance(body["inventories"], dict), "inventories is not of type 'object'")
    for record in body["inventories"].values():
        check_record(record)
    return {
        name: {
            key: value
            for key, value in record.items()
            if key in _FIELDS.keys() | {"allocation_ratio"}
        }
        for name, record in body["inventories"].items()
    }


# -- allocations -----------------------------------------------------------------------


def allocations_of(body: Any, version: _Version, *, bulk: bool) -> dict[str, dict[str, int]]:
    """What a body says that a consumer holds: provider UUID -> class -> amount.

    :param bulk: one of several consumers, of ``POST /allocations`` or of a
        reshape.
    """
    required = {"allocations"}
    if bulk or version >= (1, 8):
        required |= {"project_id", "user_id"}
    if version >= (1, 28):
        required.add("consumer_generation")
    if version >= (1, 38):
        required.add("consumer_type")
    object_of(body, required, {"mappings"} if version >= (1, 34) else ())
    for key in ("project_id", "user_id"):
        if key in body:
            check_name(body[key], 255, 1)
    given = body.get("consumer_generation")
    check(given is None or _is_integer(given), f"{given!r} is not of type 'integer', 'null'")
    if "consumer_type" in body:
        check_name(body["consumer_type"], 255, 1)
        check(_NAME.search(body["consumer_type"]), "consumer_type does not match")
    if "mappings" in body:
        _check_mappings(body["mappings"])
    if not bulk and version < (1, 12):
        return _from_list(body["allocations"])
    return _from_object(body["allocations"], may_be_empty=bulk or version >= (1, 28))


def _from_list(given: Any) -> dict[str, dict[str, int]]:
    check(isinstance(given, list) and given, "allocations: [] is too short")
    held = {}
    for part in given:
        object_of(part, {"resource_provider", "resources"})
        object_of(part["resource_provider"], {"uuid"})
        check_uuid(part["resource_provider"]["uuid"])
        held[part["resource_provider"]["uuid"]] = _resources(part["resources"])
    return held


def _from_object(given: Any, *, may_be_empty: bool) -> dict[str, dict[str, int]]:
    check(isinstance(given, dict), f"{given!r} is not of type 'object'")
    check(given or may_be_empty, "{} does not have enough properties")
    held = {}
    for uuid, part in given.items():
        check(_UUID_KEY.search(uuid), f"{uuid!r} does not match any of the regexes")
        object_of(part, {"resources"}, {"generation"})
        check_generation(part.get("generation", 0))
        held[uuid] = _resources(part["resources"])
    return held


def _resources(resources: Any) -> dict[str, int]:
    check(isinstance(resources, dict) and resources, "resources has too few properties")
    for name, amount in resources.items():
        check(_NAME.search(name), f"{name!r} does not match any of the regexes")
        check(_is_integer(amount) and amount >= 1, f"{name}: {amount!r} is not 1 or more")
    return {name: int(amount) for name, amount in resources.items()}


def _check_mappings(mappings: Any) -> None:
    check(isinstance(mappings, dict) and mappings, "mappings has too few properties")
    for group, providers in mappings.items():
        if _GROUP.search(group):
            check(isinstance(providers, list) and providers, f"{group}: [] is too short")
            for uuid in providers:
                check_uuid(uuid)
