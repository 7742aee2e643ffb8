"""What a call may do in which mode and sandbox: one table, decided before anything runs.

What people's rules add to it is in `tools/permission/judge.py`.
"""

from typing import Final, Literal, NamedTuple

from lockstitch.state.run_state import Verdict
from lockstitch.state.settings import Mode
from lockstitch.tools.commands.sandbox import Sandbox

Effect = Literal["read", "state", "person", "edit", "delete", "command", "network", "unknown"]
"""What a tool touches: files (read, edit, delete), the thread's own state, a person, a process, the
network. `unknown` is a tool that did not say, such as one a user adds."""
Shelter = Literal["layer", "overlay", "sandbox", "landlock", "none"]
"""What holds a command back: a sandbox whose changes are kept only when they were judged, one whose changes
can be thrown away, one without that, Landlock, or nothing. In Landlock a command that nobody asks about
changes less, and in mode plan nothing."""
LAYERED: Final = frozenset({"run_command"})  # the others change files while they go on


class Cell(NamedTuple):
    """What the table says of an effect; `note` is why it does not simply run."""

    verdict: Verdict
    note: str = ""


_RUN: Final = Cell("run")
_TRY: Final = Cell("try", "mode ask asks before what a command changed is kept")
_QUESTION: Final = Cell("question")
_NO_CHANGES: Final = Cell("refuse", "mode plan changes no files")
_NO_OVERLAY: Final = Cell(
    "refuse", "mode plan runs no commands here: no sandbox can throw away what a command changes"
)
_NO_SANDBOX: Final = Cell("ask", "no sandbox is there, so every command asks")
_EVERY_COMMAND: Final = Cell("ask", "mode ask asks before every command")
_NETWORK: Final = Cell("ask", "it reaches the network")
_SILENT: Final = Cell("ask", "this tool did not say what it changes")

TABLE: Final[dict[Mode, dict[Effect, Cell]]] = {
    "plan": {
        "read": _RUN,
        "state": _RUN,
        "person": _QUESTION,
        "edit": _NO_CHANGES,
        "delete": _NO_CHANGES,
        "network": _NETWORK,
        "unknown": Cell("refuse", "mode plan runs only tools known to change nothing"),
    },
    "ask": {
        "read": _RUN,
        "state": _RUN,
        "person": _QUESTION,
        "edit": _RUN,
        "delete": Cell("ask", "it deletes"),
        "network": _NETWORK,
        "unknown": _SILENT,
    },
    "auto": {
        "read": _RUN,
        "state": _RUN,
        "person": _QUESTION,
        "edit": _RUN,
        "delete": _RUN,
        "network": _RUN,
        "unknown": _SILENT,
    },
}
"""The cells of all effects but `command`."""
COMMANDS: Final[dict[Mode, dict[Shelter, Cell]]] = {
    # run: and what it changes is thrown away, or it can change nothing
    "plan": {
        "layer": _RUN,
        "overlay": _RUN,
        "sandbox": _NO_OVERLAY,
        "landlock": _RUN,
        "none": _NO_OVERLAY,
    },
    "ask": {
        "layer": _TRY,
        "overlay": _EVERY_COMMAND,
        "sandbox": _EVERY_COMMAND,
        "landlock": _EVERY_COMMAND,
        "none": _NO_SANDBOX,
    },
    "auto": {"layer": _RUN, "overlay": _RUN, "sandbox": _RUN, "landlock": _RUN, "none": _NO_SANDBOX},
}
"""The cells of `command`, by what holds it back."""


def cell(
    effect: Effect, *, mode: Mode, shelter: Shelter, unsandboxed_commands: Literal["ask", "allow"]
) -> Cell:
    """The table's verdict on a call with that effect.

    Args:
        effect: what the call touches.
        mode: of the run.
        shelter: what holds a command back.
        unsandboxed_commands: `allow` lets mode auto run commands although nothing confines them.
    """
    if effect != "command":
        return TABLE[mode][effect]
    if mode == "auto" and unsandboxed_commands == "allow":
        return _RUN
    return COMMANDS[mode][shelter]


def shelter_of(sandbox: Sandbox) -> Shelter:
    """What that sandbox holds back."""
    if sandbox.backend != "bubblewrap":
        return sandbox.backend
    return "overlay" if sandbox.overlay else "sandbox"
