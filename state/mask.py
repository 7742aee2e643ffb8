"""Keys made unreadable: those this process knows, and in commands and logs what looks like one."""

import json
import re
from collections.abc import Collection, Mapping
from typing import Final

from lockstitch.state.settings import Settings

# what is shorter is a placeholder such as `ollama` or `EMPTY`, and found in prose
SECRET_CHARS_MIN: Final = 12
STARS: Final = "***"
_WORDS: Final = "key|token|secret|password|passwd|credentials?"
_NAMED: Final = re.compile(rf"({_WORDS})$", re.IGNORECASE)
_KEY_LIKE: Final = re.compile(
    r"\b(?:sk|gsk|xai|pplx|nvapi|lsv2|ghp|glpat)[-_][\w*-]{8,}|(?<=Bearer )[^\s'\"]+|(?<=Basic )[\w+/=]{8,}"
    r"|\b(?:gh[ousr]_|github_pat_|hf_|npm_|xox[abprs]-|pypi-|AKIA|ASIA|AIza)[\w-]{16,}"
    r"|\beyJ[\w-]{8,}\.[\w.-]+"  # a signed token
)
_VALUE: Final = r"(?:\"[^\"]*\"|'[^']*'|[^\s;&|'\"]+)"
# 40 characters of a name: without a limit a hostile command would take time by the square of its length
_NAME: Final = rf"[\w-]{{0,40}}(?:{_WORDS}|pwd|auth)"
_GIVEN: Final = re.compile(
    rf"(\b{_NAME}[\"']?\s*[=:]\s*){_VALUE}"  # TOKEN=..., --api-key=..., X-Api-Key: ..., "password": "..."
    rf"|((?:^|\s)--?{_NAME}\s+){_VALUE}"  # --password ...
    r"|((?:^|\s)(?:-u|--user)[\s=]*[^\s:]+:)\S+"  # curl -u name:...
    r"|(\b[a-z][a-z0-9+.-]{0,20}://[^\s/@:]*:)[^\s/@]+(?=@)",  # https://name:...@host
    re.IGNORECASE,
)


def find_secrets(settings: Settings, environment: Mapping[str, str]) -> frozenset[str]:
    """The keys that the settings and the environment hold."""
    keys = (settings.openai_api_key, settings.embeddings_api_key)
    named = {value for name, value in environment.items() if _NAMED.search(name)}
    return frozenset(named | {key.get_secret_value() for key in keys if key})


class Mask:
    """Puts stars in the place of known secrets; what is masked keeps its length."""

    def __init__(self, secrets: Collection[str]) -> None:
        forms = {form for secret in secrets if len(secret) >= SECRET_CHARS_MIN for form in _forms(secret)}
        # the longest first: one may be the beginning of another
        self._texts = sorted(forms, key=len, reverse=True)
        self._forms = [form.encode("utf-8", "surrogateescape") for form in self._texts]

    def text(self, text: str) -> str:
        """The text without secrets."""
        for form in self._texts:
            text = text.replace(form, "*" * len(form))
        return text

    def data(self, data: bytes) -> bytes:
        """The bytes, in UTF-8, without secrets; as many as before."""
        for form in self._forms:
            data = data.replace(form, b"*" * len(form))
        return data

    def beginning(self, data: bytes) -> int:
        """How many bytes at the end of `data` may be the beginning of a secret."""
        return max((_overlap(data, form) for form in self._forms), default=0)


def mask_key_like(text: str) -> str:
    """The text without what looks like a key of a known kind."""
    return _KEY_LIKE.sub(STARS, text)


def mask_command(text: str) -> str:
    """The command without what looks like a key, and without what it gives by the name of one."""
    return _GIVEN.sub(lambda found: f"{found[found.lastindex or 0]}{STARS}", mask_key_like(text))


def _forms(secret: str) -> set[str]:
    """The secret as it stands in text and in JSON."""
    return {secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]}


def _overlap(data: bytes, form: bytes) -> int:
    """The longest proper beginning of `form` that `data` ends with."""
    longest = min(len(data), len(form) - 1)
    return next((size for size in range(longest, 0, -1) if data.endswith(form[:size])), 0)
