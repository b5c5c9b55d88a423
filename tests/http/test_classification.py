# SPDX-License-Identifier: Apache-2.0
"""What each answer, and each lack of one, is taken to mean."""

from __future__ import annotations

import pickle
import socket
import ssl

import pytest
import requests
import urllib3.exceptions as u3
from keystoneauth1 import exceptions as ksa

from reportclient import exceptions

HTML = "<html><body><h1>It is not here</h1></body></html>"
VERBS = ["GET", "PUT", "POST", "DELETE"]
WRITES = ["PUT", "POST", "DELETE"]


def errors(detail="odd", code=None, status=409):
    error = {"status": status, "title": "Conflict", "detail": detail}
    return {"errors": [error | ({"code": code} if code else {})]}


@pytest.fixture
def failing(mock, transport, url):
    """The exception for an answer; ``html``, ``text`` or ``json`` as the body."""

    def failing(status, *, method="GET", path="/x", html=None, json=None, text="", headers=None):
        settings = {"status_code": status, "headers": dict(headers or {})}
        if html is not None:
            settings["headers"].setdefault("Content-Type", "text/html")
            text = html
        settings |= {"json": json} if json is not None else {"text": text}
        mock.request(method, url + path, **settings)
        body = {} if method in ("PUT", "POST") else None
        with pytest.raises(exceptions.ReportClientError) as caught:
            transport.request(method, path, want=(1, 39), need=(1, 0), json=body)
        return caught.value

    return failing


# -- conflicts ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("placement.concurrent_update", exceptions.ConcurrentUpdate),
        ("placement.duplicate_name", exceptions.DuplicateProvider),
        ("placement.inventory.inuse", exceptions.InventoryInUse),
        ("placement.resource_provider.inuse", exceptions.ResourceProviderInUse),
        ("placement.resource_provider.cannot_delete_parent", exceptions.CannotDeleteParent),
        ("placement.undefined_code", exceptions.PlacementAPIConflict),
        ("placement.of_the_future", exceptions.PlacementAPIConflict),
    ],
)
@pytest.mark.parametrize("detail", ["", "wording nobody has seen"])
def test_b21_the_code_decides(failing, code, kind, detail):
    error = failing(409, method="PUT", json=errors(detail, code))
    assert type(error) is kind
    assert (error.status, error.code, error.outcome_unknown) == (409, code, False)


@pytest.mark.parametrize(
    ("code", "detail", "kind"),
    [
        ("placement.concurrent_update", "the inventory is in use", exceptions.ConcurrentUpdate),
        ("placement.inventory.inuse", "generation race", exceptions.InventoryInUse),
        ("placement.duplicate_name", "concurrent update", exceptions.DuplicateProvider),
    ],
)
def test_b21_the_text_does_not_overrule_the_code(failing, code, detail, kind):
    assert type(failing(409, method="PUT", json=errors(detail, code))) is kind


PREFIX = "There was a conflict when trying to complete your request.\n\n "
UUID = "4e8e5957-649f-477b-9e5b-f1f75b21c03c"


@pytest.mark.parametrize(
    ("detail", "kind"),
    [
        # As Placement words them at 1.22 and below.
        (
            "Resource provider's generation already changed. Please update the generation and "
            "try again.",
            exceptions.ConcurrentUpdate,
        ),
        ("resource provider generation conflict", exceptions.ConcurrentUpdate),
        ("consumer generation conflict - expected 3 but got None", exceptions.ConsumerConflict),
        (
            "update conflict: Another thread concurrently updated the data. Please retry your "
            "update",
            exceptions.ConcurrentUpdate,
        ),
        (
            "Race condition detected when setting inventory. No inventory record with resource "
            f"class for resource provider {UUID}: No inventory of class VCPU",
            exceptions.ConcurrentUpdate,
        ),
        ("Update conflict: Duplicate entry '1-2' for key 'PRIMARY'", exceptions.ConcurrentUpdate),
        (
            "Inventory and/or allocations changed while attempting to allocate: Another thread "
            "concurrently updated the data.",
            exceptions.ConcurrentUpdate,
        ),
        (
            f"update conflict: Inventory for 'VCPU' on resource provider '{UUID}' in use.",
            exceptions.InventoryInUse,
        ),
        (
            f"Unable to delete resource provider {UUID}: Resource provider has allocations.",
            exceptions.ResourceProviderInUse,
        ),
        (
            f"Unable to delete parent resource provider {UUID}: It has child resource providers.",
            exceptions.CannotDeleteParent,
        ),
        (
            "Conflicting resource provider name: host1 already exists.",
            exceptions.DuplicateProvider,
        ),
        ("Conflicting resource provider already exists: ...", exceptions.DuplicateProvider),
        (
            "Unable to allocate inventory: Unable to create allocation for 'VCPU' on resource "
            f"provider '{UUID}'. The requested amount would exceed the capacity.",
            exceptions.CapacityExceeded,
        ),
        (
            "Unable to allocate inventory: Unable to create allocation for 'VCPU' on resource "
            f"provider '{UUID}'. The requested amount would violate inventory constraints.",
            exceptions.AllocationDoesNotFit,
        ),
        (
            f"Unable to allocate inventory: Inventory for 'VCPU' on resource provider '{UUID}' "
            "invalid.",
            exceptions.AllocationDoesNotFit,
        ),
        (
            "Unable to allocate inventory: the resource provider generation is fine",
            exceptions.AllocationDoesNotFit,
        ),
        (
            "The trait CUSTOM_X is in use by a resource provider.",
            exceptions.PlacementAPIConflict,
        ),
        (
            "Error in delete resource class: Cannot delete resource class CUSTOM_X. Class is in "
            "use in inventory.",
            exceptions.PlacementAPIConflict,
        ),
        (
            "Conflicting resource class already exists: CUSTOM_X",
            exceptions.PlacementAPIConflict,
        ),
    ],
)
@pytest.mark.parametrize("code", [None, "placement.undefined_code"])
def test_without_a_code_that_says_something_the_text_decides(failing, detail, kind, code):
    assert type(failing(409, method="PUT", json=errors(PREFIX + detail, code))) is kind


@pytest.mark.parametrize("name", ["generation-7", "trace-host", "in use", "race", "concurrent"])
def test_the_name_of_a_provider_is_no_text_of_placement(failing, name):
    detail = f"{PREFIX}Conflicting resource provider name: {name} already exists."
    error = failing(409, method="POST", json=errors(detail))
    assert type(error) is exceptions.DuplicateProvider


@pytest.mark.parametrize(
    "listed",
    [[], None, "odd", [None], ["odd"], {"a": 1}, [{}], [{"code": None}], [{"code": 7}], [[]]],
)
def test_b138_conflicts_without_a_code_are_unknown_conflicts(failing, listed):
    error = failing(409, method="PUT", json={"errors": listed})
    assert type(error) is exceptions.PlacementAPIConflict
    assert (error.code, error.retryable) == (None, False)


@pytest.mark.parametrize(
    "body", [{"html": HTML}, {"text": ""}, {"text": "conflict"}, {"json": {}}, {"json": [1]}]
)
def test_a_conflict_that_is_not_placements_is_an_unknown_outcome(failing, body):
    for method in WRITES:
        error = failing(409, method=method, **body)
        assert isinstance(error, exceptions.BadAnswer)
        assert error.outcome_unknown
    assert not failing(409, **body).outcome_unknown


# -- other statuses -------------------------------------------------------------------

STATUSES = [
    (400, exceptions.BadRequest),
    (401, exceptions.Unauthorized),
    (403, exceptions.Forbidden),
    (404, exceptions.NotFound),
    (405, exceptions.PlacementError),
    (413, exceptions.RequestTooLarge),
    (414, exceptions.RequestTooLarge),
    (415, exceptions.PlacementError),
    (429, exceptions.TooManyRequests),
    (431, exceptions.RequestTooLarge),
    (500, exceptions.ServerError),
    (501, exceptions.ServerError),
    (502, exceptions.ServiceUnavailable),
    (503, exceptions.ServiceUnavailable),
    (504, exceptions.ServiceUnavailable),
    (507, exceptions.ServerError),
]


@pytest.mark.parametrize("method", VERBS)
@pytest.mark.parametrize(("status", "kind"), STATUSES)
def test_placements_answers(failing, method, status, kind):
    error = failing(status, method=method, json=errors("why", "placement.x", status))
    assert type(error) is kind
    assert (error.status, error.code, error.detail) == (status, "placement.x", "why")
    assert error.outcome_unknown == (status >= 500 and method != "GET")


@pytest.mark.parametrize("method", VERBS)
@pytest.mark.parametrize("status", [502, 503, 504])
@pytest.mark.parametrize("body", [{"html": HTML}, {"text": "down"}, {"text": ""}])
def test_b140_proxies_that_have_no_placement(failing, method, status, body):
    error = failing(status, method=method, **body)
    assert type(error) is exceptions.ServiceUnavailable
    assert error.status == status
    assert error.outcome_unknown == (method != "GET")
    assert error.retryable


@pytest.mark.parametrize("status", [400, 403, 404, 405, 409, 418])
def test_a_page_of_html_is_not_placements(failing, status):
    error = failing(status, html=HTML)
    assert isinstance(error, exceptions.BadAnswer)
    assert isinstance(error, exceptions.PlacementUnavailable)
    assert error.status == status
    # Not said to be HTML, but it is.
    assert isinstance(failing(status, text=f"\n {HTML}"), exceptions.BadAnswer)


def test_html_404_of_a_wrong_endpoint_does_not_mean_no_such_provider(failing):
    for body in ({"html": HTML}, {"text": ""}, {"text": "Not Found"}, {"json": {"e": 1}}):
        error = failing(404, path="/resource_providers/u", **body)
        assert not isinstance(error, exceptions.NotFound)
        assert "endpoint" in str(error)


@pytest.mark.parametrize("text", ["bad request", ""])
@pytest.mark.parametrize(
    ("status", "kind"), [(400, exceptions.BadRequest), (403, exceptions.Forbidden)]
)
def test_a_refusal_in_plain_text_is_a_refusal(failing, status, kind, text):
    error = failing(status, method="PUT", text=text)
    assert type(error) is kind
    assert not error.outcome_unknown


def test_500_in_html_is_an_error_of_the_server_with_unknown_outcome(failing):
    error = failing(500, method="PUT", html=HTML)
    assert type(error) is exceptions.ServerError
    assert error.outcome_unknown
    assert error.retryable


@pytest.mark.parametrize("status", [413, 414, 431])
@pytest.mark.parametrize("method", ["PUT", "GET"])
def test_b143_too_large_is_permanent_and_says_what_to_do(failing, status, method):
    error = failing(status, method=method, html=HTML)
    assert type(error) is exceptions.RequestTooLarge
    assert not error.retryable
    assert not error.outcome_unknown
    assert "size" in str(error)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("30", 30.0),
        (" 7 ", 7.0),
        ("0", 0.0),
        ("Wed, 21 Oct 2026 07:28:10 GMT", 10.0),
        ("Wed, 21 Oct 2026 09:28:10 +0200", 10.0),
        ("Wed, 21 Oct 2026 07:28:10 -0000", 10.0),
        ("Wed, 21 Oct 2026 07:27:00 GMT", 0.0),
        ("soon", None),
        ("-1", None),
        ("", None),
        ("²", None),
        ("Wed, 99 Oct 99999999999 07:27:00 GMT", None),
    ],
)
@pytest.mark.parametrize("status", [429, 503])
def test_b143_retry_after(failing, status, value, seconds):
    headers = {"Retry-After": value, "Date": "Wed, 21 Oct 2026 07:28:00 GMT"}
    assert failing(status, headers=headers).retry_after == seconds


def test_a_date_to_come_back_at_without_the_servers_clock(failing):
    far = {"Retry-After": "Wed, 21 Oct 2999 07:28:00 GMT"}
    past = {"Retry-After": "Wed, 21 Oct 1999 07:28:00 GMT"}
    assert failing(503, headers=far).retry_after > 10**9
    assert failing(503, headers=past).retry_after == 0.0


@pytest.mark.parametrize(
    ("detail", "kind", "names"),
    [
        ("No such trait CUSTOM_A, HW_B", exceptions.UnknownTrait, ("CUSTOM_A", "HW_B")),
        (
            'Invalid trait(s) in "required" parameter: No such trait(s): CUSTOM_NEW.',
            exceptions.UnknownTrait,
            ("CUSTOM_NEW",),
        ),
        (
            "No such trait " + ", ".join(f"CUSTOM_{'X' * 50}_{n}" for n in range(40)),
            exceptions.UnknownTrait,
            tuple(f"CUSTOM_{'X' * 50}_{n}" for n in range(40)),
        ),
        (
            f"Unknown resource class in inventory for resource provider {UUID}: No such "
            "resource class CUSTOM_GPU.",
            exceptions.UnknownResourceClass,
            ("CUSTOM_GPU",),
        ),
        (
            f"Unknown resource class in inventory for resource provider {UUID}: HTTP",
            exceptions.UnknownResourceClass,
            (),
        ),
        ("JSON does not validate: 'No' is not of type 'object'", exceptions.BadRequest, None),
    ],
)
def test_names_that_placement_does_not_know(failing, detail, kind, names):
    prefix = "The server could not comply with the request since it is malformed.\n\n "
    error = failing(400, method="PUT", json=errors(f"{prefix}{detail}  ", status=400))
    assert type(error) is kind
    assert getattr(error, "names", None) == names


# -- what is said ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            {"json": errors("too odd", "placement.undefined_code")},
            ["too odd", "placement.undefined_code"],
        ),
        ({"text": "plain words"}, ["plain words"]),
        ({"text": ""}, []),
    ],
)
def test_b119_the_exception_says_all_there_is(failing, body, said):
    headers = {"x-openstack-request-id": "req-7"}
    error = failing(400, method="PUT", path="/traits/X", headers=headers, **body)
    for part in ["PUT", "/traits/X", "400", "req-7", *said]:
        assert part in str(error)
    assert (error.method, error.url, error.status) == ("PUT", "/traits/X", 400)
    assert error.request_id == "req-7"


def test_b119_long_texts_are_shortened(failing):
    assert len(str(failing(500, text="long " * 10**5))) < 1000
    assert len(str(failing(500, json=errors("long " * 10**5)))) < 1000


@pytest.mark.parametrize("status", [400, 409, 500, 503])
def test_texts_do_not_forge_log_lines(failing, status, caplog):
    evil = "x\r\n2026-12-01 CRITICAL all is lost\x1b[2J\u2028\x00 %s %d {0} {y} \ud83d"
    error = failing(
        status, method="PUT", json=errors(evil), headers={"x-openstack-request-id": "r\x1b[1m"}
    )
    assert str(error).isprintable()
    assert "%s %d {0} {y}" in str(error)
    assert failing(status, text="a\nb\x07").detail == "a b\\x07"


def test_b121_a_token_that_is_told_back_is_masked(failing, token):
    for body in (
        {"text": f"X-Auth-Token: {token}"},
        {"json": errors(f"bad token {token}")},
        {"text": "x" * 490 + token},
    ):
        error = failing(400, **body)
        assert token[:9] not in str(error) + repr(error) + str(vars(error))


def test_facts_survive_pickling(failing):
    error = failing(503, method="PUT", headers={"Retry-After": "3"})
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert copy.facts == error.facts
    assert (str(copy), copy.retry_after) == (str(error), 3.0)


# -- good statuses, bad bodies -------------------------------------------------------------


@pytest.mark.parametrize("method", VERBS)
@pytest.mark.parametrize(
    "content", [HTML.encode(), b'{"a": [1, 2', b"OK", b"\xff\xfe\x00\xd8", b"[" * 99999]
)
def test_b142_a_2xx_that_is_not_json(mock, transport, url, method, content):
    mock.request(method, f"{url}/x", content=content)
    with pytest.raises(exceptions.BadAnswer) as caught:
        transport.request(method, "/x", want=(1, 0), need=(1, 0))
    error = caught.value
    assert error.outcome_unknown == (method != "GET")
    assert (error.status, error.method, error.retryable) == (200, method, True)


@pytest.mark.parametrize(("status", "text"), [(204, ""), (201, ""), (200, "")])
def test_answers_without_a_body(mock, transport, url, status, text):
    mock.put(f"{url}/x", status_code=status, text=text)
    answer = transport.request("PUT", "/x", want=(1, 0), need=(1, 0))
    assert (answer.status, answer.body) == (status, None)


# -- no answer -----------------------------------------------------------------------------


REFUSED = u3.NewConnectionError(None, "refused")
UNKNOWN_HOST = u3.NameResolutionError("nowhere.test", None, socket.gaierror(-2, "unknown"))
RESET = u3.ProtocolError("Connection aborted.", ConnectionResetError(104, "reset"))
BAD_CERTIFICATE = u3.SSLError(ssl.SSLCertVerificationError(1, "self-signed certificate"))
TLS_EOF = u3.SSLError(ssl.SSLEOFError(8, "EOF occurred in violation of protocol"))


def max_retries(reason):
    return u3.MaxRetryError(None, "/x", reason)


def openssl(reason):
    error = ssl.SSLError(1, f"[SSL: {reason}]")
    error.reason = reason
    return u3.SSLError(error)


#: What requests raises; what becomes of it; whether a write may be applied.
NO_ANSWER = [
    (requests.ConnectionError(max_retries(REFUSED)), exceptions.ConnectFailed, False),
    (requests.ConnectionError(max_retries(UNKNOWN_HOST)), exceptions.ConnectFailed, False),
    (requests.ConnectionError(RESET), exceptions.ConnectFailed, True),
    (requests.ConnectionError("odd"), exceptions.ConnectFailed, True),
    (
        requests.ConnectTimeout(max_retries(u3.ConnectTimeoutError(None, "slow"))),
        exceptions.PlacementTimeout,
        False,
    ),
    (requests.ReadTimeout(u3.ReadTimeoutError(None, "/", "x")), exceptions.PlacementTimeout, True),
    (requests.exceptions.SSLError(max_retries(BAD_CERTIFICATE)), exceptions.TLSFailed, False),
    (
        requests.exceptions.SSLError(max_retries(openssl("WRONG_VERSION_NUMBER"))),
        exceptions.TLSFailed,
        False,
    ),
    # It broke while the answer was read, for all that is known.
    (requests.exceptions.SSLError(max_retries(TLS_EOF)), exceptions.TLSFailed, True),
    (requests.exceptions.ProxyError(max_retries(REFUSED)), exceptions.ConnectFailed, False),
    (
        requests.exceptions.ChunkedEncodingError(u3.IncompleteRead(1, 2)),
        exceptions.ConnectFailed,
        True,
    ),
    (requests.exceptions.ContentDecodingError("gzip"), exceptions.BadAnswer, True),
    (requests.exceptions.InvalidURL("http://"), exceptions.ConfigurationError, False),
    (requests.exceptions.InvalidSchema("ftp://x"), exceptions.ConfigurationError, False),
    (requests.exceptions.InvalidHeader("x"), exceptions.ConfigurationError, False),
    (requests.exceptions.RequestException("new kind"), exceptions.ConnectFailed, True),
    (u3.ProtocolError("leaked"), exceptions.ConnectFailed, True),
    (u3.DecodeError("leaked"), exceptions.BadAnswer, True),
    (OSError("Could not find a suitable TLS CA bundle"), exceptions.ConfigurationError, False),
    (FileNotFoundError(2, "no key"), exceptions.ConfigurationError, False),
    (OSError(5, "Input/output error"), exceptions.ConnectFailed, True),
]


@pytest.mark.parametrize("method", VERBS)
@pytest.mark.parametrize(("error", "kind", "applied"), NO_ANSWER)
def test_b103_everything_that_requests_raises_is_mapped(
    mock, transport, url, method, error, kind, applied
):
    mock.request(method, f"{url}/x", exc=error)
    with pytest.raises(exceptions.ReportClientError) as caught:
        transport.request(method, "/x", want=(1, 0), need=(1, 0))
    assert type(caught.value) is kind
    assert caught.value.outcome_unknown == (applied and method != "GET")
    assert caught.value.__cause__ is not None
    assert (caught.value.method, caught.value.url) == (method, "/x")


class FakeResponse:
    headers = {"Retry-After": "11", "Openstack-Auth-Receipt": "r"}
    status_code = 503

    def json(self):
        return {
            "receipt": {"methods": [], "expires_at": "2026-12-01T00:00:00.000000Z"},
            "required_auth_methods": [["totp"]],
        }


KEYSTONE = [
    (ksa.ConnectFailure("x"), exceptions.ConnectFailed),
    (ksa.ConnectTimeout("x"), exceptions.PlacementTimeout),
    (ksa.SSLError("x"), exceptions.TLSFailed),
    (ksa.UnknownConnectionError("x", ValueError()), exceptions.ConnectFailed),
    (ksa.DiscoveryFailure("x"), exceptions.DiscoveryFailed),
    (ksa.VersionNotAvailable("x"), exceptions.DiscoveryFailed),
    (ksa.EndpointNotFound("x"), exceptions.EndpointMissing),
    (ksa.EmptyCatalog("x"), exceptions.EndpointMissing),
    (ksa.CatalogException("x"), exceptions.EndpointMissing),
    (ksa.Unauthorized("x"), exceptions.Unauthorized),
    (ksa.Forbidden("x"), exceptions.Unauthorized),
    (ksa.NotFound("x"), exceptions.Unauthorized),
    (ksa.AuthorizationFailure("x"), exceptions.Unauthorized),
    (ksa.AuthPluginException("x"), exceptions.Unauthorized),
    (ksa.MissingAuthMethods(FakeResponse()), exceptions.Unauthorized),
    (ksa.InvalidResponse(FakeResponse()), exceptions.Unauthorized),
    (ksa.ServiceProviderNotFound("x"), exceptions.Unauthorized),
    (ksa.TooManyRequests("x"), exceptions.TooManyRequests),
    (ksa.InternalServerError("x"), exceptions.ServiceUnavailable),
    (ksa.ServiceUnavailable("x"), exceptions.ServiceUnavailable),
    (ksa.GatewayTimeout("x"), exceptions.ServiceUnavailable),
    (ksa.MissingAuthPlugin("x"), exceptions.ConfigurationError),
    (ksa.MissingRequiredOptions([]), exceptions.ConfigurationError),
    (ksa.NoMatchingPlugin("x"), exceptions.ConfigurationError),
    (ksa.UnsupportedParameters(["x"]), exceptions.ConfigurationError),
    (ksa.ImpliedMinVersionMismatch("volumev3", (3,), "2"), exceptions.ConfigurationError),
    (ksa.ClientException("of the future"), exceptions.ConnectFailed),
]


class Failing:
    """An adapter whose keystoneauth1 fails before there is a request."""

    session = requests.Session()

    def __init__(self, error):
        self.error = error
        self.invalidated = 0

    def request(self, *_, **__):
        raise self.error

    def invalidate(self):
        self.invalidated += 1
        return True


@pytest.mark.parametrize(("error", "kind"), KEYSTONE)
def test_b97_everything_that_keystoneauth_raises_is_mapped(make_transport, error, kind):
    transport = make_transport(adapter=Failing(error), resend_attempts=0)
    with pytest.raises(exceptions.ReportClientError) as caught:
        transport.request("PUT", "/x", want=(1, 0), need=(1, 0))
    assert type(caught.value) is kind
    assert caught.value.__cause__ is error
    # Only what may have reached Placement may have been applied.
    reaching = exceptions.ConnectFailed | exceptions.PlacementTimeout | exceptions.TLSFailed
    assert caught.value.outcome_unknown == isinstance(caught.value, reaching)


def test_an_overloaded_keystone_says_when_to_come_back(make_transport):
    error = ksa.ServiceUnavailable("x", response=FakeResponse(), request_id="req-k")
    transport = make_transport(adapter=Failing(error), resend_attempts=0)
    with pytest.raises(exceptions.ServiceUnavailable) as caught:
        transport.request("GET", "/x", want=(1, 0), need=(1, 0))
    assert (caught.value.status, caught.value.retry_after) == (503, 11.0)
    assert caught.value.request_id == "req-k"


def test_b121_credentials_in_a_url_are_masked(make_transport):
    error = ksa.ConnectFailure("Unable to connect to http://admin:s3cret@keystone.test/v3: no")
    transport = make_transport(adapter=Failing(error), resend_attempts=0)
    with pytest.raises(exceptions.ConnectFailed) as caught:
        transport.request("GET", "/x", want=(1, 0), need=(1, 0))
    assert "s3cret" not in str(caught.value)
    assert "keystone.test" in str(caught.value)


def test_a_mistake_of_ours_is_not_taken_for_an_outage(make_transport):
    transport = make_transport(adapter=Failing(ZeroDivisionError()))
    with pytest.raises(ZeroDivisionError):
        transport.request("GET", "/x", want=(1, 0), need=(1, 0))
