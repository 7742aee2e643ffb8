"""The replies of a model that works off a task, in the form each strategy asks for them."""

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field

from lockstitch.graph.models.scenario import Turn, WireCall
from lockstitch.graph.strategies.control_block import DECIDE_NEXT, OBSERVE_DECIDE
from lockstitch.graph.strategies.text_values import render_call

OWN_LIST = "create_tasks"  # a script that begins with it keeps its TODO list itself


class Part(BaseModel):
    """Base of everything in a task file: frozen, nothing extra."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Call(Part):
    """One tool call. `fails`: it comes back as an error; `gives` is a part of what comes back."""

    tool: str
    args: dict[str, Any] = {}
    fails: bool = False
    gives: str = ""


class Step(Part):
    """What the model thinks, and the calls that follow from it."""

    think: str
    calls: tuple[Call, ...] = Field(min_length=1)


class Numbered(Part):
    """A file of `count` lines, each `line` with its number for {n}; `but` has those that differ."""

    line: str
    count: int
    but: dict[int, str] = {}

    def text(self) -> str:
        """The whole file."""
        lines = (self.but.get(n, self.line.replace("{n}", str(n))) for n in range(1, self.count + 1))
        return "".join(f"{line}\n" for line in lines)


class Check(Part):
    """How the task is known to be done.

    Attributes:
        files: what changed: path to exact text, null for a file that is gone. All others stay as they were.
        python: arguments of an interpreter that must end well in the workspace; none when empty.
    """

    files: dict[str, str | Numbered | None]
    python: tuple[str, ...] = ()


class Task(Part):
    """One file of bench/tasks: the work, a model's script for it, and the check of what came of it."""

    name: str
    prompt: str
    files: dict[str, str | Numbered]
    script: tuple[Step, ...] = Field(min_length=1)
    answer: str
    check: Check

    @property
    def calls(self) -> list[Call]:
        """All calls, in order."""
        return [call for step in self.script for call in step.calls]

    @property
    def keeps_own_list(self) -> bool:
        """Whether the script writes the TODO list itself, as its first act."""
        return self.script[0].calls[0].tool == OWN_LIST


def load_task(path: Path) -> Task:
    """The task of a file.

    Raises:
        pydantic.ValidationError: it does not fit.
    """
    return Task.model_validate({"name": path.stem, **yaml.safe_load(path.read_text(encoding="utf-8"))})


def replies_for(task: Task, strategy: str) -> list[Turn]:
    """What the model says to the first request, the second, and so on."""
    spoken = RENDERED_FOR[strategy](task)
    return [Turn(number, say, _on_the_wire(calls, number)) for number, (say, calls) in enumerate(spoken)]


Spoken = tuple[str, Sequence[Call]]


def _native(task: Task) -> list[Spoken]:
    """Text and calls of each step, and the answer as text alone."""
    return [*((step.think, step.calls) for step in task.script), (task.answer, ())]


def _with_list(task: Task) -> list[Spoken]:
    """The TODO list first, an item a step; then each step sets its item."""
    if task.keeps_own_list:
        return _native(task)
    last = len(task.script)
    planned = Call(tool=OWN_LIST, args={"tasks": [step.think for step in task.script]})
    worked = [(step.think, (*_set(n), *step.calls)) for n, step in enumerate(task.script, start=1)]
    return [
        ("First the list.", (planned,)),
        *worked,
        ("That was the last item.", (_status(last, "completed"),)),
        (task.answer, ()),
    ]


def _set(item: int) -> tuple[Call, ...]:
    done = (_status(item - 1, "completed"),) if item > 1 else ()
    return (*done, _status(item, "in_progress"))


def _status(item: int, status: str) -> Call:
    return Call(tool="update_task_status", args={"task_id": str(item), "status": status})


def _in_phases(task: Task) -> list[Spoken]:
    """Reason, act and observe for each call; blocks as JSON in the text and as internal calls, in turn.

    A task with an even number of calls ends in its last observation, the others by one more reasoning.
    """
    spoken: list[Spoken] = []
    steps = [(step.think, call) for step in task.script for call in step.calls]
    in_observation = len(steps) % 2 == 0
    for number, (think, call) in enumerate(steps, start=1):
        ends = in_observation and number == len(steps)
        seen = {
            "observation": f"{call.tool} has answered ({number}).",
            "should_continue": not ends,
            "final_answer": task.answer if ends else None,
        }
        spoken += [
            _block(
                DECIDE_NEXT, _reason(call.tool, f"call number {number}"), text=think, spelt=number % 2 == 0
            ),
            ("", (call,)),
            _block(OBSERVE_DECIDE, seen, text="", spelt=number % 3 != 0),
        ]
    if not in_observation:
        finish = {"plan": "", "tools_to_consider": [], "finish": True}
        spoken.append(_block(DECIDE_NEXT, finish, text=task.answer, spelt=len(steps) % 3 == 0))
    return spoken


def _reason(tool: str, plan: str) -> dict[str, Any]:
    return {"plan": plan, "tools_to_consider": [tool], "finish": False}


def _block(tool: str, block: dict[str, Any], *, text: str, spelt: bool) -> Spoken:
    """A control block, spelt out as JSON below the text or as a call of the internal tool beside it."""
    if spelt:
        return f"{text}\n```json\n{json.dumps(block, ensure_ascii=False)}\n```".lstrip(), ()
    return text, (Call(tool=tool, args=block),)


def _in_text(task: Task) -> list[Spoken]:
    """The text protocol."""
    actions = (
        "\n".join([f"Thought: {step.think}", *(f"Action: {render_call(c.tool, c.args)}" for c in step.calls)])
        for step in task.script
    )
    return [*((action, ()) for action in actions), (f"Thought: It is done.\nAnswer: {task.answer}", ())]


RENDERED_FOR: dict[str, Callable[[Task], list[Spoken]]] = {
    "react": _native,
    "reason-act-observe": _in_phases,
    "plan-and-execute": _with_list,
    "tool-first": _native,
    "llm-only": _in_text,
}


def _on_the_wire(calls: Iterable[Call], number: int) -> tuple[WireCall, ...]:
    return tuple(
        WireCall(
            name=call.tool, arguments=json.dumps(call.args, ensure_ascii=False), id=f"call_{number}_{place}"
        )
        for place, call in enumerate(calls)
    )
