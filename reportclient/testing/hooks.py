# SPDX-License-Identifier: Apache-2.0
"""Recording requests and meddling with them: the same on fake and real."""

from __future__ import annotations

import collections
import dataclasses
import fnmatch
import io
import json as json_
import re
import threading
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

import requests
from keystoneauth1 import adapter as ksa_adapter
from keystoneauth1 import session as ksa_session
from keystoneauth1 import token_endpoint
from requests import adapters
from requests.structures import CaseInsensitiveDict
from urllib3 import HTTPHeaderDict, HTTPResponse

from reportclient.request_log import route_of

__all__ = ["HookedTransport", "Matcher", "Meddling", "Recorded", "Reply", "Service"]

#: Answers a request: ``(method, path with query, headers, body)``.
Service = Callable[[str, str, Mapping[str, str], bytes], "Reply"]

#: Which requests: a method and a path, both may be ``*`` patterns, and the
#: path may be a compiled regular expression, which is searched for in the path
#: with its query.
Matcher = tuple[str, str | re.Pattern[str]]


@dataclasses.dataclass
class Reply:
    """An answer: what the service said, or what a hook says instead."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(repr=False)
class Recorded:
    """One request that was sent, and its answer (``None`` if it failed).

    :ivar path: with the query, without the endpoint.
    :ivar headers: as they were sent, the token among them; ``repr`` shows none.
    :ivar json: the body, if it was JSON.
    :ivar status: of the answer.
    :ivar response_json: the answer's body, if it was JSON.
    :ivar body: the body as it was sent.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    json: Any
    status: int | None = None
    response_json: Any = None
    body: bytes = b""

    def __repr__(self) -> str:
        body = "" if self.json is None else f" {self.json!r}"
        return f"<{self.method} {self.path}{body} -> {self.status}>"

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
    path: str | re.Pattern[str]
    nth: int
    times: int
    nested: bool = False
    before: Callable[[Recorded], object] | None = None
    after: Callable[[Recorded, Reply], object] | None = None
    reply: Reply | None = None
    error: Exception | None = None
    applied: bool = False
    seen: int = 0

    def counts(self, request: Recorded, *, inside: bool) -> bool:
        """Whether this request is one of those it is for; counts them."""
        if (inside and not self.nested) or self.method not in ("*", request.method):
            return False
        if not self._is_for(request.path):
            return False
        self.seen += 1
        return self.nth <= self.seen < self.nth + self.times

    def _is_for(self, path: str) -> bool:
        if isinstance(self.path, re.Pattern):
            return self.path.search(path) is not None
        return any(fnmatch.fnmatchcase(each, self.path) for each in (path, path.partition("?")[0]))


class _Desk:
    """Hooks and records; several transports may share it."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._lock = threading.RLock()
        # True in a thread that is running a hook's function.
        self._inside = threading.local()
        self.hooks: list[_Hook] = []
        self.requests: list[Recorded] = []

    def add(self, matcher: Matcher, **what: Any) -> None:
        pair = isinstance(matcher, tuple) and len(matcher) == 2
        if not pair or not isinstance(matcher[0], str):
            raise ValueError(
                f"{matcher!r} is no matcher: give a method and a path, as in "
                '("PUT", "*/inventories") or ("*", "*")'
            )
        method, path = matcher
        with self._lock:
            self.hooks.append(_Hook(method, path, **what))

    def clear(self) -> None:
        with self._lock:
            self.hooks.clear()

    def answer(self, request: Recorded) -> Reply:
        with self._lock:
            self.requests.append(request)
            inside = getattr(self._inside, "value", False)
            hooks = [hook for hook in self.hooks if hook.counts(request, inside=inside)]
        reply = self._meddled(request, hooks)
        request.status, request.response_json = reply.status, _parsed(reply.body)
        return reply

    def _meddled(self, request: Recorded, hooks: list[_Hook]) -> Reply:
        for hook in hooks:
            if hook.before is not None:
                self._call(hook.before, request)
        instead = next((hook for hook in hooks if hook.reply or hook.error), None)
        reply = None
        if instead is None or instead.applied:
            reply = self._service(request.method, request.path, request.headers, request.body)
            for hook in hooks:
                if hook.after is not None:
                    self._call(hook.after, request, reply)
        if instead is not None and instead.error is not None:
            raise instead.error
        if instead is not None and instead.reply is not None:
            return dataclasses.replace(instead.reply)
        assert reply is not None  # noqa: S101 - nothing stood in the service's place
        return reply

    def _call(self, function: Callable[..., object], *arguments: object) -> None:
        """Run a hook's function: what it asks of this Placement is no hook's affair."""
        former = getattr(self._inside, "value", False)
        self._inside.value = True
        try:
            function(*arguments)
        finally:
            self._inside.value = former


class HookedTransport(adapters.BaseAdapter):
    """A `requests` transport that answers by calling a function.

    :param service: answers a request.
    :param url: the endpoint that paths are relative to.
    :param desk: hooks and records; its own by default.
    """

    def __init__(self, service: Service, url: str, desk: _Desk | None = None) -> None:
        super().__init__()
        self._service = service
        self._prefix = urlsplit(url).path.rstrip("/")
        # requests' own adapter knows how to make a response of an answer.
        self._builder = adapters.HTTPAdapter()
        self.desk = desk or _Desk(service)

    def at(self, url: str) -> HookedTransport:
        """The same at another endpoint: hooks and records are shared."""
        return HookedTransport(self._service, url, self.desk)

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
        recorded = Recorded(
            request.method or "GET", path, headers, _parsed(body), body=bytes(body)
        )
        reply = self.desk.answer(recorded)
        raw = HTTPResponse(
            body=io.BytesIO(reply.body),
            headers=HTTPHeaderDict(dict(reply.headers)),
            status=reply.status,
            preload_content=False,
        )
        return self._builder.build_response(request, raw)

    def close(self) -> None:
        """Nothing is open."""


class Meddling:
    """Ways in, hooks and records: what every Placement for tests has.

    Hooks are for requests through `session`, `adapter` and an installed
    `requests_mock.Mocker`. The operator's requests, and those at a socket,
    go past them. A hook's function may send requests to the same Placement;
    they are recorded, and other hooks see them only with ``nested=True``.
    """

    #: The endpoint.
    url: str

    def __init__(self, transport: HookedTransport) -> None:
        self.transport = transport
        self._session: ksa_session.Session | None = None

    # -- ways in --------------------------------------------------------------------

    def session(self) -> ksa_session.Session:
        """A keystoneauth1 session whose requests reach this Placement."""
        if self._session is None:
            http = requests.Session()
            http.mount("http://", self.transport)
            self._session = ksa_session.Session(
                auth=token_endpoint.Token(self.url, "admin"), session=http
            )
        return self._session

    def adapter(self, **settings: Any) -> ksa_adapter.Adapter:
        """A keystoneauth1 adapter for a `ReportClient`."""
        return ksa_adapter.Adapter(self.session(), **{"service_type": "placement", **settings})

    def close_session(self) -> None:
        """Close the session, if there is one."""
        if self._session is not None:
            self._session.session.close()
            self._session = None

    # -- records --------------------------------------------------------------------

    @property
    def requests(self) -> list[Recorded]:
        """The requests so far, in the order in which they were sent."""
        return self.transport.desk.requests

    def by_kind(self) -> dict[str, int]:
        """How many requests there were of each kind."""
        return dict(collections.Counter(request.kind for request in self.requests))

    # -- hooks ----------------------------------------------------------------------

    def before(
        self,
        matcher: Matcher,
        function: Callable[[Recorded], object],
        *,
        nth: int = 1,
        times: int = 1,
        nested: bool = False,
    ) -> None:
        """Call a function before the n-th request that matches is served.

        :param matcher: method and path, see `Matcher`.
        :param times: how many matching requests in a row it is called for.
        :param nested: also for requests that a hook's function sends.
        """
        self._hook(matcher, nth, times, nested, before=function)

    def after(
        self,
        matcher: Matcher,
        function: Callable[[Recorded, Reply], object],
        *,
        nth: int = 1,
        times: int = 1,
        nested: bool = False,
    ) -> None:
        """Call a function after the n-th request that matches was served."""
        self._hook(matcher, nth, times, nested, after=function)

    def respond(
        self,
        matcher: Matcher,
        *,
        status: int,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        applied: bool = False,
        nth: int = 1,
        times: int = 1,
        nested: bool = False,
    ) -> None:
        """Answer in place of the service.

        :param body: text and bytes as they are; anything else as JSON.
        :param applied: the service does what was asked, only its answer is lost.
        """
        headers = dict(headers or {})
        if body is None:
            content = b""
        elif isinstance(body, str | bytes):
            content = body.encode() if isinstance(body, str) else body
            headers.setdefault("Content-Type", "text/html")
        else:
            content = json_.dumps(body).encode()
            headers.setdefault("Content-Type", "application/json")
        reply = Reply(status, content, headers)
        self._hook(matcher, nth, times, nested, reply=reply, applied=applied)

    def fail(
        self,
        matcher: Matcher,
        error: Exception,
        *,
        applied: bool = False,
        nth: int = 1,
        times: int = 1,
        nested: bool = False,
    ) -> None:
        """Raise an exception of `requests` in place of an answer.

        :param applied: after the service did what was asked, not before.
        """
        self._hook(matcher, nth, times, nested, error=error, applied=applied)

    def _hook(self, matcher: Matcher, nth: int, times: int, nested: bool, **what: Any) -> None:
        self.transport.desk.add(matcher, nth=nth, times=times, nested=nested, **what)

    def unused_hooks(self) -> list[str]:
        """The hooks that no request has met: a test may insist that there are none."""
        return [
            f"{hook.method} {hook.path}"
            for hook in self.transport.desk.hooks
            if hook.seen < hook.nth
        ]

    def clear_hooks(self) -> None:
        """Take all hooks away; what was recorded stays."""
        self.transport.desk.clear()


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _parsed(body: bytes) -> Any:
    try:
        return json_.loads(body)
    except ValueError:
        return None
