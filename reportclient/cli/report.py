# SPDX-License-Identifier: Apache-2.0
"""``report``: this machine, or the tree of a file, to a cloud."""

from __future__ import annotations

import argparse
import json
import sys
from typing import NamedTuple

from reportclient import exceptions
from reportclient.cli import connection, render
from reportclient.cli.machine import machine_name, machine_uuid
from reportclient.driver import Driver
from reportclient.plan import Plan
from reportclient.result import SyncResult

__all__ = ["command"]


#: Options of the driver that reads this machine.
_RESERVED = ("reserved_host_cpus", "reserved_host_memory_mb", "reserved_host_disk_mb")


class _Subject(NamedTuple):
    """What is reported: the root's UUID and name, and who knows the rest."""

    uuid: str
    name: str
    driver: Driver


def command(given: argparse.Namespace) -> int:
    """Report, or show the plan for it; 0 when Placement took it.

    :raises ReportClientError: it failed.
    """
    subject = _file(given) if given.file else _host(given)
    with connection.client(given) as client:
        if given.dry_run:
            plan = client.plan_report(None, subject.uuid, subject.name, subject.driver)
            _print_plan(subject, plan, as_json=given.json)
            return 0
        try:
            result = client.report(None, subject.uuid, subject.name, subject.driver)
        except exceptions.ReportClientError as error:
            # What was done before it failed is worth knowing.
            if isinstance(part := getattr(error, "result", None), SyncResult):
                _print_result(subject, part, as_json=given.json)
            raise
        _print_result(subject, result, as_json=given.json)
    return 0


def _host(given: argparse.Namespace) -> _Subject:
    from reportclient.drivers.host import HostDriver

    for option in ("owner", "prune"):
        if getattr(given, option) not in ("FILE", False):
            raise exceptions.ConfigurationError(f"--{option} is for --file.")
    chosen = {name: getattr(given, name) for name in _RESERVED}
    driver = HostDriver(**{name: n for name, n in chosen.items() if n is not None})
    return _Subject(given.uuid or machine_uuid("host"), given.name or machine_name(), driver)


def _file(given: argparse.Namespace) -> _Subject:
    from reportclient.drivers.desired import NODENAME, load
    from reportclient.drivers.file import FileDriver

    for option in _RESERVED:
        if getattr(given, option) is not None:
            raise exceptions.ConfigurationError(
                f"--{option.replace('_', '-')} is for this machine, not for --file."
            )
    desired = load(given.file)
    name = given.name or (machine_name() if NODENAME in desired.name else desired.name)
    uuid = given.uuid or desired.uuid or machine_uuid("file", name)
    return _Subject(uuid, name, FileDriver(given.file, owner=given.owner, prune=given.prune))


def _print_plan(subject: _Subject, plan: Plan, *, as_json: bool) -> None:
    if as_json:
        operations = [render.operation_facts(operation) for operation in plan]
        facts = {"uuid": subject.uuid, "name": subject.name, "plan": operations}
        print(json.dumps(facts, indent=2))
        return
    render.console().print(render.plan(plan))


def _print_result(subject: _Subject, result: SyncResult, *, as_json: bool) -> None:
    if as_json:
        facts = {"uuid": subject.uuid, "name": subject.name, **render.result_facts(result)}
        print(json.dumps(facts, indent=2))
        sys.stdout.flush()
        return
    out = render.console()
    for provider in result.providers.values():
        out.print(render.line(str(provider)))
    if not result.providers:
        out.print(render.line(f"{subject.name} ({subject.uuid}): up to date"))
    if result.requests:
        out.print(render.requests_table(result.requests))
