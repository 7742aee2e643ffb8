"""A model that fails again and again is left out for a while, and then tried once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.clock import Clock

from lockstitch.graph.models.breaker import FAILURES, REST_S, Breaker


@pytest.fixture
def clock() -> Clock:
    return Clock(100.0)


@pytest.fixture
def breaker(clock: Clock) -> Breaker:
    return Breaker(monotonic=clock)


def fail(breaker: Breaker, name: str = "m", times: int = FAILURES) -> None:
    for _ in range(times):
        breaker.failed(name)


def test_an_unknown_model_is_asked(breaker: Breaker) -> None:
    assert breaker.enter("m") == "closed"


def test_it_opens_after_failures_in_a_row_and_for_that_model_alone(breaker: Breaker) -> None:
    fail(breaker, times=FAILURES - 1)
    assert breaker.enter("m") == "closed"
    breaker.failed("m")
    assert (breaker.enter("m"), breaker.enter("other")) == ("open", "closed")


def test_a_success_in_between_begins_the_count_anew(breaker: Breaker) -> None:
    fail(breaker, times=FAILURES - 1)
    breaker.succeeded("m")
    fail(breaker, times=FAILURES - 1)
    assert breaker.enter("m") == "closed"


def test_after_its_rest_one_may_try_and_the_others_wait(breaker: Breaker, clock: Clock) -> None:
    fail(breaker)
    clock.now += REST_S - 0.1
    assert breaker.enter("m") == "open"
    clock.now += 0.1
    assert [breaker.enter("m"), breaker.enter("m")] == ["half_open", "open"]


def test_the_try_decides(breaker: Breaker, clock: Clock) -> None:
    fail(breaker)
    clock.now += REST_S
    assert breaker.enter("m") == "half_open"
    breaker.failed("m")
    assert breaker.enter("m") == "open"
    clock.now += REST_S
    assert breaker.enter("m") == "half_open"
    breaker.succeeded("m")
    assert breaker.enter("m") == "closed"


def test_a_try_that_never_ends_is_followed_by_another(breaker: Breaker, clock: Clock) -> None:
    fail(breaker)
    clock.now += REST_S
    assert breaker.enter("m") == "half_open"
    clock.now += REST_S
    assert breaker.enter("m") == "half_open"


@given(st.lists(st.sampled_from(["failed", "succeeded", "enter", "wait"])))
def test_it_is_open_only_after_enough_failures_since_the_last_success(steps: list[str]) -> None:
    clock, row = Clock(), 0
    breaker = Breaker(monotonic=clock)
    for step in steps:
        if step == "wait":
            clock.now += REST_S / 2
        elif step == "enter":
            assert (breaker.enter("m") == "closed") == (row < FAILURES)
        else:
            getattr(breaker, step)("m")
            row = row + 1 if step == "failed" else 0
