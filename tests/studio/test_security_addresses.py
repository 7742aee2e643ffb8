"""By which names a server is reached, which pages may call it, and how often a client may ask."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstitch.studio.security.addresses import STUDIO_ORIGIN, is_host_allowed, is_origin_allowed
from lockstitch.studio.security.rate import CLIENTS_MAX, Rate

HERE = ("127.0.0.1", 8765)


@pytest.mark.parametrize(
    ("host", "allowed"),
    [
        ("127.0.0.1:8765", True),
        ("localhost:8765", True),
        ("LOCALHOST:8765", True),
        ("[::1]:8765", True),
        ("named.example", True),
        ("named.example:8765", True),
        ("named.example:9999", False),
        ("127.0.0.1", False),
        ("127.0.0.1:80", False),
        ("evil.example:8765", False),
        ("127.0.0.1.evil.example:8765", False),
        ("localhost.evil.example:8765", False),
        ("localhost.:8765", False),
        ("evil.example@127.0.0.1:8765", False),
        ("127.0.0.1:8765@evil.example", False),
        ("127.0.0.1:8765:8765", False),
        ("[::1:8765", False),
        ("0.0.0.0:8765", False),
        ("", False),
        (" 127.0.0.1:8765", False),
    ],
)
def test_host_is_a_name_of_this_machine_with_its_port_or_a_listed_one(host: str, allowed: bool) -> None:
    assert is_host_allowed(host, hosts={"named.example"}, reached=HERE) is allowed


def test_address_that_was_reached_is_a_host_too_but_no_name_is() -> None:
    assert is_host_allowed("192.168.1.7:8765", hosts=(), reached=("192.168.1.7", 8765))
    assert is_host_allowed("[fe80::7]:8765", hosts=(), reached=("fe80::7", 8765))
    assert not is_host_allowed("evil.example:8765", hosts=(), reached=("evil.example", 8765))


def test_port_80_may_be_left_out() -> None:
    assert is_host_allowed("localhost", hosts=(), reached=("127.0.0.1", 80))


@pytest.mark.parametrize(
    ("origin", "allowed"),
    [
        ("http://127.0.0.1:8765", True),
        ("https://127.0.0.1:8765", True),
        (STUDIO_ORIGIN, True),
        ("http://127.0.0.1:3000", False),
        ("http://127.0.0.1", False),
        ("http://localhost:8765", False),
        ("http://evil.example", False),
        ("https://smith.langchain.com.evil.example", False),
        ("null", False),
        ("file://127.0.0.1:8765", False),
        ("http://127.0.0.1:8765/", False),
        ("http://evil@127.0.0.1:8765", False),
        ("http://[", False),
        ("http://127.0.0.1:8765é", False),
    ],
)
def test_origin_is_our_own_page_or_a_listed_one(origin: str, allowed: bool) -> None:
    assert is_origin_allowed(origin, host="127.0.0.1:8765", origins={STUDIO_ORIGIN}) is allowed


@given(st.text(), st.text())
def test_any_text_is_judged_and_only_a_known_host_allowed(host: str, origin: str) -> None:
    names = {"127.0.0.1:8765", "localhost:8765", "[::1]:8765"}
    assert is_host_allowed(host, hosts=(), reached=HERE) == (host.lower() in names)
    is_origin_allowed(origin, host=host, origins=())


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_client_that_asks_too_often_waits_and_others_do_not() -> None:
    clock = Clock()
    rate = Rate(per_second=10, burst=3, monotonic=clock)
    assert [rate.wait_s("a") for _ in range(4)] == [0, 0, 0, pytest.approx(0.1)]
    assert rate.wait_s("b") == 0
    clock.now += 0.1
    assert rate.wait_s("a") == 0
    assert rate.wait_s("a") > 0


def test_bucket_never_holds_more_than_a_burst() -> None:
    clock = Clock()
    rate = Rate(per_second=10, burst=3, monotonic=clock)
    rate.wait_s("a")
    clock.now += 3600
    assert [rate.wait_s("a") > 0 for _ in range(4)] == [False, False, False, True]


def test_clients_are_forgotten_before_they_fill_the_memory() -> None:
    rate = Rate(burst=1, monotonic=Clock())
    for number in range(CLIENTS_MAX + 1):
        rate.wait_s(str(number))
    assert rate.wait_s("0") == 0  # was forgotten
    assert rate.wait_s(str(CLIENTS_MAX)) > 0
