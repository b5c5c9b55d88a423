# SPDX-License-Identifier: Apache-2.0
"""Carrying out a plan: order, concurrency, and who fails for whom.

Providers are made before their children and deleted after them; independent
providers are written side by side. What happens to one does not stop the
others (P10): the result says of each what was written, what not, and why.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from reportclient import exceptions, merge, text
from reportclient import workers as workers_
from reportclient.api import ConsumerAllocations, PlacementAPI
from reportclient.engine import Engine
from reportclient.identity import ProviderKeeper
from reportclient.plan import (
    CreateProvider,
    DeleteProvider,
    MoveProvider,
    Operation,
    Plan,
    RenameProvider,
    WriteAspect,
)
from reportclient.reshape import reshape
from reportclient.result import SyncResult
from reportclient.types import Aspect
from reportclient.writer import AspectWriter

__all__ = ["carry_out"]

LOG = text.logger(__name__)

Op = TypeVar("Op", bound=Operation)
T = TypeVar("T")


def carry_out(
    plan: Plan,
    api: PlacementAPI,
    engine: Engine,
    result: SyncResult,
    allocations: Mapping[str, ConsumerAllocations] | None = None,
) -> None:
    """Send what a plan says, as far as it will go, and note it in ``result``.

    Raises nothing for a provider that fails: ``result.failures`` has them.

    :param allocations: reshape: write all inventories and these allocations
        in one transaction, after creations and before deletions.
    :raises PlacementReshapeConflict, ReshapeFailed, PlacementUnavailable: the
        reshape was not done; providers may have been created for it.
    """
    flush = _Flush(api, engine, result)
    if allocations is None:
        flush.run(plan)
    else:
        flush.run_reshape(plan, allocations)


class _Flush:
    def __init__(self, api: PlacementAPI, engine: Engine, result: SyncResult) -> None:
        self._api = api
        self._engine = engine
        self._result = result
        self._keeper = ProviderKeeper(api, engine, result)
        self._writer = AspectWriter(api, engine, result)
        #: Custom names that providers get, by provider and aspect.
        self._new: dict[tuple[str, Aspect], set[str]] = {}
        #: The making of classes, a step at a time; those that are there.
        self._making: Iterator[str] = iter(())
        self._made: set[str] = set()
        self._unreachable: exceptions.PlacementUnavailable | None = None

    def run(self, plan: Plan) -> None:
        """Run the operations: in the plan's order, side by side where it is free."""
        self._new = {(op.uuid, op.aspect): _new_names(op) for op in _only(WriteAspect, plan)}
        self._making = self._make_classes()
        for kind, operations in _runs(plan):
            if kind is CreateProvider:
                self._create(_only(CreateProvider, operations))
            elif kind is DeleteProvider:
                self._delete(_only(DeleteProvider, operations))
            elif kind is RenameProvider:
                for rename in _only(RenameProvider, operations):
                    self._guarded(self._keeper.rename, rename)
            elif kind is MoveProvider:
                for move in _only(MoveProvider, operations):
                    self._guarded(self._keeper.move, move)
            else:
                self._write(_only(WriteAspect, operations))

    def run_reshape(self, plan: Plan, allocations: Mapping[str, ConsumerAllocations]) -> None:
        """Make the providers, reshape, then do the rest."""
        inventories = [
            operation
            for operation in _only(WriteAspect, plan)
            if operation.aspect is Aspect.INVENTORY
        ]
        after = [op for op in plan if isinstance(op, DeleteProvider | WriteAspect)]
        before = [op for op in plan if op not in after]
        try:
            self.run(Plan(tuple(before)))
            for failure in self._result.failures.values():
                raise exceptions.ReshapeFailed(
                    f"Not all providers could be made ready for the reshape: {failure}",
                    **failure.facts,
                ) from failure
            deletes = _only(DeleteProvider, plan)
            reshape(inventories, deletes, allocations, self._api, self._engine, self._result)
        except exceptions.ReportClientError as error:
            if not error.outcome_unknown:
                self._undo(_only(CreateProvider, before))
            raise
        self.run(Plan(tuple(op for op in after if op not in inventories)))

    def _undo(self, created: Sequence[CreateProvider]) -> None:
        """Delete what was made for a reshape that was not done: it is empty."""
        results = self._result.providers
        self._delete(
            [
                DeleteProvider(op.uuid, op.name, op.parent_uuid)
                for op in created
                if op.uuid in results and results[op.uuid].created
            ]
        )

    def _create(self, operations: Sequence[CreateProvider]) -> None:
        """Create level by level: a parent before its children."""
        waiting = list(operations)
        while waiting:
            coming = {operation.uuid for operation in waiting}
            level = [op for op in waiting if op.parent_uuid not in coming]
            waiting = [op for op in waiting if op.parent_uuid in coming]
            ready = [op for op in level if not self._lacks_parent(op)]
            self._each(lambda op: self._guarded(self._keeper.create, op), ready, self._making)

    def _lacks_parent(self, operation: CreateProvider) -> bool:
        parent = self._result.providers.get(operation.parent_uuid or "")
        if parent is None or parent.failed is None:
            return False
        if isinstance(parent.failed, exceptions.PlacementUnavailable):
            # Nothing is wrong with either: the whole pass may succeed later.
            self._fail(operation, parent.failed)
            return True
        missing = exceptions.ParentProviderNotFound(
            f"{operation.name} was not created: its parent {parent.name} ({parent.uuid}) "
            "could not be",
            provider=operation.uuid,
        )
        missing.__cause__ = parent.failed
        self._fail(operation, missing)
        return True

    def _delete(self, operations: Sequence[DeleteProvider]) -> None:
        """Delete level by level: children before their parent."""
        waiting = list(operations)
        while waiting:
            parents = {operation.parent_uuid for operation in waiting}
            level = [op for op in waiting if op.uuid not in parents]
            waiting = [op for op in waiting if op.uuid in parents]
            self._each(lambda op: self._guarded(self._keeper.delete, op), level)

    def _write(self, operations: Sequence[WriteAspect]) -> None:
        by_provider: dict[str, list[WriteAspect]] = {}
        for operation in operations:
            # One that could not be renamed or moved is there all the same.
            if self._engine.cache.provider(operation.uuid) is not None:
                by_provider.setdefault(operation.uuid, []).append(operation)
        groups = list(by_provider.values())
        streaming = len(groups) > 1 and self._engine.workers.size > 1
        if not streaming:
            for _ in self._making:
                pass
        if self._unreachable is None:
            self._ensure_traits(groups)
        if streaming:
            workers_.values(self._engine.workers.stream(self._write_provider, self._ready(groups)))
        else:
            self._each(self._write_provider, list(self._ready(groups)))

    def _ready(self, groups: Iterable[list[WriteAspect]]) -> Iterator[list[WriteAspect]]:
        """The providers' writes, each once the classes that it needs are there.

        If Placement cannot be reached, those that are left have failed,
        without a request for each to find out.
        """
        waiting, more = list(groups), True
        while waiting:
            rest = []
            for group in waiting:
                if self._unreachable is not None:
                    for operation in group:
                        self._fail(operation, self._unreachable)
                elif more and not self._needs(group) <= self._made:
                    rest.append(group)
                else:
                    # Who needs a class that was refused will meet it again and say so.
                    yield group
            waiting, more = rest, next(self._making, None) is not None

    def _needs(self, group: Iterable[WriteAspect]) -> set[str]:
        return {
            name
            for operation in group
            if operation.aspect is Aspect.INVENTORY
            for name in self._new[operation.uuid, operation.aspect]
        }

    def _make_classes(self) -> Iterator[str]:
        """Make the classes of all providers: each asked for once, a step at a time."""
        wanted = self._names_for(Aspect.INVENTORY)
        names = self._engine.names
        self._made = wanted - set(names.unknown_classes(wanted))
        try:
            for name in names.make_classes(self._api, wanted):
                self._made.add(name)
                yield name
        except exceptions.PlacementUnavailable as error:
            self._unreachable = error
        except exceptions.ReportClientError as error:
            LOG.debug("Not all classes could be made at once: %s", error)

    def _ensure_traits(self, groups: Iterable[Iterable[WriteAspect]]) -> None:
        """Make the traits of all providers at once: each asked for once."""
        uuids = {operation.uuid for group in groups for operation in group}
        wanted = self._names_for(Aspect.TRAITS, uuids)
        try:
            self._engine.names.ensure_traits(self._api, wanted, self._engine.workers)
        except exceptions.PlacementUnavailable as error:
            self._unreachable = error
        except exceptions.ReportClientError as error:
            LOG.debug("Not all traits could be made at once: %s", error)

    def _names_for(self, aspect: Aspect, uuids: Collection[str] | None = None) -> set[str]:
        return {
            name
            for (uuid, of), names in self._new.items()
            if of is aspect and (uuids is None or uuid in uuids)
            for name in names
        }

    def _write_provider(self, operations: Iterable[WriteAspect]) -> None:
        for operation in operations:
            self._guarded(self._writer.write, operation)

    def _each(
        self,
        step: Callable[[T], None],
        items: Sequence[T],
        meanwhile: Iterator[object] | None = None,
    ) -> None:
        """Do it for all, side by side; then raise what was not foreseen (P7)."""
        workers_.values(self._engine.workers.run(step, items, meanwhile))

    def _guarded(self, step: Callable[[Op], None], operation: Op) -> None:
        try:
            step(operation)
        except exceptions.ReportClientError as error:
            self._fail(operation, error)

    def _fail(self, operation: Operation, error: exceptions.ReportClientError) -> None:
        result = self._result.of(operation.uuid, operation.name)
        # The first failure is the one that says what is wrong.
        result.failed = result.failed or error
        LOG.debug("Could not %s: %s", operation, error)


def _new_names(operation: WriteAspect) -> set[str]:
    """The custom names that a write adds."""
    if operation.aspect is Aspect.AGGREGATES:
        return set()
    value = merge.merge_aspect(
        operation.aspect, operation.base, operation.mine, operation.believed
    ).value
    return {name for name in set(value) - set(operation.believed) if name.startswith("CUSTOM_")}


def _runs(plan: Plan) -> list[tuple[type[Operation], list[Operation]]]:
    """The plan cut where the kind of operation changes."""
    runs: list[tuple[type[Operation], list[Operation]]] = []
    for operation in plan:
        if not runs or runs[-1][0] is not type(operation):
            runs.append((type(operation), []))
        runs[-1][1].append(operation)
    return runs


def _only(kind: type[Op], operations: Iterable[Operation]) -> list[Op]:
    return [operation for operation in operations if isinstance(operation, kind)]
