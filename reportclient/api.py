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
list by name                               1.14    1.0     no parents
list by aggregates and traits              1.18    1.18    refused
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
read traits; list and create traits        1.6     1.6
write traits                               1.23    1.6     no codes
list resource classes                      1.2     1.2
create resource classes                    1.7     1.2     1.6: POST
allocations of a consumer                  1.28    1.28    refused
reshape                                    1.30    1.30    refused
=========================================  ======  ======  ==================
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar
from urllib.parse import quote, urlencode

from reportclient import exceptions
from reportclient.request_log import RequestLog
from reportclient.transport import Answer, Microversion, Transport
from reportclient.types import Generation, Inventory, ProviderSummary

__all__ = [
    "UNCHANGED",
    "AspectValue",
    "ConsumerAllocations",
    "PlacementAPI",
    "ProviderAllocations",
    "ProviderListing",
]

T = TypeVar("T")

_CODES: Microversion = (1, 23)
#: Longest list of values in one query: proxies refuse request lines over 4 or 8 KiB.
_QUERY_BYTES = 3000


class _Unchanged:
    """The type of `UNCHANGED`."""

    def __repr__(self) -> str:
        return "UNCHANGED"


#: Leave the parent as it is; ``None`` would make the provider a root.
UNCHANGED = _Unchanged()


@dataclasses.dataclass(frozen=True, slots=True)
class AspectValue(Generic[T]):
    """The value of an aspect and the generation of the same answer.

    :ivar generation: ``None`` where the answer has none: aggregates below 1.19.
    """

    value: T
    generation: Generation | None


class ProviderListing(NamedTuple):
    """Providers as listed, and the listing's ``Last-Modified``."""

    providers: tuple[ProviderSummary, ...]
    last_modified: str | None


class ProviderAllocations(NamedTuple):
    """Who holds what of a provider: consumer -> resource class -> amount."""

    consumers: Mapping[str, Mapping[str, int]]
    generation: Generation


@dataclasses.dataclass(frozen=True)
class ConsumerAllocations:
    """What a consumer holds: provider UUID -> resource class -> amount.

    :ivar consumer_generation: ``None`` for a consumer that is not there yet.
    """

    resources: Mapping[str, Mapping[str, int]]
    project_id: str | None
    user_id: str | None
    consumer_generation: Generation | None

    def without(self, providers: Container[str]) -> ConsumerAllocations:
        """The same without what is held of some providers."""
        left = {uuid: held for uuid, held in self.resources.items() if uuid not in providers}
        return dataclasses.replace(self, resources=left)

    def to_body(self) -> dict[str, Any]:
        """As Placement takes it: no zero amounts, no providers without any."""
        resources = {
            uuid: {name: amount for name, amount in held.items() if amount}
            for uuid, held in self.resources.items()
        }
        return {
            "allocations": {uuid: {"resources": held} for uuid, held in resources.items() if held},
            "project_id": self.project_id,
            "user_id": self.user_id,
            "consumer_generation": self.consumer_generation,
        }


@dataclasses.dataclass(frozen=True)
class PlacementAPI:
    """Placement's routes for one call of the client. Cheap to make.

    Every method raises `PlacementUnavailable` kinds when Placement cannot be
    reached or understood, `MicroversionNotSupported` when it is too old, and
    the `OperationFailed` kind named for it, from the `PlacementError` that
    says why, when Placement refuses.
    """

    transport: Transport
    global_request_id: str | None = None
    log: RequestLog | None = None

    # -- providers ------------------------------------------------------------

    def list_providers(
        self,
        *,
        uuid: str | None = None,
        name: str | None = None,
        in_tree: str | None = None,
        member_of: Iterable[str] = (),
        required: Iterable[str] = (),
    ) -> ProviderListing:
        """List providers; all filters given must hold. None given: all there are.

        :param name: as the database compares names; exactly, or without case.
        :param member_of: in any of these aggregates; asked for in several
            requests if they are many.
        :param required: with all of these traits.
        :returns: each provider once.
        :raises UnknownTrait: Placement has no such trait.
        :raises ResourceProviderRetrievalFailed: Placement refused.
        """
        if in_tree is not None and not self.transport.offers((1, 14)):
            uuid, in_tree = in_tree, None
        query = {
            key: value
            for key, value in {
                "uuid": uuid,
                "name": name,
                "in_tree": in_tree,
                "required": ",".join(required),
            }.items()
            if value
        }
        want, need = (1, 15), (1, 0)
        if required or member_of:
            want, need = (1, 18), (1, 18) if required else (1, 3)
        elif in_tree is not None:
            need = (1, 14)
        found: dict[str, ProviderSummary] = {}
        modified: list[str | None] = []
        for chunk in _chunks(member_of) or [[]]:
            within = {"member_of": "in:" + ",".join(chunk)} if chunk else {}
            try:
                with self._failing(exceptions.ResourceProviderRetrievalFailed, "list providers"):
                    answer = self._get(f"/resource_providers?{_query(query | within)}", want, need)
            except exceptions.MicroversionNotSupported:
                if in_tree is None:
                    raise
                return self.list_providers(uuid=in_tree)
            listed = self._read(answer, "resource_providers", list, "GET /resource_providers")
            for given in listed:
                summary = self._summary(answer, given)
                found[summary.uuid] = summary
            modified.append(answer.headers.get("Last-Modified"))
        return ProviderListing(tuple(found.values()), modified[0] if len(modified) == 1 else None)

    def get_provider(self, uuid: str) -> ProviderSummary:
        """Read one provider.

        :raises ResourceProviderNotFound: there is none.
        :raises ResourceProviderRetrievalFailed: Placement refused.
        """
        with self._failing(exceptions.ResourceProviderRetrievalFailed, "read provider", uuid):
            answer = self._get(f"/resource_providers/{uuid}", (1, 14), (1, 0))
        return self._summary(answer, answer.body)

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
                answer = self._send("POST", "/resource_providers", _CODES, need, body)
        except exceptions.ResourceProviderCreationFailed as error:
            if parent_uuid is not None and _MISSING_PARENT.search(error.detail or ""):
                raise exceptions.ParentProviderNotFound(
                    f"{name} ({uuid}) was not created: there is no provider {parent_uuid} "
                    "to be its parent.",
                    provider=uuid,
                    **error.facts,
                ) from error
            raise
        if answer.microversion < (1, 20):
            # Nothing was said of the generation, and it is not for us to guess.
            return self.get_provider(uuid)
        return self._summary(answer, answer.body)

    def update_provider(
        self, uuid: str, *, name: str, parent_uuid: str | _Unchanged | None = UNCHANGED
    ) -> ProviderSummary:
        """Rename a provider, and move it if a parent is given.

        Placement neither checks nor moves the generation for this.

        :param parent_uuid: `UNCHANGED`, the new parent, or ``None`` for none.
        :raises DuplicateProvider: the name is taken.
        :raises ResourceProviderNotFound: there is no such provider.
        :raises MicroversionNotSupported: moving needs 1.37.
        :raises ResourceProviderUpdateFailed: Placement refused.
        """
        body: dict[str, str | None] = {"name": name}
        want: Microversion = _CODES
        need: Microversion = (1, 0)
        if not isinstance(parent_uuid, _Unchanged):
            body["parent_provider_uuid"] = parent_uuid
            want = need = (1, 37)
        with self._failing(exceptions.ResourceProviderUpdateFailed, "update provider", uuid):
            answer = self._send("PUT", f"/resource_providers/{uuid}", want, need, body)
        return self._summary(answer, answer.body)

    def delete_provider(self, uuid: str) -> None:
        """Delete a provider.

        :raises ResourceProviderNotFound: it is gone already.
        :raises ResourceProviderInUse: it has allocations.
        :raises CannotDeleteParent: it has children.
        :raises ResourceProviderDeletionFailed: Placement refused.
        """
        with self._failing(exceptions.ResourceProviderDeletionFailed, "delete provider", uuid):
            self._send("DELETE", f"/resource_providers/{uuid}", _CODES, (1, 0))

    # -- aspects --------------------------------------------------------------

    def get_inventories(self, uuid: str) -> AspectValue[Inventory]:
        """Read a provider's inventory.

        :raises ResourceProviderNotFound, ResourceProviderRetrievalFailed: see there.
        """
        with self._failing(exceptions.ResourceProviderRetrievalFailed, "read inventory of", uuid):
            answer = self._get(f"/resource_providers/{uuid}/inventories", (1, 0), (1, 0))
        return self._inventories(answer, uuid)

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
        full = any(record.get("reserved") == record["total"] for record in inventory.values())
        need = (1, 26) if full else (1, 0)
        body = {
            "resource_provider_generation": _known(generation),
            "inventories": {name: dict(record) for name, record in inventory.items()},
        }
        with self._failing(exceptions.ResourceProviderUpdateFailed, "write inventory of", uuid):
            path = f"/resource_providers/{uuid}/inventories"
            answer = self._send("PUT", path, (1, 26), need, body)
        return self._inventories(answer, uuid)

    def get_aggregates(self, uuid: str) -> AspectValue[frozenset[str]]:
        """Read the aggregates that a provider is in.

        :raises ResourceProviderNotFound,
            ResourceProviderAggregateRetrievalFailed: see there.
        """
        with self._failing(
            exceptions.ResourceProviderAggregateRetrievalFailed, "read aggregates of", uuid
        ):
            answer = self._get(f"/resource_providers/{uuid}/aggregates", (1, 19), (1, 1))
        return self._aggregates(answer)

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
        path = f"/resource_providers/{uuid}/aggregates"
        with self._failing(exceptions.ResourceProviderUpdateFailed, "write aggregates of", uuid):
            if self.transport.offers((1, 19)):
                body = {"aggregates": listed, "resource_provider_generation": _known(generation)}
                with contextlib.suppress(exceptions.MicroversionNotSupported):
                    return self._aggregates(self._send("PUT", path, _CODES, (1, 19), body))
            answer = self._send("PUT", path, (1, 18), (1, 1), listed)
        return self._aggregates(answer)

    def get_traits(self, uuid: str) -> AspectValue[frozenset[str]]:
        """Read a provider's traits.

        :raises ResourceProviderNotFound, ResourceProviderTraitRetrievalFailed: see there.
        """
        with self._failing(
            exceptions.ResourceProviderTraitRetrievalFailed, "read traits of", uuid
        ):
            answer = self._get(f"/resource_providers/{uuid}/traits", (1, 6), (1, 6))
        return self._traits(answer)

    def put_traits(
        self, uuid: str, traits: Iterable[str], generation: Generation
    ) -> AspectValue[frozenset[str]]:
        """Write all traits of a provider; none for none.

        :raises ConcurrentUpdate: the generation is outdated.
        :raises UnknownTrait: this Placement lacks a trait.
        :raises ResourceProviderNotFound, ResourceProviderUpdateFailed: see there.
        """
        body = {"traits": sorted(traits), "resource_provider_generation": _known(generation)}
        with self._failing(exceptions.ResourceProviderUpdateFailed, "write traits of", uuid):
            path = f"/resource_providers/{uuid}/traits"
            answer = self._send("PUT", path, _CODES, (1, 6), body)
        return self._traits(answer)

    # -- traits and resource classes ----------------------------------------------

    def list_traits(
        self, *, names: Iterable[str] | None = None, startswith: str | None = None
    ) -> frozenset[str]:
        """List traits: those of some names, those with a prefix, or all.

        :raises TraitRetrievalFailed: Placement refused.
        """
        queries: Sequence[str]
        if names is not None:
            queries = [f"?name=in:{','.join(chunk)}" for chunk in _chunks(names)]
        else:
            queries = [f"?name=startswith:{quote(startswith)}" if startswith else ""]
        found: set[str] = set()
        for query in queries:
            with self._failing(exceptions.TraitRetrievalFailed, "list traits"):
                answer = self._get(f"/traits{query}", (1, 6), (1, 6))
            found.update(self._names(answer, "traits"))
        return frozenset(found)

    def ensure_trait(self, name: str) -> bool:
        """Create a custom trait unless there is one; whether it was created.

        :raises TraitCreationFailed: Placement refused.
        """
        with self._failing(exceptions.TraitCreationFailed, f"create trait {name}"):
            return self._send("PUT", f"/traits/{quote(name)}", (1, 6), (1, 6)).status == 201

    def list_resource_classes(self) -> frozenset[str]:
        """List all resource classes, standard and custom.

        :raises ResourceClassRetrievalFailed: Placement refused.
        """
        with self._failing(exceptions.ResourceClassRetrievalFailed, "list resource classes"):
            answer = self._get("/resource_classes", (1, 2), (1, 2))
        listed = self._read(answer, "resource_classes", list, "GET /resource_classes")
        with self._shape(answer, "GET", "/resource_classes"):
            return frozenset(given["name"] for given in listed)

    def ensure_resource_class(self, name: str) -> bool:
        """Create a custom resource class unless there is one; whether it was created.

        :raises ResourceClassCreationFailed: Placement refused.
        """
        with self._failing(
            exceptions.ResourceClassCreationFailed, f"create resource class {name}"
        ):
            try:
                path = f"/resource_classes/{quote(name)}"
                return self._send("PUT", path, (1, 7), (1, 7)).status == 201
            except exceptions.MicroversionNotSupported:
                pass
            try:
                self._send("POST", "/resource_classes", (1, 6), (1, 2), {"name": name})
            except exceptions.PlacementAPIConflict:
                return False
            return True

    # -- who uses it ----------------------------------------------------------------

    def get_provider_allocations(self, uuid: str) -> ProviderAllocations:
        """Read who holds what of a provider.

        :raises ResourceProviderNotFound,
            ResourceProviderAllocationRetrievalFailed: see there.
        """
        path = f"/resource_providers/{uuid}/allocations"
        with self._failing(
            exceptions.ResourceProviderAllocationRetrievalFailed, "read allocations of", uuid
        ):
            answer = self._get(path, (1, 0), (1, 0))
        given = self._read(answer, "allocations", dict, f"GET {path}")
        with self._shape(answer, "GET", path):
            return ProviderAllocations(
                {consumer: dict(held["resources"]) for consumer, held in given.items()},
                answer.body["resource_provider_generation"],
            )

    def get_provider_usages(self, uuid: str) -> Mapping[str, int]:
        """Read how much of each class of a provider is in use.

        :raises ResourceProviderNotFound, ResourceProviderRetrievalFailed: see there.
        """
        path = f"/resource_providers/{uuid}/usages"
        with self._failing(exceptions.ResourceProviderRetrievalFailed, "read usages of", uuid):
            answer = self._get(path, (1, 9), (1, 0))
        usages: Mapping[str, int] = self._read(answer, "usages", dict, f"GET {path}")
        return usages

    def get_allocations(self, consumer: str) -> ConsumerAllocations:
        """Read what a consumer holds; nothing at all for one that is unknown.

        :raises ConsumerAllocationRetrievalFailed: Placement refused.
        """
        path = f"/allocations/{consumer}"
        with self._failing(
            exceptions.ConsumerAllocationRetrievalFailed, f"read allocations of {consumer}"
        ):
            answer = self._get(path, (1, 28), (1, 28))
        given = self._read(answer, "allocations", dict, f"GET {path}")
        with self._shape(answer, "GET", path):
            held = {uuid: dict(part["resources"]) for uuid, part in given.items()}
            return ConsumerAllocations(
                held,
                answer.body.get("project_id"),
                answer.body.get("user_id"),
                answer.body.get("consumer_generation"),
            )

    def put_allocations(self, consumer: str, allocations: ConsumerAllocations) -> None:
        """Make these all that a consumer holds, guarded by its generation.

        The consumer's type (1.38) stays as it is.

        :raises ConcurrentUpdate: the consumer's or a provider's generation is
            outdated.
        :raises AllocationUpdateFailed: Placement refused.
        """
        with self._failing(exceptions.AllocationUpdateFailed, f"write allocations of {consumer}"):
            self._send("PUT", f"/allocations/{consumer}", (1, 28), (1, 28), allocations.to_body())

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
                    "resource_provider_generation": _known(part.generation),
                }
                for uuid, part in inventories.items()
            },
            "allocations": {consumer: part.to_body() for consumer, part in allocations.items()},
        }
        with self._failing(exceptions.ReshapeFailed, "reshape"):
            self._send("POST", "/reshaper", (1, 30), (1, 30), body)

    # -- inside -----------------------------------------------------------------------

    def _get(self, path: str, want: Microversion, need: Microversion) -> Answer:
        return self._send("GET", path, want, need)

    def _send(
        self, method: str, path: str, want: Microversion, need: Microversion, body: Any = None
    ) -> Answer:
        return self.transport.request(
            method,
            path,
            want=want,
            need=need,
            json=body,
            global_request_id=self.global_request_id,
            log=self.log,
        )

    @contextlib.contextmanager
    def _failing(
        self, kind: type[exceptions.OperationFailed], doing: str, provider: str | None = None
    ) -> Iterator[None]:
        """Say what was being done when Placement refused."""
        what = f"{doing} {provider}" if provider else doing
        try:
            yield
        except (
            exceptions.PlacementAPIConflict,
            exceptions.MicroversionNotSupported,
            exceptions.OperationFailed,
        ) as error:
            error.provider = error.provider or provider
            raise
        except exceptions.NotFound as error:
            if provider is None:
                raise kind(f"Could not {what}: {error}", **error.facts) from error
            raise exceptions.ResourceProviderNotFound(
                f"Could not {what}: there is no such provider. {error}",
                provider=provider,
                **error.facts,
            ) from error
        except exceptions.PlacementError as error:
            unknown = _unknown_names(error)
            if unknown is not None:
                raise unknown from error
            failure = kind(f"Could not {what}: {error}", provider=provider, **error.facts)
            failure.retryable = error.retryable
            raise failure from error

    @contextlib.contextmanager
    def _shape(self, answer: Answer, method: str, path: str) -> Iterator[None]:
        """Refuse a 2xx whose JSON is not what the API reference says."""
        try:
            yield
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise self.transport.bad_answer(
                method,
                path,
                answer.status,
                f"is not as the API says: {error!r}",
                answer.request_id,
            ) from error

    def _read(self, answer: Answer, key: str, kind: type, what: str) -> Any:
        method, _, path = what.partition(" ")
        with self._shape(answer, method, path):
            value = answer.body[key]
            if not isinstance(value, kind):
                raise TypeError(f"{key} is {type(value).__name__}")
        return value

    def _summary(self, answer: Answer, given: Any) -> ProviderSummary:
        with self._shape(answer, "", "/resource_providers"):
            return ProviderSummary(
                _text(given["uuid"]),
                _text(given["name"]),
                _known(given["generation"]),
                given.get("parent_provider_uuid"),
                given.get("root_provider_uuid"),
            )

    def _inventories(self, answer: Answer, uuid: str) -> AspectValue[Inventory]:
        what = f"GET /resource_providers/{uuid}/inventories"
        given = self._read(answer, "inventories", dict, what)
        with self._shape(answer, "GET", what):
            inventory = {name: dict(record) for name, record in given.items()}
            return AspectValue(inventory, _known(answer.body["resource_provider_generation"]))

    def _aggregates(self, answer: Answer) -> AspectValue[frozenset[str]]:
        given = self._names(answer, "aggregates")
        if answer.microversion < (1, 19):
            return AspectValue(given, None)
        with self._shape(answer, "", "/resource_providers/{uuid}/aggregates"):
            return AspectValue(given, _known(answer.body["resource_provider_generation"]))

    def _traits(self, answer: Answer) -> AspectValue[frozenset[str]]:
        given = self._names(answer, "traits")
        with self._shape(answer, "", "/resource_providers/{uuid}/traits"):
            return AspectValue(given, _known(answer.body["resource_provider_generation"]))

    def _names(self, answer: Answer, key: str) -> frozenset[str]:
        given = self._read(answer, key, list, f"GET /{key}")
        with self._shape(answer, "", f"/{key}"):
            return frozenset(map(_text, given))


_MISSING_PARENT = re.compile(r"parent", re.I)
_NO_TRAIT = re.compile(r"no such trait", re.I)
_NO_CLASS = re.compile(r"unknown resource class|no such resource class", re.I)
_SYMBOLS = re.compile(r"\b[A-Z][A-Z0-9_]{2,}\b")


def _unknown_names(error: exceptions.PlacementError) -> exceptions.BadRequest | None:
    """A 400 that speaks of names that this Placement does not have."""
    detail = error.detail or ""
    if not isinstance(error, exceptions.BadRequest):
        return None
    kinds: tuple[tuple[re.Pattern[str], Callable[..., Any]], ...] = (
        (_NO_TRAIT, exceptions.UnknownTrait),
        (_NO_CLASS, exceptions.UnknownResourceClass),
    )
    for pattern, kind in kinds:
        if pattern.search(detail):
            unknown: exceptions.UnknownTrait = kind(str(error), **error.facts)
            unknown.names = tuple(dict.fromkeys(_SYMBOLS.findall(detail)))
            return unknown
    return None


def _known(generation: Generation | None) -> Generation:
    """A generation that came from an answer; none is never sent (P1)."""
    if generation is None:
        raise ValueError("the provider's generation is not known")
    return generation


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a text")
    return value


def _query(parameters: Mapping[str, str]) -> str:
    # urlencode's default would make "+" of spaces; "%20" survives every proxy.
    return urlencode(parameters, quote_via=quote, safe=":,")


def _chunks(values: Iterable[str]) -> list[list[str]]:
    """Values in lists that are short enough for a query each."""
    chunks: list[list[str]] = []
    size = 0
    for value in values:
        size += len(value) + 1
        if not chunks or size > _QUERY_BYTES:
            chunks.append([])
            size = len(value) + 1
        chunks[-1].append(value)
    return chunks
