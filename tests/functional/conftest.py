# SPDX-License-Identifier: Apache-2.0
"""A client with a clock of its own, on the fake and on the real Placement."""

from __future__ import annotations

import contextlib
import random
import uuid

import pytest

from reportclient import ReportClient
from reportclient.testing.embedded import EmbeddedPlacement


@pytest.fixture
def make_client(placement, clock):
    """Build clients as an agent would; further settings as keywords."""
    made = []

    def make(adapter=None, **settings):
        settings = {
            "clock": clock,
            "sleep": clock.sleep,
            "random": random.Random(7).random,
            "max_workers": 1,
            **settings,
        }
        made.append(ReportClient(adapter or placement.adapter(), **settings))
        return made[-1]

    yield make
    for client in made:
        client.close()


@pytest.fixture
def client(make_client):
    return make_client()


@pytest.fixture
def root():
    return str(uuid.uuid4())


@pytest.fixture
def operator(placement):
    """Somebody else who writes to Placement."""
    return placement.operator


class EditingDriver:
    """A driver made of a function that edits the tree."""

    def __init__(self, edit) -> None:
        self.edit = edit
        self.calls = 0

    def update_provider_tree(self, provider_tree, nodename, allocations=None):
        self.calls += 1
        self.edit(provider_tree)


@pytest.fixture
def editing():
    return EditingDriver


@pytest.fixture
def older():
    """Start the real Placement as an older one: ``older("1.19")``."""
    with contextlib.ExitStack() as stack:
        yield lambda version: stack.enter_context(EmbeddedPlacement(max_microversion=version))
