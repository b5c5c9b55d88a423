# SPDX-License-Identifier: Apache-2.0
"""Allocations that should not be there, and those that should."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping

from reportclient import allocations, claims, consumers, exceptions, text
from reportclient.api import ConsumerAllocations, PlacementAPI
from reportclient.engine import Engine

__all__ = ["AuditResult", "HealResult", "Known", "Orphan", "audit", "heal"]

LOG = text.logger(__name__)

#: The consumers that a caller knows; or a function that says which ones of
#: those that were found it knows.
Known = Iterable[str] | Callable[[Collection[str]], Iterable[str]]


@dataclasses.dataclass
class Orphan:
    """A consumer that holds something of a tree, and that the caller does not know.

    :ivar resources: what it holds of the tree: provider UUID -> resource
        class -> amount.
    :ivar elsewhere: what it holds of other trees, likewise.
    :ivar removed: whether what it held of the tree was taken away.
    :ivar error: why not, although it was to be.
    """

    consumer: str
    resources: Mapping[str, Mapping[str, int]]
    elsewhere: Mapping[str, Mapping[str, int]]
    project_id: str | None
    user_id: str | None
    removed: bool = False
    error: exceptions.ReportClientError | None = None


@dataclasses.dataclass
class AuditResult:
    """What an audit found, and what it took away.

    :ivar providers: the UUIDs of the tree's providers.
    :ivar consumers: how many consumers hold something of it, orphans included.
    :ivar orphans: by consumer UUID.
    """

    providers: tuple[str, ...]
    consumers: int
    orphans: dict[str, Orphan]

    @property
    def failures(self) -> dict[str, exceptions.ReportClientError]:
        """The orphans that could not be taken away, and why."""
        return {c: orphan.error for c, orphan in self.orphans.items() if orphan.error is not None}


@dataclasses.dataclass
class HealResult:
    """What was done for consumers that should hold something.

    :ivar healed: they held nothing, and hold what was wanted now (in a dry
        run: they hold nothing).
    :ivar present: they held something already, and were left as they are.
    :ivar failures: those for which it did not work, and why.
    """

    healed: tuple[str, ...] = ()
    present: tuple[str, ...] = ()
    failures: Mapping[str, exceptions.ReportClientError] = dataclasses.field(default_factory=dict)


def audit(
    api: PlacementAPI, engine: Engine, providers: Collection[str], known: Known, *, remove: bool
) -> AuditResult:
    """Find what unknown consumers hold of some providers, and take it away.

    Only what the audit has seen is taken away: a consumer that holds anything
    else by then is left as it is.

    :raises: as `allocations.of_providers`.
    """
    found = allocations.of_providers(api, engine, providers)
    # Asked after reading, a caller knows everybody whom it has let in.
    told = known(tuple(found)) if callable(known) else known
    friends = {claims.consumer_uuid(uuid, "known_consumers") for uuid in told}
    here = frozenset(providers)
    orphans = {
        consumer: _orphan(consumer, held, here)
        for consumer, held in found.items()
        if consumer not in friends
    }
    if remove:

        def take(consumer: str) -> None:
            consumers.store(
                api, engine, {consumer: found[consumer].without(here)}, idempotent=True
            )

        _each(engine, take, list(orphans), orphans)
    return AuditResult(tuple(providers), len(found), orphans)


def _orphan(consumer: str, held: ConsumerAllocations, here: frozenset[str]) -> Orphan:
    return Orphan(
        consumer,
        {uuid: part for uuid, part in held.resources.items() if uuid in here},
        held.without(here).resources,
        held.project_id,
        held.user_id,
    )


def _each(
    engine: Engine,
    take: Callable[[str], None],
    wanted: list[str],
    orphans: Mapping[str, Orphan],
) -> None:
    outcomes = engine.workers.run(take, wanted)
    for consumer, outcome in zip(wanted, outcomes, strict=True):
        if outcome.error is None:
            orphans[consumer].removed = True
            LOG.info("Took what consumer %s held of the tree.", consumer)
        elif isinstance(outcome.error, exceptions.ReportClientError):
            orphans[consumer].error = outcome.error
        else:
            raise outcome.error


def heal(
    api: PlacementAPI,
    engine: Engine,
    wanted: Mapping[str, ConsumerAllocations],
    *,
    dry_run: bool,
) -> HealResult:
    """Have consumers that hold nothing hold what they should.

    One consumer's failure does not stop the others.
    """

    def one(consumer: str) -> bool:
        if api.get_allocations(consumer).resources:
            return False
        if dry_run:
            return True
        try:
            consumers.store(api, engine, {consumer: wanted[consumer]})
        except exceptions.ConsumerConflict as error:
            if not any(held["allocations"] for held in error.found.values()):
                raise
            return False
        return True

    names = list(wanted)
    healed, present, failures = [], [], {}
    for consumer, outcome in zip(names, engine.workers.run(one, names), strict=True):
        if isinstance(outcome.error, exceptions.ReportClientError):
            failures[consumer] = outcome.error
        elif outcome.unwrap():
            healed.append(consumer)
        else:
            present.append(consumer)
    return HealResult(tuple(healed), tuple(present), failures)
