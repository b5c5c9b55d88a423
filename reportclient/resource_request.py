# SPDX-License-Identifier: Apache-2.0
"""What room is asked for: the query of ``GET /allocation_candidates`` as values.

Pure: nothing is sent. The parameters, their forms and the microversions that
brought them are those of Placement's API reference and version history.
"""

from __future__ import annotations

import contextlib
import dataclasses
import operator
import re
import reprlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol
from urllib.parse import parse_qsl, quote, urlencode

from reportclient import exceptions, validation

__all__ = ["HasQuerystring", "RequestGroup", "ResourceRequest", "asked_for", "needed_by"]

_Version = tuple[int, int]
_Pairs = list[tuple[str, str]]

_SUFFIX = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_NUMBER = re.compile(r"[1-9][0-9]*")
_OF_A_GROUP = re.compile(r"(resources|required|member_of|in_tree)(.*)", re.S)
_POLICIES = ("none", "isolate")

#: The microversions that brought the parameters.
_SINCE: Mapping[str, _Version] = {
    "resources": (1, 10),
    "limit": (1, 16),
    "required": (1, 17),
    "member_of": (1, 21),
    "group_policy": (1, 25),
    "in_tree": (1, 31),
    "root_required": (1, 35),
    "same_subtree": (1, 36),
}
_FORBIDDEN_TRAITS: _Version = (1, 22)
_REPEATED_MEMBER_OF: _Version = (1, 24)
_NUMBERED: _Version = (1, 25)
_FORBIDDEN_AGGREGATES: _Version = (1, 32)
_NAMED: _Version = (1, 33)
_ANY_OF: _Version = (1, 39)


class HasQuerystring(Protocol):
    """Anything that can say what it asks for: nova's ``ResourceRequest``, for one."""

    def to_querystring(self) -> str: ...


@dataclasses.dataclass(frozen=True, init=False)
class RequestGroup:
    """What has to be had together. Immutable; equal if the same is asked for.

    Without a suffix: from any providers of one tree, and those that share
    with it. With a suffix (1.25; "granular"): all of it from one provider.

    :ivar amounts: pairs of resource class and amount, sorted.
    :ivar suffix: empty, or the group's name in the query and in ``mappings``.
    :ivar required: traits that have to be there (1.17).
    :ivar forbidden: traits that must not be there (1.22).
    :ivar any_of: sets of traits; one of each has to be there (1.39).
    :ivar member_of: sets of aggregates; a provider has to be in one of each
        (1.21; more than one set: 1.24).
    :ivar forbidden_aggregates: no provider may be in any of them (1.32).
    :ivar in_tree: only from the tree of this provider (1.31), or ``None``.
    """

    amounts: tuple[tuple[str, int], ...]
    suffix: str
    required: frozenset[str]
    forbidden: frozenset[str]
    any_of: frozenset[frozenset[str]]
    member_of: frozenset[frozenset[str]]
    forbidden_aggregates: frozenset[str]
    in_tree: str | None

    def __init__(
        self,
        resources: Mapping[str, int] | None = None,
        *,
        suffix: str | int = "",
        required: Iterable[str] = (),
        forbidden: Iterable[str] = (),
        any_of: Iterable[Iterable[str]] = (),
        member_of: Iterable[Iterable[str]] = (),
        forbidden_aggregates: Iterable[str] = (),
        in_tree: str | None = None,
    ) -> None:
        """Check and keep what is asked for.

        :param resources: resource class -> amount, from 1. None only in a
            group with a suffix that a ``same_subtree`` names.
        :param suffix: a number from 1 (1.25), or up to 64 of a-z, A-Z, 0-9,
            ``_`` and ``-`` (1.33).
        :raises InvalidResourceClass, InvalidTrait, InvalidAggregate,
            InvalidUUID: a name or UUID is none.
        :raises InvalidResourceRequest: an amount or a suffix is wrong, or what
            is required is forbidden as well. ``field`` of every error is the
            query's parameter, with the suffix: ``resources_NET``.
        """
        name = _suffix(suffix)
        of = _Checker(name)
        self._keep("suffix", name)
        self._keep("amounts", of.amounts(resources))
        wanted, sets = of.traits("required", required), of.sets("required", any_of, of.trait)
        # One of one trait is that trait, and needs no 1.39.
        wanted |= {trait for each in sets if len(each) == 1 for trait in each}
        self._keep("required", wanted)
        self._keep("any_of", frozenset(each for each in sets if len(each) > 1))
        self._keep("forbidden", of.traits("required", forbidden))
        self._keep("member_of", of.sets("member_of", member_of, _aggregate))
        self._keep("forbidden_aggregates", of.aggregates("member_of", forbidden_aggregates))
        self._keep("in_tree", of.uuid("in_tree", in_tree))
        of.satisfiable("required", {frozenset({trait}) for trait in wanted} | sets, self.forbidden)

    def _keep(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    @property
    def resources(self) -> dict[str, int]:
        """Resource class -> amount."""
        return dict(self.amounts)

    @property
    def needed(self) -> tuple[int, int]:
        """The lowest microversion that has all that the group uses."""
        return needed_by(self.to_pairs())

    def to_pairs(self) -> list[tuple[str, str]]:
        """The group's parameters and their values, not yet encoded, always in one order."""
        pairs: _Pairs = []
        if self.amounts:
            pairs.append(("resources", ",".join(f"{name}:{n}" for name, n in self.amounts)))
        if traits := _traits_value(self.required, self.forbidden):
            pairs.append(("required", traits))
        pairs += [("required", _one_of(each)) for each in _in_order(self.any_of)]
        pairs += [("member_of", _one_of(each)) for each in _in_order(self.member_of)]
        if self.forbidden_aggregates:
            pairs.append(("member_of", "!" + _one_of(sorted(self.forbidden_aggregates))))
        if self.in_tree is not None:
            pairs.append(("in_tree", self.in_tree))
        return [(name + self.suffix, value) for name, value in pairs]


@dataclasses.dataclass(frozen=True, init=False)
class ResourceRequest:
    """A whole request for resources. Immutable; equal if the same is asked for.

    :ivar groups: sorted by suffix.
    :ivar limit: at most so many candidates (1.16); ``None``: all.
    :ivar group_policy: whether groups with a suffix may (``"none"``) or may
        not (``"isolate"``) be served by one provider (1.25), or ``None``.
    :ivar same_subtree: sets of suffixes: of the providers that serve these
        groups, one has to be above, or be, all others (1.36).
    :ivar root_required: traits that the root of the tree has to have (1.35).
    :ivar root_forbidden: traits that it must not have (1.35).
    """

    groups: tuple[RequestGroup, ...]
    limit: int | None
    group_policy: str | None
    same_subtree: frozenset[frozenset[str]]
    root_required: frozenset[str]
    root_forbidden: frozenset[str]

    def __init__(
        self,
        groups: Iterable[RequestGroup],
        *,
        limit: int | None = None,
        group_policy: str | None = None,
        same_subtree: Iterable[Iterable[str | int]] = (),
        root_required: Iterable[str] = (),
        root_forbidden: Iterable[str] = (),
    ) -> None:
        """Check and keep what is asked for.

        :param groups: at most one without a suffix.
        :param group_policy: has to be given if more than one group has a suffix.
        :raises InvalidTrait: a trait is none.
        :raises InvalidResourceRequest: two groups have one suffix, a suffix is
            not known, a group has no resources and no subtree, the policy is
            missing, the root's traits contradict each other, or a value is
            wrong; ``field`` says where.
        """
        of = _Checker("")
        self._keep("groups", _sorted_groups(groups))
        self._keep("limit", None if limit is None else of.number("limit", limit))
        self._keep("group_policy", group_policy)
        self._keep("same_subtree", of.sets("same_subtree", same_subtree, _named_suffix))
        self._keep("root_required", of.traits("root_required", root_required))
        self._keep("root_forbidden", of.traits("root_required", root_forbidden))
        roots = {frozenset({trait}) for trait in self.root_required}
        of.satisfiable("root_required", roots, self.root_forbidden)
        self._check_groups()
        self._check_policy()

    @classmethod
    def of(
        cls,
        resources: Mapping[str, int],
        *,
        required: Iterable[str] = (),
        forbidden: Iterable[str] = (),
        any_of: Iterable[Iterable[str]] = (),
        member_of: Iterable[Iterable[str]] = (),
        forbidden_aggregates: Iterable[str] = (),
        in_tree: str | None = None,
        limit: int | None = None,
        root_required: Iterable[str] = (),
        root_forbidden: Iterable[str] = (),
    ) -> ResourceRequest:
        """A request with one group, which has no suffix.

        :raises InvalidInput: as `RequestGroup` and `ResourceRequest`.
        """
        group = RequestGroup(
            resources,
            required=required,
            forbidden=forbidden,
            any_of=any_of,
            member_of=member_of,
            forbidden_aggregates=forbidden_aggregates,
            in_tree=in_tree,
        )
        return cls(
            [group], limit=limit, root_required=root_required, root_forbidden=root_forbidden
        )

    def _keep(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def _check_groups(self) -> None:
        suffixes = {group.suffix for group in self.groups if group.suffix}
        named = frozenset().union(*self.same_subtree)
        if stray := sorted(named - suffixes):
            raise _refused("same_subtree", stray, f"there are no groups {', '.join(stray)}")
        for group in self.groups:
            if group.amounts:
                continue
            field = f"resources{group.suffix}"
            if group.suffix not in named:
                raise _refused(
                    field, {}, "only a group that a same_subtree names may be without resources"
                )
            if not group.to_pairs():
                raise _refused(field, {}, "the group asks for nothing at all")
        if not any(group.amounts for group in self.groups):
            raise _refused("resources", {}, "no group asks for resources")

    def _check_policy(self) -> None:
        several = sum(bool(group.suffix) for group in self.groups) > 1
        if self.group_policy is None and several:
            raise _refused(
                "group_policy",
                None,
                'more than one group has a suffix: say "none" (one provider may serve several '
                'of them) or "isolate"',
            )
        if self.group_policy is not None and self.group_policy not in _POLICIES:
            value = self.group_policy
            raise _refused(
                "group_policy", value, f'{reprlib.repr(value)} is not "none" or "isolate"'
            )

    @property
    def needed(self) -> tuple[int, int]:
        """The lowest microversion that has all that is asked for: ``(1, 36)``."""
        return needed_by(self.to_pairs())

    def to_pairs(self) -> list[tuple[str, str]]:
        """All parameters and their values, not yet encoded, always in one order."""
        pairs = [pair for group in self.groups for pair in group.to_pairs()]
        if self.group_policy is not None:
            pairs.append(("group_policy", self.group_policy))
        if self.limit is not None:
            pairs.append(("limit", str(self.limit)))
        if roots := _traits_value(self.root_required, self.root_forbidden):
            pairs.append(("root_required", roots))
        pairs += [("same_subtree", ",".join(each)) for each in _in_order(self.same_subtree)]
        return pairs

    def to_querystring(self) -> str:
        """The query, percent-encoded, without a question mark. Equal requests have equal ones."""
        return _encoded(self.to_pairs())


# -- any query ---------------------------------------------------------------------


def asked_for(resources: Mapping[str, int] | HasQuerystring) -> tuple[str, tuple[int, int]]:
    """A query that is safe to send, and the microversion that it needs.

    :param resources: a `ResourceRequest`, a mapping of resource class to
        amount, or any object with a ``to_querystring()``.
    :raises InvalidInput: it is none of these, or asks for nothing.
    """
    if isinstance(resources, Mapping):
        resources = ResourceRequest.of(resources)
    to_querystring = getattr(resources, "to_querystring", None)
    text = to_querystring() if callable(to_querystring) else None
    pairs = []
    if isinstance(text, str):
        pairs = parse_qsl(text.removeprefix("?"), keep_blank_values=True)
    if not pairs:
        raise _refused(
            "resources",
            resources,
            f"{reprlib.repr(resources)} is no ResourceRequest, no mapping of resource classes to "
            "amounts, and has no to_querystring() that gives a query",
        )
    # Encoded anew: others may be less careful with what they put in.
    return _encoded(pairs), needed_by(pairs)


def needed_by(pairs: Iterable[tuple[str, str]]) -> tuple[int, int]:
    """The lowest microversion at which a query has the meaning that it has at 1.39.

    Parameters that are not known do not count: Placement will say so.
    """
    pairs = list(pairs)
    counts = Counter(name for name, _ in pairs)
    return max((_needed(name, value, counts[name] > 1) for name, value in pairs), default=(1, 10))


def _needed(name: str, value: str, repeated: bool) -> _Version:
    found = _OF_A_GROUP.fullmatch(name)
    if not found:
        return _SINCE.get(name, (1, 10))
    kind, suffix = found.groups()
    since = [_SINCE[kind]]
    if suffix:
        since.append(_NUMBERED if _NUMBER.fullmatch(suffix) else _NAMED)
    if kind == "required":
        if "!" in value:
            since.append(_FORBIDDEN_TRAITS)
        # Below, all but the last of several would be dropped in silence.
        if repeated or value.startswith("in:"):
            since.append(_ANY_OF)
    if kind == "member_of":
        if value.startswith("!"):
            since.append(_FORBIDDEN_AGGREGATES)
        if repeated:
            since.append(_REPEATED_MEMBER_OF)
    return max(since)


def _encoded(pairs: _Pairs) -> str:
    # As spaces "%20" survives every proxy, "+" does not.
    return urlencode(pairs, quote_via=quote, safe=":,")


# -- values ------------------------------------------------------------------------


def _traits_value(required: Iterable[str], forbidden: Iterable[str]) -> str:
    return ",".join([*sorted(required), *(f"!{trait}" for trait in sorted(forbidden))])


def _one_of(names: list[str]) -> str:
    return names[0] if len(names) == 1 else "in:" + ",".join(names)


def _in_order(sets: Iterable[frozenset[str]]) -> list[list[str]]:
    return sorted(sorted(each) for each in sets)


# -- checks ------------------------------------------------------------------------


def _refused(
    field: str, value: object, why: str, resource_class: str | None = None
) -> exceptions.InvalidResourceRequest:
    return exceptions.InvalidResourceRequest(
        f"{field}: {why}.", resource_class=resource_class, field=field, value=value
    )


def _suffix(value: Any) -> str:
    numbered = isinstance(value, int) and not isinstance(value, bool) and value > 0
    text = str(value) if numbered else value
    if isinstance(text, str) and (text == "" or _SUFFIX.fullmatch(text)):
        return text
    raise _refused(
        "suffix", value, f"{reprlib.repr(value)} is not up to 64 of a-z, A-Z, 0-9, _ and -"
    )


def _named_suffix(value: Any) -> str:
    suffix = _suffix(value)
    if not suffix:
        raise _refused("suffix", value, "the group without a suffix cannot be named")
    return suffix


def _aggregate(value: Any) -> str:
    [aggregate] = validation.normalise_aggregates([value])
    return aggregate


def _sorted_groups(groups: Any) -> tuple[RequestGroup, ...]:
    kept = _Checker("").items("groups", groups)
    for group in kept:
        if not isinstance(group, RequestGroup):
            raise _refused("groups", group, f"{reprlib.repr(group)} is no RequestGroup")
    for suffix, count in Counter(group.suffix for group in kept).items():
        if count > 1:
            raise _refused("suffix", suffix, f"{count} groups have the suffix {suffix!r}")
    return tuple(sorted(kept, key=lambda group: group.suffix))


class _Checker:
    """Checks the values of one group; its errors name parameter and suffix."""

    trait = staticmethod(validation.check_trait)

    def __init__(self, suffix: str) -> None:
        self._suffix = suffix

    @contextlib.contextmanager
    def _field(self, name: str) -> Iterator[str]:
        field = name + self._suffix
        try:
            yield field
        except exceptions.InvalidInput as error:
            raise type(error)(
                f"{field}: {error}",
                resource_class=error.resource_class,
                field=field,
                value=error.value,
            ) from None

    def amounts(self, given: Any) -> tuple[tuple[str, int], ...]:
        """Resource classes and amounts."""
        if given is not None and not isinstance(given, Mapping):
            raise _refused(
                f"resources{self._suffix}",
                given,
                f"{reprlib.repr(given)} is not a mapping of resource classes to amounts",
            )
        kept = {}
        for name, amount in (given or {}).items():
            with self._field("resources"):
                symbol = validation.check_resource_class(name)
            kept[symbol] = self.number("resources", amount, symbol)
        return tuple(sorted(kept.items()))

    def number(self, name: str, value: Any, resource_class: str | None = None) -> int:
        """A whole number from 1."""
        with contextlib.suppress(TypeError):
            number = operator.index(value)
            if not isinstance(value, bool) and 1 <= number <= validation.MAX_INT:
                return number
        what = f"{resource_class}: " if resource_class else ""
        why = f"{what}{reprlib.repr(value)} is not a whole number from 1 to {validation.MAX_INT}"
        raise _refused(name + self._suffix, value, why, resource_class)

    def traits(self, name: str, given: Any) -> frozenset[str]:
        """Names of traits."""
        return self._each(name, given, validation.check_trait)

    def aggregates(self, name: str, given: Any) -> frozenset[str]:
        """UUIDs of aggregates."""
        return self._each(name, given, _aggregate)

    def uuid(self, name: str, given: Any) -> str | None:
        """A provider's UUID, if there is one."""
        if given is None:
            return None
        with self._field(name):
            return validation.normalise_uuid(given)

    def sets(self, name: str, given: Any, check: Any) -> frozenset[frozenset[str]]:
        """Sets of names; an empty one could never be satisfied."""
        sets = frozenset(self._each(name, each, check) for each in self.items(name, given))
        if frozenset() in sets:
            raise _refused(name + self._suffix, given, "one of the sets is empty")
        return sets

    def satisfiable(
        self, name: str, sets: Iterable[frozenset[str]], forbidden: frozenset[str]
    ) -> None:
        """Not all traits of a set may be forbidden."""
        clash = sorted(trait for each in sets if each <= forbidden for trait in each)
        if clash:
            why = f"both required and forbidden: {', '.join(clash)}"
            raise _refused(name + self._suffix, clash, why)

    def _each(self, name: str, given: Any, check: Any) -> frozenset[str]:
        items = self.items(name, given)
        with self._field(name):
            return frozenset(check(value) for value in items)

    def items(self, name: str, given: Any) -> tuple[Any, ...]:
        """The items of a collection; a text is none."""
        if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
            raise _refused(
                name + self._suffix, given, f"{reprlib.repr(given)} is not a collection"
            )
        return tuple(given)
