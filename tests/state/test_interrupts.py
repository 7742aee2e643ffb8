"""Replies of every client we know: an unknown one means no, and free text never approves."""

from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstitch.state.interrupts import (
    APPROVAL_DECISIONS,
    UNREADABLE,
    approval_request,
    question_request,
    read_answer,
    read_approval,
)
from lockstitch.state.run_state import DecisionType, PlannedCall

CALL = PlannedCall(
    id="call_1", tool="delete_file", args={"path": "a.py"}, verdict="ask", note="delete asks first"
)
YES = {"type": "approve"}
ARGS = {"path": "b.py"}
EDIT = {"type": "edit", "args": ARGS}


def no(why: str = "") -> dict[str, str]:
    return {"type": "reject", "message": why}


APPROVALS: dict[str, tuple[object, object]] = {
    # LangChain's middleware, batched (also Agent Chat UI)
    "batched approve": ({"decisions": [{"type": "approve"}]}, YES),
    "batched edit": (
        {"decisions": [{"type": "edit", "edited_action": {"name": "delete_file", "args": ARGS}}]},
        EDIT,
    ),
    "batched reject": ({"decisions": [{"type": "reject", "message": "keep it"}]}, no("keep it")),
    "batched respond": (
        {"decisions": [{"type": "respond", "message": "done by hand"}]},
        {"type": "respond", "message": "done by hand"},
    ),
    # the same, one decision a call
    "per call approve": ({"type": "approve"}, YES),
    "per call edit": ({"type": "edit", "edited_action": {"name": "delete_file", "args": ARGS}}, EDIT),
    "per call reject without a word": ({"type": "reject"}, no()),
    # Agent Inbox: always a list of one
    "inbox accept": ([{"type": "accept", "args": None}], YES),
    "inbox edit": ([{"type": "edit", "args": {"action": "delete_file", "args": ARGS}}], EDIT),
    "inbox response": ([{"type": "response", "args": "not this one"}], no("not this one")),
    "inbox response that says yes": ([{"type": "response", "args": "yes"}], no("yes")),
    "inbox ignore": ([{"type": "ignore", "args": None}], no()),
    # plain text and truth: Studio's resume box, the command line
    "true": (True, YES),
    "yes": (" Yes ", YES),
    "y": ("y", YES),
    "no": ("no", no("no")),
    "a sentence with yes in it": ("yes, but not in src", no("yes, but not in src")),
    "empty text": ("", no("")),
    "bare arguments": ({"type": "edit", "args": ARGS}, EDIT),
    "bare arguments with a name": (
        {"type": "edit", "args": {"name": "x"}},
        {"type": "edit", "args": {"name": "x"}},
    ),
}
NO_MATTER_WHAT_WAS_ASKED: dict[str, object] = {
    "nothing": None,
    "false": False,
    "one is not true": 1,
    "empty object": {},
    "unknown type": {"type": "maybe"},
    "type that cannot be hashed": {"type": ["approve"]},
    "type in other letters": {"type": "APPROVE"},
    "decision key": {"decision": "approve"},
    "no decision": {"decisions": []},
    "two decisions for one request": {"decisions": [{"type": "approve"}, {"type": "approve"}]},
    "two inbox replies": [{"type": "accept"}, {"type": "accept"}],
    "list in a list": [[{"type": "approve"}]],
    "decisions that are no list": {"decisions": "approve"},
    "edit without arguments": {"type": "edit"},
    "edit of nothing": {"type": "edit", "edited_action": {"name": "delete_file", "args": None}},
    "edit with text": {"type": "edit", "args": "b.py"},
}


@pytest.mark.parametrize(("reply", "decision"), APPROVALS.values(), ids=APPROVALS)
def test_approval_is_read_from_every_known_shape(reply: object, decision: object) -> None:
    assert read_approval(reply) == decision


@pytest.mark.parametrize("reply", NO_MATTER_WHAT_WAS_ASKED.values(), ids=NO_MATTER_WHAT_WAS_ASKED)
def test_unreadable_reply_means_no(reply: object) -> None:
    assert read_approval(reply) == UNREADABLE
    assert read_answer(reply) == UNREADABLE


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "args", "message", "decisions", "x"]), inner, max_size=3)
    ),
    max_leaves=6,
)


def says_yes(reply: Any) -> bool:
    """An independent and stricter reading of what may approve: exactly one clear yes."""
    if isinstance(reply, dict) and isinstance(reply.get("decisions"), list):
        reply = reply["decisions"]
    if isinstance(reply, list):
        return len(reply) == 1 and not isinstance(reply[0], list) and says_yes_alone(reply[0])
    return says_yes_alone(reply)


def says_yes_alone(reply: Any) -> bool:
    if isinstance(reply, str):
        return reply.strip().lower() in {"yes", "y", "approve", "accept", "ok"}
    return reply is True or (isinstance(reply, dict) and reply.get("type") in ("approve", "accept"))


@given(JSON)
def test_any_json_gets_a_decision_and_only_a_clear_yes_approves(reply: Any) -> None:
    decision = read_approval(reply)
    assert decision["type"] in get_args(DecisionType)
    assert (decision["type"] == "approve") == says_yes(reply)


@given(st.text())
def test_every_text_is_the_answer_to_a_question(text: str) -> None:
    answer = {"type": "respond", "message": text}
    assert read_answer(text) == answer
    assert read_answer([{"type": "response", "args": text}]) == answer
    assert read_answer({"decisions": [{"type": "respond", "message": text}]}) == answer


@pytest.mark.parametrize("reply", [True, {"type": "accept"}, {"decisions": [{"type": "approve"}]}])
def test_a_yes_to_a_question_is_the_answer_yes(reply: object) -> None:
    assert read_answer(reply) == {"type": "respond", "message": "yes"}


def test_refusing_to_answer_is_no_answer() -> None:
    assert read_answer([{"type": "ignore", "args": None}]) == no()


def test_a_question_cannot_be_edited() -> None:
    assert read_answer({"type": "edit", "args": {"question": "another?"}}) == UNREADABLE


def test_approval_request_shows_the_arguments_to_every_client() -> None:
    request = approval_request(CALL)
    assert request["action_id"] == "call_1"
    assert request["action_requests"] == [
        {
            "name": "delete_file",
            "args": {"path": "a.py"},
            "arguments": {"path": "a.py"},
            "description": "delete asks first",
        }
    ]
    assert request["review_configs"] == [
        {"action_name": "delete_file", "allowed_decisions": list(APPROVAL_DECISIONS)}
    ]
    assert "question" not in request


def test_approval_request_without_a_note_still_says_what_it_asks() -> None:
    request = approval_request({**CALL, "note": ""})
    assert request["action_requests"][0]["description"] == "delete_file asks first"


def test_question_request_holds_the_question_and_what_fits_it() -> None:
    call: PlannedCall = {**CALL, "tool": "request_input", "args": {"question": "Which one?"}}
    request = question_request(call)
    assert request["question"] == "Which one?"
    assert request["action_requests"][0]["description"] == "Which one?"
    assert request["review_configs"][0]["allowed_decisions"] == ["respond", "reject"]


def test_words_beside_a_reject_answer_a_question_since_some_clients_have_no_other_field() -> None:
    said = {"decisions": [{"type": "reject", "message": "the second one"}]}
    assert read_answer(said) == {"type": "respond", "message": "the second one"}
    assert read_answer({"decisions": [{"type": "reject"}]}) == no()
