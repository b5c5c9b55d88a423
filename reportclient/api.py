# SPDX-License-Identifier: Apache-2.0
"""Placement's routes as methods: typed values in, checked values out.

No cache and no policy. Each method asks for the lowest microversion that has
the meaning needed; writes ask for 1.23, from which on errors have codes.

=========================================  ======  ======  ==================
what                                       wanted  needed  below what is wanted
=========================================  ======  ======  ==================
list the providers of a tree               1.15    1.14    before 1.14 no
                                                           provider has a
                                                           parent: by ``uuid``
list by name                               1.15    1.0     no parents
list by aggregates                         1.18    1.3     refused
list by traits                             1.18    1.18    refused
read one provider                          1.14    1.0     no parents
create                                     1.23    1.0     1.19: POST, then GET
create below a parent                      1.23    1.14    likewise
rename                                     1.23    1.0     no codes
move                                       1.37    1.37    refused
delete                                     1.23    1.0     no codes
read inventories, usages, allocations      1.0     1.0
write inventories                          1.26    1.0     no codes
... with all of a class reserved           1.26    1.26    refused
read aggregates                            1.19    1.1     no generation
write aggregates                           1.23    1.1     1.18: no guard
read traits; list traits                   1.6     1.6
write, create and delete traits            1.23    1.6     no codes
list resource classes                      1.2     1.2
create resource classes                    1.23    1.2     1.6: POST
delete resource classes                    1.23    1.2     no codes
allocations of a consumer                  1.28    1.28    refused
allocation candidates                      1.38    1.12    refused; 1.33: no
                                                           mappings; 1.28: no
                                                           trees
... with parameters that are newer         1.38 or theirs  refused
reshape                                    1.30    1.30    refused
=========================================  ======  ======  ==================
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping

from reportclient import exceptions, shapes
from reportclient.api_consumers import ConsumerRoutes
from reportclient.routes import CODES, known, named, provider_path, with_query
from reportclient.shapes import (
    AllocationCandidates,
    AspectValue,
    ConsumerAllocations,
    ProviderAllocations,
    ProviderListing,
)
from reportclient.transport import Answer, Microversion
from reportclient.types import Generation, Inventory, ProviderSummary

__all__ = [
    "UNCHANGED",
    "AspectValue",
    "ConsumerAllocations",
    "PlacementAPI",
    "ProviderAllocations",
    "ProviderListing",
]


class _Unchanged:
    """The type of `UNCHANGED`."""

    def __repr__(self) -> str:
        return "UNCHANGED"


#: Leave the parent as it is; ``None`` would make the provider a root.
UNCHANGED = _Unchanged()


@dataclasses.dataclass(frozen=True)
class PlacementAPI(ConsumerRoutes):
    """Placement's routes for one call of the client. Cheap to make.

    Every method raises `PlacementUnavailable` kinds when Placement cannot be
    reached or understood, `MicroversionNotSupported` when it is too old, and
    the `OperationFailed` kind named for it, from the `PlacementError` that
    says why, when Placement refuses.
    """

    def ids(self) -> str:
        """For a log line: the ids of the request that this thread sent last."""
        found = (self.log and self.log.newest_id) or "no request id"
        return f"{found}, global {self.global_request_id}" if self.global_request_id else found

    # -- providers ------------------------------------------------------------

    def list_providers(
        self,
        *,
        uuid: str | None = None,
        name: str | None = None,
        in_tree: str | None = None,
        member_of: Iterable[str] | None = None,
        required: Iterable[str] = (),
    ) -> ProviderListing:
        """List providers; all filters given must hold. None given: all there are.

        :param name: as the database compares names; exactly, or without case.
        :param member_of: in any of these aggregates; asked for in several
            requests if they are many, and in none if there are none.
        :param required: with all of these traits.
        :returns: each provider once.
        :raises UnknownTrait: Placement has no such trait.
        :raises ResourceProviderRetrievalFailed: Placement refused.
        """
        given = {"uuid": uuid, "name": name, "in_tree": in_tree}
        query = {key: value for key, value in given.items() if value is not None}
        traits = ",".join(required)
        want, need = (1, 15), (1, 0)
        if traits:
            query["required"], want, need = traits, (1, 18), (1, 18)
        elif member_of is not None:
            want, need = (1, 18), (1, 3)
        if member_of is None:
            answer = self._list(query, want, need)
            return ProviderListing(
                tuple(shapes.listing(answer)), answer.headers.get("Last-Modified")
            )
        found: dict[str, ProviderSummary] = {}
        for chunk in self._chunks(member_of):
            answer = self._list(query | {"member_of": f"in:{chunk}"}, want, need)
            found.update((summary.uuid, summary) for summary in shapes.listing(answer))
        return ProviderListing(tuple(found.values()), None)

    def _list(self, query: dict[str, str], want: Microversion, need: Microversion) -> Answer:
        trees = "in_tree" in query
        if trees and self.transport.offers((1, 14)):
            with self._failing(exceptions.ResourceProviderRetrievalFailed, "list providers"):
                try:
                    return self._get(
                        with_query("/resource_providers", query), want, max(need, (1, 14))
                    )
                except exceptions.MicroversionNotSupported:
                    if self.transport.offers((1, 14)):
                        raise
        if trees:
            # Before 1.14 every provider is a tree of its own.
            query = dict(query)
            query.setdefault("uuid", query.pop("in_tree"))
        with self._failing(exceptions.ResourceProviderRetrievalFailed, "list providers"):
            return self._get(with_query("/resource_providers", query), want, need)

    def get_provider(self, uuid: str) -> ProviderSummary:
        """Read one provider.

        :raises ResourceProviderNotFound: there is none.
        :raises ResourceProviderRetrievalFailed: Placement refused.
        """
        with self._failing(exceptions.ResourceProviderRetrievalFailed, "read provider", uuid):
            return shapes.summary(self._get(provider_path(uuid), (1, 14), (1, 0)))

    def create_provider(
        self, uuid: str, name: str, parent_uuid: str | None = None
    ) -> ProviderSummary:
        """Create a provider; its generation is the one that Placement answers.

        :raises DuplicateProvider: the UUID or the name is taken.
        :raises ParentProviderNotFound: there is no such parent.
        :raises ResourceProviderCreationFailed: Placement refused.
        """
        body = {"uuid": uuid, "name": name}
        if parent_uuid is not None:
            body["parent_provider_uuid"] = parent_uuid
        need = (1, 0) if parent_uuid is None else (1, 14)
        try:
            with self._failing(
                exceptions.ResourceProviderCreationFailed, f"create provider {name}", uuid
            ):
                answer = self._send("POST", "/resource_providers", CODES, need, body)
        except exceptions.ResourceProviderCreationFailed as error:
            if _MISSING_PARENT.search(error.detail or ""):
                raise exceptions.ParentProviderNotFound(
                    f"{name} ({uuid}) was not created: there is no provider {parent_uuid} "
                    "to be its parent.",
                    provider=uuid,
                    **error.facts,
                ) from error
            raise
        if answer.microversion < (1, 20):
            # Nothing was said of the generation, and it is not for us to guess.
            try:
                return self.get_provider(uuid)
            except exceptions.ReportClientError as error:
                # Whatever this read met: the provider was created.
                error.outcome_unknown = True
                raise
        return shapes.summary(answer)

    def update_provider(
        self, uuid: str, *, name: str, parent_uuid: str | _Unchanged | None = UNCHANGED
    ) -> ProviderSummary:
        """Rename a provider, and move it if a parent is given.

        Placement neither checks nor moves the generation for this. A parent
        that the body leaves out stays; ``null`` takes it away.

        :param parent_uuid: `UNCHANGED`, the new parent, or ``None`` for none.
        :raises DuplicateProvider: the name is taken.
        :raises ResourceProviderNotFound: there is no such provider.
        :raises MicroversionNotSupported: moving needs 1.37.
        :raises ResourceProviderUpdateFailed: Placement refused.
        """
        body: dict[str, str | None] = {"name": name}
        want: Microversion = CODES
        need: Microversion = (1, 0)
        if not isinstance(parent_uuid, _Unchanged):
            body["parent_provider_uuid"] = parent_uuid
            want = need = (1, 37)
        with self._failing(exceptions.ResourceProviderUpdateFailed, "update provider", uuid):
            return shapes.summary(self._send("PUT", provider_path(uuid), want, need, body))

    def delete_provider(self, uuid: str) -> None:
        """Delete a provider.

        :raises ResourceProviderNotFound: it is gone already.
        :raises ResourceProviderInUse: it has allocations.
        :raises CannotDeleteParent: it has children.
        :raises ResourceProviderDeletionFailed: Placement refused.
        """
        with self._failing(exceptions.ResourceProviderDeletionFailed, "delete provider", uuid):
            self._send("DELETE", provider_path(uuid), CODES, (1, 0))

    # -- aspects --------------------------------------------------------------

    def get_inventories(self, uuid: str) -> AspectValue[Inventory]:
        """Read a provider's inventory.

        :raises ResourceProviderNotFound, ResourceProviderRetrievalFailed: see there.
        """
        with self._failing(exceptions.ResourceProviderRetrievalFailed, "read inventory of", uuid):
            return shapes.inventories(
                self._get(provider_path(uuid, "inventories"), (1, 0), (1, 0))
            )

    def put_inventories(
        self, uuid: str, inventory: Inventory, generation: Generation
    ) -> AspectValue[Inventory]:
        """Write a provider's whole inventory; ``{}`` for none.

        The verb DELETE is not used: it carries no generation (LP 1746373).

        :raises ConcurrentUpdate: the generation is outdated.
        :raises InventoryInUse: a class that is left out has allocations.
        :raises UnknownResourceClass: this Placement lacks a class.
        :raises MicroversionNotSupported: all of a class is reserved, which
            needs 1.26.
        :raises ResourceProviderNotFound, ResourceProviderUpdateFailed: see there.
        """
        full = any(
            record.get("reserved") and record.get("reserved") == record.get("total")
            for record in inventory.values()
        )
        need = (1, 26) if full else (1, 0)
        body = {
            "resource_provider_generation": known(generation),
            "inventories": {name: dict(record) for name, record in inventory.items()},
        }
        with self._failing(exceptions.ResourceProviderUpdateFailed, "write inventory of", uuid):
            path = provider_path(uuid, "inventories")
            return shapes.inventories(self._send("PUT", path, (1, 26), need, body))

    def get_aggregates(self, uuid: str) -> AspectValue[frozenset[str]]:
        """Read the aggregates that a provider is in.

        :raises ResourceProviderNotFound,
            ResourceProviderAggregateRetrievalFailed: see there.
        """
        with self._failing(
            exceptions.ResourceProviderAggregateRetrievalFailed, "read aggregates of", uuid
        ):
            return shapes.aggregates(self._get(provider_path(uuid, "aggregates"), (1, 19), (1, 1)))

    def put_aggregates(
        self, uuid: str, aggregates: Iterable[str], generation: Generation | None
    ) -> AspectValue[frozenset[str]]:
        """Write all the aggregates that a provider is in.

        :param generation: ``None`` only where the server is older than 1.19
            and guards nothing.
        :raises ConcurrentUpdate: the generation is outdated.
        :raises ResourceProviderNotFound, ResourceProviderUpdateFailed: see there.
        """
        listed = sorted(aggregates)
        path = provider_path(uuid, "aggregates")
        with self._failing(exceptions.ResourceProviderUpdateFailed, "write aggregates of", uuid):
            if self.transport.offers((1, 19)):
                body = {"aggregates": listed, "resource_provider_generation": known(generation)}
                try:
                    return shapes.aggregates(self._send("PUT", path, CODES, (1, 19), body))
                except exceptions.MicroversionNotSupported:
                    # Without a guard only where there certainly is none.
                    if self.transport.offers((1, 19)):
                        raise
            return shapes.aggregates(self._send("PUT", path, (1, 18), (1, 1), listed))

    def get_traits(self, uuid: str) -> AspectValue[frozenset[str]]:
        """Read a provider's traits.

        :raises ResourceProviderNotFound, ResourceProviderTraitRetrievalFailed: see there.
        """
        with self._failing(
            exceptions.ResourceProviderTraitRetrievalFailed, "read traits of", uuid
        ):
            return shapes.traits(self._get(provider_path(uuid, "traits"), (1, 6), (1, 6)))

    def put_traits(
        self, uuid: str, traits: Iterable[str], generation: Generation
    ) -> AspectValue[frozenset[str]]:
        """Write all traits of a provider; none for none.

        :raises ConcurrentUpdate: the generation is outdated.
        :raises UnknownTrait: this Placement lacks a trait.
        :raises ResourceProviderNotFound, ResourceProviderUpdateFailed: see there.
        """
        body = {"traits": sorted(traits), "resource_provider_generation": known(generation)}
        with self._failing(exceptions.ResourceProviderUpdateFailed, "write traits of", uuid):
            path = provider_path(uuid, "traits")
            return shapes.traits(self._send("PUT", path, CODES, (1, 6), body))

    # -- traits and resource classes ----------------------------------------------

    def list_traits(
        self,
        *,
        names: Iterable[str] | None = None,
        startswith: str | None = None,
        associated: bool | None = None,
    ) -> frozenset[str]:
        """List traits: those of some names, those with a prefix, or all.

        :param names: asked for in several requests if they are many; not to
            be combined with ``startswith``.
        :param associated: only those that some provider has, or that none has.
        :raises TraitRetrievalFailed: Placement refused.
        """
        query = {} if associated is None else {"associated": str(associated).lower()}
        if names is not None:
            queries = [query | {"name": f"in:{chunk}"} for chunk in self._chunks(names)]
        else:
            queries = [
                query if startswith is None else query | {"name": f"startswith:{startswith}"}
            ]
        found: set[str] = set()
        for part in queries:
            with self._failing(exceptions.TraitRetrievalFailed, "list traits"):
                found |= shapes.names(
                    self._get(with_query("/traits", part), (1, 6), (1, 6)), "traits"
                )
        return frozenset(found)

    def ensure_trait(self, name: str) -> bool:
        """Create a custom trait unless there is one; whether it was created.

        :raises TraitCreationFailed: Placement refused.
        """
        with self._failing(exceptions.TraitCreationFailed, f"create trait {name}"):
            path = named("traits", name)
            return self._send("PUT", path, CODES, (1, 6), idempotent=True).status == 201

    def delete_trait(self, name: str) -> None:
        """Delete a custom trait.

        :raises PlacementAPIConflict: a provider has it.
        :raises OperationFailed: there is none, or it is a standard one.
        """
        with self._failing(exceptions.OperationFailed, f"delete trait {name}"):
            self._send("DELETE", named("traits", name), CODES, (1, 6))

    def list_resource_classes(self) -> frozenset[str]:
        """List all resource classes, standard and custom.

        :raises ResourceClassRetrievalFailed: Placement refused.
        """
        with self._failing(exceptions.ResourceClassRetrievalFailed, "list resource classes"):
            return shapes.resource_classes(self._get("/resource_classes", (1, 2), (1, 2)))

    def ensure_resource_class(self, name: str) -> bool:
        """Create a custom resource class unless there is one; whether it was created.

        :raises ResourceClassCreationFailed: Placement refused.
        """
        with self._failing(
            exceptions.ResourceClassCreationFailed, f"create resource class {name}"
        ):
            if self.transport.offers((1, 7)):
                try:
                    path = named("resource_classes", name)
                    answer = self._send("PUT", path, CODES, (1, 7), idempotent=True)
                    return answer.status == 201
                except exceptions.MicroversionNotSupported:
                    if self.transport.offers((1, 7)):
                        raise
            try:
                self._send("POST", "/resource_classes", (1, 6), (1, 2), {"name": name})
            except exceptions.PlacementAPIConflict:
                return False
            return True

    def delete_resource_class(self, name: str) -> None:
        """Delete a custom resource class.

        :raises PlacementAPIConflict: a provider has inventory of it.
        :raises OperationFailed: there is none, or it is a standard one.
        """
        with self._failing(exceptions.OperationFailed, f"delete resource class {name}"):
            self._send("DELETE", named("resource_classes", name), CODES, (1, 2))

    # -- who uses it ----------------------------------------------------------------

    def get_provider_allocations(self, uuid: str) -> ProviderAllocations:
        """Read who holds what of a provider.

        :raises ResourceProviderNotFound,
            ResourceProviderAllocationRetrievalFailed: see there.
        """
        with self._failing(
            exceptions.ResourceProviderAllocationRetrievalFailed, "read allocations of", uuid
        ):
            return shapes.provider_allocations(
                self._get(provider_path(uuid, "allocations"), (1, 0), (1, 0))
            )

    def get_provider_usages(self, uuid: str) -> Mapping[str, int]:
        """Read how much of each class of a provider is in use.

        :raises ResourceProviderNotFound, ResourceProviderRetrievalFailed: see there.
        """
        with self._failing(exceptions.ResourceProviderRetrievalFailed, "read usages of", uuid):
            return shapes.usages(self._get(provider_path(uuid, "usages"), (1, 0), (1, 0)))

    def get_allocation_candidates(self, query: str, needed: Microversion) -> AllocationCandidates:
        """From where a request for resources could be served.

        :param query: encoded, without the question mark.
        :param needed: the lowest microversion at which it means what is meant.
        :raises UnknownTrait, UnknownResourceClass: this Placement lacks one.
        :raises AllocationCandidateRetrievalFailed: Placement refused.
        """
        # From 1.12 on an answer can be sent back as a claim. At 1.38 it is one
        # that says what kind of consumer makes it.
        need = max(needed, (1, 12))
        path = f"/allocation_candidates?{query}"
        with self._failing(
            exceptions.AllocationCandidateRetrievalFailed, "find allocation candidates"
        ):
            return shapes.allocation_candidates(self._get(path, max(need, (1, 38)), need))

    def reshape(
        self,
        inventories: Mapping[str, AspectValue[Inventory]],
        allocations: Mapping[str, ConsumerAllocations],
    ) -> None:
        """Replace inventories and allocations in one transaction.

        :param inventories: the whole new inventory of every provider that
            changes, and the generation that guards it.
        :param allocations: all that each consumer that changes holds.
        :raises ConcurrentUpdate: some generation is outdated; nothing changed.
        :raises ReshapeFailed: Placement refused; nothing changed.
        """
        body = {
            "inventories": {
                uuid: {
                    "inventories": {name: dict(record) for name, record in part.value.items()},
                    "resource_provider_generation": known(part.generation),
                }
                for uuid, part in inventories.items()
            },
            "allocations": {consumer: part.to_body() for consumer, part in allocations.items()},
        }
        with self._failing(exceptions.ReshapeFailed, "reshape"):
            self._send("POST", "/reshaper", (1, 30), (1, 30), body)


#: As Placement says it; the JSON schema's texts name the field as well.
_MISSING_PARENT = re.compile(r"parent provider uuid does not exist", re.I)
