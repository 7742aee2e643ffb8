"""What a failed model call means to the operator: one line that says what to do. No key, no stack trace."""

import re
from typing import Final

from lockstitch.graph.models.choice import PROVIDERS, ModelChoice
from lockstitch.state.errors import ModelError

_BY_STATUS: dict[int, str] = {
    400: "the endpoint refused the request{detail}. Check that the model can call tools",
    401: "the endpoint refused the key (401). Set {key} to a valid one",
    403: "the key may not use this model (403). Choose another with --model, or another key",
    404: "the endpoint knows no such model or address (404). Check --model and OPENAI_BASE_URL",
    408: "the endpoint timed out (408). Try again",
    413: "the conversation is too large for the endpoint (413). Begin a new thread",
    429: "the endpoint's rate limit or quota is used up (429). Wait, or raise the quota",
}
_HINT: Final = "Check OPENAI_BASE_URL, which usually ends in /v1, and --model"
_DETAIL_CHARS: Final = 200  # of an endpoint's own words, enough for one sentence
_KEY_HEADERS: Final = ("authorization", "x-api-key", "api-key", "x-goog-api-key")
_KEY_CHARS_MIN: Final = 8  # shorter is a placeholder such as `none`, and may be a word of any sentence
_KEY_LIKE: Final = re.compile(r"\b(?:sk|gsk|xai|pplx|nvapi)[-_][\w*-]+")  # of the providers that mark theirs


def explain_failure(error: Exception, choice: ModelChoice) -> ModelError:
    """The error a person is shown for `error`, raised by the client of `choice`."""
    status = getattr(error, "status_code", None)
    if isinstance(status, int):
        return ModelError(
            f"{choice}: {_status_text(status, error, choice)}. The thread is kept and can go on."
        )
    kind = type(error).__name__
    if "Timeout" in kind or isinstance(error, TimeoutError):
        what = "no answer in time. Try again, or raise LOCKSTITCH_MODEL_TIMEOUT_S"
    elif "Connection" in kind or "Connect" in kind or isinstance(error, OSError):
        what = "the endpoint cannot be reached. Check OPENAI_BASE_URL and that its server runs"
    elif isinstance(error, ValueError | LookupError | TypeError):  # the client could not read the reply
        what = f"the endpoint's answer is none of an OpenAI-compatible API ({kind}). {_HINT}"
    else:
        what = f"the model client failed ({kind}). {_HINT}"
    return ModelError(f"{choice}: {what}. The thread is kept and can go on.")


def _status_text(status: int, error: Exception, choice: ModelChoice) -> str:
    if status >= 500:
        return f"the endpoint failed ({status}). Try again later"
    text = _BY_STATUS.get(status, "the endpoint answered " + str(status) + "{detail}")
    key = f"the key of {choice.provider}" if choice.provider in PROVIDERS else "OPENAI_API_KEY"
    return text.format(detail=_detail(error), key=key)


def _detail(error: Exception) -> str:
    """The endpoint's own message from its JSON body, in the shape OpenAI gives it."""
    body = getattr(error, "body", None)
    message = body.get("message") if isinstance(body, dict) else None
    if not isinstance(message, str):
        return ""
    return f": {' '.join(_masked(message, error).split())[:_DETAIL_CHARS].rstrip('. ')}"


def _masked(text: str, error: Exception) -> str:
    """The text without the key that was sent, which some endpoints repeat, or anything like a key."""
    headers = getattr(getattr(error, "request", None), "headers", {})
    keys = (headers.get(name, "").removeprefix("Bearer ") for name in _KEY_HEADERS)
    for key in keys:
        if len(key) >= _KEY_CHARS_MIN:
            text = text.replace(key, "***")
    return _KEY_LIKE.sub("***", text)
