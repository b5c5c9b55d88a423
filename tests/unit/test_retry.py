# SPDX-License-Identifier: Apache-2.0
"""Retries as values: bounds, jitter, Retry-After, and the budget they share."""

from __future__ import annotations

import dataclasses
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reportclient import exceptions
from reportclient.retry import RetryBudget, RetryPolicy


class Loop:
    """Something that fails a number of times, on a clock of its own."""

    def __init__(self, failures=10**6, error=None, takes=0.0):
        self.now, self.slept, self.calls = 0.0, [], 0
        self.failures, self.takes = failures, takes
        self.error = error or exceptions.ServiceUnavailable()

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.now += seconds

    def __call__(self):
        self.calls += 1
        self.now += self.takes
        if self.calls <= self.failures:
            raise self.error
        return "done"

    def run(self, policy, *, random=lambda: 0.5, retry_on=lambda _: True, **settings):
        retrying = policy.retrying(
            clock=lambda: self.now, sleep=self.sleep, random=random, retry_on=retry_on, **settings
        )
        return retrying(self)


def exhaust(loop, policy, **settings):
    with pytest.raises(type(loop.error)) as caught:
        loop.run(policy, **settings)
    assert caught.value is loop.error
    return loop


def test_success_is_returned_after_failures():
    loop = Loop(failures=2)
    assert loop.run(RetryPolicy()) == "done"
    assert loop.calls == 3


def test_usable_as_a_for_loop():
    loop, seen = Loop(failures=2), []
    for attempt in RetryPolicy().retrying(
        clock=lambda: loop.now, sleep=loop.sleep, random=lambda: 0.5, retry_on=lambda _: True
    ):
        with attempt:
            seen.append(attempt.retry_state.attempt_number)
            loop()
    assert seen == [1, 2, 3]


def test_the_last_failure_itself_is_raised_after_the_attempts():
    assert exhaust(Loop(), RetryPolicy(attempts=4)).calls == 4


def test_attempts_given_for_one_loop_win():
    assert exhaust(Loop(), RetryPolicy(attempts=4), attempts=1).calls == 1


def test_what_is_not_worth_it_is_raised_at_once():
    loop = exhaust(Loop(), RetryPolicy(), retry_on=lambda error: not error.retryable)
    assert (loop.calls, loop.slept) == (1, [])


def test_no_wait_is_begun_that_would_end_after_the_deadline():
    policy = RetryPolicy(attempts=1000, deadline=10.0, base_delay=4.0, max_delay=4.0)
    loop = exhaust(Loop(takes=2.1), policy, random=lambda: 0.999)
    assert loop.slept == pytest.approx([3.996])
    assert loop.now <= 10.0


def test_waits_double_up_to_the_longest():
    policy = RetryPolicy(attempts=6, base_delay=1.0, max_delay=5.0)
    assert exhaust(Loop(), policy, random=lambda: 1.0).slept == [1, 2, 4, 5, 5]


def test_the_first_wait_may_be_nothing():
    assert exhaust(Loop(), RetryPolicy(attempts=2), random=lambda: 0.0).slept == [0.0]


def test_b110_retry_after_is_the_least_with_jitter_on_top():
    error = exceptions.TooManyRequests()
    error.retry_after = 7.0
    policy = RetryPolicy(attempts=2, base_delay=1.0, max_delay=5.0)
    assert exhaust(Loop(error=error), policy, random=lambda: 0.5).slept == [7.5]


def test_b110_clients_that_were_told_the_same_come_back_at_different_times():
    error = exceptions.ServiceUnavailable()
    error.retry_after = 30.0
    policy = RetryPolicy(attempts=2)
    waits = [
        exhaust(Loop(error=error), policy, random=lambda n=n: n / 200).slept[0] for n in range(200)
    ]
    assert len(set(waits)) == 200
    assert min(waits) >= 30.0


def test_retry_after_is_capped():
    error = exceptions.TooManyRequests()
    error.retry_after = 86400.0
    policy = RetryPolicy(attempts=2, retry_after_cap=60.0, base_delay=0)
    assert exhaust(Loop(error=error), policy).slept == [60.0]


@given(
    attempt=st.integers(1, 10**6),
    random=st.floats(0, 1, exclude_max=True),
    asked=st.none() | st.floats(0, 1e9),
    base=st.floats(0, 100),
    longest=st.floats(0, 100),
)
def test_every_wait_is_within_its_bounds(attempt, random, asked, base, longest):
    policy = RetryPolicy(base_delay=base, max_delay=longest)
    error = exceptions.ServiceUnavailable()
    error.retry_after = asked
    least = min(asked or 0.0, policy.retry_after_cap)
    assert least <= policy.delay(attempt, error, random) <= least + longest


def test_a_failure_without_retry_after_is_no_special_case():
    assert RetryPolicy(base_delay=1.0, max_delay=5.0).delay(1, ValueError(), 0.5) == 0.5
    assert RetryPolicy(base_delay=1.0, max_delay=5.0).delay(1, None, 0.5) == 0.5


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(RetryPolicy)])
@pytest.mark.parametrize("value", [-1, -0.5, "3", None, True, float("nan")])
def test_senseless_values_are_refused_by_name(field, value):
    with pytest.raises(ValueError, match=field):
        RetryPolicy(**{field: value})


def test_the_policy_is_an_immutable_value():
    policy = RetryPolicy(attempts=3)
    with pytest.raises(dataclasses.FrozenInstanceError):
        policy.attempts = 4
    assert policy == RetryPolicy(attempts=3)
    with pytest.raises(TypeError):
        RetryPolicy(3)


def test_no_resends_is_a_sensible_wish_no_attempts_is_not():
    assert RetryPolicy(resend_attempts=0).resend_attempts == 0
    with pytest.raises(ValueError, match="attempts"):
        RetryPolicy(attempts=0)


# -- the budget --------------------------------------------------------------------


def test_a_budget_that_is_spent_ends_every_loop():
    loop, policy = Loop(), RetryPolicy(attempts=5)
    budget = RetryBudget(lambda: 0.0, size=6)
    calls = []
    for _ in range(4):
        loop = exhaust(Loop(), policy, budget=budget)
        calls.append(loop.calls)
    assert calls == [5, 3, 1, 1]


def test_only_attempts_that_are_made_are_paid_for():
    budget = RetryBudget(lambda: 0.0, size=2)
    for _ in range(5):
        exhaust(Loop(), RetryPolicy(attempts=1), budget=budget)
        exhaust(Loop(), RetryPolicy(deadline=0), budget=budget, random=lambda: 0.9)
        exhaust(Loop(), RetryPolicy(), budget=budget, retry_on=lambda _: False)
    assert [budget.spend() for _ in range(3)] == [True, True, False]


def test_time_fills_the_budget_up_to_its_size():
    now = [0.0]
    budget = RetryBudget(lambda: now[0], size=2, per_second=0.5)
    assert [budget.spend() for _ in range(3)] == [True, True, False]
    now[0] = 2.0
    assert [budget.spend() for _ in range(2)] == [True, False]
    now[0] = 1e6
    assert [budget.spend() for _ in range(3)] == [True, True, False]


def test_a_clock_that_goes_back_takes_nothing_away():
    now = [100.0]
    budget = RetryBudget(lambda: now[0], size=1)
    now[0] = 0.0
    assert budget.spend()


def test_answers_fill_the_budget():
    budget = RetryBudget(lambda: 0.0, size=1, per_answer=0.5)
    assert budget.spend()
    budget.earn()
    assert not budget.spend()
    budget.earn()
    assert budget.spend()


def test_threads_share_a_budget_exactly():
    budget = RetryBudget(lambda: 0.0, size=50)
    got = []

    def take():
        got.extend(budget.spend() for _ in range(20))

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(got) == 50


def test_a_budget_works_on_after_its_lock_was_renewed():
    budget = RetryBudget(lambda: 0.0, size=1)
    budget.renew_lock()
    assert [budget.spend(), budget.spend()] == [True, False]
