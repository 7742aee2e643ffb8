"""A scenario: a conversation written in a file, replayed by the scripted model and by the test server.

Which turn comes next follows from the conversation alone, so a new process goes on where another one
stopped. Nothing in here knows a model client or a wire format.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Annotated, Any, Literal
from uuid import uuid4

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from lockstitch.state.errors import ModelError, SettingsError
from lockstitch.state.misfit import describe_misfit

_PLACEHOLDER = re.compile(r"\$\{(\w+)\}")
_CALL_ID = re.compile(r"call_t(\d+)_")
_CHARS_PER_TOKEN = 4  # the usual rule of thumb for English text and code


class _Part(BaseModel):
    """Base of everything in a scenario file: frozen, nothing extra."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ScriptedCall(_Part):
    """One tool call; without an `id` it gets a fresh one."""

    tool: str
    args: dict[str, Any] = {}
    id: str | None = None


class WireCall(_Part):
    """One tool call as it goes over the wire. In a file: output that is malformed on purpose."""

    name: str
    arguments: str
    id: str | None = None


class Failure(_Part):
    """A turn fails the first `times` times, with an HTTP status or a connection that breaks."""

    status: Annotated[int, Field(ge=400, le=599)] | Literal["disconnect"]
    message: str = "failure on purpose"
    times: int = Field(default=1, ge=1)


class TurnScript(_Part):
    """One turn as the file has it. `${name}` in `say` and `args` stands for what a `capture` found.

    Attributes:
        capture: name to regex, matched against what came in since the turn before (tool results, and a
            person's words); the first group is kept, without one the whole match.
        raw_tool_calls: sent as they are, after `calls`.
    """

    say: str = ""
    calls: tuple[ScriptedCall, ...] = ()
    raw_tool_calls: tuple[WireCall, ...] = ()
    capture: dict[str, str] = {}
    fail: Failure | None = None
    delay_s: float = Field(default=0, ge=0)

    @field_validator("capture")
    @classmethod
    def _must_compile(cls, patterns: dict[str, str]) -> dict[str, str]:
        for name, pattern in patterns.items():
            try:
                re.compile(pattern)
            except re.error as error:
                raise ValueError(f"the pattern of {name} is no regex: {error}") from error
        return patterns


class Scenario(_Part):
    """A whole file.

    Attributes:
        without_tools: what a request that binds no tools gets. `summary` fits native tool calling, where
            only the summing-up at a limit binds none; `turns` fits strategies that ask without tools.
    """

    name: str = Field(min_length=1)
    about: str = ""
    turns: tuple[TurnScript, ...] = ()
    afterwards: str = "The scenario is used up: this scripted model has nothing more to say."
    summary: str = Field(
        default="The run stopped before the scenario's end. A scripted model cannot judge what is left.",
        min_length=1,
    )
    without_tools: Literal["summary", "turns"] = "summary"


@dataclass(frozen=True)
class Heard:
    """One message of a conversation, whoever's format it had."""

    role: Literal["system", "user", "assistant", "tool"]
    text: str
    call_ids: tuple[str, ...] = ()


@dataclass(frozen=True)
class Turn:
    """What to answer now. `number` counts from 0."""

    number: int
    say: str
    calls: tuple[WireCall, ...] = ()
    fail: Failure | None = None
    delay_s: float = 0

    @property
    def finish_reason(self) -> Literal["tool_calls", "stop"]:
        """In OpenAI's words."""
        return "tool_calls" if self.calls else "stop"


class FailureLedger:
    """Counts how often each turn has failed, in this process; safe across threads."""

    def __init__(self) -> None:
        self._met: Counter[int] = Counter()
        self._lock = Lock()

    def due(self, turn: Turn) -> Failure | None:
        """The failure this attempt at the turn meets, if any."""
        if turn.fail is None:
            return None
        with self._lock:
            self._met[turn.number] += 1
            return turn.fail if self._met[turn.number] <= turn.fail.times else None


def load_scenario(path: Path) -> Scenario:
    """Read a scenario file.

    Raises:
        SettingsError: it cannot be read, is no YAML or no scenario; the message says where and what.
    """
    try:
        return Scenario.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise SettingsError(f"the scenario {path} cannot be read: {error.strerror}.") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise SettingsError(f"the scenario {path} is no valid YAML: {error}") from error
    except ValidationError as error:
        wrong = describe_misfit(error, whole="file")
        raise SettingsError(f"the scenario {path} does not fit: {wrong}.") from error


def new_call_id(number: int) -> str:
    """A fresh call id that remembers its turn.

    Fresh, since a turn replayed after a rewind is a new call. It remembers, since a prompt may hold only
    the end of a long conversation and the place in the scenario must not be lost with the beginning.
    """
    return f"call_t{number}_{uuid4().hex[:12]}"


def turn_for(
    scenario: Scenario,
    messages: Iterable[Heard],
    *,
    has_tools: bool = True,
    call_id: Callable[[int], str] = new_call_id,
) -> Turn:
    """The turn that answers this conversation: as many have gone by as the assistant has spoken.

    Raises:
        ModelError: the turn uses a captured name that nothing has matched.
    """
    number, captured = _replay(scenario, messages)
    script = scenario.turns[number] if number < len(scenario.turns) else TurnScript(say=scenario.afterwards)
    if not has_tools and (scenario.without_tools == "summary" or script.calls or script.raw_tool_calls):
        return Turn(number, scenario.summary)
    say, args = _filled((script.say, [call.args for call in script.calls]), scenario, captured, number)
    calls = [
        WireCall(
            name=call.tool, arguments=json.dumps(filled, ensure_ascii=False), id=call.id or call_id(number)
        )
        for call, filled in zip(script.calls, args, strict=True)
    ]
    return Turn(number, say, (*calls, *script.raw_tool_calls), script.fail, script.delay_s)


def estimate_tokens(*texts: str) -> int:
    """A rough token count, never measured by a tokenizer."""
    return -(-sum(map(len, texts)) // _CHARS_PER_TOKEN)


def _replay(scenario: Scenario, messages: Iterable[Heard]) -> tuple[int, dict[str, str]]:
    """Walk the conversation; give the number of the turn that is due and all that was captured so far."""
    number, captured, came_in = 0, dict[str, str](), list[str]()
    for message in messages:
        if message.role in {"tool", "user"}:
            came_in.append(message.text)
        elif message.role == "assistant" and scenario.summary not in message.text:
            number = _number_in(message.call_ids, default=number)
            captured |= _captured(scenario.turns[number : number + 1], came_in)
            number, came_in = number + 1, []
    return number, captured | _captured(scenario.turns[number : number + 1], came_in)


def _number_in(call_ids: Sequence[str], *, default: int) -> int:
    matches = (_CALL_ID.match(call_id) for call_id in call_ids)
    return next((int(match[1]) for match in matches if match), default)


def _captured(turns: Sequence[TurnScript], came_in: Sequence[str]) -> dict[str, str]:
    text = "\n".join(came_in)
    found = {
        name: re.search(pattern, text, re.MULTILINE)
        for turn in turns
        for name, pattern in turn.capture.items()
    }
    return {name: match[1 if match.re.groups else 0] or "" for name, match in found.items() if match}


def _filled(value: Any, scenario: Scenario, captured: Mapping[str, str], number: int) -> Any:
    """Replace `${name}` throughout; names that no turn captures stay, they are the shell's."""
    declared = {name for turn in scenario.turns for name in turn.capture}

    def stand_in(match: re.Match[str]) -> str:
        name = match[1]
        if name in declared and name not in captured:
            raise ModelError(
                f"the scenario {scenario.name!r} cannot go on with turn {number + 1}: no result so far "
                f"matched its capture {name!r}. The scripted model knows no other way."
            )
        return captured.get(name, match[0])

    def fill(part: Any) -> Any:
        match part:
            case str():
                return _PLACEHOLDER.sub(stand_in, part)
            case dict():
                return {key: fill(inner) for key, inner in part.items()}
            case list() | tuple():
                return [fill(inner) for inner in part]
            case _:
                return part

    return fill(value)
