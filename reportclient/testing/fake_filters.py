# SPDX-License-Identifier: Apache-2.0
"""What the values of filters mean: in lists of providers, and in groups of candidates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from reportclient.testing.fake_checks import is_uuid
from reportclient.testing.fake_routes import Request
from reportclient.testing.fake_state import FakeState, Refusal

__all__ = [
    "INVALID",
    "aggregates_of",
    "check_traits",
    "fits",
    "has_one_of_each",
    "resources_of",
    "traits_of",
    "traits_of_value",
]

INVALID = "Invalid query string parameters:"
_FORM = "Badly formed resources parameter. Expected resources query string parameter in form:"


def has_one_of_each(there: set[str], groups: Iterable[set[str]]) -> bool:
    """Whether of every group there is one."""
    return all(there & group for group in groups)


# -- member_of -------------------------------------------------------------------------


def aggregates_of(request: Request, suffix: str = "") -> tuple[list[set[str]], set[str]]:
    """Sets of which one each has to be there, and those that must not be."""
    name = f"member_of{suffix}"
    values = [value for key, value in request.query if key == name]
    if len(values) > 1 and not request.at_least(1, 24):
        raise Refusal(400, f"Multiple {name} parameters are not supported")
    groups, never = [], set[str]()
    for value in values:
        wanted, forbidden = _one_member_of(value)
        if not forbidden:
            groups.append(wanted)
            continue
        if not request.at_least(1, 32):
            raise Refusal(
                400,
                f"Forbidden {name} parameters are not supported in the specified microversion",
            )
        never |= wanted
    return groups, never


def _one_member_of(value: str) -> tuple[set[str], bool]:
    forbidden = value.startswith("!")
    wanted = value[1:] if forbidden else value
    if "," in value and not wanted.startswith("in:"):
        raise Refusal(
            400,
            "Multiple values for 'member_of' must be prefixed with the 'in:' or '!in:' keyword "
            f"using the valid microversion. Got: {value}",
        )
    values = set(wanted[3:].split(",")) if wanted.startswith("in:") else {wanted}
    for one in values:
        if not is_uuid(one):
            raise Refusal(
                400,
                f"{INVALID} Expected 'member_of' parameter to contain valid UUID(s). Got: {one}",
            )
    return values, forbidden


# -- required --------------------------------------------------------------------------


def traits_of(request: Request, suffix: str = "") -> tuple[list[set[str]], set[str]]:
    """Sets of which one each has to be there, and those that must not be."""
    values = [value for key, value in request.query if key == f"required{suffix}"]
    if not request.at_least(1, 39):
        values = values[-1:]
    any_of, none_of = [], set[str]()
    for value in values:
        required, forbidden = traits_of_value(
            value, may_forbid=request.at_least(1, 22), may_choose=request.at_least(1, 39)
        )
        any_of += required
        none_of |= forbidden
    return any_of, none_of


def traits_of_value(
    value: str, *, may_forbid: bool, may_choose: bool
) -> tuple[list[set[str]], set[str]]:
    """What one value asks for: see `traits_of`.

    :param may_forbid: whether ``!`` is understood.
    :param may_choose: whether ``in:`` is understood.
    """
    if value.startswith("in:"):
        return [_any_of(value, may_choose=may_choose)], set()
    return _all_of(value, may_forbid=may_forbid)


def _any_of(value: str, *, may_choose: bool) -> set[str]:
    form = "in:HW_CPU_X86_VMX,CUSTOM_MAGIC"
    if not may_choose:
        raise Refusal(
            400,
            f"{INVALID} The format '{form}' only supported since microversion 1.39. Got: {value}",
        )
    names = {name.strip() for name in value[3:].split(",")}
    if "" in names:
        raise _empty_trait(form, value)
    if any(name.startswith("!") for name in names):
        raise Refusal(
            400,
            f"{INVALID} The format '{form}' does not support forbidden traits. Got: {value}",
        )
    return names


def _all_of(value: str, *, may_forbid: bool) -> tuple[list[set[str]], set[str]]:
    names = [name.strip() for name in value.split(",")]
    forbidden = {name.lstrip("!") for name in names if name.startswith("!")}
    if not all([*names, *forbidden]):
        form = "HW_CPU_X86_VMX,!CUSTOM_MAGIC" if may_forbid else "HW_CPU_X86_VMX,CUSTOM_MAGIC"
        raise _empty_trait(form, value)
    if forbidden and not may_forbid:
        raise Refusal(
            400,
            f"{INVALID} Expected 'required' parameter value of the form: "
            f"HW_CPU_X86_VMX,CUSTOM_MAGIC. Got: {value}",
        )
    return [{name} for name in names if not name.startswith("!")], forbidden


def _empty_trait(form: str, value: str) -> Refusal:
    return Refusal(
        400,
        f"{INVALID} Expected 'required' parameter value of the form: {form}. "
        f"Got an empty trait in: {value}",
    )


def check_traits(state: FakeState, names: Iterable[str], start: str = "") -> None:
    """Refuse a trait that is not there.

    :param start: what the text begins with.
    """
    for name in names:
        if name not in state.traits:
            raise Refusal(400, f"{start}No such trait(s): {name}.")


# -- resources -------------------------------------------------------------------------


def resources_of(value: str) -> dict[str, int]:
    """Class -> amount."""
    if not value.strip():
        raise Refusal(400, f"{_FORM} ?resources=VCPU:2,MEMORY_MB:1024. Got: empty string.")
    found = {}
    for part in value.split(","):
        name, *amount = part.split(":")
        if len(amount) != 1:
            raise Refusal(400, f"{_FORM} ?resources=VCPU:2,MEMORY_MB:1024. Got: {part}.")
        found[name] = _amount(name, amount[0])
    return found


def _amount(name: str, text: str) -> int:
    try:
        amount = int(text)
    except ValueError:
        raise Refusal(
            400, f"Requested resource {name} expected positive integer amount. Got: {text}."
        ) from None
    if amount < 1:
        raise Refusal(400, f"Requested resource {name} requires amount >= 1. Got: {amount}.")
    return amount


def fits(record: Mapping[str, Any], used: int, amount: int) -> bool:
    """Whether an inventory has an amount to give, in one piece."""
    free = (record["total"] - record["reserved"]) * record["allocation_ratio"]
    fits = record["min_unit"] <= amount <= record["max_unit"] and not amount % record["step_size"]
    return bool(fits) and used + amount <= free
