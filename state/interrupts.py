"""The shape of a question to a person, and the reading of whatever a client replies.

One request asks about one action and carries both `args` (LangGraph Studio, Agent Chat UI) and
`arguments` (Agent Inbox). A reply that is not understood means no.
"""

import hashlib
import json
import math
from dataclasses import dataclass
from typing import Any, Final, Literal, NotRequired

from typing_extensions import TypedDict  # pydantic reads no other kind before Python 3.12

from lockstitch.state.run_state import Decision, Pause, PendingChange, PlannedCall

APPROVAL_DECISIONS: Final = ("approve", "edit", "reject", "respond")
CHANGES_DECISIONS: Final = ("approve", "reject", "respond")
QUESTION_DECISIONS: Final = ("respond", "reject")  # with a message both are the answer
GO_ON: Final = "go_on"  # the name of the action that a run at a limit asks about
RESTORE: Final = "restore_files"  # the name of the action that asks whether files come along to a fork
RESTORE_DECISIONS: Final = ("approve", "reject")
UNREADABLE: Final = Decision(type="reject", message="the reply could not be read, so it counts as no")
OTHER_CALL: Final = Decision(
    type="reject", message="the approval was for another call than this one, so it counts as no"
)
PlainText = Literal["reject", "respond"]
_YES: Final = frozenset({"yes", "y", "approve", "accept", "ok"})
_NO: Final = frozenset({"", "no", "n", "stop", "reject"})


@dataclass(frozen=True, kw_only=True)
class GoOn:
    """A person's word on a run that met a limit.

    Attributes:
        go_on: false stops and sums up.
        more: in the limit's own unit; None takes what was offered.
        compact: summarise the older turns first.
        message: what the model is told, in the person's words.
    """

    go_on: bool
    more: float | None = None
    compact: bool = False
    message: str = ""


class ActionRequest(TypedDict):
    """The action a person is asked about."""

    name: str
    args: dict[str, Any]
    arguments: dict[str, Any]
    description: str


class ReviewConfig(TypedDict):
    """Which decisions fit the action of that name."""

    action_name: str
    allowed_decisions: list[str]


class HumanRequest(TypedDict):
    """LangChain's HITLRequest with our action id beside it."""

    action_id: str
    action_requests: list[ActionRequest]
    review_configs: list[ReviewConfig]
    question: NotRequired[str]
    digest: NotRequired[str]  # of what is shown; a reply that names another one counts as no
    rule: NotRequired[dict[str, str]]  # that approving for always writes down, word for word
    changes: NotRequired[list[PendingChange]]  # that it would make, or made and would keep; the first of them
    total: NotRequired[int]  # of the changes
    diff: NotRequired[str]  # of the changes, in the form of `diff -u`, cut


def approval_request(call: PlannedCall) -> HumanRequest:
    """Ask whether `call` may run, or whether what it changed may be kept."""
    note = call["note"] or f"{call['tool']} asks first"
    request = _request(call, description=note, allowed=allowed_for(call))
    request["digest"] = digest_of(call)
    if seen := call.get("shown"):
        request["changes"], request["total"], request["diff"] = seen["changes"], seen["total"], seen["diff"]
    if rule := call.get("rule"):
        request["rule"] = rule
    return request


def digest_of(call: PlannedCall) -> str:
    """What an approval is bound to: the sha256 in hex of tool, arguments, offered rule and made changes."""
    shown = {"tool": call["tool"], "args": call["args"], "rule": call.get("rule")}
    if seen := call.get("shown"):
        shown["changes"] = seen["digest"]
    return hashlib.sha256(json.dumps(shown, sort_keys=True).encode()).hexdigest()


def allowed_for(call: PlannedCall) -> tuple[str, ...]:
    """The decisions that fit: what a command has made can be kept or not, and no longer edited."""
    return CHANGES_DECISIONS if "pending" in call else APPROVAL_DECISIONS


def question_request(call: PlannedCall) -> HumanRequest:
    """Ask the question that a `request_input` call holds."""
    question = str(call["args"].get("question", ""))
    return {**_request(call, description=question, allowed=QUESTION_DECISIONS), "question": question}


def limit_request(pause: Pause, *, action_id: str, description: str) -> HumanRequest:
    """Ask whether a run that met a limit may go on: approve, edit the amount, reject, or say something."""
    args = {"limit": pause["limit"], "at": pause["at"], "more": pause["more"], "compact": False}
    action = ActionRequest(name=GO_ON, args=args, arguments=args, description=description)
    review = ReviewConfig(action_name=GO_ON, allowed_decisions=list(APPROVAL_DECISIONS))
    return HumanRequest(action_id=action_id, action_requests=[action], review_configs=[review])


def restore_request(action_id: str, description: str) -> HumanRequest:
    """Ask whether the files are taken to the step that a run goes on from; no leaves them."""
    action = ActionRequest(name=RESTORE, args={}, arguments={}, description=description)
    review = ReviewConfig(action_name=RESTORE, allowed_decisions=list(RESTORE_DECISIONS))
    return HumanRequest(action_id=action_id, action_requests=[action], review_configs=[review])


def read_go_on(reply: object) -> GoOn:
    """The decision in a client's reply to a limit request; text goes on and is told to the model."""
    decision = _decision(_only(reply), plain_text_is="respond")
    match decision["type"]:
        case "approve":
            return GoOn(go_on=True)
        case "edit":
            args = decision.get("args", {})
            more = args.get("more")
            number = isinstance(more, int | float) and not isinstance(more, bool) and math.isfinite(more)
            return GoOn(go_on=True, more=more if number else None, compact=args.get("compact") is True)
        case "respond":
            return _go_on_from_text(decision.get("message", ""))
        case _:
            return GoOn(go_on=False)


def _go_on_from_text(text: str) -> GoOn:
    """A number is an amount, `compact`, `yes` and `no` are what they say, anything else is for the model."""
    word = text.strip().lower()
    if word in _YES:
        return GoOn(go_on=True)
    if word in _NO:
        return GoOn(go_on=False)
    if word == "compact":
        return GoOn(go_on=True, compact=True)
    if word.replace(".", "", 1).isdecimal():
        return GoOn(go_on=True, more=float(word))
    return GoOn(go_on=True, message=text)


def read_approval(reply: object, *, digest: str | None = None) -> Decision:
    """The decision in a client's reply to an approval request; `digest` is of what now waits."""
    only = _only(reply)
    decision = _decision(only, plain_text_is="reject")
    if not isinstance(only, dict) or decision["type"] not in ("approve", "edit"):
        return decision
    if digest is not None and only.get("digest") not in (None, "", digest):
        return OTHER_CALL
    if decision["type"] == "approve" and only.get("always") is True:
        return {**decision, "always": True}
    return decision


def read_answer(reply: object) -> Decision:
    """The decision in a client's reply to a question: any plain text is the answer.

    Some clients have a field for words beside "reject" alone (Agent Inbox, Agent Chat UI): those words too.
    """
    decision = _decision(_only(reply), plain_text_is="respond")
    if decision["type"] == "approve":
        return Decision(type="respond", message="yes")
    if decision["type"] == "reject" and decision.get("message") and decision != UNREADABLE:
        return Decision(type="respond", message=decision["message"])
    return UNREADABLE if decision["type"] == "edit" else decision  # a question has nothing to edit


def _request(call: PlannedCall, *, description: str, allowed: tuple[str, ...]) -> HumanRequest:
    action = ActionRequest(
        name=call["tool"], args=call["args"], arguments=call["args"], description=description
    )
    review = ReviewConfig(action_name=call["tool"], allowed_decisions=list(allowed))
    return HumanRequest(action_id=call["id"], action_requests=[action], review_configs=[review])


def _only(reply: object) -> object:
    """The single reply inside the batched shapes; None where there is not exactly one."""
    if isinstance(reply, dict) and isinstance(reply.get("decisions"), list):
        reply = reply["decisions"]
    if isinstance(reply, list):
        return reply[0] if len(reply) == 1 else None
    return reply


def _decision(reply: object, *, plain_text_is: PlainText) -> Decision:
    if reply is True:
        return Decision(type="approve")
    if isinstance(reply, str):
        return _from_text(reply, plain_text_is)
    if isinstance(reply, dict):
        return _from_object(reply, plain_text_is)
    return UNREADABLE


def _from_text(text: str, plain_text_is: PlainText) -> Decision:
    if plain_text_is == "respond":
        return Decision(type="respond", message=text)
    if text.strip().lower() in _YES:
        return Decision(type="approve")
    return Decision(type="reject", message=text)


def _from_object(reply: dict[str, Any], plain_text_is: PlainText) -> Decision:
    kind, args = reply.get("type"), reply.get("args")
    message = reply.get("message", args)
    match kind:
        case "approve" | "accept":
            return Decision(type="approve")
        case "edit":
            return _edit(reply.get("edited_action") or args)
        case "reject" | "ignore":
            return Decision(type="reject", message=str(message or ""))
        case "respond":
            return Decision(type="respond", message=str(message or ""))
        case "response":  # Agent Inbox's free text: an answer to a question, never an approval
            return Decision(type=plain_text_is, message=str(message or ""))
        case _:
            return UNREADABLE


def _edit(action: object) -> Decision:
    """`{name, args}` (LangChain), `{action, args}` (Agent Inbox), or the arguments alone."""
    if not isinstance(action, dict):
        return UNREADABLE
    named = "args" in action and ("name" in action or "action" in action)
    args = action["args"] if named else action
    return Decision(type="edit", args=args) if isinstance(args, dict) else UNREADABLE
