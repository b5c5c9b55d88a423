# SPDX-License-Identifier: Apache-2.0
"""The report clients that are measured, each driven as an agent drives it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

CONTEXT = SimpleNamespace(global_id="req-" + str(uuid.uuid4()))
WORKERS = 8

#: Makes an adapter; keywords as `keystoneauth1.adapter.Adapter` takes them.
MakeAdapter = Callable[..., Any]
Edit = Callable[[Any], None]


def http_adapter(url: str, **settings: Any) -> Any:
    """An adapter to a Placement on loopback, with a session of its own."""
    from keystoneauth1 import adapter, session, token_endpoint

    auth = token_endpoint.Token(url, "admin")
    return adapter.Adapter(session.Session(auth=auth), service_type="placement", **settings)


class Clock:
    """Time as the scenario says it is."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


class EditingDriver:
    """A driver that is one function."""

    def __init__(self, edit: Callable[[Any, str], None]) -> None:
        self.edit = edit

    def update_provider_tree(self, provider_tree: Any, nodename: str, *_: Any, **__: Any) -> None:
        """Edit the tree."""
        self.edit(provider_tree, nodename)


class Ours:
    """`ReportClient`, as an agent uses it.

    :param workers: 1 where only one request can be answered at a time.
    """

    def __init__(
        self, adapter: MakeAdapter, *, workers: int = WORKERS, cache_file: Path | None = None
    ) -> None:
        import reportclient

        self.clock = Clock()
        self.client = reportclient.ReportClient(
            adapter(), clock=self.clock, max_workers=workers, cache_file=cache_file
        )

    def due(self) -> None:
        """Let the refresh be due."""
        self.clock.now += 301

    def one_pass(self, root: str, name: str, edit: Edit) -> None:
        """Read, edit, flush."""
        self.client.report(CONTEXT, root, name, EditingDriver(lambda tree, _: edit(tree)))

    def all_passes(
        self, nodes: Iterable[tuple[str, str]], edit: Callable[[Any, str], None]
    ) -> None:
        """A pass of every node."""
        results = self.client.report_many(CONTEXT, nodes, EditingDriver(edit))
        for result in results.values():
            if result.error is not None:
                raise result.error

    def close(self) -> None:
        """End it as an agent does that stops."""
        self.client.close()


class Nova:
    """nova 34's report client, driven as its resource tracker drives it."""

    getter = "get_provider_subtree_and_ensure_root"

    def __init__(self, adapter: MakeAdapter, **_: Any) -> None:
        from nova import conf, context, exception
        from nova.scheduler.client import report

        conf.CONF([], project="nova", default_config_files=[])
        self.conflict = exception.ResourceProviderUpdateConflict
        self.context = context.get_admin_context()
        # As nova makes its adapter: answers are looked at, not raised.
        self.client = report.SchedulerReportClient(
            adapter=adapter(raise_exc=False, additional_headers={"accept": "application/json"})
        )

    def due(self) -> None:
        """Let the refresh be due: forget when it was last done."""
        self.client._association_refresh_time.clear()

    def one_pass(self, root: str, name: str, edit: Edit) -> None:
        """Read, edit, flush; again on a conflict, up to four times."""
        for attempt in range(4):
            tree = getattr(self.client, self.getter)(self.context, root, name=name)
            edit(tree)
            try:
                self.client.update_from_provider_tree(self.context, tree)
            except self.conflict:
                if attempt == 3:
                    raise
                continue
            return

    def all_passes(
        self, nodes: Iterable[tuple[str, str]], edit: Callable[[Any, str], None]
    ) -> None:
        """A pass of every node, one after the other."""
        for node, name in nodes:
            self.one_pass(node, name, lambda tree, name=name: edit(tree, name))

    def close(self) -> None:
        """Nothing to do."""


class NovaWhole(Nova):
    """nova's report client in its older mode: every pass gets all that is known."""

    getter = "get_provider_tree_and_ensure_root"


SIDES: dict[str, type[Any]] = {"ours": Ours, "nova": Nova, "nova whole": NovaWhole}
