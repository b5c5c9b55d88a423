# SPDX-License-Identifier: Apache-2.0
"""Microversions, media types, methods and tokens; older servers."""

from __future__ import annotations

import pytest
from side_by_side import PARENT, SideBySide, an_id

P = f"/resource_providers/{PARENT}"
MISSING = f"/resource_providers/{an_id(99)}"


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ("placement 1.99", 406),
        ("placement 2.0", 406),
        ("placement 0.9", 406),
        ("placement nonsense", 400),
        ("placement 1", 400),
        ("placement 1.39.1", 400),
        ("placement latest", 200),
        ("compute 2.1", 200),
        ("compute 2.1, placement 1.5", 200),
        ("placement  1.5", 200),
        ("1.5", 200),
        ("latest", 200),
        ("placement", 200),
        ("Placement 1.5", 200),
        ("", 200),
    ],
)
def test_asking_for_a_microversion(both_to_read, asked, status):
    headers = {"OpenStack-API-Version": asked}
    for path, expected in (("/resource_providers", status), ("/", status)):
        assert both_to_read("GET", path, version=None, headers=headers)[0] == expected
    both_to_read("GET", MISSING, version=None, headers=headers)


def test_without_a_microversion_it_is_the_oldest(both_to_read):
    _, shown = both_to_read("GET", P, version=None)
    assert "parent_provider_uuid" not in shown


@pytest.mark.parametrize("version", ["1.0", "1.22", "1.39"])
@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("PATCH", P, 405),
        ("DELETE", "/resource_providers", 405),
        ("POST", "/", 405),
        ("PUT", "/traits", 405),
        ("GET", "/reshaper", 405),
        ("OPTIONS", "/resource_providers", 405),
        ("GET", "/resource_providers/", 404),
        ("GET", f"{P}/", 404),
    ],
)
def test_methods_and_routes_that_are_not_there(both_to_read, method, path, status, version):
    assert both_to_read(method, path, version=version)[0] == status


@pytest.mark.parametrize("version", ["1.1", "1.39"])
@pytest.mark.parametrize("media_type", [None, "text/plain", "application/json; charset=utf-8"])
def test_media_types(both, media_type, version):
    headers = {"Content-Type": media_type}
    for method, path, body in (
        ("PUT", P, {"name": "parent"}),
        ("PUT", P, None),
        ("PUT", f"{P}/aggregates", []),
        ("POST", "/reshaper", {}),
        ("PUT", "/resource_classes/CUSTOM_Q", None),
        ("PUT", "/traits/CUSTOM_Q", None),
    ):
        both(method, path, body, version, headers=headers)


def test_bodies_that_are_not_json(both):
    for raw in (b"{bad", b"\xff\xfe", b"", b"[1,]"):
        assert both("PUT", P, raw=raw)[0] == 400
    assert both("PUT", "/traits/CUSTOM_Q", {"not": "looked at"})[0] == 201


def test_a_token_is_needed_but_for_the_versions(both_to_read):
    nobody = {"X-Auth-Token": None}
    assert both_to_read("GET", "/", headers=nobody)[0] == 200
    status, body = both_to_read("GET", "/resource_providers", headers=nobody)
    # Not Placement's shape: what stands before it answers.
    assert (status, "errors" in body) == (401, False)
    assert both_to_read("GET", "/nonsense", headers=nobody)[0] == 401


@pytest.mark.parametrize("newest", ["1.0", "1.18", "1.36", (1, 19)])
def test_older_servers(newest):
    name = newest if isinstance(newest, str) else "1.19"
    minor = int(name.partition(".")[2])
    with SideBySide(max_microversion=newest) as both:
        assert both("GET", "/", version=None)[1]["versions"][0]["max_version"] == name
        for version in (f"1.{minor + 1}", "1.39"):
            status, body = both("GET", "/resource_providers", version=version)
            [error] = body["errors"]
            assert (status, error["max_version"], error["min_version"]) == (406, name, "1.0")
        created, _ = both("POST", "/resource_providers", {"name": "a", "uuid": PARENT}, name)
        assert created == (201 if minor < 20 else 200)
        latest = both("GET", P, version="latest")[1]
        assert ("root_provider_uuid" in latest) == (minor >= 14)
        # What it does not know yet is not there.
        both("GET", f"{P}/traits", version=name)
        both("PUT", f"{P}/aggregates", [an_id(101)], name)


def test_after_an_older_server_comes_a_new_one():
    with SideBySide(max_microversion="1.5"):
        pass
    with SideBySide() as both:
        assert both("GET", "/resource_providers", version="1.39")[0] == 200


@pytest.mark.parametrize("newest", ["1.40", "2.0", "0.9"])
def test_there_is_no_such_server(newest):
    with (
        pytest.raises(ValueError, match=rf"no microversion {newest}"),
        SideBySide(max_microversion=newest),
    ):
        pass
