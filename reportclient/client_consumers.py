# SPDX-License-Identifier: Apache-2.0
"""The part of the facade about consumers and what they hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from reportclient import allocations as allocations_
from reportclient import audit, claiming, claims, consumers, exceptions, validation
from reportclient.api import PlacementAPI
from reportclient.audit import AuditResult, HealResult, Known
from reportclient.client_base import ClientBase
from reportclient.shapes import Usages
from reportclient.single import by_name
from reportclient.types import Context

__all__ = ["ConsumerCalls", "ProviderAllocInfo"]

#: Provider UUID -> ``{"resources": {class: amount}}``, or without the
#: ``"resources"`` in between.
_Resources = Mapping[str, Mapping[str, Any]]


class ProviderAllocInfo(NamedTuple):
    """Who holds what of a provider.

    :ivar allocations: consumer UUID -> ``{"resources": {class: amount}}``.
    """

    allocations: dict[str, dict[str, dict[str, int]]]


class ConsumerCalls(ClientBase):
    """Reading, claiming, moving and giving up what consumers hold.

    All that is written is guarded by the consumers' generations (microversion
    1.28); nothing is cached.
    """

    # -- reading ----------------------------------------------------------------

    def get_allocs_for_consumer(self, context: Context | None, consumer: str) -> dict[str, Any]:
        """What a consumer holds, as Placement answers it (1.38, or the newest it has).

        :returns: ``{"allocations": {provider UUID: {"resources": {class:
            amount}, "generation"}}, "project_id", "user_id",
            "consumer_generation", "consumer_type"}``; the type from 1.38 on.
            For a consumer that holds nothing, or that Placement does not
            know, ``{"allocations": {}}`` and no other key.
        :raises InvalidUUID: before any request.
        :raises ConsumerAllocationRetrievalFailed: Placement refused.
        :raises MicroversionNotSupported: the server is older than 1.28.
        :raises PlacementUnavailable: it could not be reached.
        """
        uuid = claims.consumer_uuid(consumer, "consumer")
        return self._calls.begin(context).api.get_raw_allocations(uuid)

    def get_allocations_for_consumer(
        self, context: Context | None, consumer: str
    ) -> dict[str, dict[str, Any]]:
        """What a consumer holds, by provider.

        :returns: provider UUID -> ``{"resources": {class: amount},
            "generation"}``; empty for a consumer that holds nothing.
        :raises: as `get_allocs_for_consumer`.
        """
        uuid = claims.consumer_uuid(consumer, "consumer")
        held = self._calls.begin(context).api.get_allocations(uuid)
        return {
            provider: {"resources": dict(amounts), "generation": held.generations.get(provider)}
            for provider, amounts in held.resources.items()
        }

    def get_allocations_for_resource_provider(
        self, context: Context | None, rp_uuid: str
    ) -> ProviderAllocInfo:
        """Who holds what of one provider.

        :raises InvalidUUID: before any request.
        :raises ResourceProviderNotFound: there is no such provider.
        :raises ResourceProviderAllocationRetrievalFailed: Placement refused.
        :raises PlacementUnavailable: it could not be reached.
        """
        uuid = validation.normalise_uuid(rp_uuid, field="rp_uuid")
        held = self._calls.begin(context).api.get_provider_allocations(uuid)
        return ProviderAllocInfo(
            {consumer: {"resources": dict(part)} for consumer, part in held.consumers.items()}
        )

    def get_allocations_for_provider_tree(
        self, context: Context | None, nodename: str
    ) -> dict[str, dict[str, Any]]:
        """All that the consumers of a tree hold, there and elsewhere.

        The tree is that of the provider that has the name, and the sharing
        providers of its aggregates are in it. Each consumer is read once.

        :returns: consumer UUID -> ``{"allocations": {provider UUID:
            {"resources": {class: amount}}}, "project_id", "user_id",
            "consumer_generation"}``: what a driver's ``update_provider_tree``
            takes, and `update_from_provider_tree` takes back.
        :raises ResourceProviderNotFound: no provider has the name.
        :raises ResourceProviderAllocationRetrievalFailed: Placement refused.
        :raises ConsumerAllocationRetrievalFailed: likewise, for a consumer.
        :raises PlacementUnavailable: it could not be reached.
        """
        call = self._calls.begin(context)
        uuid = self._engine.cache.find(nodename) or by_name(call.api, nodename).uuid
        snapshot = self._reader.fresh_snapshot(call.api, uuid)
        uuids = [] if snapshot is None else list(snapshot.records)
        return allocations_.to_dict(allocations_.of_providers(call.api, self._engine, uuids))

    def get_usages(
        self,
        context: Context | None,
        project_id: str,
        user_id: str | None = None,
        consumer_type: str | None = None,
    ) -> Usages:
        """How much a project, or one user in it, holds of each class.

        :param consumer_type: count only consumers of this type (1.38);
            ``"unknown"``: those without a type.
        :returns: the sums, and from 1.38 on how many consumers there are, and
            both for each type; nothing at all for a project that holds nothing
            or that Placement does not know. A Placement that fails at types,
            as it does on PostgreSQL, is asked for the sums alone.
        :raises InvalidAllocation: a value that Placement would refuse.
        :raises MicroversionNotSupported: the server is older than 1.9; with
            ``consumer_type`` than 1.38.
        :raises UsagesRetrievalFailed: Placement refused.
        :raises PlacementUnavailable: it could not be reached.
        """
        claims.owner(None, "project_id", project_id)
        if user_id is not None:
            claims.owner(None, "user_id", user_id)
        claims.check_consumer_type(consumer_type)
        return self._calls.begin(context).api.get_usages(project_id, user_id, consumer_type)

    def get_usages_counts_for_limits(
        self, context: Context | None, project_id: str
    ) -> dict[str, int]:
        """How much a project holds of each class: for unified limits.

        :returns: class -> amount, ``VCPU`` and ``PCPU`` each by itself; a
            class of which nothing is held is not there.
        :raises: as `get_usages`.
        """
        claims.owner(None, "project_id", project_id)
        api = self._calls.begin(context).api
        return dict(api.get_usages(project_id, typed=False).resources)

    def get_usages_counts_for_quota(
        self, context: Context | None, project_id: str, user_id: str | None = None
    ) -> dict[str, dict[str, int]]:
        """How many cores and how much memory a project holds: for legacy quota.

        :returns: ``{"project": {"cores", "ram"}}``, and with a ``user_id``
            ``"user"`` likewise. Cores are ``VCPU`` and ``PCPU`` together,
            ``ram`` is ``MEMORY_MB``.
        :raises: as `get_usages`.
        """
        claims.owner(None, "project_id", project_id)
        api = self._calls.begin(context).api
        counts = {"project": _cores_and_ram(api, project_id, None)}
        if user_id:
            claims.owner(None, "user_id", user_id)
            counts["user"] = _cores_and_ram(api, project_id, user_id)
        return counts

    # -- writing ----------------------------------------------------------------

    def claim_resources(
        self,
        context: Context | None,
        consumer_uuid: str,
        alloc_request: Mapping[str, Any],
        project_id: str,
        user_id: str,
        allocation_request_version: str,
        consumer_generation: object = None,
        *,
        consumer_type: str | None = None,
    ) -> bool:
        """Have a consumer hold what an allocation candidate offers.

        A normal return guarantees that the consumer held it, and what it held
        already beside that. It may hold something while an evacuation goes
        on; what it holds of a provider stays as it is then, and the request
        adds the providers that it holds nothing of, so that a sharing
        provider is not counted twice (nova's rule; Launchpad bugs 1707252 and
        1790204). For a cold migration or a resize, also to the same host,
        `move_allocations` to the migration's UUID comes first: the instance
        holds nothing then, and Placement counts both sides, for both are
        there.

        :param alloc_request: one of ``allocation_requests``; may have a
            ``consumer_generation``, then that counts. It is not changed.
        :param allocation_request_version: the microversion that it is of. All
            forms are understood, and it is always sent with a guard.
        :param consumer_generation: of the consumer as the caller knows it;
            not given: as it is found.
        :param consumer_type: of the consumer, if it is new or has none
            (default: the client's setting).
        :returns: True. All else is raised, where nova returns False or None.
        :raises InvalidAllocation, InvalidUUID, InvalidResourceClass: before
            any request; names the field and the value.
        :raises CapacityExceeded: there is not so much left; not tried again.
        :raises AllocationDoesNotFit: no inventory of a class, or not in such
            amounts.
        :raises ConsumerConflict: somebody else changed the consumer (or made
            it); tells what was wanted and what Placement holds.
        :raises ConcurrentUpdate: the providers never stopped changing.
        :raises UnknownResourceClass: Placement lacks a class.
        :raises AllocationUpdateFailed: Placement refused: for instance, there
            is no such provider.
        :raises MicroversionNotSupported: the server is older than 1.28.
        :raises PlacementUnavailable: it could not be reached.
        """
        consumer = claims.consumer_uuid(consumer_uuid)
        claims.check_version(consumer, allocation_request_version)
        asked = claiming.Claim.of(
            consumer,
            alloc_request,
            project_id,
            user_id,
            consumer_generation,
            consumer_type or self._consumer_type,
        )
        claiming.claim(self._calls.begin(context).api, self._engine, asked)
        return True

    def put_allocations(
        self, context: Context | None, consumer_uuid: str, payload: Mapping[str, Any]
    ) -> bool:
        """Make ``payload`` all that a consumer holds.

        A normal return guarantees that Placement held it. What
        `get_allocs_for_consumer` returns can be changed and given back as it
        is. Amounts of zero are left out, and with them providers that nothing
        is held of; nothing at all deletes the consumer.

        :param payload: as ``PUT /allocations/{uuid}`` takes it, with a
            ``consumer_generation`` (``None`` for a new consumer). A
            ``consumer_type`` of "unknown" counts as none.
        :returns: True. All else is raised, where nova returns False.
        :raises ConsumerConflict: the generation is outdated; not tried again.
        :raises: otherwise as `claim_resources`.
        """
        consumer = claims.consumer_uuid(consumer_uuid)
        wanted = claims.with_type(claims.payload(consumer, payload), self._consumer_type)
        api = self._calls.begin(context).api
        consumers.store(api, self._engine, {consumer: wanted})
        return True

    def post_allocations(
        self, context: Context | None, allocations: Mapping[str, Mapping[str, Any]]
    ) -> bool:
        """Make these all that some consumers hold, in one transaction.

        A normal return guarantees that Placement held all of it. Otherwise
        nothing of it was written (but see ``outcome_unknown`` of what is
        raised).

        :param allocations: consumer UUID -> what `put_allocations` takes.
            Types (1.38) are written if every consumer has one, from its
            payload or by the client's setting.
        :returns: True.
        :raises: as `put_allocations`.
        """
        wanted = claims.payloads(allocations, self._consumer_type)
        engine = self._engine
        consumers.store(self._calls.begin(context).api, engine, wanted, workers=engine.workers)
        return True

    def move_allocations(
        self,
        context: Context | None,
        source_consumer_uuid: str,
        target_consumer_uuid: str,
        *,
        consumer_type: str | None = None,
    ) -> bool:
        """Give all that one consumer holds to another, in one request.

        A normal return guarantees that the target held all that the source
        held, under the source's project and user, and the source nothing.
        What the target held before is replaced (that is how nova reverts a
        resize). If only the target holds something, it was moved already.

        :param consumer_type: of the target, if it is new or has none
            (default: the client's setting). A type that it has stays.
        :returns: True. All else is raised, where nova returns False or None.
        :raises InvalidAllocation: both are the same consumer.
        :raises NotAllocated: neither holds anything.
        :raises ConsumerConflict: one of them was changed by somebody else;
            tells both sides of both. Nothing was written.
        :raises: otherwise as `claim_resources`.
        """
        source = claims.consumer_uuid(source_consumer_uuid, "source_consumer_uuid")
        target = claims.consumer_uuid(target_consumer_uuid, "target_consumer_uuid")
        if source == target:
            raise exceptions.InvalidAllocation(
                f"Consumer {source} cannot be moved to itself.",
                field="target_consumer_uuid",
                value=target_consumer_uuid,
            )
        kind = claims.check_consumer_type(consumer_type or self._consumer_type)
        api = self._calls.begin(context).api
        consumers.move(api, self._engine, source, target, kind)
        return True

    def add_resources_to_instance_allocation(
        self, context: Context | None, consumer_uuid: str, resources: _Resources
    ) -> None:
        """Have a consumer hold so much more, of one or several providers, at once.

        A normal return guarantees that Placement held the sum. Whoever else
        changes the consumer or the providers meanwhile is met by reading
        again: it is added to what is there then.

        :param resources: provider UUID -> ``{"resources": {class: amount}}``
            (or class -> amount at once); empty: nothing is done.
        :raises NotAllocated: the consumer holds nothing, so nobody knows its
            project.
        :raises ConsumerConflict: the answer was lost, and the consumer has
            changed since: nobody can tell whether it was added.
        :raises: otherwise as `claim_resources`.
        """
        consumer = claims.consumer_uuid(consumer_uuid)
        more = claims.resources(consumer, resources)
        if more:
            api = self._calls.begin(context).api
            consumers.change(
                api, self._engine, consumer, lambda held: claims.added(consumer, held, more)
            )

    def remove_resources_from_instance_allocation(
        self, context: Context | None, consumer_uuid: str, resources: _Resources
    ) -> None:
        """Have a consumer hold so much less, of one or several providers, at once.

        As `add_resources_to_instance_allocation`. What is zero then is left
        out; if nothing is left, the consumer is deleted.

        :raises NotAllocated: it does not hold so much; says of what. Nothing
            was written.
        :raises: otherwise as `add_resources_to_instance_allocation`.
        """
        consumer = claims.consumer_uuid(consumer_uuid)
        less = claims.resources(consumer, resources)
        if less:
            api = self._calls.begin(context).api
            consumers.change(
                api, self._engine, consumer, lambda held: claims.removed(consumer, held, less)
            )

    def remove_provider_tree_from_instance_allocation(
        self, context: Context | None, consumer_uuid: str, root_rp_uuid: str
    ) -> bool:
        """Take from a consumer all that it holds of one tree.

        A normal return guarantees that it held nothing of the tree. What it
        holds of other trees, and of sharing providers, stays. Whoever else
        changes the consumer meanwhile is met by reading again.

        :param root_rp_uuid: UUID of any provider of the tree.
        :returns: True, also if there was nothing to take.
        :raises ResourceProviderNotFound: there is no such tree.
        :raises: otherwise as `add_resources_to_instance_allocation`; the
            exception's ``consumer`` and ``provider`` say what to try again
            (Launchpad bug 1819460).
        """
        consumer = claims.consumer_uuid(consumer_uuid)
        root = validation.normalise_uuid(root_rp_uuid, field="root_rp_uuid")
        api = self._calls.begin(context).api
        try:
            tree = frozenset(_tree(api, root))
            consumers.change(api, self._engine, consumer, lambda held: held.without(tree))
        except exceptions.ReportClientError as error:
            error.provider = error.provider or root
            error.consumer = error.consumer or consumer
            raise
        return True

    def delete_allocation_for_instance(
        self,
        context: Context | None,
        uuid: str,
        consumer_type: str = "instance",
        force: bool = False,
    ) -> bool:
        """Take away all that a consumer holds.

        A normal return guarantees that it held nothing.

        :param consumer_type: nova's, for its log lines; has no meaning here.
        :param force: False: only if nobody changes the consumer at the same
            moment; True: whatever happens, with one request.
        :returns: True; False if it held nothing in the first place.
        :raises ConsumerConflict: without ``force``: somebody else changed it.
        :raises: otherwise as `put_allocations`.
        """
        del consumer_type
        consumer = claims.consumer_uuid(uuid, "uuid")
        api = self._calls.begin(context).api
        return consumers.delete(api, self._engine, consumer, force=force)

    # -- housekeeping -------------------------------------------------------------

    def audit_allocations(
        self,
        context: Context | None,
        rp_uuid_or_name: str,
        known_consumers: Known,
        remove: bool = False,
    ) -> AuditResult:
        """Find consumers that hold something of a tree and that nobody knows.

        :param rp_uuid_or_name: any provider of the tree.
        :param known_consumers: the UUIDs that are known; or a function that
            is called with the UUIDs found and returns those of them that are
            known. Use the function for a tree that is in use: a list made
            beforehand lacks what was placed since, and that would look like
            an orphan.
        :param remove: take away what orphans hold of the tree. What they hold
            elsewhere stays, and so does one that has changed since it was
            found: its ``error`` is a `ConsumerConflict`.
        :raises InvalidUUID: a known consumer is none; nothing was written.
        :raises ResourceProviderNotFound: there is no such provider.
        :raises: otherwise as `get_allocations_for_provider_tree`.
        """
        api = self._calls.begin(context).api
        if validation.is_uuid(rp_uuid_or_name):
            uuid = validation.normalise_uuid(rp_uuid_or_name)
        else:
            uuid = by_name(api, validation.check_name(rp_uuid_or_name)).uuid
        return audit.audit(api, self._engine, _tree(api, uuid), known_consumers, remove=remove)

    def heal_allocations(
        self,
        context: Context | None,
        wanted: Mapping[str, Mapping[str, Any]],
        dry_run: bool = False,
    ) -> HealResult:
        """Have consumers that hold nothing hold what they should.

        Those that hold anything are left as they are, whatever it is. One
        consumer's failure does not stop the others.

        :param wanted: consumer UUID -> ``{"allocations": {provider:
            {"resources": {class: amount}}}, "project_id", "user_id"}``, and
            ``"consumer_type"`` if you like.
        :param dry_run: write nothing; say what would be.
        :raises InvalidAllocation, InvalidUUID, InvalidResourceClass: before
            any request.
        """
        parts = claims.payloads(wanted, self._consumer_type, new=True)
        api = self._calls.begin(context).api
        return audit.heal(api, self._engine, parts, dry_run=dry_run)


def _tree(api: PlacementAPI, uuid: str) -> list[str]:
    """The providers of a tree, of which there is at least one."""
    listed = [summary.uuid for summary in api.list_providers(in_tree=uuid).providers]
    if not listed:
        raise exceptions.ResourceProviderNotFound(
            f"There is no resource provider {uuid}.", provider=uuid
        )
    return listed


def _cores_and_ram(api: PlacementAPI, project_id: str, user_id: str | None) -> dict[str, int]:
    used = api.get_usages(project_id, user_id, typed=False).resources
    return {
        "cores": used.get("VCPU", 0) + used.get("PCPU", 0),
        "ram": used.get("MEMORY_MB", 0),
    }
