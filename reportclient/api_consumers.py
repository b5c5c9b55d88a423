# SPDX-License-Identifier: Apache-2.0
"""Placement's routes for consumers: what they hold, and what is in use.

What a consumer holds is written at 1.28, the first microversion with a guard
for consumers: the consumer's type (1.38) stays as it is then. Only where a
type is to be set are requests made at 1.38.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping
from typing import Any

from reportclient import exceptions, shapes
from reportclient.routes import CODES, Routes, named, with_query
from reportclient.shapes import ConsumerAllocations, Usages
from reportclient.transport import Answer, Microversion

__all__ = ["ConsumerRoutes"]

#: From here on consumers have generations ...
_GUARDED: Microversion = (1, 28)
#: ... and from here on types.
_TYPED: Microversion = (1, 38)


@dataclasses.dataclass(frozen=True)
class ConsumerRoutes(Routes):
    """The routes for consumers."""

    def get_allocations(self, consumer: str, *, typed: bool = False) -> ConsumerAllocations:
        """Read what a consumer holds; nothing at all for one that is unknown.

        :param typed: its type, too, where the server has types.
        :raises ConsumerAllocationRetrievalFailed: Placement refused.
        """
        return shapes.consumer_allocations(self._read_consumer(consumer, typed=typed))

    def get_raw_allocations(self, consumer: str) -> dict[str, Any]:
        """Read what a consumer holds, as the newest microversion for it says it.

        :raises ConsumerAllocationRetrievalFailed: Placement refused.
        """
        answer = self._read_consumer(consumer, typed=True)
        shapes.consumer_allocations(answer)
        return copy.deepcopy(dict(answer.body))

    def _read_consumer(self, consumer: str, *, typed: bool) -> Answer:
        path = named("allocations", consumer)
        with self._failing(
            exceptions.ConsumerAllocationRetrievalFailed, f"read allocations of {consumer}"
        ):
            if not typed:
                return self._get(path, _GUARDED, _GUARDED)
            try:
                return self._get(path, _TYPED, _GUARDED)
            except (exceptions.ServerError, exceptions.NotFound):
                # Consumers without a type could not be read at 1.38 at first
                # (story 2009167); they can be without asking for it.
                return self._get(path, _GUARDED, _GUARDED)

    def put_allocations(self, consumer: str, allocations: ConsumerAllocations) -> None:
        """Make these all that a consumer holds, guarded by its generation.

        :raises ConsumerConflict: the consumer's generation is outdated.
        :raises ConcurrentUpdate: a provider changed at the same moment.
        :raises AllocationDoesNotFit: Placement has not got so much.
        :raises AllocationUpdateFailed: Placement refused.
        """
        with self._failing(exceptions.AllocationUpdateFailed, f"write allocations of {consumer}"):
            path = named("allocations", consumer)
            typed = allocations.to_typed_body()
            self._write("PUT", path, allocations.to_body(), typed)

    def post_allocations(self, allocations: Mapping[str, ConsumerAllocations]) -> None:
        """Make these all that some consumers hold, in one transaction.

        :raises: as `put_allocations`; then nothing was written.
        """
        bodies = {consumer: part.to_body() for consumer, part in allocations.items()}
        typed = {consumer: part.to_typed_body() for consumer, part in allocations.items()}
        what = f"write allocations of {', '.join(allocations)}"
        with self._failing(exceptions.AllocationUpdateFailed, what):
            # One request has one form: types for all, or for none.
            all_typed = typed if None not in typed.values() else None
            self._write("POST", "/allocations", bodies, all_typed)

    def _write(self, method: str, path: str, body: Any, typed: Any) -> None:
        if typed is not None and self.transport.offers(_TYPED):
            try:
                self._send(method, path, _TYPED, _TYPED, typed)
                return
            except exceptions.MicroversionNotSupported:
                if self.transport.offers(_TYPED):
                    raise
        self._send(method, path, _GUARDED, _GUARDED, body)

    def delete_allocations(self, consumer: str) -> bool:
        """Take away all that a consumer holds, whatever its generation is.

        :returns: False: it held nothing.
        :raises AllocationUpdateFailed: Placement refused.
        """
        try:
            with self._failing(
                exceptions.AllocationUpdateFailed, f"delete allocations of {consumer}"
            ):
                self._send("DELETE", named("allocations", consumer), CODES, (1, 0))
        except exceptions.AllocationUpdateFailed as error:
            if error.status == 404:
                return False
            raise
        return True

    def get_usages(
        self,
        project_id: str,
        user_id: str | None = None,
        consumer_type: str | None = None,
        *,
        typed: bool = True,
    ) -> Usages:
        """Read how much a project holds of each class.

        :param consumer_type: only by consumers of this type (1.38).
        :param typed: by type of consumer, where the server has types.
        :raises UsagesRetrievalFailed: Placement refused.
        """
        query = {"project_id": project_id}
        if user_id is not None:
            query["user_id"] = user_id
        want: Microversion = _TYPED if typed else (1, 9)
        need: Microversion = (1, 9)
        if consumer_type is not None:
            query["consumer_type"] = consumer_type
            want = need = _TYPED
        path = with_query("/usages", query)
        with self._failing(
            exceptions.UsagesRetrievalFailed, f"read the usages of project {project_id}"
        ):
            try:
                return shapes.project_usages(self._get(path, want, need))
            except exceptions.ServerError:
                if want == need or want < _TYPED:
                    raise
                # On PostgreSQL the question by type is answered 500: the query
                # behind it leaves out a column in GROUP BY (16.0.0).
                return shapes.project_usages(self._get(path, need, need))
