"""A thread's past over HTTP: seen, compared, gone back and forth in, forked; never over another's work."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.http_door import Door, open_door

from lockstitch.state.thread_lock import hold_thread

THREAD = "3f2b8a52-9c1d-4e7b-8a46-0d6f5e1c2b7a"
HERE = f"/api/threads/{THREAD}"
TURNS = """
- calls: [{tool: write_file, args: {path: a.txt, content: "one\\n"}}]
- calls:
  - {tool: write_file, args: {path: a.txt, content: "one\\ntwo\\n"}}
  - {tool: read_file, args: {path: no.txt}}
- say: Done.
- say: Once more.
"""


@pytest.fixture
async def door(tmp_path: Path) -> AsyncIterator[Door]:
    """Before a thread of three steps, of which two changed a file."""
    async with open_door(tmp_path, TURNS, allowed_roots=(tmp_path / "work", tmp_path / "more")) as opened:
        (tmp_path / "more").mkdir()
        reply = await opened.post("/api/agent", {"prompt": "go", "thread_id": THREAD, "mode": "auto"})
        assert reply.json()["data"]["reason"] == "answered"
        yield opened


async def move(door: Door, plan: dict[str, Any], **more: Any) -> Any:
    """The reply to a move that was previewed."""
    seen = await door.post(f"{HERE}/moves/preview", plan)
    assert seen.status_code == 200, seen.text
    return await door.post(f"{HERE}/moves", {**plan, "token": seen.json()["token"], **more})


async def test_the_timeline_has_each_step_with_its_calls_and_files(door: Door) -> None:
    told = (await door.get(f"{HERE}/timeline")).json()
    assert (told["thread_id"], told["steps"]) == (THREAD, 3)
    first, second, third = told["entries"]
    assert first["files"] == [{"path": "a.txt", "change": "A", "added": 1, "removed": 0}]
    assert second["files"] == [{"path": "a.txt", "change": "M", "added": 1, "removed": 0}]
    assert second["calls"] == [
        {"tool": "write_file", "success": True},
        {"tool": "read_file", "success": False},
    ]
    assert (third["number"], third["files"], third["total"], third["can_go_back"]) == (3, [], 0, True)


async def test_two_steps_are_compared_in_both_directions(door: Door) -> None:
    told = (await door.get(f"{HERE}/diff?from_step=1&to_step=2")).json()
    assert (told["from_step"], told["to_step"], told["total"]) == (1, 2, 1)
    assert told["files"][0]["diff"].endswith("@@ -1,1 +1,2 @@\n one\n+two\n")
    back = (await door.get(f"{HERE}/diff?from_step=2&to_step=0")).json()
    assert (back["files"][0]["change"], back["files"][0]["removed"]) == ("D", 2)
    assert (await door.get(f"{HERE}/diff")).json()["files"] == []
    gone = await door.get(f"{HERE}/diff?from_step=9")
    assert (gone.status_code, gone.json()["error"]) == (400, "invalid")


async def test_a_diff_is_cut_where_the_reply_would_be_too_long(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lockstitch.studio.http.past.DIFF_CHARS", 30)
    (file,) = (await door.get(f"{HERE}/diff?from_step=0")).json()["files"]
    assert (len(file["diff"]), file["cut"], file["added"]) == (30, True, 2)


async def test_bytes_that_are_no_text_can_be_sent(tmp_path: Path) -> None:
    turns = """
    - calls: [{tool: run_command, args: {command: "printf 'caf\\\\351\\\\n' > \\"$(printf 'n\\\\351')\\""}}]
    - say: Done.
    """
    async with open_door(tmp_path, turns, unsandboxed_commands="allow") as door:
        await door.post("/api/agent", {"prompt": "go", "thread_id": THREAD, "mode": "auto"})
        (step, _) = (await door.get(f"{HERE}/timeline")).json()["entries"]
        assert [file["path"] for file in step["files"]] in ([], ["n\ufffd"])  # without a layer unknown
        assert (await door.get(f"{HERE}/diff?from_step=0")).status_code == 200


async def test_a_rewind_is_shown_made_and_taken_back(door: Door) -> None:
    seen = (await door.post(f"{HERE}/moves/preview", {"kind": "rewind", "to": 1})).json()
    assert (seen["step"], seen["from_step"], seen["conflicts"]) == (1, 3, [])
    assert seen["files"] == [{"path": "a.txt", "change": "M", "added": 0, "removed": 1}]
    assert (door.workspace / "a.txt").read_text() == "one\ntwo\n"

    done = (await move(door, {"kind": "rewind", "to": 1})).json()
    assert (done["step"], done["left"]) == (1, [])
    assert (door.workspace / "a.txt").read_text() == "one\n"
    assert len((await door.get(f"{HERE}/steps")).json()["steps"]) == 1
    last = (await door.get(f"{HERE}/timeline")).json()["entries"][-1]
    assert (last["type"], last["kind"], last["from_step"], last["step"]) == ("move", "rewind", 3, 1)

    assert (await move(door, {"kind": "undo"})).json()["step"] == 3
    assert (door.workspace / "a.txt").read_text() == "one\ntwo\n"
    assert (await move(door, {"kind": "redo"})).json()["step"] == 1
    assert (door.workspace / "a.txt").read_text() == "one\n"


@pytest.mark.parametrize(
    ("what", "text", "steps"), [("files", "one\n", 3), ("conversation", "one\ntwo\n", 1)]
)
async def test_files_or_conversation_alone_go_back(door: Door, what: str, text: str, steps: int) -> None:
    assert (await move(door, {"kind": "rewind", "to": 1, "what": what})).json()["what"] == what
    assert (door.workspace / "a.txt").read_text() == text
    assert len((await door.get(f"{HERE}/steps")).json()["steps"]) == steps


async def test_what_somebody_else_changed_is_named_and_kept(door: Door) -> None:
    (door.workspace / "a.txt").write_text("mine\n")
    plan = {"kind": "rewind", "to": 1}
    assert (await door.post(f"{HERE}/moves/preview", plan)).json()["conflicts"] == ["a.txt"]
    refused = await move(door, plan)
    assert (refused.status_code, refused.json()["error"]) == (409, "conflict")
    assert refused.json()["conflicts"] == ["a.txt"]
    assert len((await door.get(f"{HERE}/steps")).json()["steps"]) == 3
    assert (await move(door, plan, keep_changed=True)).json()["left"] == ["a.txt"]
    assert (door.workspace / "a.txt").read_text() == "mine\n"


async def test_a_token_is_good_for_the_move_it_was_given_for(door: Door) -> None:
    seen = (await door.post(f"{HERE}/moves/preview", {"kind": "rewind", "to": 2})).json()
    others = [
        {"kind": "rewind", "to": 1},
        {"kind": "rewind", "to": 2, "what": "files"},
        {"kind": "undo"},
    ]
    for other in others:
        refused = await door.post(f"{HERE}/moves", {**other, "token": seen["token"]})
        assert (refused.status_code, refused.json()["error"]) == (409, "moved_on"), other
    assert (door.workspace / "a.txt").read_text() == "one\ntwo\n"
    await door.post("/api/agent", {"prompt": "and on", "thread_id": THREAD})
    late = await door.post(f"{HERE}/moves", {"kind": "rewind", "to": 2, "token": seen["token"]})
    assert (late.status_code, late.json()["error"]) == (409, "moved_on")


async def test_a_fork_begins_at_a_step_in_the_same_folder_or_a_copy(door: Door, tmp_path: Path) -> None:
    shared = (await door.post(f"{HERE}/fork", {"at": 1})).json()
    assert (shared["source"], shared["step"], shared["own_folder"]) == (THREAD, 1, False)
    assert shared["files"] == [{"path": "a.txt", "change": "M", "added": 1, "removed": 0}]
    assert (door.workspace / "a.txt").read_text() == "one\ntwo\n"
    assert len((await door.get(f"/api/threads/{shared['thread_id']}/steps")).json()["steps"]) == 1

    copied = (await door.post(f"{HERE}/fork", {"at": 1, "workspace": str(tmp_path / "more" / "copy")})).json()
    assert (copied["own_folder"], copied["workspace"]) == (True, str(tmp_path / "more" / "copy"))
    assert (tmp_path / "more" / "copy" / "a.txt").read_text() == "one\n"
    taken = await door.post(f"{HERE}/fork", {"workspace": str(tmp_path / "more" / "copy")})
    assert (taken.status_code, taken.json()["error"]) == (409, "no_folder")


async def test_no_folder_outside_of_the_roots_is_written(door: Door, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (door.workspace / "link").symlink_to(tmp_path / "outside")
    outside = tmp_path / "outside"
    for folder in (outside / "copy", outside, door.workspace / "link", door.workspace / "link" / "copy"):
        refused = await door.post(f"{HERE}/fork", {"workspace": str(folder)})
        assert (refused.status_code, refused.json()["error"]) == (403, "outside"), folder
        if folder.is_dir():
            refused = await door.post(
                f"{HERE}/moves/preview", {"kind": "rewind", "to": 0, "workspace": str(folder)}
            )
            assert (refused.status_code, refused.json()["error"]) == (403, "outside"), folder
    assert list((tmp_path / "outside").iterdir()) == []
    door.desk.roots = (tmp_path / "more",)  # the server was started anew, and may not work there any more
    for path, body in (
        ("moves/preview", {"kind": "undo"}),
        ("moves", {"kind": "undo", "token": "x"}),
        ("fork", {}),
    ):
        refused = await door.post(f"{HERE}/{path}", body)
        assert (refused.status_code, refused.json()["error"]) == (403, "outside"), path


async def test_a_thread_without_a_folder_is_moved_where_this_server_may_work_alone(
    door: Door, tmp_path: Path
) -> None:
    graph, thread = door.desk.board.service._graph, {"configurable": {"thread_id": THREAD}}
    await graph.aupdate_state(thread, {"workspace": ""}, as_node="observe")
    assert (await door.post(f"{HERE}/moves/preview", {"kind": "undo"})).status_code == 200
    threads = door.desk.parts.threads
    assert threads is not None
    threads.record(replace(await door.desk.row(THREAD), workspace=str(tmp_path / "more")))
    door.desk.roots = (tmp_path / "more",)  # where the thread is listed; it would be moved elsewhere
    refused = await door.post(f"{HERE}/moves/preview", {"kind": "undo"})
    assert (refused.status_code, refused.json()["error"]) == (403, "outside")


async def test_what_does_not_fit_is_refused(door: Door) -> None:
    bodies: list[tuple[str, dict[str, Any], str]] = [
        ("moves/preview", {"kind": "fork"}, "kind"),
        ("moves/preview", {"kind": "rewind"}, "to"),
        ("moves/preview", {"kind": "rewind", "to": -1}, "to"),
        ("moves", {"kind": "undo"}, "token"),
        ("fork", {"at": -1}, "at"),
    ]
    for path, body, field in bodies:
        refused = await door.post(f"{HERE}/{path}", body)
        assert (refused.status_code, refused.json()["fields"][0]["field"]) == (400, field), path
    assert (await door.post(f"{HERE}/moves/preview", {"kind": "rewind", "to": 9})).status_code == 400
    assert (await door.post(f"{HERE}/moves/preview", {"kind": "redo"})).status_code == 400
    nowhere = "/api/threads/11111111-9c1d-4e7b-8a46-0d6f5e1c2b7a"
    assert (await door.get(f"{nowhere}/timeline")).status_code == 404
    assert (await door.post(f"{nowhere}/fork", {})).status_code == 404


async def test_a_thread_that_is_written_elsewhere_is_not_moved(door: Door) -> None:
    with hold_thread(door.desk.parts.home.locks, THREAD, holder="somebody else"):
        for path, body in (("moves/preview", {"kind": "undo"}), ("fork", {})):
            refused = await door.post(f"{HERE}/{path}", body)
            assert (refused.status_code, refused.json()["error"]) == (409, "busy"), path
    assert (await door.get(f"{HERE}/timeline")).status_code == 200


async def test_a_folder_that_was_moved_can_be_named(door: Door, tmp_path: Path) -> None:
    door.workspace.rename(tmp_path / "more" / "work")
    gone = await door.post(f"{HERE}/moves/preview", {"kind": "rewind", "to": 1})
    assert (gone.status_code, gone.json()["error"]) == (409, "no_folder")
    plan = {"kind": "rewind", "to": 1, "workspace": str(tmp_path / "more" / "work")}
    assert (await move(door, plan)).status_code == 200
    assert (tmp_path / "more" / "work" / "a.txt").read_text() == "one\n"
