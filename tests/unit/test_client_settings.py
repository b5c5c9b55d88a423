# SPDX-License-Identifier: Apache-2.0
"""Settings of the client that make no sense are refused, by name."""

from __future__ import annotations

import pytest

from reportclient import ReportClient, RetryPolicy
from reportclient.testing import FakePlacement


@pytest.mark.parametrize(
    "settings",
    [
        {"refresh_interval": -1},
        {"refresh_interval": "300"},
        {"deep_refresh_every": -1},
        {"max_workers": 0},
        {"max_workers": True},
        {"timeout": 0},
        {"timeout": None},
        {"timeout": float("nan")},
        {"retry": 3},
    ],
)
def test_settings_that_make_no_sense(settings):
    [name] = settings
    with pytest.raises(ValueError, match=name):
        ReportClient(FakePlacement().adapter(), **settings)


@pytest.mark.parametrize("name", ["attempts", "deadline", "base_delay", "resend_attempts"])
def test_policies_that_make_no_sense(name):
    with pytest.raises(ValueError, match=name):
        RetryPolicy(**{name: -1})
