# SPDX-License-Identifier: Apache-2.0
"""Consumers and what they hold, on a `FakeState`. No HTTP."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from reportclient.testing.fake_state import CONCURRENT, Consumer, FakeState, Refusal

__all__ = ["Claim", "add_consumers", "forget", "replace_allocations"]


@dataclasses.dataclass
class Claim:
    """What a consumer is to hold from now on; nothing: it lets go of all.

    :ivar generation: of the consumer; ``None``: it must be new.
    :ivar guarded: whether the generation counts (1.28).
    """

    consumer: str
    held: Mapping[str, Mapping[str, int]]
    project_id: str
    user_id: str
    generation: int | None = None
    guarded: bool = False
    type: str | None = None


def add_consumers(state: FakeState, claims: Iterable[Claim]) -> list[str]:
    """Make the consumers that are not there yet; the UUIDs of those made.

    They stay if what follows is refused for an unknown provider: so they do
    in the service (Launchpad bug 1778576).

    :raises Refusal: 409, a generation is outdated; then none is made.
    """
    made: list[str] = []
    for claim in claims:
        try:
            _check_generation(state, claim)
        except Refusal:
            forget(state, made)
            raise
        if claim.consumer not in state.consumers:
            made.append(claim.consumer)
            state.consumers[claim.consumer] = Consumer(
                claim.consumer,
                state.new_generation(),
                claim.project_id,
                claim.user_id,
                claim.type,
                modified=state.clock(),
            )
    for claim in claims:
        for uuid in claim.held:
            if uuid not in state.providers:
                raise Refusal(
                    400, f"Allocation for resource provider '{uuid}' that does not exist."
                )
    return made


def forget(state: FakeState, consumers: Iterable[str]) -> None:
    """Take away consumers."""
    for uuid in consumers:
        state.consumers.pop(uuid, None)


def _check_generation(state: FakeState, claim: Claim) -> None:
    if not claim.guarded:
        return
    known = state.consumers.get(claim.consumer)
    there = known.generation if known else None
    if there != claim.generation:
        expected = "null" if there is None else there
        raise Refusal(
            409,
            f"consumer generation conflict - expected {expected} but got {claim.generation}",
            CONCURRENT,
        )


# -- replacing -------------------------------------------------------------------------

#: provider, class, amount; amount 0: let go of it.
_Line = tuple[str, str, int]


def replace_allocations(state: FakeState, claims: Iterable[Claim]) -> None:
    """Replace what consumers hold, all or nothing.

    Every provider that is named moves its generation; one that a consumer
    merely no longer holds does not, unless it lets go of all.

    :raises UnknownClass: a class is not there.
    :raises Refusal: 409, it does not fit beside what others hold.
    """
    claims = list(claims)
    lines = {claim.consumer: list(_lines(state, claim)) for claim in claims}
    touched = {consumer for consumer, of_it in lines.items() if of_it}
    every = [line for of_one in lines.values() for line in of_one]
    for _, name, _ in every:
        state.check_class(name)
    _check_capacity(state, every, touched)
    for uuid in dict.fromkeys(uuid for uuid, _, _ in every):
        state.bump(uuid)
    for claim in claims:
        _store(state, claim, touched=claim.consumer in touched)


def _lines(state: FakeState, claim: Claim) -> Iterator[_Line]:
    if claim.held:
        for uuid, resources in claim.held.items():
            for name, amount in resources.items():
                yield uuid, name, amount
    else:
        for uuid, resources in state.consumers[claim.consumer].held.items():
            for name in resources:
                yield uuid, name, 0


def _store(state: FakeState, claim: Claim, *, touched: bool) -> None:
    consumer = state.consumers[claim.consumer]
    consumer.project_id, consumer.user_id = claim.project_id, claim.user_id
    if claim.type is not None:
        consumer.type = claim.type
    if not touched:
        return
    if not claim.held:
        forget(state, [claim.consumer])
        return
    consumer.held = {uuid: dict(resources) for uuid, resources in claim.held.items()}
    consumer.generation = state.new_generation(consumer.generation)
    consumer.modified = state.clock()


def _used(state: FakeState, without: set[str]) -> dict[tuple[str, str], int]:
    used: dict[tuple[str, str], int] = defaultdict(int)
    for consumer in state.consumers.values():
        if consumer.uuid not in without:
            for uuid, resources in consumer.held.items():
                for name, amount in resources.items():
                    used[uuid, name] += amount
    return used


def _check_capacity(state: FakeState, lines: list[_Line], touched: set[str]) -> None:
    _check_inventories(state, lines)
    before, others = _used(state, set()), _used(state, touched)
    asked: dict[tuple[str, str], int] = defaultdict(int)
    for uuid, name, amount in lines:
        asked[uuid, name] += amount
        if not amount:
            continue
        record = state.providers[uuid].inventories.get(name)
        if record is None:
            raise _does_not_fit(f"Inventory for '{name}' on resource provider '{uuid}' invalid.")
        what = f"Unable to create allocation for '{name}' on resource provider '{uuid}'."
        if not record["min_unit"] <= amount <= record["max_unit"] or amount % record["step_size"]:
            raise _does_not_fit(
                f"{what} The requested amount would violate inventory constraints."
            )
        capacity = (record["total"] - record["reserved"]) * record["allocation_ratio"]
        wanted = others[uuid, name] + asked[uuid, name]
        # Beyond capacity already: less than before is welcome.
        if wanted > capacity and not wanted <= before.get((uuid, name), -1):
            raise _does_not_fit(f"{what} The requested amount would exceed the capacity.")


def _check_inventories(state: FakeState, lines: list[_Line]) -> None:
    """Refuse providers that have none of the classes asked for."""
    names = {name for _, name, _ in lines}
    without = {
        uuid for uuid, _, _ in lines if not names & state.providers[uuid].inventories.keys()
    }
    if without:
        classes = ", ".join(name for name in state.classes if name in names)
        providers = ", ".join(sorted(without))
        raise _does_not_fit(
            f"Inventory for '{classes}' on resource provider '{providers}' invalid."
        )


def _does_not_fit(why: str) -> Refusal:
    return Refusal(409, f"Unable to allocate inventory: {why}")
