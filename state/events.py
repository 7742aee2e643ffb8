"""The typed events of a run: a closed union, the same at every door. Names and fields are forever.

An event is born without its place (`AgentTurnStart()`), gets it from the `EventStamp` of its run
(event_stamp.py), and leaves as a JSON object through `dump_event`. `parse_event` is the way back.
"""

import json
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter
from pydantic_core import to_jsonable_python

from lockstitch.state.file_summary import FileSummary
from lockstitch.state.reasons import TerminationReason
from lockstitch.state.todos import Todo

AgentPhase = Literal[
    "idle", "planning", "executing", "observing", "waiting", "completed", "error", "cancelled"
]
DiffLineType = Literal["add", "remove", "context"]
ChangeType = Literal["create", "modify", "delete", "move"]


_to_json = json.JSONEncoder(default=to_jsonable_python).encode


class _Part(BaseModel):
    """Base of everything in an event: frozen, nothing extra."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class DiffLine(_Part):
    """One line of a diff; `line_number` counts from 1, in the new file for add and context, else the old."""

    line_number: int
    type: DiffLineType
    content: str


class _Event(_Part):
    """Where every event stands: `seq` counts from 1 within a thread, `timestamp` is ISO 8601 in UTC."""

    seq: int = 0
    thread_id: str = ""
    run_id: str = ""
    step: int = 0
    timestamp: str = ""

    @cached_property
    def line(self) -> str:
        """The event as one line of JSON, all beyond ASCII escaped; made once for all who tell or keep it."""
        # not pydantic's own JSON, which refuses half a character; a model may write one in an argument
        return _to_json(vars(self))


class AgentStart(_Event):
    """A run begins; `prompt` is what the person said, for whoever follows it without having asked."""

    type: Literal["agent_start"] = "agent_start"
    max_steps: int
    model: str
    strategy: str
    mode: str
    workspace: str
    prompt: str = ""


class AgentTurnStart(_Event):
    """A step begins; `step` is its number."""

    type: Literal["agent_turn_start"] = "agent_turn_start"


class AgentStateChange(_Event):
    """The state a user sees has changed."""

    type: Literal["agent_state"] = "agent_state"
    state: AgentPhase


class AgentContext(_Event):
    """What the run was given to know at its beginning, and what was left out."""

    type: Literal["agent_context"] = "agent_context"
    content: str


class AgentReason(_Event):
    """What the model thought in this step."""

    type: Literal["agent_reason"] = "agent_reason"
    content: str


class AgentToolStart(_Event):
    """A tool call begins."""

    type: Literal["agent_tool_start"] = "agent_tool_start"
    call_id: str
    tool: str
    args: dict[str, Any]


class AgentToolProgress(_Event):
    """A running tool has something to say."""

    type: Literal["agent_tool_progress"] = "agent_tool_progress"
    call_id: str
    tool: str
    content: str


class AgentToolComplete(_Event):
    """A tool call ended well; `result` is the text the model gets, `data` its structured part."""

    type: Literal["agent_tool_complete"] = "agent_tool_complete"
    call_id: str
    tool: str
    result: str
    data: dict[str, Any] = Field(default_factory=dict)
    time_ms: float


class AgentToolError(_Event):
    """A tool call failed; the run goes on and the model sees `message`."""

    type: Literal["agent_tool_error"] = "agent_tool_error"
    call_id: str
    tool: str
    message: str
    time_ms: float


class AgentDiffPreview(_Event):
    """What a call changed, or would change, in one file. Hashes are sha256 in hex, "" without a file."""

    type: Literal["agent_diff_preview"] = "agent_diff_preview"
    call_id: str
    file_path: str
    change_type: ChangeType
    diff_lines: list[DiffLine]
    original_hash: str
    new_hash: str


class AgentApprovalRequest(_Event):
    """A call, or what it changed, waits for a person's word; answered by `action_id`."""

    type: Literal["agent_approval_request"] = "agent_approval_request"
    action_id: str
    tool: str
    args: dict[str, Any]
    reason: str
    allowed_decisions: list[str]
    digest: str = ""  # of tool, args and rule; an approval that names another one counts as no
    rule: dict[str, str] | None = None  # that approving for always would write down
    changes: list[FileSummary] = []  # that it would make, or has made and would keep; the first of them
    total: int = 0  # of the changes
    diff: str = ""  # of the changes, in the form of `diff -u`, cut


class AgentRequestInput(_Event):
    """The run waits for a person's answer to one question."""

    type: Literal["agent_request_input"] = "agent_request_input"
    action_id: str
    question: str


class AgentRequestInputTimeout(_Event):
    """Nobody answered in time; the thread stays waiting and can be answered later."""

    type: Literal["agent_request_input_timeout"] = "agent_request_input_timeout"
    action_id: str
    timeout_s: float


class AgentObserve(_Event):
    """What the step came to."""

    type: Literal["agent_observe"] = "agent_observe"
    content: str


class AgentTodos(_Event):
    """The TODO list as it now stands."""

    type: Literal["agent_todos"] = "agent_todos"
    tasks: list[Todo]


class AgentUsage(_Event):
    """Tokens of one turn of the model, and of the run so far. A cost is None where a price is unknown."""

    type: Literal["agent_usage"] = "agent_usage"
    model: str
    input_tokens: int
    output_tokens: int
    run_input_tokens: int
    run_output_tokens: int
    cached_tokens: int = 0  # of the input tokens, read from the provider's cache
    cost_usd: float | None = None
    run_cost_usd: float | None = None
    context_tokens: int = 0  # the conversation as it now stands
    context_window: int = 0  # tokens the model can read; 0 where nobody knows
    tier: str = ""  # fast, balanced or powerful: by which the model was chosen


class AgentDelta(_Event):
    """A piece of a reply that is being written; what it came to follows in the other events.

    `kind` is text, reasoning, or tool_call; of a call `tool` is its name and `content` a piece of its
    arguments' JSON.
    """

    type: Literal["agent_delta"] = "agent_delta"
    kind: Literal["text", "reasoning", "tool_call"]
    content: str
    tool: str = ""


class AgentNotice(_Event):
    """Something a person should know that is no error: a retry, another model, an older turn summarised."""

    type: Literal["agent_notice"] = "agent_notice"
    content: str


class AgentAnswer(_Event):
    """The run's final words."""

    type: Literal["agent_answer"] = "agent_answer"
    content: str


class AgentStopped(_Event):
    """A person stopped the run; the thread can be resumed."""

    type: Literal["agent_stopped"] = "agent_stopped"


class AgentErrorEvent(_Event):
    """The run met an error that ends it."""

    type: Literal["agent_error"] = "agent_error"
    message: str


class AgentCompletion(_Event):
    """The run is over."""

    type: Literal["agent_completion"] = "agent_completion"
    steps: int
    reason: TerminationReason


Event = Annotated[
    AgentStart
    | AgentTurnStart
    | AgentStateChange
    | AgentContext
    | AgentReason
    | AgentToolStart
    | AgentToolProgress
    | AgentToolComplete
    | AgentToolError
    | AgentDiffPreview
    | AgentApprovalRequest
    | AgentRequestInput
    | AgentRequestInputTimeout
    | AgentObserve
    | AgentTodos
    | AgentUsage
    | AgentDelta
    | AgentNotice
    | AgentAnswer
    | AgentStopped
    | AgentErrorEvent
    | AgentCompletion,
    Field(discriminator="type"),
]

_ADAPTER: TypeAdapter[Event] = TypeAdapter(Event)


def dump_event(event: Event) -> dict[str, Any]:
    """The event as a JSON object."""
    return event.model_dump(mode="json")


def parse_event(body: dict[str, Any]) -> Event:
    """The event of a JSON object made by `dump_event`.

    Raises:
        pydantic.ValidationError: the object is no event of this version.
    """
    return _ADAPTER.validate_python(body)
