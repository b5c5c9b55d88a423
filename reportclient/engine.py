# SPDX-License-Identifier: Apache-2.0
"""The parts that all calls of one client share."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from typing import Any

import tenacity

from reportclient import exceptions
from reportclient.cache import Cache
from reportclient.cache_file import CacheFile
from reportclient.names import KnownNames
from reportclient.notices import Notices
from reportclient.refresh import Refresher
from reportclient.retry import RetryPolicy
from reportclient.types import Scope
from reportclient.workers import Workers

__all__ = ["Engine", "Settling"]


class Settling:
    """Which failures of a write are worth another attempt: one rule for all.

    Others' writes are waited out for as long as the policy says; answers that
    were lost only a few times, each settled by reading before the next.

    A consumer's generation is its writer's affair (`ConsumerConflict`): unless
    ``consumers`` is set, it is not tried again.

    :ivar lost: how many answers were lost so far.
    """

    def __init__(self, limit: int, *, conflicts: bool = True, consumers: bool = False) -> None:
        self._limit = limit
        self._conflicts = conflicts
        self._consumers = consumers
        self.lost = 0

    def may_retry(self, error: BaseException) -> bool:
        """Whether to try again after a failure. Asked once for each."""
        if isinstance(error, exceptions.ResourceProviderUpdateConflict):
            return False
        if isinstance(error, exceptions.ConsumerConflict):
            # One that follows a lost answer cannot be settled any more.
            return self._consumers and not error.outcome_unknown
        if isinstance(error, exceptions.ConcurrentUpdate):
            return self._conflicts
        if isinstance(error, exceptions.ReportClientError) and error.outcome_unknown:
            self.lost += 1
            return self.lost <= self._limit
        return False


@dataclasses.dataclass(frozen=True)
class Engine:
    """Cache, remembered names, workers and the retry policy of a client.

    :ivar workers: for jobs started by the calling thread.
    :ivar inline: for jobs started by a job: no further threads.
    :ivar cache_file: follows the cache, or ``None``.
    :ivar strict: a standard trait or class that Placement does not know is an
        error instead of being left out.
    """

    cache: Cache
    names: KnownNames
    workers: Workers
    inline: Workers
    refresher: Refresher
    notices: Notices
    cache_file: CacheFile | None
    retry: RetryPolicy
    strict: bool
    clock: Callable[[], float]
    sleep: Callable[[float], None]
    random: Callable[[], float]

    @classmethod
    def build(
        cls,
        *,
        refresh_interval: float,
        deep_refresh_every: int,
        max_workers: int,
        notices: Notices,
        cache_file: str | os.PathLike[str] | None,
        retry: RetryPolicy,
        strict: bool,
        scope: Scope | None,
        clock: Callable[[], float],
        sleep: Callable[[float], None],
        random: Callable[[], float],
    ) -> Engine:
        """The parts of a new client, from its settings."""
        cache, workers = Cache(), Workers(max_workers)
        return cls(
            cache=cache,
            names=KnownNames(),
            workers=workers,
            inline=Workers(1),
            refresher=Refresher(
                cache,
                workers,
                interval=refresh_interval,
                deep_every=deep_refresh_every,
                scope=scope,
                clock=clock,
                random=random,
            ),
            notices=notices,
            cache_file=(
                None if cache_file is None else CacheFile(cache_file, cache, notices, clock)
            ),
            retry=retry,
            strict=strict,
            clock=clock,
            sleep=sleep,
            random=random,
        )

    def retrying(self, retry_on: Callable[[BaseException], bool]) -> tenacity.Retrying:
        """A bounded loop that backs off with full jitter; raises the last failure."""
        return self.retry.retrying(
            clock=self.clock, sleep=self.sleep, random=self.random, retry_on=retry_on
        )

    def settling(
        self, *, conflicts: bool = True, consumers: bool = False, attempts: int | None = None
    ) -> tuple[Callable[..., Any], Settling]:
        """A loop for a write, as a function, and its count of lost answers.

        :param conflicts: whether an outdated generation is tried again.
        :param consumers: whether a consumer's is, too.
        :param attempts: in place of the policy's.
        """
        settling = Settling(self.retry.resend_attempts, conflicts=conflicts, consumers=consumers)
        calling = self.retry.calling(
            clock=self.clock,
            sleep=self.sleep,
            random=self.random,
            retry_on=settling.may_retry,
            attempts=attempts,
        )
        return calling, settling

    def renew_locks(self) -> None:
        """Take new locks: after a fork, other threads may have held them."""
        for part in (self.cache, self.names, self.notices, self.workers):
            part.renew_lock()
