"""Whether one request or WebSocket handshake may come in: decides, and sends nothing."""

from collections.abc import Callable, Collection
from typing import Final, Literal

from starlette.requests import HTTPConnection

from lockstitch.studio.security.addresses import HTTP_PORT, is_host_allowed, is_origin_allowed
from lockstitch.studio.security.login import STUDIO_PATH, cookie_of, studio_key
from lockstitch.studio.security.refusal import Headers, TurnedAwayError
from lockstitch.studio.security.token import is_same

Proof = Literal["token", "cookie", "studio", "none"]

OPEN_PATH: Final = "/ok"  # whether the server is up, for whoever waits for it; tells nothing else
READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
HOW_TO_COME_IN: Final = (
    "This server asks for its token. In a browser open the link that it printed; `lockstitch serve --link` "
    "makes another one. A program sends the token of the home folder as `Authorization: Bearer TOKEN`."
)


class Door:
    """The rules of one server.

    Args:
        token: what a client must prove to have.
        hosts: see `is_host_allowed`.
        origins: pages besides our own that may call, with the token or by Studio's address.
        body_max: bytes of a body or of one WebSocket message.
        wait_s: seconds that a client, named by its address, must wait before a request; see `Rate`.
    """

    def __init__(
        self,
        token: str,
        *,
        hosts: Collection[str],
        origins: Collection[str],
        body_max: int,
        wait_s: Callable[[str], float],
    ) -> None:
        self._token = token
        self._cookie = cookie_of(token)
        self._studio = studio_key(token)
        self._hosts = {host.lower() for host in hosts}
        self._origins = origins
        self._body_max = body_max
        self._wait_s = wait_s

    def check_way(self, request: HTTPConnection) -> None:
        """Check how a request comes, and not yet what it proves.

        Raises:
            TurnedAwayError: too often, by a wrong name, or from a page that may not call.
        """
        self._check_rate(request)
        self._check_addresses(request)

    def admit(self, request: HTTPConnection) -> Proof:
        """How the request proved that it may come in; `none` where nothing need be proved.

        Raises:
            TurnedAwayError: it may not.
        """
        self.check_way(request)
        if self._needs_no_proof(request):
            return "none"
        proof = self._proof(request)
        self._check_body(request)
        return proof

    def cors(self, request: HTTPConnection) -> Headers:
        """What lets a listed page read why it was refused."""
        origin = request.headers.get("origin", "")
        if origin not in self._origins:
            return []
        return [(b"access-control-allow-origin", origin.encode()), (b"vary", b"Origin")]

    def _check_rate(self, request: HTTPConnection) -> None:
        wait = self._wait_s(request.client.host if request.client else "")
        if wait:
            after = [(b"retry-after", str(int(wait) + 1).encode())]
            raise TurnedAwayError(
                429, "too_many_requests", "Too many requests: wait a moment.", headers=after
            )

    def _check_addresses(self, request: HTTPConnection) -> None:
        host = _only(request, "host")
        if not is_host_allowed(host, hosts=self._hosts, reached=_reached(request)):
            words = "This server is not reached by that name: use 127.0.0.1 and its port."
            raise TurnedAwayError(403, "host_not_allowed", words)
        origin = _only(request, "origin")
        if origin and not is_origin_allowed(origin, host=host, origins=self._origins):
            raise TurnedAwayError(403, "origin_not_allowed", "Pages of that origin may not call this server.")

    def _needs_no_proof(self, request: HTTPConnection) -> bool:
        if request["type"] == "websocket":
            return False
        method, path = str(request["method"]), str(request["path"])
        if method == "OPTIONS":  # a browser asks what a listed page may send, and cannot prove anything
            return request.headers.get("origin") in self._origins
        return (method, path) == ("GET", OPEN_PATH)

    def _proof(self, request: HTTPConnection) -> Proof:
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and is_same(given.strip(), self._token):
            return "token"
        if self._is_studio(request):
            return "studio"
        cookie = request.cookies.get(cookie_name(request), "")
        if cookie and is_same(cookie, self._cookie):
            _check_own_page(request)
            return "cookie"
        raise TurnedAwayError(401, "token_needed", HOW_TO_COME_IN, headers=[(b"www-authenticate", b"Bearer")])

    def _is_studio(self, request: HTTPConnection) -> bool:
        path: str = request["path"]
        key = path.removeprefix(STUDIO_PATH).partition("/")[0] if path.startswith(STUDIO_PATH) else ""
        from_studio = request.headers.get("origin", "") in self._origins
        return from_studio and is_same(key, self._studio)

    def _check_body(self, request: HTTPConnection) -> None:
        if request["type"] == "websocket":
            return
        size = request.headers.get("content-length", "0")
        if not size.isdecimal() or int(size) > self._body_max:
            raise too_large(self._body_max)
        given = size != "0" or "transfer-encoding" in request.headers
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if given and request["method"] not in READING and kind != "application/json":
            raise TurnedAwayError(415, "json_needed", "Send JSON, with `Content-Type: application/json`.")


def too_large(body_max: int) -> TurnedAwayError:
    """The refusal of a body or a message beyond the limit."""
    return TurnedAwayError(413, "too_large", f"That is more than {body_max:,} bytes.")


def cookie_name(request: HTTPConnection) -> str:
    """The cookie of this server: browsers do not keep those of two ports of one machine apart."""
    return f"lockstitch-{_reached(request)[1] or HTTP_PORT}"


def _check_own_page(request: HTTPConnection) -> None:
    """Believe a cookie only where our own page sends it: the browser adds it to what others ask for too."""
    changes = request["type"] == "websocket" or request["method"] not in READING
    site = request.headers.get("sec-fetch-site", "none")
    follows_link = not changes and request.headers.get("sec-fetch-mode") == "navigate"
    if (changes and "origin" not in request.headers) or (
        site not in {"same-origin", "none"} and not follows_link
    ):
        raise TurnedAwayError(403, "not_own_page", "Only this server's own page may do that with its cookie.")


def _only(request: HTTPConnection, name: str) -> str:
    """The one value of a header; empty where there is none, or more than one."""
    values = request.headers.getlist(name)
    if len(values) > 1:
        raise TurnedAwayError(400, "header_twice", f"The header {name} came more than once.")
    return values[0] if values else ""


def _reached(request: HTTPConnection) -> tuple[str, int | None]:
    server: tuple[str, int | None] = request.get("server") or ("", None)
    return server
