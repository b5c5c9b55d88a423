# SPDX-License-Identifier: Apache-2.0
"""A Placement for unit tests: quick, in memory, and no easier than the real one.

It keeps the rules, microversions, error codes and error texts of the real
service (one suite of tests compares the two). Its generations begin and jump
at random.

With requests-mock::

    placement = FakePlacement()
    with requests_mock.Mocker(case_sensitive=True) as mocker:
        placement.install(mocker)
        ...

or without: ``ReportClient(placement.adapter())``.
"""

from __future__ import annotations

import email.utils
import json as json_
import random
import threading
import time
import uuid as uuid_
from collections.abc import Callable, Mapping
from typing import Any, Self
from urllib.parse import parse_qsl, unquote, urlsplit

import requests

from reportclient.testing import fake_allocations, fake_aspects, fake_names, fake_providers
from reportclient.testing.fake_routes import Answer, Request, handle
from reportclient.testing.fake_state import FakeState, Provider, Refusal
from reportclient.testing.hooks import HookedTransport, Meddling, Reply
from reportclient.testing.operator import Operator
from reportclient.testing.versions import Version, as_version, version_text

__all__ = ["FakePlacement"]

_NEWEST = (1, 39)
#: Importing them is what adds their routes.
_ROUTES = (fake_allocations, fake_aspects, fake_names, fake_providers)

#: Title, and the phrase that every text begins with.
_ERRORS = {
    400: (
        "Bad Request",
        "The server could not comply with the request since it is either malformed or "
        "otherwise incorrect.",
    ),
    404: ("Not Found", "The resource could not be found."),
    405: ("Method Not Allowed", "The method {method} is not allowed for this resource."),
    406: (
        "Not Acceptable",
        "The resource could not be generated that was acceptable to your browser (content of "
        "type {accept}.",
    ),
    409: ("Conflict", "There was a conflict when trying to complete your request."),
    415: (
        "Unsupported Media Type",
        "The request media type {content_type} is not supported by this server.",
    ),
}
_NO_TOKEN = {
    "message": "This server could not verify that you are authorized to access the document "
    "you requested. Either you supplied the wrong credentials (e.g., bad password), or your "
    "browser does not understand how to supply the credentials required.<br /><br />\n\n\n",
    "code": "401 Unauthorized",
    "title": "Unauthorized",
}


class FakePlacement(Meddling):
    """A stateful fake of the Placement service.

    Use it as a context manager, or as it is: it needs no start.

    :param max_microversion: play an older server: ``"1.19"`` or ``(1, 19)``.
    :param seed: for the generations.
    :param clock: seconds since the epoch, for ``Last-Modified``.
    :raises ValueError: there is no such microversion.
    """

    url = "http://placement.fake/placement"

    def __init__(
        self,
        *,
        max_microversion: str | Version | None = None,
        seed: int = 0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._newest = as_version(max_microversion or _NEWEST, newest=_NEWEST)
        self._seed, self._clock = seed, clock
        self._lock = threading.RLock()
        self._begin()
        super().__init__(HookedTransport(self._serve, self.url))
        self.operator = Operator(self._serve, version_text(self._newest))

    def _begin(self) -> None:
        self._random = random.Random(f"ids {self._seed}")  # noqa: S311 - no secret
        #: What it holds. To be changed by tests, under no lock.
        self.state = FakeState(self._seed, self._clock)

    def upgrade(self, max_microversion: str | Version) -> None:
        """Become a newer (or older) server; the data stays."""
        self._newest = as_version(max_microversion, newest=_NEWEST)

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
        self.close_session()

    def reset(self) -> None:
        """Forget all data, hooks and records."""
        with self._lock:
            self._begin()
        self.requests.clear()
        self.clear_hooks()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exc_info: object) -> None:
        self.stop()

    def install(self, mocker: Any, url: str | None = None) -> str:
        """Have a `requests_mock.Mocker` answer for it.

        Hooks and records are those of the fake.

        :param mocker: made with ``case_sensitive=True``.
        :param url: the endpoint that the code under test believes in.
        :returns: that endpoint.
        """
        base = (url or self.url).rstrip("/")
        transport = self.transport.at(base)

        def answer(request: Any) -> requests.Response | None:
            if not f"{request.url.partition('?')[0]}/".startswith(f"{base}/"):
                return None
            return transport.send(request)

        mocker.add_matcher(answer)
        return base

    # -- HTTP ---------------------------------------------------------------------------

    def _serve(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Reply:
        given = {key.lower(): value for key, value in headers.items()}
        parts = urlsplit(path)
        with self._lock:
            request_id = f"req-{uuid_.UUID(int=self._random.getrandbits(128), version=4)}"
            head = {"x-openstack-request-id": request_id}
            if "x-auth-token" not in given and parts.path != "/":
                return _reply(401, _NO_TOKEN, head)
            version = None
            try:
                version = self._version(given.get("openstack-api-version", ""))
                head["openstack-api-version"] = f"placement {version_text(version)}"
                if body and "content-type" not in given:
                    raise Refusal(400, "content-type header required when content-length > 0")
                request = Request(
                    method,
                    unquote(parts.path) or "/",
                    parse_qsl(parts.query, keep_blank_values=True),
                    body,
                    given.get("content-type", "").partition(";")[0].strip(),
                    version,
                    self._newest,
                )
                return _answered(handle(self.state, request), version, head)
            except Refusal as refusal:
                if refusal.allow:
                    head["allow"] = refusal.allow
                return _reply(
                    refusal.status, self._error(refusal, version, method, given, head), head
                )

    def _version(self, asked: str) -> Version:
        """The microversion that a request is served at."""
        for one in asked.split(","):
            service, _, text = one.strip().partition(" ")
            text = text.strip()
            if service.lower() == "placement" and text:
                return self._newest if text == "latest" else self._known(text)
        return (1, 0)

    def _known(self, text: str) -> Version:
        try:
            version = as_version(text)
        except ValueError as error:
            why = f"invalid version string: {text}; {error}"
            raise Refusal(400, f"Invalid microversion: {why}") from None
        if not (1, 0) <= version <= self._newest:
            raise Refusal(406, f"Invalid microversion: Unacceptable version header: {text}")
        return version

    def _error(
        self,
        refusal: Refusal,
        version: Version | None,
        method: str,
        given: Mapping[str, str],
        head: Mapping[str, str],
    ) -> Any:
        title, start = _ERRORS[refusal.status]
        start = start.format(
            method=method,
            accept=given.get("accept", "application/json"),
            content_type=given.get("content-type"),
        )
        error: dict[str, Any] = {
            "status": refusal.status,
            "title": title,
            "detail": f"{start}\n\n {refusal.detail}  ",
            "request_id": head["x-openstack-request-id"],
        }
        if version is not None and version >= (1, 23):
            error["code"] = refusal.code
        if version is None and refusal.status == 406:
            error |= {"max_version": version_text(self._newest), "min_version": "1.0"}
        return {"errors": [error]}


def _answered(answer: Answer, version: Version, head: dict[str, str]) -> Reply:
    if answer.location is not None:
        head["Location"] = answer.location
    if version >= (1, 15):
        if answer.modified is not None:
            head["Last-Modified"] = email.utils.formatdate(answer.modified, usegmt=True)
        if answer.no_cache or answer.modified is not None:
            head["Cache-Control"] = "no-cache"
    return _reply(answer.status, answer.body, head)


def _reply(status: int, body: Any, head: dict[str, str]) -> Reply:
    if body is None:
        return Reply(status, b"", head)
    return Reply(status, json_.dumps(body).encode(), {**head, "Content-Type": "application/json"})
