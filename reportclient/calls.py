# SPDX-License-Identifier: Apache-2.0
"""One call of a public method: its requests, what it cost, what is said of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager

from reportclient import exceptions, text
from reportclient.api import PlacementAPI
from reportclient.engine import Engine
from reportclient.request_log import RequestLog
from reportclient.result import SyncResult
from reportclient.transport import Transport
from reportclient.types import Context

__all__ = ["Call", "Calls"]

LOG = text.logger(__name__)

#: Requests that a log line of a call names.
_NAMED = 20
#: Failures that an operator should hear of. What a driver did wrong is for
#: the agent to say.
_REFUSALS = (
    exceptions.PlacementError,
    exceptions.OperationFailed,
    exceptions.MassRemovalRefused,
)


@dataclasses.dataclass(frozen=True)
class Call:
    """A call: Placement's routes for it, its requests, and when it began."""

    api: PlacementAPI
    log: RequestLog
    began: float


class Calls:
    """Begins calls, and keeps the account of them."""

    def __init__(self, transport: Transport, engine: Engine) -> None:
        self._transport = transport
        self._engine = engine

    def begin(self, context: Context | None) -> Call:
        """A call on behalf of a request context."""
        if self._engine.cache_file is not None:
            self._engine.cache_file.load(self._transport.endpoint)
        log = RequestLog()
        global_id = getattr(context, "global_id", None)
        api = PlacementAPI(self._transport, global_request_id=global_id, log=log)
        return Call(api, log, self._engine.clock())

    @contextmanager
    def accounted(self, call: Call, result: SyncResult) -> Iterator[None]:
        """Note in the result what the call cost, however it ends.

        That Placement cannot be reached is said once, and that it can again.
        What Placement refused is said, too: the caller may not log it.
        """
        notices = self._engine.notices
        try:
            yield
        except exceptions.PlacementUnavailable as error:
            notices.warn("unavailable", f"Placement cannot be reached: {error}")
            raise
        except _REFUSALS as error:
            notices.warn(f"refused {type(error).__name__}", str(error))
            raise
        else:
            if call.log.entries:
                notices.recovered("unavailable", "Placement can be reached again.")
        finally:
            result.requests = call.log.by_kind()
            result.request_ids = call.log.request_ids()
            result.seconds = self._engine.clock() - call.began
            if call.log.entries:
                LOG.debug("%s", _account(call.log, result.seconds))
            if self._engine.cache_file is not None:
                self._engine.cache_file.follow()


def _account(log: RequestLog, seconds: float) -> str:
    """The requests of a call on one line."""
    entries = log.entries
    shown = ", ".join(
        f"{entry.method} {entry.route} {entry.status or 'no answer'}"
        f" [{entry.request_id or 'no request id'}]"
        for entry in entries[:_NAMED]
    )
    more = f", and {len(entries) - _NAMED} more" if len(entries) > _NAMED else ""
    return f"{len(entries)} requests in {seconds:.3f} s: {shown}{more}"
