"""Which model a name means: `gpt-5`, `openai:qwen3:8b`, `anthropic:claude-…`, `scripted:FILE`."""

from dataclasses import dataclass
from typing import Final, Literal

from lockstitch.graph.models.catalogue import default_model
from lockstitch.graph.models.wish import Tier
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
NO_NAME: Final = "OPENAI_BASE_URL is set but no model: set LOCKSTITCH_MODEL or --model to a name it serves."

Origin = Literal["asked", "setting model_fast", "setting model_powerful", "setting model", "default"]
"""Where the name of a model comes from."""


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


def choose_model(asked: str | None, settings: Settings, *, tier: Tier = "balanced") -> ModelChoice:
    """The model of a tier: the one asked for, its setting, or a default where a key says which provider.

    Raises:
        NoModelError: nothing is configured; the message names what to set.
    """
    return find_model(asked, settings, tier=tier)[0]


def find_model(asked: str | None, settings: Settings, *, tier: Tier) -> tuple[ModelChoice, Origin]:
    """As `choose_model`, with where the name comes from.

    Raises:
        NoModelError: nothing is configured; the message names what to set.
    """
    text, origin = _named(asked, settings, tier)
    if not text:
        raise NoModelError(NO_NAME if settings.openai_base_url else NO_MODEL)
    choice = parse_model(text)
    if choice.provider == "openai" and not (settings.openai_api_key or settings.openai_base_url):
        raise NoModelError(NO_MODEL)
    return choice, origin


def _named(asked: str | None, settings: Settings, tier: Tier) -> tuple[str | None, Origin]:
    if asked:
        return asked, "asked"
    if tier == "fast" and settings.model_fast:
        return settings.model_fast, "setting model_fast"
    if tier == "powerful" and settings.model_powerful:
        return settings.model_powerful, "setting model_powerful"
    if settings.model:
        return settings.model, "setting model"
    has_key_alone = settings.openai_api_key and not settings.openai_base_url
    return default_model(tier) if has_key_alone else None, "default"
