# SPDX-License-Identifier: Apache-2.0
"""Warnings that do not repeat themselves, and one word on recovery."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

__all__ = ["Notices"]


class Notices:
    """Says a warning once, then at most once an interval, with a count.

    :param logger: where to say it.
    :param clock: seconds, monotonic.
    :param interval: seconds between two warnings of the same key.
    """

    def __init__(
        self,
        logger: logging.LoggerAdapter[logging.Logger],
        clock: Callable[[], float],
        interval: float = 3600.0,
    ) -> None:
        self._logger = logger
        self._clock = clock
        self._interval = interval
        self._lock = threading.Lock()
        self._said: dict[str, tuple[float, int]] = {}

    def warn(self, key: str, message: str) -> None:
        """Say a warning, unless the same key was warned of lately."""
        now = self._clock()
        with self._lock:
            last, silent = self._said.get(key, (None, 0))
            if last is not None and now - last < self._interval:
                self._said[key] = (last, silent + 1)
                return
            self._said[key] = (now, 0)
        if silent:
            self._logger.warning("%s (and %d times before)", message, silent)
        else:
            self._logger.warning("%s", message)

    def recovered(self, key: str, message: str) -> None:
        """Say that what was warned of is over; nothing if it never was."""
        with self._lock:
            if self._said.pop(key, None) is None:
                return
        self._logger.info("%s", message)

    def keys(self) -> list[str]:
        """What has been warned of and is not over."""
        with self._lock:
            return list(self._said)

    def renew_lock(self) -> None:
        """Take a new lock: after a fork, another thread may have held it."""
        self._lock = threading.Lock()
