"""What a call of a file tool would change, worked out by the tool itself and not made."""

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, Final, cast

from langchain_core.tools import StructuredTool
from pydantic import BaseModel, ValidationError

from lockstitch.state.errors import AgentError
from lockstitch.state.events import Event
from lockstitch.state.run_state import Shown
from lockstitch.state.tree_change import Change, Node
from lockstitch.tools.changes.planned_changes import Planner
from lockstitch.tools.changes.shown_changes import SHOWN_BYTES, kind_of, show_changes
from lockstitch.tools.confined.confinement import Confinement
from lockstitch.tools.confined.known_contents import pieces_of
from lockstitch.tools.context import ToolContext
from lockstitch.tools.registry import CONTEXT_ARGUMENT, RegisteredTool
from lockstitch.tools.texts.diffs import FileChange

REHEARSED: Final = frozenset({"edit", "delete"})  # effects of tools that change files through the workspace
BYTES_MAX: Final = 64 * 1024**2  # held in memory; a person is shown no more than a screen of it


class _Told(BaseException):
    """Leaves the tool in the moment before its change; no tool catches it."""

    def __init__(self, changes: Sequence[Change]) -> None:
        super().__init__()
        self.changes = changes


class _Memory:
    """Contents by digest, for as long as the rehearsal lasts."""

    def __init__(self) -> None:
        self.contents: dict[str, bytes] = {}
        self._left = BYTES_MAX

    def put(self, data: bytes, *, base: str | None = None) -> str:  # noqa: ARG002  as ObjectStore's
        digest = hashlib.sha256(data).hexdigest()
        if len(data) <= min(SHOWN_BYTES, self._left):
            self._left -= len(data)
            self.contents[digest] = data
        return digest

    def put_file(self, fd: int, *, base: str | None = None) -> str:
        return self.put(b"".join(pieces_of(fd)), base=base)


class _Rehearsal:
    """Stands where the journal would."""

    def __init__(self) -> None:
        self.memory = _Memory()

    def planner(self, place: Confinement) -> Planner:
        return Planner(place, self.memory)

    def making(self, root: int, changes: Sequence[Change]) -> AbstractContextManager[None]:  # noqa: ARG002  the journal's
        raise _Told(changes)


def rehearse(tool: RegisteredTool, args: Mapping[str, Any], call: ToolContext) -> Shown | None:
    """What the call would change; None where it would fail, change nothing, or cannot be rehearsed.

    Waits for the disk.
    """
    function = tool.tool.func if isinstance(tool.tool, StructuredTool) else None
    if function is None or not tool.takes_context or tool.effect not in REHEARSED:
        return None
    stage = _Rehearsal()
    context = replace(call, workspace=call.workspace.journaled(stage), emit=_say_nothing)
    try:
        schema = cast("type[BaseModel]", tool.tool.args_schema)
        parsed = schema.model_validate({**args, CONTEXT_ARGUMENT: context})
        function(**{name: getattr(parsed, name) for name in schema.model_fields})
    except _Told as told:
        return _shown(told.changes, stage.memory.contents)
    except (AgentError, ValidationError, OSError):
        return None  # it will say so itself when it is made
    return None


def _say_nothing(event: Event) -> None:
    """A rehearsal has no audience."""


def _shown(changes: Sequence[Change], contents: Mapping[str, bytes]) -> Shown:
    files = [file for change in changes if (file := _file(change, contents))]
    return show_changes(changes, files)


def _file(change: Change, contents: Mapping[str, bytes]) -> FileChange | None:
    before, after = (_content(node, contents) for node in (change.before, change.after))
    known = all(
        data is not None or node is None for data, node in ((before, change.before), (after, change.after))
    )
    return (
        FileChange(path=change.path, change_type=kind_of(change), before=before, after=after)
        if known
        else None
    )


def _content(node: Node | None, contents: Mapping[str, bytes]) -> bytes | None:
    return contents.get(node.digest) if node and node.kind == "file" else None
