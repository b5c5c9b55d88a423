# SPDX-License-Identifier: Apache-2.0
"""Creating, adopting, renaming, moving and deleting a provider."""

from __future__ import annotations

import functools
from collections.abc import Callable

from reportclient import exceptions, text
from reportclient.api import PlacementAPI
from reportclient.cache import CachedProvider
from reportclient.engine import Engine
from reportclient.plan import CreateProvider, DeleteProvider, MoveProvider, RenameProvider
from reportclient.refresh import read_aspect
from reportclient.result import SyncResult
from reportclient.types import ASPECTS, ProviderRecord, ProviderSummary

__all__ = ["ProviderKeeper"]

LOG = text.logger(__name__)


class ProviderKeeper:
    """Does one thing to one provider, and settles what is in the way.

    Every method raises what it cannot settle: `PlacementUnavailable` kinds,
    `OperationFailed` kinds, and what is said of each.
    """

    def __init__(self, api: PlacementAPI, engine: Engine, result: SyncResult) -> None:
        self._api = api
        self._engine = engine
        self._result = result

    def create(self, operation: CreateProvider) -> None:
        """Create a provider, or adopt the one that has its UUID already.

        An adopted provider is read fully, and gets the name and parent that
        were asked for.

        :raises ResourceProviderNameConflict: another provider has the name.
        :raises ParentProviderNotFound: the parent does not exist.
        """
        self._settled(operation, functools.partial(self._create, operation))

    def rename(self, operation: RenameProvider) -> None:
        """Give a provider another name.

        :raises ResourceProviderNameConflict: another provider has the name.
        :raises ResourceProviderNotFound: there is no such provider.
        """
        self._settled(operation, functools.partial(self._rename, operation))

    def move(self, operation: MoveProvider) -> None:
        """Put a provider under another parent.

        :raises MicroversionNotSupported: Placement is older than 1.37.
        :raises ResourceProviderNotFound: there is no such provider.
        """
        self._settled(operation, functools.partial(self._move, operation))

    def delete(self, operation: DeleteProvider) -> None:
        """Delete a provider. One that is gone already is deleted.

        A provider with allocations or children stays; the result has it as
        pending, and it is not a failure.
        """
        self._settled(operation, functools.partial(self._delete, operation))

    def _settled(
        self,
        operation: CreateProvider | RenameProvider | MoveProvider | DeleteProvider,
        step: Callable[[bool], None],
    ) -> None:
        """Run a step until its outcome is known; it is told of a lost answer."""
        retrying, settling = self._engine.settling()

        def attempt() -> None:
            try:
                step(settling.lost > 0)
            except exceptions.ReportClientError as error:
                if isinstance(error, exceptions.ConcurrentUpdate):
                    self._result.count_conflict()
                elif error.outcome_unknown:
                    # Whatever was sent, the tree may not be as we believe.
                    self._engine.cache.make_due(operation.uuid)
                raise

        retrying(attempt)

    # -- create -------------------------------------------------------------

    def _create(self, operation: CreateProvider, answer_lost: bool) -> None:
        if answer_lost and self._adopt(operation):
            return
        try:
            summary = self._api.create_provider(
                operation.uuid, operation.name, operation.parent_uuid
            )
        except exceptions.DuplicateProvider as error:
            if not self._adopt(operation):
                raise self._name_conflict(operation.uuid, operation.name, error) from error
            return
        self._remember(CachedProvider.just_created(summary))
        self._result.of(operation.uuid, operation.name).created = True
        LOG.info(
            "Created %s (%s); generation %s [%s].",
            summary.name,
            summary.uuid,
            summary.generation,
            self._api.ids(),
        )

    def _adopt(self, operation: CreateProvider) -> bool:
        """Take over the provider that has the UUID; False if there is none."""
        try:
            summary = self._api.get_provider(operation.uuid)
        except exceptions.ResourceProviderNotFound:
            return False
        result = self._result.of(operation.uuid, operation.name)
        result.adopted = True
        if summary.name != operation.name:
            result.old_name = summary.name
            summary = self._update(summary.uuid, operation.name)
        if summary.parent_uuid != operation.parent_uuid:
            summary = self._api.update_provider(
                summary.uuid, name=summary.name, parent_uuid=operation.parent_uuid
            )
            result.moved = True
        provider = CachedProvider(
            ProviderRecord(summary.uuid, summary.name, summary.parent_uuid, summary.generation)
        )
        for aspect in ASPECTS:
            provider = read_aspect(self._api, provider, aspect)
        self._remember(provider)
        # It may have children that nobody here has seen.
        self._engine.cache.make_due(operation.uuid)
        LOG.info("Adopted %s (%s), which was there already.", summary.name, summary.uuid)
        return True

    def _remember(self, provider: CachedProvider) -> None:
        cache, record = self._engine.cache, provider.record
        root = cache.root_of(record.parent_uuid) if record.parent_uuid else record.uuid
        if cache.root_of(record.uuid) not in (None, root):
            cache.forget(record.uuid)
        if root is not None:
            cache.add(root, provider, due_at=self._engine.refresher.next_due())

    def _name_conflict(
        self, uuid: str, name: str, error: exceptions.PlacementError
    ) -> exceptions.ResourceProviderCreationFailed:
        """Say who has the name. The holder is never renamed or deleted."""
        holders = [
            holder
            for holder in self._api.list_providers(name=name).providers
            if holder.uuid != uuid
        ]
        if not holders:
            # The holder went away in between; the next pass will do.
            return exceptions.ResourceProviderCreationFailed(
                f"{name} ({uuid}) was refused as a duplicate, and is none any more: {error}",
                provider=uuid,
                **error.facts,
            )
        holder = holders[0]
        consumers = self._consumers(holder.uuid)
        users = "unknown" if consumers is None else len(consumers)
        conflict = exceptions.ResourceProviderNameConflict(
            f"The name {name!r}, wanted for {uuid}, belongs to provider {holder.uuid} "
            f"({holder.name!r}; consumers with allocations there: {users}).",
            provider=uuid,
            **error.facts,
        )
        conflict.name, conflict.holder, conflict.holder_consumers = (
            holder.name,
            holder.uuid,
            consumers,
        )
        return conflict

    def _consumers(self, uuid: str) -> tuple[str, ...] | None:
        try:
            return tuple(sorted(self._api.get_provider_allocations(uuid).consumers))
        except exceptions.ReportClientError as error:
            LOG.debug("The consumers of %s could not be read: %s", uuid, error)
            return None

    # -- rename and move ------------------------------------------------------

    def _update(self, uuid: str, name: str) -> ProviderSummary:
        try:
            return self._api.update_provider(uuid, name=name)
        except exceptions.DuplicateProvider as error:
            raise self._name_conflict(uuid, name, error) from error

    def _rename(self, operation: RenameProvider, answer_lost: bool) -> None:
        summary = self._api.get_provider(operation.uuid) if answer_lost else None
        if summary is None or summary.name != operation.name:
            summary = self._update(operation.uuid, operation.name)
        self._note_summary(summary)
        result = self._result.of(operation.uuid, operation.name)
        result.name, result.old_name = operation.name, result.old_name or operation.old_name
        LOG.info(
            "Renamed %s to %s (%s) [%s].",
            operation.old_name,
            operation.name,
            operation.uuid,
            self._api.ids(),
        )

    def _move(self, operation: MoveProvider, answer_lost: bool) -> None:
        summary = self._api.get_provider(operation.uuid) if answer_lost else None
        if summary is None or summary.parent_uuid != operation.parent_uuid:
            summary = self._api.update_provider(
                operation.uuid, name=operation.name, parent_uuid=operation.parent_uuid
            )
        # Whole subtrees change trees: both are listed before they are used.
        cache = self._engine.cache
        for uuid in (operation.uuid, operation.parent_uuid):
            if uuid is not None:
                cache.make_due(uuid)
        self._note_summary(summary)
        self._result.of(operation.uuid, operation.name).moved = True
        LOG.info(
            "Moved %s (%s) from %s to %s [%s].",
            operation.name,
            operation.uuid,
            operation.old_parent_uuid,
            operation.parent_uuid,
            self._api.ids(),
        )

    def _note_summary(self, summary: ProviderSummary) -> None:
        provider = self._engine.cache.provider(summary.uuid)
        if provider is not None:
            self._engine.cache.update(provider.seen(summary), wrote=True)

    # -- delete -----------------------------------------------------------------

    def _delete(self, operation: DeleteProvider, answer_lost: bool) -> None:
        del answer_lost  # Deleting again tells: what is gone is 404.
        result = self._result.of(operation.uuid, operation.name)
        key = f"pending {operation.uuid}"
        try:
            self._api.delete_provider(operation.uuid)
        except exceptions.ResourceProviderNotFound:
            LOG.debug("%s (%s) was deleted already.", operation.name, operation.uuid)
        except (exceptions.ResourceProviderInUse, exceptions.CannotDeleteParent) as error:
            result.pending = self._pending(operation, error)
            self._engine.notices.warn(key, str(result.pending))
            return
        self._engine.cache.remove(operation.uuid)
        result.deleted = True
        self._engine.notices.recovered(key, f"{operation.name} could be deleted now.")
        LOG.info("Deleted %s (%s) [%s].", operation.name, operation.uuid, self._api.ids())

    def _pending(
        self, operation: DeleteProvider, error: exceptions.PlacementAPIConflict
    ) -> exceptions.PlacementAPIConflict:
        what = f"{operation.name} ({operation.uuid}) cannot be deleted yet"
        if isinstance(error, exceptions.CannotDeleteParent):
            return exceptions.CannotDeleteParent(
                f"{what}: it has children that this agent did not make.",
                provider=operation.uuid,
                **error.facts,
            )
        consumers = self._consumers(operation.uuid)
        in_use = exceptions.ResourceProviderInUse(
            f"{what}: allocations of consumers {', '.join(consumers or ('unknown',))} hold it.",
            provider=operation.uuid,
            **error.facts,
        )
        in_use.consumers = consumers or ()
        return in_use
