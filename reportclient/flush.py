# SPDX-License-Identifier: Apache-2.0
"""From a tree that a driver edited to Placement, and back to its new base."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from reportclient import exceptions, sync, validation
from reportclient.api import ConsumerAllocations, PlacementAPI
from reportclient.engine import Engine
from reportclient.locks import TreeLocks
from reportclient.plan import Plan, changed_providers, make_plan
from reportclient.provider_tree import ProviderTree
from reportclient.result import SyncResult
from reportclient.snapshot import TreeSnapshot
from reportclient.types import ProviderRecord

__all__ = ["Flusher", "judge"]

T = TypeVar("T")


class Flusher:
    """Flushes trees, one flush of a tree at a time."""

    def __init__(self, engine: Engine, locks: TreeLocks) -> None:
        self._engine = engine
        self._locks = locks

    def flush(
        self,
        tree: ProviderTree,
        api: PlacementAPI,
        result: SyncResult,
        allocations: Mapping[str, ConsumerAllocations] | None = None,
    ) -> None:
        """Make Placement hold what was changed in a tree since its base.

        Afterwards what was flushed is the tree's base; of a provider that
        failed the base stays, so that flushing the tree again goes on.

        :param allocations: reshape: the consumers whose allocations change,
            and all that they hold.
        :raises PlacementReshapeConflict, ReshapeFailed: the reshape was not done.
        :raises InvalidInput: before any request, all faults at once.
        :raises MassRemovalRefused: the tree has lost all its own providers.
        :raises ResourceProviderUpdateConflict: a real clash; carries the
            result as ``result``.
        :raises ResourceProviderSyncFailed: some provider failed; likewise.
        """
        mine = tree.snapshot()
        base = self._base(tree, mine)

        def carry_out(plan: Plan) -> None:
            self._carry_out(plan, api, result, allocations)

        plan = self._locked(mine, base, api, carry_out, reshape=allocations is not None)
        self._note_left_out(mine, result)
        if plan is not None:
            tree.rebase(_rebased(base, mine, result))
            judge(result)

    def plan(self, tree: ProviderTree, api: PlacementAPI) -> Plan:
        """What `flush` would do. Reads what is not known; writes nothing.

        :raises InvalidInput, MassRemovalRefused: as `flush`.
        """
        mine = tree.snapshot()
        return self._locked(mine, self._base(tree, mine), api, lambda _: None) or Plan()

    def _locked(
        self,
        mine: TreeSnapshot,
        base: TreeSnapshot | None,
        api: PlacementAPI,
        use: Callable[[Plan], None],
        *,
        reshape: bool = False,
    ) -> Plan | None:
        touched, removed = changed_providers(base, mine)
        if not touched and not removed:
            return None
        checked = _checked(mine, touched)
        _refuse_mass_removal(base, mine)
        roots = self._roots([*touched, *removed], mine, base)
        with self._locks.held(roots):
            self._read_doubted(roots, base, api)
            plan = make_plan(
                base,
                checked,
                self._believed(roots),
                leave_out=self._engine.names.unknown,
                reshape=reshape,
            )
            use(plan)
        return plan

    # -- what is compared -----------------------------------------------------

    def _base(self, tree: ProviderTree, mine: TreeSnapshot) -> TreeSnapshot | None:
        """The tree's base; for one built by hand, what is known of its roots."""
        if tree.base is not None:
            return tree.base
        records: dict[str, ProviderRecord] = {}
        for root in mine.roots:
            known = self._engine.cache.snapshot(root)
            if known is not None:
                records |= {
                    uuid: record
                    for uuid, record in known.records.items()
                    if not record.sharing or uuid in mine.records
                }
        return TreeSnapshot.build(records.values()) if records else None

    def _roots(
        self, uuids: Iterable[str], mine: TreeSnapshot, base: TreeSnapshot | None
    ) -> set[str]:
        """The roots of all trees that the flush touches, before and after."""
        roots = set()
        for uuid in uuids:
            for snapshot in (mine, base):
                if snapshot is not None and uuid in snapshot.records:
                    top = _root(uuid, snapshot.records)
                    roots.add(self._engine.cache.root_of(top) or top)
        return roots

    def _read_doubted(
        self, roots: Iterable[str], base: TreeSnapshot | None, api: PlacementAPI
    ) -> None:
        """Read trees that were handed out once and are not relied on any more.

        A root that nobody has seen yet is not looked up: creating it tells.
        """
        cache = self._engine.cache
        doubted = [
            root
            for root in roots
            if cache.is_doubted(root)
            or (base is not None and root in base.records and cache.provider(root) is None)
        ]
        if doubted:
            for error in self._engine.refresher.refresh(api, doubted).values():
                raise error

    def _believed(self, roots: Iterable[str]) -> dict[str, ProviderRecord]:
        cache = self._engine.cache
        theirs: dict[str, ProviderRecord] = {}
        for root in roots:
            for known in (cache.sharing(root), cache.own(root)):
                theirs |= {uuid: provider.record for uuid, provider in known.items()}
            shared = cache.shared(root)
            if shared is not None and root not in theirs:
                theirs[root] = shared.record
        return theirs

    # -- what came of it ----------------------------------------------------------

    def _carry_out(
        self,
        plan: Plan,
        api: PlacementAPI,
        result: SyncResult,
        allocations: Mapping[str, ConsumerAllocations] | None,
    ) -> None:
        result.plan = plan
        ended = False
        try:
            sync.carry_out(plan, api, self._engine, result, allocations)
            ended = True
        finally:
            # A reshape leaves its generations unknown, however it ends; and after
            # a failure that nobody foresaw, anything may be otherwise.
            whole = allocations is not None or not ended
            for uuid in [op.uuid for op in plan] if whole else result.failures:
                self._engine.cache.make_due(uuid)

    def _note_left_out(self, mine: TreeSnapshot, result: SyncResult) -> None:
        """Say of every pass, not of the first only, what this Placement lacks."""
        unknown = self._engine.names.unknown
        if not unknown:
            return
        for record in mine.records.values():
            lacking = unknown & {*(record.inventory or ()), *(record.traits or ())}
            if lacking and not record.sharing:
                result.of(record.uuid, record.name).left_out |= lacking


def _root(uuid: str, records: Mapping[str, ProviderRecord]) -> str:
    while (parent := records[uuid].parent_uuid) is not None and parent in records:
        uuid = parent
    return uuid


def _checked(mine: TreeSnapshot, touched: Iterable[str]) -> TreeSnapshot:
    """The tree with its values as they are sent; every fault at once."""
    errors: list[exceptions.InvalidInput] = []
    normal: dict[str, ProviderRecord] = {}

    def collect(check: Callable[..., T], value: Any, **where: Any) -> T | None:
        try:
            return check(value, **where)
        except exceptions.InvalidProviderTree as error:
            errors.extend(error.errors or (error,))
        except exceptions.InvalidInput as error:
            errors.append(error)
        return None

    for uuid in touched:
        record = mine.records[uuid]
        who = f"{record.name} ({uuid})"
        collect(validation.normalise_uuid, uuid, provider=str(record.name))
        collect(validation.check_name, record.name, provider=uuid)
        values: dict[str, Any] = {}
        for field, check in _CHECKS.items():
            value = getattr(record, field)
            if value is not None:
                values[field] = collect(check, value, provider=who)
        normal[uuid] = dataclasses.replace(record, **values)
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise exceptions.InvalidProviderTree(
            f"The provider tree has {len(errors)} faults; nothing was sent: "
            + "; ".join(map(str, errors)),
            errors=errors,
        )
    return TreeSnapshot.build([normal.get(uuid, record) for uuid, record in mine.records.items()])


_CHECKS: Mapping[str, Callable[..., Any]] = {
    "inventory": validation.normalise_inventory,
    "traits": validation.normalise_traits,
    "aggregates": validation.normalise_aggregates,
}


def _refuse_mass_removal(base: TreeSnapshot | None, mine: TreeSnapshot) -> None:
    """A tree without a single provider of its own is a fault, not a wish (LP 1750450)."""
    had = base is not None and any(not record.sharing for record in base.records.values())
    has = any(not record.sharing for record in mine.records.values())
    if had and not has:
        raise exceptions.MassRemovalRefused(
            "The tree came back without any provider of its own; nothing was deleted. "
            "Use delete_resource_provider to delete a whole tree."
        )


def _rebased(base: TreeSnapshot | None, mine: TreeSnapshot, result: SyncResult) -> TreeSnapshot:
    """What the next flush of the same tree is compared with.

    Where something was not achieved the base keeps it, so that the next flush
    sees the difference and tries again.
    """
    old = base.records if base is not None else {}
    records = dict(mine.records)
    for uuid, outcome in result.providers.items():
        before = old.get(uuid)
        if outcome.failed or outcome.pending:
            if before is not None:
                records[uuid] = before
            elif not outcome.created and not outcome.adopted:
                records.pop(uuid, None)
            elif uuid in records:
                record = records[uuid]
                records[uuid] = ProviderRecord(uuid, record.name, record.parent_uuid)
        elif outcome.kept and uuid in records and before is not None:
            still = {
                name: (before.inventory or {})[name]
                for name in outcome.kept.resource_classes
                if name in (before.inventory or {})
            }
            inventory = {**(records[uuid].inventory or {}), **still}
            records[uuid] = dataclasses.replace(records[uuid], inventory=inventory)
    if all(records.get(uuid) is record for uuid, record in mine.records.items()) and len(
        records
    ) == len(mine.records):
        return mine
    kept = [r for r in records.values() if r.parent_uuid is None or r.parent_uuid in records]
    return TreeSnapshot.build(kept)


def judge(result: SyncResult) -> None:
    """Raise what a result with failures amounts to; nothing if it has none.

    :raises ResourceProviderUpdateConflict: some provider met a real clash.
    :raises SyncUnavailable: every failure is that of reaching Placement.
    :raises ResourceProviderSyncFailed: anything else.
    """
    failures = result.failures
    if not failures:
        return
    for failure in failures.values():
        if isinstance(failure, exceptions.ResourceProviderUpdateConflict):
            failure.result = result
            raise failure
    causes = list(failures.values())
    unavailable = all(isinstance(e, exceptions.PlacementUnavailable) for e in causes)
    kind = exceptions.SyncUnavailable if unavailable else exceptions.ResourceProviderSyncFailed
    # Children fail for their parent's reason: it is said once.
    reasons = {
        id(e): (result.providers[uuid].name, uuid, e) for uuid, e in reversed(failures.items())
    }
    lines = [f"{name} ({uuid}): {e}" for name, uuid, e in reversed(reasons.values())]
    error = kind(
        f"{len(failures)} of {len(result.providers)} providers could not be sent to Placement: "
        + "; ".join(lines[:5])
        + ("; ..." if len(lines) > 5 else ""),
        **causes[0].facts,
    )
    error.result = result
    error.retryable = all(e.retryable for e in causes)
    raise error from causes[0]
