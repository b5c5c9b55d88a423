# SPDX-License-Identifier: Apache-2.0
"""Writing what consumers hold, whoever else is writing.

A write says what it started from: the consumers' generations. What Placement
refuses because a *provider* moved at the same moment is sent again, for the
caller knows nothing of providers' generations. What it refuses because a
*consumer* moved is the caller's: somebody else decided about it. When an
answer was lost, the consumers are read: if they hold what was wanted, it was
applied; if they have not moved, it was not, and is sent again; otherwise
nobody can tell, and that is what the caller is told.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping

from reportclient import exceptions, text
from reportclient import workers as workers_
from reportclient.api import ConsumerAllocations, PlacementAPI
from reportclient.engine import Engine
from reportclient.types import Generation
from reportclient.workers import Workers

__all__ = ["change", "conflict", "delete", "move", "store"]

LOG = text.logger(__name__)

_Wanted = Mapping[str, ConsumerAllocations]

#: How often a consumer that shows nothing, and yet is there, is waited for:
#: another claim may be half done at this moment, and end either way.
_PATIENCE = 4
#: How often such a consumer is written to once it is taken for a phantom.
_CURES = 2
_EXPECTED = re.compile(r"expected (\d+|null) but got (\w+)")


# -- the whole of what some consumers hold ---------------------------------------------


def store(
    api: PlacementAPI,
    engine: Engine,
    wanted: _Wanted,
    *,
    workers: Workers | None = None,
    idempotent: bool = False,
) -> None:
    """Make these all that some consumers hold, all or nothing.

    A normal return guarantees that Placement held it.

    :param wanted: with the generations that the caller started from.
    :param workers: for reading several consumers; none: one after another.
    :param idempotent: that somebody else has just written the same is success.
    :raises ConsumerConflict: a consumer was changed by somebody else.
    :raises AllocationDoesNotFit: Placement has not got so much.
    :raises ConcurrentUpdate: providers never stopped changing.
    :raises AllocationUpdateFailed, PlacementUnavailable: see there.
    """
    _Store(api, workers or engine.inline, dict(wanted), idempotent).run(engine)


@dataclasses.dataclass
class _Store:
    """One atomic write on its way: what was learned from the answers so far."""

    api: PlacementAPI
    workers: Workers
    wanted: dict[str, ConsumerAllocations]
    idempotent: bool
    #: How often a consumer was refused that shows nothing.
    seen: int = 0

    def __post_init__(self) -> None:
        # Only these can be phantoms; others that show nothing were emptied.
        self.new = {
            consumer for consumer, part in self.wanted.items() if part.consumer_generation is None
        }

    def run(self, engine: Engine) -> None:
        self._without_nobody()
        if not self.wanted:
            return
        _, settling = engine.settling()

        def again(error: BaseException) -> bool:
            if isinstance(error, exceptions.ConsumerConflict):
                return error.phantom and self.seen <= _PATIENCE + _CURES
            return settling.may_retry(error)

        retrying = engine.retrying(again)
        with _naming(next(iter(self.wanted))):
            retrying(lambda: self._attempt(lost=settling.lost > 0))

    def _without_nobody(self) -> None:
        """Leave out new consumers that are to hold nothing.

        Writing that would make a consumer which nobody can see.
        """
        nobody = [
            consumer
            for consumer, part in self.wanted.items()
            if part.consumer_generation is None and not part.to_body()["allocations"]
        ]
        found = self._read(nobody)
        if any(part.resources for part in found.values()):
            raise conflict(self.wanted, self._read(list(self.wanted)))
        for consumer in nobody:
            del self.wanted[consumer]

    def _attempt(self, *, lost: bool) -> None:
        if lost and self._settled():
            return
        try:
            if len(self.wanted) == 1:
                [(consumer, part)] = self.wanted.items()
                self.api.put_allocations(consumer, part)
            else:
                self.api.post_allocations(self.wanted)
        except exceptions.ConsumerConflict as error:
            found = self._read(list(self.wanted))
            if (lost or self.idempotent) and self._is_there(found):
                return
            raise self._refused(found, error) from error

    def _settled(self) -> bool:
        """Whether a write whose answer was lost was applied.

        :raises ConsumerConflict: the consumers moved, and not to what was wanted.
        """
        found = self._read(list(self.wanted))
        if self._is_there(found):
            return True
        if all(
            found[consumer].consumer_generation == part.consumer_generation
            or self._shows_nothing(consumer, found)
            for consumer, part in self.wanted.items()
        ):
            return False
        raise _unsettled(self.wanted, found)

    def _read(self, consumers: list[str]) -> dict[str, ConsumerAllocations]:
        held = workers_.values(self.workers.run(self.api.get_allocations, consumers))
        return dict(zip(consumers, held, strict=True))

    def _is_there(self, found: _Wanted) -> bool:
        return all(part.same_as(found[consumer]) for consumer, part in self.wanted.items())

    # -- consumers that nobody can see -----------------------------------------

    def _shows_nothing(self, consumer: str, found: _Wanted) -> bool:
        there = found[consumer]
        return consumer in self.new and not there.resources and there.consumer_generation is None

    def _refused(
        self, found: _Wanted, error: exceptions.ConsumerConflict
    ) -> exceptions.ConsumerConflict:
        told = _EXPECTED.search(error.detail or "")
        phantoms = self._phantoms(found, told[2] if told else None)
        refusal = conflict(self.wanted, found, error, phantom=bool(phantoms))
        if phantoms:
            self.seen += 1
            if self.seen > _PATIENCE and len(phantoms) == 1 and told is not None:
                # The generation is Placement's own word; it shows it nowhere else.
                self._expect(phantoms[0], None if told[1] == "null" else int(told[1]))
        return refusal

    def _phantoms(self, found: _Wanted, got: str | None) -> list[str]:
        """Those that may be what Placement refuses, and that it shows nothing of.

        :param got: the generation that it refuses.
        """
        phantoms = []
        for consumer, part in self.wanted.items():
            if self._shows_nothing(consumer, found):
                if got in (None, "None", str(part.consumer_generation)):
                    phantoms.append(consumer)
            elif found[consumer].consumer_generation != part.consumer_generation:
                return []
        return phantoms

    def _expect(self, consumer: str, generation: Generation | None) -> None:
        LOG.debug("Consumer %s was left behind by a claim that failed; taking it over.", consumer)
        self.wanted[consumer] = dataclasses.replace(
            self.wanted[consumer], consumer_generation=generation
        )


def conflict(
    wanted: _Wanted,
    found: _Wanted,
    error: exceptions.ConsumerConflict | None = None,
    *,
    phantom: bool = False,
) -> exceptions.ConsumerConflict:
    """The exception that tells both sides.

    :param error: what Placement said, if it was asked.
    """
    if phantom:
        why = "is there already, but Placement shows nothing of it"
    else:
        why = "was changed by somebody else"
    told = exceptions.ConsumerConflict(
        f"Nothing was written: consumer {', '.join(wanted)} {why}. "
        f"Wanted: {_shown(wanted)}. Found: {_shown(found)}. {error or ''}".rstrip(),
        **(error.facts if error is not None else {}),
    )
    told.wanted = {consumer: part.to_body() for consumer, part in wanted.items()}
    told.found = {consumer: part.to_body() for consumer, part in found.items()}
    told.consumer, told.phantom = next(iter(wanted)), phantom
    return told


def _unsettled(wanted: _Wanted, found: _Wanted) -> exceptions.ConsumerConflict:
    told = exceptions.ConsumerConflict(
        f"The answer to a write was lost, and consumer {', '.join(wanted)} was changed since: it "
        f"cannot be told whether it was applied. Wanted: {_shown(wanted)}. "
        f"Found: {_shown(found)}.",
        outcome_unknown=True,
    )
    both = conflict(wanted, found)
    told.wanted, told.found, told.consumer = both.wanted, both.found, both.consumer
    return told


def _shown(parts: _Wanted) -> str:
    return "; ".join(
        f"{consumer} at generation {part.consumer_generation}: {dict(part.resources)}"
        for consumer, part in parts.items()
    )


@contextlib.contextmanager
def _naming(consumer: str) -> Iterator[None]:
    """Say of a failure which consumer it is about."""
    try:
        yield
    except exceptions.ReportClientError as error:
        error.consumer = error.consumer or consumer
        raise


# -- a change to what one consumer holds ------------------------------------------------


def change(
    api: PlacementAPI,
    engine: Engine,
    consumer: str,
    edit: Callable[[ConsumerAllocations], ConsumerAllocations],
) -> ConsumerAllocations:
    """Read what a consumer holds, change it, and write it back.

    Who else writes to the consumer meanwhile is met by reading and changing
    again: the change was never made from anything that the caller read.

    :param edit: what is held -> what is to be held. May be called again.
    :returns: what was held before.
    :raises ConsumerConflict: the answer to a write was lost, and somebody
        else has written since; whether it was applied cannot be told.
    :raises: otherwise as `store`, and what ``edit`` raises.
    """
    retrying, settling = engine.settling(consumers=True)
    base: ConsumerAllocations | None = None
    sent: ConsumerAllocations | None = None

    def attempt() -> ConsumerAllocations:
        nonlocal base, sent
        held = api.get_allocations(consumer)
        if settling.lost and base is not None and sent is not None:
            if sent.same_as(held):
                return base
            if held.consumer_generation != base.consumer_generation:
                raise _unsettled({consumer: sent}, {consumer: held})
        wanted = edit(held)
        if wanted.same_as(held):
            return held
        base, sent = held, wanted
        api.put_allocations(consumer, wanted)
        return held

    with _naming(consumer):
        found: ConsumerAllocations = retrying(attempt)
    return found


# -- all of one consumer to another; nothing any more --------------------------------------


def move(
    api: PlacementAPI, engine: Engine, source: str, target: str, consumer_type: str | None
) -> None:
    """Give all that one consumer holds to another, in one transaction.

    :param consumer_type: of the target, if it is new or has none.
    :raises NotAllocated: neither of them holds anything.
    :raises: otherwise as `store`.
    """
    # Types matter only where one is to be set: then none may be left out.
    read = workers_.values(
        engine.workers.run(
            lambda consumer: api.get_allocations(consumer, typed=consumer_type is not None),
            [source, target],
        )
    )
    mine, theirs = read
    if not mine.resources:
        if theirs.resources:
            LOG.debug("Consumer %s holds nothing: it was moved to %s already.", source, target)
            return
        error = exceptions.NotAllocated(
            f"Nothing to move: neither consumer {source} nor {target} holds anything."
        )
        error.consumer = source
        raise error
    if theirs.resources:
        LOG.debug("What consumer %s holds is replaced: %s.", target, theirs.resources)
    kind = theirs.consumer_type
    taken = dataclasses.replace(
        mine,
        consumer_generation=theirs.consumer_generation,
        consumer_type=consumer_type if kind in (None, "unknown") else kind,
    )
    kind = mine.consumer_type
    emptied = dataclasses.replace(
        mine, resources={}, consumer_type=consumer_type if kind == "unknown" else kind
    )
    store(
        api,
        engine,
        {source: emptied, target: taken},
        workers=engine.workers,
        idempotent=True,
    )


def delete(api: PlacementAPI, engine: Engine, consumer: str, *, force: bool) -> bool:
    """Take away all that a consumer holds.

    :param force: whatever its generation is.
    :returns: whether there was anything.
    :raises: as `store`.
    """
    if not force:
        held = api.get_allocations(consumer)
        if not held.resources:
            return False
        emptied = dataclasses.replace(held, resources={})
        store(api, engine, {consumer: emptied}, idempotent=True)
        return True
    retrying, settling = engine.settling()

    def attempt() -> bool:
        # Nothing there after a lost answer: then it was applied.
        return api.delete_allocations(consumer) or settling.lost > 0

    with _naming(consumer):
        deleted: bool = retrying(attempt)
    return deleted
