# SPDX-License-Identifier: Apache-2.0
"""Real connections on this machine: refused, reset, silent, cut, kept, forked."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
import threading
import warnings

import pytest

from reportclient import exceptions

ANY = {"want": (1, 39), "need": (1, 0)}
METHODS = ["GET", "PUT"]


class Server:
    """Accepts connections and gives each request on them to a function.

    :param reads: False: to the function is left what the client says as well.
    """

    def __init__(self, behave, *, reads=True):
        self.behave = behave
        self.read = read_request if reads else lambda connection: connection.recv(65536)
        self.stopping = threading.Event()
        self.connections = 0
        self.requests = 0
        self._open = []
        self._threads = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self):
        self._start(self._accept)
        return self

    def __exit__(self, *_):
        self.stopping.set()
        # A thread that waits for a connection is woken by one.
        with contextlib.suppress(OSError):
            socket.create_connection(self._listener.getsockname()).close()
        for thread in self._threads[:1]:
            thread.join()
        for connection in self._open:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads[1:]:
            thread.join()
        self._listener.close()

    def _start(self, function, *arguments):
        self._threads.append(threading.Thread(target=function, args=arguments))
        self._threads[-1].start()

    def _accept(self):
        while True:
            connection, _ = self._listener.accept()
            if self.stopping.is_set():
                connection.close()
                return
            self.connections += 1
            self._open.append(connection)
            self._start(self._talk, connection)

    def _talk(self, connection):
        with connection, contextlib.suppress(OSError):
            while self.read(connection):
                self.requests += 1
                if self.behave(self, connection) is False:
                    return


def read_request(connection):
    """Take one request off a connection; False if there is none."""
    data = b""
    while b"\r\n\r\n" not in data:
        more = connection.recv(65536)
        if not more:
            return False
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    lengths = [
        int(line.split(b":")[1])
        for line in head.split(b"\r\n")
        if line.lower().startswith(b"content-length:")
    ]
    while lengths and len(body) < lengths[0]:
        body += connection.recv(65536)
    return True


def answer(body, *headers):
    lines = ["HTTP/1.1 200 OK", "Content-Type: application/json", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def well(_, connection):
    connection.sendall(answer(b'{"ok": 1}', "Content-Length: 9"))


def reset(_, connection):
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return False


def hang_up(_, connection):
    return False


def silent(server, connection):
    server.stopping.wait(30)
    return False


def cut(_, connection):
    connection.sendall(answer(b'{"ok"', "Content-Length: 9"))
    return False


def cut_chunk(_, connection):
    connection.sendall(answer(b'9\r\n{"ok"', "Transfer-Encoding: chunked"))
    return False


def stall(server, connection):
    connection.sendall(answer(b'{"ok"', "Content-Length: 9"))
    return silent(server, connection)


def not_gzip(_, connection):
    connection.sendall(answer(b'{"ok": 1}', "Content-Length: 9", "Content-Encoding: gzip"))


def not_http(_, connection):
    connection.sendall(b"SSH-2.0-OpenSSH_9.9\r\n\r\n")
    return False


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("behave", "kind"),
    [
        (reset, exceptions.ConnectFailed),
        (hang_up, exceptions.ConnectFailed),
        (silent, exceptions.PlacementTimeout),
        (stall, exceptions.PlacementTimeout),
        (cut, exceptions.ConnectFailed),
        (cut_chunk, exceptions.ConnectFailed),
        (not_gzip, exceptions.BadAnswer),
        (not_http, exceptions.ConnectFailed),
    ],
)
def test_b103_what_breaks_when_the_request_is_there(make_transport, method, behave, kind):
    with Server(behave) as server:
        transport = make_transport(server.url, timeout=0.2, resend_attempts=0)
        with pytest.raises(kind) as caught:
            transport.request(method, "/x", json={}, **ANY)
        transport.close()
        assert server.requests == 1
    assert caught.value.outcome_unknown == (method == "PUT")
    assert isinstance(caught.value, exceptions.PlacementUnavailable)
    assert caught.value.retryable
    assert caught.value.__cause__ is not None


@pytest.mark.parametrize("method", METHODS)
def test_b103_refused(make_transport, method):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    transport = make_transport(f"http://127.0.0.1:{port}", resend_attempts=0)
    with pytest.raises(exceptions.ConnectFailed) as caught:
        transport.request(method, "/x", json={}, **ANY)
    assert not caught.value.outcome_unknown


@pytest.mark.parametrize("method", METHODS)
def test_b103_tls_where_there_is_none(make_transport, method):
    def plain(_, connection):
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        return False

    with Server(plain, reads=False) as server:
        transport = make_transport(
            server.url.replace("http", "https"), timeout=2, resend_attempts=0
        )
        with pytest.raises(exceptions.TLSFailed) as caught:
            transport.request(method, "/x", json={}, **ANY)
        transport.close()
    assert not caught.value.outcome_unknown


def test_b104_a_silent_server_costs_the_timeout_and_no_more(make_transport):
    with Server(silent) as server:
        transport = make_transport(server.url, timeout=0.05, resend_attempts=1)
        with pytest.raises(exceptions.PlacementTimeout):
            transport.request("GET", "/x", **ANY)
        transport.close()
        assert server.requests == 2


def test_a_connection_that_the_server_gave_up_is_no_failure_of_reading(make_transport):
    served = []

    def once(server, connection):
        well(server, connection)
        served.append(1)
        return len(served) > 1

    with Server(once) as server:
        transport = make_transport(server.url)
        for _ in range(2):
            assert transport.request("GET", "/x", **ANY).body == {"ok": 1}
        transport.close()


def test_b131_connections_are_kept(make_transport):
    with Server(well) as server:
        transport = make_transport(server.url)
        for number in range(50):
            transport.request("GET", f"/{number}", **ANY)
        assert (server.requests, server.connections) == (50, 1)
        transport.close()


def test_b131_as_many_connections_are_kept_as_there_are_workers(make_transport):
    workers = 24
    barrier = threading.Barrier(workers, timeout=20)

    def together(server, connection):
        barrier.wait()
        well(server, connection)

    with Server(together) as server:
        transport = make_transport(server.url, max_workers=workers)
        for _ in range(3):
            threads = [
                threading.Thread(target=transport.request, args=("GET", "/x"), kwargs=ANY)
                for _ in range(workers)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        transport.close()
        assert (server.requests, server.connections) == (3 * workers, workers)


def test_after_close_there_are_new_connections(make_transport):
    with Server(well) as server:
        transport = make_transport(server.url)
        for _ in range(2):
            transport.request("GET", "/x", **ANY)
            transport.close()
        assert server.connections == 2


def test_p12_a_forked_child_has_connections_of_its_own(make_transport):
    with Server(well) as server:
        transport = make_transport(server.url)
        transport.request("GET", "/x", **ANY)
        receiving, sending = os.pipe()
        with warnings.catch_warnings():
            # The server's threads do not come along, and need not.
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            said = b"null"
            try:
                transport.renew_lock()
                body = transport.request("GET", "/x", **ANY).body
                said = json.dumps(body).encode()
            finally:
                os.write(sending, said)
                os._exit(0)
        os.close(sending)
        with os.fdopen(receiving, "rb") as pipe:
            assert json.loads(pipe.read()) == {"ok": 1}
        os.waitpid(child, 0)
        assert server.connections == 2
        # The parent's is as good as before.
        assert transport.request("GET", "/x", **ANY).body == {"ok": 1}
        assert server.connections == 2
        transport.close()
