"""The one-time link by which a browser gets its cookie, and the address by which Studio comes in.

A link carries its own proof, so that any process that can read the token can make one for a server that
runs already. Which ones were used is known to the server alone, and it takes none from before its start.
"""

import secrets
import time
from collections.abc import Callable
from typing import Final

from lockstitch.studio.security.addresses import STUDIO_ORIGIN
from lockstitch.studio.security.token import derive, is_same

LOGIN_PATH: Final = "/login"
STUDIO_PATH: Final = "/for-studio/"  # followed by Studio's key, then by the path that is meant
CODE_S: Final = 600  # seconds that a link is good for: enough to find the browser, not to be found in a log
EARLY_S: Final = 1  # a code's time is in whole seconds
_NONCE_BYTES: Final = 12  # no two links alike


def make_link(base_url: str, token: str, *, now: float) -> str:
    """A link that logs one browser in at the server with this token; `now` in seconds since 1970."""
    unsigned = f"{int(now)}.{secrets.token_hex(_NONCE_BYTES)}"
    return f"{base_url}{LOGIN_PATH}?once={unsigned}.{_signature(unsigned, token)}"


def make_studio_url(base_url: str, token: str) -> str:
    """The address to give LangGraph Studio as its base URL: its pages cannot send a token in a header."""
    return f"{base_url}{STUDIO_PATH}{studio_key(token)}"


def describe_links(base_url: str, token: str, *, now: float, studio: bool) -> str:
    """The lines that tell a person how to come in; the one of Studio for `langgraph dev` alone."""
    minutes = CODE_S // 60
    lines = [f"Page:   {make_link(base_url, token, now=now)}   (for one browser, within {minutes} minutes)"]
    if studio:
        lines.append(f"Studio: {STUDIO_ORIGIN}/studio/?baseUrl={make_studio_url(base_url, token)}")
    return "\n".join(lines)


def studio_key(token: str) -> str:
    """What stands in Studio's address; worth something only in requests that Studio's page makes."""
    return derive(token, "studio")


def cookie_of(token: str) -> str:
    """The value of the cookie of every browser that logged in."""
    return derive(token, "cookie")


class Codes:
    """The one-time codes that one server accepts."""

    def __init__(self, token: str, now: Callable[[], float] = time.time) -> None:
        self._token = token
        self._now = now
        self._since = now() - EARLY_S
        self._used: dict[str, float] = {}  # until when each would have been good

    def take(self, code: str) -> bool:
        """Whether the code is good; afterwards it is not any more."""
        unsigned, _, signature = code.rpartition(".")
        made, _, _ = unsigned.partition(".")
        if not is_same(signature, _signature(unsigned, self._token)) or code in self._used:
            return False
        now = self._now()
        if not max(self._since, now - CODE_S) <= int(made) <= now + EARLY_S:
            return False
        self._used = {used: until for used, until in self._used.items() if until > now}
        self._used[code] = now + CODE_S + EARLY_S
        return True


def _signature(unsigned: str, token: str) -> str:
    return derive(token, f"login {unsigned}")
