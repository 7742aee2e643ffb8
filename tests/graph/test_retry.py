"""How long is waited before a model is asked again."""

from datetime import UTC, datetime
from email.utils import format_datetime

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstitch.graph.models.retry import BASE_S, CAP_S, asked_wait_s, backoff_s

NOW = 1_800_000_000.0


class RefusedError(Exception):
    """An error as the clients of OpenAI and Anthropic raise it."""

    def __init__(self, **headers: str) -> None:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.response = httpx.Response(429, headers=named)


def at(seconds: float) -> str:
    return format_datetime(datetime.fromtimestamp(NOW + seconds, UTC), usegmt=True)


@pytest.mark.parametrize(
    ("headers", "wait_s"),
    [
        ({"Retry_After": "2"}, 2.0),
        ({"retry_after": "1.5"}, 1.5),
        ({"retry_after_ms": "20"}, 0.02),
        ({"retry_after_ms": "20", "retry_after": "1"}, 0.02),
        ({"retry_after_ms": "soon", "retry_after": "1"}, 1.0),
        ({"retry_after": at(30)}, 30.0),
        ({"retry_after": at(-30)}, None),
        ({"retry_after": "3600"}, 3600.0),
        ({"retry_after": "inf"}, float("inf")),
        ({"retry_after": "0"}, None),
        ({"retry_after": "-1"}, None),
        ({"retry_after": "nan"}, None),
        ({"retry_after": "later"}, None),
        ({"retry_after": ""}, None),
        ({"retry_after": "Mon, 99 Foo 2099 00:00:00 GMT"}, None),
        ({}, None),
    ],
)
def test_what_the_endpoint_asks_for(headers: dict[str, str], wait_s: float | None) -> None:
    assert asked_wait_s(RefusedError(**headers), now=lambda: NOW) == wait_s


def test_an_error_without_a_reply_asks_for_nothing() -> None:
    assert asked_wait_s(ConnectionResetError()) is None


@given(st.text())
def test_no_header_breaks_it(value: str) -> None:
    error = RefusedError()
    error.response = type("Reply", (), {"headers": {"retry-after": value}})()  # type: ignore[assignment]
    wait_s = asked_wait_s(error)
    assert wait_s is None or wait_s > 0


def test_waits_double_up_to_a_bound() -> None:
    longest = [backoff_s(attempt, random=lambda: 1.0) for attempt in range(7)]
    assert longest[:4] == [BASE_S, 2 * BASE_S, 4 * BASE_S, 8 * BASE_S]
    assert longest[-1] == CAP_S


@given(st.integers(0, 10_000), st.floats(0, 1, exclude_max=True))
def test_a_wait_is_anything_up_to_its_bound(attempt: int, drawn: float) -> None:
    assert 0 <= backoff_s(attempt, random=lambda: drawn) <= CAP_S
    assert backoff_s(attempt, random=lambda: 0.0) == 0
