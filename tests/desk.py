"""A temporary workspace with the tools at hand, as the tests of file tools want it."""

from pathlib import Path
from typing import Any

from langchain_core.tools import BaseTool

from lockstitch.state.events import AgentDiffPreview, Event
from lockstitch.state.settings import load_settings
from lockstitch.state.spill import SpillStore
from lockstitch.tools.context import ToolContext
from lockstitch.tools.result import ToolResult
from lockstitch.tools.workspace import Workspace


class Desk:
    """A temporary workspace with the tools at hand."""

    def __init__(self, base: Path, **settings: Any) -> None:
        self.root = base / "ws"
        self.root.mkdir(exist_ok=True)
        self.events: list[Event] = []
        self.context = ToolContext(
            workspace=Workspace(self.root),
            settings=load_settings(**settings),
            spill=SpillStore(base / "spill", "t1"),
            call_id="c1",
            emit=self.events.append,
        )

    def use(self, tool: BaseTool, **args: Any) -> ToolResult:
        result = tool.invoke({**args, "call": self.context})
        assert isinstance(result, ToolResult)
        assert result.success
        return result

    def put(self, name: str, data: bytes | str) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        return path

    @property
    def preview(self) -> AgentDiffPreview:
        (event,) = self.events
        assert isinstance(event, AgentDiffPreview)
        assert event.call_id == "c1"
        return event
