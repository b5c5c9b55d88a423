# SPDX-License-Identifier: Apache-2.0
"""Local rules for what may be sent: names, UUIDs, inventories, traits.

The limits are those of Placement's API reference and JSON schemas. What is
refused here would be refused there, only later, and with the whole request.
"""

from __future__ import annotations

import math
import numbers
import operator
import re
import struct
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

import os_resource_classes

from reportclient import exceptions
from reportclient.types import Inventory, InventoryRecord

__all__ = [
    "MAX_INT",
    "check_name",
    "check_resource_class",
    "check_trait",
    "custom_resource_class",
    "is_uuid",
    "normalise_aggregates",
    "normalise_inventory",
    "normalise_traits",
    "normalise_uuid",
    "same_inventory",
    "same_number",
    "same_record",
    "short",
    "uuid_or_text",
]

#: Placement keeps amounts in signed 32-bit columns.
MAX_INT = 2147483647
#: The largest single-precision number; ratios are kept as such.
MAX_RATIO = 3.40282e38

_NAME_LIMIT = 200
_SYMBOL = re.compile(r"[A-Z0-9_]{1,255}")
_NORMAL_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_LOWEST = {"total": 0, "reserved": 0, "min_unit": 1, "max_unit": 1, "step_size": 1}
_FIELDS = (*_LOWEST, "allocation_ratio")


# -- UUIDs, names, symbols ---------------------------------------------------


def uuid_or_text(value: Any) -> str:
    """A UUID in its normal form; any other text as it is."""
    text = value if isinstance(value, str) else str(value)
    return _parsed_uuid(text) or text


def is_uuid(value: Any) -> bool:
    """Whether it is a UUID, in whatever form."""
    return isinstance(value, str) and _parsed_uuid(value) is not None


def normalise_uuid(value: Any, *, field: str = "uuid", provider: str | None = None) -> str:
    """A UUID in lower case and with dashes.

    :raises InvalidUUID: it is not a UUID.
    """
    if isinstance(value, uuid.UUID):
        return str(value)
    parsed = _parsed_uuid(value) if isinstance(value, str) else None
    if parsed is None:
        raise exceptions.InvalidUUID(
            f"{_of(provider)}{field} {short(value)} is not a UUID.",
            provider=provider,
            field=field,
            value=value,
        )
    return parsed


def _parsed_uuid(text: str) -> str | None:
    if len(text) < 32:
        return None
    # Nearly all are in normal form already.
    normal = _NORMAL_UUID.fullmatch(text)
    if normal:
        return normal.group()
    try:
        parsed = uuid.UUID(text)
    except ValueError:
        return None
    # uuid.UUID reads the digits as int() does: with underscores, signs and
    # spaces. That would be another UUID than the one that was written.
    digits = text.replace("urn:", "").replace("uuid:", "").strip("{}").replace("-", "")
    return str(parsed) if parsed.hex == digits.lower() else None


def check_name(name: Any, *, provider: str | None = None) -> str:
    """A provider name: 1 to 200 characters (API reference, POST /resource_providers).

    :raises InvalidName: it is not.
    """
    if isinstance(name, str) and 0 < len(name) <= _NAME_LIMIT:
        return name
    raise exceptions.InvalidName(
        f"{_of(provider)}name {short(name)} is not a text of 1 to {_NAME_LIMIT} characters.",
        provider=provider,
        field="name",
        value=name,
    )


def check_trait(name: Any, *, provider: str | None = None) -> str:
    """A trait name: 1 to 255 of A-Z, 0-9 and ``_``.

    :raises InvalidTrait: it is not, or nothing follows ``CUSTOM_``.
    """
    symbol = _symbol(name)
    if symbol is not None:
        return symbol
    raise exceptions.InvalidTrait(
        f"{_of(provider)}trait {short(name)} is not 1 to 255 of A-Z, 0-9 and _.",
        provider=provider,
        field="traits",
        value=name,
    )


def check_resource_class(name: Any, *, provider: str | None = None) -> str:
    """A resource class name: 1 to 255 of A-Z, 0-9 and ``_``.

    :raises InvalidResourceClass: it is not, or nothing follows ``CUSTOM_``.
    """
    symbol = _symbol(name)
    if symbol is not None:
        return symbol
    raise exceptions.InvalidResourceClass(
        f"{_of(provider)}resource class {short(name)} is not 1 to 255 of A-Z, 0-9 and _.",
        provider=provider,
        resource_class=name if isinstance(name, str) else None,
        field="resource_class",
        value=name,
    )


def custom_resource_class(text: Any) -> str:
    """A custom resource class for a device's name: ``"GPU 2.0"`` -> ``"CUSTOM_GPU_2_0"``.

    The same as os-resource-classes makes of it (and nova, ironic and cyborg
    with it), but a name that is custom already stays as it is.

    :raises InvalidResourceClass: nothing, or too much, would be left.
    """
    symbol = _symbol(text)
    if symbol is not None and symbol.startswith("CUSTOM_"):
        return symbol
    return check_resource_class(os_resource_classes.normalize_name(text) if text else text)


def normalise_traits(traits: Iterable[Any], *, provider: str | None = None) -> frozenset[str]:
    """Trait names as a set; any iterable will do.

    :raises InvalidTrait: one of them is wrong.
    :raises InvalidProviderTree: several are; ``errors`` has each.
    """
    return _each(check_trait, traits, "traits", exceptions.InvalidTrait, provider)


def normalise_aggregates(
    aggregates: Iterable[Any], *, provider: str | None = None
) -> frozenset[str]:
    """Aggregate UUIDs in their normal form; the same one twice collapses.

    :raises InvalidAggregate: one of them is no UUID.
    :raises InvalidProviderTree: several are not; ``errors`` has each.
    """

    def check(value: Any, *, provider: str | None) -> str:
        try:
            return normalise_uuid(value, field="aggregate", provider=provider)
        except exceptions.InvalidUUID as error:
            raise exceptions.InvalidAggregate(
                str(error), provider=provider, field="aggregates", value=value
            ) from None

    return _each(check, aggregates, "aggregates", exceptions.InvalidAggregate, provider)


def _each(
    check: Any, values: Any, field: str, kind: type[exceptions.InvalidInput], provider: str | None
) -> frozenset[str]:
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise kind(
            f"{_of(provider)}{field} {short(values)} is not a collection.",
            provider=provider,
            field=field,
            value=values,
        )
    good, errors = set(), []
    for value in values:
        try:
            good.add(check(value, provider=provider))
        except exceptions.InvalidInput as error:
            errors.append(error)
    _raise(errors)
    return frozenset(good)


def _symbol(name: Any) -> str | None:
    match = _SYMBOL.fullmatch(name) if isinstance(name, str) else None
    # What was matched is a plain text, also where ``name`` is of an Enum.
    return match.group() if match and match.group() != "CUSTOM_" else None


# -- inventories ----------------------------------------------------------------


def normalise_inventory(
    inventory: Inventory, *, provider: str | None = None
) -> dict[str, dict[str, int | float]]:
    """An inventory as it is sent: checked, whole numbers as ``int``.

    Fields that are missing stay missing (Placement has defaults of its own). A
    class with a total of 0 is left out: there is none of it (LP 1651678).

    :raises InvalidInventory, InvalidResourceClass: one value is wrong; names
        provider, class, field and value.
    :raises InvalidProviderTree: several are; ``errors`` has each.
    """
    if not isinstance(inventory, Mapping):
        raise exceptions.InvalidInventory(
            f"{_of(provider)}inventory {short(inventory)} is not a mapping of resource classes.",
            provider=provider,
            field="inventory",
            value=inventory,
        )
    errors: list[exceptions.InvalidInput] = []
    normal: dict[str, dict[str, int | float]] = {}
    for name, record in inventory.items():
        try:
            symbol = check_resource_class(name, provider=provider)
        except exceptions.InvalidInput as error:
            errors.append(error)
            continue
        checked = _check_record(symbol, record, provider, errors)
        if checked and checked.get("total") != 0:
            normal[symbol] = checked
    _raise(errors)
    return normal


def _check_record(
    name: str,
    record: Any,
    provider: str | None,
    errors: list[exceptions.InvalidInput],
) -> dict[str, int | float]:
    def refuse(field: str, value: Any, why: str) -> None:
        errors.append(
            exceptions.InvalidInventory(
                f"{_of(provider)}{name}: {field} {short(value)} {why}.",
                provider=provider,
                resource_class=name,
                field=field,
                value=value,
            )
        )

    if not isinstance(record, Mapping):
        refuse("record", record, "is not a mapping of fields")
        return {}
    for field in record:
        if field not in _FIELDS:
            refuse(str(field), record[field], f"is not one of the fields {', '.join(_FIELDS)}")
    if "total" not in record:
        refuse("total", None, "is missing")
    checked: dict[str, int | float] = {}
    for field, lowest in _LOWEST.items():
        if field in record:
            number = _whole(record[field])
            if number is None or not lowest <= number <= MAX_INT:
                refuse(field, record[field], f"is not a whole number from {lowest} to {MAX_INT}")
            else:
                checked[field] = number
    if "allocation_ratio" in record:
        ratio = _ratio(record["allocation_ratio"])
        if ratio is None:
            refuse("allocation_ratio", record["allocation_ratio"], "is not a number above 0")
        else:
            checked["allocation_ratio"] = ratio
    total = checked.get("total")
    if total and checked.get("reserved", 0) > total:
        refuse("reserved", checked["reserved"], f"is above the total of {total}")
    return checked


def _whole(value: Any) -> int | None:
    """A whole number as ``int``: ints, numpy's ints, and floats such as 16.0."""
    if isinstance(value, bool | str | bytes):
        return None
    try:
        return operator.index(value)
    except TypeError:
        pass
    number = _float(value)
    return int(number) if number is not None and number.is_integer() else None


def _ratio(value: Any) -> int | float | None:
    number = None if isinstance(value, bool) else _float(value)
    if number is None or not 0 < number <= MAX_RATIO:
        return None
    return value if isinstance(value, int | float) else number


def _float(value: Any) -> float | None:
    """A finite number as ``float``: also fractions and numpy's numbers."""
    if not isinstance(value, numbers.Real):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


# -- comparing --------------------------------------------------------------------


def same_number(a: float, b: float) -> bool:
    """Whether two numbers are the same to Placement.

    Ratios are kept in single precision, and some databases show six digits of
    them, so a ratio that differs less would be sent again for ever. Amounts
    are whole numbers up to `MAX_INT` and kept as they are, so those are the
    same only if they are equal, whether they came as ``int`` or ``float``.
    """
    if a == b:
        return True
    if not isinstance(a, float) and not isinstance(b, float):
        return False
    if _is_whole(a) and _is_whole(b) and min(abs(a), abs(b)) <= MAX_INT:
        return False
    try:
        return struct.pack("f", a) == struct.pack("f", b) or f"{a:.6g}" == f"{b:.6g}"
    except (OverflowError, struct.error, TypeError, ValueError):
        return False


def _is_whole(number: Any) -> bool:
    return (
        number.is_integer() if isinstance(number, float) else isinstance(number, numbers.Integral)
    )


def same_record(a: InventoryRecord, b: InventoryRecord) -> bool:
    """Whether two inventory records have the same fields and numbers."""
    return a is b or (a.keys() == b.keys() and all(same_number(a[field], b[field]) for field in a))


def same_inventory(a: Inventory, b: Inventory) -> bool:
    """Whether two inventories have the same classes and records."""
    return a is b or (a.keys() == b.keys() and all(same_record(a[name], b[name]) for name in a))


# -- messages -----------------------------------------------------------------------


def _of(provider: str | None) -> str:
    return f"Provider {provider}: " if provider else ""


def short(value: Any) -> str:
    """A value as messages show it, cut."""
    text = repr(value)
    return text if len(text) <= 220 else f"{text[:200]}... ({len(text)} characters)"


def _raise(errors: list[exceptions.InvalidInput]) -> None:
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise exceptions.InvalidProviderTree(
            f"{len(errors)} values were refused: " + " ".join(map(str, errors)), errors=errors
        )
