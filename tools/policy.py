"""What a call may do in which mode: one table, decided before anything runs."""

from typing import Final, Literal, NamedTuple

from lockstitch.state.run_state import Verdict
from lockstitch.state.settings import Mode

Effect = Literal["read", "state", "person", "edit", "delete", "command", "network", "unknown"]
"""What a tool touches: files (read, edit, delete), the thread's own state, a person, a process, the
network. `unknown` is a tool that did not say, such as one a user adds."""

_NO_OVERLAY: Final = "no sandbox can hold back what a command changes"
_NO_SANDBOX: Final = "no sandbox is there, so every command asks"

TABLE: Final[dict[Mode, dict[Effect, tuple[Verdict, str]]]] = {
    "plan": {
        "read": ("run", ""),
        "state": ("run", ""),
        "person": ("question", ""),
        "edit": ("refuse", "mode plan changes no files"),
        "delete": ("refuse", "mode plan changes no files"),
        "command": ("refuse", f"mode plan runs no commands here: {_NO_OVERLAY}"),
        "network": ("ask", "it reaches the network"),
        "unknown": ("refuse", "mode plan runs only tools known to change nothing"),
    },
    "ask": {
        "read": ("run", ""),
        "state": ("run", ""),
        "person": ("question", ""),
        "edit": ("run", ""),
        "delete": ("ask", "it deletes"),
        "command": ("ask", _NO_SANDBOX),
        "network": ("ask", "it reaches the network"),
        "unknown": ("ask", "this tool did not say what it changes"),
    },
    "auto": {
        "read": ("run", ""),
        "state": ("run", ""),
        "person": ("question", ""),
        "edit": ("run", ""),
        "delete": ("run", ""),
        "command": ("ask", _NO_SANDBOX),
        "network": ("run", ""),
        "unknown": ("ask", "this tool did not say what it changes"),
    },
}


class Judgement(NamedTuple):
    """What policy says of a call, and why it does not simply run."""

    verdict: Verdict
    note: str


def judge(effect: Effect, *, mode: Mode, unsandboxed_commands: Literal["ask", "allow"]) -> Judgement:
    """The verdict on a call of a tool with that effect.

    Args:
        effect: what the tool touches.
        mode: of the run.
        unsandboxed_commands: `allow` lets mode auto run commands although nothing confines them.
    """
    if effect == "command" and mode == "auto" and unsandboxed_commands == "allow":
        return Judgement("run", "")
    return Judgement(*TABLE[mode][effect])
