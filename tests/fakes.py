"""Fakes at the seams of the graph, shared by its tests: a model that says what it is told to."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from langchain_core.messages import AIMessage, BaseMessage
from langgraph.checkpoint.memory import InMemorySaver

from lockstitch.graph.builder import build_graph
from lockstitch.graph.client import Client
from lockstitch.graph.models.wish import ModelWish
from lockstitch.graph.parts import Parts, build_parts
from lockstitch.state.errors import AgentError
from lockstitch.state.events import dump_event
from lockstitch.state.home import prepare_home
from lockstitch.state.journal import Journal
from lockstitch.state.run_context import RunContext
from lockstitch.state.settings import load_settings
from lockstitch.tools.commands.sandbox import NO_SANDBOX, Sandbox


def call(tool: str, /, id: str = "c1", **args: Any) -> dict[str, Any]:  # noqa: A002
    return {"name": tool, "args": args, "id": id, "type": "tool_call"}


def says(text: str = "", *calls: dict[str, Any]) -> AIMessage:
    usage = {"input_tokens": 10, "output_tokens": 2, "total_tokens": 12}
    return AIMessage(text, tool_calls=list(calls), usage_metadata=usage)  # type: ignore[arg-type]


class FakeModel:
    """Replies in order; keeps every prompt and the tools it was offered."""

    name = "fake"
    tier = "balanced"
    window = 128_000
    priced = True

    def __init__(self, *replies: AIMessage | AgentError) -> None:
        self.replies = list(replies)
        self.prompts: list[list[BaseMessage]] = []
        self.tools: list[list[str]] = []
        self.must_call: list[bool] = []
        self.kinds: list[str] = []  # the phase of each opening
        self.after: list[list[str]] = []  # and the tools whose results it will read

    def open(self, wish: ModelWish, **kind: Any) -> "FakeModel":
        self.kinds.append(kind.get("phase", "plan"))
        self.after.append(list(kind.get("after", ())))
        return self

    def system_prompt(self, wish: ModelWish) -> str:
        return ""

    def notices(self, wish: ModelWish) -> list[str]:
        return []

    async def ask(
        self,
        messages: Sequence[BaseMessage],
        *,
        tools: Sequence[dict[str, Any]] = (),
        must_call: bool = False,
    ) -> AIMessage:
        self.prompts.append(list(messages))
        self.tools.append([tool["function"]["name"] for tool in tools])
        self.must_call.append(must_call)
        reply = self.replies.pop(0)
        if isinstance(reply, AgentError):
            raise reply
        return reply


class Bench:
    """A graph on a temporary workspace, with its events collected."""

    def __init__(
        self,
        tmp_path: Path,
        model: FakeModel,
        *,
        sandbox: Sandbox = NO_SANDBOX,
        journal: Journal | None = None,
        **settings: Any,
    ) -> None:
        self.workspace = tmp_path / "work"
        self.workspace.mkdir(exist_ok=True)
        home = prepare_home(tmp_path / "home")
        parts = build_parts(
            load_settings(home=home.path, workspace=self.workspace, **settings), home, models=model
        )
        self.parts: Parts = replace(parts, find_sandbox=lambda: sandbox, journal=journal)
        self.saver = InMemorySaver()
        self.graph = build_graph(self.parts).compile(checkpointer=self.saver)
        self.config: Any = {"configurable": {"thread_id": "t"}}
        self.events: list[dict[str, Any]] = []

    async def run(self, given: Any, **context: Any) -> dict[str, Any]:
        """Run until the end or a question; returns the state."""
        given = {"messages": [("user", given)]} if isinstance(given, str) else given
        stream = self.graph.astream(
            given, self.config, context=RunContext(**context), stream_mode="custom", durability="sync"
        )
        async for body in stream:
            self.events.append(body)
        return (await self.graph.aget_state(self.config)).values

    def attach(self, **client: Any) -> Client:
        """A client for the runs that follow, as a door attaches one; it hears their events."""
        self.config["run_id"] = str(uuid4())
        attached = Client(hear=lambda event: self.events.append(dump_event(event)), **client)
        self.parts.clients[self.config["run_id"]] = attached
        return attached

    async def waits_for(self) -> Any:
        """What the thread asks a person; None when it does not."""
        interrupts = (await self.graph.aget_state(self.config)).interrupts
        return interrupts[0].value if interrupts else None

    def types(self) -> list[str]:
        return [event["type"] for event in self.events]

    def of_type(self, name: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["type"] == name]
