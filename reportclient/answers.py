# SPDX-License-Identifier: Apache-2.0
"""What an answer, or the lack of one, means: the one classifier of failures.

Placement's error code decides (servers from microversion 1.23 send one); the
text is looked at only where there is no known code. An answer that is not
Placement's own JSON says nothing about providers, only that something stands
between.
"""

from __future__ import annotations

import datetime
import email.utils
import re
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import requests
import urllib3.exceptions
from keystoneauth1 import exceptions as ksa

from reportclient import exceptions

__all__ = ["ErrorBody", "Response", "error_body", "failure_of", "no_answer"]

_DETAIL_LIMIT = 500

_CONFLICTS: Mapping[str, type[exceptions.PlacementAPIConflict]] = {
    "placement.concurrent_update": exceptions.ConcurrentUpdate,
    "placement.duplicate_name": exceptions.DuplicateProvider,
    "placement.inventory.inuse": exceptions.InventoryInUse,
    "placement.resource_provider.inuse": exceptions.ResourceProviderInUse,
    "placement.resource_provider.cannot_delete_parent": exceptions.CannotDeleteParent,
}
#: In this order; what is looked for is worded by Placement since 1.0.
_CONFLICT_TEXTS: tuple[tuple[re.Pattern[str], type[exceptions.PlacementAPIConflict]], ...] = (
    (re.compile(r"generation|concurrent|conflict.*race|race", re.I), exceptions.ConcurrentUpdate),
    (
        re.compile(r"delete parent|has child|child resource prov", re.I),
        exceptions.CannotDeleteParent,
    ),
    (
        re.compile(r"name.* already exists|conflicting resource provider", re.I),
        exceptions.DuplicateProvider,
    ),
    (re.compile(r"inventory.*in use|inventory.*for '", re.I | re.S), exceptions.InventoryInUse),
    (re.compile(r"has allocations|in use", re.I), exceptions.ResourceProviderInUse),
)
_STATUSES: Mapping[int, type[exceptions.ReportClientError]] = {
    400: exceptions.BadRequest,
    401: exceptions.Unauthorized,
    403: exceptions.Forbidden,
    404: exceptions.NotFound,
    413: exceptions.RequestTooLarge,
    414: exceptions.RequestTooLarge,
    429: exceptions.TooManyRequests,
    431: exceptions.RequestTooLarge,
    502: exceptions.ServiceUnavailable,
    503: exceptions.ServiceUnavailable,
    504: exceptions.ServiceUnavailable,
}
#: Statuses whose meaning is a proxy's as much as Placement's.
_ANYBODYS = frozenset({401, 413, 414, 429, 431, 502, 503, 504})


class Response(Protocol):
    """What of `requests.Response` is looked at."""

    status_code: int
    headers: Mapping[str, str]
    text: str

    def json(self) -> Any: ...


class ErrorBody(NamedTuple):
    """The first error of Placement's JSON: ``None`` where it is not such."""

    code: str | None
    detail: str
    first: Mapping[str, Any]


def error_body(response: Response) -> ErrorBody | None:
    """Placement's own account of an error, if the body is one."""
    try:
        body = response.json()
    except ValueError:
        return None
    errors = body.get("errors") if isinstance(body, dict) else None
    if not isinstance(errors, list) or not errors or not isinstance(errors[0], dict):
        return None
    first = errors[0]
    code = first.get("code")
    detail = first.get("detail") or first.get("title") or ""
    return ErrorBody(code if isinstance(code, str) else None, _readable(str(detail)), first)


def failure_of(
    response: Response, *, method: str, url: str, request_id: str | None
) -> exceptions.ReportClientError:
    """The exception that an answer other than 2xx stands for."""
    status = response.status_code
    body = error_body(response)
    kind = _kind(status, body)
    detail = body.detail if body else _readable(response.text)
    write = method not in ("GET", "HEAD")
    code = body.code if body else None
    said = f" {code}" if code else ""
    error = kind(
        f"{method} {url} was answered {status}{said}: {detail or 'nothing more'}"
        f"{_hint(status)} [{request_id or 'no request id'}]",
        status=status,
        code=code,
        detail=detail,
        method=method,
        url=url,
        request_id=request_id,
    )
    error.outcome_unknown = write and _may_be_applied(error)
    if isinstance(error, exceptions.PlacementUnavailable):
        error.retry_after = _retry_after(response.headers.get("Retry-After"))
    return error


def _kind(status: int, body: ErrorBody | None) -> type[exceptions.ReportClientError]:
    if body is None and status not in _ANYBODYS and status < 500:
        # Not Placement's: a proxy's page, another service, a cut answer.
        return exceptions.BadAnswer
    if status == 409 and body is not None:
        return _conflict_kind(body)
    if status in _STATUSES:
        return _STATUSES[status]
    return exceptions.ServerError if status >= 500 else exceptions.PlacementError


def _conflict_kind(body: ErrorBody) -> type[exceptions.PlacementAPIConflict]:
    if body.code is not None and body.code in _CONFLICTS:
        return _CONFLICTS[body.code]
    for pattern, kind in _CONFLICT_TEXTS:
        if pattern.search(body.detail):
            return kind
    return exceptions.PlacementAPIConflict


def _may_be_applied(error: exceptions.ReportClientError) -> bool:
    if isinstance(error, exceptions.Unauthorized | exceptions.TooManyRequests):
        return False
    return isinstance(
        error,
        exceptions.ServerError | exceptions.ServiceUnavailable | exceptions.BadAnswer,
    )


def _hint(status: int) -> str:
    if status in (413, 414, 431):
        return " (a proxy on the way refuses requests of this size)"
    return ""


def _retry_after(value: str | None) -> float | None:
    """Seconds to wait: RFC 9110 has a number of seconds or a date."""
    if not value:
        return None
    if value.strip().isdigit():
        return float(value)
    try:
        when = email.utils.parsedate_to_datetime(value)
    except ValueError:
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=datetime.UTC)
    return max(0.0, (when - datetime.datetime.now(datetime.UTC)).total_seconds())


def _readable(text: str) -> str:
    """One line, cut: what a server says must not forge a log line."""
    text = " ".join(text.split())
    text = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
    return text if len(text) <= _DETAIL_LIMIT else f"{text[:_DETAIL_LIMIT]}..."


# -- no answer ---------------------------------------------------------------------


def no_answer(error: Exception, *, method: str, url: str) -> exceptions.ReportClientError:
    """The exception that a failure of keystoneauth or requests stands for."""
    kind, sent = _no_answer_kind(error)
    failure = kind(
        f"{method} {url}: {_readable(str(error)) or type(error).__name__}", method=method, url=url
    )
    if isinstance(error, ksa.HttpError):
        failure.status = error.http_status
        failure.request_id = error.request_id
    failure.outcome_unknown = sent and method not in ("GET", "HEAD")
    return failure


def _no_answer_kind(error: Exception) -> tuple[type[exceptions.ReportClientError], bool]:
    """The kind of failure, and whether Placement may have got the request."""
    if isinstance(
        error, ksa.MissingAuthPlugin | ksa.MissingRequiredOptions | ksa.NoMatchingPlugin
    ):
        return exceptions.ConfigurationError, False
    if isinstance(error, ksa.SSLError | requests.exceptions.SSLError):
        return exceptions.TLSFailed, False
    if isinstance(error, ksa.ConnectTimeout | requests.exceptions.Timeout):
        return exceptions.PlacementTimeout, not _before_sending(error)
    if isinstance(error, ksa.ConnectFailure | ksa.UnknownConnectionError):
        return exceptions.ConnectFailed, not _before_sending(error)
    if isinstance(error, ksa.EndpointNotFound | ksa.CatalogException):
        return exceptions.EndpointMissing, False
    if isinstance(error, ksa.DiscoveryFailure):
        return exceptions.DiscoveryFailed, False
    if isinstance(error, ksa.Unauthorized | ksa.AuthorizationFailure | ksa.AuthPluginException):
        return exceptions.Unauthorized, False
    if isinstance(error, ksa.HttpServerError):
        # Keystone's answer: raise_exc is off for Placement's own.
        return exceptions.ServiceUnavailable, False
    if isinstance(error, ksa.HttpError):
        return exceptions.Unauthorized, False
    if isinstance(error, requests.exceptions.InvalidURL | requests.exceptions.MissingSchema):
        return exceptions.ConfigurationError, False
    return exceptions.ConnectFailed, True


def _before_sending(error: BaseException) -> bool:
    """Whether the connection failed before a byte of the request was sent."""
    seen: set[int] = set()
    waiting: list[object] = [error]
    while waiting:
        current = waiting.pop()
        if id(current) in seen or not isinstance(current, BaseException):
            continue
        seen.add(id(current))
        # Unknown host, refused and no route are kinds of NewConnectionError.
        if isinstance(
            current,
            urllib3.exceptions.NewConnectionError | urllib3.exceptions.ConnectTimeoutError,
        ):
            return True
        waiting += [current.__cause__, current.__context__, getattr(current, "reason", None)]
        waiting += current.args
    return False
