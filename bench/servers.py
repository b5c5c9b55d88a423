# SPDX-License-Identifier: Apache-2.0
"""PostgreSQL and Placement as processes on loopback, for as long as they are needed.

Used by the measurements, and by the tests of races.
"""

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
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

#: Seconds until a server that does not answer is given up.
PATIENCE = 60
SERVER = Path(__file__).with_name("server.py")
#: What reporting fills; children before what they refer to.
TABLES = (
    "allocations",
    "consumers",
    "inventories",
    "resource_provider_aggregates",
    "resource_provider_traits",
    "placement_aggregates",
    "resource_providers",
)


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
    as_user: dict[str, Any] = {}
    if os.getuid() == 0:
        owner = pwd.getpwnam("postgres")
        os.chown(home, owner.pw_uid, owner.pw_gid)
        as_user = {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []}
    data = home / "data"
    quiet: dict[str, Any] = {
        "stdout": subprocess.DEVNULL,
        "stderr": subprocess.DEVNULL,
        "cwd": home,
    }
    try:
        initdb = [binaries / "initdb", "-D", data, "-A", "trust", "-U", "placement", "--no-sync"]
        subprocess.run(initdb, check=True, **quiet, **as_user)
        command = [binaries / "postgres", "-D", data, "-k", home, "-h", "", "-c", "fsync=off"]
        server = subprocess.Popen(command, **quiet, **as_user)
        try:
            ready = [binaries / "pg_isready", "-h", home, "-q"]
            _until(lambda: subprocess.run(ready, **quiet).returncode == 0, server)
            yield f"postgresql+psycopg2://placement@/postgres?host={home}"
        finally:
            server.terminate()
            server.wait(PATIENCE)
    finally:
        shutil.rmtree(home, ignore_errors=True)


@contextlib.contextmanager
def sqlite() -> Iterator[str]:
    """A file for SQLite; its SQLAlchemy URL."""
    with tempfile.TemporaryDirectory(prefix="rc-sqlite-") as home:
        yield f"sqlite:///{home}/placement.db"


@contextlib.contextmanager
def placement(
    database: str,
    *,
    processes: int = 1,
    threads: int = 4,
    latency: float = 0,
    log: Path | None = None,
) -> Iterator[str]:
    """The Placement service on loopback; its URL.

    :param processes: how many serve the port; each has so many ``threads``.
    :param latency: milliseconds that every answer is late.
    :param log: a file that gets a line for each request.
    """
    command = [sys.executable, "-P", str(SERVER), "--threads", str(threads)]
    command += ["--latency", str(latency)]
    if log is not None:
        log.touch()
        command += ["--log", str(log)]
    environment = {
        **os.environ,
        "OS_PLACEMENT_DATABASE__CONNECTION": database,
        "OS_API__AUTH_STRATEGY": "noauth2",
        "PYTHONWARNINGS": "ignore",
    }
    started: list[subprocess.Popen[bytes]] = []
    with socket.socket() as listening, tempfile.TemporaryFile() as messages:
        listening.bind(("127.0.0.1", 0))
        listening.listen(128)
        try:
            for number in range(processes):
                # The first one makes the tables, alone.
                environment["OS_PLACEMENT_DATABASE__SYNC_ON_STARTUP"] = str(not number).lower()
                reading, writing = os.pipe()
                started.append(
                    subprocess.Popen(
                        [*command, str(listening.fileno()), str(writing)],
                        env=environment,
                        stdout=messages,
                        stderr=messages,
                        pass_fds=[listening.fileno(), writing],
                    )
                )
                os.close(writing)
                with open(reading, "rb") as ready:
                    if not ready.read():
                        messages.seek(0)
                        said = messages.read().decode(errors="replace")
                        raise RuntimeError(f"Placement did not start: {said}")
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            for server in started:
                server.terminate()
            for server in started:
                server.wait(PATIENCE)


def wipe(database: str) -> None:
    """Empty a Placement's database of all that was reported, custom names too."""
    import sqlalchemy

    engine = sqlalchemy.create_engine(database)
    with engine.begin() as connection:
        for table in TABLES:
            connection.execute(sqlalchemy.text(f"DELETE FROM {table}"))
        for table in ("traits", "resource_classes"):
            connection.execute(
                sqlalchemy.text(f"DELETE FROM {table} WHERE name LIKE 'CUSTOM\\_%' ESCAPE '\\'")
            )
    if engine.dialect.name == "postgresql":
        # Else what the lives before left behind slows those that follow.
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(sqlalchemy.text("VACUUM ANALYZE"))
    engine.dispose()


def _until(condition: Callable[[], bool], server: subprocess.Popen[bytes]) -> None:
    """Wait for a server to be ready."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert server.poll() is None, f"the server ended with {server.returncode}"
        assert time.monotonic() < deadline, "the server is not ready"
        time.sleep(0.05)
