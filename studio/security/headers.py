"""What every answer tells the browser: run and load what comes from here alone, frame nothing."""

from typing import Final

from lockstitch.studio.security.refusal import Headers

CONTENT_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; frame-ancestors 'none'; form-action 'none'"
)
ALWAYS: Final = (
    (b"content-security-policy", CONTENT_POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),  # for browsers that do not know frame-ancestors
    (b"referrer-policy", b"no-referrer"),  # the login link and Studio's address hold secrets
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), microphone=(), geolocation=()"),
)
UNLESS_SAID: Final = ((b"cache-control", b"no-store"),)  # the page's files say something else
_OURS: Final = frozenset(name for name, _ in ALWAYS)


def secured(headers: Headers) -> Headers:
    """The headers of an answer with ours, which win."""
    kept = [(name, value) for name, value in headers if name.lower() not in _OURS]
    said = {name.lower() for name, _ in kept}
    return [*kept, *ALWAYS, *(header for header in UNLESS_SAID if header[0] not in said)]
