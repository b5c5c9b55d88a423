# SPDX-License-Identifier: Apache-2.0
"""The filters of ``GET /resource_providers``."""

from __future__ import annotations

import uuid as uuid_

from reportclient.testing.fake_state import FakeState, Provider, Refusal

__all__ = ["listed_providers"]

_SINCE = {
    "name": (1, 0),
    "uuid": (1, 0),
    "member_of": (1, 3),
    "resources": (1, 4),
    "in_tree": (1, 14),
    "required": (1, 18),
}
#: From when on these may be given more than once.
_REPEATABLE = {"member_of": (1, 24), "required": (1, 39)}


def listed_providers(
    state: FakeState, query: list[tuple[str, str]], version: tuple[int, int]
) -> list[str]:
    """The UUIDs of the providers for which every filter holds."""
    found = list(state.providers.values())
    seen = set()
    for key, value in query:
        if key not in _SINCE or version < _SINCE[key]:
            raise Refusal(400, f"Invalid query string parameters: {key!r} was unexpected")
        if key in seen and version < _REPEATABLE.get(key, (1, 0)):
            raise Refusal(400, f"Invalid query string parameters: {key!r} is given twice")
        seen.add(key)
        found = _FILTERS[key](state, found, value, version)
    return [provider.uuid for provider in found]


def _uuid(value: str) -> str:
    try:
        uuid_.UUID(value)
    except ValueError:
        raise Refusal(400, f"Invalid query string parameters: {value!r} is not a 'uuid'") from None
    return value


def _by_name(
    state: FakeState, found: list[Provider], value: str, version: tuple[int, int]
) -> list[Provider]:
    return [provider for provider in found if provider.name == value]


def _by_uuid(
    state: FakeState, found: list[Provider], value: str, version: tuple[int, int]
) -> list[Provider]:
    return [provider for provider in found if provider.uuid == _uuid(value)]


def _in_tree(
    state: FakeState, found: list[Provider], value: str, version: tuple[int, int]
) -> list[Provider]:
    if _uuid(value) not in state.providers:
        return []
    root = state.root_of(value)
    return [provider for provider in found if state.root_of(provider.uuid) == root]


def _member_of(
    state: FakeState, found: list[Provider], value: str, version: tuple[int, int]
) -> list[Provider]:
    forbidden = value.startswith("!")
    if forbidden and version < (1, 32):
        raise Refusal(400, "Forbidden member_of parameters are not supported")
    wanted = value.removeprefix("!")
    values = wanted[3:].split(",") if wanted.startswith("in:") else [wanted]
    for one in values:
        try:
            uuid_.UUID(one)
        except ValueError:
            raise Refusal(400, f"Expected 'member_of' values to be UUIDs: {one!r}") from None
    return [p for p in found if bool(p.aggregates & set(values)) != forbidden]


def _required(
    state: FakeState, found: list[Provider], value: str, version: tuple[int, int]
) -> list[Provider]:
    if value.startswith("in:"):
        if version < (1, 39):
            raise Refusal(400, "Invalid query string parameters: in: needs 1.39")
        groups = [(False, set(value[3:].split(",")))]
    else:
        groups = [(one.startswith("!"), {one.removeprefix("!")}) for one in value.split(",")]
    if any(forbidden for forbidden, _ in groups) and version < (1, 22):
        raise Refusal(400, "Invalid query string parameters: forbidden traits need 1.22")
    missing = set().union(*(names for _, names in groups)) - state.traits
    if "" in missing:
        raise Refusal(400, "Invalid query string parameters: an empty trait")
    if missing:
        raise Refusal(400, f"No such trait(s): {', '.join(sorted(missing))}.")
    for forbidden, names in groups:
        found = [p for p in found if bool(p.traits & names) != forbidden]
    return found


def _resources(
    state: FakeState, found: list[Provider], value: str, version: tuple[int, int]
) -> list[Provider]:
    for part in value.split(","):
        name, _, amount = part.partition(":")
        if not amount.isdigit() or not int(amount):
            raise Refusal(400, f"Badly formed resources parameter: {part!r}")
        if name not in state.classes:
            raise Refusal(400, f"Invalid resource class in resources parameter: {name}")
        found = [p for p in found if _has_room(state, p, name, int(amount))]
    return found


def _has_room(state: FakeState, provider: Provider, name: str, amount: int) -> bool:
    record = provider.inventories.get(name)
    if record is None:
        return False
    free = (record["total"] - record["reserved"]) * record["allocation_ratio"]
    fits = record["min_unit"] <= amount <= record["max_unit"] and not amount % record["step_size"]
    return bool(fits) and state.usages(provider.uuid).get(name, 0) + amount <= free


_FILTERS = {
    "name": _by_name,
    "uuid": _by_uuid,
    "in_tree": _in_tree,
    "member_of": _member_of,
    "required": _required,
    "resources": _resources,
}
