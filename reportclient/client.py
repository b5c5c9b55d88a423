# SPDX-License-Identifier: Apache-2.0
"""`ReportClient`: what an agent imports.

Names and argument order are nova's (``context`` first), so that code written
for nova's report client moves over. ``context`` is any object with a
``global_id`` (the global request id), or ``None``.
"""

from __future__ import annotations

import os
import random as random_
import time
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from reportclient import allocations as allocations_
from reportclient import claims, exceptions, removal, text, validation
from reportclient.calls import Calls
from reportclient.client_aggregates import AggregateCalls
from reportclient.client_candidates import CandidateCalls
from reportclient.client_consumers import ConsumerCalls
from reportclient.driver import Driver
from reportclient.engine import Engine
from reportclient.flush import Flusher
from reportclient.locks import TreeLocks
from reportclient.notices import Notices
from reportclient.passes import Fleet, Node, Reporter, TreeReader
from reportclient.plan import Plan
from reportclient.provider_tree import ProviderSubTree, ProviderTree
from reportclient.result import ProviderResult, SyncResult
from reportclient.retry import RetryPolicy
from reportclient.single import SingleProvider, by_name
from reportclient.transport import Transport
from reportclient.types import Aspect, Context, Generation, Inventory, Scope
from reportclient.workers import Workers

__all__ = ["ReportClient", "TraitInfo"]

LOG = text.logger(__name__)


class TraitInfo(NamedTuple):
    """Traits of a provider and the generation that they were read with."""

    traits: frozenset[str]
    generation: Generation


class ReportClient(ConsumerCalls, CandidateCalls, AggregateCalls):
    """Tells Placement what there is, and keeps telling the truth.

    Building one does no I/O. One client may be used by many threads at once,
    and after a fork by parent and child. See `report` for the whole loop of
    an agent, and `get_provider_tree_and_ensure_root` with
    `update_from_provider_tree` for its two halves.

    :param adapter: a `keystoneauth1.adapter.Adapter` for the service type
        ``placement``.
    :param refresh_interval: seconds until a tree is listed again (up to a
        tenth earlier, at random); 0: a tree is read once, and then only on
        request.
    :param deep_refresh_every: every so many refreshes everything is read
        afresh, whatever the generations say; 0: never.
    :param max_workers: how many requests run at once; 1: no threads at all.
    :param timeout: seconds until a request without an answer is given up.
    :param cache_file: keep what was read in this file, so that a restart
        costs one listing a tree. Written every minute at most, and by
        `close`; a file that cannot be used is ignored, with a warning.
    :param scope: for an agent with many roots in a large cloud: list only
        the providers of this `Scope` when ten trees or more are due, in place
        of all there are. What such a listing cannot show whole is listed by
        itself: nodes that are not in it or not known yet, trees of more than
        one provider, and every tree at its deep refresh.
    :param retry: a `RetryPolicy`.
    :param strict: a standard trait or resource class that this Placement does
        not know is an error; by default it is left out, with a warning.
    :param consumer_type: the type (microversion 1.38) of consumers that this
        client makes, such as ``"INSTANCE"``; ``None``: they get none, and
        Placement calls them "unknown".
    :param clock: monotonic seconds.
    :param sleep: waits so many seconds.
    :param random: a number from 0 up to 1.
    :raises ValueError: a setting is not a number, or too small; names it.
    """

    def __init__(
        self,
        adapter: Any,
        *,
        refresh_interval: float = 300,
        deep_refresh_every: int = 10,
        max_workers: int = 8,
        timeout: float = 60,
        cache_file: str | os.PathLike[str] | None = None,
        retry: RetryPolicy | None = None,
        strict: bool = False,
        scope: Scope | None = None,
        consumer_type: str | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        random: Callable[[], float] = random_.random,
    ) -> None:
        _check_settings(
            refresh_interval=(refresh_interval, 0),
            deep_refresh_every=(deep_refresh_every, 0),
            max_workers=(max_workers, 1),
            timeout=(timeout, 0.001),
        )
        if retry is None:
            retry = RetryPolicy()
        elif not isinstance(retry, RetryPolicy):
            raise ValueError(f"retry is {retry!r}, which is no RetryPolicy")
        self._transport = Transport(
            adapter,
            timeout=timeout,
            max_workers=max_workers,
            retry=retry,
            clock=clock,
            sleep=sleep,
            random=random,
        )
        self._engine = Engine.build(
            refresh_interval=refresh_interval,
            deep_refresh_every=deep_refresh_every,
            max_workers=max_workers,
            notices=Notices(LOG, clock),
            cache_file=cache_file,
            retry=retry,
            strict=strict,
            scope=_checked_scope(scope),
            clock=clock,
            sleep=sleep,
            random=random,
        )
        self._consumer_type = claims.check_consumer_type(consumer_type)
        self._calls = Calls(self._transport, self._engine)
        self._locks = TreeLocks()
        self._reader = TreeReader(self._engine, self._locks)
        self._single = SingleProvider(self._engine, self._locks, self._reader)
        self._flusher = Flusher(self._engine, self._locks)
        self._reporter = Reporter(self._engine, self._reader, self._flusher)
        # Nodes have threads of their own: their passes wait for requests.
        self._nodes = Workers(max_workers, "reportclient-node")
        self._fleet = Fleet(self._engine, self._calls, self._reader, self._reporter, self._nodes)
        _clients.add(self)

    def close(self) -> None:
        """End the threads, close the connections, write the cache file."""
        if self._engine.cache_file is not None:
            self._engine.cache_file.save()
        self._nodes.close()
        self._engine.workers.close()
        self._transport.close()

    def __enter__(self) -> ReportClient:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    # -- the pass of an agent -------------------------------------------------

    def report(
        self,
        context: Context | None,
        rp_uuid: str,
        name: str,
        driver: Driver,
        startup: bool = False,
        *,
        parent_provider_uuid: str | None = None,
    ) -> SyncResult:
        """Read the tree, let the driver edit it, send what the driver changed.

        A normal return guarantees that Placement held all that the driver
        wants, merged with what others wrote meanwhile, except what the
        result names as kept, pending or left out. An unchanged pass that is
        not due costs no request; one that is due costs one listing of the
        tree (and one of the sharing providers, if there are aggregates).

        A root that Placement does not have is created by the flush, that is
        after the driver has answered.

        :param context: an object with ``global_id``, or ``None``.
        :param rp_uuid: UUID of the root (or of any provider of its tree).
        :param name: its name, which is also the ``nodename`` that the driver
            gets. A provider that has another name is renamed.
        :param driver: an object with ``update_provider_tree``.
        :param startup: whether this is the first pass after a start. Only
            then may a driver ask for a reshape.
        :param parent_provider_uuid: the parent, should it have to be created.
        :returns: what was done, provider by provider.
        :raises DriverNotReady: the driver's; nothing was written.
        :raises ReshapeNeeded: the driver's, outside start-up; nothing was
            written.
        :raises InvalidInput: the driver's tree has faults; nothing was sent.
        :raises MassRemovalRefused: the driver's tree lost all its providers.
        :raises PlacementReshapeConflict: reading everything again and running
            the driver again did not settle a reshape.
        :raises ReshapeFailed: a reshape was refused; nothing of it was done.
        :raises ResourceProviderUpdateConflict: another writer wants other
            values, and running the driver again did not settle it.
        :raises ResourceProviderSyncFailed: some provider failed; ``result``
            says what was done.
        :raises PlacementUnavailable: Placement could not be reached.
        """
        rp_uuid = validation.normalise_uuid(rp_uuid, field="rp_uuid")
        validation.check_name(name, provider=rp_uuid)
        call = self._calls.begin(context)
        node = Node(rp_uuid, name, parent_provider_uuid)
        result = SyncResult()
        with self._calls.accounted(call, result):
            self._reporter.report(node, driver, call.api, result, startup=startup)
        return result

    def report_many(
        self,
        context: Context | None,
        nodes: Iterable[tuple[str, str]],
        driver: Driver,
        startup: bool = False,
        *,
        progress: Callable[[str, SyncResult], None] | None = None,
    ) -> dict[str, SyncResult]:
        """`report` for an agent's many nodes, each a root of its own.

        The trees that are due are read first, all of them with one listing
        (from ten on), then the nodes are reported side by side, up to
        ``max_workers`` at once. What happens to one does not stop the others.

        :param nodes: UUID and name of each.
        :param driver: is called for every node, by several threads at once
            unless ``max_workers`` is 1.
        :param progress: called with a node's UUID and result when it is done.
        :returns: one result for each node, by UUID. A node whose pass raised
            has the exception as ``error``.
        :raises InvalidInput: a UUID or name is none; nothing was done.
        :raises PlacementUnavailable, ResourceProviderRetrievalFailed: the
            listing failed, and with it every node.
        """
        wanted = []
        for given, name in nodes:
            uuid = validation.normalise_uuid(given, field="rp_uuid")
            wanted.append(Node(uuid, validation.check_name(name, provider=uuid)))
        return self._fleet.report(context, wanted, driver, startup, progress)

    def plan_report(
        self,
        context: Context | None,
        rp_uuid: str,
        name: str,
        driver: Driver,
        *,
        parent_provider_uuid: str | None = None,
    ) -> Plan:
        """What `report` would do. The driver is run; nothing is written.

        :raises: as `report`, as far as it gets.
        """
        rp_uuid = validation.normalise_uuid(rp_uuid, field="rp_uuid")
        validation.check_name(name, provider=rp_uuid)
        node = Node(rp_uuid, name, parent_provider_uuid)
        return self._reporter.plan(node, driver, self._calls.begin(context).api)

    def get_provider_tree_and_ensure_root(
        self,
        context: Context | None,
        rp_uuid: str,
        name: str | None = None,
        parent_provider_uuid: str | None = None,
    ) -> ProviderTree:
        """The tree of a provider, which is created if Placement lacks it.

        A normal return guarantees that Placement has the provider, under the
        name and parent given (if they were given), and that the tree holds
        all providers of its tree and, as lone roots, the sharing providers
        of its aggregates, as fresh as ``refresh_interval`` asks. The tree is
        the caller's own; making it costs the same however large it is.

        :param rp_uuid: UUID of any provider of the tree.
        :param name: name for a provider that has to be created (default: its
            UUID); one that has another name is renamed.
        :param parent_provider_uuid: likewise the parent; moving needs
            microversion 1.37.
        :raises ResourceProviderNameConflict: another provider has the name.
        :raises ParentProviderNotFound: there is no such parent.
        :raises ResourceProviderCreationFailed, ResourceProviderRetrievalFailed:
            Placement refused.
        :raises PlacementUnavailable: it could not be reached; what was known
            stays known.
        """
        rp_uuid = validation.normalise_uuid(rp_uuid, field="rp_uuid")
        if name is not None:
            validation.check_name(name, provider=rp_uuid)
        call = self._calls.begin(context)
        snapshot = self._reader.fresh_snapshot(call.api, rp_uuid)
        wanted = snapshot.records[rp_uuid] if snapshot else None
        parent = parent_provider_uuid and validation.normalise_uuid(
            parent_provider_uuid, field="parent_provider_uuid"
        )
        if (
            wanted is None
            or (name is not None and wanted.name != name)
            or (parent is not None and wanted.parent_uuid != parent)
        ):
            self._single.ensure(call.api, rp_uuid, name, parent)
            snapshot = self._reader.fresh_snapshot(call.api, rp_uuid)
        if snapshot is None:
            raise exceptions.ResourceProviderRetrievalFailed(
                f"Provider {rp_uuid} went away while it was being read.", provider=rp_uuid
            )
        return ProviderTree.from_snapshot(snapshot, base=snapshot)

    def get_provider_subtree_and_ensure_root(
        self,
        context: Context | None,
        rp_uuid: str,
        name: str | None = None,
        parent_provider_uuid: str | None = None,
    ) -> ProviderSubTree:
        """As `get_provider_tree_and_ensure_root`, as a `ProviderSubTree`.

        A tree here is never more than one provider's tree, so the two differ
        in type only. nova's loses the sharing providers; this one keeps them.
        """
        tree = self.get_provider_tree_and_ensure_root(
            context, rp_uuid, name=name, parent_provider_uuid=parent_provider_uuid
        )
        return ProviderSubTree.scoped(rp_uuid, tree)

    def update_from_provider_tree(
        self,
        context: Context | None,
        new_tree: ProviderTree,
        allocations: Mapping[str, Any] | None = None,
        *,
        dry_run: bool = False,
    ) -> SyncResult | Plan:
        """Send to Placement what was changed in a tree since it was handed out.

        A normal return guarantees what `report` guarantees, and what was sent
        is the tree's base from then on. A tree built by hand is compared with
        what this client knows of the roots that it holds.

        :param new_tree: the tree as it should be.
        :param allocations: a reshape: consumer UUID -> all that it holds, in
            the shape that `get_allocations_for_provider_tree` has. Inventories
            and these allocations are written in one transaction.
        :param dry_run: send no write, and return the `Plan`.
        :returns: what was done; with ``dry_run`` what would be.
        :raises: as `report`.
        """
        call = self._calls.begin(context)
        if dry_run:
            return self._flusher.plan(new_tree, call.api)
        result = SyncResult()
        moved = None if allocations is None else allocations_.from_dict(allocations)
        with self._calls.accounted(call, result):
            self._flusher.flush(new_tree, call.api, result, moved)
        return result

    def refresh(self, uuids: Iterable[str], context: Context | None = None) -> None:
        """List the trees of some providers now, whether they are due or not.

        :raises ReportClientError: one of them could not be read; the others
            are up to date.
        """
        normal = [validation.normalise_uuid(uuid) for uuid in uuids]
        failed = self._reader.refresh(self._calls.begin(context).api, normal)
        for error in failed.values():
            raise error

    # -- one aspect of one provider ---------------------------------------------

    def set_inventory_for_provider(
        self, context: Context | None, rp_uuid: str, inv_data: Inventory | None
    ) -> None:
        """Make ``inv_data`` the inventory of a provider that exists.

        Compared with what the cache believes: classes that are not in
        ``inv_data`` are removed, except those that somebody added since.

        :param inv_data: resource class -> record; ``None`` or empty for none.
        :raises InvalidInput: before any request.
        :raises InventoryInUse: classes in use stay; the rest was written.
        :raises ResourceProviderNotFound: there is no such provider.
        :raises ResourceProviderUpdateConflict: a real clash.
        :raises ResourceProviderUpdateFailed, PlacementUnavailable: see there.
        """
        mine = validation.normalise_inventory(inv_data or {}, provider=str(rp_uuid))
        result = self._set_aspect(context, rp_uuid, Aspect.INVENTORY, mine)
        if result.kept is not None:
            raise result.kept

    def set_traits_for_provider(
        self,
        context: Context | None,
        rp_uuid: str,
        traits: Iterable[str],
        generation: Generation | None = None,
    ) -> None:
        """Make ``traits`` the traits of a provider that exists.

        Without a generation as `set_inventory_for_provider`: traits that
        somebody added since the cache was read survive. With one, exactly
        ``traits`` is written, guarded by that generation, and a conflict is
        the caller's: it is not retried.

        :raises ResourceProviderUpdateConflict: ``generation`` is outdated.
        :raises TraitCreationFailed: a custom trait could not be created.
        :raises UnknownTrait: with ``generation``, or with ``strict``.
        :raises: otherwise as `set_inventory_for_provider`.
        """
        mine = validation.normalise_traits(traits, provider=str(rp_uuid))
        self._set_aspect(context, rp_uuid, Aspect.TRAITS, mine, generation=generation)

    def set_aggregates_for_provider(
        self,
        context: Context | None,
        rp_uuid: str,
        aggregates: Iterable[str],
        use_cache: bool = True,
        generation: Generation | None = None,
    ) -> None:
        """Make ``aggregates`` the aggregates of a provider that exists.

        :param use_cache: False: neither the cache is looked at nor updated;
            then ``generation`` is required.
        :param generation: as in `set_traits_for_provider`.
        :raises ValueError: ``use_cache=False`` without a generation.
        :raises: otherwise as `set_traits_for_provider`.
        """
        if not use_cache and generation is None:
            raise ValueError("use_cache=False needs a generation")
        mine = validation.normalise_aggregates(aggregates, provider=str(rp_uuid))
        self._set_aspect(
            context,
            rp_uuid,
            Aspect.AGGREGATES,
            mine,
            generation=generation,
            use_cache=use_cache,
        )

    # -- reading --------------------------------------------------------------

    def get_providers_in_tree(self, context: Context | None, uuid: str) -> list[dict[str, Any]]:
        """The providers of a tree as Placement lists them now.

        :returns: dicts with ``uuid``, ``name``, ``generation``,
            ``parent_provider_uuid`` and ``root_provider_uuid``; empty if there
            is no such provider.
        :raises ResourceProviderRetrievalFailed, PlacementUnavailable: see there.
        """
        uuid = validation.normalise_uuid(uuid)
        listing = self._calls.begin(context).api.list_providers(in_tree=uuid)
        return [summary.to_dict() for summary in listing.providers]

    def get_provider_traits(self, context: Context | None, rp_uuid: str) -> TraitInfo:
        """The traits of a provider as Placement has them now.

        :raises ResourceProviderNotFound: there is no such provider.
        :raises ResourceProviderTraitRetrievalFailed: Placement refused.
        :raises PlacementUnavailable: it could not be reached.
        """
        answer = self._calls.begin(context).api.get_traits(validation.normalise_uuid(rp_uuid))
        return TraitInfo(answer.value, answer.generation)

    def get_provider_by_name(self, context: Context | None, name: str) -> dict[str, Any]:
        """The provider that has a name, as Placement has it now.

        Some databases compare names without case; a provider that has the
        name in another spelling is not the one asked for.

        :returns: a dict with ``uuid``, ``name``, ``generation``,
            ``parent_provider_uuid`` and ``root_provider_uuid``.
        :raises ResourceProviderNotFound: there is none; quotes the name.
        :raises ResourceProviderRetrievalFailed, PlacementUnavailable: see there.
        """
        return by_name(self._calls.begin(context).api, name).to_dict()

    def get_resource_provider_name(self, context: Context | None, uuid: str) -> str:
        """The name of a provider as Placement has it now.

        :raises ResourceProviderNotFound: there is no such provider.
        :raises ResourceProviderRetrievalFailed, PlacementUnavailable: see there.
        """
        uuid = validation.normalise_uuid(uuid)
        return self._calls.begin(context).api.get_provider(uuid).name

    # -- names ----------------------------------------------------------------

    def ensure_traits(self, context: Context | None, names: Iterable[str]) -> None:
        """Create the custom traits among ``names`` that Placement does not have.

        Flushes do this by themselves; it is for names that are asked for in
        queries before anybody has reported them.

        :raises InvalidTrait: before any request.
        :raises TraitCreationFailed, TraitRetrievalFailed,
            PlacementUnavailable: see there.
        """
        traits = validation.normalise_traits(names)
        self._engine.names.ensure_traits(
            self._calls.begin(context).api, traits, self._engine.workers
        )

    def ensure_resource_classes(self, context: Context | None, names: Iterable[str]) -> None:
        """Create the custom resource classes that Placement does not have.

        :raises InvalidResourceClass: before any request.
        :raises ResourceClassCreationFailed, ResourceClassRetrievalFailed,
            PlacementUnavailable: see there.
        """
        classes = [validation.check_resource_class(name) for name in names]
        self._engine.names.ensure_classes(self._calls.begin(context).api, classes)

    def delete_traits(self, context: Context | None, names: Iterable[str]) -> frozenset[str]:
        """Delete custom traits that no provider has any more.

        Those that are in use, or not there, are left as they are.

        :returns: the traits that were deleted.
        :raises InvalidTrait: before any request.
        :raises OperationFailed: one is a standard trait.
        :raises PlacementUnavailable: Placement could not be reached.
        """
        api = self._calls.begin(context).api
        deleted = set()
        for name in sorted(validation.normalise_traits(names)):
            try:
                api.delete_trait(name)
                deleted.add(name)
            except exceptions.PlacementAPIConflict as error:
                LOG.debug("Trait %s stays: %s", name, error)
            except exceptions.OperationFailed as error:
                if error.status != 404:
                    raise
        self._engine.names.forget_traits(deleted)
        return frozenset(deleted)

    # -- removing and forgetting ------------------------------------------------

    def delete_resource_provider(
        self, context: Context | None, compute_node: Any, cascade: bool = False
    ) -> SyncResult:
        """Delete a provider and all below it, from the leaves up.

        The tree is listed first, so providers that this process has never
        seen are deleted too. What cannot be deleted does not stop the rest.

        :param compute_node: a UUID, or an object that has one as ``uuid``.
        :param cascade: take the allocations on these providers away first.
            The consumers' allocations elsewhere stay.
        :returns: what was deleted; a provider that was gone already is.
        :raises ResourceProviderInUse: a provider has allocations (and names
            their consumers); ``result`` says what was deleted and what stays.
        :raises ResourceProviderSyncFailed: something else went wrong.
        :raises PlacementUnavailable: Placement could not be reached.
        """
        uuid = validation.normalise_uuid(getattr(compute_node, "uuid", compute_node))
        call = self._calls.begin(context)
        result = SyncResult()
        root = self._engine.cache.root_of(uuid) or uuid
        with self._calls.accounted(call, result), self._locks.held([root]):
            listing = call.api.list_providers(in_tree=uuid).providers
            removal.delete_below(uuid, listing, call.api, self._engine, result, cascade=cascade)
        return result

    def invalidate_resource_provider(self, name_or_uuid: str, cacheonly: bool = False) -> None:
        """Have the tree of a provider listed before it is used again.

        :param cacheonly: False: also forget all that was read of the tree, so
            that everything is read afresh; True: keep what turns out current.
        """
        uuid = self._engine.cache.find(validation.uuid_or_text(name_or_uuid))
        if uuid is None:
            return
        if cacheonly:
            self._engine.cache.make_due(uuid)
        else:
            self._engine.cache.forget(uuid)

    def clear_provider_cache(self, init: bool = False) -> None:
        """Forget everything that was read.

        :param init: nova's; has no meaning here.
        """
        del init
        self._engine.cache.clear()
        self._engine.names.clear()

    def cached_entries(self) -> int:
        """How many entries the cache's tables hold: to watch a long-running agent."""
        return self._engine.cache.size()

    # -- inside ---------------------------------------------------------------

    def _set_aspect(
        self, context: Context | None, rp_uuid: str, aspect: Aspect, mine: Any, **how: Any
    ) -> ProviderResult:
        call, result = self._calls.begin(context), SyncResult()
        with self._calls.accounted(call, result):
            return self._single.set_aspect(call.api, result, rp_uuid, aspect, mine, **how)


def _checked_scope(scope: Scope | None) -> Scope | None:
    if scope is None:
        return None
    if not isinstance(scope, Scope):
        raise ValueError(f"scope is {scope!r}, which is no Scope")
    members = validation.normalise_aggregates(scope.member_of)
    required = validation.normalise_traits(scope.required)
    return Scope(members, required) if members or required else None


def _check_settings(**settings: tuple[object, float]) -> None:
    for name, (value, lowest) in settings.items():
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not value >= lowest:  # type: ignore[operator]  # it is a number
            raise ValueError(f"{name} is {value!r}, which is not a number of {lowest} or more")


def _renew_locks() -> None:
    for client in list(_clients):
        client._engine.renew_locks()
        client._nodes.renew_lock()
        client._transport.renew_lock()


#: After a fork the child's locks may be held by threads that did not come along.
_clients: weakref.WeakSet[ReportClient] = weakref.WeakSet()
os.register_at_fork(after_in_child=_renew_locks)
