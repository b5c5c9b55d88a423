# SPDX-License-Identifier: Apache-2.0
"""Which microversions the server has, as far as its answers have shown.

Versions are pairs of integers: 1.10 is newer than 1.9.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from reportclient import exceptions, text

__all__ = [
    "Microversion",
    "Offer",
    "OfferedRange",
    "format_microversion",
    "not_supported",
    "parse_offer",
]

LOG = text.logger(__name__)

Microversion = tuple[int, int]

#: What a server offers: its lowest and its highest.
Offer = tuple[Microversion, Microversion]

#: Seconds until the range is found out again by sending at the one wanted:
#: Placement may have been upgraded.
_VALID = 3600.0


def format_microversion(version: Microversion) -> str:
    """``(1, 39)`` as ``"1.39"``."""
    return f"{version[0]}.{version[1]}"


def parse_offer(error: Any) -> Offer | None:
    """The range that the first error of a 406 names, if it names one."""
    try:
        return _parsed(error["min_version"]), _parsed(error["max_version"])
    except (KeyError, ValueError, TypeError, AttributeError):
        return None


def _parsed(text: str) -> Microversion:
    major, _, minor = text.partition(".")
    return int(major), int(minor)


class OfferedRange:
    """What one server offers, learned from its refusals. Thread-safe.

    Nothing is known at first, and then everything is thought to be there: the
    request itself finds out.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._offer: Offer | None = None
        self._until = 0.0

    def renew_lock(self) -> None:
        """Take a new lock: after a fork, another thread may have held it."""
        self._lock = threading.Lock()

    def offers(self, version: Microversion) -> bool:
        """Whether the server has a microversion, as far as is known."""
        offer = self._offer
        return offer is None or offer[1] >= version

    def choose(
        self, method: str, path: str, want: Microversion, need: Microversion
    ) -> Microversion:
        """The microversion to send a request at.

        :raises MicroversionNotSupported: it is known that none will do.
        """
        with self._lock:
            offer = self._offer if self._clock() < self._until else None
        if offer is None:
            return want
        if offer[1] < need or want < offer[0]:
            raise not_supported(method, path, need, offer)
        return min(want, offer[1])

    def learn(self, offer: Offer) -> None:
        """Note what a 406 said."""
        with self._lock:
            known, self._offer = self._offer, offer
            self._until = self._clock() + _VALID
        if known != offer:
            LOG.debug("Placement offers microversions %s to %s.", *map(format_microversion, offer))

    def prove(self, version: Microversion) -> None:
        """Note that a request was served: the server may have been upgraded."""
        offer = self._offer
        if offer is not None and version > offer[1]:
            self.forget()

    def forget(self) -> None:
        """Find out anew with the next request."""
        with self._lock:
            self._offer = None


def not_supported(
    method: str,
    path: str,
    need: Microversion,
    offer: Offer | None,
    error: exceptions.ReportClientError | None = None,
) -> exceptions.MicroversionNotSupported:
    """The exception that says what is needed and what there is."""
    lowest, highest = map(format_microversion, offer) if offer else (None, None)
    needed = format_microversion(need)
    there = f"offers {lowest} to {highest}" if offer else "does not say what it offers"
    failure = exceptions.MicroversionNotSupported(
        f"{method} {path} needs microversion {needed} of Placement, which {there}."
        + (f" {error}" if error else ""),
        method=method,
        url=path,
        status=error.status if error else None,
        detail=error.detail if error else None,
        request_id=error.request_id if error else None,
    )
    failure.needed, failure.offered = needed, (lowest, highest)
    return failure
