"""Addresses of web pages: read once and strictly, so that what is checked is what is asked for."""

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import SplitResult, quote, urljoin, urlsplit

from lockstitch.state.errors import ToolValidationError
from lockstitch.tools.web.addresses import PORT_MAX, USUAL_PORTS, read_host

URL_CHARS: Final = 2_000  # what servers and browsers take
PUBLIC_PORTS: Final = (*USUAL_PORTS, 8000, 8080, 8443)  # others are hardly the web: mail, databases, shells
SCHEMES: Final = {"http": 80, "https": 443}  # with their usual ports
_KEPT: Final = "/?:@!$&'()*+,;=-._~%[]|"  # of path and query, as they were written
_UNFIT: Final = re.compile(r"[\x00-\x20\x7f\\]")  # read differently by different programs


@dataclass(frozen=True)
class WebAddress:
    """Where a page is. `host` as `read_host` gives it, `target` path and query in ASCII."""

    scheme: str
    host: str
    port: int
    target: str

    @property
    def written_host(self) -> str:
        """The host as it stands in a URL: an IPv6 address in brackets."""
        return f"[{self.host}]" if ":" in self.host else self.host

    @property
    def authority(self) -> str:
        """The host as it stands in a URL, with its port if that is not the usual one."""
        host = self.written_host
        return host if self.port == SCHEMES[self.scheme] else f"{host}:{self.port}"

    def __str__(self) -> str:
        """The whole URL; it never holds a name and password of a person."""
        return f"{self.scheme}://{self.authority}{self.target}"

    def follow(self, location: str) -> "WebAddress":
        """Where a redirect from here leads.

        Raises:
            ToolValidationError: to what is no web address.
        """
        try:
            return read_web_address(urljoin(str(self), location))
        except ValueError as error:
            raise _no_address() from error


def read_web_address(text: str) -> WebAddress:
    """The web address that `text` is.

    Raises:
        ToolValidationError: it is none; or it holds a password, or what programs read in different ways.
    """
    if len(text) > URL_CHARS or _UNFIT.search(text):
        raise _no_address()
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise _no_address() from error
    if parts.scheme not in SCHEMES:
        raise ToolValidationError("only http:// and https:// are fetched. For files there is read_file.")
    if "@" in parts.netloc:
        raise ToolValidationError("a URL with a name or password before @ is not fetched: leave them out.")
    number = SCHEMES[parts.scheme] if port is None else port
    if not 0 < number <= PORT_MAX:
        raise _no_address()
    return WebAddress(parts.scheme, _read_host(parts), number, _target(parts))


def is_named(address: WebAddress, names: tuple[str, ...]) -> bool:
    """Whether a person named this host: `docs.lan` on its usual ports, or `docs.lan:8000` on that one."""
    host = address.written_host
    named = {name.lower() for name in names}
    return f"{host}:{address.port}" in named or (address.port in USUAL_PORTS and host in named)


def _read_host(parts: SplitResult) -> str:
    import idna

    host = parts.hostname or ""
    if not host.isascii():
        try:
            host = idna.encode(host, uts46=True).decode("ascii")
        except (idna.IDNAError, UnicodeError) as error:
            raise _no_address() from error
    return read_host(host)


def _target(parts: SplitResult) -> str:
    path, query = quote(parts.path or "/", safe=_KEPT), quote(parts.query, safe=_KEPT)
    return f"{path}?{query}" if query else path


def _no_address() -> ToolValidationError:
    return ToolValidationError("this is no web address: write it as https://example.org/path.")
