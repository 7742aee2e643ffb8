"""Which model a name means: `gpt-5`, `openai:qwen3:8b`, `anthropic:claude-…`, `scripted:FILE`."""

from dataclasses import dataclass
from typing import Final

from lockstitch.state.errors import NoModelError
from lockstitch.state.settings import Settings

# The names langchain's `init_chat_model` knows, so that `qwen3:8b` stays a model name with a colon in it.
PROVIDERS: Final = frozenset(
    {
        "anthropic",
        "azure_ai",
        "azure_openai",
        "bedrock",
        "bedrock_converse",
        "cohere",
        "deepseek",
        "fireworks",
        "google_genai",
        "google_vertexai",
        "groq",
        "huggingface",
        "mistralai",
        "nvidia",
        "ollama",
        "openrouter",
        "perplexity",
        "together",
        "upstage",
        "xai",
    }
)

NO_MODEL: Final = (
    "no model is configured. Set OPENAI_API_KEY (with LOCKSTITCH_MODEL or --model), or OPENAI_BASE_URL for "
    "any OpenAI-compatible endpoint; `lockstitch demo` shows the agent at work without either."
)
DEFAULT_OPENAI_MODEL: Final = "gpt-5-mini"  # used when only a key is set: cheap, and able to call tools


@dataclass(frozen=True)
class ModelChoice:
    """A provider (`openai`, `scripted`, or one of PROVIDERS) and its own name for the model."""

    provider: str
    name: str

    def __str__(self) -> str:
        return self.name if self.provider == "openai" else f"{self.provider}:{self.name}"


def parse_model(text: str) -> ModelChoice:
    """Read `provider:name`; without a known provider the whole text is an OpenAI-compatible name."""
    provider, colon, name = text.partition(":")
    if colon and name and (provider in PROVIDERS or provider in ("openai", "scripted")):
        return ModelChoice(provider, name)
    return ModelChoice("openai", text)


def choose_model(asked: str | None, settings: Settings) -> ModelChoice:
    """The model of a run: the one asked for, the setting, or a default where a key says which provider.

    Raises:
        NoModelError: nothing is configured; the message names what to set.
    """
    text = asked or settings.model
    if text:
        choice = parse_model(text)
        if choice.provider == "openai" and not (settings.openai_api_key or settings.openai_base_url):
            raise NoModelError(NO_MODEL)
        return choice
    if settings.openai_api_key and not settings.openai_base_url:
        return ModelChoice("openai", DEFAULT_OPENAI_MODEL)
    if settings.openai_base_url:
        raise NoModelError(
            "OPENAI_BASE_URL is set but no model: set LOCKSTITCH_MODEL or --model to a name it serves."
        )
    raise NoModelError(NO_MODEL)
