# SPDX-License-Identifier: Apache-2.0
"""The measurements run, in small; their page is the one in the documentation."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import client, page, rounds, scale
from bench.__main__ import consumers_table, passes_table, tree_table

SIDES = {"ours": 1, "floor": 1}


@pytest.fixture(scope="module")
def service():
    with rounds.service("sqlite", 0) as at:
        yield at


def test_a_host(service):
    found = rounds.lives("host_life", service, 2, SIDES, nova="")
    ours, floor = found["ours"]["passes"], found["floor"]["passes"]
    assert list(ours) == list(floor)
    for title in ours:
        assert ours[title]["requests"] == floor[title]["requests"], title
    assert "first report" in client.pass_table(found)


def test_a_fleet(service):
    found = rounds.lives("fleet_life", service, 12, SIDES, nova="")
    ours, floor = found["ours"]["passes"], found["floor"]["passes"]
    assert ours["nothing due"]["requests"] == 0
    for title in ("refresh due", "restart", "restart with a cache file"):
        assert ours[title]["requests"] == floor[title]["requests"], title
    assert "first report" in scale.pass_table(found)


@pytest.mark.parametrize("name", ["client", "scale", "passes", "consumers", "tree"])
def test_results_are_kept(name):
    assert json.loads((page.RESULTS / f"{name}.json").read_text())["found"]


def test_the_page_is_the_one_in_the_documentation():
    written = Path(page.HERE.parent, "docs", "measured.rst").read_text()
    assert written == page.page(tree_table, passes_table, consumers_table)
