# SPDX-License-Identifier: Apache-2.0
"""Every failure of this library, as one tree.

::

    ReportClientError (also a keystoneauth1 ClientException)
    |-- InvalidInput (also a ValueError): refused here, before any request
    |   |-- InvalidName, InvalidUUID, InvalidTrait, InvalidAggregate
    |   |-- InvalidResourceClass, InvalidInventory
    |   |-- InvalidResourceRequest, InvalidAllocation
    |   `-- InvalidProviderTree: several of them, or the tree's shape
    |-- ConfigurationError: permanent until somebody edits the configuration
    |-- PlacementUnavailable (= PlacementAPIConnectFailure): worth a retry
    |   |-- ConnectFailed: refused, unknown host, reset
    |   |-- PlacementTimeout, TLSFailed
    |   |-- DiscoveryFailed, EndpointMissing
    |   |-- Unauthorized: 401, or no token to be had
    |   |-- ServiceUnavailable: 502, 503, 504
    |   |-- TooManyRequests: 429
    |   `-- BadAnswer: HTML, cut JSON, or JSON of another shape
    |-- PlacementError: Placement answered, and the answer is no
    |   |-- BadRequest: 400
    |   |   |-- UnknownTrait, UnknownResourceClass
    |   |-- Forbidden: 403
    |   |-- NotFound: 404
    |   |   `-- ResourceProviderNotFound
    |   |-- MicroversionNotSupported: 406, or known to be too old
    |   |-- RequestTooLarge: 413, 414, 431
    |   |-- ServerError: 500 and its like
    |   `-- PlacementAPIConflict: 409
    |       |-- ConcurrentUpdate: a generation was outdated
    |       |   |-- ResourceProviderUpdateConflict: ... and merging is no way
    |       |   |-- PlacementReshapeConflict
    |       |   `-- ConsumerConflict (also an AllocationUpdateFailed)
    |       |-- AllocationDoesNotFit (also an AllocationUpdateFailed)
    |       |   `-- CapacityExceeded
    |       |-- DuplicateProvider: the uuid or the name is taken
    |       |-- InventoryInUse, ResourceProviderInUse
    |       `-- CannotDeleteParent
    |-- OperationFailed: what was being done; why is its __cause__
    |   |-- ResourceProviderCreationFailed
    |   |   |-- ResourceProviderNameConflict
    |   |   `-- ParentProviderNotFound
    |   |-- ResourceProviderRetrievalFailed
    |   |   |-- ResourceProviderAggregateRetrievalFailed
    |   |   |-- ResourceProviderTraitRetrievalFailed
    |   |   `-- ResourceProviderAllocationRetrievalFailed
    |   |-- ResourceProviderUpdateFailed, ResourceProviderDeletionFailed
    |   |-- ConsumerAllocationRetrievalFailed, UsagesRetrievalFailed
    |   |-- AllocationUpdateFailed (= AllocationMoveFailed, AllocationDeleteFailed)
    |   |   `-- NotAllocated: there is nothing, or not so much, to move or remove
    |   |-- AllocationCandidateRetrievalFailed
    |   |-- TraitRetrievalFailed, TraitCreationFailed
    |   |-- ResourceClassRetrievalFailed, ResourceClassCreationFailed
    |   |-- ResourceProviderSyncFailed: carries the SyncResult
    |   |   `-- SyncUnavailable (also a PlacementUnavailable)
    |   `-- ReshapeFailed
    |-- MassRemovalRefused: a tree that lost all its providers
    |-- ReshapeNeeded: a driver's word, not a failure
    `-- DriverNotReady (= VirtDriverNotReady): likewise

Names that nova has are kept, so that ``except`` clauses move over. Every
exception can be pickled, and none holds a token or a request header.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reportclient.failure import (
    InvalidAggregate,
    InvalidAllocation,
    InvalidInput,
    InvalidInventory,
    InvalidName,
    InvalidProviderTree,
    InvalidResourceClass,
    InvalidResourceRequest,
    InvalidTrait,
    InvalidUUID,
    ReportClientError,
)

__all__ = [
    "AllocationCandidateRetrievalFailed",
    "AllocationDeleteFailed",
    "AllocationDoesNotFit",
    "AllocationMoveFailed",
    "AllocationUpdateFailed",
    "BadAnswer",
    "BadRequest",
    "CannotDeleteParent",
    "CapacityExceeded",
    "ConcurrentUpdate",
    "ConfigurationError",
    "ConnectFailed",
    "ConsumerAllocationRetrievalFailed",
    "ConsumerConflict",
    "DiscoveryFailed",
    "DriverNotReady",
    "DuplicateProvider",
    "EndpointMissing",
    "Forbidden",
    "InvalidAggregate",
    "InvalidAllocation",
    "InvalidInput",
    "InvalidInventory",
    "InvalidName",
    "InvalidProviderTree",
    "InvalidResourceClass",
    "InvalidResourceRequest",
    "InvalidTrait",
    "InvalidUUID",
    "InventoryInUse",
    "MassRemovalRefused",
    "MicroversionNotSupported",
    "NotAllocated",
    "NotFound",
    "OperationFailed",
    "ParentProviderNotFound",
    "PlacementAPIConflict",
    "PlacementAPIConnectFailure",
    "PlacementError",
    "PlacementReshapeConflict",
    "PlacementTimeout",
    "PlacementUnavailable",
    "ReportClientError",
    "RequestTooLarge",
    "ReshapeFailed",
    "ReshapeNeeded",
    "ResourceClassCreationFailed",
    "ResourceClassRetrievalFailed",
    "ResourceProviderAggregateRetrievalFailed",
    "ResourceProviderAllocationRetrievalFailed",
    "ResourceProviderCreationFailed",
    "ResourceProviderDeletionFailed",
    "ResourceProviderInUse",
    "ResourceProviderNameConflict",
    "ResourceProviderNotFound",
    "ResourceProviderRetrievalFailed",
    "ResourceProviderSyncFailed",
    "ResourceProviderTraitRetrievalFailed",
    "ResourceProviderUpdateConflict",
    "ResourceProviderUpdateFailed",
    "ServerError",
    "ServiceUnavailable",
    "SyncUnavailable",
    "TLSFailed",
    "TooManyRequests",
    "TraitCreationFailed",
    "TraitRetrievalFailed",
    "Unauthorized",
    "UnknownResourceClass",
    "UnknownTrait",
    "UsagesRetrievalFailed",
    "VirtDriverNotReady",
]


class ConfigurationError(ReportClientError):
    """Something is missing from the configuration; retrying cannot help."""

    message = "The client is not configured to reach Placement."


# -- Placement could not be reached, or not understood ----------------------


class PlacementUnavailable(ReportClientError):
    """No usable answer came from Placement. The cause is ``__cause__``.

    :ivar retry_after: seconds that the server asked to wait, or ``None``.
    """

    message = "Placement cannot be reached."
    retryable = True
    retry_after: float | None = None


#: nova's name for the same family.
PlacementAPIConnectFailure = PlacementUnavailable


class ConnectFailed(PlacementUnavailable):
    """Refused, unknown host, no route, or the connection broke."""


class PlacementTimeout(PlacementUnavailable):
    """No answer within the time given."""


class TLSFailed(PlacementUnavailable):
    """The TLS handshake or the certificate failed."""


class DiscoveryFailed(PlacementUnavailable):
    """The endpoint answered, but not as Placement's version document."""


class EndpointMissing(PlacementUnavailable):
    """The catalog has no endpoint for Placement (as asked for)."""


class Unauthorized(PlacementUnavailable):
    """401, or no token could be had."""


class ServiceUnavailable(PlacementUnavailable):
    """502, 503 or 504, from Placement or from a proxy before it."""


class TooManyRequests(PlacementUnavailable):
    """429."""


class BadAnswer(PlacementUnavailable):
    """An answer that is not what the API says: HTML, cut or odd JSON."""


# -- Placement answered ------------------------------------------------------


class PlacementError(ReportClientError):
    """Placement answered with an error."""

    message = "Placement refused the request."


class BadRequest(PlacementError):
    """400: Placement does not accept the request."""


class UnknownTrait(BadRequest):
    """This Placement does not know a trait.

    :ivar names: the traits that it does not know.
    """

    names: tuple[str, ...] = ()


class UnknownResourceClass(BadRequest):
    """This Placement does not know a resource class.

    :ivar names: the classes that it does not know.
    """

    names: tuple[str, ...] = ()


class Forbidden(PlacementError):
    """403: the user lacks a role."""


class NotFound(PlacementError):
    """404."""


class ResourceProviderNotFound(NotFound):
    """There is no such resource provider."""

    message = "No such resource provider."


class MicroversionNotSupported(PlacementError):
    """This Placement is too old (or too new) for what was asked.

    :ivar needed: the lowest microversion that has the meaning, ``"1.26"``.
    :ivar offered: what the server offers, lowest and highest.
    """

    needed: str | None = None
    offered: tuple[str | None, str | None] = (None, None)


class RequestTooLarge(PlacementError):
    """413, 414 or 431: a body, URL or header too large for the way there."""


class ServerError(PlacementError):
    """500: Placement failed."""

    retryable = True
    outcome_unknown = True


class PlacementAPIConflict(PlacementError):
    """409."""

    message = "Placement answered with a conflict."


class ConcurrentUpdate(PlacementAPIConflict):
    """A generation was outdated: somebody else wrote in between."""

    retryable = True


class ResourceProviderUpdateConflict(ConcurrentUpdate):
    """Two writers want different things, or the races never ended.

    :ivar fields: what both sides changed, as ``"VCPU.total"`` or ``"VCPU"``;
        empty when there was no clash but the retries ran out.
    :ivar base: the values that both started from, by field.
    :ivar mine: the values that this agent wants.
    :ivar theirs: the values that Placement holds.
    :ivar base_generation: the generation that ``base`` was read with.
    :ivar their_generation: the generation that ``theirs`` was read with.
    :ivar attempts: how often the write was tried; of a real clash, how often
        the driver was run.
    :ivar result: the `SyncResult` of the flush that met it, or ``None``.
    """

    message = "A resource provider was changed by two writers."
    fields: tuple[str, ...] = ()
    base: Mapping[str, Any] = {}
    mine: Mapping[str, Any] = {}
    theirs: Mapping[str, Any] = {}
    base_generation: object = None
    their_generation: object = None
    attempts: int = 0
    result: Any = None


class PlacementReshapeConflict(ConcurrentUpdate):
    """A generation was outdated while reshaping."""


class DuplicateProvider(PlacementAPIConflict):
    """The name or the UUID of a new provider is taken (it does not say which)."""


class InventoryInUse(PlacementAPIConflict):
    """Inventory that allocations hold cannot be removed.

    :ivar resource_classes: the classes that had to stay.
    """

    resource_classes: tuple[str, ...] = ()


class ResourceProviderInUse(PlacementAPIConflict):
    """A provider that has allocations cannot be deleted.

    :ivar consumers: UUIDs of the consumers that hold them.
    """

    message = "The resource provider has allocations."
    consumers: tuple[str, ...] = ()


class CannotDeleteParent(PlacementAPIConflict):
    """A provider that has children cannot be deleted."""


# -- what was being done -----------------------------------------------------


class OperationFailed(ReportClientError):
    """An operation failed; ``__cause__`` says why, and its facts are copied."""

    message = "An operation on Placement failed."


class ResourceProviderCreationFailed(OperationFailed):
    """A provider could not be created."""


class ResourceProviderNameConflict(ResourceProviderCreationFailed):
    """Another provider has the name.

    :ivar name: the name, as the holder spells it.
    :ivar holder: UUID of the provider that has it.
    :ivar holder_consumers: UUIDs of consumers with allocations there, or
        ``None`` where that could not be read.
    """

    name: str | None = None
    holder: str | None = None
    holder_consumers: tuple[str, ...] | None = None


class ParentProviderNotFound(ResourceProviderCreationFailed):
    """The parent of a new provider does not exist in Placement."""


class ResourceProviderRetrievalFailed(OperationFailed):
    """Providers could not be read."""


class ResourceProviderAggregateRetrievalFailed(ResourceProviderRetrievalFailed):
    """The aggregates of a provider could not be read."""


class ResourceProviderTraitRetrievalFailed(ResourceProviderRetrievalFailed):
    """The traits of a provider could not be read."""


class ResourceProviderAllocationRetrievalFailed(ResourceProviderRetrievalFailed):
    """The allocations on a provider could not be read."""


class ResourceProviderUpdateFailed(OperationFailed):
    """A provider, or an aspect of it, could not be written."""


class ResourceProviderDeletionFailed(OperationFailed):
    """A provider could not be deleted."""


class ConsumerAllocationRetrievalFailed(OperationFailed):
    """What a consumer holds could not be read."""


class UsagesRetrievalFailed(OperationFailed):
    """How much a project holds could not be read."""


class AllocationUpdateFailed(OperationFailed):
    """What a consumer holds could not be written."""


#: nova's names for the same, when something is moved or deleted.
AllocationMoveFailed = AllocationDeleteFailed = AllocationUpdateFailed


class NotAllocated(AllocationUpdateFailed):
    """A consumer does not hold what was to be moved or taken from it.

    Nothing was written.

    :ivar resource_class: the class that it has too little of, if it is one.
    :ivar held: how much of it the consumer holds of ``provider``.
    :ivar wanted: how much was to be taken.
    """

    message = "The consumer does not hold that."
    resource_class: str | None = None
    held: int = 0
    wanted: int = 0


class ConsumerConflict(ConcurrentUpdate, AllocationUpdateFailed):
    """What a consumer holds was changed by somebody else; nothing was written.

    Both sides are told as Placement takes and answers them: by consumer UUID,
    ``{"allocations": {provider: {"resources": {class: amount}}},
    "project_id", "user_id", "consumer_generation"}``.

    :ivar wanted: what was to be written; its generations are those that the
        caller started from.
    :ivar found: what Placement holds now.
    :ivar phantom: Placement refuses the consumer as an existing one, but
        shows nothing of it: a claim that failed left it behind (Launchpad bug
        1778576).
    """

    message = "A consumer was changed by somebody else."
    retryable = False
    wanted: Mapping[str, Any] = {}
    found: Mapping[str, Any] = {}
    phantom: bool = False


class AllocationDoesNotFit(PlacementAPIConflict, AllocationUpdateFailed):
    """Placement has not got what was to be allocated; nothing was written.

    The provider has no inventory of the class, or the amount is not one that
    its ``min_unit``, ``max_unit`` and ``step_size`` allow.

    :ivar resource_classes: the classes that do not fit, where it says so.
    """

    message = "The allocation does not fit."
    resource_classes: tuple[str, ...] = ()


class CapacityExceeded(AllocationDoesNotFit):
    """There is not so much left of a class."""

    message = "There is not so much left."


class AllocationCandidateRetrievalFailed(OperationFailed):
    """Placement did not say from where a request could be served."""


class TraitRetrievalFailed(OperationFailed):
    """The list of traits could not be read."""


class TraitCreationFailed(OperationFailed):
    """A custom trait could not be created."""


class ResourceClassRetrievalFailed(OperationFailed):
    """The list of resource classes could not be read."""


class ResourceClassCreationFailed(OperationFailed):
    """A custom resource class could not be created."""


class ResourceProviderSyncFailed(OperationFailed):
    """A flush did not succeed for every provider.

    :ivar result: the `SyncResult`: what was written, what not, and why.
    """

    message = "Not everything could be sent to Placement."
    result: Any = None


class SyncUnavailable(ResourceProviderSyncFailed, PlacementUnavailable):
    """A flush did not succeed, and every failure is that of reaching Placement."""


class ReshapeFailed(OperationFailed):
    """Moving inventory and allocations between providers failed."""


class MassRemovalRefused(ReportClientError):
    """A tree came back without any provider of its own; nothing was deleted."""


# -- a driver's words --------------------------------------------------------


class ReshapeNeeded(ReportClientError):
    """A driver says that inventory must move between providers."""

    message = "The driver needs a reshape."


class DriverNotReady(ReportClientError):
    """A driver cannot say yet what there is; Placement is left alone."""

    message = "The driver is not ready."
    retryable = True


#: nova's name for the same.
VirtDriverNotReady = DriverNotReady
