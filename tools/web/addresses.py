"""Which addresses of the network may be reached, and looking a name up once for all of a connection.

It decides on addresses alone, never on names: whoever connects must connect to an address it returned.
"""

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

from lockstitch.state.errors import ToolExecutionError, ToolValidationError

Address = IPv4Address | IPv6Address
Lookup = Callable[[str, int], Awaitable[Sequence[str]]]
"""Host and port to the addresses of the name, as text. Raises OSError when there are none."""

HOST_CHARS: Final = 253  # of a whole name, RFC 1035
PORT_MAX: Final = 65_535
USUAL_PORTS: Final = (80, 443)  # of http and https
GLOBAL_V6: Final = IPv6Network("2000::/3")  # all that is handed out; mapped, NAT64 and local ones lie outside

# In the public ranges, and yet no host of the internet: is_global of Python 3.11 lets these pass.
NEVER_PUBLIC: Final = (
    "192.0.0.0/24",  # IETF protocols, and the metadata service of one cloud
    "192.88.99.0/24",  # 6to4 relays
    "168.63.129.16/32",  # the host below a virtual machine of one cloud
    "2001::/23",  # IETF protocols: Teredo and others wrap an IPv4 address
    "2002::/16",  # 6to4 wraps an IPv4 address
    "3fff::/20",  # for documentation
)
OF_ONES_OWN: Final = (  # where a person's own servers are
    *("127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10"),
    *("::1/128", "fc00::/7"),
)
METADATA: Final = frozenset(
    {ip_address("100.100.100.200"), ip_address("fd00:ec2::254")}
)  # keys of a cloud machine, in the ranges of one's own

_NAME: Final = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)(\.(?!-)[a-z0-9_-]{1,63}(?<!-))*")
_NUMBER: Final = re.compile(r"(\d+|0x[0-9a-f]*)")  # what the system reads as an address, or as a part of one


async def system_lookup(host: str, port: int) -> list[str]:
    """The addresses of a name, as the system finds them, the best first."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


async def resolve(host: str, port: int, *, lookup: Lookup, own: bool = False) -> list[Address]:
    """All addresses of a host, each checked. A name of which one address is refused is refused as a whole.

    Args:
        host: as `read_host` gives it.
        port: handed to `lookup`, which finds the same addresses for any.
        lookup: asked once; not for a host that is an address.
        own: whether the person named this host as a private one.

    Raises:
        ToolValidationError: one address is not for this program to reach.
        ToolExecutionError: the name has no address, or nobody answers who would know.
    """
    try:
        texts = [host] if literal(host) else await lookup(host, port)
        addresses = [ip_address(text) for text in texts]
    except (OSError, UnicodeError, ValueError) as error:
        raise _not_found(host) from error
    if not addresses:
        raise _not_found(host)
    if not all(is_public(address) or (own and is_own(address)) for address in addresses):
        raise ToolValidationError(
            f"{host} is no host of the public internet: private, local and special addresses are not reached."
        )
    return addresses


def read_host(text: str) -> str:
    """A host in its one spelling: lower case, ASCII, no final dot, an address without brackets.

    Raises:
        ToolValidationError: it is none, or a number that only some programs read as an address.
    """
    host = text.lower().removesuffix(".")
    if literal(host):
        return str(literal(host))
    if len(host) > HOST_CHARS or not _NAME.fullmatch(host):
        raise ToolValidationError("the host is no name and no address: write it as example.org.")
    if _NUMBER.fullmatch(host.rpartition(".")[2]):
        raise ToolValidationError("the host is a number: write a name, or an address as 192.0.2.1.")
    return host


def literal(host: str) -> Address | None:
    """The address that a host is; None for a name."""
    try:
        return ip_address(host)
    except ValueError:
        return None


def is_public(address: Address) -> bool:
    """Whether this is a host of the internet, and nothing that leads elsewhere."""
    if isinstance(address, IPv6Address) and (address not in GLOBAL_V6 or address.scope_id):
        return False
    special = address.is_multicast or address.is_reserved or not address.is_global
    return not special and not _is_in(address, NEVER_PUBLIC)


def is_own(address: Address) -> bool:
    """Whether this may be a person's own server: loopback and private, but no link-local or metadata one."""
    return _is_in(address, OF_ONES_OWN) and address not in METADATA


def _is_in(address: Address, ranges: Iterable[str]) -> bool:
    return any(address in _network(text) for text in ranges)


@cache
def _network(text: str) -> IPv4Network | IPv6Network:
    return ip_network(text)


def _not_found(host: str) -> ToolExecutionError:
    return ToolExecutionError(
        f"no address is known for {host}: the name is wrong, or this machine is offline. Try another, or work"
        " without it."
    )
