"""Which addresses may be reached, and that a name is asked for once."""

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstitch.state.errors import RecoverableError, ToolExecutionError, ToolValidationError
from lockstitch.tools.web.addresses import is_own, is_public, read_host, resolve, system_lookup

PUBLIC = ("8.8.8.8", "93.184.216.34", "1.1.1.1", "2606:4700::1111", "2a00:1450:4001::200e")
OWN = ("127.0.0.1", "127.9.9.9", "10.0.0.1", "172.31.0.1", "192.168.1.1", "100.64.0.1", "::1", "fd12::1")
NOBODYS = (
    "0.0.0.0", "169.254.169.254", "169.254.1.1", "192.0.0.192", "192.0.2.1", "198.18.0.1", "203.0.113.9",
    "224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255", "192.88.99.1", "168.63.129.16",
    "100.100.100.200", "::", "::ffff:127.0.0.1", "::ffff:8.8.8.8", "::127.0.0.1", "64:ff9b::7f00:1",
    "64:ff9b::808:808", "64:ff9b:1::1", "2002:7f00:1::", "2002:808:808::1", "2001::1", "2001:db8::1",
    "2001:0:4136:e378:8000:63bf:3fff:fdd2", "fe80::1", "fe80::1%lo", "fec0::1", "ff02::1", "fd00:ec2::254",
    "3fff::1", "5f00::1", "100::1", "2606:4700::1111%lo",
)  # fmt: skip


@pytest.mark.parametrize("text", PUBLIC)
def test_hosts_of_the_internet_are_public(text: str) -> None:
    assert is_public(ip_address(text))
    assert not is_own(ip_address(text))


@pytest.mark.parametrize("text", OWN)
def test_private_addresses_are_ones_own_and_not_public(text: str) -> None:
    assert is_own(ip_address(text))
    assert not is_public(ip_address(text))


@pytest.mark.parametrize("text", NOBODYS)
def test_special_addresses_are_neither(text: str) -> None:
    assert not is_public(ip_address(text))
    assert not is_own(ip_address(text))


@given(st.ip_addresses(v=4, network="0.0.0.0/0"))
def test_no_wrapping_of_an_ipv4_address_in_ipv6_is_public(inner: IPv4Address) -> None:
    number = int(inner)
    for prefix, shift in (("::ffff:0:0", 0), ("64:ff9b::", 0), ("::", 0), ("2002::", 80), ("2001::", 0)):
        assert not is_public(IPv6Address(int(IPv6Address(prefix)) | number << shift))


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("Example.ORG", "example.org"), ("example.org.", "example.org"), ("127.0.0.1", "127.0.0.1"),
        ("2606:4700:0:0::1111", "2606:4700::1111"), ("xn--mnchen-3ya.de", "xn--mnchen-3ya.de"),
        ("a_b.example.org", "a_b.example.org"),
    ],
)  # fmt: skip
def test_a_host_has_one_spelling(text: str, host: str) -> None:
    assert read_host(text) == host


@pytest.mark.parametrize(
    "text",
    [
        "", ".", "..", "a..b", "-a.org", "a-.org", "a b", "a\tb", "a%00b", "a\0b", "*", "*.org", "münchen.de",
        "localhos\u24e3", "2130706433", "0x7f000001", "0x7f.1", "127.1", "0177.0.0.1", "127.0.0.0x1",
        "example.08", "1.2.3.4.5", "0x", "x" * 64 + ".org", "x." * 127 + "org", "user@example.org",
        "a.org:80", "[::1]", "example.org/",
    ],
)  # fmt: skip
def test_what_is_no_host_is_refused(text: str) -> None:
    with pytest.raises(ToolValidationError):
        read_host(text)


@given(st.text())
def test_whatever_is_given_as_a_host_is_read_or_refused(text: str) -> None:
    try:
        host = read_host(text)
    except ToolValidationError:
        return
    assert read_host(host) == host
    assert host.isascii()


class Names:
    """A lookup that knows these addresses of every name, and counts how often it is asked."""

    def __init__(self, *answers: Sequence[str] | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


async def test_all_addresses_of_a_name_come_in_their_order() -> None:
    names = Names(["8.8.8.8", "2606:4700::1111"])
    assert list(map(str, await resolve("a.org", 443, lookup=names))) == ["8.8.8.8", "2606:4700::1111"]
    assert names.asked == ["a.org"]


async def test_one_private_address_among_public_ones_refuses_the_name() -> None:
    with pytest.raises(ToolValidationError, match=r"a\.org is no host of the public internet"):
        await resolve("a.org", 443, lookup=Names(["8.8.8.8", "10.0.0.1"]))


async def test_a_name_of_ones_own_may_be_private_but_never_link_local() -> None:
    assert await resolve("docs", 80, lookup=Names(["192.168.1.5"]), own=True)
    with pytest.raises(ToolValidationError):
        await resolve("docs", 80, lookup=Names(["169.254.169.254"]), own=True)


async def test_an_address_is_not_looked_up() -> None:
    names = Names()
    assert await resolve("8.8.8.8", 80, lookup=names) == [ip_address("8.8.8.8")]
    assert names.asked == []


@pytest.mark.parametrize(
    "answer", [[], OSError("no such name"), UnicodeError("label too long"), ["no address"]], ids=str
)
async def test_a_name_without_addresses_says_what_to_do(answer: list[str] | Exception) -> None:
    with pytest.raises(ToolExecutionError, match="wrong, or this machine is offline"):
        await resolve("a.org", 443, lookup=Names(answer))


async def test_the_system_reads_numbers_and_the_local_name_as_what_is_refused() -> None:
    for host in ("127.0.0.1", "localhost"):
        with pytest.raises(RecoverableError):
            await resolve(host, 80, lookup=system_lookup)
