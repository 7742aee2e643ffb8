"""What a client of a proxy asks for: `CONNECT host:port`, or one http request with a whole address."""

from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from lockstitch.state.errors import ToolValidationError
from lockstitch.tools.web.addresses import PORT_MAX, read_host

HEAD_BYTES: Final = 32 * 1024  # of a request's head; browsers send 8 KB at most
HOP_BY_HOP: Final = frozenset(
    {b"host", b"connection", b"keep-alive", b"proxy-authorization", b"proxy-connection", b"upgrade"}
)  # between the client and us, or set by us


@dataclass(frozen=True)
class ProxyRequest:
    """A host as `read_host` gives it, and its port. `head` is what to send there; empty for a tunnel."""

    host: str
    port: int
    head: bytes = b""


def read_request(head: bytes) -> ProxyRequest:
    """Read the head of a request, which ends with an empty line.

    A plain request is sent on with the Host of its own address, whatever Host it came with, and asks for
    the end of the connection: the next one goes through the gate again.

    Raises:
        ToolValidationError: it is no request, or none for a proxy.
    """
    import h11

    parser = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES)
    try:
        parser.receive_data(head)
        request = parser.next_event()
    except h11.RemoteProtocolError as error:
        raise ToolValidationError("this is no HTTP request.") from error
    if not isinstance(request, h11.Request) or parser.trailing_data[0]:
        raise ToolValidationError("this is no HTTP request.")
    target = request.target.decode("ascii")
    if request.method == b"CONNECT":
        return ProxyRequest(*read_authority(target, port=None))
    scheme, authority, path, query, _ = _split(target)
    if scheme != "http":
        raise ToolValidationError("a request to a proxy begins with CONNECT, or its address with http://.")
    host, port = read_authority(authority, port=80)
    origin = f"{path or '/'}?{query}" if query else path or "/"
    lines = [f"{request.method.decode('ascii')} {origin} HTTP/1.1".encode(), f"Host: {authority}".encode()]
    lines += [name + b": " + value for name, value in request.headers if name not in HOP_BY_HOP]
    return ProxyRequest(host, port, b"\r\n".join([*lines, b"Connection: close", b"", b""]))


def read_authority(text: str, *, port: int | None) -> tuple[str, int]:
    """Host and port of `host:port`, where an IPv6 address stands in brackets.

    Args:
        text: without a name and password of a person: those are refused.
        port: when none is written; None if one must be.

    Raises:
        ToolValidationError: the host is none, or the port.
    """
    host, colon, digits = text.rpartition(":") if not text.endswith("]") else (text, "", "")
    if not colon:
        host = text
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    number = int(digits) if digits.isascii() and digits.isdigit() and len(digits) <= 5 else port
    if (colon and not digits.isdigit()) or number is None or not 0 < number <= PORT_MAX:
        raise ToolValidationError("the port is missing, or is none: write host:443.")
    return read_host(host), number


def _split(target: str) -> tuple[str, str, str, str, str]:
    try:
        return urlsplit(target)
    except ValueError as error:
        raise ToolValidationError("the request's address is none.") from error
