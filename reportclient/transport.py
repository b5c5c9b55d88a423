# SPDX-License-Identifier: Apache-2.0
"""One request to Placement: microversion, headers, timeout, and what it means.

A request names two microversions: the one it *wants* and the lowest that it
*needs*. It is sent at the one wanted; a server that is older says so once
(406, with its range), and from then on requests go at the newest that it has.
No request is ever sent just to find out.

Only requests that change nothing are sent again after a failure, and those
that certainly did not reach Placement. What becomes of any other write is for
the caller to find out (`ReportClientError.outcome_unknown`). keystoneauth's
own resending is off: a write that it resends can meet its own result.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from keystoneauth1 import exceptions as ksa
from keystoneauth1 import session as ksa_session
from requests import adapters as requests_adapters
from requests import exceptions as requests_exceptions

from reportclient import answers, exceptions
from reportclient.request_log import RequestLog, RequestRecord, route_of
from reportclient.retry import RetryBudget, RetryPolicy

__all__ = ["Answer", "Microversion", "Transport", "format_microversion"]

LOG = logging.getLogger(__name__)

Microversion = tuple[int, int]

#: After so many connect failures in a row the catalog is fetched again: the
#: endpoint may have moved.
_CATALOG_AFTER = 3
#: Seconds until the range of microversions is asked for again by sending at
#: the one wanted: Placement may have been upgraded.
_RANGE_VALID = 3600.0
_SAFE = frozenset({"GET", "HEAD"})


class Answer(NamedTuple):
    """A 2xx answer.

    :ivar body: the JSON, or ``None`` if there was no body.
    :ivar microversion: the microversion that the request was sent at.
    """

    status: int
    body: Any
    headers: Mapping[str, str]
    request_id: str | None
    microversion: Microversion


def format_microversion(version: Microversion) -> str:
    """``(1, 39)`` as ``"1.39"``."""
    return f"{version[0]}.{version[1]}"


class Transport:
    """Sends requests through a keystoneauth1 adapter. Building one does no I/O.

    :param adapter: its endpoint filter, authentication and TLS settings are
        the caller's, and are left alone.
    :param timeout: seconds until a request without an answer is given up.
    :param max_workers: how many connections may be needed at once.
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
        self._pool_size = max(10, max_workers)
        self._retry = retry
        self._budget = RetryBudget()
        self._clock = clock
        self._sleep = sleep
        self._random = random
        self._lock = threading.Lock()
        self._offered: tuple[Microversion, Microversion] | None = None
        self._offered_until = 0.0
        self._pool_ready = False
        self._pid = os.getpid()
        self._connect_failures = 0

    def offers(self, version: Microversion) -> bool:
        """Whether the server has a microversion, as far as is known."""
        offered = self._known_range()
        return offered is None or offered[1] >= version

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
    ) -> Answer:
        """Send one request and return its 2xx answer.

        :param want: the microversion to ask for where the server has it.
        :param need: the lowest at which the request means what is meant.
        :param json: the body; ``None`` for none (``{}`` and ``[]`` are bodies).
        :raises MicroversionNotSupported: the server has not what is needed.
        :raises PlacementUnavailable: no usable answer.
        :raises PlacementError: Placement refused; the kinds say why.
        :raises ConfigurationError: there is nothing to authenticate with.
        """
        call = _Request(method, path, want, need, json, params, global_request_id, log)
        resends = self._retry.retrying(
            clock=self._clock,
            sleep=self._sleep,
            random=self._random,
            retry_on=lambda error: self._may_resend(method, error),
            attempts=1 + self._retry.resend_attempts,
        )
        answer: Answer = resends(self._negotiated, call)
        return answer

    def close(self) -> None:
        """Close the pooled connections. Later requests open new ones."""
        if self._pool_ready:
            self._adapter.session.session.close()

    def renew_lock(self) -> None:
        """Take new locks: after a fork, another thread may have held them."""
        self._lock = threading.Lock()
        self._budget.renew_lock()

    # -- trying again ------------------------------------------------------------

    def _may_resend(self, method: str, error: BaseException) -> bool:
        if not isinstance(error, exceptions.PlacementUnavailable):
            return False
        if isinstance(error, exceptions.Unauthorized | exceptions.EndpointMissing):
            # The catalog and the token have been renewed by now: only time,
            # or somebody, can help.
            return False
        certainly_not_applied = method in _SAFE or (
            not error.outcome_unknown and not isinstance(error, exceptions.BadAnswer)
        )
        return certainly_not_applied and self._budget.spend()

    # -- microversions -----------------------------------------------------------

    def _negotiated(self, call: _Request) -> Answer:
        """Send at what the server has; learn what that is from a 406, once."""
        version = self._choose(call)
        try:
            return self._send(call, version)
        except _NotAcceptable as refusal:
            if refusal.offered is None:
                raise self._not_supported(call, None, refusal.error) from refusal.error
            with self._lock:
                self._offered = refusal.offered
                self._offered_until = self._clock() + _RANGE_VALID
            LOG.debug(
                "Placement offers microversions %s to %s.",
                *map(format_microversion, refusal.offered),
            )
        try:
            return self._send(call, self._choose(call))
        except _NotAcceptable as refusal:
            raise self._not_supported(call, refusal.offered, refusal.error) from refusal.error

    def _choose(self, call: _Request) -> Microversion:
        offered = self._known_range()
        if offered is None:
            return call.want
        lowest, highest = offered
        if highest < call.need or call.want < lowest:
            raise self._not_supported(call, offered, None)
        return min(call.want, highest)

    def _known_range(self) -> tuple[Microversion, Microversion] | None:
        return self._offered if self._clock() < self._offered_until else None

    def _not_supported(
        self,
        call: _Request,
        offered: tuple[Microversion, Microversion] | None,
        error: exceptions.ReportClientError | None,
    ) -> exceptions.MicroversionNotSupported:
        lowest, highest = map(format_microversion, offered) if offered else (None, None)
        needed = format_microversion(call.need)
        range_ = f"{lowest} to {highest}" if offered else "what it does not say"
        failure = exceptions.MicroversionNotSupported(
            f"{call.method} {call.path} needs microversion {needed} of Placement, "
            f"which offers {range_}.",
            method=call.method,
            url=call.path,
            status=error.status if error else None,
            request_id=error.request_id if error else None,
        )
        failure.needed, failure.offered = needed, (lowest, highest)
        return failure

    # -- one request ---------------------------------------------------------------

    def _send(self, call: _Request, version: Microversion) -> Answer:
        self._prepare_pool()
        began = self._clock()
        response = None
        try:
            response = self._adapter.request(
                call.path,
                call.method,
                raise_exc=False,
                connect_retries=0,
                status_code_retries=0,
                timeout=self._timeout,
                # keystoneauth's own log lines hold whole bodies.
                log=False,
                headers=_headers(version, call.json is not None),
                json=call.json,
                params=call.params,
                **(
                    {"global_request_id": call.global_request_id} if call.global_request_id else {}
                ),
            )
        except (ksa.ClientException, requests_exceptions.RequestException) as error:
            failure = answers.no_answer(error, method=call.method, url=call.path)
            self._after_failure(failure)
            raise failure from error
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
        return self._read(call, version, response)

    def _read(self, call: _Request, version: Microversion, response: Any) -> Answer:
        request_id = _request_id(response)

        def failure() -> exceptions.ReportClientError:
            return answers.failure_of(
                response, method=call.method, url=call.path, request_id=request_id
            )

        if response.status_code == 406:
            raise _NotAcceptable(failure(), _range(response))
        if not 200 <= response.status_code < 300:
            error = failure()
            self._after_failure(error)
            raise error
        self._connect_failures = 0
        self._budget.earn()
        body = None
        if response.status_code != 204 and response.content:
            try:
                body = response.json()
            except ValueError as error:
                raise self.bad_answer(
                    call.method, call.path, response.status_code, "is not JSON", request_id
                ) from error
        return Answer(response.status_code, body, response.headers, request_id, version)

    @staticmethod
    def bad_answer(
        method: str, path: str, status: int, what: str, request_id: str | None
    ) -> exceptions.BadAnswer:
        """The exception for a 2xx whose body is not what the API says."""
        return exceptions.BadAnswer(
            f"{method} {path} was answered {status}, but the body {what} "
            f"[{request_id or 'no request id'}]",
            status=status,
            method=method,
            url=path,
            request_id=request_id,
            outcome_unknown=method not in _SAFE,
        )

    def _after_failure(self, failure: exceptions.ReportClientError) -> None:
        """Have the catalog fetched again when the endpoint may have moved."""
        if isinstance(failure, exceptions.ConnectFailed | exceptions.PlacementTimeout):
            with self._lock:
                self._connect_failures += 1
                again = self._connect_failures % _CATALOG_AFTER == 0
        else:
            again = isinstance(failure, exceptions.EndpointMissing | exceptions.DiscoveryFailed)
        if again:
            try:
                self._adapter.invalidate()
            except ksa.MissingAuthPlugin:
                LOG.debug("There is no authentication to renew.")

    def _prepare_pool(self) -> None:
        """Size the connection pool; drop connections that a fork shares."""
        if self._pool_ready and self._pid == os.getpid():
            return
        with self._lock:
            http = self._adapter.session.session
            if self._pid != os.getpid():
                for mounted in http.adapters.values():
                    mounted.close()
                self._pid = os.getpid()
            if not self._pool_ready:
                for scheme in ("http://", "https://"):
                    # One that the caller has mounted is the caller's.
                    if type(http.adapters.get(scheme)) in _STOCK:
                        http.mount(
                            scheme,
                            ksa_session.TCPKeepAliveAdapter(
                                pool_connections=4, pool_maxsize=self._pool_size
                            ),
                        )
                self._pool_ready = True


_STOCK = (requests_adapters.HTTPAdapter, ksa_session.TCPKeepAliveAdapter)


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
    def __init__(
        self,
        error: exceptions.ReportClientError,
        offered: tuple[Microversion, Microversion] | None,
    ) -> None:
        super().__init__(str(error))
        self.error = error
        self.offered = offered


def _headers(version: Microversion, has_body: bool) -> dict[str, str]:
    headers = {
        "Accept": "application/json",
        "OpenStack-API-Version": f"placement {format_microversion(version)}",
    }
    if has_body:
        headers["Content-Type"] = "application/json"
    return headers


def _request_id(response: Any) -> str | None:
    value = response.headers.get("x-openstack-request-id")
    return str(value) if value else None


def _range(response: Any) -> tuple[Microversion, Microversion] | None:
    """The microversions that a 406 says are offered."""
    body = answers.error_body(response)
    try:
        first = body.first if body else {}
        return _parsed(first["min_version"]), _parsed(first["max_version"])
    except (KeyError, ValueError, AttributeError):
        return None


def _parsed(text: str) -> Microversion:
    major, _, minor = text.partition(".")
    return int(major), int(minor)
