"""Asks the person at the terminal what a run waits for, and turns the answer into the reply of a resume.

Knows nothing of threads and runs: a request goes in, a reply comes out.
"""

import json
from typing import Any, Final, Protocol

from rich.console import Console
from rich.text import Text

from lockstitch.state.interrupts import HumanRequest
from lockstitch.studio.visible import make_visible

Reply = dict[str, Any]

CHOICES: Final = "[a]pprove, [e]dit, [r]eject, [s]ay the result yourself, [q] leave waiting: "


class ReadLine(Protocol):
    """How a line is read."""

    def __call__(self, prompt: str, *, prefill: str = "") -> str:
        """One line from the person; `prefill` stands there already and can be changed."""


def describe_request(request: HumanRequest) -> str:
    """What is asked, whole and safe to print: a person must see all of what they approve."""
    action = request["action_requests"][0]
    if "question" in request:
        return f"A question: {make_visible(request['question'])}"
    lines = [f"{make_visible(action['name'])} waits for your word: {make_visible(action['description'])}"]
    for name, value in action["args"].items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        lines.append(f"  {make_visible(name)}: " + make_visible(text).replace("\n", "\n      "))
    return "\n".join(lines)


def ask_person(request: HumanRequest, *, console: Console, read_line: ReadLine) -> Reply | None:
    """Show the request and read a decision; None leaves the thread waiting.

    Raises:
        KeyboardInterrupt: Ctrl-C.
        TimeoutError: `read_line` gave up waiting.
    """
    console.print()
    console.print(Text(describe_request(request), "yellow"), soft_wrap=True)
    try:
        if "question" in request:
            return {"type": "respond", "message": read_line("your answer: ")}
        return _decide(request, console, read_line)
    except EOFError:
        return None


def _decide(request: HumanRequest, console: Console, read_line: ReadLine) -> Reply | None:
    action = request["action_requests"][0]
    while True:
        match read_line(CHOICES).strip().lower():
            case "a" | "approve":
                return {"type": "approve"}
            case "e" | "edit":
                args = _edit(action["args"], console, read_line)
                if args is not None:
                    return {"type": "edit", "edited_action": {"name": action["name"], "args": args}}
            case "r" | "reject":
                return {"type": "reject", "message": read_line("why not: ")}
            case "s" | "say":
                return {"type": "respond", "message": read_line("the result: ")}
            case "q" | "quit":
                return None


def _edit(args: dict[str, Any], console: Console, read_line: ReadLine) -> dict[str, Any] | None:
    """The arguments as the person changed them; None when it was no JSON object."""
    text = read_line("arguments: ", prefill=json.dumps(args))
    try:
        edited = json.loads(text)
    except json.JSONDecodeError as error:
        console.print(Text(f"That is no JSON: {error}. Nothing was changed.", "red"))
        return None
    if not isinstance(edited, dict):
        console.print(Text("The arguments are a JSON object, in braces. Nothing was changed.", "red"))
        return None
    return edited
