"""Over which workspaces commands can run in a layer that takes what they write."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from lockstitch.state.errors import ToolExecutionError
from lockstitch.tools.changes.layer_folder import find_place
from lockstitch.tools.changes.transaction import clear_layers
from lockstitch.tools.commands.owners import find_foreign
from lockstitch.tools.commands.sandbox import Sandbox
from lockstitch.tools.paths import shown

RUNS_MAX: Final = 64  # whose answer is remembered; more than a process has at once
SWITCHED_OFF: Final = "LOCKSTITCH_COMMAND_LAYERS is off"


@dataclass
class _Answer:
    trouble: str
    told: bool = False  # or the person knows it, who has switched layers off


@dataclass
class Layers:
    """Answers once a run: to find out, every file's owner is looked at.

    Attributes:
        home: our own folder, in which layers may lie.
        wanted: the person's setting.
    """

    home: Path
    wanted: bool = True
    _answers: dict[tuple[str, Path], _Answer] = field(default_factory=dict)

    def trouble(self, root: Path, sandbox: Sandbox, *, run_id: str) -> str:
        """Why commands cannot run in a layer there; empty where they can. Waits for the disk."""
        return self._answer(root, sandbox, run_id).trouble

    def news(self, root: Path, sandbox: Sandbox, *, run_id: str) -> str:
        """The same trouble, the first time that the run asks; then nothing."""
        answer = self._answer(root, sandbox, run_id)
        told, answer.told = answer.told, True
        return "" if told else answer.trouble

    def _answer(self, root: Path, sandbox: Sandbox, run_id: str) -> _Answer:
        found = self._answers.get((run_id, root))
        if found is None:
            while len(self._answers) >= RUNS_MAX:
                self._answers.pop(next(iter(self._answers)), None)
            found = _Answer(self._look(root, sandbox)) if self.wanted else _Answer(SWITCHED_OFF, told=True)
            if not found.trouble:
                clear_layers(root, home=self.home)  # of commands that were killed
            self._answers[run_id, root] = found
        return found

    def _look(self, root: Path, sandbox: Sandbox) -> str:
        if not sandbox.overlay:
            return sandbox.reason
        root = Path(os.path.realpath(root))
        try:
            find_place(root, self.home)
            foreign = find_foreign(root)
        except (ToolExecutionError, OSError) as error:
            return str(error).rstrip(".")
        if foreign is not None:
            return f"{shown(os.path.relpath(foreign, root))} belongs to another user or group"
        return ""
