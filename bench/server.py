# SPDX-License-Identifier: Apache-2.0
"""One process of a Placement service: late if asked to be, and counted.

Started by `bench.servers`. Listens on a socket that it is handed, so that
several processes serve one port.
"""

from __future__ import annotations

import argparse
import os
import socket
import time
from collections.abc import Callable, Iterable
from typing import Any

import waitress

#: Requests with this header belong to no side: on time, and not counted.
ASIDE = "HTTP_X_BENCH_ASIDE"


class Late:
    """Waits before each request is passed on, and writes it down.

    :param seconds: how long.
    :param log: a file for one line a request, shared by all processes.
    """

    def __init__(self, application: Callable[..., Any], seconds: float, log: str | None) -> None:
        self._application = application
        self._seconds = seconds
        self._log = None if log is None else os.open(log, os.O_WRONLY | os.O_APPEND)

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if ASIDE not in environ:
            if self._log is not None:
                # One short write to a file opened for appending is atomic.
                line = f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}\n"
                os.write(self._log, line.encode())
            if self._seconds:
                time.sleep(self._seconds)
        answer: Iterable[bytes] = self._application(environ, start_response)
        return answer


def main() -> None:
    """Serve until terminated."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("socket", type=int)
    parser.add_argument("ready", type=int, help="a pipe: written to, and closed, when ready")
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--latency", type=float, default=0.0, help="milliseconds")
    parser.add_argument("--log")
    options = parser.parse_args()
    # Importing it makes the application, from the environment.
    from placement.wsgi.api import application

    listening = socket.socket(fileno=options.socket)
    os.write(options.ready, b"ready")
    os.close(options.ready)
    waitress.serve(
        Late(application, options.latency / 1000, options.log),
        sockets=[listening],
        threads=options.threads,
    )


if __name__ == "__main__":
    main()
