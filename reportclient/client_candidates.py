# SPDX-License-Identifier: Apache-2.0
"""The part of the facade that finds room."""

from __future__ import annotations

from collections.abc import Mapping

from reportclient.client_base import ClientBase
from reportclient.resource_request import HasQuerystring, asked_for
from reportclient.shapes import AllocationCandidates
from reportclient.types import Context

__all__ = ["CandidateCalls"]


class CandidateCalls(ClientBase):
    """Where a request for resources could be satisfied."""

    def get_allocation_candidates(
        self, context: Context | None, resources: Mapping[str, int] | HasQuerystring
    ) -> AllocationCandidates:
        """From where a request for resources could be served, right now.

        Nothing is held by this: others may be faster. It costs one request, and
        nothing of it is cached. It is asked at 1.38, or at what the request
        needs if that is newer; on an older server at the newest it has, if the
        request means the same there. Before 1.29 Placement finds nothing that
        takes from several providers of one tree.

        :param context: an object with ``global_id``, or ``None``.
        :param resources: a `ResourceRequest`; or resource class -> amount; or
            any object with a ``to_querystring()``, of which the query tells
            the microversion that it needs.
        :returns: ``allocation_requests``, ``provider_summaries`` and the
            ``version`` used; a list and a dict that are empty if nobody has
            room.
        :raises InvalidInput: ``resources`` is none of these; nothing was sent.
        :raises MicroversionNotSupported: the server lacks something that is
            asked for, or is older than 1.12.
        :raises UnknownTrait, UnknownResourceClass: this Placement lacks one.
        :raises AllocationCandidateRetrievalFailed: Placement refused; if the
            query was too long for something on the way, its cause is
            `RequestTooLarge`.
        :raises PlacementUnavailable: it could not be reached.
        """
        query, needed = asked_for(resources)
        return self._calls.begin(context).api.get_allocation_candidates(query, needed)
