# SPDX-License-Identifier: Apache-2.0
"""The base of all exceptions, and what is refused before any request.

They are imported from `reportclient.exceptions`, which draws the whole tree.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from keystoneauth1 import exceptions as ksa_exceptions

from reportclient import text

__all__ = [
    "InvalidAggregate",
    "InvalidAllocation",
    "InvalidInput",
    "InvalidInventory",
    "InvalidName",
    "InvalidProviderTree",
    "InvalidResourceClass",
    "InvalidResourceRequest",
    "InvalidTrait",
    "InvalidUUID",
    "ReportClientError",
]


class ReportClientError(ksa_exceptions.ClientException):  # type: ignore[misc]
    """Base of everything that this library raises.

    The facts below are ``None`` where the failure has no such fact (there is
    no status when the connection was refused).

    :ivar status: HTTP status of the answer.
    :ivar code: Placement's error code, for instance
        ``placement.concurrent_update`` (servers from microversion 1.23).
    :ivar detail: what Placement said, shortened.
    :ivar method: HTTP method of the request that failed.
    :ivar url: its URL, without credentials.
    :ivar request_id: Placement's request id for the answer.
    :ivar provider: the provider that it is about: a name or UUID.
    :ivar consumer: the UUID of the consumer that it is about.
    :ivar retryable: whether the same call may succeed later unchanged.
    :ivar outcome_unknown: the request was a write and may have been applied.
    """

    message = "The report client failed."
    retryable: bool = False
    outcome_unknown: bool = False
    consumer: str | None = None

    def __init__(
        self,
        message: str | None = None,
        *,
        provider: str | None = None,
        status: int | None = None,
        code: str | None = None,
        detail: str | None = None,
        method: str | None = None,
        url: str | None = None,
        request_id: str | None = None,
        outcome_unknown: bool | None = None,
    ) -> None:
        # Names and server texts in it must not break a log line.
        super().__init__(None if message is None else text.one_line(message))
        self.provider = provider
        self.status = status
        self.code = code
        self.detail = detail
        self.method = method
        self.url = url
        self.request_id = request_id
        if outcome_unknown is not None:
            self.outcome_unknown = outcome_unknown

    def add(self, sentence: str) -> None:
        """Say more in the message."""
        self.message = f"{self.message.rstrip('.')}. {text.one_line(sentence)}"
        self.args: tuple[Any, ...] = (self.message,)

    @property
    def facts(self) -> dict[str, Any]:
        """The answer's facts, as keyword arguments for another exception."""
        return {
            "status": self.status,
            "code": self.code,
            "detail": self.detail,
            "method": self.method,
            "url": self.url,
            "request_id": self.request_id,
            "outcome_unknown": self.outcome_unknown,
        }


# -- refused here -----------------------------------------------------------


class InvalidInput(ReportClientError, ValueError):
    """A value was refused before any request was sent.

    :ivar provider: name or UUID of the provider, if it is about one.
    :ivar resource_class: the resource class, if it is about one.
    :ivar field: what was wrong: ``total``, ``name``, ``traits`` ...
    :ivar value: the value refused.
    """

    message = "A value was refused."

    def __init__(
        self,
        message: str | None = None,
        *,
        provider: str | None = None,
        resource_class: str | None = None,
        field: str | None = None,
        value: Any = None,
    ) -> None:
        super().__init__(message, provider=provider)
        self.resource_class = resource_class
        self.field = field
        self.value = value


class InvalidName(InvalidInput):
    """A provider name that Placement refuses (1 to 200 characters)."""


class InvalidUUID(InvalidInput):
    """Something that is not a UUID, where one is needed."""


class InvalidTrait(InvalidInput):
    """A trait name of the wrong form or length (1 to 255 characters)."""


class InvalidAggregate(InvalidInput):
    """An aggregate that is not a UUID."""


class InvalidResourceClass(InvalidInput):
    """A resource class name of the wrong form or length."""


class InvalidInventory(InvalidInput):
    """An inventory record with a value that Placement would refuse."""


class InvalidResourceRequest(InvalidInput):
    """A request for resources that Placement would refuse; ``field`` is its parameter."""


class InvalidAllocation(InvalidInput):
    """What a consumer is to hold has a value that Placement would refuse.

    ``consumer`` says which, ``field`` what of it.
    """


class InvalidProviderTree(InvalidInput):
    """A tree that cannot be flushed; nothing of it was sent.

    :ivar errors: every fault found, as `InvalidInput` exceptions.
    """

    message = "The provider tree cannot be sent."

    def __init__(
        self,
        message: str | None = None,
        *,
        errors: Sequence[InvalidInput] = (),
        provider: str | None = None,
        resource_class: str | None = None,
        field: str | None = None,
        value: Any = None,
    ) -> None:
        super().__init__(
            message,
            provider=provider,
            resource_class=resource_class,
            field=field,
            value=value,
        )
        self.errors = tuple(errors)
