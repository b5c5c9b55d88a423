# SPDX-License-Identifier: Apache-2.0
"""The filters of ``GET /resource_providers``."""

from __future__ import annotations

import uuid as uuid_
from collections.abc import Collection, Mapping

from reportclient.testing.fake_filters import (
    INVALID,
    aggregates_of,
    check_traits,
    fits,
    has_one_of_each,
    resources_of,
    traits_of,
)
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
_UNKNOWN_TRAIT = 'Invalid trait(s) in "required" parameter: '


def check_query(request: Request, allowed: Collection[str], required: str = "") -> None:
    """Refuse parameters that a route does not have."""
    keys = {key for key, _ in request.query}
    if unknown := sorted(keys - set(allowed)):
        what = ", ".join(map(repr, unknown))
        raise Refusal(400, f"{INVALID} Additional properties are not allowed ({what})")
    if required and required not in keys:
        raise Refusal(400, f"{INVALID} {required!r} is a required property")


def listed_providers(state: FakeState, request: Request) -> list[Provider]:
    """The providers for which every filter holds.

    Filters are looked at in the service's order: where one leaves nothing,
    unknown names in a later one do not matter.
    """
    check_query(request, {key for key, since in _SINCE.items() if request.version >= since})
    for key in ("uuid", "in_tree"):
        _check_uuid(request.last(key))
    groups, never = aggregates_of(request)
    any_of, none_of = traits_of(request)
    asked = request.last("resources")
    resources = {} if asked is None else resources_of(asked)

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
        names = [name for each in any_of for name in sorted(each)]
        check_traits(state, names, _UNKNOWN_TRAIT)
        if not any(has_one_of_each(p.traits, any_of) for p in state.providers.values()):
            return []
        found = [p for p in found if has_one_of_each(p.traits, any_of)]
    if none_of:
        check_traits(state, sorted(none_of), _UNKNOWN_TRAIT)
        found = [p for p in found if not p.traits & none_of]
    if groups and not any(has_one_of_each(p.aggregates, groups) for p in state.providers.values()):
        return []
    found = [
        p for p in found if has_one_of_each(p.aggregates, groups) and not p.aggregates & never
    ]
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
        raise Refusal(400, f"{INVALID} {value!r} is not a 'uuid'")


def _has_room(state: FakeState, provider: Provider, resources: Mapping[str, int]) -> bool:
    used = state.usages(provider.uuid)
    return all(
        name in provider.inventories and fits(provider.inventories[name], used[name], amount)
        for name, amount in resources.items()
    )
