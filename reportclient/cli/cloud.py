# SPDX-License-Identifier: Apache-2.0
"""``report`` and ``show``: commands that talk to a cloud."""

from __future__ import annotations

import argparse
import json
import os
import platform
import uuid
from pathlib import Path
from typing import Any

from keystoneauth1 import adapter as ksa_adapter
from keystoneauth1 import session as ksa_session
from keystoneauth1 import token_endpoint

from reportclient import exceptions, validation
from reportclient.cli import render
from reportclient.client import ReportClient
from reportclient.driver import Driver
from reportclient.provider_tree import ProviderTree, provider_uuid

__all__ = ["report", "show"]


def report(options: argparse.Namespace) -> int:
    """Report this machine, or a file, to a cloud."""
    name = options.name or platform.node()
    root = validation.normalise_uuid(options.uuid) if options.uuid else _own_uuid(name)
    driver = _driver(options)
    out = render.console()
    with _client(options) as client:
        if options.dry_run:
            plan = client.plan_report(None, root, name, driver)
            if options.json:
                print(json.dumps({"plan": [str(operation) for operation in plan]}, indent=2))
            else:
                out.print(str(plan), markup=False)
            return 0
        result = client.report(None, root, name, driver)
        if options.json:
            print(json.dumps({"uuid": root, **render.result_facts(result)}, indent=2))
            return 0
        for provider in result.providers.values():
            out.print(str(provider), markup=False)
        if not result.changed:
            out.print(f"{name} ({root}) is up to date.", markup=False)
        out.print(render.requests_table("Requests", result.requests))
    return 0


def show(options: argparse.Namespace) -> int:
    """Show the tree of a provider."""
    wanted = options.provider or platform.node()
    out = render.console()
    with _client(options) as client:
        tree = _tree(client, wanted)
    if options.json:
        print(json.dumps(tree.to_dict(), indent=2))
    else:
        for one in render.provider_tree(tree):
            out.print(one)
    return 0


def _tree(client: ReportClient, wanted: str) -> ProviderTree:
    """The tree that a provider is in; nothing is created for looking."""
    found = client.get_providers_in_tree(None, wanted) if _is_uuid(wanted) else []
    # A name may look like a UUID: nova's default name is one.
    root = wanted if found else client.get_provider_by_name(None, wanted)["uuid"]
    return client.get_provider_tree_and_ensure_root(None, root)


def _is_uuid(text: str) -> bool:
    try:
        validation.normalise_uuid(text)
    except exceptions.InvalidUUID:
        return False
    return True


def _driver(options: argparse.Namespace) -> Driver:
    if options.file:
        from reportclient.drivers.file import FileDriver

        return FileDriver(options.file, owner=options.owner, prune=options.prune)
    from reportclient.drivers.host import HostDriver

    return HostDriver()


def _own_uuid(name: str) -> str:
    """A UUID that this machine keeps."""
    try:
        machine = Path("/etc/machine-id").read_text(encoding="ascii").strip()
        return provider_uuid(uuid.UUID(machine), "reportclient", name)
    except (OSError, ValueError):
        raise exceptions.ConfigurationError(
            "This machine has no /etc/machine-id to make a lasting UUID from: give --uuid."
        ) from None


# -- where Placement is --------------------------------------------------------------


def _client(options: argparse.Namespace) -> ReportClient:
    return ReportClient(_adapter(options), timeout=options.timeout)


def _adapter(options: argparse.Namespace) -> Any:
    if options.url:
        token = options.token or os.environ.get("OS_TOKEN")
        if not token:
            raise exceptions.ConfigurationError("--url needs --token, or OS_TOKEN.")
        session = ksa_session.Session(auth=token_endpoint.Token(options.url, token))
        return ksa_adapter.Adapter(session, service_type="placement")
    return _cloud_adapter(options.os_cloud)


def _cloud_adapter(name: str | None) -> Any:
    from keystoneauth1 import exceptions as ksa
    from openstack import config as os_config
    from openstack import exceptions as os_exceptions

    what = f"cloud {name!r}" if name else "the environment (OS_*)"
    try:
        cloud = os_config.OpenStackConfig().get_one(cloud=name)
        return ksa_adapter.Adapter(
            cloud.get_session(),
            service_type="placement",
            service_name=cloud.get_service_name("placement"),
            interface=cloud.get_interface("placement"),
            region_name=cloud.get_region_name("placement"),
            endpoint_override=cloud.get_endpoint("placement"),
        )
    except (os_exceptions.ConfigException, ksa.ClientException) as error:
        raise exceptions.ConfigurationError(
            f"How to reach Placement is not known from {what}: {error}. "
            "Give --os-cloud, OS_* variables, or --url with --token."
        ) from error
