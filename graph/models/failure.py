"""What a failed model call means: to the router (again, elsewhere, not at all) and to the operator.

The operator gets one line that says what to do. No key, no stack trace, no words of ours or of the endpoint
in the cause either: some endpoints repeat the key.
"""

import re
from dataclasses import dataclass
from typing import Any, Final, Literal

from lockstitch.graph.models.choice import PROVIDERS, ModelChoice
from lockstitch.graph.models.retry import asked_wait_s
from lockstitch.state.errors import ContextOverflowError, ModelError

Verdict = Literal["again", "elsewhere", "refused", "overflow"]
"""The same model may answer soon; only another one may; the request is at fault; it is too long."""

_BY_STATUS: dict[int, str] = {
    400: "the endpoint refused the request{detail}. Check that the model can call tools",
    401: "the endpoint refused the key (401). Set {key} to a valid one",
    403: "the key may not use this model (403). Choose another with --model, or another key",
    404: "the endpoint knows no such model or address (404). Check --model and OPENAI_BASE_URL",
    408: "the endpoint timed out (408). Try again",
    429: "the endpoint's rate limit or quota is used up (429). Wait, or raise the quota",
}
_OVERFLOW: Final = (
    "the conversation is longer than the model can read. Set LOCKSTITCH_CONTEXT_WINDOW to its true size, "
    "begin a new thread, or choose another model"
)
_HINT: Final = "Check OPENAI_BASE_URL, which usually ends in /v1, and --model"
_KEPT: Final = "The thread is kept and can go on."
_DETAIL_CHARS: Final = 200  # of an endpoint's own words, enough for one sentence
_KEY_HEADERS: Final = ("authorization", "x-api-key", "api-key", "x-goog-api-key")
_KEY_CHARS_MIN: Final = 8  # shorter is a placeholder such as `none`, and may be a word of any sentence
_KEY_LIKE: Final = re.compile(r"\b(?:sk|gsk|xai|pplx|nvapi)[-_][\w*-]+")  # of the providers that mark theirs

_AGAIN: Final = frozenset({408, 409, 429})  # and 500 up
_REFUSED: Final = frozenset({400, 413, 422})
_MAY_OVERFLOW: Final = frozenset({400, 413, 422, 500})  # 500: older llama.cpp
# What endpoints that put the error into a reply of status 200, or into a stream, call it.
_STATUS_BY_TYPE: Final = {
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "insufficient_quota": 429,
    "overloaded_error": 529,
    "server_error": 500,
    "api_error": 500,
    "context_length_exceeded": 400,
    "invalid_request_error": 400,
}
_NO_QUOTA: Final = re.compile(r"insufficient_quota|billing_hard_limit|exceeded your current quota", re.I)
_NO_KEY: Final = re.compile(
    r"(?:invalid|incorrect) api[ _]key|api[ _]key (?:is )?(?:not valid|invalid)", re.I
)
_TOO_LONG: Final = re.compile(
    r"context_length_exceeded|maximum (?:context|prompt) length|(?:prompt|input) is too long"
    r"|exceed\w*(?: the| max(?:imum)?)*(?: available| model's)? context"
    r"|longer than the (?:maximum )?(?:model|context) length|prompt too long"
    r"|exceeds the maximum number of tokens|reduce the length of the (?:messages|prompt|input)",
    re.I,
)


class BrokenStreamError(ConnectionError):
    """A stream ended before the reply did."""


class ErrorReplyError(Exception):
    """A reply of status 200 that holds nothing but an error, as gateways give it."""

    def __init__(self, body: object, *, key: str = "") -> None:
        super().__init__("the reply is an error")
        self.body = body
        self.key = key  # that was sent, and may be repeated in the body


class ClientError(Exception):
    """Stands for a client's error as the cause of ours: its kind and its place in the code, not its words."""


@dataclass(frozen=True)
class Failure:
    """One failed call.

    Attributes:
        brief: what happened, in a few words.
        said: the same with the model's name.
        wait_s: what the endpoint asks to wait; None where it asks for nothing.
        error: what the operator is shown, when nothing helps.
    """

    verdict: Verdict
    brief: str
    said: str
    wait_s: float | None
    error: ModelError


def read_failure(error: Exception, choice: ModelChoice) -> Failure:
    """What `error` means, raised by the client of `choice`."""
    brief = _brief(error)
    error_shown = explain_failure(error, choice)
    return Failure(_judge(error), brief, f"{choice}: {brief}", asked_wait_s(error), error_shown)


def explain_failure(error: Exception, choice: ModelChoice) -> ModelError:
    """The error a person is shown for `error`; its cause tells the kind of `error` and its place only."""
    what = f"{choice}: {_what(error, choice)}. {_KEPT}"
    ours = ContextOverflowError(what) if _judge(error) == "overflow" else ModelError(what)
    kind = type(error)
    ours.__cause__ = ClientError(f"{kind.__module__}.{kind.__qualname__}").with_traceback(error.__traceback__)
    return ours


def _judge(error: Exception) -> Verdict:
    status, said = _status(error), _said(error)
    if _overflows(error, status, said):
        return "overflow"
    if status is None:
        return "again" if _is_fault_of_the_line(error) else "elsewhere"
    if _NO_QUOTA.search(said) or (status == 400 and _NO_KEY.search(said)) or _forbids_retry(error):
        return "elsewhere"
    if status in _AGAIN or status >= 500:
        return "again"
    return "refused" if status in _REFUSED else "elsewhere"


def _overflows(error: Exception, status: int | None, said: str) -> bool:
    if status == 413 or any(kind.__name__ == "ContextOverflowError" for kind in type(error).__mro__):
        return True
    return status in _MAY_OVERFLOW and bool(_TOO_LONG.search(said))


def _brief(error: Exception) -> str:
    status = _status(error)
    if status is None:
        return _brief_without_status(error)
    if _judge(error) == "overflow":
        return f"conversation too long ({status})"
    if status == 429:
        return f"{'quota used up' if _NO_QUOTA.search(_said(error)) else 'rate limit'} (429)"
    words = {401: "key refused", 403: "not allowed", 404: "no such model or address"}
    return f"{words.get(status, 'endpoint failed' if status >= 500 else 'request refused')} ({status})"


def _brief_without_status(error: Exception) -> str:
    if isinstance(error, BrokenStreamError):
        return "stream broke off"
    if _is_timeout(error):
        return "no answer in time"
    if _is_fault_of_the_line(error):
        return "cannot be reached"
    return f"unreadable answer ({type(error).__name__})"


def _what(error: Exception, choice: ModelChoice) -> str:
    status = _status(error)
    if _judge(error) == "overflow":
        return _OVERFLOW
    if status is not None:
        return _status_text(status, error, choice)
    if isinstance(error, BrokenStreamError):
        return "the stream broke off. Try again"
    if _is_timeout(error):
        return "no answer in time. Try again, or raise LOCKSTITCH_MODEL_TIMEOUT_S"
    if _is_fault_of_the_line(error):
        return "the endpoint cannot be reached. Check OPENAI_BASE_URL and that its server runs"
    kind = type(error).__name__
    if isinstance(error, ValueError | LookupError | TypeError | ErrorReplyError):  # unreadable to the client
        return f"the endpoint's answer is none of an OpenAI-compatible API ({kind}){_detail(error)}. {_HINT}"
    return f"the model client failed ({kind}). {_HINT}"


def _status_text(status: int, error: Exception, choice: ModelChoice) -> str:
    asked = asked_wait_s(error)
    wait = f". It asks to wait {asked:.0f} s" if asked else ""
    if status >= 500:
        return f"the endpoint failed ({status}). Try again later{wait}"
    text = _BY_STATUS.get(status, "the endpoint answered " + str(status) + "{detail}")
    key = f"the key of {choice.provider}" if choice.provider in PROVIDERS else "OPENAI_API_KEY"
    return text.format(detail=_detail(error), key=key) + wait


def _is_timeout(error: Exception) -> bool:
    return "Timeout" in type(error).__name__ or isinstance(error, TimeoutError)


def _is_fault_of_the_line(error: Exception) -> bool:
    kind = type(error).__name__
    broken = "Connect" in kind or "Protocol" in kind or isinstance(error, OSError)  # httpx names them so
    return broken or _is_timeout(error) or kind == "APIError"  # an error in the midst of a stream


def _forbids_retry(error: Exception) -> bool:
    """OpenAI's header, which says of some of its 409s and 429s that no retry will help."""
    headers: Any = getattr(getattr(error, "response", None), "headers", None) or {}
    return bool(headers.get("x-should-retry") == "false")


def _status(error: Exception) -> int | None:
    """The HTTP status, or the one that the body of an error in a reply of status 200 amounts to."""
    status = getattr(error, "status_code", None)
    if isinstance(status, int):
        return status
    body = _body(error)
    for name in ("code", "type"):
        code = str(body.get(name))
        if code.isdecimal() and 400 <= int(code) < 600:
            return int(code)
        if code in _STATUS_BY_TYPE:
            return _STATUS_BY_TYPE[code]
    return None


def _said(error: Exception) -> str:
    """All that the endpoint said about the error, for a look at its words."""
    body = _body(error)
    return " ".join(str(body.get(name)) for name in ("code", "type", "message")) if body else str(error)


def _body(error: Exception) -> dict[str, Any]:
    """The JSON of the error, in OpenAI's shape; Anthropic has the same one level down."""
    body = getattr(error, "body", None)
    inner = body.get("error") if isinstance(body, dict) else None
    found = inner if isinstance(inner, dict) else body
    return found if isinstance(found, dict) else {}


def _detail(error: Exception) -> str:
    """The endpoint's own message."""
    message = _body(error).get("message")
    if not isinstance(message, str):
        return ""
    return f": {' '.join(_masked(message, error).split())[:_DETAIL_CHARS].rstrip('. ')}"


def _masked(text: str, error: Exception) -> str:
    """The text without the key that was sent, which some endpoints repeat, or anything like a key."""
    headers = getattr(getattr(error, "request", None), "headers", {})
    keys = [headers.get(name, "").removeprefix("Bearer ") for name in _KEY_HEADERS]
    for key in [*keys, getattr(error, "key", "")]:
        if len(key) >= _KEY_CHARS_MIN:
            text = text.replace(key, "***")
    return _KEY_LIKE.sub("***", text)
