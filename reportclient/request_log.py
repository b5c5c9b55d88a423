# SPDX-License-Identifier: Apache-2.0
"""What one call sent, for its result and for those who count requests."""

from __future__ import annotations

import collections
import re
import threading
from typing import NamedTuple

__all__ = ["RequestLog", "RequestRecord", "route_of"]

_VARIABLE = re.compile(
    r"^/(resource_providers|allocations)/[^/]+|^/(traits|resource_classes)/[^/]+"
    r"|(?<=/inventories)/[^/]+"
)


def route_of(path: str) -> str:
    """A path with its variable parts named: ``/resource_providers/{uuid}/traits``."""

    def named(match: re.Match[str]) -> str:
        if match[1]:
            return f"/{match[1]}/{{uuid}}"
        return f"/{match[2]}/{{name}}" if match[2] else "/{resource_class}"

    return _VARIABLE.sub(named, path.partition("?")[0])


class RequestRecord(NamedTuple):
    """One request and what came of it.

    :ivar status: HTTP status; ``None`` if there was no answer.
    :ivar seconds: until the answer, by the client's clock.
    """

    method: str
    route: str
    status: int | None
    request_id: str | None
    microversion: tuple[int, int]
    seconds: float


class RequestLog:
    """The requests of one call, in the order of their answers. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: list[RequestRecord] = []
        self._newest = threading.local()

    def add(self, record: RequestRecord) -> None:
        """Note a request."""
        self._newest.request_id = record.request_id
        with self._lock:
            self._entries.append(record)

    @property
    def newest_id(self) -> str | None:
        """Placement's id for the last request of the calling thread."""
        found: str | None = getattr(self._newest, "request_id", None)
        return found

    @property
    def entries(self) -> tuple[RequestRecord, ...]:
        """All requests so far."""
        with self._lock:
            return tuple(self._entries)

    def by_kind(self) -> dict[str, int]:
        """How many there were of each kind: ``"PUT /traits/{name}": 2``."""
        return dict(collections.Counter(f"{entry.method} {entry.route}" for entry in self.entries))

    def request_ids(self) -> tuple[str, ...]:
        """Placement's request ids."""
        return tuple(entry.request_id for entry in self.entries if entry.request_id)
