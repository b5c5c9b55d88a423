# SPDX-License-Identifier: Apache-2.0
"""What all of Placement's routes share: sending, paths, and naming what failed."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote, urlencode

from reportclient import exceptions
from reportclient.request_log import RequestLog
from reportclient.transport import Answer, Microversion, Transport
from reportclient.types import Generation

__all__ = ["CODES", "Routes", "known", "named", "provider_path", "with_query"]

#: From here on errors have codes.
CODES: Microversion = (1, 23)


@dataclasses.dataclass(frozen=True)
class Routes:
    """Sends the requests of one call of the client.

    :param max_query_bytes: the longest list of values in one query; proxies
        refuse request lines of 4 or 8 KiB.
    """

    transport: Transport
    global_request_id: str | None = None
    log: RequestLog | None = None
    max_query_bytes: int = 3000

    def _get(self, path: str, want: Microversion, need: Microversion) -> Answer:
        return self._send("GET", path, want, need)

    def _send(
        self,
        method: str,
        path: str,
        want: Microversion,
        need: Microversion,
        body: Any = None,
        *,
        idempotent: bool = False,
    ) -> Answer:
        return self.transport.request(
            method,
            path,
            want=want,
            need=need,
            json=body,
            global_request_id=self.global_request_id,
            log=self.log,
            idempotent=idempotent,
        )

    @contextlib.contextmanager
    def _failing(
        self, kind: type[exceptions.OperationFailed], doing: str, provider: str | None = None
    ) -> Iterator[None]:
        """Say what was being done when Placement refused."""
        what = f"{doing} {provider}" if provider else doing
        try:
            yield
        except (
            exceptions.PlacementAPIConflict,
            exceptions.PlacementUnavailable,
            exceptions.MicroversionNotSupported,
            exceptions.UnknownTrait,
            exceptions.UnknownResourceClass,
        ) as error:
            error.provider = error.provider or provider
            raise
        except exceptions.NotFound as error:
            if provider is None:
                raise kind(f"Could not {what}: {error}", **error.facts) from error
            raise exceptions.ResourceProviderNotFound(
                f"Could not {what}: there is no such provider. {error}",
                provider=provider,
                **error.facts,
            ) from error
        except exceptions.PlacementError as error:
            failure = kind(f"Could not {what}: {error}", provider=provider, **error.facts)
            failure.retryable = error.retryable
            raise failure from error

    def _chunks(self, values: Iterable[str]) -> list[str]:
        """Values, joined by commas, in parts that are short enough for a query each."""
        chunks: list[str] = []
        for value in values:
            if chunks and len(chunks[-1]) + len(value) < self.max_query_bytes:
                chunks[-1] += f",{value}"
            else:
                chunks.append(value)
        return chunks


def known(generation: Generation | None) -> Generation:
    """A generation that came from an answer; none is never sent (P1).

    :raises ValueError: it is not known.
    """
    if generation is None:
        raise ValueError("the provider's generation is not known")
    return generation


def provider_path(uuid: str, part: str | None = None) -> str:
    """The path of a provider, or of a part of it."""
    return named("resource_providers", uuid) + (f"/{part}" if part else "")


def named(collection: str, name: str) -> str:
    """The path of one thing of a collection."""
    return f"/{collection}/{quote(name, safe='')}"


def with_query(path: str, query: Mapping[str, str]) -> str:
    """A path with a query, if there is anything to ask."""
    # urlencode's default would make "+" of spaces; "%20" survives every proxy.
    encoded = urlencode(query, quote_via=quote, safe=":,")
    return f"{path}?{encoded}" if encoded else path
