"""What a caller may choose for one run, and what each field means when it is left out."""

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import Field

from lockstitch.state.settings import STEPS_MAX, STEPS_MIN, Mode

Door = Literal["cli", "http", "studio", "tool"]


def _shown_at(*nodes: str, kind: str | None = None) -> dict[str, Any]:
    """The JSON schema hints by which LangGraph Studio shows a field at its nodes."""
    hints: dict[str, Any] = {"langgraph_nodes": list(nodes)}
    return hints | {"langgraph_type": kind} if kind else hints


@dataclass(frozen=True, kw_only=True)
class RunContext:
    """The typed context of a run. Every field is optional; `None` means the process's setting."""

    workspace: Annotated[str | None, Field(json_schema_extra=_shown_at("begin"))] = None
    model: Annotated[str | None, Field(json_schema_extra=_shown_at("plan", kind="model"))] = None
    strategy: Annotated[str | None, Field(json_schema_extra=_shown_at("plan"))] = None
    temperature: Annotated[float | None, Field(ge=0, le=2, json_schema_extra=_shown_at("plan"))] = None
    max_steps: Annotated[
        int | None, Field(ge=STEPS_MIN, le=STEPS_MAX, json_schema_extra=_shown_at("begin"))
    ] = None
    mode: Annotated[Mode | None, Field(json_schema_extra=_shown_at("plan", "approve"))] = None
    tools: Annotated[
        list[str] | None,
        Field(description="names of the tools the model may call", json_schema_extra=_shown_at("plan")),
    ] = None
    door: Annotated[Door, Field(description="who started the run, for the audit")] = field(default="studio")
