"""`lockstitch show`: a thread's steps with their files, its moves, its answer, and what it waits for."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

import click
from rich.console import Console
from rich.text import Text

from lockstitch.graph.turn import thread_totals
from lockstitch.state.reasons import ENDINGS
from lockstitch.state.run_state import StepRecord
from lockstitch.state.settings import Settings, load_settings
from lockstitch.state.thread_lock import writer_of
from lockstitch.state.threads import check_thread_id
from lockstitch.studio.ask import describe_request
from lockstitch.studio.blocks import cost_words, is_free
from lockstitch.studio.markdown import Answer
from lockstitch.studio.moving import delta_line
from lockstitch.studio.past import CutOff, Past, PastMove, PastStep
from lockstitch.studio.run_options import RunOptions
from lockstitch.studio.service import ThreadView, open_service
from lockstitch.studio.terminal import open_console, write_json
from lockstitch.studio.visible import make_visible, one_line

LINE_CHARS: Final = 75  # beside a step's number of 5 columns, within 80


@dataclass(frozen=True)
class _Shown:
    view: ThreadView
    past: Past = field(repr=False)  # as in ThreadView
    writer: str  # who writes it just now; empty where nobody does


@click.command(name="show")
@click.argument("thread_id", metavar="ID")
@click.option("--json", "as_json", is_flag=True, help="Write the thread as one JSON object.")
@click.pass_obj
def command(home: Path | None, /, *, thread_id: str, as_json: bool) -> None:
    """Show a thread: its steps, its answer and how to go on."""
    settings = load_settings(home=home)
    thread_id = check_thread_id(thread_id)
    shown = asyncio.run(_load(settings, thread_id))
    if as_json:
        write_json(_as_json(thread_id, shown))
    else:
        _print(shown, open_console(), RunOptions(home=home).command_for(thread_id))


async def _load(settings: Settings, thread_id: str) -> _Shown:
    async with open_service(settings) as service:
        view = await service.view(thread_id)
        past = await service.stitches.past(thread_id)
        return _Shown(view, past, writer_of(service.parts.home.locks, thread_id))


def _as_json(thread_id: str, shown: _Shown) -> dict[str, object]:
    view, state = shown.view, shown.view.state
    return {
        "thread_id": thread_id,
        "workspace": state.get("workspace", ""),
        "phase": state.get("phase", "idle"),
        "reason": state.get("reason"),
        "final_answer": state.get("final_answer", ""),
        "steps": [_step_json(step) for step in shown.past if isinstance(step, PastStep)],
        "moves": [asdict(move) for move in shown.past if isinstance(move, PastMove)],
        "todos": state.get("todos", []),
        "waiting_for": view.waiting_for,
        "unfinished": view.unfinished,
        "running": bool(shown.writer),
    }


def _step_json(step: PastStep) -> dict[str, object]:
    files = [asdict(delta) for delta in step.files]
    return {**step.record, "number": step.number, "files": files, "can_go_back": step.can_go_back}


def _print(shown: _Shown, console: Console, go_on: str) -> None:
    view, writer = shown.view, shown.writer
    for line in summary_lines(view, shown.past):
        console.print(Text(make_visible(line)), soft_wrap=True)
    answer = view.state.get("final_answer", "")
    if answer:
        console.print(Answer(answer))
    console.print(Text(f"running: {writer}" if writer else _standing(view)), soft_wrap=True)
    if writer:
        return
    if view.waiting_for is not None:
        answers = "--answer TEXT" if "question" in view.waiting_for else "--approve"
        console.print(Text(f"Answer: {go_on} {answers}"), soft_wrap=True)
    else:
        console.print(Text(f'Go on: {go_on} "..."'), soft_wrap=True)


def summary_lines(view: ThreadView, past: Past | None = None) -> Iterator[str]:
    """The thread's steps, at most three lines each, and its moves, under one of header.

    Without its `past` the steps alone.
    """
    steps = view.state.get("steps", [])
    tokens, cost = thread_totals(view.state)
    named = list(dict.fromkeys(step["model"] for step in steps))
    shown = [", ".join(named) or "no step yet", f"{tokens:,} tokens"]
    shown += [cost_words(cost)] if steps and not all(map(is_free, named)) else []
    yield " · ".join([*shown, view.state.get("workspace", "")])
    for number, step in enumerate(steps if past is None else (), 1):
        yield from _step_lines(number, step)
    for entry in past or ():
        yield from _entry_lines(entry)


def _entry_lines(entry: PastStep | CutOff | PastMove) -> Iterator[str]:
    match entry:
        case PastStep():
            yield from _step_lines(entry.number, entry.record)
        case CutOff():
            yield "  -  a step was cut off"
        case PastMove(source=""):
            parts = "" if entry.what == "both" else f", {entry.what} only"
            yield f"  <  {entry.kind}: step {entry.from_step} -> step {entry.step}{parts}"
            return
        case PastMove():
            yield f"  <  forked from step {entry.step} of thread {entry.source}"
            return
    if entry.files:
        yield f"     {one_line(', '.join(map(delta_line, entry.files)), max_chars=LINE_CHARS)}"


def _step_lines(number: int, step: StepRecord) -> Iterator[str]:
    tokens = step["input_tokens"] + step["output_tokens"]
    costs = f"{tokens:,} tokens, {step['plan_ms'] + step['execute_ms']:,.0f} ms"
    mark = f"{number:>3}  "
    if not step["calls"]:  # its thought is the answer, which is shown whole
        yield f"{mark}{step['observation'] or 'answered'} · {costs}"
        return
    thought = step["thought"].strip().partition("\n")[0]
    if thought:
        yield mark + one_line(thought, max_chars=LINE_CHARS)
        mark = "     "
    calls = Counter(f"{call['tool']} {'ok' if call['success'] else 'failed'}" for call in step["calls"])
    made = ", ".join(call if times == 1 else f"{call} x{times}" for call, times in calls.items())
    yield f"{mark}{one_line(made, max_chars=LINE_CHARS - len(costs) - 3)} · {costs}"


def _standing(view: ThreadView) -> str:
    """Where the thread stands, in one line, or in what it asks."""
    if view.waiting_for is not None:
        return describe_request(view.waiting_for)
    if view.unfinished:
        return "cut off: the run was ended from outside and goes on where it was"
    reason = view.state.get("reason")
    return f"{reason}: {ENDINGS[reason].meaning}" if reason else str(view.state.get("phase", "idle"))
