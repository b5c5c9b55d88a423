# SPDX-License-Identifier: Apache-2.0
"""What the parts of the facade share: `ReportClient` is made of several.

Each part is a class with the methods of one concern; `ReportClient` derives
from all of them and builds what they use.
"""

from __future__ import annotations

from reportclient.calls import Calls
from reportclient.engine import Engine
from reportclient.locks import TreeLocks
from reportclient.passes import TreeReader
from reportclient.single import SingleProvider

__all__ = ["ClientBase"]


class ClientBase:
    """What every part of the facade may use; `ReportClient` sets it."""

    _engine: Engine
    _calls: Calls
    _locks: TreeLocks
    _reader: TreeReader
    _single: SingleProvider
    _consumer_type: str | None
