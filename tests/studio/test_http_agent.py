"""POST /api/agent: a whole run in one request; what it refuses, remembers and forgets."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.fakes import FakeModel, says
from tests.http_door import Socket, open_door

from lockstitch.state.threads import new_thread_id
from lockstitch.studio.http.desk import Desk
from lockstitch.studio.service import RunRequest

ANSWERS = "- say: One.\n- say: Two.\n"
ASKS = "- calls: [{tool: run_command, args: {command: 'echo hi > made.txt'}}]\n- say: Done.\n"
SECRET = "sk-canary-0123456789abcdef"


async def test_a_run_replies_with_its_answer_and_nothing_is_remembered(tmp_path: Path) -> None:
    async with open_door(tmp_path, ANSWERS) as door:
        reply = await door.post("/api/agent", {"prompt": "Say one.", "toolType": "auto"})
        body = reply.json()
        assert (reply.status_code, body["success"], body["error"]) == (200, True, None)
        assert (body["data"]["answer"], body["data"]["steps"], body["data"]["reason"]) == (
            "One.",
            1,
            "answered",
        )
        assert (await door.get("/api/threads")).json() == {"threads": []}
        assert (await door.get(f"/api/threads/{body['data']['thread_id']}")).status_code == 404
        assert door.board.log.since(body["data"]["thread_id"], 0) == []


async def test_a_thread_id_of_the_clients_is_remembered_and_goes_on(tmp_path: Path) -> None:
    async with open_door(tmp_path, ANSWERS) as door:
        thread_id = new_thread_id()
        for answer in ("One.", "Two."):
            reply = await door.post("/api/agent", {"prompt": "Go on.", "thread_id": thread_id})
            assert reply.json()["data"]["answer"] == answer
            assert reply.json()["data"]["thread_id"] == thread_id
        (thread,) = (await door.get("/api/threads")).json()["threads"]
        assert (thread["thread_id"], thread["door"], thread["running"]) == (thread_id, "http", False)


@pytest.mark.parametrize("door_of", ["/api/agent", "/ws", "/api/code-chat/query"])
async def test_a_run_begins_with_what_the_index_finds_at_every_door(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, door_of: str
) -> None:
    begun: list[RunRequest] = []
    start = Desk.start

    async def heard(self: Desk, request: RunRequest) -> int:
        begun.append(request)
        return await start(self, replace(request, context=replace(request.context, use_cgrag=False)))

    monkeypatch.setattr(Desk, "start", heard)
    async with open_door(tmp_path, ANSWERS * 2) as door:
        for wanted in ({}, {"use_cgrag": True}):
            if door_of == "/ws":
                socket = Socket(door.app)
                socket.send(type="chat", agent_mode=True, content="Go.", **wanted)
                await socket.until("response_complete")
                await socket.leave()
            else:
                word = "query" if "query" in door_of else "prompt"
                assert (await door.post(door_of, {word: "Go.", **wanted})).status_code == 200
    assert [request.context.use_cgrag for request in begun] == [None, True]


async def test_a_run_that_needs_a_person_waits_and_is_answered_by_its_thread(tmp_path: Path) -> None:
    async with open_door(tmp_path, ASKS) as door:
        waits = (await door.post("/api/agent", {"prompt": "Make it."})).json()
        data = waits["data"]
        assert (waits["success"], waits["error"], data["reason"]) == (False, "waiting", "waiting")
        assert data["waiting_for"]["action_requests"][0]["name"] == "run_command"
        done = await door.post(f"/api/threads/{data['thread_id']}/answer", {"decision": "approve"})
        assert (done.json()["success"], done.json()["data"]["answer"]) == (True, "Done.")
        assert (door.workspace / "made.txt").read_text() == "hi\n"


async def test_a_rejected_action_is_not_done_and_the_model_is_told_why(tmp_path: Path) -> None:
    async with open_door(tmp_path, ASKS) as door:
        thread_id = (await door.post("/api/agent", {"prompt": "Make it."})).json()["data"]["thread_id"]
        answer = {"decision": "reject", "message": "not now"}
        assert (await door.post(f"/api/threads/{thread_id}/answer", answer)).json()["success"]
        assert not (door.workspace / "made.txt").exists()
        (step, *_) = (await door.get(f"/api/threads/{thread_id}/steps")).json()["steps"]
        assert "not now" in step["calls"][0]["output"]


async def test_an_edited_action_is_done_as_edited_under_the_runs_own_choices(tmp_path: Path) -> None:
    async with open_door(tmp_path, ASKS) as door:
        asked = {"prompt": "Make it.", "strategy": "tool-first"}
        thread_id = (await door.post("/api/agent", asked)).json()["data"]["thread_id"]
        answer = {"decision": "edit", "args": {"command": "echo other > made.txt"}}
        await door.post(f"/api/threads/{thread_id}/answer", answer)
        assert (door.workspace / "made.txt").read_text() == "other\n"
        assert (await door.get(f"/api/threads/{thread_id}")).json()["strategy"] == "tool-first"


async def test_history_is_told_to_the_model_as_exchanges_and_nothing_when_empty(tmp_path: Path) -> None:
    model = FakeModel(says("A."), says("B."))
    history = [{"timestamp": "t", "prompt": f"p{n}", "result": f"r{n}"} for n in range(25)]
    async with open_door(tmp_path, ANSWERS, models=model) as door:
        await door.post("/api/agent", {"prompt": "Go.", "contextHistory": history})
        await door.post("/api/agent", {"prompt": "Go.", "contextHistory": []})
    told, untold = ("\n".join(message.text for message in prompt) for prompt in model.prompts)
    assert "User: p24\nResult: r24" in told
    assert "User: p5\n" in told
    assert "User: p4\n" not in told  # only the last twenty
    assert "Result:" not in untold


async def test_steps_are_ten_by_default_and_the_end_says_so(tmp_path: Path) -> None:
    looks = "- calls: [{tool: run_command, args: {command: 'date +%N'}}]\n" * 12
    own = {"mode": "auto", "unsandboxed_commands": "allow", "rate_limit_per_minute": 0}
    async with open_door(tmp_path, looks, **own) as door:
        body = (await door.post("/api/agent", {"prompt": "Look."})).json()
        assert (body["data"]["steps"], body["data"]["reason"], body["success"]) == (10, "step_limit", False)
        body = (await door.post("/api/agent", {"prompt": "Look.", "max_steps": 2})).json()
        assert body["data"]["steps"] == 2


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"prompt": ""}, "prompt"),
        ({"prompt": "  \n"}, "prompt"),
        ({"prompt": None}, "prompt"),
        ({"prompt": "half \ud800"}, "prompt"),
        ({"max_steps": 0}, "max_steps"),
        ({"max_steps": 501}, "max_steps"),
        ({"thread_id": "../../etc"}, "thread_id"),
        ({"mode": "yolo"}, "mode"),
        ({"strategy": "nonsense"}, "strategy"),
        ({"tools": ["read_file", "format_disk"]}, "tools"),
        ({"model": "scripted:/etc/passwd"}, "model"),
        ({"model": " scripted:demo"}, "model"),
        ({"temperature": float("nan")}, "temperature"),
        ({"colour": "red"}, "colour"),
        ({"contextHistory": [{"prompt": "p"}]}, "contextHistory.0.result"),
    ],
)
async def test_a_request_that_does_not_fit_names_the_field_at_fault(
    tmp_path: Path, change: dict[str, Any], field: str
) -> None:
    async with open_door(tmp_path, ANSWERS) as door:
        reply = await door.post("/api/agent", {"prompt": "Go."} | change)
        assert (reply.status_code, reply.json()["error"]) == (400, "invalid")
        assert [fault["field"] for fault in reply.json()["fields"]] == [field]
        assert (await door.get("/api/threads")).json() == {"threads": []}


async def test_a_folder_outside_of_the_roots_gets_the_same_words_whether_it_is_there_or_not(
    tmp_path: Path,
) -> None:
    async with open_door(tmp_path, ANSWERS) as door:
        (door.workspace / "out").symlink_to(tmp_path)
        (door.workspace / "in").mkdir()
        paths = [
            "/etc",
            "/no/such",
            str(door.workspace / "out"),
            f"{door.workspace}/in/../..",
            "a\0b",
            "x" * 4000,
        ]
        replies = [await door.post("/api/agent", {"prompt": "Go.", "workspace": path}) for path in paths]
        assert {(reply.status_code, reply.text) for reply in replies} == {(403, replies[0].text)}
        fine = await door.post("/api/agent", {"prompt": "Go.", "workspace": str(door.workspace / "in")})
        assert fine.json()["success"]


async def test_a_thread_whose_folder_lies_outside_of_the_roots_does_not_run_here(tmp_path: Path) -> None:
    async with open_door(tmp_path, ANSWERS) as door:
        thread_id = new_thread_id()
        await door.post("/api/agent", {"prompt": "Go.", "thread_id": thread_id})
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    async with open_door(tmp_path, ANSWERS, workspace=elsewhere) as door:
        reply = await door.post("/api/agent", {"prompt": "Go.", "thread_id": thread_id})
        assert (reply.status_code, reply.json()["error"]) == (403, "outside")


async def test_two_runs_of_one_thread_are_refused_and_nothing_is_lost(tmp_path: Path) -> None:
    async with open_door(tmp_path, "- {say: One., delay_s: 0.3}\n- say: Two.\n") as door:
        body = {"prompt": "Go.", "thread_id": new_thread_id()}
        first = asyncio.create_task(door.post("/api/agent", body))
        while not door.board.running():  # noqa: ASYNC110  the board has no word for that
            await asyncio.sleep(0)
        second = await door.post("/api/agent", body)
        assert (second.status_code, second.json()["error"]) == (409, "busy")
        assert (await first).json()["data"]["answer"] == "One."


async def test_no_key_comes_back_and_none_is_kept(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with open_door(tmp_path, ANSWERS) as door:
        keys = {"llmKey": SECRET}
        bodies: list[dict[str, Any]] = [
            {"prompt": "Go.", "thread_id": new_thread_id(), "user_api_keys": keys},
            {"prompt": "", "user_api_keys": keys},
            {"prompt": "Go.", "user_api_keys": {"llmKey": {"nested": SECRET}}},
            {"prompt": "Go.", "user_api_keys": SECRET},
            {"prompt": "Go.", "max_steps": SECRET},
            {"prompt": "Go.", "strategy": SECRET},
            {"prompt": "Go.", "tools": [SECRET]},
            {"prompt": "Go.", "workspace": f"/{SECRET}"},
            {"prompt": "Go.", "thread_id": SECRET},
        ]
        for body in bodies:
            assert SECRET not in (await door.post("/api/agent", body)).text
        assert not [kept for kept in door.desk._choices.values() if kept.api_key]
        kept = [path for path in (tmp_path / "home").rglob("*") if path.is_file()]
        assert kept
        assert not [path.name for path in kept if SECRET.encode() in path.read_bytes()]
    assert SECRET not in caplog.text


async def test_what_fails_unforeseen_is_told_without_its_words(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_door(tmp_path, ANSWERS) as door:
        door.board.service.threads = Broken()  # type: ignore[assignment]
        reply = await door.get("/api/threads")
        assert (reply.status_code, reply.json()["error"]) == (500, "system_error")
        assert SECRET not in reply.text + caplog.text
        assert "RuntimeError" in caplog.text


class Broken:
    def recent(self, limit: int) -> None:
        raise RuntimeError(SECRET)


async def test_no_route_and_no_json_have_the_body_of_every_problem(tmp_path: Path) -> None:
    async with open_door(tmp_path, ANSWERS) as door:
        replies = [
            await door.get("/api/nonsense"),
            await door.get("/api/agent"),
            await door.client.post("/api/agent", content=b"{", headers={"content-type": "application/json"}),
            await door.client.post(
                "/api/agent", content=b"[" * 100_000, headers={"content-type": "application/json"}
            ),
        ]
        assert [reply.status_code for reply in replies] == [404, 405, 400, 400]
        assert all(set(r.json()) == {"success", "message", "data", "error", "fields"} for r in replies)


async def test_a_model_that_is_missing_is_said_before_anything_is_kept(tmp_path: Path) -> None:
    async with open_door(tmp_path, ANSWERS, model="gpt-5") as door:
        reply = await door.post("/api/agent", {"prompt": "Go."})
        assert (reply.status_code, reply.json()["error"]) == (400, "no_model")


def test_the_app_is_not_built_by_an_import() -> None:
    from lockstitch.studio import app

    assert "app" not in vars(app)
