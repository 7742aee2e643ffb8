"""The channels of the graph's state: what a checkpoint holds.

Everything in here is a plain dict, list, string or number besides LangChain's messages. So a checkpoint can
be read and edited as JSON in Studio, is small on disk, and loading one builds no class of ours.

`messages` and `steps` grow by their writes alone (delta channels): a stock channel stores the whole
list again at every step, 434 times the raw data at 400 turns.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, NotRequired
from uuid import NAMESPACE_OID, uuid5

from langchain_core.messages import AnyMessage, BaseMessage, RemoveMessage, convert_to_messages
from langgraph.channels.delta import DeltaChannel
from typing_extensions import TypedDict  # pydantic reads no other kind before Python 3.12

from lockstitch.state.events import AgentPhase
from lockstitch.state.reasons import TerminationReason
from lockstitch.state.recent import Recent
from lockstitch.state.todos import Todo

# Writes between two full copies of a delta channel: in effect never, so that a file grows as its threads do.
# Copies cost the square of the length; LangGraph makes one every 5,000 supersteps (1,667 steps) all the same.
# At 2,000 steps of 1 KB a copy every 1,000 writes made a file a fifth larger, and reading the state took
# 0.09 s of CPU, not 0.16: the messages must be built either way.
SNAPSHOT_EVERY = 1_000_000

# The lists that `merge_messages` gave last, each with the ids in it: the next one mostly adds to one of them,
# and to look at all messages again costs 0.1 ms for each 100.
LISTS_KEPT = 8
_lists: Recent[list[AnyMessage], set[str | None]] = Recent(LISTS_KEPT)

REMOVE_ALL = "__remove_all__"  # the id LangGraph's own reducer gives this meaning

Verdict = Literal["run", "try", "ask", "question", "refuse"]  # try: run, and ask before its changes are kept
DecisionType = Literal["approve", "edit", "reject", "respond"]


class Decision(TypedDict):
    """A person's word on one call: go, go with other arguments, no (why), or the result itself."""

    type: DecisionType
    always: NotRequired[bool]  # of approve: the offered rule is to be written down
    args: NotRequired[dict[str, Any]]  # of edit
    message: NotRequired[str]  # of reject and respond


class PendingChange(TypedDict):
    """One file of what waits for a person; a count is None where lines cannot be counted."""

    path: str
    change: Literal["A", "M", "D"]  # added, modified, deleted
    added: int | None
    removed: int | None


class Shown(TypedDict):
    """Changes as a person is shown them."""

    changes: list[PendingChange]  # the first of them
    total: int  # of them all
    diff: str  # unified, cut
    digest: str  # sha256 in hex of all of them


class Pending(TypedDict):
    """What a command changed and a person has to say yes to before the workspace gets it."""

    layer: str  # the folder that holds it
    told: str  # what the model is told once it is kept


class PlannedCall(TypedDict):
    """One tool call of this step, with what policy said of it and then a person."""

    id: str
    tool: str
    args: dict[str, Any]
    verdict: Verdict
    note: str  # why it asks or is refused; empty otherwise
    rule: NotRequired[dict[str, str]]  # that "always" would write down, where one is offered
    decision: NotRequired[Decision]
    shown: NotRequired[Shown]  # what it would change, or has changed and not kept yet
    pending: NotRequired[Pending]  # of a call that ran, and whose changes are not kept yet


class RunEnd(TypedDict):
    """How the strategy ends the run: its final words, and why."""

    answer: str
    reason: TerminationReason


class Pause(TypedDict):
    """A limit that the run has met, and by how much it would go on if a person says so."""

    reason: TerminationReason
    limit: str  # max_steps, cost_limit_usd, token_limit or time_limit_s
    at: float  # the limit's value, in its own unit
    more: float


class Compaction(TypedDict):
    """Older messages as the model is shown them; the messages themselves stay in the thread."""

    through: str  # id of the last message that `head` stands for
    head: str  # what is sent in their place, to the byte


class CallOutcome(TypedDict):
    """What one executed call came to; `output` is the text the model gets."""

    id: str
    tool: str
    success: bool
    output: str
    time_ms: float


class CallTrace(TypedDict):
    """One call: hashes of tool and arguments, and of the result."""

    key: str
    result: str
    ok: bool


class StepTrace(TypedDict):
    """What one step did, in hashes.

    Attributes:
        calls: each different call of the step once.
        text: of what the model said; empty when it said nothing.
        files: names what the step made of the files; empty when it left them as they were. A name that
            comes again stands for the same change, so the id of a snapshot serves as well.
    """

    calls: list[CallTrace]
    text: str
    files: str


class StepRecord(TypedDict):
    """The record that each step leaves."""

    number: int
    prompt: str  # the new part of the prompt, clipped
    thought: str
    calls: list[dict[str, Any]]  # {tool, args, success, time_ms, output (clipped)}
    observation: str
    todos: list[Todo]
    state: AgentPhase
    model: str
    tier: str
    started_at: str  # ISO 8601, UTC
    plan_ms: float
    execute_ms: float
    input_tokens: int
    output_tokens: int
    cost_usd: NotRequired[float | None]  # None where a price is unknown


def append_records(records: list[Any], writes: Sequence[Sequence[Any]]) -> list[Any]:
    """Reducer of `steps`: each write is a list of new records."""
    return [*records, *(record for write in writes for record in write)]


def merge_messages(messages: list[AnyMessage], writes: Sequence[Any]) -> list[AnyMessage]:
    """Reducer of `messages`: append, replace by id, remove by id, remove all.

    Deterministic and the same however the writes are batched, as a delta channel requires. Unlike
    LangGraph's own reducer a removal of an unknown id is no error: a fork may replay it.
    """
    new = _flatten(writes)
    known = _lists.take(messages)
    if known is not None and len(known) == len(messages) and _are_new(new, known):
        merged = [*messages, *new]
        known.update(message.id for message in new)
    else:
        merged = _merged(messages, new)
        known = {message.id for message in merged}
    _lists.keep(merged, known)
    return merged


def _are_new(messages: Sequence[AnyMessage], known: set[str | None]) -> bool:
    """Whether they only need to be appended to those with the known ids."""
    ids = {message.id for message in messages}
    plain = not any(isinstance(message, RemoveMessage) for message in messages)
    return (
        plain and len(ids) == len(messages) and ids.isdisjoint({None, REMOVE_ALL}) and ids.isdisjoint(known)
    )


def _merged(messages: Sequence[AnyMessage], new: Sequence[Any]) -> list[AnyMessage]:
    kept: dict[str | None, AnyMessage] = {message.id: message for message in messages}
    for message in new:
        if message.id == REMOVE_ALL:
            kept.clear()
        elif isinstance(message, RemoveMessage):
            kept.pop(message.id, None)
        else:
            whole = message if message.id else _with_id(message, after=next(reversed(kept), None))
            kept[whole.id] = whole
    return list(kept.values())


def _flatten(writes: Sequence[Any]) -> list[Any]:
    flat: list[Any] = []
    for write in writes:
        items = write if isinstance(write, list) else [write]
        flat.extend(items if all(isinstance(m, BaseMessage) for m in items) else convert_to_messages(items))
    return flat


def _with_id(message: Any, *, after: str | None) -> Any:
    """The message with an id that is the same at every replay.

    LangGraph stamps ids on messages before it saves them, but not on bare strings and tuples.
    """
    made = uuid5(NAMESPACE_OID, f"{after} {message.type} {message.text}")
    return message.model_copy(update={"id": str(made)})


class RunInput(TypedDict):
    """What a client sends to begin a run: usually one human message."""

    messages: Annotated[list[AnyMessage], DeltaChannel(merge_messages, snapshot_frequency=SNAPSHOT_EVERY)]


class RunState(TypedDict, total=False):
    """The whole state. Fields above the line belong to the thread, those below to the run or step."""

    messages: Annotated[list[AnyMessage], DeltaChannel(merge_messages, snapshot_frequency=SNAPSHOT_EVERY)]
    steps: Annotated[list[StepRecord], DeltaChannel(append_records, snapshot_frequency=SNAPSHOT_EVERY)]
    todos: list[Todo]
    workspace: str
    files: str  # the effect of the journal that the files have; empty before the first
    last_seq: int  # of the thread's last event
    escapes: int  # paths out of the workspace that this thread tried
    compaction: Compaction | None
    context_tokens: int  # of the last prompt and its reply, as the model counted them
    thread_tokens: int  # of every call of the thread, summaries and last words too
    thread_cost_usd: float | None  # of the same calls; None once a price was unknown
    context_told: str  # hash of the context this thread was last given
    # ---
    run_id: str
    phase: AgentPhase
    step: int  # steps begun in this run
    max_steps: int
    cost_limit_usd: float | None
    token_limit: int | None
    time_limit_s: float | None
    pause: Pause | None  # set while a person is asked whether to go on
    sum_up: bool  # a person wants the run to end with a summary
    compact_asked: bool  # a person wants the older turns summarised before the next call
    calls: list[PlannedCall]
    outcomes: list[CallOutcome]
    draft: StepRecord | None  # the record of the step under way
    ending: RunEnd | None  # set when the strategy has the final answer
    empty_replies: int  # in a row
    traces: list[StepTrace]  # of the last steps of this run, for the detection of loops
    input_tokens: int
    output_tokens: int
    cost_usd: float | None  # of this run; None once a price was unknown
    worked_s: float  # time of this run, without waiting for people
    reason: TerminationReason | None
    error: str  # the message of a terminal error
    final_answer: str


REPLAYED = frozenset(name for name, hint in RunState.__annotations__.items() if "DeltaChannel" in str(hint))
"""The channels that are replayed from their writes."""

STORED_WHOLE = frozenset(RunState.__annotations__) - REPLAYED
"""The channels whose value every checkpoint holds."""
