"""Which models the configured endpoint serves, by its own word."""

from typing import Final

from lockstitch.graph.models.build import NO_KEY_NEEDED
from lockstitch.graph.models.choice import NO_MODEL
from lockstitch.state.errors import ModelError, NoModelError
from lockstitch.state.settings import Settings

TIMEOUT_S: Final = 30.0  # for a list that an endpoint has at hand; a reply may take far longer
_HINT: Final = "Check OPENAI_BASE_URL, which usually ends in /v1"
_BY_STATUS: Final = {
    401: "refused the key (401). Set OPENAI_API_KEY to a valid one",
    403: "does not show its models to this key (403). Set OPENAI_API_KEY to another",
    404: f"has no list of models (404). {_HINT}",
    429: "has a rate limit or quota that is used up (429). Wait, or raise the quota",
}


def list_served(settings: Settings) -> list[str]:
    """Names of models as the endpoint wants them, sorted. Sends one request.

    Raises:
        NoModelError: there is neither a key nor an endpoint.
        ModelError: the endpoint cannot be reached, refused, or sent no list of models.
    """
    key = settings.openai_api_key
    if not key and not settings.openai_base_url:
        raise NoModelError(NO_MODEL)
    from openai import APIError, OpenAI

    timeout_s = min(settings.model_timeout_s, TIMEOUT_S)
    secret = key.get_secret_value() if key else NO_KEY_NEEDED
    try:
        with OpenAI(
            api_key=secret, base_url=settings.openai_base_url, timeout=timeout_s, max_retries=0
        ) as client:
            return sorted({str(model.id) for model in client.models.list()})
    except APIError as error:
        raise ModelError(f"the endpoint {_explain(error)}.") from error
    except (ValueError, TypeError, AttributeError) as error:  # of the client, over a body of another shape
        raise ModelError(f"the endpoint sent no list of models. {_HINT}.") from error


def _explain(error: Exception) -> str:
    status = getattr(error, "status_code", None)
    if isinstance(status, int):
        return _BY_STATUS.get(status, f"answered {status}. Try again later")
    if "Timeout" in type(error).__name__:
        return f"did not answer within {TIMEOUT_S:.0f} s. Try again"
    if "Connection" in type(error).__name__:
        return "cannot be reached. Check OPENAI_BASE_URL and that its server runs"
    return f"sent no list of models. {_HINT}"
