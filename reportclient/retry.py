# SPDX-License-Identifier: Apache-2.0
"""How often, how long and how eagerly to try again, as values."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from typing import Any

import tenacity

__all__ = ["RetryBudget", "RetryPolicy"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class RetryPolicy:
    """Bounds for every loop of the client. All times are in seconds.

    There are two budgets. Writes that meet other writers are tried
    ``attempts`` times within ``deadline``. Requests that meet a Placement that
    does not answer are sent again ``resend_attempts`` times at most.

    :param attempts: how often a write is tried against other writers.
    :param deadline: how long such a loop may last.
    :param base_delay: the first wait is up to this long, and each further
        one up to twice as long as the last: full jitter, so that clients that
        collided once do not collide again.
    :param max_delay: no wait is longer, but for ``Retry-After``.
    :param retry_after_cap: the longest ``Retry-After`` that is honoured.
    :param resend_attempts: how often one request is sent again after it got
        no usable answer; 0: never.
    """

    attempts: int = 100
    deadline: float = 120.0
    base_delay: float = 0.05
    max_delay: float = 4.0
    retry_after_cap: float = 60.0
    resend_attempts: int = 2

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            lowest = 1 if field.name == "attempts" else 0
            if (
                isinstance(value, bool)
                or not isinstance(value, int | float)
                or not value >= lowest
            ):
                raise ValueError(f"{field.name} is {value!r}, which is not {lowest} or more")

    def delay(self, attempt: int, error: BaseException | None, random: float) -> float:
        """How long to wait after an attempt (1, 2, ...), given a number in [0, 1).

        What the server asked for (`PlacementUnavailable.retry_after`) is the
        least, and the jitter comes on top: those who were told the same do not
        come back at the same time.
        """
        # The exponent is bounded: 2.0 ** 2000 is no number.
        jitter = random * min(self.max_delay, self.base_delay * 2.0 ** min(attempt - 1, 60))
        asked = getattr(error, "retry_after", None) or 0.0
        return float(jitter + min(asked, self.retry_after_cap))

    def retrying(
        self,
        *,
        clock: Callable[[], float],
        sleep: Callable[[float], None],
        random: Callable[[], float],
        retry_on: Callable[[BaseException], bool],
        attempts: int | None = None,
        budget: RetryBudget | None = None,
        began: float | None = None,
    ) -> tenacity.Retrying:
        """A loop within these bounds; it raises the last failure itself.

        :param retry_on: whether a failure is worth another attempt. Asked
            once for each.
        :param attempts: in place of ``self.attempts``.
        :param budget: what further attempts are paid from.
        :param began: from when on the deadline counts; from this call on.
        """
        end = (clock() if began is None else began) + self.deadline
        bound = self.attempts if attempts is None else attempts
        waits: dict[int, float] = {}

        def wait(state: tenacity.RetryCallState) -> float:
            # tenacity asks for it before or after ``stop``, as its version has it.
            attempt = state.attempt_number
            if attempt not in waits:
                error = state.outcome.exception() if state.outcome else None
                waits[attempt] = self.delay(attempt, error, random())
            return waits[attempt]

        def stop(state: tenacity.RetryCallState) -> bool:
            # A wait that would end after the deadline is not begun.
            if state.attempt_number >= bound or clock() + wait(state) > end:
                return True
            return budget is not None and not budget.spend()

        return tenacity.Retrying(
            stop=stop,
            wait=wait,
            sleep=sleep,
            retry=tenacity.retry_if_exception(retry_on),
            reraise=True,
        )

    def calling(self, *, clock: Callable[[], float], **loop: Any) -> Callable[..., Any]:
        """`retrying`, for a function and its arguments.

        The loop is made when the first attempt has failed. Most never do, and
        making one for each request was a tenth of what a request costs.
        """
        began = clock()

        def call(step: Callable[..., Any], *args: Any) -> Any:
            try:
                return step(*args)
            except Exception as error:  # noqa: BLE001 - the loop raises it, or tries again
                failures = [error]

            def again() -> Any:
                if failures:
                    raise failures.pop()
                return step(*args)

            return self.retrying(clock=clock, began=began, **loop)(again)

        return call


class RetryBudget:
    """A bound on resending that all requests of a client share. Thread-safe.

    A thousand nodes whose Placement is gone would otherwise each resend on
    their own. Each resend costs one; time and answers pay in. When nothing is
    left, failures are raised at once.

    :param clock: seconds, from any start.
    :param size: how many resends may come in a row.
    :param per_second: what each second pays in.
    :param per_answer: what each answered request pays in.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        *,
        size: float = 20.0,
        per_second: float = 0.2,
        per_answer: float = 0.2,
    ) -> None:
        self._clock = clock
        self._size = size
        self._per_second = per_second
        self._per_answer = per_answer
        self._left = size
        self._at = clock()
        self._lock = threading.Lock()

    def spend(self) -> bool:
        """Take one resend; False if there is none left."""
        with self._lock:
            now = self._clock()
            self._pay_in(max(0.0, now - self._at) * self._per_second)
            self._at = now
            if self._left < 1:
                return False
            self._left -= 1
            return True

    def earn(self) -> None:
        """Note a request that was answered."""
        with self._lock:
            self._pay_in(self._per_answer)

    def _pay_in(self, amount: float) -> None:
        self._left = min(self._size, self._left + amount)

    def renew_lock(self) -> None:
        """Take a new lock: after a fork, another thread may have held it."""
        self._lock = threading.Lock()
