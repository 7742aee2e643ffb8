"""Folding older turns into one note: what must stay is pinned word for word, the rest is summarised.

The messages stay in the thread. A compaction changes only what is sent, and never fails a run: without a
summary of the model the steps are listed instead.
"""

import json
import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, SystemMessage

from lockstitch.graph.memory.pins import clip_text, render_pins
from lockstitch.graph.memory.turns import split_turns, tail_of
from lockstitch.graph.memory.view import place_of_end, shown
from lockstitch.graph.memory.window import CHARS_PER_TOKEN, chars_of, estimate_tokens, prompt_tokens
from lockstitch.graph.note import is_notice, note, without_notices
from lockstitch.graph.prompts import load_prompt
from lockstitch.state.errors import TerminalError
from lockstitch.state.run_state import Compaction, RunState, StepRecord

Ask = Callable[[Sequence[BaseMessage]], Awaitable[AIMessage]]

TAIL_SHARE: Final = 2  # the turns kept take at most half of the room, so that the next compaction is far
SUMMARY_SHARE: Final = 8  # the summary takes at most an eighth of it
SUMMARY_CHARS: Final = 12_000  # and never more: four pages, and longer ones repeat what was said
CHARS_PER_WORD: Final = 7  # of English with its blank; models count words better than characters
DIGEST_STEPS: Final = 60  # the latest ones; one line each
DIGEST_CHARS: Final = 160  # of a thought, and of a call's arguments, in such a line
OPENING: Final = (
    "This note stands for {count} earlier messages of this thread. They are kept: recall(query) finds every "
    "line of them again. Go on from here, and do not repeat what is done."
)
SUMMARY: Final = "# Summary of the rest, in the model's own words; the person did not write it"
DIGEST: Final = "No newer summary could be had. The steps since, as they were recorded:"


@dataclass(frozen=True, kw_only=True)
class Compacted:
    """What a compaction came to.

    Attributes:
        replies: of the model that summarised, for the count of tokens.
        told: one line for people.
        tokens: of the conversation as it is sent from now on, estimated.
    """

    compaction: Compaction
    replies: list[AIMessage]
    told: str
    tokens: int


@dataclass(frozen=True)
class _Fold:
    """The messages that are folded, and those that stay."""

    folded: list[AnyMessage]
    tail: list[AnyMessage]
    turns: int  # folded now
    kept: int  # turns that stay


@dataclass(frozen=True)
class _Summary:
    """A summary's text; empty, and why, where there is none."""

    text: str = ""
    replies: list[AIMessage] = field(default_factory=list)
    fault: str = ""


async def compact(
    state: RunState,
    *,
    ask: Ask,
    system: SystemMessage,
    keep_turns: int,
    room_tokens: int,
    window_tokens: int | None = None,
) -> Compacted | None:
    """Fold all turns but the last ones; None when there is nothing to fold.

    Args:
        state: as the model's next prompt would show it; every call in it has its result.
        ask: one call of the model, without tools.
        system: the system message of the run's prompts, so that the provider's cache is hit.
        keep_turns: turns to leave as they are; fewer where these fill half of the room, at least one.
        room_tokens: what a prompt may take of the model's window.
        window_tokens: what the summarising model can read; a conversation that is longer is not sent to it.
            None leaves that to its endpoint.
    """
    fold = _choose_fold(state, keep_turns=keep_turns, room_tokens=room_tokens)
    if fold is None:
        return None
    prompt = [system, *without_notices(shown(state["messages"], state.get("compaction")))]
    tokens = prompt_tokens(state.get("context_tokens", 0), prompt)
    max_chars = min(room_tokens * CHARS_PER_TOKEN // SUMMARY_SHARE, SUMMARY_CHARS)
    asked = _asked(prompt, fold, tokens, room=_room_for(max_chars, window_tokens))
    if asked is None:
        summary = _Summary(fault="the conversation did not fit the model's window any more")
    else:
        summary = await _summarise(asked, ask, max_chars)
    head = _head(state, fold, summary.text, room_tokens=room_tokens)
    left = estimate_tokens(len(head) + len(system.text) + chars_of(fold.tail))
    return Compacted(
        compaction=Compaction(through=str(fold.folded[-1].id), head=head),
        replies=summary.replies,
        told=_told(fold, summary, before=tokens, after=left),
        tokens=left,
    )


def _room_for(max_chars: int, window_tokens: int | None) -> float:
    """Tokens of a prompt that leaves room for so long a summary."""
    return math.inf if window_tokens is None else window_tokens - estimate_tokens(max_chars)


def _asked(
    prompt: Sequence[BaseMessage], fold: _Fold, tokens: int, *, room: float
) -> Sequence[BaseMessage] | None:
    """What is summarised: the prompt, or where that is too long without the turns that stay; or nothing."""
    if tokens <= room:
        return prompt
    tail = without_notices(fold.tail)
    return prompt[: len(prompt) - len(tail)] if tokens - estimate_tokens(chars_of(tail)) <= room else None


def _choose_fold(state: RunState, *, keep_turns: int, room_tokens: int) -> _Fold | None:
    """Where to cut the conversation; None when all of it stays."""
    messages = state["messages"]
    end = place_of_end(messages, state.get("compaction"))
    turns = split_turns(messages[0 if end is None else end + 1 :])
    kept = tail_of(turns, keep=keep_turns, room_tokens=room_tokens // TAIL_SHARE)
    if kept >= len(turns):
        return None
    cut = len(messages) - sum(len(turn) for turn in turns[-kept:])
    return _Fold(list(messages[:cut]), list(messages[cut:]), len(turns) - kept, kept)


async def _summarise(prompt: Sequence[BaseMessage], ask: Ask, max_chars: int) -> _Summary:
    """The model's summary, asked for at the end of the prompt that it knows already."""
    told = note(load_prompt("compact").format(words=max_chars // CHARS_PER_WORD))
    try:
        reply = await ask([*prompt, told])
    except TerminalError as error:
        return _Summary(fault=error.message)
    text = clip_text(reply.text.strip(), max_chars)
    return _Summary(text, [reply], "" if text else "the model wrote none")


def _head(state: RunState, fold: _Fold, summary: str, *, room_tokens: int) -> str:
    """What is sent in the place of the folded messages."""
    steps = _steps_of(state, fold)
    parts = [
        OPENING.format(count=len(fold.folded)),
        render_pins(state, fold.folded, steps, room_chars=room_tokens * CHARS_PER_TOKEN),
    ]
    text = summary or _digest(state, steps, max_chars=room_tokens * CHARS_PER_TOKEN // SUMMARY_SHARE)
    if text:
        parts.append(f"{SUMMARY}\n{text.replace(SUMMARY, '(an older summary)')}")
    return "\n\n".join(part for part in parts if part)


def _steps_of(state: RunState, fold: _Fold) -> Sequence[StepRecord]:
    """The records of the folded messages: all but one for each reply that stays."""
    replies = sum(isinstance(m, AIMessage) and not is_notice(m) for m in fold.tail)
    steps = state.get("steps", [])
    return steps[: max(0, len(steps) - replies)]


def _digest(state: RunState, steps: Sequence[StepRecord], *, max_chars: int) -> str:
    """The latest steps, a line each, behind the summary of before."""
    lines = [_step_line(step) for step in steps[-DIGEST_STEPS:]]
    while lines and sum(map(len, lines)) > max_chars // 2:
        del lines[0]
    listed = "\n".join([DIGEST, *lines]) if lines else ""
    old = clip_text(_summary_before(state).partition(DIGEST)[0].strip(), max_chars // 2)
    return "\n\n".join(part for part in (old, listed) if part)


def _summary_before(state: RunState) -> str:
    """The summary in the head that is replaced; empty where there is none."""
    before = state.get("compaction")
    if before is None or place_of_end(state["messages"], before) is None:
        return ""
    _, mark, summary = before["head"].rpartition(f"{SUMMARY}\n")
    return summary if mark else ""


def _step_line(step: StepRecord) -> str:
    """`12. I look for the cause: grep_files({"pattern": "x"}) ok`."""
    thought = step["thought"].strip().partition("\n")[0][:DIGEST_CHARS]
    calls = ", ".join(
        f"{call['tool']}({json.dumps(call['args'], ensure_ascii=False)[:DIGEST_CHARS]}) "
        f"{'ok' if call['success'] else 'failed'}"
        for call in step["calls"]
    )
    return f"{step['number']}. " + ": ".join(part for part in (thought, calls) if part)


def _told(fold: _Fold, summary: _Summary, *, before: int, after: int) -> str:
    how = "summarised" if summary.text else f"listed without a summary ({summary.fault.rstrip('.')})"
    return (
        f"Older turns were {how}: {fold.turns} folded, {fold.kept} kept; "
        f"about {before:,} tokens became {after:,}."
    )
