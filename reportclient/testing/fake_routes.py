# SPDX-License-Identifier: Apache-2.0
"""Which function of the fake Placement answers what, from which microversion on."""

from __future__ import annotations

import dataclasses
import json as json_
import re
from collections.abc import Callable
from typing import Any

from reportclient.testing.fake_state import FakeState, Refusal

__all__ = ["Answer", "Request", "handle", "route"]

_Version = tuple[int, int]
_NEWEST = (1, 9999)


@dataclasses.dataclass
class Request:
    """A request as the routes see it.

    :ivar newest: the newest microversion that the fake plays.
    """

    method: str
    path: str
    query: list[tuple[str, str]]
    content: bytes
    content_type: str
    version: _Version
    newest: _Version

    def at_least(self, *version: int) -> bool:
        """Whether it was sent at this microversion or a newer one."""
        return self.version >= tuple(version)

    def last(self, key: str) -> str | None:
        """The value of a query parameter; of several, the last."""
        return dict(self.query).get(key)

    def json(self) -> Any:
        """The body."""
        try:
            return json_.loads(self.content)
        except ValueError as error:
            raise Refusal(400, f"Malformed JSON: {error}") from None


@dataclasses.dataclass
class Answer:
    """An answer of a route.

    :ivar modified: seconds since the epoch, for ``Last-Modified``; ``None``:
        the answer has none. It is sent from 1.15 on.
    :ivar no_cache: send ``Cache-Control: no-cache`` from 1.15 on even if
        there is no ``modified``.
    """

    status: int
    body: Any = None
    location: str | None = None
    modified: float | None = None
    no_cache: bool = False


_Handler = Callable[..., Answer]


@dataclasses.dataclass
class _Route:
    method: str
    pattern: re.Pattern[str]
    since: _Version
    until: _Version
    handler: _Handler
    has_content: bool
    too_old: int


_routes: list[_Route] = []


def route(
    method: str,
    path: str,
    since: _Version = (1, 0),
    until: _Version = _NEWEST,
    *,
    has_content: bool | None = None,
    too_old: int = 404,
) -> Callable[[_Handler], _Handler]:
    """Have a function answer a method and path in a range of microversions.

    :param has_content: whether a JSON body is needed; PUT and POST need one.
    :param too_old: the status at microversions before ``since``.
    """
    pattern = re.compile(re.sub(r"{(\w+)}", r"(?P<\1>[^/]+)", path))
    if has_content is None:
        has_content = method in ("PUT", "POST")

    def add(handler: _Handler) -> _Handler:
        _routes.append(_Route(method, pattern, since, until, handler, has_content, too_old))
        return handler

    return add


def handle(state: FakeState, request: Request) -> Answer:
    """Answer a request.

    :raises Refusal: the answer is an error.
    """
    found = [each for each in _routes if each.pattern.fullmatch(request.path)]
    if not found:
        raise Refusal(404)
    here = [each for each in found if each.method == request.method]
    if not here:
        raise Refusal(
            405,
            "The method specified is not allowed for this resource.",
            allow=", ".join(dict.fromkeys(each.method for each in found)),
        )
    for each in here:
        if each.since <= request.version <= each.until:
            if each.has_content and request.content_type != "application/json":
                raise Refusal(
                    415,
                    f"The media type {request.content_type or None} is not supported, "
                    "use application/json",
                )
            matched = each.pattern.fullmatch(request.path)
            return each.handler(state, request, **(matched.groupdict() if matched else {}))
    raise Refusal(here[0].too_old)
