"""The sliding minute of file operations, on a clock of its own."""

import pytest

from lockstitch.state.errors import RateLimitError
from lockstitch.tools import rate_limit
from lockstitch.tools.rate_limit import RateLimit


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_the_limit_is_per_thread(clock: Clock) -> None:
    rate = RateLimit(2, monotonic=clock)
    for thread_id in ("a", "a", "b", "b"):
        rate.take(thread_id)
    with pytest.raises(RateLimitError):
        rate.take("a")


def test_the_window_slides_and_refused_operations_do_not_count(clock: Clock) -> None:
    rate = RateLimit(2, monotonic=clock)
    rate.take("a")
    clock.now_s += 40
    rate.take("a")
    for _ in range(3):
        with pytest.raises(RateLimitError):
            rate.take("a")
    clock.now_s += 20  # the first is a minute old
    rate.take("a")
    with pytest.raises(RateLimitError):
        rate.take("a")


@pytest.mark.parametrize(("gone_s", "wait"), [(0, "60 s"), (40, "20 s"), (59.9, "1 s")])
def test_the_message_says_when_to_go_on(clock: Clock, gone_s: float, wait: str) -> None:
    rate = RateLimit(1, monotonic=clock)
    rate.take("a")
    clock.now_s += gone_s
    with pytest.raises(RateLimitError, match=f"go on in {wait} .*LOCKSTITCH_RATE_LIMIT_PER_MINUTE"):
        rate.take("a")


def test_threads_that_rest_are_forgotten_and_busy_ones_are_not(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rate_limit, "THREADS_KEPT", 3)
    rate = RateLimit(1, monotonic=clock)
    for thread_id in "abcd":
        rate.take(thread_id)
    clock.now_s += 40
    rate.take("busy")
    clock.now_s += 20
    rate.take("new")
    assert set(rate._used) == {"busy", "new"}
    with pytest.raises(RateLimitError):
        rate.take("busy")


def test_zero_turns_it_off(clock: Clock) -> None:
    rate = RateLimit(0, monotonic=clock)
    for _ in range(1000):
        rate.take("a")
