# SPDX-License-Identifier: Apache-2.0
"""A Placement for unit tests: quick, in memory, and no easier than the real one.

It keeps the rules, versions and error codes of the real service (one suite of
tests runs on both), but for ``GET /allocation_candidates``, which it answers
501. Its generations begin and jump at random.

With requests-mock::

    placement = FakePlacement()
    with requests_mock.Mocker(case_sensitive=True) as mocker:
        placement.install(mocker)
        ...

or without: ``ReportClient(placement.adapter())``.
"""

from __future__ import annotations

import email.utils
import itertools
import json as json_
import threading
import time
from collections.abc import Mapping
from typing import Any, Self
from urllib.parse import parse_qsl, unquote, urlsplit

import requests
from keystoneauth1 import adapter as ksa_adapter
from keystoneauth1 import session as ksa_session
from keystoneauth1 import token_endpoint

from reportclient.testing import fake_allocations, fake_routes
from reportclient.testing.fake_state import FakeState, Provider, Refusal
from reportclient.testing.hooks import HookedTransport, Meddling, Reply
from reportclient.testing.operator import Operator

__all__ = ["FakePlacement"]

_TITLES = {
    400: "Bad Request",
    401: "Unauthorized",
    404: "Not Found",
    405: "Method Not Allowed",
    406: "Not Acceptable",
    409: "Conflict",
    415: "Unsupported Media Type",
    501: "Not Implemented",
}
# Importing them is what adds their routes.
assert fake_allocations  # noqa: S101


class FakePlacement(Meddling):
    """A stateful fake of the Placement service.

    :param max_microversion: play an older server: ``"1.19"``.
    :param seed: for the generations.
    """

    url = "http://placement.fake/placement"

    def __init__(self, *, max_microversion: str = "1.39", seed: int = 0) -> None:
        self._max = _tuple(max_microversion)
        self._seed = seed
        self._lock = threading.RLock()
        self._ids = itertools.count(1)
        self.state = FakeState(seed)
        self._transport = HookedTransport(self._serve, self.url)
        self.operator = Operator(self._serve, max_microversion)
        self._session: ksa_session.Session | None = None

    def upgrade(self, max_microversion: str) -> None:
        """Become a newer (or older) server; the data stays."""
        self._max = _tuple(max_microversion)

    @property
    def providers(self) -> dict[str, Provider]:
        """The providers by UUID, to look at and to change."""
        return self.state.providers

    def add_provider(
        self, name: str, uuid: str | None = None, parent: str | None = None
    ) -> Provider:
        """Put a provider there; no request is made."""
        return self.state.add_provider(name, uuid, parent)

    def bump(self, uuid: str) -> None:
        """Move a provider's generation; no request is made."""
        self.state.bump(uuid)

    # -- life and ways in ------------------------------------------------------------

    def start(self) -> Self:
        """Begin with nothing in it."""
        self.reset()
        return self

    def stop(self) -> None:
        """Close what was opened."""
        if self._session is not None:
            self._session.session.close()
            self._session = None

    def reset(self) -> None:
        """Forget all data, hooks and records."""
        self.state = FakeState(self._seed)
        self.requests.clear()
        self.clear_hooks()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exc_info: object) -> None:
        self.stop()

    def session(self) -> ksa_session.Session:
        """A keystoneauth1 session whose requests reach the fake."""
        if self._session is None:
            http = requests.Session()
            http.mount("http://", self._transport)
            self._session = ksa_session.Session(
                auth=token_endpoint.Token(self.url, "admin"), session=http
            )
        return self._session

    def adapter(self, **settings: Any) -> ksa_adapter.Adapter:
        """A keystoneauth1 adapter for a `ReportClient`."""
        return ksa_adapter.Adapter(self.session(), **{"service_type": "placement", **settings})

    def install(self, mocker: Any, url: str | None = None) -> str:
        """Have a `requests_mock.Mocker` answer for it.

        :param mocker: made with ``case_sensitive=True``.
        :param url: the endpoint that the code under test believes in.
        :returns: that endpoint.
        """
        base = (url or self.url).rstrip("/")
        transport = HookedTransport(self._serve, base)
        transport.requests, transport.hooks = self._transport.requests, self._transport.hooks

        def answer(request: Any) -> requests.Response | None:
            if not request.url.startswith(base):
                return None
            return transport.send(request)

        mocker.add_matcher(answer)
        return base

    # -- HTTP ---------------------------------------------------------------------------

    def _serve(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Reply:
        given = {key.lower(): value for key, value in headers.items()}
        asked = given.get("openstack-api-version", "")
        answer = {
            "x-openstack-request-id": f"req-fake-{next(self._ids)}",
            "Content-Type": "application/json",
            "Vary": "openstack-api-version",
        }
        version = (1, 0)
        try:
            if "x-auth-token" not in given and urlsplit(path).path != "/":
                raise Refusal(401, "Authentication required")
            version = self._version(asked)
            answer["openstack-api-version"] = f"placement {version[0]}.{version[1]}"
            request = _request(method, path, given, body, version)
            with self._lock:
                status, content, more = fake_routes.handle(self.state, request)
            if version >= (1, 15):
                answer["Last-Modified"] = email.utils.formatdate(time.time(), usegmt=True)
            if content is None:
                return Reply(status, b"", {**answer, **more})
            return Reply(status, json_.dumps(content).encode(), {**answer, **more})
        except Refusal as refusal:
            return Reply(refusal.status, self._error(refusal, version, answer), answer)

    def _version(self, asked: str) -> tuple[int, int]:
        text = asked.removeprefix("placement").strip()
        if not text:
            return (1, 0)
        if text == "latest":
            return self._max
        try:
            version = _tuple(text)
        except ValueError:
            raise Refusal(400, f"invalid version string: {text}") from None
        if not (1, 0) <= version <= self._max:
            raise Refusal(406, f"Unacceptable version header: {text}")
        return version

    def _error(
        self, refusal: Refusal, version: tuple[int, int], answer: Mapping[str, str]
    ) -> bytes:
        error: dict[str, Any] = {
            "status": refusal.status,
            "title": _TITLES.get(refusal.status, "Error"),
            "detail": refusal.detail,
            "request_id": answer["x-openstack-request-id"],
        }
        if version >= (1, 23):
            error["code"] = refusal.code
        if refusal.status == 406:
            error |= {"max_version": f"{self._max[0]}.{self._max[1]}", "min_version": "1.0"}
        return json_.dumps({"errors": [error]}).encode()


def _request(
    method: str, path: str, headers: Mapping[str, str], body: bytes, version: tuple[int, int]
) -> fake_routes.Request:
    parts = urlsplit(path)
    content = None
    if body:
        if headers.get("content-type", "").partition(";")[0] != "application/json":
            raise Refusal(415, "The media type is not supported, use application/json")
        try:
            content = json_.loads(body)
        except ValueError as error:
            raise Refusal(400, f"Malformed JSON: {error}") from None
    elif method in ("PUT", "POST") and not parts.path.startswith(
        ("/traits/", "/resource_classes/")
    ):
        raise Refusal(415, "The media type is not supported, use application/json")
    if parts.path == "/allocation_candidates":
        raise Refusal(501, "The fake has no allocation candidates; use EmbeddedPlacement")
    return fake_routes.Request(
        method,
        unquote(parts.path).rstrip("/") or "/",
        parse_qsl(parts.query, keep_blank_values=True),
        content,
        version,
    )


def _tuple(version: str) -> tuple[int, int]:
    major, _, minor = version.partition(".")
    return int(major), int(minor)
