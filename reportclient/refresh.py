# SPDX-License-Identifier: Apache-2.0
"""Reading trees into the cache with as few requests as generations allow.

One listing shows the generation, name and parent of every provider of a
tree. An aspect that was read at the generation listed is known; only the
others are fetched, in parallel.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import os_traits

from reportclient import exceptions, merge, text
from reportclient import workers as workers_
from reportclient.api import AspectValue, PlacementAPI, ProviderListing
from reportclient.cache import Cache, CachedProvider
from reportclient.types import ASPECTS, Aspect, ProviderRecord, ProviderSummary, Scope

__all__ = ["Refresher", "read_aspect"]

LOG = text.logger(__name__)

#: From so many trees on, one listing of all providers serves them all.
_LIST_ALL_FROM = 10
#: How often a refresh starts over because a provider went away under it.
_RESTARTS = 3
#: The share of the interval by which a refresh may be early, so that agents
#: started together do not ask together for ever.
_JITTER = 0.1


def read_aspect(api: PlacementAPI, provider: CachedProvider, aspect: Aspect) -> CachedProvider:
    """Read one aspect: its value and its generation come from one answer."""
    answer: AspectValue[Any]
    if aspect is Aspect.INVENTORY:
        answer = api.get_inventories(provider.record.uuid)
    elif aspect is Aspect.AGGREGATES:
        answer = api.get_aggregates(provider.record.uuid)
    else:
        answer = api.get_traits(provider.record.uuid)
    return provider.read(aspect, answer.value, answer.generation)


@dataclasses.dataclass
class _Tree:
    """A tree as one refresh finds it."""

    root: str
    own: dict[str, CachedProvider]
    last_modified: str | None
    listings: int
    everything: bool
    sharing: dict[str, CachedProvider] = dataclasses.field(default_factory=dict)
    error: Exception | None = None

    @property
    def aggregates(self) -> set[str]:
        return set().union(*(p.value_of(Aspect.AGGREGATES) for p in self.own.values()))


class Refresher:
    """Fills the cache. See `refresh`.

    :param interval: seconds after which a tree is due again; 0: never.
    :param deep_every: every so many refreshes everything is read afresh; 0:
        never.
    :param scope: what to list for many trees, in place of all providers.
    """

    def __init__(
        self,
        cache: Cache,
        workers: workers_.Workers,
        *,
        interval: float,
        deep_every: int,
        scope: Scope | None,
        clock: Callable[[], float],
        random: Callable[[], float],
    ) -> None:
        self._cache = cache
        self._workers = workers
        self._interval = interval
        self._deep_every = deep_every
        self._scope = scope
        self._clock = clock
        self._random = random

    def next_due(self) -> float:
        """When a tree read now is due again, on the clock of the client."""
        if self._interval <= 0:
            return math.inf
        return self._clock() + self._interval * (1 - _JITTER * self._random())

    def refresh(self, api: PlacementAPI, uuids: Sequence[str]) -> dict[str, Exception]:
        """Bring the trees of some providers up to date.

        After it, the cache holds for each of them the tree that Placement
        has and the sharing providers of its aggregates, every aspect read at
        the newest generation seen. A provider that Placement does not have is
        forgotten. All or nothing for each tree: one that could not be read
        keeps what was known, and is not stamped fresh.

        :returns: the trees that could not be read: the UUID asked for, and
            why. Nothing else is raised for a single tree's failure.
        :raises ReportClientError: the listing itself failed.
        """
        failed: dict[str, Exception] = {}
        waiting = list(dict.fromkeys(uuids))
        for _ in range(_RESTARTS):
            found = self._refresh_once(api, waiting)
            failed = {uuid: e for uuid, e in failed.items() if uuid not in waiting} | found
            # A provider went away between the listing and its reading.
            waiting = [
                uuid
                for uuid, error in found.items()
                if isinstance(error, exceptions.ResourceProviderNotFound)
            ]
            if not waiting:
                break
        return failed

    def _refresh_once(self, api: PlacementAPI, uuids: Sequence[str]) -> dict[str, Exception]:
        asked_sharing = self._known_aggregates(uuids)
        listings, sharing = self._list(api, uuids, asked_sharing)
        trees: dict[str, _Tree] = {}
        root_of: dict[str, str] = {}
        for uuid, listing in zip(uuids, listings, strict=True):
            own = _tree_of(uuid, listing.providers)
            if not own:
                self._cache.forget(uuid)
                continue
            root = _root_of(uuid, own)
            root_of[uuid] = root
            if root not in trees:
                trees[root] = self._judge(root, own, listing.last_modified)
        self._read_outdated(api, trees.values(), lambda tree: tree.own)
        wanted = set().union(*(tree.aggregates for tree in trees.values() if not tree.error))
        if wanted - asked_sharing:
            sharing = self._list_sharing(api, wanted)
        self._attach_sharing(api, list(trees.values()), sharing)
        for tree in trees.values():
            if tree.error is None:
                self._install(tree)
        errors = {uuid: trees[root].error for uuid, root in root_of.items()}
        return {uuid: error for uuid, error in errors.items() if error is not None}

    # -- listing -----------------------------------------------------------

    def _known_aggregates(self, uuids: Iterable[str]) -> set[str]:
        roots = {self._cache.root_of(uuid) for uuid in uuids} - {None}
        own = (self._cache.own(root).values() for root in roots if root)
        providers = itertools.chain.from_iterable(own)
        return set().union(*(provider.value_of(Aspect.AGGREGATES) for provider in providers))

    def _list(
        self, api: PlacementAPI, uuids: Sequence[str], aggregates: Collection[str]
    ) -> tuple[list[ProviderListing], tuple[ProviderSummary, ...]]:
        """The listings of the trees and, at the same time, of what they share."""
        jobs: list[Callable[[], ProviderListing]] = []
        if len(uuids) >= _LIST_ALL_FROM:
            jobs.append(lambda: self._list_many(api))
        else:
            jobs += [lambda uuid=uuid: api.list_providers(in_tree=uuid) for uuid in uuids]  # type: ignore[misc]
        if aggregates:
            jobs.append(lambda: ProviderListing(self._list_sharing(api, aggregates), None))
        answers = workers_.values(self._workers.run(lambda job: job(), jobs))
        sharing = answers.pop().providers if aggregates else ()
        if len(uuids) >= _LIST_ALL_FROM:
            answers = _split(answers[0], uuids)
            if self._scope is not None:
                self._complete(api, uuids, answers)
        return answers, sharing

    def _list_many(self, api: PlacementAPI) -> ProviderListing:
        if self._scope is not None:
            members = sorted(self._scope.member_of) or None
            try:
                return api.list_providers(member_of=members, required=sorted(self._scope.required))
            except exceptions.MicroversionNotSupported:
                LOG.debug("This Placement is too old to list by aggregates or traits.")
            except exceptions.UnknownTrait:
                # Nobody has a trait that does not exist yet.
                return ProviderListing((), None)
        return api.list_providers()

    def _complete(
        self, api: PlacementAPI, uuids: Sequence[str], listings: list[ProviderListing]
    ) -> None:
        """List by itself every tree that the scope's listing may not show whole.

        It shows a tree's root and not its children, if these are outside the
        scope. So it is enough for a tree that is known to be a single provider,
        until the next deep refresh asks whether it still is.
        """
        jobs = [
            n
            for n, (uuid, listing) in enumerate(zip(uuids, listings, strict=True))
            if not self._is_lone(uuid, listing)
        ]
        found = self._workers.run(lambda n: api.list_providers(in_tree=uuids[n]), jobs)
        for n, listing in zip(jobs, workers_.values(found), strict=True):
            listings[n] = listing

    def _is_lone(self, uuid: str, listing: ProviderListing) -> bool:
        _, _, listed = self._cache.listing_facts(uuid)
        deep = 0 < self._deep_every <= listed + 1
        return not deep and len(self._cache.own(uuid)) == 1 and len(listing.providers) == 1

    def _list_sharing(
        self, api: PlacementAPI, aggregates: Collection[str]
    ) -> tuple[ProviderSummary, ...]:
        try:
            return api.list_providers(
                member_of=sorted(aggregates), required=[os_traits.MISC_SHARES_VIA_AGGREGATE]
            ).providers
        except exceptions.MicroversionNotSupported:
            # Filtering by trait came with 1.18; nobody shares without it.
            LOG.debug("This Placement is too old to say who shares.")
            return ()

    # -- judging and reading -------------------------------------------------

    def _judge(
        self, root: str, summaries: Sequence[ProviderSummary], last_modified: str | None
    ) -> _Tree:
        """Compare a listing with what is known of the tree."""
        known = self._cache.own(root)
        before, wrote, listings = self._cache.listing_facts(root)
        own: dict[str, CachedProvider] = {}
        for summary in summaries:
            former = known.get(summary.uuid) or _unread(summary)
            own[summary.uuid] = former.seen(summary)
        unmoved = all(
            own[uuid].record.generation == provider.record.generation
            for uuid, provider in known.items()
            if uuid in own
        )
        # Aggregates written below 1.19 and a provider made anew under its
        # UUID can leave the generations as they were; the time cannot.
        moved_time = None not in (before, last_modified) and before != last_modified
        suspicious = moved_time and unmoved and not wrote
        listings += 1
        everything = bool(known) and (
            suspicious or (self._deep_every > 0 and listings >= self._deep_every)
        )
        if everything:
            # Starting the count at 0 or more keeps agents from going deep together.
            listings = int(self._random() * self._deep_every / 5)
        return _Tree(root, own, last_modified, listings, everything)

    def _read_outdated(
        self,
        api: PlacementAPI,
        trees: Iterable[_Tree],
        members: Callable[[_Tree], dict[str, CachedProvider]],
    ) -> None:
        """Fetch what is not known at the generation listed, in parallel."""
        jobs = [
            (tree, members(tree)[uuid], aspect)
            for tree in trees
            if tree.error is None
            for uuid in members(tree)
            for aspect in (ASPECTS if tree.everything else members(tree)[uuid].outdated())
        ]
        outcomes = self._workers.run(lambda job: read_aspect(api, job[1], job[2]), jobs)
        for (tree, provider, aspect), outcome in zip(jobs, outcomes, strict=True):
            if outcome.error is not None:
                if not isinstance(outcome.error, exceptions.ReportClientError):
                    raise outcome.error
                tree.error = tree.error or outcome.error
                continue
            read = outcome.unwrap()
            uuid = provider.record.uuid
            members(tree)[uuid] = members(tree)[uuid].read(
                aspect, read.value_of(aspect), read.generation_of(aspect)
            )

    def _attach_sharing(
        self, api: PlacementAPI, trees: Sequence[_Tree], sharing: Sequence[ProviderSummary]
    ) -> None:
        """Give each tree the sharing providers of its aggregates."""
        if not sharing:
            return
        known: dict[str, CachedProvider] = {}
        for summary in sharing:
            former = self._cache.shared(summary.uuid) or _unread(summary)
            known[summary.uuid] = former.seen(summary, sharing=True)
        pool = _Tree("", known, None, 0, any(tree.everything for tree in trees))
        self._read_outdated(api, [pool], lambda tree: tree.own)
        for tree in trees:
            aggregates = tree.aggregates
            tree.error = tree.error or pool.error
            tree.sharing = {
                uuid: provider
                for uuid, provider in known.items()
                if uuid not in tree.own and aggregates & provider.value_of(Aspect.AGGREGATES)
            }

    def _install(self, tree: _Tree) -> None:
        _say_what_changed(self._cache.own(tree.root), tree.own)
        self._cache.install(
            tree.root,
            tree.own.values(),
            tree.sharing.values(),
            due_at=self.next_due(),
            last_modified=tree.last_modified,
            listings=tree.listings,
        )


def _say_what_changed(
    before: Mapping[str, CachedProvider], now: Mapping[str, CachedProvider]
) -> None:
    """Log what a refresh found to be other than it was known: others wrote it."""
    for uuid in before.keys() - now.keys() if before else ():
        LOG.info("%s (%s) is not in its tree any more.", before[uuid].record.name, uuid)
    for uuid, provider in now.items() if before else ():
        record, former = provider.record, before.get(uuid)
        if former is None:
            LOG.info("%s (%s) is in its tree now; it was not.", record.name, uuid)
            continue
        old = former.record
        if (old.name, old.parent_uuid) != (record.name, record.parent_uuid):
            LOG.info(
                "%s (%s) was renamed or moved by others: to %s below %s, from below %s.",
                old.name,
                uuid,
                record.name,
                record.parent_uuid,
                old.parent_uuid,
            )
        for aspect in ASPECTS:
            known, found = getattr(old, aspect), getattr(record, aspect)
            if known is not None and known is not found and known != found:
                LOG.info(
                    "Others changed %s of %s (%s): %s; generation %s -> %s.",
                    aspect,
                    record.name,
                    uuid,
                    "; ".join(merge.differences(aspect, known, found)),
                    old.generation,
                    record.generation,
                )


def _unread(summary: ProviderSummary) -> CachedProvider:
    return CachedProvider(
        ProviderRecord(summary.uuid, summary.name, summary.parent_uuid, summary.generation)
    )


def _split(listing: ProviderListing, uuids: Sequence[str]) -> list[ProviderListing]:
    """A listing of all providers as one listing for each tree asked for."""
    by_root: dict[str, list[ProviderSummary]] = {}
    root_of: dict[str, str] = {}
    for summary in listing.providers:
        root = summary.root_uuid or summary.uuid
        root_of[summary.uuid] = root
        by_root.setdefault(root, []).append(summary)
    # Last-Modified is that of all providers and says nothing of a single tree.
    return [ProviderListing(tuple(by_root.get(root_of.get(uuid, ""), ())), None) for uuid in uuids]


def _tree_of(uuid: str, summaries: Sequence[ProviderSummary]) -> Sequence[ProviderSummary]:
    """The listing, if it holds the provider asked for; nothing otherwise."""
    return summaries if any(summary.uuid == uuid for summary in summaries) else ()


def _root_of(uuid: str, summaries: Sequence[ProviderSummary]) -> str:
    by_uuid: Mapping[str, ProviderSummary] = {summary.uuid: summary for summary in summaries}
    if root := by_uuid[uuid].root_uuid:
        return root
    return next((s.uuid for s in summaries if s.parent_uuid is None), uuid)
