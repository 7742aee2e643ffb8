"""Asks the person at the terminal what a run waits for, and turns the answer into the reply of a resume.

Knows nothing of threads and runs: a request goes in, a reply comes out.
"""

import json
from collections.abc import Mapping
from typing import Any, Final, Protocol

from rich.console import Console
from rich.text import Text

from lockstitch.state.interrupts import GO_ON, ActionRequest, HumanRequest
from lockstitch.studio.visible import make_visible

Reply = dict[str, Any]

CHOICES: Final = {
    "approve": "[a]pprove",
    "always": "[A]lways",
    "edit": "[e]dit",
    "reject": "[r]eject",
    "respond": "[s]ay the result",
}
LEAVE: Final = "[q] leave waiting: "
AMOUNT_CHARS: Final = 12  # digits of the largest amount anybody means
_AMOUNTS: Final = {
    "max_steps": "{:,.0f}",
    "cost_limit_usd": "${:,.4g}",
    "token_limit": "{:,.0f} tokens",
    "time_limit_s": "{:,.4g} s",
}


class ReadLine(Protocol):
    """How a line is read."""

    def __call__(self, prompt: str, *, prefill: str = "") -> str:
        """One line from the person; `prefill` stands there already and can be changed."""


def describe_request(request: HumanRequest) -> str:
    """What is asked, whole and safe to print: a person must see all of what they approve."""
    action = request["action_requests"][0]
    if "question" in request:
        return f"A question: {make_visible(request['question'])}"
    if action["name"] == GO_ON:
        return make_visible(action["description"])
    lines = [f"{make_visible(action['name'])} waits for your word: {make_visible(action['description'])}"]
    for name, value in action["args"].items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        lines.append(f"  {make_visible(name)}: " + make_visible(text).replace("\n", "\n      "))
    if "changes" in request:
        ran = "edit" not in request["review_configs"][0]["allowed_decisions"]
        head = "It ran, and what it changed waits:" if ran else "It would change:"
        lines += [head, *describe_changes(request), make_visible(request["diff"])]
    if rule := request.get("rule"):
        lines.append(f"[A]lways would write this rule into policy.toml: {describe_rule(rule)}")
    return "\n".join(lines)


def describe_changes(request: HumanRequest) -> list[str]:
    """The files that a command changed, a line each, safe to print."""
    lines = [
        f"  {change['change']} {make_visible(change['path'])}"
        + (f" (+{change['added']} -{change['removed']})" if change["added"] is not None else "")
        for change in request["changes"]
    ]
    more = request["total"] - len(request["changes"])
    return [*lines, f"  and {more} more"] if more > 0 else lines


def describe_rule(rule: Mapping[str, str]) -> str:
    """A rule's fields in one line, safe to print."""
    about = (f"{name} {json.dumps(value, ensure_ascii=False)}" for name, value in rule.items())
    return make_visible(", ".join(about)).replace("\n", " ")


def ask_person(request: HumanRequest, *, console: Console, read_line: ReadLine) -> Reply | None:
    """Show the request and read a decision; None leaves the thread waiting.

    Raises:
        KeyboardInterrupt: Ctrl-C.
        TimeoutError: `read_line` gave up waiting.
    """
    console.print()
    action = request["action_requests"][0]
    told = Text(describe_request(request), "yellow")
    console.print(told, soft_wrap=action["name"] != GO_ON)  # a command is copied whole; our own words wrap
    try:
        if "question" in request:
            return {"type": "respond", "message": read_line("your answer: ")}
        if action["name"] == GO_ON:
            return _decide_limit(action, console, read_line)
        return _decide(request, console, read_line)
    except EOFError:
        console.print()  # Ctrl-D leaves the cursor behind the question
        return None


def _decide(request: HumanRequest, console: Console, read_line: ReadLine) -> Reply | None:
    action, rule = request["action_requests"][0], request.get("rule")
    allowed = request["review_configs"][0]["allowed_decisions"]
    prompt = ", ".join(
        [*(CHOICES[one] for one in CHOICES if one in allowed or (one == "always" and rule)), LEAVE]
    )
    approval = {"type": "approve", **({"digest": request["digest"]} if "digest" in request else {})}
    while True:
        word = read_line(prompt).strip()
        if word in ("A", "always") and rule:
            return {**approval, "always": True}
        match word.lower():
            case "a" | "approve" | "y" | "yes":
                return approval
            case "e" | "edit" if "edit" in allowed:
                args = _edit(action["args"], console, read_line)
                if args is not None:
                    return _edited(action, args)
            case "r" | "reject" | "n" | "no":
                return {"type": "reject", "message": read_line("why not: ")}
            case "s" | "say":
                return {"type": "respond", "message": read_line("the result: ")}
            case "q" | "quit":
                return None


def _decide_limit(action: ActionRequest, console: Console, read_line: ReadLine) -> Reply | None:
    """Whether a run that met a limit goes on, and by how much."""
    args = action["args"]
    while True:
        match read_line(_limit_choices(args)).strip().lower():
            case "g" | "go" | "go on" | "y" | "yes":
                return {"type": "approve"}
            case "r" | "raise" if args["more"]:
                more = read_amount(read_line("by how much: "))
                if more is not None:
                    return _edited(action, {**args, "more": more})
                console.print(Text("That is no number above 0. Nothing was changed.", "red"))
            case "t" | "tell":
                if said := read_line("what it should do: ").strip():
                    return {"type": "respond", "message": said}
            case "c" | "compact":
                return _edited(action, {**args, "compact": True})
            case "s" | "stop" | "n" | "no":
                return {"type": "reject", "message": ""}
            case "q" | "quit":
                return None


def _limit_choices(args: dict[str, Any]) -> str:
    """What can be answered; a run that goes in a circle has no amount to raise."""
    amount = _AMOUNTS.get(args["limit"], "{:g}").format(args["more"])
    first = f"[g]o on by {amount} more, [r]aise" if args["more"] else "[g]o on, [t]ell it what to do"
    return f"{first}, [c]ompact first, [s]top, [q] later: "


def read_amount(text: str) -> float | None:
    """The number a person typed, `1,000`, `$0.5` and `2.5` alike; None for what is none, or not above 0."""
    digits = text.strip().removeprefix("$").replace(",", "").replace("_", "")
    if len(digits) > AMOUNT_CHARS or not digits.isascii() or not digits.replace(".", "", 1).isdecimal():
        return None
    number = float(digits)
    if number <= 0:
        return None
    return int(number) if number.is_integer() else number


def _edited(action: ActionRequest, args: dict[str, Any]) -> Reply:
    return {"type": "edit", "edited_action": {"name": action["name"], "args": args}}


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
