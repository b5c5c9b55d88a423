# SPDX-License-Identifier: Apache-2.0
"""The real Placement service, in this process, on SQLite in memory.

No socket, no file, no configuration of the process is touched. Placement
keeps module globals, so there is one at a time: starting a second one ends
the first.
"""

from __future__ import annotations

import contextlib
import json as json_
import threading
import warnings
import wsgiref.simple_server
from collections.abc import Iterator, Mapping
from typing import Any, Self

import requests
from keystoneauth1 import adapter as ksa_adapter
from keystoneauth1 import session as ksa_session
from keystoneauth1 import token_endpoint

from reportclient.testing.hooks import HookedTransport, Meddling, Reply
from reportclient.testing.operator import Operator

__all__ = ["EmbeddedPlacement"]

_URL = "http://placement.embedded/placement"
_lock = threading.RLock()
_current: EmbeddedPlacement | None = None


class EmbeddedPlacement(Meddling):
    """The real service. Use as a context manager, or `start` and `stop`.

    :param max_microversion: play an older server: ``"1.19"``. Above it every
        request is answered 406 with the range, as that server would.
    :param database: an SQLAlchemy URL; SQLite in memory by default.
    :raises ImportError: openstack-placement is not installed.
    """

    url = _URL

    def __init__(
        self, *, max_microversion: str | None = None, database: str = "sqlite://"
    ) -> None:
        self._max = max_microversion
        self._database = database
        self._app: Any = None
        self._transport = HookedTransport(self._serve, self.url)
        self.operator = Operator(self._serve, max_microversion or "1.39")
        self._session: ksa_session.Session | None = None

    # -- life -------------------------------------------------------------------

    def start(self) -> Self:
        """Start the service with an empty database."""
        global _current
        with _lock:
            if _current is not None:
                _current.stop()
            self._app = _load(self._database, self._max)
            _current = self
        return self

    def stop(self) -> None:
        """End the service; its data is gone."""
        global _current
        with _lock:
            if self._session is not None:
                self._session.session.close()
                self._session = None
            self._app = None
            if _current is self:
                _current = None

    def reset(self) -> None:
        """Empty the database, forget what was recorded and all hooks."""
        with _lock:
            self._app = _load(self._database, self._max)
        self.requests.clear()
        self.clear_hooks()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exc_info: object) -> None:
        self.stop()

    # -- ways in --------------------------------------------------------------------

    def session(self) -> ksa_session.Session:
        """A keystoneauth1 session whose requests reach the service."""
        if self._session is None:
            http = requests.Session()
            http.mount("http://", self._transport)
            self._session = ksa_session.Session(
                auth=token_endpoint.Token(self.url, "admin"), session=http
            )
        return self._session

    def adapter(self, **settings: Any) -> ksa_adapter.Adapter:
        """A keystoneauth1 adapter for a `ReportClient`."""
        return ksa_adapter.Adapter(self.session(), **{"service_type": "placement", **settings})

    @contextlib.contextmanager
    def serve(self, host: str = "127.0.0.1", port: int = 0) -> Iterator[str]:
        """Serve it on a socket while the block runs; its URL (token ``admin``)."""
        server = wsgiref.simple_server.make_server(
            host, port, self._wsgi, handler_class=_QuietHandler
        )
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"http://{host}:{server.server_port}"
        finally:
            server.shutdown()
            server.server_close()
            thread.join()

    # -- inside ------------------------------------------------------------------------

    def _serve(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Reply:
        import webob

        request = webob.Request.blank(path, method=method, headers=dict(headers), body=body)
        # noauth2 has roles from the token; writing allocations in bulk and
        # reshaping are for services.
        request.headers.setdefault("X-Roles", "admin,service")
        # SQLite knows one writer.
        with _lock:
            if self._app is None:
                raise RuntimeError("This Placement is not running: start it first")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                response = request.get_response(self._app)
        return Reply(response.status_int, response.body, dict(response.headers))

    def _wsgi(self, environ: dict[str, Any], start_response: Any) -> list[bytes]:
        import webob

        request = webob.Request(environ)
        reply = self._serve(request.method, request.path_qs, request.headers, request.body)
        start_response(f"{reply.status} x", list(reply.headers.items()))
        return [reply.body]


class _QuietHandler(wsgiref.simple_server.WSGIRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def _load(database: str, max_microversion: str | None) -> Any:
    """A fresh application on a fresh database."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _load_quietly(database, max_microversion)
    except ModuleNotFoundError as error:
        raise ImportError(
            f"The embedded Placement needs {error.name}: install reportclient[embedded]"
        ) from error


def _load_quietly(database: str, max_microversion: str | None) -> Any:
    from oslo_config import cfg
    from oslo_db.sqlalchemy import enginefacade
    from oslo_policy import opts as policy_opts
    from placement import conf as placement_conf
    from placement import db_api, deploy, policy
    from placement.db.sqlalchemy import migration
    from placement.objects import resource_class, trait

    config = cfg.ConfigOpts()
    placement_conf.register_opts(config)
    config.set_override("connection", database, group="placement_database")
    config.set_override("auth_strategy", "noauth2", group="api")
    policy_opts.set_defaults(config, enforce_new_defaults=False)
    config([], project="placement", default_config_files=[], default_config_dirs=[])
    # Placement's globals, as they were before the first start.
    db_api.configure.reset()
    db_api.placement_context_manager.patch_factory(enginefacade._TransactionFactory())
    policy.reset()
    trait._TRAITS_SYNCED = resource_class._RESOURCE_CLASSES_SYNCED = False
    db_api.configure(config)
    migration.create_schema(db_api.get_placement_engine())
    app = deploy.loadapp(config)
    return app if max_microversion is None else _Older(app, max_microversion)


class _Older:
    """An application that knows no microversion above one."""

    def __init__(self, app: Any, max_microversion: str) -> None:
        self._app = app
        self._max = max_microversion

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        import webob

        asked = environ.get("HTTP_OPENSTACK_API_VERSION", "").removeprefix("placement ")
        if asked == "latest":
            environ["HTTP_OPENSTACK_API_VERSION"] = f"placement {self._max}"
        elif "." in asked and _tuple(asked) > _tuple(self._max):
            return self._refuse(environ, start_response, asked)
        request = webob.Request(environ)
        response = request.get_response(self._app)
        if request.path_info in ("", "/") and response.content_type == "application/json":
            document = response.json
            for version in document.get("versions", ()):
                version["max_version"] = self._max
            response.body = json_.dumps(document).encode()
        return response(environ, start_response)

    def _refuse(self, environ: dict[str, Any], start_response: Any, asked: str) -> Any:
        import webob

        error = {
            "status": 406,
            "title": "Not Acceptable",
            "detail": f"Unacceptable version header: {asked} ",
            "max_version": self._max,
            "min_version": "1.0",
        }
        response = webob.Response(
            status=406,
            json_body={"errors": [error]},
            headers={"x-openstack-request-id": "req-00000000-0000-0000-0000-000000000406"},
        )
        response.content_type = "application/json"
        return response(environ, start_response)


def _tuple(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
