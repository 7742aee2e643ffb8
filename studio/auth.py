"""Who may call LangGraph's own API under `langgraph dev`: whoever shows the token of the home.

A second lock behind the guard of `studio/security`, which sees every request first and hands the token on for
those that proved to have it in another way. It holds for whatever the server might answer without the guard.
"""

import asyncio
from functools import cache

from langgraph_sdk import Auth

from lockstitch.state.home import prepare_home
from lockstitch.state.settings import load_settings
from lockstitch.studio.security.token import is_same, read_or_make_token

OWNER = "owner"  # one home, one person

auth = Auth()


@auth.authenticate
async def authenticate(authorization: str | None) -> str:
    """The person's name, for a request that shows the token.

    Raises:
        Auth.exceptions.HTTPException: 401, it does not.
    """
    scheme, _, given = (authorization or "").partition(" ")
    if scheme.lower() == "bearer" and is_same(given.strip(), await asyncio.to_thread(_token)):
        return OWNER
    raise Auth.exceptions.HTTPException(status_code=401, detail="This server asks for its token.")


@cache
def _token() -> str:
    return read_or_make_token(prepare_home(load_settings().home).path)
