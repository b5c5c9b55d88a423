# SPDX-License-Identifier: Apache-2.0
"""Hooks, records and the operator's hand: the same on the fake and the real one."""

from __future__ import annotations

import re
import threading
import uuid

import pytest
import requests
from keystoneauth1 import exceptions as ksa


@pytest.fixture
def adapter(placement):
    return placement.adapter(default_microversion="1.39")


@pytest.fixture
def operator(placement):
    return placement.operator


@pytest.fixture
def own(operator):
    return operator.create_provider("host1")


def put(adapter, path, **body):
    return adapter.put(path, json=body, raise_exc=False)


def listed(adapter):
    return [
        each["name"] for each in adapter.get("/resource_providers").json()["resource_providers"]
    ]


# -- records ---------------------------------------------------------------------------


def test_requests_are_recorded(placement, adapter, own):
    put(adapter, f"/resource_providers/{own}", name="another")
    adapter.get("/resource_providers?name=x&uuid=" + own)
    first, second = placement.requests
    assert (first.method, first.path) == ("PUT", f"/resource_providers/{own}")
    assert (first.json, first.status) == ({"name": "another"}, 200)
    assert first.response_json["name"] == "another"
    assert first.headers["x-auth-token"] == "admin"
    assert first.microversion == "1.39"
    assert second.path == f"/resource_providers?name=x&uuid={own}"
    assert placement.by_kind() == {
        "PUT /resource_providers/{uuid}": 1,
        "GET /resource_providers": 1,
    }
    placement.requests.clear()
    assert placement.by_kind() == {}


def test_without_a_microversion_none_is_recorded(placement):
    placement.adapter().get("/resource_providers")
    assert placement.requests[0].microversion is None


def test_the_operators_requests_are_not_recorded(placement, operator):
    operator.create_provider("x")
    assert placement.requests == []


# -- hooks -----------------------------------------------------------------------------


def test_before_and_after(placement, adapter, operator, own):
    seen = []
    path = f"/resource_providers/{own}"

    def generation():
        return operator.provider(own)["generation"]

    placement.before(
        ("PUT", path), lambda request: seen.append((request.json, operator.provider(own)["name"]))
    )
    placement.after(
        ("PUT", path),
        lambda request, reply: seen.append((reply.status, operator.provider(own)["name"])),
    )
    put(adapter, path, name="another")
    assert seen == [({"name": "another"}, "host1"), (200, "another")]


def test_somebody_else_comes_before(placement, adapter, operator, own):
    placement.before(("PUT", "*/traits"), lambda _: operator.bump(own))
    generation = operator.provider(own)["generation"]
    body = {"resource_provider_generation": generation, "traits": []}
    assert put(adapter, f"/resource_providers/{own}/traits", **body).status_code == 409


@pytest.mark.parametrize(
    ("nth", "times", "hit"), [(1, 1, [0]), (2, 1, [1]), (2, 2, [1, 2]), (9, 1, [])]
)
def test_the_nth_request_that_matches(placement, adapter, nth, times, hit):
    placement.respond(("GET", "/traits"), status=503, nth=nth, times=times)
    statuses = []
    for _ in range(4):
        adapter.get("/resource_classes")
        statuses.append(adapter.get("/traits", raise_exc=False).status_code)
    assert [at for at, status in enumerate(statuses) if status == 503] == hit


@pytest.mark.parametrize(
    ("matcher", "hit"),
    [
        (("GET", "/resource_providers"), True),
        (("GET", "/resource_providers?name=*"), True),
        (("*", "*"), True),
        (("GET", re.compile(r"^/resource_providers\?name=ho.t1$")), True),
        (("GET", re.compile("name=other")), False),
        (("PUT", "*"), False),
        (("GET", "/resource_providers/*"), False),
    ],
)
def test_matchers(placement, adapter, matcher, hit):
    placement.respond(matcher, status=502)
    answer = adapter.get("/resource_providers?name=host1", raise_exc=False)
    assert (answer.status_code == 502) == hit


@pytest.mark.parametrize("applied", [False, True])
def test_an_answer_is_lost(placement, adapter, applied):
    placement.respond(
        ("POST", "/resource_providers"),
        status=502,
        body="<html>bad gateway</html>",
        headers={"Retry-After": "3"},
        applied=applied,
    )
    answer = adapter.post("/resource_providers", json={"name": "a"}, raise_exc=False)
    assert (answer.status_code, answer.text) == (502, "<html>bad gateway</html>")
    assert answer.headers["Content-Type"] == "text/html"
    assert answer.headers["Retry-After"] == "3"
    assert placement.requests[0].status == 502
    assert listed(adapter) == (["a"] if applied else [])


def test_bodies_of_answers(placement, adapter):
    for body, text in (({"a": 1}, '{"a": 1}'), (b'{"cut', '{"cut'), (None, "")):
        placement.clear_hooks()
        placement.respond(("GET", "/traits"), status=200, body=body)
        assert adapter.get("/traits").text == text


@pytest.mark.parametrize("applied", [False, True])
@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (requests.ConnectionError("reset"), ksa.ConnectFailure),
        (requests.exceptions.ReadTimeout("slow"), ksa.ConnectTimeout),
    ],
)
def test_no_answer(placement, adapter, applied, error, raised):
    placement.fail(("POST", "*"), error, applied=applied)
    with pytest.raises(raised):
        adapter.post("/resource_providers", json={"name": "a"}, connect_retries=0)
    assert placement.requests[0].status is None
    assert listed(adapter) == (["a"] if applied else [])


def test_a_hook_may_talk_to_the_same_placement(placement, adapter):
    calls = []

    def look(request):
        calls.append(request.path)
        adapter.get("/resource_providers")

    placement.before(("GET", "*"), look, times=9)
    adapter.get("/traits")
    # What it asked was recorded, and did not call it again.
    assert calls == ["/traits"]
    assert [request.path for request in placement.requests] == ["/traits", "/resource_providers"]
    adapter.get("/resource_classes")
    assert calls == ["/traits", "/resource_classes"]


def test_a_hook_inside_a_hook_if_asked(placement, adapter):
    placement.respond(("GET", "/resource_classes"), status=503, nested=True)
    inner = []
    placement.before(
        ("GET", "/traits"),
        lambda _: inner.append(adapter.get("/resource_classes", raise_exc=False).status_code),
    )
    assert adapter.get("/traits").status_code == 200
    assert inner == [503]


def test_a_hook_that_fails_is_heard(placement, adapter):
    def fail(_):
        raise LookupError("of the test")

    placement.before(("GET", "/traits"), fail)
    with pytest.raises(LookupError, match="of the test"):
        adapter.get("/traits")
    assert adapter.get("/traits").status_code == 200


def test_clearing_hooks(placement, adapter):
    placement.respond(("*", "*"), status=500, times=9)
    placement.clear_hooks()
    assert adapter.get("/traits").status_code == 200


def test_from_several_threads(placement, adapter):
    """A hook's function waits for another request: nothing is locked meanwhile."""
    second = threading.Event()
    placement.before(("GET", "/traits"), lambda _: second.wait(10) or pytest.fail("alone"))
    placement.after(("GET", "/resource_classes"), lambda *_: second.set())
    statuses = []
    threads = [
        threading.Thread(target=lambda p=path: statuses.append(adapter.get(p).status_code))
        for path in ("/traits", "/resource_classes")
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses == [200, 200]


# -- life ------------------------------------------------------------------------------


def test_reset(placement, adapter, operator):
    own = operator.create_provider("host1")
    child = operator.create_provider("child", parent=own)
    operator.set_inventory(child, {"VCPU": {"total": 8}, "CUSTOM_X": {"total": 1}})
    operator.set_traits(child, {"CUSTOM_A", "HW_CPU_X86_AVX"})
    operator.set_aggregates(child, {str(uuid.uuid4())})
    operator.allocate(str(uuid.uuid4()), {child: {"VCPU": 1}})
    placement.respond(("GET", "*"), status=500)
    adapter.post("/resource_providers", json={"name": "x"})
    placement.reset()
    assert placement.requests == []
    assert listed(adapter) == []
    assert adapter.get("/traits/CUSTOM_A", raise_exc=False).status_code == 404
    assert adapter.get("/resource_classes/CUSTOM_X", raise_exc=False).status_code == 404
    assert adapter.get("/traits/HW_CPU_X86_AVX").status_code == 204
    assert adapter.get("/usages?project_id=project").json() == {"usages": {}}
    # And it is as good as new.
    operator.set_inventory(operator.create_provider("host1"), {"CUSTOM_X": {"total": 1}})
    assert listed(adapter) == ["host1"]


# -- the operator's hand ---------------------------------------------------------------


def test_what_a_provider_has(operator):
    parent = operator.create_provider("parent")
    own, aggregate = str(uuid.uuid4()), str(uuid.uuid4())
    assert operator.provider(own) is None
    assert operator.create_provider("child", own, parent) == own
    operator.set_inventory(own, {"VCPU": {"total": 8}, "CUSTOM_X": {"total": 1}})
    operator.add_trait(own, "CUSTOM_A")
    operator.add_trait(own, "HW_CPU_X86_AVX")
    operator.set_aggregates(own, [aggregate])
    found = operator.provider(own)
    assert found.pop("generation") is not None
    assert found.pop("inventory").keys() == {"VCPU", "CUSTOM_X"}
    assert found == {
        "uuid": own,
        "name": "child",
        "parent": parent,
        "root": parent,
        "traits": ["CUSTOM_A", "HW_CPU_X86_AVX"],
        "aggregates": [aggregate],
    }
    operator.rename_provider(own, "renamed")
    assert operator.providers() == {"parent": parent, "renamed": own}
    operator.delete_provider(own)
    assert operator.provider(own) is None


def test_bump_moves_the_generation_only(operator, own):
    operator.set_inventory(own, {"VCPU": {"total": 8}})
    before = operator.provider(own)
    operator.bump(own)
    after = operator.provider(own)
    assert before.pop("generation") != after.pop("generation")
    assert before == after


def test_allocating(operator, own):
    operator.set_inventory(own, {"VCPU": {"total": 8}})
    consumer = str(uuid.uuid4())
    operator.allocate(consumer, {own: {"VCPU": 2}}, project_id="p", user_id="u")
    held = operator.call("GET", f"/allocations/{consumer}")
    assert held["allocations"][own]["resources"] == {"VCPU": 2}
    assert (held["project_id"], held["user_id"]) == ("p", "u")
    operator.allocate(consumer, {own: {"VCPU": 3}})
    assert operator.call("GET", f"/resource_providers/{own}/usages")["usages"] == {"VCPU": 3}
    operator.allocate(consumer, {})
    assert operator.call("GET", f"/allocations/{consumer}") == {"allocations": {}}


def test_what_the_operator_may_not_do_is_said(operator):
    with pytest.raises(AssertionError, match=r"GET /traits/X was answered 404: .*No such trait"):
        operator.call("GET", "/traits/X")


def test_a_recorded_request_does_not_show_its_token(placement):
    placement.adapter().get("/resource_providers", raise_exc=False)
    [request] = placement.requests
    assert request.headers["X-Auth-Token"] not in repr(request)
    assert "GET /resource_providers" in repr(request)


@pytest.mark.parametrize("matcher", ["PUT", ("PUT",), (None, "*")])
def test_what_is_no_matcher_is_refused_with_an_example(placement, matcher):
    with pytest.raises(ValueError, match="no matcher: give a method and a path"):
        placement.respond(matcher, status=500)


def test_hooks_that_nothing_met_are_named(placement):
    placement.respond(("GET", "/resource_providers"), status=503)
    placement.respond(("PUT", "*/traits"), status=503)
    placement.adapter().get("/resource_providers", raise_exc=False)
    assert placement.unused_hooks() == ["PUT */traits"]
