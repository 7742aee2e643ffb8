"""What an operator can set: environment variables, and `settings.toml` in the home folder for people.

The only module that reads the environment. Order of strength: arguments, environment, settings.toml,
defaults. A `.env` file of the folder the agent works in is never read: a repository must not configure
the agent that edits it.
"""

import os
import tomllib
from pathlib import Path
from typing import Annotated, Literal

import platformdirs
from pydantic import AfterValidator, AliasChoices, BeforeValidator, Field, SecretStr, ValidationError
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from lockstitch.state.errors import SettingsError
from lockstitch.state.misfit import describe_misfit

Mode = Literal["plan", "ask", "auto"]

STEPS_MIN = 1
STEPS_MAX = 500  # the owner's upper bound for one run
STEPS_AT_COMMAND_LINE = 50
STEPS_AT_SERVER = 10  # HTTP, WebSocket, page and `langgraph dev`
MIB = 1024 * 1024


def default_home() -> Path:
    """Where this program keeps its data: `LOCKSTITCH_HOME`, or the platform's data folder."""
    named = os.environ.get("LOCKSTITCH_HOME")
    return _absolute(Path(named)) if named else platformdirs.user_data_path("lockstitch")


def _absolute(path: Path) -> Path:
    return path.expanduser().absolute()


def _split(names: object) -> object:
    return [name.strip() for name in names.split(",") if name.strip()] if isinstance(names, str) else names


def _read_network(value: object) -> object:
    """`off` or `on`, else names with commas."""
    words = value.strip() if isinstance(value, str) else value
    return words if words in ("off", "on") else _split(words)


Folder = Annotated[Path, AfterValidator(_absolute)]
Names = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)]  # `a,b` in the environment, else a list
Positive = Annotated[int, Field(ge=1)]
Domain = Annotated[str, Field(pattern=r"^(\*\.)?[^\s/:,*]+\.[^\s/:,*]+$")]  # with `*.` every host below it
CommandNetwork = Annotated[
    Literal["off", "on"] | tuple[Domain, ...], NoDecode, BeforeValidator(_read_network)
]  # what a command in a sandbox reaches: nothing, all, or the named domains

CommandSandbox = Literal["auto", "bubblewrap", "landlock"]


class Settings(BaseSettings):
    """Settings of one process. Built once at the entry and handed down; never changed after."""

    model_config = SettingsConfigDict(
        env_prefix="LOCKSTITCH_", extra="forbid", frozen=True, populate_by_name=True, env_ignore_empty=True
    )

    home: Folder = Field(default_factory=default_home, description="threads, ledger, indexes; mode 0700")
    workspace: Folder | None = Field(
        default=None, description="folder to work in; default is the current one"
    )
    allowed_roots: Annotated[tuple[Folder, ...], NoDecode, BeforeValidator(_split)] = Field(
        default=(), description="below which clients of a server may choose; default the workspace alone"
    )

    model: str | None = Field(default=None, description="`name`, `provider:name`, or `scripted:FILE`")
    openai_base_url: str | None = Field(
        default=None, validation_alias=AliasChoices("OPENAI_BASE_URL", "OPENAI_API_BASE", "openai_base_url")
    )
    openai_api_key: SecretStr | None = Field(
        default=None, validation_alias=AliasChoices("OPENAI_API_KEY", "openai_api_key")
    )
    model_fast: str | None = Field(default=None, description="the model of the tier `fast`")
    model_powerful: str | None = Field(default=None, description="the model of the tier `powerful`")
    fallback_models: Names = Field(default=(), description="tried in order when a model cannot be reached")
    preset: str | None = Field(default=None, description="a named set of model choices; default `balanced`")
    temperature: float | None = Field(default=None, ge=0, le=2)
    reply_tokens: Positive | None = Field(default=None, description="longest reply to ask a model for")
    reasoning_effort: str | None = Field(
        default=None, description="as the endpoint spells it, often low to high"
    )
    stream: bool | None = Field(default=None, description="streamed replies; default only at a terminal")
    model_timeout_s: float = Field(default=600, gt=0, description="for one reply of the model")
    model_retries: int = Field(default=4, ge=0, le=20, description="on rate limits and network faults")
    context_window: Positive | None = Field(
        default=None, description="tokens a model can read; default what is known of it, else 128,000"
    )
    compact_at: float = Field(
        default=0.85, gt=0, lt=1, description="share of the window at which older turns are summarised"
    )
    keep_turns: Positive = Field(default=20, description="turns that a compaction leaves as they are")

    strategy: str = "react"
    prompts: Folder | None = Field(default=None, description="folder of prompts that replace ours, by name")
    one_call: bool = Field(default=True, description="reason-act-observe makes one call a step")
    mode: Mode = "ask"
    max_steps: int | None = Field(
        default=None, ge=STEPS_MIN, le=STEPS_MAX, description="default 50 at the command line, 10 at a server"
    )
    cost_limit_usd: float | None = Field(default=None, gt=0, description="of one run")
    token_limit: Positive | None = Field(default=None, description="of one run, read and written together")
    time_limit_s: float | None = Field(
        default=None, gt=0, description="of one run, without waiting for people"
    )
    context_tokens: Positive = Field(default=20_000, description="of what a run is told at its beginning")
    unsandboxed_commands: Literal["ask", "allow"] = Field(
        default="ask", description="whether a command asks although mode is auto, when no sandbox is there"
    )
    files_on_fork: Literal["ask", "restore", "keep"] = Field(
        default="ask", description="of files that are not those of the step a run starts from"
    )
    command_layers: bool = Field(
        default=True, description="whether a command's changes are held back until it ends, where they can be"
    )
    command_sandbox: CommandSandbox = Field(
        default="auto", description="the best that works here; or this one alone, and no other"
    )
    command_network: CommandNetwork = Field(
        default="off", description="of a command in a sandbox: off, on, or names of domains with commas"
    )

    extra_tools: Names = Field(default=(), description="your own LangChain tools, as module:attribute")
    rate_limit_per_minute: int = Field(default=100, ge=0, description="file operations a thread; 0 is off")
    read_lines: Positive = Field(default=500, description="lines of read_file when no limit is given")
    list_entries: Positive = 200
    grep_matches: Positive = 100
    command_timeout_s: Positive = 60
    command_timeout_max_s: Positive = 3600
    tool_timeout_s: Positive = Field(default=120, description="for a tool that has no timeout of its own")
    searxng_url: str | None = Field(
        default=None, pattern=r"^https?://", description="a SearXNG server to search by, not DuckDuckGo"
    )
    search_timeout_s: float = Field(default=15, gt=0, description="for one search of the web")
    fetch_timeout_s: float = Field(default=30, gt=0, description="for one page of the web")
    fetch_private_hosts: Names = Field(
        default=(), description="hosts that fetch_url may read although they are private: name, or name:port"
    )
    index_build: bool = Field(default=True, description="search_code builds and refreshes its index itself")
    index_step_s: float = Field(default=15, gt=0, description="it may spend on that at each call")
    use_cgrag: bool = Field(
        default=False, description="a run begins with what the index finds for its prompt"
    )
    embeddings: str = Field(
        default="local",
        min_length=1,
        description="of code search: `local`, `off`, a model's name at an OpenAI-compatible endpoint, or "
        "`python:module:attribute` for LangChain Embeddings of yours",
    )
    embeddings_base_url: str | None = Field(
        default=None, pattern=r"^https?://", description="of that endpoint; default OPENAI_BASE_URL"
    )
    embeddings_api_key: SecretStr | None = Field(default=None, description="default OPENAI_API_KEY")
    output_chars: Positive = Field(default=20_000, description="of one tool result in the conversation")
    file_bytes: Positive = Field(default=10 * MIB, description="largest file to read or write")
    request_input_timeout_s: Positive = Field(default=600, description="how long a client waits for a person")
    event_days: Positive = Field(default=7, description="how long a thread's events are kept for its clients")

    @classmethod
    def settings_customise_sources(  # noqa: PLR0917  pydantic's signature
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003  pydantic's signature; a .env is not read
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Arguments, then the environment, then settings.toml."""
        home = _absolute(Path(init_settings().get("home") or default_home()))
        toml = TomlConfigSettingsSource(settings_cls, toml_file=home / "settings.toml")
        return init_settings, env_settings, toml

    @property
    def settings_file(self) -> Path:
        """The file a person may write; it need not exist."""
        return self.home / "settings.toml"


def load_settings(**overrides: object) -> Settings:
    """Read the settings once; `overrides` win over environment and file.

    Raises:
        SettingsError: a value does not fit; the message names each and where it may come from.
    """
    try:
        return Settings(**{name: value for name, value in overrides.items() if value is not None})  # type: ignore[arg-type]
    except ValidationError as error:
        raise SettingsError(_explain(error)) from None  # `from None`: pydantic's text repeats the value
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        # `from None`: these errors carry the file's text, which may hold a key
        raise SettingsError(f"settings.toml in the home folder is no valid TOML: {error}") from None
    except OSError as error:
        raise SettingsError(f"settings.toml in the home folder cannot be read: {error.strerror}") from error


def _explain(error: ValidationError) -> str:
    faults = describe_misfit(error, field="setting")
    return f"a setting does not fit. {faults}. Set it as LOCKSTITCH_NAME or in settings.toml."
