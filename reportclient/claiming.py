# SPDX-License-Identifier: Apache-2.0
"""Claiming what was found: an allocation request becomes a consumer's."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from reportclient import claims, consumers
from reportclient.api import ConsumerAllocations, PlacementAPI
from reportclient.engine import Engine

__all__ = ["Claim", "claim"]


@dataclasses.dataclass(frozen=True)
class Claim:
    """Who asks for what.

    :ivar resources: provider UUID -> resource class -> amount.
    :ivar stated: whether the caller says what generation the consumer has;
        ``generation`` is then that one, ``None`` for a consumer that is new.
    """

    consumer: str
    resources: dict[str, dict[str, int]]
    project_id: str
    user_id: str
    stated: bool
    generation: object
    consumer_type: str | None

    @classmethod
    def of(
        cls,
        consumer: str,
        request: Mapping[str, Any],
        project_id: str,
        user_id: str,
        generation: object,
        consumer_type: str | None,
    ) -> Claim:
        """What a caller asks for, checked.

        :raises InvalidAllocation, InvalidUUID, InvalidResourceClass: see there.
        """
        resources = claims.request(consumer, request)
        stated = "consumer_generation" in request or generation is not None
        return cls(
            consumer,
            resources,
            claims.owner(consumer, "project_id", project_id),
            claims.owner(consumer, "user_id", user_id),
            stated,
            request.get("consumer_generation", generation),
            claims.check_consumer_type(consumer_type, consumer),
        )


def claim(api: PlacementAPI, engine: Engine, asked: Claim) -> None:
    """Have a consumer hold what it asks for, beside what it holds elsewhere.

    :raises: as `consumers.store`.
    """
    consumer = asked.consumer
    held = api.get_allocations(consumer, typed=asked.consumer_type is not None)
    wanted = ConsumerAllocations(
        claims.doubled(held, asked.resources),
        asked.project_id,
        asked.user_id,
        held.consumer_generation,
        held.consumer_type,
    )
    if asked.stated and asked.generation != held.consumer_generation:
        # Placement would refuse it; what it holds now was read anyway.
        raise consumers.conflict(
            {consumer: dataclasses.replace(wanted, consumer_generation=asked.generation)},
            {consumer: held},
        )
    if held.resources and wanted.same_as(held):
        return
    wanted = claims.with_type(wanted, asked.consumer_type)
    consumers.store(api, engine, {consumer: wanted})
