"""The token of a home: whoever shows it may do all that the home's owner may.

What browsers are given instead of it is derived here, so that a cookie or an address never holds it.
"""

import hashlib
import hmac
import os
import re
import secrets
from pathlib import Path
from typing import Final

from lockstitch.state.database_file import FILE_MODE
from lockstitch.state.errors import HomeUnusableError
from lockstitch.state.home import explain_refusal

TOKEN_BYTES: Final = 32  # 256 bits: nobody guesses it, however many tries there are
_SHAPE: Final = re.compile(r"[\w-]{43,}")  # TOKEN_BYTES in URL-safe base64; a person may write a longer one


def token_file(home: Path) -> Path:
    """Where the token of a home lies."""
    return home / "token"


def read_or_make_token(home: Path) -> str:
    """The token of an existing home; a new random one, mode 0600, where there is none yet.

    Raises:
        HomeUnusableError: it cannot be read or written, or the file holds something else.
    """
    path = token_file(home)
    try:
        if not path.exists():
            _make(path)
        return _read(path)
    except OSError as error:
        raise _unusable(explain_refusal(error)) from error


def derive(token: str, purpose: str) -> str:
    """A secret for one purpose: it proves that its maker had the token, and tells nothing about it."""
    said = purpose.encode(errors="surrogatepass")  # a stranger may send half of a surrogate pair
    return hmac.new(token.encode(), said, hashlib.sha256).hexdigest()


def is_same(given: str, secret: str) -> bool:
    """Compare in a time that does not tell how much of `given` is right."""
    return hmac.compare_digest(given.encode("utf-8", "replace"), secret.encode())


def _make(path: Path) -> None:
    """Write it whole under another name first: two servers that start at once get the same one."""
    draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(secrets.token_urlsafe(TOKEN_BYTES) + "\n")
        os.link(draft, path)
    except FileExistsError:
        pass  # the other server's
    finally:
        draft.unlink()


def _read(path: Path) -> str:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    with os.fdopen(descriptor, encoding="utf-8", errors="replace") as file:
        if os.fstat(descriptor).st_mode & 0o077:
            os.fchmod(descriptor, FILE_MODE)
        token = file.read().strip()
    if not _SHAPE.fullmatch(token):
        raise _unusable("holds no token")
    return token


def _unusable(words: str) -> HomeUnusableError:
    return HomeUnusableError(
        f"the file token in the home folder {words}. Delete it: the next start makes one."
    )
