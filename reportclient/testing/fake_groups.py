# SPDX-License-Identifier: Apache-2.0
"""The query string of ``GET /allocation_candidates``: its groups, and its faults."""

from __future__ import annotations

import re
from collections.abc import Collection

from reportclient.testing.fake_candidates import Group, Query
from reportclient.testing.fake_checks import is_uuid
from reportclient.testing.fake_filters import (
    INVALID,
    aggregates_of,
    resources_of,
    traits_of,
    traits_of_value,
)
from reportclient.testing.fake_queries import check_query
from reportclient.testing.fake_routes import Request
from reportclient.testing.fake_state import Refusal

__all__ = ["parsed"]

_SINCE = {
    "limit": (1, 16),
    "group_policy": (1, 25),
    "root_required": (1, 35),
    "same_subtree": (1, 36),
}
#: Those that a suffix may follow.
_IN_GROUPS = {
    "resources": (1, 10),
    "required": (1, 17),
    "member_of": (1, 21),
    "in_tree": (1, 31),
}
_BAD = "placement.query.bad_value"


def parsed(request: Request) -> Query:
    """What a query asks for.

    :raises Refusal: 400.
    """
    pattern = _group_pattern(request)
    allowed = {name for name, since in _SINCE.items() if request.version >= since}
    allowed |= {name for name, _ in request.query if pattern.search(name)}
    check_query(request, allowed, "" if request.at_least(1, 25) else "resources")
    _check_values(request)
    limit, policy = _all(request, "limit"), _all(request, "group_policy")
    query = Query(
        request.version,
        {},
        # Of several, the service checks the last one and takes the first.
        isolate=policy[:1] == ["isolate"],
        limit=int(limit[0]) if limit else 0,
    )
    query.root_required, query.root_forbidden = _root_required(request)
    query.same_subtrees = [_suffixes(value) for value in _all(request, "same_subtree")]
    for key, value in request.query:
        if matched := pattern.search(key):
            suffix = matched["suffix"] or ""
            group = query.groups.setdefault(suffix, Group(suffix))
            _read(group, request, matched["name"], value)
    _check_groups(request, query)
    if not policy and sum(bool(suffix) for suffix in query.groups) > 1:
        raise Refusal(
            400,
            'The "group_policy" parameter is required when specifying more than one '
            '"resources{N}" parameter.',
        )
    return query


def _all(request: Request, key: str) -> list[str]:
    return [value for name, value in request.query if name == key]


def _group_pattern(request: Request) -> re.Pattern[str]:
    names = [name for name, since in _IN_GROUPS.items() if request.version >= since]
    suffix = ""
    if request.at_least(1, 33):
        suffix = "[a-zA-Z0-9_-]{1,64}"
    elif request.at_least(1, 25):
        suffix = "[1-9][0-9]*"
    return re.compile(f"^(?P<name>{'|'.join(names)})(?P<suffix>{suffix})?$")


def _check_values(request: Request) -> None:
    limit, policy = _all(request, "limit"), _all(request, "group_policy")
    for value in limit[:1] + limit[-1:]:
        if not re.search("^[1-9][0-9]*$", value):
            raise Refusal(400, f"{INVALID} {value!r} does not match '^[1-9][0-9]*$'")
    if policy and policy[-1] not in ("none", "isolate"):
        raise Refusal(400, f"{INVALID} {policy[-1]!r} is not one of ['none', 'isolate']")


def _root_required(request: Request) -> tuple[set[str], set[str]]:
    values = _all(request, "root_required")
    if not values:
        return set(), set()
    if len(values) > 1:
        raise Refusal(
            400,
            "Query parameter 'root_required' may be specified only once.",
            "placement.query.duplicate_key",
        )
    groups, forbidden = traits_of_value(values[0], may_forbid=True, may_choose=False)
    required = set().union(*groups)
    if both := required & forbidden:
        what = "Conflicting required and forbidden traits found in root_required"
        raise Refusal(400, f"{what}: {', '.join(sorted(both))}", _BAD)
    return required, forbidden


def _suffixes(value: str) -> set[str]:
    suffixes = {suffix.strip() for suffix in value.split(",")}
    if "" in suffixes:
        raise Refusal(
            400,
            "Empty string (unsuffixed group) can not be specified in `same_subtree` ",
            _BAD,
        )
    return suffixes


def _read(group: Group, request: Request, name: str, value: str) -> None:
    """Put one parameter into its group."""
    if name == "resources":
        group.resources = resources_of(value)
    elif name == "required":
        group.required, group.forbidden = traits_of(request, group.suffix)
    elif name == "member_of":
        group.member_of, group.not_member_of = aggregates_of(request, group.suffix)
    else:
        group.in_tree = value.strip()
        if not is_uuid(group.in_tree):
            what = "Expected 'in_tree' parameter to be a format of uuid."
            raise Refusal(400, f"{INVALID} {what} Got: {value}")


# -- groups ----------------------------------------------------------------------------


def _check_groups(request: Request, query: Query) -> None:
    groups = query.groups
    if request.at_least(1, 36):
        _check_subtrees(query)
    else:
        _check_orphans(groups.values())
    if not request.at_least(1, 22):
        return
    conflicts = [
        f"required{suffix}: ({', '.join(sorted(names))})"
        for suffix, group in groups.items()
        for names in group.required
        if names <= group.forbidden
    ]
    if conflicts:
        raise Refusal(
            400,
            "Conflicting required and forbidden traits found in the following traits keys: "
            + ", ".join(sorted(conflicts)),
        )


def _check_orphans(groups: Collection[Group]) -> None:
    """Every group needs resources."""
    if not groups:
        raise Refusal(
            400,
            "At least one request group (`resources` or `resources{$S}`) is required.",
        )
    without = [group for group in groups if not group.resources]
    if orphans := [f"required{group.suffix}" for group in without if group.required]:
        raise Refusal(
            400,
            "All traits parameters must be associated with resources.  "
            f"Found the following orphaned traits keys: {', '.join(orphans)}",
        )
    if orphans := [
        f"member_of{group.suffix}" for group in without if group.member_of or group.not_member_of
    ]:
        raise Refusal(
            400,
            "All member_of parameters must be associated with resources. "
            f"Found the following orphaned member_of keys: {', '.join(orphans)}",
        )
    if without:
        raise Refusal(400, "All request groups must specify resources.")


def _check_subtrees(query: Query) -> None:
    """A group without resources has to be in a subtree, and what is in one has to be there."""
    without = [suffix for suffix, group in query.groups.items() if not group.resources]
    if len(without) == len(query.groups):
        raise Refusal(
            400,
            "There must be at least one resources or resources[$S] parameter.",
            "placement.query.missing_value",
        )
    named = set().union(*query.same_subtrees)
    if stray := [suffix for suffix in without if suffix not in named]:
        raise Refusal(
            400,
            "Resourceless suffixed group request should be specified in `same_subtree` query "
            f"param: bad group(s) - {stray}.",
            _BAD,
        )
    if unknown := sorted(named - query.groups.keys()):
        raise Refusal(
            400,
            f"Real suffixes should be specified in `same_subtree`: {unknown} not found in "
            f"{list(query.groups)}.",
            _BAD,
        )
