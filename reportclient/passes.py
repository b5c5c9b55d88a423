# SPDX-License-Identifier: Apache-2.0
"""The pass of an agent: read, let the driver edit, flush; and again if need be."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import tenacity

from reportclient import allocations as allocations_
from reportclient import exceptions, text
from reportclient.api import ConsumerAllocations, PlacementAPI
from reportclient.calls import Calls
from reportclient.driver import Driver
from reportclient.engine import Engine
from reportclient.flush import Flusher
from reportclient.locks import TreeLocks
from reportclient.plan import Plan
from reportclient.provider_tree import ProviderTree
from reportclient.result import SyncResult
from reportclient.snapshot import TreeSnapshot
from reportclient.types import Context
from reportclient.workers import Workers

__all__ = ["Fleet", "Node", "Reporter", "TreeReader", "no_parent"]

LOG = text.logger(__name__)

_EMPTY_TREE = TreeSnapshot.build(())
#: How often a driver is run again in one pass because of a real clash.
_REDRIVES = 3


class Node(NamedTuple):
    """What an agent reports: the root of its tree, and where that belongs."""

    uuid: str
    name: str
    parent_uuid: str | None = None


class TreeReader:
    """Hands out trees as fresh as the refresh interval asks."""

    def __init__(self, engine: Engine, locks: TreeLocks) -> None:
        self._engine = engine
        self._locks = locks

    def refresh(self, api: PlacementAPI, uuids: Sequence[str]) -> dict[str, Exception]:
        """Read some trees now; see `Refresher.refresh`."""
        failed = self._engine.refresher.refresh(api, uuids)
        # Placement may have been upgraded: what it did not know is tried again.
        self._engine.names.forget_unknown()
        return failed

    def fresh_snapshot(self, api: PlacementAPI, uuid: str) -> TreeSnapshot | None:
        """The tree of a provider; None if Placement has none.

        :raises ReportClientError: it is due and could not be read; what was
            known stays known.
        """
        cache, clock = self._engine.cache, self._engine.clock
        if cache.is_due(uuid, clock()):
            with self._locks.held([cache.root_of(uuid) or uuid]):
                # Another thread may have read it while this one waited.
                if cache.is_due(uuid, clock()):
                    for error in self.refresh(api, [uuid]).values():
                        raise error
        return cache.snapshot(uuid)

    def refresh_due(self, api: PlacementAPI, uuids: Sequence[str]) -> dict[str, Exception]:
        """Read those of many trees that are due, with one listing if they are many.

        :returns: the trees that could not be read, and why.
        """
        cache, now = self._engine.cache, self._engine.clock()
        due = [uuid for uuid in uuids if cache.is_due(uuid, now)]
        if not due:
            return {}
        with self._locks.held(cache.root_of(uuid) or uuid for uuid in due):
            return self.refresh(api, due)


class Reporter:
    """Runs drivers."""

    def __init__(self, engine: Engine, reader: TreeReader, flusher: Flusher) -> None:
        self._engine = engine
        self._reader = reader
        self._flusher = flusher

    def report(
        self,
        node: Node,
        driver: Driver,
        api: PlacementAPI,
        result: SyncResult,
        *,
        startup: bool,
        missing: bool = False,
    ) -> None:
        """One pass; see `ReportClient.report`, which says what is raised.

        :param missing: a listing has just shown that Placement lacks the node.
        """
        attempts = itertools.count()

        def drive() -> None:
            result.redriven = next(attempts)
            result.try_again()
            tree = self._tree(api, node, missing=missing and not result.redriven)
            try:
                self._drive(node, tree, driver, api, result, startup=startup)
            except exceptions.ReportClientError as error:
                if _worth_redriving(error):
                    _say_so(node, error, result.redriven)
                raise

        # The loop costs as much as all the rest of a pass that changes nothing.
        try:
            drive()
            return
        except exceptions.ReportClientError as error:
            if not _worth_redriving(error):
                raise
            failures = [error]
        retrying = self._engine.retrying(_worth_redriving).copy(
            stop=tenacity.stop_after_attempt(1 + _REDRIVES)
        )
        for attempt in retrying:
            with attempt:
                if failures:
                    raise failures.pop()
                drive()

    def _drive(
        self,
        node: Node,
        tree: ProviderTree,
        driver: Driver,
        api: PlacementAPI,
        result: SyncResult,
        *,
        startup: bool,
    ) -> None:
        """Run the driver once, and flush what it made of the tree."""
        try:
            driver.update_provider_tree(tree, node.name)
        except exceptions.ReshapeNeeded:
            if not startup:
                raise
            tree = self._tree(api, node)
            changed = self._drive_reshape(api, node, tree, driver)
            self._flusher.flush(tree, api, result, changed)
        else:
            self._flusher.flush(tree, api, result)

    def plan(self, node: Node, driver: Driver, api: PlacementAPI) -> Plan:
        """What a pass would do. The driver is run; nothing is written."""
        tree = self._tree(api, node)
        driver.update_provider_tree(tree, node.name)
        return self._flusher.plan(tree, api)

    def _drive_reshape(
        self, api: PlacementAPI, node: Node, tree: ProviderTree, driver: Driver
    ) -> dict[str, ConsumerAllocations]:
        """Let the driver edit tree and allocations; the consumers that change."""
        uuids = list(tree.snapshot().records)
        held = allocations_.of_providers(api, self._engine, uuids)
        edited = allocations_.to_dict(held)
        driver.update_provider_tree(tree, node.name, allocations=edited)
        wanted = allocations_.from_dict(edited)
        return {
            consumer: part
            for consumer, part in wanted.items()
            if consumer not in held or part.to_body() != held[consumer].to_body()
        }

    def _tree(self, api: PlacementAPI, node: Node, *, missing: bool = False) -> ProviderTree:
        """The tree; with the root added locally if Placement does not have it.

        So a driver that is not ready, or fails, leaves Placement as it was.
        """
        snapshot = None if missing else self._reader.fresh_snapshot(api, node.uuid)
        if snapshot is not None:
            tree = ProviderTree.from_snapshot(snapshot, base=snapshot)
            holder = snapshot.by_name.get(node.name)
            if holder not in (None, node.uuid):
                raise _name_is_taken(node, str(holder))
            tree.rename(node.uuid, node.name)
            return tree
        if node.parent_uuid is None:
            tree = ProviderTree.from_snapshot(_EMPTY_TREE, base=_EMPTY_TREE)
            tree.new_root(node.name, node.uuid)
            return tree
        above = self._reader.fresh_snapshot(api, node.parent_uuid)
        if above is None:
            raise no_parent(node.uuid, node.name, node.parent_uuid)
        tree = ProviderTree.from_snapshot(above, base=above)
        tree.new_child(node.name, node.parent_uuid, uuid=node.uuid)
        return tree


class Fleet:
    """Many nodes, side by side."""

    def __init__(
        self,
        engine: Engine,
        calls: Calls,
        reader: TreeReader,
        reporter: Reporter,
        workers: Workers,
    ) -> None:
        self._engine = engine
        self._calls = calls
        self._reader = reader
        self._reporter = reporter
        self._workers = workers

    def report(
        self,
        context: Context | None,
        nodes: Sequence[Node],
        driver: Driver,
        startup: bool,
        progress: Callable[[str, SyncResult], None] | None,
    ) -> dict[str, SyncResult]:
        """One pass of every node; see `ReportClient.report_many`."""
        call, listing = self._calls.begin(context), SyncResult()
        with self._calls.accounted(call, listing):
            unread = self._reader.refresh_due(call.api, [node.uuid for node in nodes])

        def one_node(node: Node) -> SyncResult:
            result = SyncResult()
            try:
                if node.uuid in unread:
                    raise unread[node.uuid]
                self._one(context, node, driver, startup, result)
            except Exception as error:  # noqa: BLE001 - one node's, drivers' included
                result.error = error
            if progress is not None:
                progress(node.uuid, result)
            return result

        outcomes = self._workers.run(one_node, nodes)
        return {node.uuid: out.unwrap() for node, out in zip(nodes, outcomes, strict=True)}

    def _one(
        self,
        context: Context | None,
        node: Node,
        driver: Driver,
        startup: bool,
        result: SyncResult,
    ) -> None:
        call = self._calls.begin(context)
        with self._calls.accounted(call, result):
            missing = self._engine.cache.root_of(node.uuid) is None
            self._reporter.report(node, driver, call.api, result, startup=startup, missing=missing)


def _say_so(node: Node, error: exceptions.ReportClientError, redriven: int) -> None:
    """Log that the driver is run again; or say in the error that it was, in vain."""
    if redriven < _REDRIVES:
        LOG.info("The driver is run again for %s (%s): %s", node.name, node.uuid, str(error))
        return
    error.add(
        f"The driver was run again {redriven} times, in vain. Do two agents report the same UUID?"
    )
    if isinstance(error, exceptions.ResourceProviderUpdateConflict):
        error.attempts += redriven


def no_parent(uuid: str, name: str, parent: str) -> exceptions.ParentProviderNotFound:
    """The exception for a provider whose parent Placement does not have."""
    return exceptions.ParentProviderNotFound(
        f"{name} ({uuid}) was not created: there is no provider {parent} to be its parent.",
        provider=uuid,
    )


def _name_is_taken(node: Node, holder: str) -> exceptions.ResourceProviderNameConflict:
    conflict = exceptions.ResourceProviderNameConflict(
        f"The name {node.name!r}, wanted for {node.uuid}, belongs to {holder}, which is a "
        "provider of the same tree.",
        provider=node.uuid,
    )
    conflict.name, conflict.holder = node.name, holder
    return conflict


def _worth_redriving(error: BaseException) -> bool:
    """Whether a fresh tree may settle it: a clash, or a provider that is gone."""
    if isinstance(error, exceptions.ResourceProviderUpdateConflict):
        return bool(error.fields)
    if isinstance(error, exceptions.PlacementReshapeConflict):
        return True
    return isinstance(error, exceptions.ResourceProviderSyncFailed) and any(
        isinstance(failure, exceptions.ResourceProviderNotFound)
        for failure in error.result.failures.values()
    )
