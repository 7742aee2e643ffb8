"""Builds a chat model of a choice: langchain-openai, LangChain's other packages, or the scripted one."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from langchain_core.language_models import BaseChatModel
from pydantic import SecretStr

from lockstitch.graph.models.choice import ModelChoice
from lockstitch.state.errors import NoModelError
from lockstitch.state.settings import Settings

NO_KEY_NEEDED: Final = "none"  # what is sent as key to an endpoint of one's own that asks for none


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """What a model is built with; None leaves it to the endpoint."""

    temperature: float | None = None
    reply_tokens: int | None = None
    reasoning_effort: str | None = None


def build_chat_model(
    choice: ModelChoice, options: ModelOptions, settings: Settings, *, api_key: SecretStr | None = None
) -> BaseChatModel:
    """The LangChain model of a choice. Imports its package only now: start-up time is a feature.

    Args:
        choice: which model.
        options: how it is asked.
        settings: with the key and the address for OpenAI-compatible endpoints.
        api_key: a run's own key, which takes the place of other providers' variables.

    Raises:
        NoModelError: the provider's package is not installed.
        SettingsError: a scenario file cannot be read.
    """
    match choice.provider:
        case "openai":
            return _open_ai(choice, options, settings)
        case "scripted":
            return _scripted(choice)
        case _:
            return _other(choice, options, api_key)


def _open_ai(choice: ModelChoice, options: ModelOptions, settings: Settings) -> BaseChatModel:
    with _as_if_not_installed("aiohttp"):  # 0.1 s, which openai takes for a client that we do not use
        from lockstitch.graph.models.lean_openai import LeanChatOpenAI

    return LeanChatOpenAI(
        model=choice.name,
        base_url=settings.openai_base_url,
        api_key=settings.openai_api_key or SecretStr(NO_KEY_NEEDED),  # a function would be called in a thread
        temperature=options.temperature,
        max_completion_tokens=options.reply_tokens,
        reasoning_effort=options.reasoning_effort,
        timeout=settings.model_timeout_s,
        max_retries=0,  # the router tries again, and says so
        stream_usage=True,
    )


@contextmanager
def _as_if_not_installed(package: str) -> Iterator[None]:
    """Have imports of a package fail in here, unless it was imported before; afterwards it can be again."""
    if package in sys.modules:
        yield
        return
    sys.modules[package] = None  # type: ignore[assignment]  # Python's own mark for it
    try:
        yield
    finally:
        del sys.modules[package]


def _scripted(choice: ModelChoice) -> BaseChatModel:
    from lockstitch.graph.demo import SCENARIO
    from lockstitch.graph.models.scripted import ScriptedChatModel

    return ScriptedChatModel(scenario=SCENARIO if choice.name == "demo" else Path(choice.name))


def _other(choice: ModelChoice, options: ModelOptions, api_key: SecretStr | None) -> BaseChatModel:
    given: dict[str, Any] = {
        "temperature": options.temperature,
        "max_tokens": options.reply_tokens,
        "reasoning_effort": options.reasoning_effort,
        "api_key": api_key,
    }
    try:
        from langchain.chat_models import init_chat_model  # type: ignore[import-not-found,unused-ignore]

        model: BaseChatModel = init_chat_model(
            choice.name,
            model_provider=choice.provider,
            max_retries=0,
            **{name: value for name, value in given.items() if value is not None},
        )
    except ImportError as error:
        package = f"langchain-{choice.provider.replace('_', '-')}"
        raise NoModelError(
            f"the provider {choice.provider!r} needs its packages: pip install langchain {package}."
        ) from error
    return model
