# SPDX-License-Identifier: Apache-2.0
"""The search of ``GET /allocation_candidates``: what could be allocated, and from where.

Every group of a query is answered on its own, once for each *anchor*: the root
of a tree that the providers belong to, or that they share their inventory
with. Then one answer of every group is taken together with those of the others
that have the same anchor.

The order is always the same. Three faults of the service are not repeated: it
loses all but one of the anchors that a sharing provider has, if sharing
providers alone serve the group without a suffix; it sums the amounts of two
groups over and over if they ask for the same class and the policy is not
``none``; and it answers 500 if a sharing provider that is not a root serves
others, while its own tree cannot serve the group.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from reportclient.testing.fake_filters import check_traits, fits, has_one_of_each
from reportclient.testing.fake_state import FakeState, Provider, Refusal, UnknownClass

__all__ = ["Group", "Query", "allocation_candidates"]

_SHARES = "MISC_SHARES_VIA_AGGREGATE"

#: (provider, class) -> amount
_Amounts = Mapping[tuple[str, str], int]


@dataclasses.dataclass
class Group:
    """What one group of a query asks for.

    :ivar suffix: empty: several providers may give it together; otherwise one
        provider alone has to give all of it.
    :ivar required: sets of traits of which one each has to be there.
    :ivar member_of: sets of aggregates of which one each has to be there.
    """

    suffix: str
    resources: dict[str, int] = dataclasses.field(default_factory=dict)
    required: list[set[str]] = dataclasses.field(default_factory=list)
    forbidden: set[str] = dataclasses.field(default_factory=set)
    member_of: list[set[str]] = dataclasses.field(default_factory=list)
    not_member_of: set[str] = dataclasses.field(default_factory=set)
    in_tree: str | None = None


@dataclasses.dataclass
class Query:
    """A whole query.

    :ivar groups: by suffix.
    :ivar isolate: no provider may serve two groups that have a suffix.
    :ivar limit: how many answers at most; 0: all.
    :ivar same_subtrees: suffixes of which the providers have to be below one
        of them.
    """

    version: tuple[int, int]
    groups: dict[str, Group]
    isolate: bool = False
    limit: int = 0
    root_required: set[str] = dataclasses.field(default_factory=set)
    root_forbidden: set[str] = dataclasses.field(default_factory=set)
    same_subtrees: list[set[str]] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class _Part:
    """How one group, or several together, can be served.

    :ivar providers: suffix -> who serves that group.
    """

    amounts: _Amounts
    providers: Mapping[str, frozenset[str]]

    @property
    def key(self) -> object:
        return frozenset(self.amounts.items()), frozenset(self.providers.items())


#: anchor -> how a group can be served there
_Parts = Mapping[str, Sequence[_Part]]


def allocation_candidates(state: FakeState, query: Query) -> dict[str, Any]:
    """The body of the answer.

    :raises Refusal: 400, a class or a trait is not there.
    """
    cloud = _Cloud(state)
    found = _search(cloud, query)
    if query.version < (1, 29):
        # A client that knows of no trees: one provider of each.
        found = [part for part in found if _is_flat(cloud, part)]
    shown = cloud.shown(query, found)
    if query.limit and query.limit < len(found):
        found = found[: query.limit]
        kept = {cloud.root[uuid] for part in found for uuid, _ in part.amounts}
        shown = {uuid: each for uuid, each in shown.items() if cloud.root[uuid] in kept}
    return {
        "allocation_requests": [_request(part, query.version) for part in found],
        "provider_summaries": shown,
    }


def _is_flat(cloud: _Cloud, part: _Part) -> bool:
    users = {uuid for uuid, _ in part.amounts}
    return len({cloud.root[uuid] for uuid in users}) == len(users)


def _request(part: _Part, version: tuple[int, int]) -> dict[str, Any]:
    resources: dict[str, dict[str, int]] = defaultdict(dict)
    for (uuid, name), amount in part.amounts.items():
        resources[uuid][name] = amount
    if version < (1, 12):
        listed = [
            {"resource_provider": {"uuid": uuid}, "resources": given}
            for uuid, given in resources.items()
        ]
        return {"allocations": listed}
    body: dict[str, Any] = {
        "allocations": {uuid: {"resources": given} for uuid, given in resources.items()}
    }
    if version >= (1, 34):
        body["mappings"] = {suffix: sorted(users) for suffix, users in part.providers.items()}
    return body


# -- what there is ---------------------------------------------------------------------


class _Cloud:
    """The providers, and what one has to know of them again and again."""

    def __init__(self, state: FakeState) -> None:
        self.state = state
        self.providers = state.providers
        self.root = {uuid: state.root_of(uuid) for uuid in state.providers}
        self.used = {uuid: state.usages(uuid) for uuid in state.providers}
        self._anchors_of: dict[str, set[str]] = defaultdict(set)
        for uuid, provider in state.providers.items():
            for aggregate in provider.aggregates:
                self._anchors_of[aggregate].add(self.root[uuid])

    def anchors(self, uuid: str) -> set[str]:
        """The roots that a provider shares with; none if it does not share."""
        provider = self.providers[uuid]
        if _SHARES not in provider.traits:
            return set()
        return set().union(*(self._anchors_of[each] for each in provider.aggregates))

    def roots(self, query: Query) -> set[str]:
        """The roots that may be anchors."""
        return {
            uuid
            for uuid in self.root.values()
            if query.root_required <= self.providers[uuid].traits
            and not query.root_forbidden & self.providers[uuid].traits
        }

    def with_room(self, name: str, amount: int, tree: str | None) -> set[str]:
        """The providers that can give an amount; in one tree if its root is given."""
        return {
            uuid
            for uuid, provider in self.providers.items()
            if tree in (None, self.root[uuid])
            and name in provider.inventories
            and fits(provider.inventories[name], self.used[uuid][name], amount)
        }

    def line_up(self, uuid: str) -> Iterator[str]:
        """A provider and all above it."""
        here: str | None = uuid
        while here is not None:
            yield here
            here = self.providers[here].parent

    def exceeded(self, amounts: _Amounts) -> bool:
        """Whether groups together ask for more than there is."""
        for (uuid, name), amount in amounts.items():
            record = self.providers[uuid].inventories[name]
            # The service looks at steps and smallest amounts for each group alone.
            free = _capacity(record) - self.used[uuid][name]
            if amount > min(free, record["max_unit"]):
                return True
        return False

    def shown(self, query: Query, found: Iterable[_Part]) -> dict[str, Any]:
        """The summaries: the whole trees from which something is taken."""
        users = {uuid for part in found for uuid, _ in part.amounts}
        if query.version >= (1, 29):
            trees = {self.root[uuid] for uuid in users}
            users = {uuid for uuid, root in self.root.items() if root in trees}
        return {uuid: self._summary(query, self.providers[uuid]) for uuid in sorted(users)}

    def _summary(self, query: Query, provider: Provider) -> dict[str, Any]:
        asked = {name for group in query.groups.values() for name in group.resources}
        summary: dict[str, Any] = {
            "resources": {
                name: {"capacity": _capacity(record), "used": self.used[provider.uuid][name]}
                for name, record in provider.inventories.items()
                if name in asked or query.version >= (1, 27)
            }
        }
        if query.version >= (1, 17):
            summary["traits"] = sorted(provider.traits)
        if query.version >= (1, 29):
            summary["parent_provider_uuid"] = provider.parent
            summary["root_provider_uuid"] = self.root[provider.uuid]
        return summary


def _capacity(record: Mapping[str, Any]) -> int:
    return int((record["total"] - record["reserved"]) * record["allocation_ratio"])


# -- one group -------------------------------------------------------------------------


def _search(cloud: _Cloud, query: Query) -> list[_Part]:
    """All answers.

    Names are looked at when their turn comes: once something has left nothing,
    unknown names do not matter any more. So it is in the service.
    """
    for names in (query.root_required, query.root_forbidden):
        check_traits(cloud.state, sorted(names))
    anchors = cloud.roots(query)
    if not anchors:
        return []
    parts = {}
    for suffix, group in query.groups.items():
        rooms = _rooms(cloud, group)
        if rooms is None:
            return []
        serve = _by_one if suffix else _by_several
        parts[suffix] = serve(cloud, group, rooms, anchors)
        if not parts[suffix]:
            return []
    return _together(cloud, query, parts)


#: class -> the providers that can give what is asked for
_Rooms = Mapping[str, set[str]]


def _rooms(cloud: _Cloud, group: Group) -> _Rooms | None:
    """Who can give what; ``None`` if it is plain that the group cannot be served."""
    for name in group.resources:
        if name not in cloud.state.classes:
            why = UnknownClass(name).detail
            raise Refusal(400, f"Invalid resource class in resources parameter: {why}")
    if not any(
        has_one_of_each(each.aggregates, group.member_of) for each in cloud.providers.values()
    ):
        return None
    for names in (*group.required, group.forbidden):
        check_traits(cloud.state, sorted(names))
    tree = None
    if group.in_tree is not None:
        tree = cloud.root.get(group.in_tree)
        if tree is None:
            return None
    rooms = {}
    for name, amount in group.resources.items():
        rooms[name] = cloud.with_room(name, amount, tree)
        if not rooms[name]:
            return None
    return rooms


def _by_one(cloud: _Cloud, group: Group, rooms: _Rooms, anchors: set[str]) -> _Parts:
    """How single providers can serve a group that has a suffix."""
    found: dict[str, list[_Part]] = defaultdict(list)
    if not (group.resources or group.required or group.member_of):
        # As the service does it: what only forbids, or only names a tree, finds nobody.
        return found
    for uuid in sorted(set(cloud.providers).intersection(*rooms.values())):
        provider = cloud.providers[uuid]
        if (
            has_one_of_each(provider.traits, group.required)
            and not provider.traits & group.forbidden
            and has_one_of_each(provider.aggregates, group.member_of)
            and not provider.aggregates & group.not_member_of
        ):
            amounts = {(uuid, name): amount for name, amount in group.resources.items()}
            part = _Part(amounts, {group.suffix: frozenset({uuid})})
            for anchor in sorted(({cloud.root[uuid]} | cloud.anchors(uuid)) & anchors):
                found[anchor].append(part)
    return found


def _by_several(cloud: _Cloud, group: Group, rooms: _Rooms, anchors: set[str]) -> _Parts:
    """How the providers of trees, and those that share with them, can serve a group."""
    givers = {name: _givers(cloud, group, able, anchors) for name, able in rooms.items()}
    found: dict[str, list[_Part]] = defaultdict(list)
    for anchor in sorted(anchors.intersection(*givers.values())):
        for chosen in itertools.product(*(of_class[anchor] for of_class in givers.values())):
            traits = [cloud.providers[uuid].traits for uuid in chosen]
            # One must not have what is forbidden; all together have what is required.
            if any(each & group.forbidden for each in traits) or not has_one_of_each(
                set().union(*traits), group.required
            ):
                continue
            amounts = {
                (uuid, name): group.resources[name]
                for uuid, name in zip(chosen, givers, strict=True)
            }
            found[anchor].append(_Part(amounts, {group.suffix: frozenset(chosen)}))
    return found


def _givers(
    cloud: _Cloud, group: Group, able: set[str], anchors: set[str]
) -> Mapping[str, list[str]]:
    """Anchor -> those of the able that serve there."""
    found: dict[str, list[str]] = defaultdict(list)
    for uuid in sorted(able):
        near = {cloud.root[uuid]}
        # A tree that is named keeps out all others; who shares has to be a member itself.
        if group.in_tree is None and _is_member(cloud, group, uuid):
            near |= cloud.anchors(uuid)
        for anchor in near & anchors:
            # An aggregate of the root is one of the whole tree.
            if (_is_member(cloud, group, uuid) or _is_member(cloud, group, anchor)) and not (
                cloud.providers[uuid].aggregates | cloud.providers[anchor].aggregates
            ) & group.not_member_of:
                found[anchor].append(uuid)
    return found


def _is_member(cloud: _Cloud, group: Group, uuid: str) -> bool:
    return has_one_of_each(cloud.providers[uuid].aggregates, group.member_of)


# -- all groups ------------------------------------------------------------------------


def _together(cloud: _Cloud, query: Query, parts: Mapping[str, _Parts]) -> list[_Part]:
    """The answers of all groups, put together; each but once."""
    found: dict[object, _Part] = {}
    first, *others = parts.values()
    for anchor in first:
        if all(anchor in each for each in others):
            for part in _combined(cloud, query, [each[anchor] for each in parts.values()]):
                found.setdefault(part.key, part)
    return list(found.values())


def _combined(
    cloud: _Cloud, query: Query, choices: Sequence[Sequence[_Part]], so_far: _Part | None = None
) -> Iterator[_Part]:
    """All ways to take one part of each list that keep the rules of the whole query."""
    so_far = so_far or _Part({}, {})
    if not choices:
        if all(_is_subtree(cloud, so_far, suffixes) for suffixes in query.same_subtrees):
            yield so_far
        return
    taken = {uuid for suffix, users in so_far.providers.items() if suffix for uuid in users}
    for part in choices[0]:
        [(suffix, users)] = part.providers.items()
        if query.isolate and suffix and users & taken:
            continue
        amounts = Counter(so_far.amounts)
        amounts.update(part.amounts)
        if not cloud.exceeded(amounts):
            both = _Part(amounts, {**so_far.providers, **part.providers})
            yield from _combined(cloud, query, choices[1:], both)


def _is_subtree(cloud: _Cloud, part: _Part, suffixes: set[str]) -> bool:
    """Whether one of the providers of groups is above, or is, each of them."""
    users = set().union(*(part.providers[suffix] for suffix in suffixes))
    lines = [set(cloud.line_up(uuid)) for uuid in users]
    return bool(users.intersection(*lines))
