"""Which `Host` and `Origin` a request may come with: what a browser says about the page that sends it.

A page of another site can reach a server on this machine in two ways. By its real address: then `Origin`
names the page. By a name of its own that resolves to this machine (DNS rebinding): then `Host` names it.
"""

import re
from collections.abc import Collection
from ipaddress import ip_address
from typing import Final

LOOPBACK_HOSTS: Final = frozenset({"127.0.0.1", "localhost", "[::1]"})
HTTP_PORT: Final = 80  # of a URL that names none
STUDIO_ORIGIN: Final = "https://smith.langchain.com"  # the hosted page of LangGraph Studio

_HOST: Final = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[a-z0-9_.-]+)(:(?P<port>[0-9]{1,5}))?", re.IGNORECASE)


def is_host_allowed(host: str, *, hosts: Collection[str], reached: tuple[str, int | None]) -> bool:
    """Whether `host`, as the header has it, names this server.

    Args:
        host: a name or address, with or without a port.
        hosts: what else than this machine's own names is allowed, at the port reached or with its own.
        reached: address and port that the connection came to. An address that is meant literally cannot
            be rebound, so it is allowed like the names of this machine.
    """
    if host.lower() in hosts:
        return True
    found = _HOST.fullmatch(host)
    if not found:
        return False
    address, port = reached
    names = {*LOOPBACK_HOSTS, *hosts, *([address_as_host(address)] if _is_ip(address) else [])}
    return found["name"].lower() in names and int(found["port"] or HTTP_PORT) == (port or HTTP_PORT)


def is_origin_allowed(origin: str, *, host: str, origins: Collection[str]) -> bool:
    """Whether a page from `origin` may call: our own, which has the host of the request, or a listed one."""
    own = {f"{scheme}://{host.lower()}" for scheme in ("http", "https")}
    return origin.lower() in own or origin in origins


def address_as_host(address: str) -> str:
    """An address as it stands in a `Host` header or URL: IPv6 in brackets."""
    return f"[{address}]" if ":" in address else address


def _is_ip(address: str) -> bool:
    try:
        ip_address(address)
    except ValueError:
        return False
    return True
