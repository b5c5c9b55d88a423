# SPDX-License-Identifier: Apache-2.0
"""One lock for each tree that is being written or read."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator

from oslo_concurrency import lockutils

__all__ = ["TreeLocks"]


class TreeLocks:
    """Locks by name. A lock that nobody holds or waits for takes no memory."""

    def __init__(self) -> None:
        self._renew()

    def _renew(self) -> None:
        self._pid = os.getpid()
        self._locks = lockutils.Semaphores()

    @contextlib.contextmanager
    def held(self, names: Iterable[str]) -> Iterator[None]:
        """Hold the locks of several trees; in one order, so nobody deadlocks."""
        if self._pid != os.getpid():
            # A thread of the parent may have held one when it forked; that
            # thread is not here to let go of it.
            self._renew()
        with contextlib.ExitStack() as stack:
            for name in sorted(set(names)):
                stack.enter_context(lockutils.internal_lock(name, self._locks))
            yield
