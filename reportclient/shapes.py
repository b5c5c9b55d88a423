# SPDX-License-Identifier: Apache-2.0
"""What Placement's answers hold, as checked values.

A 2xx whose JSON is not what the API reference says is a `BadAnswer`: nothing
is believed, and nothing guessed, on its account.
"""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from collections.abc import Container, Iterator, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

from reportclient.microversions import Microversion, format_microversion
from reportclient.transport import Answer
from reportclient.types import Generation, Inventory, ProviderSummary

__all__ = [
    "AllocationCandidates",
    "AspectValue",
    "ConsumerAllocations",
    "ProviderAllocations",
    "ProviderListing",
    "Usages",
    "aggregates",
    "allocation_candidates",
    "consumer_allocations",
    "inventories",
    "listing",
    "names",
    "project_usages",
    "provider_allocations",
    "resource_classes",
    "summary",
    "traits",
    "usages",
]

T = TypeVar("T")


@dataclasses.dataclass(frozen=True, slots=True)
class AspectValue(Generic[T]):
    """The value of an aspect and the generation of the same answer.

    :ivar generation: ``None`` where the answer has none: aggregates below 1.19.
    """

    value: T
    generation: Generation | None


class ProviderListing(NamedTuple):
    """Providers as listed, and the listing's ``Last-Modified``.

    :ivar last_modified: ``None`` below 1.15 and for a list asked for in parts.
    """

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
    :ivar consumer_type: ``None`` where it was not asked for or does not
        matter; Placement's word for a consumer that has none is ``"unknown"``.
    :ivar generations: of the providers, as the same answer had them.
    """

    resources: Mapping[str, Mapping[str, int]]
    project_id: str | None
    user_id: str | None
    consumer_generation: Generation | None
    consumer_type: str | None = None
    generations: Mapping[str, Generation] = dataclasses.field(default_factory=dict, compare=False)

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

    def to_typed_body(self) -> dict[str, Any] | None:
        """The same as 1.38 takes it; ``None`` for a consumer without a type.

        "unknown" is answered by Placement, but refused (story 2009167).
        """
        if self.consumer_type in (None, "unknown"):
            return None
        return {**self.to_body(), "consumer_type": self.consumer_type}

    def same_as(self, other: ConsumerAllocations) -> bool:
        """Whether the same is held for the same project and user.

        Project and user do not matter where nothing is held.
        """
        mine, theirs = self.to_body(), other.to_body()
        if not mine["allocations"] and not theirs["allocations"]:
            return True
        return all(mine[key] == theirs[key] for key in ("allocations", "project_id", "user_id"))


@dataclasses.dataclass(frozen=True)
class Usages:
    """How much is held: resource class -> amount.

    :ivar consumers: how many consumers hold it; ``None`` below 1.38.
    :ivar by_type: the same for each type of consumer; empty below 1.38.
        Placement's word for consumers without a type is ``"unknown"``.
    """

    resources: Mapping[str, int]
    consumers: int | None = None
    by_type: Mapping[str, Usages] = dataclasses.field(default_factory=dict)


class AllocationCandidates(NamedTuple):
    """From where a request for resources could be served.

    :ivar allocation_requests: one dict for each way, ``{"allocations":
        {provider UUID: {"resources": {class: amount}}}, "mappings": {suffix:
        [provider UUID]}}`` (``mappings`` from 1.34 on); empty if there is none.
    :ivar provider_summaries: provider UUID -> ``{"resources": {class:
        {"capacity", "used"}}, "traits": [...], "parent_provider_uuid",
        "root_provider_uuid"}`` (traits from 1.17, the others from 1.29 on), of
        the whole trees (from 1.29 on) that are named in the requests.
    :ivar version: the microversion of the answer, ``"1.38"``: a claim has to
        be made in the form of the same.
    """

    allocation_requests: list[dict[str, Any]]
    provider_summaries: dict[str, dict[str, Any]]
    version: str


# -- reading ----------------------------------------------------------------------


def summary(answer: Answer) -> ProviderSummary:
    """One provider, as GET, PUT and POST (1.20) answer it."""
    with _shape(answer):
        return _summary(answer.body)


def listing(answer: Answer) -> list[ProviderSummary]:
    """The providers of a list."""
    with _shape(answer):
        return [_summary(given) for given in _typed(answer.body["resource_providers"], list)]


def inventories(answer: Answer) -> AspectValue[Inventory]:
    """The inventory of a provider."""
    with _shape(answer):
        given = _typed(answer.body["inventories"], dict)
        inventory = {sys.intern(_text(name)): _numbers(record) for name, record in given.items()}
        return AspectValue(inventory, _generation(answer))


def aggregates(answer: Answer) -> AspectValue[frozenset[str]]:
    """The aggregates of a provider."""
    value = names(answer, "aggregates")
    if answer.microversion < (1, 19):
        return AspectValue(value, None)
    with _shape(answer):
        return AspectValue(value, _generation(answer))


def traits(answer: Answer) -> AspectValue[frozenset[str]]:
    """The traits of a provider."""
    value = names(answer, "traits")
    with _shape(answer):
        return AspectValue(value, _generation(answer))


def names(answer: Answer, key: str) -> frozenset[str]:
    """A list of texts."""
    with _shape(answer):
        # Many providers have the same few, and each answer spells them anew.
        return frozenset(sys.intern(_text(name)) for name in _typed(answer.body[key], list))


def resource_classes(answer: Answer) -> frozenset[str]:
    """The names of a list of resource classes."""
    with _shape(answer):
        listed = _typed(answer.body["resource_classes"], list)
        return frozenset(_text(given["name"]) for given in listed)


def usages(answer: Answer) -> dict[str, int]:
    """How much of each class of a provider is in use."""
    with _shape(answer):
        return _amounts(answer.body["usages"])


def provider_allocations(answer: Answer) -> ProviderAllocations:
    """Who holds what of a provider."""
    with _shape(answer):
        given = _typed(answer.body["allocations"], dict)
        consumers = {consumer: _amounts(held["resources"]) for consumer, held in given.items()}
        return ProviderAllocations(consumers, _generation(answer))


def consumer_allocations(answer: Answer) -> ConsumerAllocations:
    """What a consumer holds; one that is unknown has no more than that."""
    with _shape(answer):
        given = _typed(answer.body["allocations"], dict)
        return ConsumerAllocations(
            {uuid: _amounts(part["resources"]) for uuid, part in given.items()},
            answer.body.get("project_id"),
            answer.body.get("user_id"),
            answer.body.get("consumer_generation"),
            answer.body.get("consumer_type"),
            {uuid: part["generation"] for uuid, part in given.items() if "generation" in part},
        )


def project_usages(answer: Answer) -> Usages:
    """How much a project holds; from 1.38 on by type of consumer."""
    with _shape(answer):
        given = _typed(answer.body["usages"], dict)
        if answer.microversion < (1, 38):
            return Usages(_amounts(given))
        by_type = {}
        for kind, amounts in given.items():
            held = _amounts(amounts)
            by_type[_text(kind)] = Usages(held, held.pop("consumer_count"))
        total: dict[str, int] = {}
        for part in by_type.values():
            for name, amount in part.resources.items():
                total[name] = total.get(name, 0) + amount
        return Usages(total, sum(part.consumers or 0 for part in by_type.values()), by_type)


def allocation_candidates(answer: Answer) -> AllocationCandidates:
    """From where a request for resources could be served (1.12)."""
    with _shape(answer):
        found = _typed(answer.body["allocation_requests"], list)
        for request in found:
            _check_allocation_request(request, answer.microversion)
        summaries = _typed(answer.body["provider_summaries"], dict)
        for shown in summaries.values():
            _check_provider_summary(shown, answer.microversion)
        return AllocationCandidates(found, summaries, format_microversion(answer.microversion))


def _check_allocation_request(given: Any, version: Microversion) -> None:
    held = _typed(given["allocations"], dict)
    if not held:
        raise TypeError("no allocations")
    for part in held.values():
        _amounts(part["resources"])
    if version >= (1, 34):
        for uuids in _typed(given["mappings"], dict).values():
            _texts(uuids)


def _check_provider_summary(given: Any, version: Microversion) -> None:
    for amounts in _typed(given["resources"], dict).values():
        _amounts({name: amounts[name] for name in ("capacity", "used")})
    if version >= (1, 17):
        _texts(given["traits"])
    if version >= (1, 29):
        _text(given["root_provider_uuid"])
        if given["parent_provider_uuid"] is not None:
            _text(given["parent_provider_uuid"])


@contextlib.contextmanager
def _shape(answer: Answer) -> Iterator[None]:
    """Refuse a 2xx whose JSON is not what the API reference says."""
    try:
        yield
    except (KeyError, TypeError, AttributeError) as error:
        raise answer.bad(f"is not as the API says: {error!r}") from error


def _summary(given: Any) -> ProviderSummary:
    generation = given["generation"]
    if generation is None:
        raise TypeError("no generation")
    parent, root = given.get("parent_provider_uuid"), given.get("root_provider_uuid")
    return ProviderSummary(
        _text(given["uuid"]),
        _text(given["name"]),
        generation,
        None if parent is None else _text(parent),
        None if root is None else _text(root),
    )


def _generation(answer: Answer) -> Generation:
    generation: Generation | None = answer.body["resource_provider_generation"]
    if generation is None:
        raise TypeError("no generation")
    return generation


def _numbers(record: Any) -> dict[str, int | float]:
    for field, value in _typed(record, dict).items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise TypeError(f"{field} is {value!r}")
    return {sys.intern(field): value for field, value in record.items()}


def _amounts(given: Any) -> dict[str, int]:
    for name, amount in _typed(given, dict).items():
        if type(amount) is not int:
            raise TypeError(f"{name} is {amount!r}")
    return dict(given)


def _typed(value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        raise TypeError(f"{value!r} is no {kind.__name__}")
    return value


def _texts(value: Any) -> None:
    for each in _typed(value, list):
        _text(each)


def _text(value: Any) -> str:
    text: str = _typed(value, str)
    return text
