# SPDX-License-Identifier: Apache-2.0
"""The real Placement service, in this process, on SQLite in memory.

No socket, no file, no configuration of the process is touched. Placement
keeps module globals, so there is one at a time: starting a second one ends
the first.
"""

from __future__ import annotations

import contextlib
import http
import logging
import socketserver
import threading
import warnings
import wsgiref.simple_server
from collections.abc import Iterator, Mapping
from typing import Any, Self

from reportclient.testing.hooks import HookedTransport, Meddling, Reply
from reportclient.testing.operator import Operator
from reportclient.testing.versions import Version, as_version, version_text

__all__ = ["EmbeddedPlacement"]

#: Loggers of the service whose warnings Python would print on its own if
#: nobody set up logging.
_LOGGERS = ("placement", "oslo", "oslo_db", "oslo_policy", "oslo_middleware", "keystonemiddleware")
#: Filled when Placement starts, and not again: the service knows them by name.
_KEPT_TABLES = ("alembic_version", "resource_classes", "traits")

_lock = threading.RLock()
_current: EmbeddedPlacement | None = None


class EmbeddedPlacement(Meddling):
    """The real service. Use as a context manager, or `start` and `stop`.

    :param max_microversion: play an older server: ``"1.19"`` or ``(1, 19)``.
        Above it every request is answered 406 with the range, as that server
        would.
    :param database: an SQLAlchemy URL; SQLite in memory by default. Any other
        database must be empty: it is wiped by `reset`, not by `stop`.
    :raises ImportError: openstack-placement is not installed (by `start`).
    """

    url = "http://placement.embedded/placement"

    def __init__(
        self,
        *,
        max_microversion: str | Version | None = None,
        database: str = "sqlite://",
    ) -> None:
        self._newest = as_version(max_microversion) if max_microversion else None
        self._database = database
        self._app: Any = None
        self._quiet = logging.NullHandler()
        super().__init__(HookedTransport(self._serve, self.url))
        self.operator = Operator(
            self._serve, version_text(self._newest) if self._newest else "1.39"
        )

    @property
    def app(self) -> Any:
        """The service's WSGI application; ``None`` while it is not running."""
        return self._app

    # -- life -------------------------------------------------------------------

    def start(self) -> Self:
        """Start the service with an empty database.

        :raises ImportError: openstack-placement is not installed.
        :raises ValueError: it has no such microversion.
        """
        global _current
        with _lock:
            if _current is not None:
                _current.stop()
            self._app = _load(self._database, self._newest)
            _current = self
            for name in _LOGGERS:
                logging.getLogger(name).addHandler(self._quiet)
        return self

    def stop(self) -> None:
        """End the service; what SQLite held in memory is gone."""
        global _current
        with _lock:
            self.close_session()
            if self._app is not None:
                _unload()
                self._app = None
            for name in _LOGGERS:
                logging.getLogger(name).removeHandler(self._quiet)
            if _current is self:
                _current = None

    def reset(self) -> None:
        """Empty the database, forget what was recorded and all hooks.

        :raises RuntimeError: it is not running.
        """
        with _lock:
            self._running()
            _wipe()
        self.requests.clear()
        self.clear_hooks()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exc_info: object) -> None:
        self.stop()

    # -- a socket ---------------------------------------------------------------------

    @contextlib.contextmanager
    def serve(self, host: str = "127.0.0.1", port: int = 0) -> Iterator[str]:
        """Serve it on a socket while the block runs; its URL (token ``admin``).

        Requests there are neither recorded nor hooked.
        """
        server = _Server((host, port), _QuietHandler)
        server.set_app(self._wsgi)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"http://{host}:{server.server_port}"
        finally:
            server.shutdown()
            server.server_close()
            thread.join()

    # -- inside ------------------------------------------------------------------------

    def _running(self) -> Any:
        if self._app is None:
            raise RuntimeError("This Placement is not running: start it first")
        return self._app

    def _serve(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Reply:
        import webob

        request = webob.Request.blank(path, method=method, headers=dict(headers), body=body)
        # noauth2 has roles from the token; writing allocations in bulk and
        # reshaping are for services.
        request.headers.setdefault("X-Roles", "admin,service")
        # SQLite knows one writer.
        with _lock:
            response = request.get_response(self._running())
        return Reply(response.status_int, response.body, dict(response.headers))

    def _wsgi(self, environ: dict[str, Any], start_response: Any) -> list[bytes]:
        import webob

        request = webob.Request(environ)
        reply = self._serve(request.method, request.path_qs, request.headers, request.body)
        status = f"{reply.status} {http.HTTPStatus(reply.status).phrase}"
        start_response(status, list(reply.headers.items()))
        return [reply.body]


class _Server(wsgiref.simple_server.WSGIServer):
    def server_bind(self) -> None:
        """Bind, and ask no name server for the host's name."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]  # type: ignore[assignment]
        self.setup_environ()


class _QuietHandler(wsgiref.simple_server.WSGIRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Say nothing."""


# -- Placement's globals -------------------------------------------------------------


def _load(database: str, newest: Version | None) -> Any:
    """A fresh application on a fresh database."""
    try:
        with warnings.catch_warnings(), _root_logger_untouched():
            warnings.simplefilter("ignore")
            return _load_quietly(database, newest)
    except ModuleNotFoundError as error:
        raise ImportError(
            f"The embedded Placement needs {error.name}: install reportclient[embedded]"
        ) from error


@contextlib.contextmanager
def _root_logger_untouched() -> Iterator[None]:
    """oslo.log gives the root logger a handler when its options are registered."""
    root = logging.getLogger()
    before = list(root.handlers)
    try:
        yield
    finally:
        for handler in set(root.handlers) - set(before):
            root.removeHandler(handler)


def _load_quietly(database: str, newest: Version | None) -> Any:
    from oslo_config import cfg
    from oslo_policy import opts as policy_opts
    from placement import conf as placement_conf
    from placement import db_api, deploy
    from placement.db.sqlalchemy import migration

    config = cfg.ConfigOpts()
    placement_conf.register_opts(config)
    config.set_override("connection", database, group="placement_database")
    config.set_override("auth_strategy", "noauth2", group="api")
    policy_opts.set_defaults(config, enforce_new_defaults=False)
    config([], project="placement", default_config_files=[], default_config_dirs=[])
    _unload()
    if newest is not None:
        _cap(newest)
    db_api.configure(config)
    migration.create_schema(db_api.get_placement_engine())
    return deploy.loadapp(config)


def _unload() -> None:
    """Placement's globals, as they were before the first start."""
    from oslo_db.sqlalchemy import enginefacade
    from placement import db_api, microversion, policy
    from placement.objects import resource_class, trait

    db_api.configure.reset()
    db_api.placement_context_manager.patch_factory(enginefacade._TransactionFactory())
    policy.reset()
    trait._TRAITS_SYNCED = resource_class._RESOURCE_CLASSES_SYNCED = False
    microversion.VERSIONS[:] = _all_versions(microversion)


def _all_versions(microversion: Any) -> list[str]:
    """Every microversion of the service, whatever it was told to play."""
    if not hasattr(microversion, "_reportclient_all"):
        microversion._reportclient_all = tuple(microversion.VERSIONS)
    return list(microversion._reportclient_all)


def _cap(newest: Version) -> None:
    """Have the service know no microversion above one.

    Its own list of them is what it negotiates by, shows and refuses with.
    """
    from placement import microversion

    known = _all_versions(microversion)
    as_version(newest, newest=as_version(known[-1]))
    microversion.VERSIONS[:] = known[: known.index(version_text(newest)) + 1]


def _wipe() -> None:
    """Delete everything but what the service knows by itself."""
    from placement import db_api
    from placement.db.sqlalchemy import models

    tables = models.BASE.metadata.sorted_tables
    with warnings.catch_warnings():
        # The table of providers refers to itself: any order of it will do.
        warnings.simplefilter("ignore")
        ordered = list(reversed(tables))
    with db_api.get_placement_engine().begin() as connection:
        providers = models.ResourceProvider.__table__
        links = dict.fromkeys(("root_provider_id", "parent_provider_id"))
        connection.execute(providers.update().values(links))
        for table in ordered:
            if table.name not in _KEPT_TABLES:
                connection.execute(table.delete())
        for model in (models.Trait, models.ResourceClass):
            custom = model.name.startswith("CUSTOM_", autoescape=True)
            connection.execute(model.__table__.delete().where(custom))
