# SPDX-License-Identifier: Apache-2.0
"""What this machine is called, for Placement."""

from __future__ import annotations

import platform
import uuid
from pathlib import Path

from reportclient import exceptions
from reportclient.provider_tree import provider_uuid

__all__ = ["machine_name", "machine_uuid"]

#: See machine-id(5): one id for each installation, the same over restarts.
MACHINE_ID = Path("/etc/machine-id")


def machine_name() -> str:
    """The host name.

    :raises ConfigurationError: it has none.
    """
    name = platform.node()
    if not name:
        raise exceptions.ConfigurationError("This machine has no host name: give a name.")
    return name


def machine_uuid(*parts: str) -> str:
    """A UUID for something of this machine, the same whenever it is asked for.

    It is made from the machine's id in a way that does not give the id away.

    :raises ConfigurationError: the machine has no id.
    """
    try:
        machine = uuid.UUID(MACHINE_ID.read_text(encoding="ascii").strip())
    except (OSError, ValueError):
        raise exceptions.ConfigurationError(
            f"{MACHINE_ID} holds no id to make a lasting UUID from: give --uuid."
        ) from None
    return provider_uuid(machine, "reportclient", *parts)
