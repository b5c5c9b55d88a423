# SPDX-License-Identifier: Apache-2.0
"""One request to Placement: microversion, headers, timeout, and what it means.

A request names two microversions: the one it *wants* and the lowest that it
*needs*. It is sent at the one wanted; a server that is older says so once
(406, with its range), and from then on requests go at the newest that it has.
No request is ever sent just to find out.

What is sent again, within `RetryPolicy.resend_attempts` and its deadline, and
only while the client's `RetryBudget` lasts:

* requests that change nothing or that are said to be idempotent, after a
  `PlacementUnavailable` or a `ServerError`;
* writes that certainly were not applied: refused, unknown host, a TLS
  handshake that failed, a Keystone that does not answer, 429.

Not sent again: `Unauthorized` and `EndpointMissing` (token and catalog are
fetched anew for the next request), and any other write. What became of that is
for the caller to find out (`ReportClientError.outcome_unknown`). keystoneauth's
own resending is off: a write that it resends can meet its own result.

Redirects are followed to the same host, or from http to https on it, with
method and body; the token goes nowhere else (keystoneauth would send it to any
host that an answer names).

keystoneauth's own log lines are off: they hold whole bodies. Nothing is logged
here but the range of microversions, once.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import urljoin, urlsplit

from keystoneauth1 import exceptions as ksa
from requests.structures import CaseInsensitiveDict

from reportclient import answers, exceptions, unreachable
from reportclient.microversions import (
    Microversion,
    Offer,
    OfferedRange,
    format_microversion,
    not_supported,
    parse_offer,
)
from reportclient.pool import ConnectionPool
from reportclient.request_log import RequestLog, RequestRecord, route_of
from reportclient.retry import RetryBudget, RetryPolicy

__all__ = ["Answer", "Microversion", "Transport", "format_microversion"]

#: After so many connect failures in a row the catalog is fetched again: the
#: endpoint may have moved, and another host may have its address.
_CATALOG_AFTER = 3
_REDIRECTS = 3
#: 303 is not among them: it asks for another method.
_REDIRECT_STATUSES = frozenset({301, 302, 307, 308})
_SAFE = frozenset({"GET", "HEAD"})


class Answer(NamedTuple):
    """A 2xx answer.

    :ivar body: the JSON, or ``None`` if there was no body.
    :ivar microversion: the microversion that the request was sent at.
    :ivar method: of the request, and ``path`` likewise.
    """

    status: int
    body: Any
    headers: Mapping[str, str]
    request_id: str | None
    microversion: Microversion
    method: str
    path: str

    def bad(self, what: str) -> exceptions.BadAnswer:
        """The exception for a body that is not what the API says."""
        return answers.bad_answer(
            what,
            method=self.method,
            url=self.path,
            status=self.status,
            request_id=self.request_id,
        )


class Transport:
    """Sends requests through a keystoneauth1 adapter. Building one does no I/O.

    :param adapter: its endpoint filter, authentication and TLS settings are
        the caller's, and are left alone.
    :param timeout: seconds until a request without an answer is given up. The
        adapter's session gets it too, if it has none: for requests to Keystone.
    :param max_workers: how many connections may be needed at once.
    :param clock: seconds from any start; ``sleep`` and ``random`` (a number
        in [0, 1)) likewise come from outside.
    """

    def __init__(
        self,
        adapter: Any,
        *,
        timeout: float,
        max_workers: int,
        retry: RetryPolicy,
        clock: Callable[[], float],
        sleep: Callable[[float], None],
        random: Callable[[], float],
    ) -> None:
        self._adapter = adapter
        self._timeout = timeout
        self._retry = retry
        self._clock = clock
        self._sleep = sleep
        self._random = random
        self._budget = RetryBudget(clock)
        self._range = OfferedRange(clock)
        self._pool = ConnectionPool(adapter, max(10, max_workers), timeout)
        self._lock = threading.Lock()
        self._connect_failures = 0
        #: Of the last token that was refused: its hash, and whether there may
        #: be another.
        self._refused: tuple[int, bool] | None = None

    def offers(self, version: Microversion) -> bool:
        """Whether the server has a microversion, as far as is known."""
        return self._range.offers(version)

    def request(
        self,
        method: str,
        path: str,
        *,
        want: Microversion,
        need: Microversion,
        json: Any = None,
        params: Any = None,
        global_request_id: str | None = None,
        log: RequestLog | None = None,
        idempotent: bool = False,
    ) -> Answer:
        """Send one request and return its 2xx answer.

        :param path: below the endpoint, with the query if there is one.
        :param want: the microversion to ask for where the server has it.
        :param need: the lowest at which the request means what is meant.
        :param json: the body; ``None`` for none (``{}`` and ``[]`` are bodies).
        :param params: a query, as `requests` takes it.
        :param idempotent: sending it twice is as sending it once, whoever else
            writes: it may be sent again like a GET.
        :raises MicroversionNotSupported: the server has not what is needed.
        :raises PlacementUnavailable: no usable answer.
        :raises PlacementError: Placement refused; the kinds say why.
        :raises ConfigurationError: there is nothing to authenticate with, or
            the endpoint is no URL.
        """
        call = _Request(method, path, want, need, json, params, global_request_id, log)
        resends = self._retry.calling(
            clock=self._clock,
            sleep=self._sleep,
            random=self._random,
            retry_on=functools.partial(_may_resend, method in _SAFE or idempotent),
            attempts=1 + self._retry.resend_attempts,
            budget=self._budget,
        )
        answer: Answer = resends(self._negotiated, call)
        return answer

    def endpoint(self) -> str:
        """The URL that the adapter has for Placement.

        :raises PlacementUnavailable, ConfigurationError: it cannot be found out.
        """
        self._pool.prepare()
        try:
            found = self._adapter.get_endpoint()
        except unreachable.EXPECTED as error:
            failure = unreachable.no_answer(error, method="GET", url="the catalog")
            self._after_failure(failure)
            raise failure from error
        if not found:
            raise exceptions.EndpointMissing("The catalog has no endpoint for Placement.")
        return str(found)

    def close(self) -> None:
        """Close the pooled connections. Later requests open new ones."""
        self._pool.close()

    def renew_lock(self) -> None:
        """Take new locks: after a fork, another thread may have held them."""
        self._lock = threading.Lock()
        for part in (self._budget, self._range, self._pool):
            part.renew_lock()

    # -- microversions -----------------------------------------------------------

    def _negotiated(self, call: _Request) -> Answer:
        """Send at what the server has; learn what that is from a 406, once."""
        try:
            return self._send(call)
        except _NotAcceptable as refusal:
            if refusal.offer is None:
                self._range.forget()
                raise refusal.to_error(call) from refusal.error
            self._range.learn(refusal.offer)
        try:
            return self._send(call)
        except _NotAcceptable as refusal:
            raise refusal.to_error(call) from refusal.error

    # -- one request ---------------------------------------------------------------

    def _send(self, call: _Request) -> Answer:
        version = self._range.choose(call.method, call.path, call.want, call.need)
        response = self._followed(call, version)
        request_id = _request_id(response)
        if 200 <= response.status_code < 300:
            self._connect_failures = 0
            self._budget.earn()
            answer = Answer(
                response.status_code,
                None,
                response.headers,
                request_id,
                version,
                call.method,
                call.path,
            )
            answer = answer._replace(body=_json(response, answer))
            self._range.prove(version)
            return answer
        error = answers.failure_of(
            response, method=call.method, url=call.path, request_id=request_id
        )
        if response.status_code == 406:
            body = answers.error_body(response)
            raise _NotAcceptable(error, parse_offer(body.first if body else None))
        self._after_failure(error)
        raise error

    def _followed(self, call: _Request, version: Microversion) -> Any:
        """The answer after redirects, and after a token was renewed."""
        response = self._authorised(call, version, call.path)
        for _ in range(_REDIRECTS):
            if response.status_code not in _REDIRECT_STATUSES:
                return response
            target = _target(response)
            if target is None:
                break
            # The query is in the new address.
            response = self._authorised(call._replace(params=None), version, target)
        if response.status_code in _REDIRECT_STATUSES:
            raise _misdirected(call, response)
        return response

    def _authorised(self, call: _Request, version: Microversion, url: str) -> Any:
        response = self._exchange(call, version, url)
        if response.status_code == 401 and self._renews_token(response):
            response = self._exchange(call, version, url)
        return response

    def _exchange(self, call: _Request, version: Microversion, url: str) -> Any:
        self._pool.prepare()
        began = self._clock()
        response = None
        extra = {}
        if call.global_request_id:
            extra["global_request_id"] = call.global_request_id
        if call.params is not None:
            extra["params"] = call.params
        try:
            response = self._adapter.request(
                url,
                call.method,
                raise_exc=False,
                connect_retries=0,
                status_code_retries=0,
                redirect=False,
                allow_reauth=False,
                log=False,
                timeout=self._timeout,
                headers=_headers(version, call.json is not None),
                json=call.json,
                **extra,
            )
        except unreachable.EXPECTED as error:
            failure = unreachable.no_answer(error, method=call.method, url=call.path)
            self._after_failure(failure)
            raise failure from error
        except Exception as error:
            # Some authentication plugins say so with a bare Exception that
            # an option is missing. Anything else is a fault of ours.
            if type(error) is not Exception:
                raise
            raise exceptions.ConfigurationError(
                f"{call.method} {call.path}: {answers.readable(str(error))}",
                method=call.method,
                url=call.path,
            ) from error
        finally:
            if call.log is not None:
                call.log.add(
                    RequestRecord(
                        call.method,
                        route_of(call.path),
                        None if response is None else response.status_code,
                        None if response is None else _request_id(response),
                        version,
                        self._clock() - began,
                    )
                )
        return response

    # -- token and catalog ----------------------------------------------------------

    def _renews_token(self, response: Any) -> bool:
        """Whether another token may be had in place of one that was refused.

        Many threads may be refused for the same token: it is dropped once.
        """
        headers = getattr(response.request, "headers", {})
        refused = hash(headers.get("X-Auth-Token"))
        with self._lock:
            if self._refused is None or self._refused[0] != refused:
                self._refused = (refused, self._invalidate())
            return self._refused[1]

    def _invalidate(self) -> bool:
        try:
            return bool(self._adapter.invalidate())
        except ksa.MissingAuthPlugin:
            return False

    def _after_failure(self, failure: exceptions.ReportClientError) -> None:
        """Have the catalog fetched again when the endpoint may have moved."""
        if isinstance(failure, exceptions.Unauthorized):
            # The same token, should it come again, is worth another try then.
            with self._lock:
                self._refused = None
            return
        reaching = exceptions.ConnectFailed | exceptions.PlacementTimeout | exceptions.TLSFailed
        if isinstance(failure, reaching):
            with self._lock:
                self._connect_failures += 1
                again = self._connect_failures % _CATALOG_AFTER == 0
        else:
            again = isinstance(failure, exceptions.EndpointMissing | exceptions.DiscoveryFailed)
        if again:
            self._invalidate()


class _Request(NamedTuple):
    method: str
    path: str
    want: Microversion
    need: Microversion
    json: Any
    params: Any
    global_request_id: str | None
    log: RequestLog | None


class _NotAcceptable(Exception):
    def __init__(self, error: exceptions.ReportClientError, offer: Offer | None) -> None:
        super().__init__(str(error))
        self.error = error
        self.offer = offer

    def to_error(self, call: _Request) -> exceptions.MicroversionNotSupported:
        return not_supported(call.method, call.path, call.need, self.offer, self.error)


def _may_resend(safe: bool, error: BaseException) -> bool:
    if not isinstance(error, exceptions.PlacementUnavailable | exceptions.ServerError):
        return False
    if isinstance(error, exceptions.Unauthorized | exceptions.EndpointMissing):
        # The token was renewed already, and the catalog will be before the
        # next request: only time, or somebody, can help.
        return False
    return safe or not (error.outcome_unknown or isinstance(error, exceptions.BadAnswer))


def _headers(version: Microversion, has_body: bool) -> CaseInsensitiveDict[str]:
    headers = {
        "Accept": "application/json",
        "OpenStack-API-Version": f"placement {format_microversion(version)}",
    }
    if has_body:
        headers["Content-Type"] = "application/json"
    return CaseInsensitiveDict(headers)


def _request_id(response: Any) -> str | None:
    value = response.headers.get("x-openstack-request-id")
    return answers.readable(str(value)) if value else None


def _json(response: Any, answer: Answer) -> Any:
    if answer.status == 204 or not response.content:
        return None
    try:
        return response.json()
    except (ValueError, RecursionError) as error:
        raise answer.bad("is not JSON") from error


def _target(response: Any) -> str | None:
    """Where a redirect leads, if the token may be shown there."""
    source, location = response.url or "", response.headers.get("Location")
    if not location:
        return None
    try:
        target = urljoin(source, location)
        old, new = urlsplit(source), urlsplit(target)
        same_port = old.port == new.port
    except ValueError:
        return None
    if old.hostname != new.hostname:
        return None
    same = (old.scheme == new.scheme and same_port) or (
        old.scheme == "http" and new.scheme == "https"
    )
    return target if same else None


def _misdirected(call: _Request, response: Any) -> exceptions.BadAnswer:
    target = answers.readable(response.headers.get("Location") or "nowhere")
    return exceptions.BadAnswer(
        f"{call.method} {call.path} was answered {response.status_code}: it is redirected to "
        f"{target}, and that is not followed: it is another host, a less safe way, or there are "
        f"too many in a row [{_request_id(response) or 'no request id'}]",
        status=response.status_code,
        method=call.method,
        url=call.path,
        request_id=_request_id(response),
    )
