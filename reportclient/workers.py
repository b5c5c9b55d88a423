# SPDX-License-Identifier: Apache-2.0
"""Bounded parallelism that starts late and survives a fork."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Generic, ParamSpec, TypeVar

__all__ = ["Outcome", "Workers", "values"]

T = TypeVar("T")
R = TypeVar("R")
S = TypeVar("S")
P = ParamSpec("P")
_END = object()


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome(Generic[R]):
    """What one job came to: a value, or the exception that ended it."""

    value: R | None = None
    error: Exception | None = None

    def unwrap(self) -> R:
        """The value; raises the job's exception if there is one."""
        if self.error is not None:
            raise self.error
        return self.value  # type: ignore[return-value]  # None only if R is None


def values(outcomes: Iterable[Outcome[R]]) -> list[R]:
    """All values; raises the first exception. Every job has ended by then."""
    return [outcome.unwrap() for outcome in list(outcomes)]


class Workers:
    """A thread pool for requests.

    :param size: how many jobs run at once; 1 runs them in the calling thread
        and never starts another one.
    :param name: prefix of the threads' names.
    """

    def __init__(self, size: int, name: str = "reportclient") -> None:
        self.size = size
        self._name = name
        self._lock = threading.Lock()
        self._pool: concurrent.futures.ThreadPoolExecutor | None = None
        self._pid: int | None = None

    def run(
        self,
        function: Callable[[T], R],
        items: Sequence[T],
        meanwhile: Iterator[object] | None = None,
    ) -> list[Outcome[R]]:
        """Call the function for every item; outcomes in the items' order.

        One job's exception does not stop the others. Jobs must not call
        ``run`` of the same pool: the threads could all wait for each other.

        :param meanwhile: steps of other work, for the calling thread to take
            while jobs are running. What is left is for the caller.
        """
        if self.size <= 1 or len(items) <= 1:
            return [_attempt(function, item) for item in items]
        if meanwhile is not None:
            futures = [self._submit(_attempt, function, item) for item in items]
            try:
                while not all(future.done() for future in futures):
                    if next(meanwhile, _END) is _END:
                        break
            finally:
                concurrent.futures.wait(futures)
            return [future.result() for future in futures]
        # Every thread takes the next item until there is none: handing each item
        # to a thread costs more than a pass that changes nothing. The calling
        # thread would only wait, so it takes its share.
        outcomes: list[Outcome[R] | None] = [None] * len(items)
        numbers = iter(range(len(items)))

        def work() -> None:
            for number in numbers:
                outcomes[number] = _attempt(function, items[number])

        helpers = [self._submit(work) for _ in range(min(self.size, len(items)) - 1)]
        try:
            work()
        finally:
            # Those that never began would find nothing left to do.
            started = [helper for helper in helpers if not helper.cancel()]
            concurrent.futures.wait(started)
        for helper in started:
            helper.result()
        return [outcome for outcome in outcomes if outcome is not None]

    def stream(self, function: Callable[[T], R], items: Iterable[T]) -> list[Outcome[R]]:
        """As `run`, for items that come one after the other: each starts when it comes."""
        if self.size <= 1:
            return [_attempt(function, item) for item in items]
        futures: list[concurrent.futures.Future[Outcome[R]]] = []
        try:
            for item in items:
                futures.append(self._submit(_attempt, function, item))  # noqa: PERF401
        finally:
            concurrent.futures.wait(futures)
        return [future.result() for future in futures]

    def close(self) -> None:
        """End the threads once their jobs are done. A later run starts new ones."""
        with self._lock:
            pool, self._pool = self._pool, None
        # Threads do not come along in a fork: there is nothing to end there.
        if pool is not None and self._pid == os.getpid():
            pool.shutdown(wait=True)

    def renew_lock(self) -> None:
        """Take a new lock: after a fork, another thread may have held it."""
        self._lock = threading.Lock()

    def _submit(
        self, function: Callable[P, S], *args: P.args, **kwargs: P.kwargs
    ) -> concurrent.futures.Future[S]:
        # Under the lock: a pool that `close` has taken away takes no more jobs.
        with self._lock:
            if self._pool is None or self._pid != os.getpid():
                self._pool = concurrent.futures.ThreadPoolExecutor(
                    self.size, thread_name_prefix=self._name
                )
                self._pid = os.getpid()
            return self._pool.submit(function, *args, **kwargs)


def _attempt(function: Callable[[T], R], item: T) -> Outcome[R]:
    try:
        return Outcome(function(item))
    except Exception as error:  # noqa: BLE001 - handed to the caller as the outcome
        return Outcome(error=error)
