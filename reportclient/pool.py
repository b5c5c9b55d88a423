# SPDX-License-Identifier: Apache-2.0
"""The pooled connections under a keystoneauth1 session: enough, unshared, not for ever.

requests keeps ten connections and throws away what comes back beyond that.
keystoneauth1 waits for ever for an identity service that says nothing, unless
its session has a timeout. Both are looked at when the first request is sent,
not before.
"""

from __future__ import annotations

import os
import threading
from typing import Any

from keystoneauth1 import adapter as ksa_adapter
from keystoneauth1 import session as ksa_session
from requests import adapters

__all__ = ["ConnectionPool"]


class ConnectionPool:
    """The connections of an adapter's session.

    A requests transport that the caller has mounted with settings of its own
    is left as it is.

    :param size: how many connections may be needed at once.
    :param timeout: seconds, for a session that has no timeout of its own.
    """

    def __init__(self, adapter: Any, size: int, timeout: float) -> None:
        self._adapter = adapter
        self._size = size
        self._timeout = timeout
        self._lock = threading.Lock()
        self._ready = False
        self._pid = os.getpid()

    def renew_lock(self) -> None:
        """Take a new lock: after a fork, another thread may have held it."""
        self._lock = threading.Lock()

    def prepare(self) -> None:
        """Make the pools large enough; drop connections that a fork shares."""
        if self._ready and self._pid == os.getpid():
            return
        with self._lock:
            http = self._http()
            if self._pid != os.getpid():
                # Two processes that read from one socket get each other's
                # answers. Closing it here leaves the parent's end open.
                for mounted in http.adapters.values():
                    mounted.close()
                self._pid = os.getpid()
            if not self._ready:
                for scheme in ("http://", "https://"):
                    self._enlarge(http, scheme)
                self._bound()
                self._ready = True

    def close(self) -> None:
        """Close the connections. Later requests open new ones."""
        if self._ready:
            self._http().close()

    def _http(self) -> Any:
        """The `requests.Session`; adapters may be built on adapters."""
        session = self._adapter.session
        while not hasattr(session, "mount"):
            session = session.session
        return session

    def _bound(self) -> None:
        """Give the session a timeout: for tokens, the catalog and discovery."""
        session = self._adapter.session
        while isinstance(session, ksa_adapter.Adapter):
            session = session.session
        if isinstance(session, ksa_session.Session) and session.timeout is None:
            session.timeout = self._timeout

    def _enlarge(self, http: Any, scheme: str) -> None:
        mounted = http.adapters.get(scheme)
        if not _as_shipped(mounted):
            return
        if type(mounted) is adapters.HTTPAdapter:
            # Dead peers are noticed by those that send keep-alive probes.
            http.mount(
                scheme,
                ksa_session.TCPKeepAliveAdapter(pool_connections=4, pool_maxsize=self._size),
            )
        elif _maxsize(mounted) < self._size:
            # In place: TLS settings of the session are on this object.
            mounted.init_poolmanager(4, self._size)


def _as_shipped(mounted: Any) -> bool:
    """Whether a transport is what requests or keystoneauth1 put there."""
    return (
        type(mounted) in (adapters.HTTPAdapter, ksa_session.TCPKeepAliveAdapter)
        and not mounted.max_retries.total
        and _maxsize(mounted) == adapters.DEFAULT_POOLSIZE
    )


def _maxsize(mounted: Any) -> int:
    return int(mounted.__getstate__()["_pool_maxsize"])
