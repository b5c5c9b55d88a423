# SPDX-License-Identifier: Apache-2.0
"""PostgreSQL and a Placement with several threads, for as long as a test runs."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

#: Seconds until a server that does not answer is given up.
PATIENCE = 60


def postgres_bin() -> Path | None:
    """Where PostgreSQL's server programs are, if they are."""
    found = shutil.which("initdb")
    candidates = [Path(found).resolve().parent] if found else []
    candidates += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((path for path in candidates if (path / "postgres").exists()), None)


@contextlib.contextmanager
def postgresql() -> Iterator[str]:
    """A PostgreSQL of its own on a Unix socket; its SQLAlchemy URL."""
    binaries = postgres_bin()
    assert binaries is not None
    # A socket's path must be short.
    home = Path(tempfile.mkdtemp(prefix="rc-pg-", dir="/tmp"))
    # PostgreSQL refuses to run as root.
    as_user = {}
    if os.getuid() == 0:
        owner = pwd.getpwnam("postgres")
        os.chown(home, owner.pw_uid, owner.pw_gid)
        as_user = {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []}
    data = home / "data"
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": home}
    try:
        initdb = [binaries / "initdb", "-D", data, "-A", "trust", "-U", "placement", "--no-sync"]
        subprocess.run(initdb, check=True, **quiet, **as_user)
        command = [binaries / "postgres", "-D", data, "-k", home, "-h", "", "-c", "fsync=off"]
        server = subprocess.Popen(command, **quiet, **as_user)
        try:
            ready = [binaries / "pg_isready", "-h", home, "-q"]
            until(lambda: subprocess.run(ready, **quiet).returncode == 0, server)
            yield f"postgresql+psycopg2://placement@/postgres?host={home}"
        finally:
            server.terminate()
            server.wait(PATIENCE)
    finally:
        shutil.rmtree(home, ignore_errors=True)


@contextlib.contextmanager
def placement(database: str, threads: int = 4) -> Iterator[str]:
    """The Placement service on loopback, with several threads; its URL."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {
        **os.environ,
        "OS_PLACEMENT_DATABASE__CONNECTION": database,
        "OS_PLACEMENT_DATABASE__SYNC_ON_STARTUP": "true",
        "OS_API__AUTH_STRATEGY": "noauth2",
        "PYTHONWARNINGS": "ignore",
    }
    program = (
        "import waitress; from placement.wsgi.api import application;"
        f"waitress.serve(application, listen='127.0.0.1:{port}', threads={threads})"
    )
    with tempfile.TemporaryFile() as log:
        server = subprocess.Popen(
            [sys.executable, "-c", program], env=environment, stdout=log, stderr=log
        )
        try:
            until(lambda: answers(f"http://127.0.0.1:{port}/"), server)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()
            server.wait(PATIENCE)


def answers(url: str) -> bool:
    """Whether somebody answers there."""
    try:
        with urllib.request.urlopen(url, timeout=5) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def until(condition, server: subprocess.Popen) -> None:
    """Wait for a server to be ready."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert server.poll() is None, f"{server.args[0]} ended with {server.returncode}"
        assert time.monotonic() < deadline, f"{server.args[0]} is not ready"
        time.sleep(0.05)
