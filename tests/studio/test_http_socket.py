"""The socket at /ws: chat, stop, answer, approve, follow; what does not fit is told and ends nothing."""

from pathlib import Path
from typing import Any

import pytest
from tests.fakes import FakeModel, says
from tests.http_door import Socket, open_door

from lockstitch.state.threads import new_thread_id

ANSWERS = "- say: One.\n- say: Two.\n"
ASKS = "- calls: [{tool: run_command, args: {command: 'echo hi > made.txt'}}]\n- say: Done.\n"
QUESTION = "- calls: [{tool: request_input, args: {question: 'Which?'}}]\n- say: Thanks.\n"
SLEEPS = "- calls: [{tool: run_command, args: {command: 'exec sleep 60'}}]\n- say: Went on.\n"
ALONE: dict[str, Any] = {"mode": "auto", "unsandboxed_commands": "allow"}


def chat(**fields: Any) -> dict[str, Any]:
    return {"type": "chat", "agent_mode": True, "content": "Go."} | fields


def updates(messages: list[dict[str, Any]]) -> list[str]:
    return [message["update_type"] for message in messages if message["type"] == "agent_update"]


async def test_a_chat_is_told_event_by_event_and_then_complete(tmp_path: Path) -> None:
    async with open_door(tmp_path, ANSWERS, models=FakeModel(says("Answer: One."))) as door:
        socket = Socket(door.app)
        socket.send(**chat(agent_max_steps=7, agent_loop_strategy="llm-only"))
        messages = await socket.until("response_complete")
        start = messages[0]
        assert start["update_type"] == "agent_start"
        assert (start["max_steps"], start["strategy"]) == (7, "llm-only")
        assert updates(messages)[-1] == "agent_completion"
        end = messages[-1]
        assert (end["content"], end["reason"], end["thread_id"]) == ("One.", "answered", start["thread_id"])
        await socket.leave()


async def test_tool_calls_have_a_short_message_beside(tmp_path: Path) -> None:
    calls = "- calls: [{tool: get_tasks}, {tool: read_file, args: {path: no.txt}}]\n- say: Done.\n"
    async with open_door(tmp_path, calls) as door:
        socket = Socket(door.app)
        socket.send(**chat())
        messages = await socket.until("response_complete")
        beside = [m["type"] for m in messages if m["type"].startswith("tool_")]
        assert sorted(beside) == ["tool_complete", "tool_error", "tool_start", "tool_start"]
        await socket.leave()


async def test_an_action_is_approved_over_the_socket(tmp_path: Path) -> None:
    async with open_door(tmp_path, ASKS) as door:
        socket = Socket(door.app)
        socket.send(**chat())
        waits = await socket.until("response_complete")
        assert waits[-1]["reason"] == "waiting"
        (request,) = [m for m in waits if m.get("update_type") == "agent_approval_request"]
        socket.send(type="agent_approval", action_id=request["action_id"], decision="approve")
        assert (await socket.until("response_complete"))[-1]["content"] == "Done."
        assert (door.workspace / "made.txt").exists()
        await socket.leave()


async def test_an_answer_to_a_question_goes_on_with_the_run(tmp_path: Path) -> None:
    async with open_door(tmp_path, QUESTION) as door:
        socket = Socket(door.app)
        socket.send(**chat())
        asked = await socket.until("response_complete")
        assert [m["question"] for m in asked if m.get("update_type") == "agent_request_input"] == ["Which?"]
        socket.send(type="agent_user_input", content="The first.")
        assert (await socket.until("response_complete"))[-1]["content"] == "Thanks."
        await socket.leave()


async def test_nobody_answers_in_time_and_the_client_is_told(tmp_path: Path) -> None:
    async with open_door(tmp_path, QUESTION) as door:
        door.desk.settings = door.desk.settings.model_copy(update={"request_input_timeout_s": 0})
        socket = Socket(door.app)
        socket.send(**chat())
        messages = await socket.until("agent_request_input_timeout")
        assert messages[-1]["action_id"]
        await socket.leave()


async def test_stop_ends_the_run_and_resume_goes_on_with_it(tmp_path: Path) -> None:
    async with open_door(tmp_path, SLEEPS, **ALONE) as door:
        socket, thread_id = Socket(door.app), new_thread_id()
        socket.send(**chat(thread_id=thread_id))
        await socket.until("agent_tool_start")
        socket.send(type="agent_control", action="stop")
        messages = await socket.until("response_complete")
        assert "agent_stopped" in updates(messages)
        assert messages[-1]["reason"] == "cancelled"
        socket.send(type="agent_resume", thread_id=thread_id)
        assert (await socket.until("response_complete"))[-1]["content"] == "Went on."
        await socket.leave()


async def test_words_said_meanwhile_reach_the_next_step(tmp_path: Path) -> None:
    async with open_door(tmp_path, SLEEPS.replace("exec sleep 60", "sleep 0.2"), **ALONE) as door:
        socket, thread_id = Socket(door.app), new_thread_id()
        socket.send(**chat(thread_id=thread_id))
        await socket.until("agent_tool_start")
        socket.send(type="agent_user_input", content="And be brief.")
        await socket.until("response_complete")
        texts = [m.text for m in (await door.desk.view(thread_id)).state["messages"]]
        assert "And be brief." in texts
        await socket.leave()


async def test_a_lost_client_follows_on_from_the_last_seq(tmp_path: Path) -> None:
    async with open_door(tmp_path, ASKS) as door:
        first, thread_id = Socket(door.app), new_thread_id()
        first.send(**chat(thread_id=thread_id))
        seen = await first.until("agent_turn_start")
        await first.leave()
        await door.board.rest(thread_id)
        second = Socket(door.app)
        second.send(type="agent_follow", thread_id=thread_id, after=seen[-1]["seq"])
        rest = await second.until("response_complete")
        seqs = [m["seq"] for m in [*seen, *rest] if m["type"] == "agent_update"]
        kept = (await door.get(f"/api/threads/{thread_id}/events")).json()["events"]
        assert seqs == [event["seq"] for event in kept]
        await second.leave()


async def test_without_agent_mode_the_model_answers_once_without_tools(tmp_path: Path) -> None:
    model = FakeModel(says("One."))
    async with open_door(tmp_path, ANSWERS, models=model) as door:
        socket = Socket(door.app)
        socket.send(**chat(agent_mode=False))
        assert (await socket.until("response_complete"))[-1]["content"] == "One."
        await socket.leave()
    assert model.tools == [[]]


@pytest.mark.parametrize(
    ("text", "code", "field"),
    [
        ("{", "invalid", "body"),
        ("[]", "invalid", "body"),
        ('{"content": "x"}', "invalid", "type"),
        ('{"type": "dance"}', "invalid", "type"),
        ('{"type": "chat", "content": " "}', "invalid", "content"),
        ('{"type": "chat", "content": "x", "agent_max_steps": 501}', "invalid", "agent_max_steps"),
        ('{"type": "chat", "content": "x", "agent_loop_strategy": "no"}', "invalid", "agent_loop_strategy"),
        ('{"type": "chat", "content": "x", "model": "scripted:demo"}', "invalid", "model"),
        ('{"type": "agent_control", "action": "stop"}', "invalid", "thread_id"),
        ('{"type": "agent_control", "action": "explode"}', "invalid", "action"),
        (
            '{"type": "agent_follow", "thread_id": "7868f121-eeab-4654-8e9d-02fe056543d5"}',
            "not_found",
            None,
        ),
    ],
)
async def test_a_message_that_does_not_fit_is_told_and_the_socket_stays(
    tmp_path: Path, text: str, code: str, field: str | None
) -> None:
    async with open_door(tmp_path, ANSWERS) as door:
        socket = Socket(door.app)
        socket.send_text(text)
        refusal = await socket.hear()
        assert (refusal["type"], refusal["error"]) == ("error", code)
        assert [fault["field"] for fault in refusal["fields"]] == ([field] if field else [])
        socket.send(**chat())
        assert (await socket.until("response_complete"))[-1]["content"] == "One."
        await socket.leave()


async def test_a_run_goes_on_when_its_client_leaves(tmp_path: Path) -> None:
    async with open_door(tmp_path, "- {say: One., delay_s: 0.2}\n") as door:
        socket, thread_id = Socket(door.app), new_thread_id()
        socket.send(**chat(thread_id=thread_id))
        await socket.until("agent_start")
        await socket.leave()
        await door.board.rest(thread_id)
        assert (await door.get(f"/api/threads/{thread_id}")).json()["final_answer"] == "One."


async def test_what_fails_unforeseen_is_told_without_its_words(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_door(tmp_path, ANSWERS) as door:
        door.board.service.threads = None  # type: ignore[assignment]  # breaks every look at the index
        socket = Socket(door.app)
        socket.send(type="agent_follow", thread_id=new_thread_id())
        refusal = await socket.hear()
        assert (refusal["type"], refusal["error"]) == ("error", "system_error")
        assert "NoneType" not in refusal["message"] + caplog.text
        await socket.leave()
