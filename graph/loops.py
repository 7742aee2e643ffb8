"""Loop detection: whether the steps of a run still bring anything new.

Touches nothing. The caller keeps one `StepTrace` a step in the state, the newest `KEPT_TRACES` of a run.
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from lockstitch.state.run_state import CallOutcome, CallTrace, PlannedCall, StepTrace

KEPT_TRACES: Final = 20  # steps: a circle of four calls, gone round five times
HASH_DIGITS: Final = 16  # 64 bits; 20 traces of a few calls stay under 5 kB in a checkpoint

LoopVerdict = Literal["fine", "nudge", "stuck"]
_Kind = Literal["failing_call", "call", "error", "text"]


@dataclass(frozen=True, kw_only=True)
class _Limit:
    """How many steps of a kind, with nothing new among them, are told to the model and end the run."""

    nudge: int
    stuck: int
    words: str


# Two are everyday: a file is read again, a flaky call retried. Gemini CLI ends at 5 identical calls;
# OpenHands at 4 with the same result, 3 with an error, 6 alternating. Here the third is told to the model,
# so that it has two steps more to turn round, and the fifth ends the run. Alternation counts by its calls:
# three pairs and five. The order is that of the reason given when several apply.
_LIMITS: Final[Mapping[_Kind, _Limit]] = {
    "failing_call": _Limit(nudge=3, stuck=5, words="the same call failed with the same error {n} times"),
    "call": _Limit(nudge=3, stuck=5, words="the same call gave the same result {n} times"),
    # other arguments are a try, so they get one more, and twice as many before the end
    "error": _Limit(nudge=4, stuck=8, words="the same error came back {n} times"),
    "text": _Limit(nudge=3, stuck=5, words="the same words came {n} times"),
}
_FEWEST: Final = min(limit.nudge for limit in _LIMITS.values())
_NOTHING_NEW: Final = ", and nothing new came in between"

# What differs between two runs of the same thing: durations as test runners print them (0.12s, 1.204 s,
# 130ms) and addresses of objects. Whole seconds stay: they are how a program says that it gets on.
_CHANCE: Final = re.compile(r"\b\d+(?:\.\d{2,} ?s(?:ec(?:ond)?s?)?|(?:\.\d+)? ?ms)\b|\b0x[0-9a-fA-F]{6,}\b")
_SECONDS: Final = re.compile(r"\.\d{2,} ?s")  # without it, `ms` or `0x` nothing of that is there


@dataclass(frozen=True, kw_only=True)
class Progress:
    """The verdict after the last step, and why in words for the model and the person.

    `nudge` comes once a loop: a loop that goes on is `fine` until it is `stuck`, and whatever is new
    begins the count again.
    """

    verdict: LoopVerdict
    reason: str = ""


def trace_step(
    calls: Sequence[PlannedCall], outcomes: Sequence[CallOutcome], *, text: str, changed: bool
) -> StepTrace:
    """The trace of a step that has ended.

    Args:
        calls: with the arguments that ran.
        outcomes: of these calls, matched by id.
        text: what the model said.
        changed: whether the step may have changed a file. What is made of the files is then named after
            the calls that went well, as if the same calls with the same results left the same files.
    """
    args = {call["id"]: call["args"] for call in calls}
    made = {_hash_all(trace): trace for trace in (_trace_call(o, args.get(o["id"], {})) for o in outcomes)}
    done = sorted(name for name, trace in made.items() if trace["ok"])
    words = " ".join(text.casefold().split())
    return StepTrace(
        calls=list(made.values()),
        text=_hash(words) if words else "",
        files=_hash(*done) if changed else "",
    )


def judge_progress(traces: Sequence[StepTrace]) -> Progress:
    """Whether the run gets on, by the traces of its steps so far, oldest first."""
    known = _Known()
    seen: Counter[tuple[_Kind, str]] = Counter()
    nudged = False
    progress = Progress(verdict="fine")
    for trace in traces[-KEPT_TRACES:]:
        if known.learns(trace):
            seen.clear()
            nudged = False
        marks = set(_marks(trace))
        for mark in marks:
            seen[mark] += 1
        progress = _judge_step({mark: seen[mark] for mark in marks}, nudged=nudged)
        nudged = nudged or progress.verdict != "fine"
    return progress


class _Known:
    """What the steps have shown so far."""

    def __init__(self) -> None:
        self._files: set[str] = set()
        self._lasting: set[str] = set()  # of steps that changed files: repeated, they change nothing more
        self._passing: set[str] = set()  # of the others: news again once the files have changed

    def learns(self, trace: StepTrace) -> bool:
        """Take a step in; True when it was no mere repetition. A step without calls shows nothing new."""
        shown = {_shown(call) for call in trace["calls"]}
        files = trace["files"]
        news = bool(shown - self._lasting - self._passing) or bool(files and files not in self._files)
        if files and news:
            self._passing.clear()
        self._files.add(files)
        (self._lasting if files else self._passing).update(shown)
        return news


def _shown(call: CallTrace) -> str:
    """What a call teaches: its result, by its arguments. An error is the same lesson whatever they were."""
    return f"{call['key']} {call['result']}" if call["ok"] else call["result"]


def _marks(trace: StepTrace) -> Iterator[tuple[_Kind, str]]:
    """By what a step is recognised when it comes again."""
    for call in trace["calls"]:
        yield "call" if call["ok"] else "failing_call", f"{call['key']} {call['result']}"
        if not call["ok"]:
            yield "error", call["result"]
    if trace["text"]:
        yield "text", trace["text"]


def _judge_step(times: Mapping[tuple[_Kind, str], int], *, nudged: bool) -> Progress:
    """The verdict on a step whose marks were seen so many times, this one included."""
    if max(times.values(), default=0) < _FEWEST:
        return Progress(verdict="fine")
    most: Counter[_Kind] = Counter()
    for (kind, _), n in times.items():
        most[kind] = max(most[kind], n)
    for kind, limit in _LIMITS.items():
        if most[kind] >= limit.stuck:
            return Progress(verdict="stuck", reason=limit.words.format(n=most[kind]) + _NOTHING_NEW)
    for kind, limit in _LIMITS.items():
        if most[kind] >= limit.nudge and not nudged:
            return Progress(verdict="nudge", reason=limit.words.format(n=most[kind]) + _NOTHING_NEW)
    return Progress(verdict="fine")


def _trace_call(outcome: CallOutcome, args: Mapping[str, Any]) -> CallTrace:
    canonical = json.dumps(args, sort_keys=True, default=str)
    result = _without_chance(outcome["output"])
    return CallTrace(
        key=_hash(outcome["tool"], canonical), result=_hash(outcome["tool"], result), ok=outcome["success"]
    )


def _without_chance(output: str) -> str:
    """The output with what `_CHANCE` names struck out: ten times the work of seeing that none is there."""
    if "ms" in output or "0x" in output or _SECONDS.search(output):
        return _CHANCE.sub("~", output)
    return output


def _hash_all(trace: CallTrace) -> str:
    return _hash(trace["key"], trace["result"], str(trace["ok"]))


def _hash(*parts: str) -> str:
    whole = "\0".join(parts).encode("utf-8", "surrogatepass")
    return hashlib.sha256(whole).hexdigest()[:HASH_DIGITS]
