# SPDX-License-Identifier: Apache-2.0
"""Requests as they are sent: headers, microversions, tokens, redirects, resending."""

from __future__ import annotations

import logging
import threading

import pytest
import requests
import requests_mock
from keystoneauth1 import adapter as ksa_adapter
from keystoneauth1 import session as ksa_session
from keystoneauth1 import token_endpoint
from keystoneauth1.identity import v3

from reportclient import exceptions
from reportclient.request_log import RequestLog, route_of

VERBS = ["GET", "PUT", "POST", "DELETE"]
ANY = {"want": (1, 39), "need": (1, 0)}


def refusal(highest="1.10", lowest="1.0", **more):
    """A 406 as Placement answers it."""
    error = {"status": 406, "title": "Not Acceptable", "detail": "Unacceptable version header"}
    return {
        "status_code": 406,
        "json": {"errors": [error | {"max_version": highest, "min_version": lowest} | more]},
        "headers": {"x-openstack-request-id": "req-406"},
    }


def older(highest):
    """A server that knows no microversion above one."""

    def answer(request, context):
        asked = request.headers["OpenStack-API-Version"].removeprefix("placement ")
        if tuple(map(int, asked.split("."))) > tuple(map(int, highest.split("."))):
            context.status_code = 406
            return refusal(highest)["json"]
        return {"at": asked}

    return answer


def versions(mock):
    return [
        request.headers["OpenStack-API-Version"].removeprefix("placement ")
        for request in mock.request_history
    ]


# -- what every request says ------------------------------------------------------------


@pytest.mark.parametrize("method", VERBS)
def test_b135_b139_every_request_says_version_and_format(mock, transport, url, method):
    mock.request(method, f"{url}/x", json={})
    transport.request(method, "/x", want=(1, 7), need=(1, 0))
    headers = mock.last_request.headers
    assert headers["OpenStack-API-Version"] == "placement 1.7"
    assert headers["Accept"] == "application/json"


@pytest.mark.parametrize("body", [{}, [], {"a": 1}, ["x"]])
def test_b64_an_empty_body_is_a_body(mock, transport, url, body):
    mock.put(f"{url}/x", json={})
    transport.request("PUT", "/x", json=body, **ANY)
    assert mock.last_request.json() == body
    assert mock.last_request.headers["Content-Type"] == "application/json"


def test_no_body_no_content_type(mock, transport, url):
    mock.put(f"{url}/x", json={})
    transport.request("PUT", "/x", **ANY)
    assert mock.last_request.body is None
    assert "Content-Type" not in mock.last_request.headers


@pytest.mark.parametrize("method", VERBS)
def test_b117_the_global_request_id_goes_with_every_verb(mock, transport, url, method):
    mock.request(method, f"{url}/x", json={})
    transport.request(method, "/x", global_request_id="req-call", **ANY)
    assert mock.last_request.headers["X-Openstack-Request-Id"] == "req-call"


def test_b117_and_with_what_is_sent_again(mock, make_transport, url):
    mock.get(f"{url}/x", [refusal(), {"status_code": 503}, {"json": {}}])
    make_transport().request("GET", "/x", global_request_id="req-call", **ANY)
    ids = [request.headers["X-Openstack-Request-Id"] for request in mock.request_history]
    assert ids == ["req-call"] * 3


@pytest.mark.parametrize(
    "settings",
    [
        {"global_request_id": "req-adapter"},
        {"additional_headers": {"X-OPENSTACK-REQUEST-ID": "req-adapter"}},
    ],
)
def test_b118_one_request_id_and_the_calls_wins(mock, make_transport, url, token, settings):
    session = ksa_session.Session(auth=token_endpoint.Token(url, token))
    adapter = ksa_adapter.Adapter(session, service_type="placement", **settings)
    mock.get(f"{url}/x", json={})
    transport = make_transport(adapter=adapter)
    transport.request("GET", "/x", global_request_id="req-call", **ANY)
    transport.request("GET", "/x", **ANY)
    ids = [
        [value for name, value in request.headers.items() if "request-id" in name.lower()]
        for request in mock.request_history
    ]
    assert ids == [["req-call"], ["req-adapter"]]


def test_the_adapters_own_microversion_does_not_interfere(mock, make_transport, url, token):
    session = ksa_session.Session(auth=token_endpoint.Token(url, token))
    adapter = ksa_adapter.Adapter(
        session,
        service_type="placement",
        default_microversion="1.1",
        additional_headers={"openstack-api-version": "placement 1.2", "accept": "text/html"},
    )
    mock.get(f"{url}/x", json={})
    make_transport(adapter=adapter).request("GET", "/x", **ANY)
    headers = mock.last_request.headers
    assert headers["OpenStack-API-Version"] == "placement 1.39"
    assert headers["Accept"] == "application/json"


def test_the_adapters_settings_are_the_callers(mock, make_transport, token):
    session = ksa_session.Session(auth=token_endpoint.Token("http://catalog.test", token))
    adapter = ksa_adapter.Adapter(
        session,
        service_type="placement",
        endpoint_override="http://override.test/p",
        connect_retries=7,
        status_code_retries=7,
        raise_exc=True,
        user_agent="agent/1",
    )
    mock.get("http://override.test/p/x", status_code=503)
    with pytest.raises(exceptions.ServiceUnavailable):
        make_transport(adapter=adapter, resend_attempts=0).request("GET", "/x", **ANY)
    assert mock.call_count == 1
    assert mock.last_request.headers["User-Agent"] == "agent/1"


@pytest.mark.parametrize("failure", [{"status_code": 503}, {"exc": requests.ConnectTimeout("x")}])
def test_b110_resending_of_the_adapter_does_not_multiply(
    mock, make_transport, url, token, failure
):
    session = ksa_session.Session(auth=token_endpoint.Token(url, token), connect_retries=1)
    adapter = ksa_adapter.Adapter(
        session,
        service_type="placement",
        connect_retries=1,
        connect_retry_delay=0.01,
        status_code_retries=1,
        status_code_retry_delay=0.01,
    )
    mock.get(f"{url}/x", **failure)
    with pytest.raises(exceptions.PlacementUnavailable):
        make_transport(adapter=adapter, resend_attempts=2).request("GET", "/x", **ANY)
    assert mock.call_count == 3


@pytest.mark.parametrize(
    "endpoint", ["http://h/placement", "http://h/placement/", "http://h:8778", "http://h:8778/"]
)
def test_b112_exactly_one_slash_and_the_prefix_stays(mock, make_transport, endpoint):
    mock.get(requests_mock.ANY, json={})
    make_transport(endpoint).request("GET", "/resource_providers?name=a", **ANY)
    assert mock.last_request.url == f"{endpoint.rstrip('/')}/resource_providers?name=a"


def test_b104_there_is_always_a_timeout(mock, make_transport, url):
    mock.get(f"{url}/x", json={})
    make_transport(timeout=17).request("GET", "/x", **ANY)
    assert mock.last_request.timeout == 17


def test_answers_carry_their_facts(mock, transport, url):
    mock.get(
        f"{url}/x",
        json={"a": [1]},
        headers={"x-openstack-request-id": "req-1", "Last-Modified": "now"},
    )
    answer = transport.request("GET", "/x", want=(1, 15), need=(1, 0), params={"q": "é"})
    assert (answer.status, answer.body, answer.request_id) == (200, {"a": [1]}, "req-1")
    assert answer.headers["last-modified"] == "now"
    assert answer.microversion == (1, 15)
    assert mock.last_request.qs == {"q": ["é"]}


# -- building, logging ------------------------------------------------------------------


def test_b101_b130_building_one_does_nothing(mock, make_transport):
    class Untouchable:
        def __getattr__(self, name):
            raise AssertionError(name)

    for _ in range(100):
        make_transport(adapter=Untouchable())
    assert mock.call_count == 0


def test_b121_nothing_is_logged_that_should_not_be(mock, make_transport, url, token, caplog):
    caplog.set_level(logging.DEBUG)
    mock.get(f"{url}/x", [refusal(), {"status_code": 500, "text": f"said {token}"}])
    with pytest.raises(exceptions.ServerError) as caught:
        make_transport().request("GET", "/x", **ANY)
    assert token not in caplog.text + str(caught.value) + repr(caught.value)
    # Bodies of large trees are not in the log either (B124).
    ours = [
        r.getMessage()
        for r in caplog.records
        if r.name.startswith(("reportclient", "keystoneauth"))
    ]
    assert ours == ["Placement offers microversions 1.0 to 1.10."]


# -- the log of requests ----------------------------------------------------------------


def test_the_request_log_has_every_request_and_its_answer(mock, make_transport, url, clock):
    def slow(request, context):
        clock.now += 2.0
        return {}

    mock.get(f"{url}/resource_providers/u", [refusal("1.20"), {"json": slow}])
    mock.put(f"{url}/traits/CUSTOM_A", exc=requests.ConnectionError("gone"))
    log = RequestLog()
    transport = make_transport(resend_attempts=0)
    transport.request("GET", "/resource_providers/u", log=log, **ANY)
    with pytest.raises(exceptions.ConnectFailed):
        transport.request("PUT", "/traits/CUSTOM_A", log=log, **ANY)
    assert log.by_kind() == {"GET /resource_providers/{uuid}": 2, "PUT /traits/{name}": 1}
    assert [(e.status, e.microversion, e.seconds) for e in log.entries] == [
        (406, (1, 39), 0.0),
        (200, (1, 20), 2.0),
        (None, (1, 20), 0.0),
    ]
    assert log.request_ids() == ("req-406",)


@pytest.mark.parametrize(
    ("path", "route"),
    [
        ("/resource_providers", "/resource_providers"),
        ("/resource_providers?name=a/b", "/resource_providers"),
        ("/resource_providers/u-1", "/resource_providers/{uuid}"),
        ("/resource_providers/u-1/inventories", "/resource_providers/{uuid}/inventories"),
        (
            "/resource_providers/u/inventories/VCPU",
            "/resource_providers/{uuid}/inventories/{resource_class}",
        ),
        ("/traits", "/traits"),
        ("/traits/CUSTOM_A", "/traits/{name}"),
        ("/resource_classes/CUSTOM_A", "/resource_classes/{name}"),
        ("/allocations/c", "/allocations/{uuid}"),
        ("/allocations", "/allocations"),
        ("/reshaper", "/reshaper"),
    ],
)
def test_routes(path, route):
    assert route_of(path) == route


# -- microversions ----------------------------------------------------------------------


def test_b134_the_range_is_learned_once(mock, transport, url):
    mock.get(f"{url}/x", json=older("1.10"))
    for _ in range(3):
        answer = transport.request("GET", "/x", want=(1, 26), need=(1, 2))
        assert answer.microversion == (1, 10)
        assert answer.body == {"at": "1.10"}
    assert transport.request("GET", "/x", want=(1, 4), need=(1, 0)).microversion == (1, 4)
    assert versions(mock) == ["1.26", "1.10", "1.10", "1.10", "1.4"]


def test_b134_what_does_not_fit_says_so_and_then_without_a_request(mock, transport, url):
    mock.get(f"{url}/x", json=older("1.10"))
    for _ in range(3):
        with pytest.raises(exceptions.MicroversionNotSupported) as caught:
            transport.request("GET", "/x", want=(1, 26), need=(1, 26))
        assert caught.value.needed == "1.26"
        assert caught.value.offered == ("1.0", "1.10")
        assert "1.26" in str(caught.value)
        assert "1.0 to 1.10" in str(caught.value)
    assert mock.call_count == 1
    # Basics go on.
    assert transport.request("GET", "/x", want=(1, 1), need=(1, 0)).status == 200


@pytest.mark.parametrize(
    ("highest", "need", "fits"),
    [
        ("1.10", (1, 9), True),
        ("1.9", (1, 10), False),
        ("1.39", (1, 4), True),
        ("1.4", (1, 39), False),
        ("2.0", (1, 39), True),
    ],
)
def test_b136_versions_are_not_decimal_numbers(mock, transport, url, highest, need, fits):
    mock.get(f"{url}/x", json=older(highest))
    with pytest.raises(exceptions.MicroversionNotSupported):
        transport.request("GET", "/x", want=(9, 0), need=(9, 0))
    assert transport.offers(need) == fits
    if fits:
        assert transport.request("GET", "/x", want=need, need=need).microversion == need
    else:
        with pytest.raises(exceptions.MicroversionNotSupported):
            transport.request("GET", "/x", want=need, need=need)


def test_a_write_is_negotiated_as_well_and_applied_once(mock, transport, url):
    mock.put(f"{url}/x", json=older("1.22"))
    assert transport.request("PUT", "/x", want=(1, 23), need=(1, 0), json={}).body == {
        "at": "1.22"
    }
    assert versions(mock) == ["1.23", "1.22"]


@pytest.mark.parametrize(
    "answer",
    [
        {"status_code": 406, "text": "<html>"},
        {"status_code": 406, "json": {"errors": []}},
        {"status_code": 406, "json": {"errors": [{"max_version": "1.x", "min_version": "1.0"}]}},
        {"status_code": 406, "json": {"errors": [{"max_version": None, "min_version": 7}]}},
    ],
)
def test_406_without_a_range(mock, transport, url, answer):
    mock.get(f"{url}/x", **answer)
    with pytest.raises(exceptions.MicroversionNotSupported) as caught:
        transport.request("GET", "/x", **ANY)
    assert (caught.value.status, caught.value.offered) == (406, (None, None))
    assert mock.call_count == 1
    assert transport.offers((1, 39))


def test_406_without_a_range_makes_what_was_learned_doubtful(mock, transport, url):
    mock.get(f"{url}/x", json=older("1.10"))
    transport.request("GET", "/x", **ANY)
    assert not transport.offers((1, 14))
    mock.get(f"{url}/x", status_code=406, text="<html>")
    with pytest.raises(exceptions.MicroversionNotSupported):
        transport.request("GET", "/x", **ANY)
    assert transport.offers((1, 14))


def test_a_server_that_was_downgraded(mock, transport, url):
    mock.get(f"{url}/x", json=older("1.30"))
    assert transport.request("GET", "/x", **ANY).microversion == (1, 30)
    mock.get(f"{url}/x", json=older("1.20"))
    assert transport.request("GET", "/x", **ANY).microversion == (1, 20)
    assert versions(mock) == ["1.39", "1.30", "1.30", "1.20"]


def test_a_server_that_was_upgraded_is_noticed(mock, transport, url, clock):
    mock.get(f"{url}/x", json=older("1.10"))
    transport.request("GET", "/x", **ANY)
    assert not transport.offers((1, 14))
    mock.get(f"{url}/x", json=older("1.39"))
    clock.now += 4000
    assert transport.request("GET", "/x", **ANY).microversion == (1, 39)
    assert transport.offers((1, 14))


def test_a_server_that_was_not_upgraded_costs_one_406_an_hour(mock, transport, url, clock):
    mock.get(f"{url}/x", json=older("1.10"))
    for _ in range(2):
        for _ in range(5):
            transport.request("GET", "/x", **ANY)
        clock.now += 4000
    assert versions(mock).count("1.39") == 2


def test_a_server_that_refuses_what_it_offers(mock, transport, url):
    mock.get(f"{url}/x", **refusal("1.10"))
    with pytest.raises(exceptions.MicroversionNotSupported):
        transport.request("GET", "/x", **ANY)
    assert mock.call_count == 2


def test_a_server_that_is_too_new(mock, transport, url):
    mock.get(f"{url}/x", **refusal("3.5", "2.0"))
    with pytest.raises(exceptions.MicroversionNotSupported) as caught:
        transport.request("GET", "/x", **ANY)
    assert caught.value.offered == ("2.0", "3.5")


# -- redirects --------------------------------------------------------------------------


@pytest.mark.parametrize("status", [301, 302, 307, 308])
@pytest.mark.parametrize("location", ["http://placement.test/new/x?a=1", "/new/x?a=1"])
def test_b115_a_redirect_keeps_method_body_and_id_and_the_query_once(
    mock, transport, url, status, location
):
    mock.put(f"{url}/x", status_code=status, headers={"Location": location})
    mock.put("http://placement.test/new/x", json={"ok": 1})
    answer = transport.request(
        "PUT", "/x", params={"a": "1"}, json={"b": 2}, global_request_id="req-g", **ANY
    )
    assert answer.body == {"ok": 1}
    last = mock.last_request
    assert (last.method, last.query, last.json()) == ("PUT", "a=1", {"b": 2})
    assert last.headers["X-Openstack-Request-Id"] == "req-g"
    assert last.headers["OpenStack-API-Version"] == "placement 1.39"


def test_b115_from_http_to_https_on_the_same_host(mock, transport, url, token):
    mock.put(f"{url}/x", status_code=301, headers={"Location": "https://placement.test/x"})
    mock.put("https://placement.test/x", json={})
    assert transport.request("PUT", "/x", json={}, **ANY).status == 200
    assert mock.last_request.headers["X-Auth-Token"] == token


@pytest.mark.parametrize(
    "location",
    [
        "http://evil.test/placement/x",
        "https://evil.test/x",
        "//evil.test/x",
        "http://placement.test:8080/x",
        "http://placement.test.evil.test/x",
        "ftp://placement.test/x",
        "",
    ],
)
@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_b115_the_token_goes_to_no_other_host(mock, transport, url, method, location):
    mock.request(requests_mock.ANY, requests_mock.ANY, json={})
    mock.request(method, f"{url}/x", status_code=302, headers={"Location": location})
    with pytest.raises(exceptions.BadAnswer) as caught:
        transport.request(method, "/x", **ANY)
    assert caught.value.status == 302
    assert not caught.value.outcome_unknown
    # An empty one leads back to where it came from.
    assert {request.hostname for request in mock.request_history} == {"placement.test"}
    assert {request.port for request in mock.request_history} == {80}


def test_b115_a_write_that_is_led_astray_is_not_tried_again(mock, make_transport, url):
    mock.put(f"{url}/x", status_code=302, headers={"Location": "http://evil.test/x"})
    with pytest.raises(exceptions.BadAnswer):
        make_transport().request("PUT", "/x", json={}, **ANY)
    assert mock.call_count == 1


@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_b115_a_redirect_to_nonsense(mock, transport, url, method):
    mock.request(method, f"{url}/x", status_code=302, headers={"Location": "http://[broken/x"})
    with pytest.raises(exceptions.BadAnswer):
        transport.request(method, "/x", **ANY)


def test_b115_not_from_https_to_http(mock, make_transport):
    mock.get(
        "https://placement.test/x",
        status_code=302,
        headers={"Location": "http://placement.test/x"},
    )
    with pytest.raises(exceptions.BadAnswer):
        make_transport("https://placement.test", resend_attempts=0).request("GET", "/x", **ANY)
    assert mock.call_count == 1


def test_b115_redirects_that_go_round_end(mock, transport, url):
    mock.get(f"{url}/x", status_code=302, headers={"Location": f"{url}/x"})
    with pytest.raises(exceptions.BadAnswer):
        transport.request("GET", "/x", **ANY)
    assert mock.call_count == 4


@pytest.mark.parametrize("status", [300, 303, 304])
def test_other_redirects_are_no_answers(mock, transport, url, status):
    mock.put(f"{url}/x", status_code=status, headers={"Location": f"{url}/y"})
    with pytest.raises(exceptions.BadAnswer):
        transport.request("PUT", "/x", json={}, **ANY)
    assert mock.call_count == 1


# -- sending again ----------------------------------------------------------------------

UNAVAILABLE = [
    {"status_code": 502},
    {"status_code": 503},
    {"status_code": 504, "text": "<html>"},
    {"status_code": 200, "text": "<html>"},
    {"exc": requests.ConnectionError("reset")},
    {"exc": requests.ReadTimeout("slow")},
    {"exc": requests.exceptions.SSLError("odd")},
]


@pytest.mark.parametrize("failure", UNAVAILABLE)
def test_reading_is_tried_again(mock, make_transport, url, failure):
    mock.get(f"{url}/x", [failure, failure, {"json": {"ok": 1}}])
    assert make_transport(resend_attempts=2).request("GET", "/x", **ANY).body == {"ok": 1}


@pytest.mark.parametrize("failure", UNAVAILABLE)
@pytest.mark.parametrize("method", ["PUT", "POST", "DELETE"])
def test_writes_that_may_have_been_applied_are_not(mock, make_transport, url, method, failure):
    mock.request(method, f"{url}/x", [failure, {"json": {}}])
    with pytest.raises(exceptions.PlacementUnavailable) as caught:
        make_transport().request(method, "/x", **ANY)
    assert caught.value.outcome_unknown
    assert mock.call_count == 1


def refused():
    from urllib3.exceptions import MaxRetryError, NewConnectionError

    return requests.ConnectionError(MaxRetryError(None, "/x", NewConnectionError(None, "refused")))


@pytest.mark.parametrize("failure", [{"exc": refused()}, {"status_code": 429}])
def test_writes_that_certainly_were_not_are(mock, make_transport, url, failure):
    mock.put(f"{url}/x", [failure, {"json": {"ok": 1}}])
    assert make_transport().request("PUT", "/x", **ANY).body == {"ok": 1}


@pytest.mark.parametrize(
    "answer",
    [
        {"status_code": status, "json": {"errors": [{"detail": "no"}]}}
        for status in (400, 401, 403, 404, 405, 409, 413, 414, 431)
    ],
)
def test_a_no_is_not_asked_for_again(mock, make_transport, url, answer):
    mock.get(f"{url}/x", **answer)
    with pytest.raises(exceptions.ReportClientError):
        make_transport().request("GET", "/x", **ANY)
    assert mock.call_count == 1


@pytest.mark.parametrize("idempotent", [True, False])
def test_what_is_idempotent_is_sent_again_like_a_get(mock, make_transport, url, idempotent):
    mock.put(f"{url}/traits/CUSTOM_A", [{"status_code": 502}, {"status_code": 201}])
    transport = make_transport()
    if idempotent:
        assert transport.request("PUT", "/traits/CUSTOM_A", idempotent=True, **ANY).status == 201
    else:
        with pytest.raises(exceptions.ServiceUnavailable):
            transport.request("PUT", "/traits/CUSTOM_A", **ANY)
        assert mock.call_count == 1


def test_a_server_that_failed_once_is_read_again(mock, make_transport, url):
    mock.get(f"{url}/x", [{"status_code": 500, "json": {"errors": [{}]}}, {"json": {"ok": 1}}])
    assert make_transport().request("GET", "/x", **ANY).body == {"ok": 1}


def test_b110_b143_resends_wait_as_long_as_asked_and_are_few(mock, make_transport, url, clock):
    mock.get(f"{url}/x", status_code=503, headers={"Retry-After": "30"})
    with pytest.raises(exceptions.ServiceUnavailable):
        make_transport(resend_attempts=2).request("GET", "/x", **ANY)
    assert mock.call_count == 3
    assert all(30 <= seconds < 31 for seconds in clock.slept)


def test_the_deadline_bounds_resending(mock, make_transport, url, clock):
    mock.get(f"{url}/x", status_code=503, headers={"Retry-After": "50"})
    with pytest.raises(exceptions.ServiceUnavailable):
        make_transport(resend_attempts=50, deadline=120).request("GET", "/x", **ANY)
    assert mock.call_count == 3
    assert clock.now < 1000 + 120


def test_b110_a_thousand_nodes_do_not_storm_a_dead_placement(mock, make_transport, url):
    mock.get(requests_mock.ANY, status_code=503)
    transport = make_transport(resend_attempts=2)
    for node in range(1000):
        with pytest.raises(exceptions.ServiceUnavailable):
            transport.request("GET", f"/resource_providers/{node}", **ANY)
    assert mock.call_count < 1100


# -- tokens and the catalog -------------------------------------------------------------

KEYSTONE = "http://keystone.test/v3"


class Keystone:
    """Hands out tokens, each with the catalog as it is then."""

    def __init__(self, mock, endpoint="http://a.test/placement"):
        self.endpoint = endpoint
        self.given = []
        self.answer = None
        mock.register_uri("POST", f"{KEYSTONE}/auth/tokens", json=self._token, status_code=201)

    def _token(self, request, context):
        if self.answer is not None:
            context.status_code = self.answer
            return {"error": {"message": "no", "code": self.answer}}
        endpoints = [
            ("public", "one", "http://public.test"),
            ("internal", "one", self.endpoint),
            ("internal", "two", "http://region-two.test"),
        ]
        catalog = [
            {"interface": interface, "region": region, "region_id": region, "url": url, "id": url}
            for interface, region, url in endpoints
        ]
        service = {"type": "placement", "name": "placement", "id": "1", "endpoints": catalog}
        self.given.append(f"token-{len(self.given) + 1}")
        context.headers["X-Subject-Token"] = self.given[-1]
        return {
            "token": {
                "methods": ["password"],
                "issued_at": "2026-12-01T00:00:00.000000Z",
                "expires_at": "2999-12-01T00:00:00.000000Z",
                "user": {"id": "u", "name": "agent", "domain": {"id": "default"}},
                "project": {"id": "p", "name": "service", "domain": {"id": "default"}},
                "catalog": [service] if self.endpoint is not None else [],
            }
        }

    def adapter(self, *, http=None, **settings):
        auth = v3.Password(
            auth_url=KEYSTONE,
            username="agent",
            password="s3cret",
            user_domain_id="default",
            project_name="service",
            project_domain_id="default",
        )
        settings = {"interface": "internal", "region_name": "one", **settings}
        return ksa_adapter.Adapter(
            ksa_session.Session(auth=auth, session=http), service_type="placement", **settings
        )


@pytest.fixture
def keystone(mock):
    return Keystone(mock)


@pytest.fixture
def through_keystone(keystone, make_transport):
    return make_transport(adapter=keystone.adapter(), resend_attempts=0)


def test_b98_an_endpoint_that_comes_later_is_found(mock, keystone, through_keystone):
    keystone.endpoint = None
    with pytest.raises(exceptions.EndpointMissing) as caught:
        through_keystone.request("PUT", "/x", **ANY)
    assert not caught.value.outcome_unknown
    keystone.endpoint = "http://a.test/placement"
    mock.put("http://a.test/placement/x", json={"ok": 1})
    assert through_keystone.request("PUT", "/x", **ANY).body == {"ok": 1}


def test_b99_an_endpoint_that_moved_is_found(mock, keystone, through_keystone):
    mock.get("http://a.test/placement/x", json={"old": 1})
    through_keystone.request("GET", "/x", **ANY)
    keystone.endpoint = "http://b.test"
    mock.get("http://a.test/placement/x", exc=refused())
    mock.get("http://b.test/x", json={"new": 1})
    for _ in range(3):
        with pytest.raises(exceptions.ConnectFailed):
            through_keystone.request("GET", "/x", **ANY)
    assert through_keystone.request("GET", "/x", **ANY).body == {"new": 1}
    assert len(keystone.given) == 2


def test_a_failure_now_and_then_does_not_trouble_keystone(mock, keystone, through_keystone):
    answers = [{"exc": refused()}, {"exc": refused()}, {"json": {}}] * 4
    mock.get("http://a.test/placement/x", answers)
    for answer in answers:
        if "exc" in answer:
            with pytest.raises(exceptions.ConnectFailed):
                through_keystone.request("GET", "/x", **ANY)
        else:
            through_keystone.request("GET", "/x", **ANY)
    assert len(keystone.given) == 1


def test_b100_a_wrong_password_is_not_for_ever(mock, keystone, through_keystone):
    mock.get("http://a.test/placement/x", json={"ok": 1})
    keystone.answer = 401
    for _ in range(5):
        with pytest.raises(exceptions.Unauthorized) as caught:
            through_keystone.request("GET", "/x", **ANY)
        assert "s3cret" not in str(caught.value)
    keystone.answer = None
    assert through_keystone.request("GET", "/x", **ANY).body == {"ok": 1}


def test_b97_a_keystone_that_is_down_is_placement_unavailable(mock, keystone, make_transport):
    mock.put("http://a.test/placement/x", json={"ok": 1})
    keystone.answer = 503
    transport = make_transport(adapter=keystone.adapter(), resend_attempts=0)
    for _ in range(3):
        with pytest.raises(exceptions.ServiceUnavailable) as caught:
            transport.request("PUT", "/x", **ANY)
        assert not caught.value.outcome_unknown
        assert caught.value.__cause__ is not None
    keystone.answer = None
    assert transport.request("PUT", "/x", **ANY).body == {"ok": 1}


def test_b107_only_the_region_that_was_asked_for(mock, keystone, make_transport):
    mock.get("http://region-two.test/x", json={"two": 1})
    two = make_transport(adapter=keystone.adapter(region_name="two"))
    assert two.request("GET", "/x", **ANY).body == {"two": 1}
    three = make_transport(adapter=keystone.adapter(region_name="three"))
    with pytest.raises(exceptions.EndpointMissing):
        three.request("GET", "/x", **ANY)


def test_b106_no_silent_fallback_to_public(mock, keystone, make_transport):
    transport = make_transport(adapter=keystone.adapter(interface="admin"))
    with pytest.raises(exceptions.EndpointMissing):
        transport.request("GET", "/x", **ANY)


def test_b113_b114_the_version_document_is_not_asked_for(mock, through_keystone):
    """So what it says of hosts, and whether it is there at all, does not matter."""
    mock.get("http://a.test/placement/x", json={"ok": 1})
    mock.get("http://a.test/placement/", status_code=500)
    assert through_keystone.request("GET", "/x", **ANY).body == {"ok": 1}
    assert {request.hostname for request in mock.request_history} == {"keystone.test", "a.test"}


class Revoking(requests.adapters.BaseAdapter):
    """Refuses the first token, to so many threads at the same time."""

    def __init__(self, threads):
        super().__init__()
        self.barrier = threading.Barrier(threads, timeout=20)

    def send(self, request, **_):
        response = requests.Response()
        response.request, response.url, response._content = request, request.url, b"{}"
        response.status_code = 200
        if request.headers["X-Auth-Token"] == "token-1" and not request.url.endswith("/warm"):
            self.barrier.wait()
            response.status_code = 401
        return response

    def close(self):
        """Nothing is open."""


def test_b108_a_revoked_token_is_renewed_once_for_all_threads(make_transport):
    http = requests.Session()
    wire = requests_mock.Adapter(case_sensitive=True)
    http.mount("http://keystone.test", wire)
    http.mount("http://a.test", Revoking(20))
    keystone = Keystone(wire)
    transport = make_transport(adapter=keystone.adapter(http=http), max_workers=20)
    transport.request("GET", "/warm", **ANY)
    statuses = []

    def read():
        statuses.append(transport.request("GET", "/x", **ANY).status)

    threads = [threading.Thread(target=read) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses == [200] * 20
    assert keystone.given == ["token-1", "token-2"]


@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_b108_tokens_that_are_always_refused_end_in_one_error(
    mock, keystone, make_transport, method
):
    mock.request(method, "http://a.test/placement/x", status_code=401, text="who?")
    transport = make_transport(adapter=keystone.adapter())
    for _ in range(3):
        mock.reset_mock()
        with pytest.raises(exceptions.Unauthorized) as caught:
            transport.request(method, "/x", **ANY)
        assert not caught.value.outcome_unknown
        sent = [request for request in mock.request_history if request.hostname == "a.test"]
        assert len(sent) == 2
    mock.request(method, "http://a.test/placement/x", json={"ok": 1})
    assert transport.request(method, "/x", **ANY).body == {"ok": 1}


def test_a_token_that_cannot_be_renewed_is_not_sent_twice(mock, transport, url):
    mock.get(f"{url}/x", status_code=401)
    for _ in range(2):
        with pytest.raises(exceptions.Unauthorized):
            transport.request("GET", "/x", **ANY)
    assert mock.call_count == 2


def test_a_token_that_comes_again_is_renewed_again(mock, keystone, through_keystone):
    """Keystone may answer from a cache: the same token, and it may be good by now."""
    renewed = []

    def same(request, context):
        body = keystone._token(request, context)
        context.headers["X-Subject-Token"] = "the-same"
        renewed.append(1)
        return body

    mock.post(f"{KEYSTONE}/auth/tokens", json=same, status_code=201)
    mock.get("http://a.test/placement/x", status_code=401)
    for _ in range(3):
        before = len(renewed)
        with pytest.raises(exceptions.Unauthorized):
            through_keystone.request("GET", "/x", **ANY)
        assert len(renewed) > before


def test_b116_no_authentication_is_an_error_of_configuration(mock, make_transport):
    adapter = ksa_adapter.Adapter(ksa_session.Session(), service_type="placement")
    with pytest.raises(exceptions.ConfigurationError) as caught:
        make_transport(adapter=adapter).request("GET", "/x", **ANY)
    assert not isinstance(caught.value, exceptions.PlacementUnavailable)
    assert "auth_type" in str(caught.value)
    assert not caught.value.retryable
    assert mock.call_count == 0


def test_b116_a_plugin_that_says_so_with_a_bare_exception(make_transport):
    class Plugin:
        session = requests.Session()

        def request(self, *_, **__):
            raise Exception("option\nfor http://agent:s3cret@keystone.test is missing")

    with pytest.raises(exceptions.ConfigurationError) as caught:
        make_transport(adapter=Plugin()).request("GET", "/x", **ANY)
    assert "is missing" in str(caught.value)
    assert "s3cret" not in str(caught.value)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("endpoint", ["placement.test/x", "ftp://placement.test", "http://"])
def test_an_endpoint_that_is_no_url(make_transport, endpoint):
    with pytest.raises(exceptions.ConfigurationError):
        make_transport(endpoint).request("PUT", "/x", **ANY)


# -- the pool ---------------------------------------------------------------------------


def test_transports_that_the_caller_mounted_stay(make_transport, url, token):
    class Own(requests.adapters.HTTPAdapter):
        def send(self, request, **_):
            response = requests.Response()
            response.status_code, response.request, response._content = 200, request, b"{}"
            return response

    http = requests.Session()
    own, patient = Own(), requests.adapters.HTTPAdapter(max_retries=3)
    http.mount("http://", own)
    http.mount("https://", patient)
    session = ksa_session.Session(auth=token_endpoint.Token(url, token), session=http)
    adapter = ksa_adapter.Adapter(session, service_type="placement")
    make_transport(adapter=adapter).request("GET", "/x", **ANY)
    assert http.adapters["http://"] is own
    assert http.adapters["https://"] is patient


def test_adapters_may_be_built_on_adapters(mock, make_transport, url, token):
    session = ksa_session.Session(auth=token_endpoint.Token(url, token))
    inner = ksa_adapter.Adapter(session, service_type="placement")
    mock.get(f"{url}/x", json={"ok": 1})
    transport = make_transport(adapter=ksa_adapter.Adapter(inner, service_type="placement"))
    assert transport.request("GET", "/x", **ANY).body == {"ok": 1}


def test_close_before_and_after_use(mock, make_transport, url):
    mock.get(f"{url}/x", json={"ok": 1})
    transport = make_transport()
    transport.close()
    transport.request("GET", "/x", **ANY)
    transport.close()
    assert transport.request("GET", "/x", **ANY).body == {"ok": 1}


def test_locks_may_be_renewed_at_any_time(mock, make_transport, url):
    mock.get(f"{url}/x", json=older("1.10"))
    transport = make_transport()
    transport.request("GET", "/x", **ANY)
    transport.renew_lock()
    assert transport.request("GET", "/x", **ANY).microversion == (1, 10)
