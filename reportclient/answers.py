# SPDX-License-Identifier: Apache-2.0
"""What an answer means: the one place that classifies them.

Placement's error code decides (servers from microversion 1.23 send one); the
text is looked at only where there is no code that says anything. An answer
that is not Placement's own JSON says nothing about providers, only that
something stands between:

* "not found" and "conflict" are believed only if they are Placement's JSON;
* a page of HTML is never Placement's, whatever its status;
* with 400, 403 and the like, plain text or nothing at all is a refusal too:
  nothing was applied.
"""

from __future__ import annotations

import datetime
import email.utils
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from reportclient import exceptions

__all__ = ["ErrorBody", "bad_answer", "error_body", "failure_of", "readable", "retry_after"]

_DETAIL_LIMIT = 500
_READ_LIMIT = 64 * 1024
_SAFE = frozenset({"GET", "HEAD"})

_CONFLICTS: Mapping[str, type[exceptions.PlacementAPIConflict]] = {
    "placement.concurrent_update": exceptions.ConcurrentUpdate,
    "placement.duplicate_name": exceptions.DuplicateProvider,
    "placement.inventory.inuse": exceptions.InventoryInUse,
    "placement.resource_provider.inuse": exceptions.ResourceProviderInUse,
    "placement.resource_provider.cannot_delete_parent": exceptions.CannotDeleteParent,
}
#: As Placement has worded it since 1.0; the first that fits. Names of
#: providers stand in some texts, so what names a provider comes first.
_CONFLICT_TEXTS: tuple[tuple[re.Pattern[str], type[exceptions.PlacementAPIConflict]], ...] = tuple(
    (re.compile(pattern, re.I | re.S), kind)
    for pattern, kind in (
        (r"conflicting resource provider\b", exceptions.DuplicateProvider),
        (r"\bdelete parent\b|has child resource", exceptions.CannotDeleteParent),
        (r"\bprovider has allocations", exceptions.ResourceProviderInUse),
        (r"\binventory\b.*\bfor\b.*\bin use", exceptions.InventoryInUse),
        (r"unable to allocate\b.*\bexceed the capacity", exceptions.CapacityExceeded),
        (r"unable to allocate", exceptions.AllocationDoesNotFit),
        # A trait or class that something still uses.
        (r"(trait|class)\b.*\bin use", exceptions.PlacementAPIConflict),
        (r"consumer generation conflict", exceptions.ConsumerConflict),
        (
            r"\bgeneration\b|\bconcurrent|\brace\b|\bupdate conflict\b|changed while attempting"
            r"|max retries of db",
            exceptions.ConcurrentUpdate,
        ),
        (r"\bresource provider\b.*\balready exists", exceptions.DuplicateProvider),
        (r"\bprovider\b.*\bin use", exceptions.ResourceProviderInUse),
    )
)
_CONSUMERS_OWN = re.compile(r"consumer generation conflict", re.I)
#: ``Unable to create allocation for 'VCPU' on resource provider '...'``.
_DOES_NOT_FIT = re.compile(r" for '([A-Z0-9_, ]+)' on resource provider '([^']+)'")
_UNKNOWN_NAMES: tuple[tuple[re.Pattern[str], type[exceptions.BadRequest]], ...] = (
    (re.compile(r"no such trait", re.I), exceptions.UnknownTrait),
    (
        re.compile(r"unknown resource class in|no such resource class", re.I),
        exceptions.UnknownResourceClass,
    ),
)
_BEFORE_NAMES = re.compile(r".*\bno such (?:trait|resource class)", re.I | re.S)
_NAME = re.compile(r"\b[A-Z][A-Z0-9_]*\b")
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
#: Statuses that proxies give as well as Placement, in whatever format.
_ANYBODYS = frozenset({401, 413, 414, 429, 431})
#: Statuses that say something about a provider, if Placement says them.
_PLACEMENTS_OWN = frozenset({404, 409})
_CREDENTIALS = re.compile(r"//[^/@\s]+@")


class ErrorBody(NamedTuple):
    """The first error of Placement's JSON.

    :ivar code: Placement's error code, if it has one.
    :ivar detail: the whole text.
    :ivar first: the error as it came; empty where the list is odd.
    """

    code: str | None
    detail: str
    first: Mapping[str, Any]


def error_body(response: Any) -> ErrorBody | None:
    """Placement's own account of an error; ``None`` if the body is none."""
    try:
        body = response.json()
    except (ValueError, RecursionError):
        return None
    if not isinstance(body, dict) or "errors" not in body:
        return None
    errors = body["errors"]
    first = errors[0] if isinstance(errors, list) and errors else {}
    if not isinstance(first, dict):
        first = {}
    code = first.get("code")
    detail = first.get("detail") or first.get("title") or ""
    return ErrorBody(code if isinstance(code, str) else None, str(detail), first)


def failure_of(
    response: Any, *, method: str, url: str, request_id: str | None
) -> exceptions.ReportClientError:
    """The exception that an answer other than 2xx stands for."""
    status = response.status_code
    body = error_body(response)
    html = body is None and _is_html(response)
    kind, names = _kind(status, body, html)
    detail = readable(_without_token(body.detail if body else _text(response), response))
    code = readable(body.code) if body and body.code else None
    error = kind(
        f"{method} {url} was answered {status}{f' {code}' if code else ''}: "
        f"{detail or 'nothing more'}{_hint(status, kind)} [{request_id or 'no request id'}]",
        status=status,
        code=code,
        detail=detail,
        method=method,
        url=url,
        request_id=request_id,
    )
    if isinstance(error, exceptions.UnknownTrait | exceptions.UnknownResourceClass):
        error.names = names
    if isinstance(error, exceptions.AllocationDoesNotFit):
        _say_what_does_not_fit(error, body.detail if body else "")
    if isinstance(error, exceptions.PlacementUnavailable):
        error.retry_after = retry_after(response.headers)
    error.outcome_unknown = method not in _SAFE and isinstance(
        error, exceptions.ServerError | exceptions.ServiceUnavailable | exceptions.BadAnswer
    )
    return error


def _say_what_does_not_fit(error: exceptions.AllocationDoesNotFit, detail: str) -> None:
    named = _DOES_NOT_FIT.search(detail)
    if named:
        error.resource_classes = tuple(named[1].split(", "))
        error.provider = named[2]


def bad_answer(
    what: str, *, method: str, url: str, status: int, request_id: str | None
) -> exceptions.BadAnswer:
    """The exception for a 2xx whose body is not what the API says.

    Whether a write was applied is not known then.
    """
    return exceptions.BadAnswer(
        f"{method} {url} was answered {status}, but the body {readable(what)} "
        f"[{request_id or 'no request id'}]",
        status=status,
        method=method,
        url=url,
        request_id=request_id,
        outcome_unknown=method not in _SAFE,
    )


def _kind(
    status: int, body: ErrorBody | None, html: bool
) -> tuple[type[exceptions.ReportClientError], tuple[str, ...]]:
    if status < 400:
        # A redirect that is not followed, or no HTTP at all.
        return exceptions.BadAnswer, ()
    if status == 409 and body is not None:
        return _conflict_kind(body), ()
    if status == 400 and body is not None:
        return _refusal_kind(body)
    if body is None and (
        status in _PLACEMENTS_OWN or (html and status < 500 and status not in _ANYBODYS)
    ):
        return exceptions.BadAnswer, ()
    if status in _STATUSES:
        return _STATUSES[status], ()
    return (exceptions.ServerError if status >= 500 else exceptions.PlacementError), ()


def _conflict_kind(body: ErrorBody) -> type[exceptions.PlacementAPIConflict]:
    if body.code is not None and body.code in _CONFLICTS:
        kind = _CONFLICTS[body.code]
        # One code for all generations: only the text tells whose it was.
        if kind is exceptions.ConcurrentUpdate and _CONSUMERS_OWN.search(body.detail):
            return exceptions.ConsumerConflict
        return kind
    for pattern, kind in _CONFLICT_TEXTS:
        if pattern.search(body.detail):
            return kind
    return exceptions.PlacementAPIConflict


def _refusal_kind(body: ErrorBody) -> tuple[type[exceptions.BadRequest], tuple[str, ...]]:
    for pattern, kind in _UNKNOWN_NAMES:
        if pattern.search(body.detail):
            before = _BEFORE_NAMES.match(body.detail)
            names = _NAME.findall(body.detail, before.end()) if before else []
            return kind, tuple(dict.fromkeys(names))
    return exceptions.BadRequest, ()


def _hint(status: int, kind: type[exceptions.ReportClientError]) -> str:
    if status in (413, 414, 431):
        return " (something on the way refuses requests of this size)"
    if status == 404 and kind is exceptions.BadAnswer:
        return " (this is not Placement's answer: is the endpoint right?)"
    return ""


def _is_html(response: Any) -> bool:
    return "html" in (response.headers.get("Content-Type") or "").lower() or (
        response.content[:200].lstrip()[:1] == b"<"
    )


def _text(response: Any) -> str:
    # Not ``response.text``: guessing the charset of a large page takes seconds.
    return str(response.content[:_READ_LIMIT].decode("utf-8", "replace"))


def _without_token(text: str, response: Any) -> str:
    """Some proxies tell the request back, with its headers."""
    sent = getattr(getattr(response, "request", None), "headers", None) or {}
    for name in ("X-Auth-Token", "X-Service-Token"):
        token = sent.get(name)
        if token:
            token = token.decode() if isinstance(token, bytes) else token
            text = text.replace(token, "***")
    return text


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait: RFC 9110 has a number of seconds or a date.

    A date counts from the answer's own ``Date``, so that clocks may differ.
    """
    value = (headers.get("Retry-After") or "").strip()
    if value.isascii() and value.isdecimal():
        return float(value)
    when = _date(value)
    if when is None:
        return None
    now = _date(headers.get("Date") or "") or datetime.datetime.now(datetime.UTC)
    return max(0.0, (when - now).total_seconds())


def _date(value: str) -> datetime.datetime | None:
    try:
        when = email.utils.parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return None
    return when if when.tzinfo is not None else when.replace(tzinfo=datetime.UTC)


def readable(text: str) -> str:
    """One line, cut: what a server says must neither forge nor flood a log.

    Credentials in URLs are left out.
    """
    text = " ".join(text[:_READ_LIMIT].split())
    text = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
    text = _CREDENTIALS.sub("//***@", text)
    return text if len(text) <= _DETAIL_LIMIT else f"{text[:_DETAIL_LIMIT]}..."
