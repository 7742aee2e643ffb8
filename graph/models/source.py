"""Builds chat models by choice: langchain-openai, LangChain's other packages, or the scripted one."""

from pathlib import Path
from typing import Any, Protocol

from langchain_core.language_models import BaseChatModel

from lockstitch.graph.models.choice import ModelChoice, choose_model
from lockstitch.graph.models.port import ChatModelPort, ModelPort
from lockstitch.state.errors import NoModelError
from lockstitch.state.settings import Settings

NO_KEY_NEEDED = "none"  # what is sent as key to an endpoint of one's own that asks for none


class ModelSource(Protocol):
    """Where a run gets its model."""

    def open(self, asked: str | None, *, temperature: float | None) -> ModelPort:
        """The model asked for, or the configured one.

        Raises:
            NoModelError: none is configured, or its package is missing.
        """


class ConfiguredModels:
    """Models as the settings say; each is built once a process."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._built: dict[tuple[ModelChoice, float | None], ModelPort] = {}

    def open(self, asked: str | None, *, temperature: float | None = None) -> ModelPort:
        """See ModelSource."""
        choice = choose_model(asked, self._settings)
        key = (choice, self._settings.temperature if temperature is None else temperature)
        if key not in self._built:
            self._built[key] = ChatModelPort(build_chat_model(*key, self._settings), choice)
        return self._built[key]


def build_chat_model(choice: ModelChoice, temperature: float | None, settings: Settings) -> BaseChatModel:
    """The LangChain model of a choice. Imports its package only now: start-up time is a feature.

    Raises:
        NoModelError: the provider's package is not installed.
        SettingsError: a scenario file cannot be read.
    """
    match choice.provider:
        case "openai":
            return _open_ai(choice, temperature, settings)
        case "scripted":
            return _scripted(choice)
        case _:
            return _other(choice, temperature, settings)


def _open_ai(choice: ModelChoice, temperature: float | None, settings: Settings) -> BaseChatModel:
    from lockstitch.graph.models.lean_openai import LeanChatOpenAI

    key = settings.openai_api_key
    return LeanChatOpenAI(
        model=choice.name,
        base_url=settings.openai_base_url,
        api_key=key.get_secret_value if key else lambda: NO_KEY_NEEDED,
        temperature=temperature,
        timeout=settings.model_timeout_s,
        max_retries=settings.model_retries,
        streaming=settings.stream,
        stream_usage=True if settings.stream else None,
    )


def _scripted(choice: ModelChoice) -> BaseChatModel:
    from lockstitch.graph.demo import SCENARIO
    from lockstitch.graph.models.scripted import ScriptedChatModel

    return ScriptedChatModel(scenario=SCENARIO if choice.name == "demo" else Path(choice.name))


def _other(choice: ModelChoice, temperature: float | None, settings: Settings) -> BaseChatModel:
    try:
        from langchain.chat_models import init_chat_model  # type: ignore[import-not-found,unused-ignore]

        options: dict[str, Any] = {} if temperature is None else {"temperature": temperature}
        model: BaseChatModel = init_chat_model(
            choice.name, model_provider=choice.provider, max_retries=settings.model_retries, **options
        )
    except ImportError as error:
        package = f"langchain-{choice.provider.replace('_', '-')}"
        raise NoModelError(
            f"the provider {choice.provider!r} needs its packages: pip install langchain {package}."
        ) from error
    return model
