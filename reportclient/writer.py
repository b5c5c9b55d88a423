# SPDX-License-Identifier: Apache-2.0
"""Writing one aspect of one provider, whoever else is writing.

The loop: take what Placement is believed to hold, merge, write with the
generation that the belief was read with. When the generation turns out to be
outdated, read value and generation again in one answer and start over. When
the outcome of a write is unknown, read: if Placement holds what was wanted,
it was applied.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from reportclient import exceptions, merge, text
from reportclient.api import AspectValue, PlacementAPI
from reportclient.cache import CachedProvider
from reportclient.engine import Engine
from reportclient.plan import WriteAspect, without_names
from reportclient.refresh import read_aspect
from reportclient.result import SyncResult
from reportclient.types import Aspect, Generation, ProviderRecord

__all__ = ["AspectWriter"]

LOG = text.logger(__name__)


@dataclasses.dataclass
class _Write:
    """One write on its way: what was learned from the answers so far."""

    operation: WriteAspect
    mine: Any
    attempts: int = 0
    #: The provider as the last answer showed it, if the cache has it not.
    provider: CachedProvider | None = None
    #: The value of a write whose answer was lost.
    sent: Any = None
    #: Classes that cannot be removed because allocations hold them.
    kept: set[str] = dataclasses.field(default_factory=set)
    #: How Placement refused to remove them.
    refusal: exceptions.InventoryInUse | None = None
    #: What has been seen to once and must not come up again.
    seen_to: set[type[Exception]] = dataclasses.field(default_factory=set)

    def first(self, error: exceptions.PlacementError) -> bool:
        """Whether a refusal of this kind is met for the first time."""
        new = type(error) not in self.seen_to
        self.seen_to.add(type(error))
        return new


class _Again(Exception):
    """What was in the way has been seen to; try at once."""


class AspectWriter:
    """Writes aspects for one flush and notes in its result what happened."""

    def __init__(self, api: PlacementAPI, engine: Engine, result: SyncResult) -> None:
        self._api = api
        self._engine = engine
        self._result = result

    def write(self, operation: WriteAspect, *, cached: bool = True) -> None:
        """Make one aspect what the merge of base, mine and theirs says.

        A normal return guarantees that Placement held the merged value at the
        generation that the cache now has for the aspect (less what the result
        says was kept or left out).

        :param cached: False: the aspect is read first, and the provider need
            not be in the cache.
        :raises ResourceProviderUpdateConflict: both sides changed the same
            field, or others never stopped writing.
        :raises ResourceProviderNotFound: the provider is gone.
        :raises PlacementUnavailable, OperationFailed: as their names say.
        """
        write = _Write(operation, operation.mine)
        if not cached:
            known = self._engine.cache.provider(operation.uuid) or CachedProvider(
                ProviderRecord(operation.uuid, operation.name)
            )
            write.provider = known.outdate(operation.aspect)
        # The first conflict is answered at once, within the first attempt.
        retrying, _ = self._engine.settling(attempts=max(1, self._engine.retry.attempts - 1))
        try:
            retrying(self._attempt, write)
        except exceptions.ResourceProviderUpdateConflict:
            raise
        except exceptions.ConcurrentUpdate as error:
            raise self._gave_up(write, error) from error

    def write_exactly(
        self, uuid: str, aspect: Aspect, value: Any, generation: Generation, *, use_cache: bool
    ) -> None:
        """Write a whole value, guarded by the caller's own generation, once.

        :raises ResourceProviderUpdateConflict: the generation is outdated.
        """
        provider = self._engine.cache.provider(uuid) if use_cache else None
        if (
            provider is not None
            and provider.generation_of(aspect) == generation
            and merge.same_value(aspect, provider.value_of(aspect), value)
        ):
            return
        operation = WriteAspect(uuid, uuid, aspect, None, value, None, generation)
        self._ensure_names(_Write(operation, value), set(value))
        try:
            answer = self._put(aspect, uuid, value, generation)
        except exceptions.ConcurrentUpdate as error:
            self._result.count_conflict()
            conflict = exceptions.ResourceProviderUpdateConflict(
                f"The {aspect} of {uuid} was not written: generation {generation} is outdated. "
                f"{error}",
                provider=uuid,
                **error.facts,
            )
            conflict.base_generation, conflict.attempts = generation, 1
            raise conflict from error
        self._result.of(uuid, uuid).written.add(aspect)
        if provider is not None:
            stored = provider.written(aspect, answer.value, generation, answer.generation)
            self._engine.cache.update(stored, wrote=True)

    def _attempt(self, write: _Write) -> None:
        while True:
            try:
                self._try(write)
            except _Again:
                continue
            return

    def _try(self, write: _Write) -> None:
        aspect = write.operation.aspect
        provider = self._current(write)
        theirs = provider.value_of(aspect)
        wanted = self._merged(write, provider)
        if merge.same_value(aspect, wanted, theirs):
            # Nothing (more) to write: it is so already, or our own write was
            # applied although its answer was lost.
            applied = write.sent is not None and merge.same_value(aspect, wanted, write.sent)
            self._note(write, theirs, wrote=applied)
            return
        guard = provider.generation_of(aspect)
        self._ensure_names(write, set(wanted) - set(theirs))
        write.attempts += 1
        try:
            answer = self._put(aspect, provider.record.uuid, wanted, guard)
        except exceptions.ConcurrentUpdate as error:
            self._result.count_conflict()
            LOG.debug("%s of %s moved on; reading it again.", aspect, provider.record.name)
            # Only this aspect's generation is known to be wrong.
            self._believe(write, provider.outdate(aspect), wrote=False)
            if self._engine.retry.attempts > 1 and write.first(error):
                # Mostly it was an allocation, and reading settles it. Who meets
                # others again waits for them.
                raise _Again from error
            raise
        except exceptions.InventoryInUse as error:
            self._keep_in_use(write, set(theirs) - set(wanted), error)
            raise _Again from error
        except (exceptions.UnknownTrait, exceptions.UnknownResourceClass) as error:
            self._learn_names(write, wanted, error)
            raise _Again from error
        except exceptions.ReportClientError as error:
            if error.outcome_unknown:
                write.sent = wanted
                self._believe(write, provider.doubted(), wrote=True)
            if _lost_a_race_inside(aspect, error):
                self._result.count_conflict()
                raise exceptions.ConcurrentUpdate(str(error), **error.facts) from error
            raise
        stored = provider.written(aspect, answer.value, guard, answer.generation)
        self._believe(write, stored, wrote=True)
        self._note(write, theirs, wrote=True)
        LOG.info(
            "Wrote %s of %s (%s): %s; generation %s -> %s [%s].",
            aspect,
            provider.record.name,
            provider.record.uuid,
            "; ".join(merge.differences(aspect, theirs, answer.value)),
            guard,
            answer.generation,
            self._api.ids(),
        )

    # -- reading and merging ----------------------------------------------

    def _current(self, write: _Write) -> CachedProvider:
        uuid, aspect = write.operation.uuid, write.operation.aspect
        provider = write.provider or self._engine.cache.provider(uuid)
        if provider is None:
            raise exceptions.ResourceProviderNotFound(
                f"Provider {write.operation.name} ({uuid}) is not known any more.", provider=uuid
            )
        if not provider.is_current(aspect):
            provider = read_aspect(self._api, provider, aspect)
            self._believe(write, provider, wrote=False)
        return provider

    def _believe(self, write: _Write, provider: CachedProvider, *, wrote: bool) -> None:
        if write.provider is not None:
            write.provider = provider
        self._engine.cache.update(provider, wrote=wrote)

    def _merged(self, write: _Write, provider: CachedProvider) -> Any:
        operation = write.operation
        theirs = provider.value_of(operation.aspect)
        merged = merge.merge_aspect(operation.aspect, operation.base, write.mine, theirs)
        if merged.clashes:
            raise _clash(write, provider, merged.clashes)
        if not write.kept:
            return merged.value
        return {**merged.value, **{name: theirs[name] for name in write.kept & theirs.keys()}}

    # -- writing -------------------------------------------------------------

    def _put(self, aspect: Aspect, uuid: str, value: Any, guard: Any) -> AspectValue[Any]:
        if aspect is Aspect.INVENTORY:
            return self._api.put_inventories(uuid, value, guard)
        if aspect is Aspect.AGGREGATES:
            return self._api.put_aggregates(uuid, value, guard)
        return self._api.put_traits(uuid, value, guard)

    def _ensure_names(self, write: _Write, new: set[str]) -> None:
        names, workers = self._engine.names, self._engine.inline
        if write.operation.aspect is Aspect.INVENTORY:
            names.ensure_classes(self._api, new)
        elif write.operation.aspect is Aspect.TRAITS:
            names.ensure_traits(self._api, new, workers)

    # -- what was in the way -------------------------------------------------

    def _keep_in_use(
        self, write: _Write, removing: set[str], error: exceptions.InventoryInUse
    ) -> None:
        """Find out which classes allocations hold, and let those stay."""
        usages = self._api.get_provider_usages(write.operation.uuid)
        in_use = {name for name in removing if usages.get(name)}
        # None in use any more means that the allocations went in between.
        if not in_use and not write.first(error):
            raise error
        write.kept |= in_use
        write.refusal = error

    def _learn_names(self, write: _Write, wanted: Any, error: exceptions.BadRequest) -> None:
        """Find out which names Placement does not know: make or leave them out."""
        names, first = self._engine.names, write.first(error)
        if write.operation.aspect is Aspect.TRAITS:
            missing = names.missing_traits(self._api, wanted)
        else:
            missing = names.missing_classes(self._api, wanted)
        standard = frozenset(name for name in missing if not name.startswith("CUSTOM_"))
        if missing and not standard and not first:
            # Placement said that it made them, and they are not there: see
            # `KnownNames.ensure_classes`. Others are making classes just now.
            raise exceptions.ConcurrentUpdate(str(error), **error.facts) from error
        if (not missing and not first) or (standard and (self._engine.strict or not first)):
            raise error
        if standard:
            names.leave_out(standard)
            write.mine = without_names(write.operation.aspect, write.mine, standard)
            operation = write.operation
            result = self._result.of(operation.uuid, operation.name)
            result.left_out |= standard
            self._engine.notices.warn(
                f"unknown names {sorted(standard)}",
                f"This Placement does not know {', '.join(sorted(standard))}; "
                "the rest is reported, and these again once it does.",
            )

    def _note(self, write: _Write, theirs: Any, *, wrote: bool) -> None:
        operation = write.operation
        result = self._result.of(operation.uuid, operation.name)
        if wrote:
            result.written.add(operation.aspect)
        own = write.sent is not None and merge.same_value(operation.aspect, theirs, write.sent)
        if not own and not merge.same_value(operation.aspect, theirs, operation.believed):
            result.merged.add(operation.aspect)
        key = f"in use {operation.uuid}"
        if write.kept:
            kept = tuple(sorted(write.kept))
            message = (
                f"{', '.join(kept)} of {operation.name} ({operation.uuid}) cannot be removed: "
                "allocations hold it. It stays until they are gone."
            )
            facts = write.refusal.facts if write.refusal else {}
            result.kept = exceptions.InventoryInUse(message, provider=operation.uuid, **facts)
            result.kept.resource_classes = kept
            self._engine.notices.warn(key, message)
        elif operation.aspect is Aspect.INVENTORY:
            self._engine.notices.recovered(
                key, f"Inventory of {operation.name} is complete again."
            )

    def _gave_up(
        self, write: _Write, error: exceptions.ConcurrentUpdate
    ) -> exceptions.ResourceProviderUpdateConflict:
        operation = write.operation
        conflict = exceptions.ResourceProviderUpdateConflict(
            f"Others kept writing to {operation.name} ({operation.uuid}): its {operation.aspect} "
            f"could not be written in {write.attempts} attempts. Do two agents report the same "
            f"UUID? Last answer: {error}",
            provider=operation.uuid,
            **error.facts,
        )
        conflict.attempts = write.attempts
        conflict.base_generation = operation.base_generation
        provider = self._engine.cache.provider(operation.uuid)
        conflict.their_generation = provider.record.generation if provider else None
        return conflict


def _lost_a_race_inside(aspect: Aspect, error: exceptions.ReportClientError) -> bool:
    """Whether Placement's own transaction lost a race.

    For traits and aggregates it answers 500 then, not 409 (LP 1804453).
    """
    return error.status == 500 and error.code is not None and aspect is not Aspect.INVENTORY


def _clash(
    write: _Write, provider: CachedProvider, clashes: tuple[merge.Clash, ...]
) -> exceptions.ResourceProviderUpdateConflict:
    operation = write.operation
    conflict = exceptions.ResourceProviderUpdateConflict(
        f"{operation.name} ({operation.uuid}) was changed by two writers: "
        + "; ".join(map(str, clashes)),
        provider=operation.uuid,
    )
    conflict.fields = tuple(clash.field for clash in clashes)
    conflict.base = {clash.field: clash.base for clash in clashes}
    conflict.mine = {clash.field: clash.mine for clash in clashes}
    conflict.theirs = {clash.field: clash.theirs for clash in clashes}
    conflict.base_generation = operation.base_generation
    conflict.their_generation = provider.generation_of(operation.aspect)
    conflict.attempts = write.attempts
    return conflict
