# SPDX-License-Identifier: Apache-2.0
"""``show``: the tree that Placement holds."""

from __future__ import annotations

import argparse
import json

from reportclient import exceptions, validation
from reportclient.cli import connection, render
from reportclient.cli.machine import machine_name
from reportclient.client import ReportClient
from reportclient.provider_tree import ProviderTree

__all__ = ["command"]


def command(given: argparse.Namespace) -> int:
    """Print the tree of a provider; 0.

    :raises ResourceProviderNotFound: there is no such provider.
    """
    if given.provider == "":
        raise exceptions.InvalidName("The name or UUID of a provider is empty.", field="provider")
    out = render.console()
    with connection.client(given) as client:
        tree = _find_tree(client, given.provider or machine_name())
    if given.json:
        print(json.dumps(tree.to_dict(), indent=2))
        return 0
    for one in render.trees(tree):
        out.print(one)
    return 0


def _find_tree(client: ReportClient, wanted: str) -> ProviderTree:
    """The tree that a provider is in. Nothing is created for looking.

    :param wanted: UUID or name.
    :raises ResourceProviderNotFound: there is no such provider.
    """
    try:
        uuid = validation.normalise_uuid(wanted)
        found = bool(client.get_providers_in_tree(None, uuid))
    except exceptions.InvalidUUID:
        found = False
    if not found:
        # A name may look like a UUID.
        uuid = client.get_provider_by_name(None, wanted)["uuid"]
    return client.get_provider_tree_and_ensure_root(None, uuid)
