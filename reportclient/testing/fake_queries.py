# SPDX-License-Identifier: Apache-2.0
"""The filters of ``GET /resource_providers``."""

from __future__ import annotations

import uuid as uuid_
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from reportclient.testing.fake_checks import is_uuid
from reportclient.testing.fake_routes import Request
from reportclient.testing.fake_state import FakeState, Provider, Refusal, UnknownClass

__all__ = ["check_query", "listed_providers"]

_SINCE = {
    "name": (1, 0),
    "uuid": (1, 0),
    "member_of": (1, 3),
    "resources": (1, 4),
    "in_tree": (1, 14),
    "required": (1, 18),
}
_INVALID = "Invalid query string parameters:"
_FORM = "Badly formed resources parameter. Expected resources query string parameter in form:"


def check_query(request: Request, allowed: Collection[str], required: str = "") -> None:
    """Refuse parameters that a route does not have."""
    keys = {key for key, _ in request.query}
    if unknown := sorted(keys - set(allowed)):
        what = ", ".join(map(repr, unknown))
        raise Refusal(400, f"{_INVALID} Additional properties are not allowed ({what})")
    if required and required not in keys:
        raise Refusal(400, f"{_INVALID} {required!r} is a required property")


def listed_providers(state: FakeState, request: Request) -> list[Provider]:
    """The providers for which every filter holds.

    Filters are looked at in the service's order: where one leaves nothing,
    unknown names in a later one do not matter.
    """
    check_query(request, {key for key, since in _SINCE.items() if request.version >= since})
    for key in ("uuid", "in_tree"):
        _check_uuid(request.last(key))
    groups, never = _aggregates(request)
    any_of, none_of = _traits(request)
    resources = _resources(request.last("resources"))

    found = list(state.providers.values())
    if name := request.last("name"):
        found = [provider for provider in found if provider.name == name]
    if uuid := request.last("uuid"):
        found = [provider for provider in found if provider.uuid == uuid]
    if tree := request.last("in_tree"):
        if tree not in state.providers:
            return []
        root = state.root_of(tree)
        found = [provider for provider in found if state.root_of(provider.uuid) == root]
    if any_of:
        _check_traits(state, [name for names in any_of for name in sorted(names)])
        if not any(_has(p.traits, any_of) for p in state.providers.values()):
            return []
        found = [p for p in found if _has(p.traits, any_of)]
    if none_of:
        _check_traits(state, sorted(none_of))
        found = [p for p in found if not p.traits & none_of]
    if groups and not any(_has(p.aggregates, groups) for p in state.providers.values()):
        return []
    found = [p for p in found if _has(p.aggregates, groups) and not p.aggregates & never]
    for name in resources:
        if name not in state.classes:
            why = UnknownClass(name).detail
            raise Refusal(400, f"Invalid resource class in resources parameter: {why}")
    return [p for p in found if _has_room(state, p, resources)]


def _check_uuid(value: str | None) -> None:
    if value is None:
        return
    try:
        good = str(uuid_.UUID(value)) == value.lower()
    except ValueError:
        good = False
    if not good:
        raise Refusal(400, f"{_INVALID} {value!r} is not a 'uuid'")


def _has(there: set[str], groups: list[set[str]]) -> bool:
    """Whether of every group there is one."""
    return all(there & group for group in groups)


# -- member_of -------------------------------------------------------------------------


def _aggregates(request: Request) -> tuple[list[set[str]], set[str]]:
    """Sets of which one each has to be there, and those that must not be."""
    values = [value for key, value in request.query if key == "member_of"]
    if len(values) > 1 and not request.at_least(1, 24):
        raise Refusal(400, "Multiple member_of parameters are not supported")
    groups, never = [], set[str]()
    for value in values:
        wanted, forbidden = _one_member_of(value)
        if not forbidden:
            groups.append(wanted)
            continue
        if not request.at_least(1, 32):
            raise Refusal(
                400,
                "Forbidden member_of parameters are not supported in the specified microversion",
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
                f"{_INVALID} Expected 'member_of' parameter to contain valid UUID(s). Got: {one}",
            )
    return values, forbidden


# -- required --------------------------------------------------------------------------


def _traits(request: Request) -> tuple[list[set[str]], set[str]]:
    """Sets of which one each has to be there, and those that must not be."""
    values = [value for key, value in request.query if key == "required"]
    if not request.at_least(1, 39):
        values = values[-1:]
    any_of, none_of = [], set[str]()
    for value in values:
        if value.startswith("in:"):
            any_of.append(_any_of(request, value))
        else:
            required, forbidden = _all_of(request, value)
            any_of += required
            none_of |= forbidden
    return any_of, none_of


def _any_of(request: Request, value: str) -> set[str]:
    form = "in:HW_CPU_X86_VMX,CUSTOM_MAGIC"
    if not request.at_least(1, 39):
        raise Refusal(
            400,
            f"{_INVALID} The format '{form}' only supported since microversion 1.39. Got: {value}",
        )
    names = {name.strip() for name in value[3:].split(",")}
    if "" in names:
        raise _empty_trait(form, value)
    if any(name.startswith("!") for name in names):
        raise Refusal(
            400,
            f"{_INVALID} The format '{form}' does not support forbidden traits. Got: {value}",
        )
    return names


def _all_of(request: Request, value: str) -> tuple[list[set[str]], set[str]]:
    may_forbid = request.at_least(1, 22)
    names = [name.strip() for name in value.split(",")]
    forbidden = {name.lstrip("!") for name in names if name.startswith("!")}
    if not all([*names, *forbidden]):
        form = "HW_CPU_X86_VMX,!CUSTOM_MAGIC" if may_forbid else "HW_CPU_X86_VMX,CUSTOM_MAGIC"
        raise _empty_trait(form, value)
    if forbidden and not may_forbid:
        raise Refusal(
            400,
            f"{_INVALID} Expected 'required' parameter value of the form: "
            f"HW_CPU_X86_VMX,CUSTOM_MAGIC. Got: {value}",
        )
    return [{name} for name in names if not name.startswith("!")], forbidden


def _empty_trait(form: str, value: str) -> Refusal:
    return Refusal(
        400,
        f"{_INVALID} Expected 'required' parameter value of the form: {form}. "
        f"Got an empty trait in: {value}",
    )


def _check_traits(state: FakeState, names: Iterable[str]) -> None:
    for name in names:
        if name not in state.traits:
            why = f"No such trait(s): {name}."
            raise Refusal(400, f'Invalid trait(s) in "required" parameter: {why}')


# -- resources -------------------------------------------------------------------------


def _resources(value: str | None) -> dict[str, int]:
    if value is None:
        return {}
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


def _has_room(state: FakeState, provider: Provider, resources: Mapping[str, int]) -> bool:
    used = state.usages(provider.uuid)
    return all(
        name in provider.inventories and _fits(provider.inventories[name], used[name], amount)
        for name, amount in resources.items()
    )


def _fits(record: Mapping[str, Any], used: int, amount: int) -> bool:
    free = (record["total"] - record["reserved"]) * record["allocation_ratio"]
    fits = record["min_unit"] <= amount <= record["max_unit"] and not amount % record["step_size"]
    return bool(fits) and used + amount <= free
