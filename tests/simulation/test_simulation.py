# SPDX-License-Identifier: Apache-2.0
"""Three agents, an operator and a scheduler, in thousands of histories.

More of them: ``SEEDS=20000 python -m pytest tests/simulation``. One of them:
``SEED=4711 python -m pytest tests/simulation -k one_seed``.
"""

from __future__ import annotations

import dataclasses
import os

import pytest

from reportclient import merge
from reportclient.cache import CachedProvider
from tests.simulation.world import Broken, World

SEEDS = int(os.environ.get("SEEDS", "2000"))
BLOCKS = 16


def play(seed):
    world = World(seed)
    try:
        world.run()
    except BaseException as error:
        history = "\n".join(world.trace[-60:])
        raise Broken(f"seed {seed}: {error!r}\n{history}") from error
    return world


@pytest.mark.parametrize("block", range(BLOCKS))
def test_every_promise_is_kept_in_every_history(block):
    for seed in range(block, SEEDS, BLOCKS):
        play(seed)


def test_one_seed_replays_exactly():
    seed = int(os.environ.get("SEED", "7"))
    assert play(seed).trace == play(seed).trace


# -- planted bugs: the simulation has to find them -------------------------------


def swap_only_the_generation(monkeypatch):
    """On a 409, take the new generation and keep the old value."""
    read = CachedProvider.read

    def wrong(self, aspect, value, generation):
        known = getattr(self.record, aspect)
        return read(self, aspect, value if known is None else known, generation)

    monkeypatch.setattr(CachedProvider, "read", wrong)


def stamp_a_listing_as_read(monkeypatch):
    """Believe that what was read once is what the generation listed stands for."""
    seen = CachedProvider.seen

    def wrong(self, summary, *, sharing=False):
        new = seen(self, summary, sharing=sharing)
        if self.record.inventory is None:
            return new
        return dataclasses.replace(
            new,
            inventory_generation=summary.generation,
            traits_generation=summary.generation,
            aggregates_generation=summary.generation,
        )

    monkeypatch.setattr(CachedProvider, "seen", wrong)


def send_the_old_set_again(monkeypatch):
    """Write what the driver made of what it was handed, whatever is there now."""
    monkeypatch.setattr(
        merge, "merge_set", lambda base, mine, theirs: theirs if mine is None else mine
    )


def move_all_aspects_along(monkeypatch):
    """After a write, believe of every aspect that it is current."""
    written = CachedProvider.written

    def wrong(self, aspect, value, guard, generation):
        new = written(self, aspect, value, guard, generation)
        return dataclasses.replace(
            new,
            inventory_generation=generation,
            traits_generation=generation,
            aggregates_generation=generation,
        )

    monkeypatch.setattr(CachedProvider, "written", wrong)


@pytest.mark.parametrize(
    "plant",
    [
        swap_only_the_generation,
        stamp_a_listing_as_read,
        send_the_old_set_again,
        move_all_aspects_along,
    ],
)
def test_a_planted_bug_is_found(monkeypatch, plant):
    plant(monkeypatch)
    with pytest.raises(Broken):  # noqa: PT012 - whichever seed finds it
        for seed in range(300):
            play(seed)
