"""What a caller may choose for one run, and what each field means when it is left out."""

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import Field

from lockstitch.state.settings import STEPS_MAX, STEPS_MIN, CommandNetwork, Mode

Door = Literal["cli", "http", "studio", "tool"]


def _shown_at(*nodes: str, kind: str | None = None) -> dict[str, Any]:
    """The JSON schema hints by which LangGraph Studio shows a field at its nodes."""
    hints: dict[str, Any] = {"langgraph_nodes": list(nodes)}
    return hints | {"langgraph_type": kind} if kind else hints


@dataclass(frozen=True, kw_only=True)
class Snippet:
    """A piece of a file that a client hands in; `path` is the workspace's, lines count from 1."""

    path: str
    text: str
    start_line: int | None = None
    score: float | None = None  # of a search result, 0 to 1


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """One earlier prompt and what came of it."""

    prompt: str
    result: str
    timestamp: str = ""


@dataclass(frozen=True, kw_only=True)
class HandedContext:
    """What a client hands in for the model to know, in falling order of trust.

    Attributes:
        paths: files and folders of the workspace, as `@file` in a prompt.
        pinned: pieces the person chose to keep in sight.
        focused_file: the one the person looked at last.
        search_results: of a search in the workspace, the best first.
        history: of another conversation, the oldest first; at most 20 are read.
    """

    paths: tuple[str, ...] = ()
    pinned: tuple[Snippet, ...] = ()
    focused_file: str | None = None
    search_results: tuple[Snippet, ...] = ()
    history: tuple[Exchange, ...] = ()


@dataclass(frozen=True, kw_only=True)
class RunContext:
    """The typed context of a run. Every field is optional; `None` means the process's setting."""

    workspace: Annotated[str | None, Field(json_schema_extra=_shown_at("begin"))] = None
    model: Annotated[str | None, Field(json_schema_extra=_shown_at("plan", kind="model"))] = None
    preset: Annotated[str | None, Field(json_schema_extra=_shown_at("plan"))] = None
    strategy: Annotated[str | None, Field(json_schema_extra=_shown_at("plan"))] = None
    agent_mode: Annotated[
        bool,
        Field(description="false: one plain model call without tools", json_schema_extra=_shown_at("plan")),
    ] = True
    temperature: Annotated[float | None, Field(ge=0, le=2, json_schema_extra=_shown_at("plan"))] = None
    max_steps: Annotated[
        int | None, Field(ge=STEPS_MIN, le=STEPS_MAX, json_schema_extra=_shown_at("begin"))
    ] = None
    cost_limit_usd: Annotated[float | None, Field(gt=0, json_schema_extra=_shown_at("begin"))] = None
    token_limit: Annotated[int | None, Field(ge=1, json_schema_extra=_shown_at("begin"))] = None
    time_limit_s: Annotated[float | None, Field(gt=0, json_schema_extra=_shown_at("begin"))] = None
    mode: Annotated[Mode | None, Field(json_schema_extra=_shown_at("plan", "approve"))] = None
    network: Annotated[
        CommandNetwork | None,
        Field(
            description="that commands in a sandbox reach: off, on, or a list of domains",
            json_schema_extra=_shown_at("execute"),
        ),
    ] = None
    tools: Annotated[
        list[str] | None,
        Field(description="names of the tools the model may call", json_schema_extra=_shown_at("plan")),
    ] = None
    handed: Annotated[
        HandedContext | None,
        Field(description="what the model is to know", json_schema_extra=_shown_at("begin")),
    ] = None
    use_cgrag: Annotated[
        bool | None,
        Field(description="begin with what the index finds", json_schema_extra=_shown_at("begin")),
    ] = None
    indexes: Annotated[
        list[str] | None,
        Field(
            description="names of the indexes the run may search, the first unless another is named",
            json_schema_extra=_shown_at("begin", "execute"),
        ),
    ] = None
    door: Annotated[Door, Field(description="who started the run, for the audit")] = field(default="studio")
