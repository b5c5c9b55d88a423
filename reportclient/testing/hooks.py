# SPDX-License-Identifier: Apache-2.0
"""Recording requests and meddling with them: the same on fake and real."""

from __future__ import annotations

import collections
import dataclasses
import fnmatch
import io
import json as json_
import threading
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

import requests
from requests import adapters
from requests.structures import CaseInsensitiveDict
from urllib3 import HTTPHeaderDict, HTTPResponse

from reportclient.request_log import route_of

__all__ = ["HookedTransport", "Meddling", "Recorded", "Reply"]


@dataclasses.dataclass
class Reply:
    """An answer: what the service said, or what a hook says instead."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Recorded:
    """One request that was sent, and its answer (``None`` if it failed).

    :ivar path: with the query, without the endpoint.
    :ivar json: the body, if it was JSON.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    json: Any
    status: int | None = None
    response_json: Any = None

    @property
    def kind(self) -> str:
        """``"PUT /resource_providers/{uuid}/traits"``."""
        return f"{self.method} {route_of(self.path)}"

    @property
    def microversion(self) -> str | None:
        """The microversion asked for, ``"1.23"``."""
        asked = self.headers.get("OpenStack-API-Version", "")
        return asked.removeprefix("placement ") or None


@dataclasses.dataclass
class _Hook:
    method: str
    path: str
    nth: int
    times: int
    before: Callable[[Recorded], None] | None = None
    after: Callable[[Recorded, Reply], None] | None = None
    reply: Reply | None = None
    error: Exception | None = None
    applied: bool = False
    seen: int = 0

    def matches(self, request: Recorded) -> bool:
        """Whether this request is one of those it is for; counts them."""
        path = request.path.partition("?")[0]
        if self.method not in ("*", request.method) or not (
            fnmatch.fnmatchcase(path, self.path) or fnmatch.fnmatchcase(request.path, self.path)
        ):
            return False
        self.seen += 1
        return self.nth <= self.seen < self.nth + self.times


class HookedTransport(adapters.BaseAdapter):
    """A `requests` transport that answers by calling a function.

    :param service: answers a request: ``(method, path, headers, body)``.
    :param url: the endpoint that paths are relative to.
    """

    def __init__(
        self, service: Callable[[str, str, Mapping[str, str], bytes], Reply], url: str
    ) -> None:
        super().__init__()
        self._service = service
        self._prefix = urlsplit(url).path.rstrip("/")
        self._lock = threading.RLock()
        self.hooks: list[_Hook] = []
        self.requests: list[Recorded] = []

    # -- meddling -------------------------------------------------------------

    def add(self, matcher: tuple[str, str], **what: Any) -> None:
        """Add a hook; ``matcher`` is a method and a glob for the path, or ``*``."""
        method, path = matcher
        with self._lock:
            self.hooks.append(_Hook(method, path, **what))

    def clear(self) -> None:
        """Take all hooks away."""
        with self._lock:
            self.hooks.clear()

    # -- requests' side ----------------------------------------------------------

    def send(  # type: ignore[override]
        self, request: requests.PreparedRequest, **_: Any
    ) -> requests.Response:
        """Answer a request."""
        url = urlsplit(request.url or "")
        path = url.path.removeprefix(self._prefix) or "/"
        path += f"?{url.query}" if url.query else ""
        body = request.body or b""
        body = body.encode() if isinstance(body, str) else body
        headers = CaseInsensitiveDict(
            {key: _text(value) for key, value in request.headers.items()}
        )
        recorded = Recorded(request.method or "GET", path, headers, _parsed(body))
        with self._lock:
            self.requests.append(recorded)
            hooks = [hook for hook in self.hooks if hook.matches(recorded)]
        reply = self._answer(recorded, body, hooks)
        recorded.status, recorded.response_json = reply.status, _parsed(reply.body)
        return _response(request, reply)

    def _answer(self, request: Recorded, body: bytes, hooks: list[_Hook]) -> Reply:
        for hook in hooks:
            if hook.before is not None:
                hook.before(request)
        instead = next((hook for hook in hooks if hook.reply or hook.error), None)
        reply = None
        if instead is None or instead.applied:
            reply = self._service(request.method, request.path, request.headers, body)
        for hook in hooks:
            if hook.after is not None and reply is not None:
                hook.after(request, reply)
        if instead is not None:
            if instead.error is not None:
                raise instead.error
            reply = instead.reply
        assert reply is not None  # noqa: S101 - one of the two made it
        return reply

    def close(self) -> None:
        """Nothing is open."""


class Meddling:
    """Hooks and records, for whoever has a `HookedTransport`."""

    _transport: HookedTransport

    @property
    def requests(self) -> list[Recorded]:
        """The requests so far, in the order in which they were sent."""
        return self._transport.requests

    def by_kind(self) -> dict[str, int]:
        """How many requests there were of each kind."""
        return dict(collections.Counter(request.kind for request in self.requests))

    def before(
        self,
        matcher: tuple[str, str],
        function: Callable[[Recorded], None],
        *,
        nth: int = 1,
        times: int = 1,
    ) -> None:
        """Call a function before the n-th request that matches is served.

        :param matcher: method and path, both may be ``*`` patterns.
        :param times: how many matching requests in a row it is called for.
        """
        self._transport.add(matcher, before=function, nth=nth, times=times)

    def after(
        self,
        matcher: tuple[str, str],
        function: Callable[[Recorded, Reply], None],
        *,
        nth: int = 1,
        times: int = 1,
    ) -> None:
        """Call a function after the n-th request that matches was served."""
        self._transport.add(matcher, after=function, nth=nth, times=times)

    def respond(
        self,
        matcher: tuple[str, str],
        *,
        status: int,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        applied: bool = False,
        nth: int = 1,
        times: int = 1,
    ) -> None:
        """Answer in place of the service.

        :param body: text as it is; anything else as JSON.
        :param applied: the service does what was asked, only its answer is lost.
        """
        headers = dict(headers or {})
        if body is None:
            content = b""
        elif isinstance(body, str):
            content = body.encode()
            headers.setdefault("Content-Type", "text/html")
        else:
            content = json_.dumps(body).encode()
            headers.setdefault("Content-Type", "application/json")
        reply = Reply(status, content, headers)
        self._transport.add(matcher, reply=reply, applied=applied, nth=nth, times=times)

    def fail(
        self,
        matcher: tuple[str, str],
        error: Exception,
        *,
        applied: bool = False,
        nth: int = 1,
        times: int = 1,
    ) -> None:
        """Raise an exception of `requests` in place of an answer."""
        self._transport.add(matcher, error=error, applied=applied, nth=nth, times=times)

    def clear_hooks(self) -> None:
        """Take all hooks away; what was recorded stays."""
        self._transport.clear()


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _parsed(body: bytes) -> Any:
    try:
        return json_.loads(body)
    except ValueError:
        return None


def _response(request: requests.PreparedRequest, reply: Reply) -> requests.Response:
    raw = HTTPResponse(
        body=io.BytesIO(reply.body),
        headers=HTTPHeaderDict(dict(reply.headers)),
        status=reply.status,
        preload_content=False,
    )
    # requests' own adapter knows how to build the rest.
    return adapters.HTTPAdapter().build_response(request, raw)
