# SPDX-License-Identifier: Apache-2.0
"""Fixtures for all tests."""

from __future__ import annotations

import logging

import pytest

from reportclient.testing.embedded import EmbeddedPlacement
from reportclient.testing.fake import FakePlacement

KINDS = {"fake": FakePlacement, "embedded": EmbeddedPlacement}


class Clock:
    """Seconds that pass when a test says so, or when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture(params=list(KINDS))
def placement(request):
    """A Placement: the fake and the real one in turn."""
    with KINDS[request.param]() as service:
        yield service


@pytest.fixture(autouse=True)
def _log_levels():
    """Commands set the levels of loggers for their process; tests share one."""
    loggers = [logging.getLogger(name) for name in ("reportclient", "keystoneauth")]
    levels = [logger.level for logger in loggers]
    yield
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)
