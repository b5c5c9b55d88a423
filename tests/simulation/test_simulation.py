# SPDX-License-Identifier: Apache-2.0
"""Three agents, an operator and a scheduler, in thousands of histories.

More of them: ``SEEDS=20000 python -m pytest tests/simulation``. One of them:
``SEED=4711 python -m pytest tests/simulation -k one_seed``.
"""

from __future__ import annotations

import os

import pytest

from tests.simulation.bugs import BUGS
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


@pytest.mark.parametrize("plant", BUGS)
def test_a_planted_bug_is_found(monkeypatch, plant):
    plant(monkeypatch)
    with pytest.raises(Broken):  # noqa: PT012 - whichever seed finds it
        for seed in range(300):
            play(seed)
