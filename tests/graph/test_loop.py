"""The loop from a prompt to its end: real tools, a fake model."""

from pathlib import Path

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.types import Command
from tests.fakes import Bench, FakeModel, call, says

from lockstitch.state.errors import ModelError


async def test_a_run_reads_edits_and_answers(tmp_path: Path) -> None:
    model = FakeModel(
        says("I look.", call("write_file", path="a.txt", content="one\n")),
        says("", call("read_file", path="a.txt")),
        says("Done."),
    )
    bench = Bench(tmp_path, model)
    state = await bench.run("write a file")
    assert (bench.workspace / "a.txt").read_text() == "one\n"
    assert (state["reason"], state["final_answer"], state["phase"]) == ("answered", "Done.", "completed")
    assert [r["number"] for r in state["steps"]] == [1, 2, 3]
    assert state["steps"][1]["calls"][0]["tool"] == "read_file"
    assert "one" in state["messages"][4].text
    assert bench.types()[0] == "agent_start"
    assert bench.types()[-1] == "agent_completion"
    assert "agent_diff_preview" in bench.types()


async def test_seq_counts_on_without_a_gap_over_runs_of_a_thread(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FakeModel(says("one"), says("two")))
    await bench.run("first")
    await bench.run("second")
    assert [e["seq"] for e in bench.events] == list(range(1, len(bench.events) + 1))


async def test_each_prompt_is_the_one_before_plus_an_ending(tmp_path: Path) -> None:
    model = FakeModel(*(says("", call("list_directory", id=f"c{n}")) for n in range(4)), says("ok"))
    await Bench(tmp_path, model).run("look around")
    for earlier, later in zip(model.prompts, model.prompts[1:], strict=False):
        assert later[: len(earlier)] == earlier


async def test_step_limit_sums_up_without_tools(tmp_path: Path) -> None:
    model = FakeModel(
        says("", call("list_directory")), says("", call("list_directory", id="c2")), says("All is left.")
    )
    bench = Bench(tmp_path, model)
    state = await bench.run("work", max_steps=2)
    assert state["reason"] == "step_limit"
    assert state["final_answer"] == "Reached maximum iterations (2).\n\nAll is left."
    assert model.tools[-1] == []
    assert len(state["steps"]) == 2
    assert state["messages"][-1].text == state["final_answer"]


async def test_a_failing_summary_does_not_hide_the_limit(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FakeModel(says("", call("list_directory")), ModelError("endpoint is gone")))
    state = await bench.run("work", max_steps=1)
    assert state["reason"] == "step_limit"
    assert "Reached maximum iterations (1)" in state["final_answer"]


async def test_completed_todos_and_an_answer_end_as_todos_completed(tmp_path: Path) -> None:
    model = FakeModel(
        says("", call("create_tasks", tasks=["only"])),
        says("", call("update_task_status", task_id="1", status="completed")),
        says("All done."),
    )
    bench = Bench(tmp_path, model)
    state = await bench.run("work")
    assert state["reason"] == "todos_completed"
    assert state["todos"] == [{"id": "1", "content": "only", "status": "completed"}]
    assert [e["tasks"][0]["status"] for e in bench.of_type("agent_todos")] == ["todo", "completed"]


async def test_a_model_error_ends_the_run_and_the_thread_goes_on(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FakeModel(ModelError("the key was refused"), says("now it works")))
    state = await bench.run("hello")
    assert (state["reason"], state["phase"]) == ("model_error", "error")
    assert "the key was refused" in state["final_answer"]
    assert [e["message"] for e in bench.of_type("agent_error")] == ["the key was refused"]
    state = await bench.run("again")
    assert (state["reason"], state["final_answer"], state["error"]) == ("answered", "now it works", "")


async def test_reading_calls_of_one_reply_are_answered_in_order(tmp_path: Path) -> None:
    bench = Bench(
        tmp_path,
        FakeModel(
            says(
                "", call("list_directory", id="a"), call("get_tasks", id="b"), call("list_directory", id="c")
            ),
            says("ok"),
        ),
    )
    state = await bench.run("look")
    assert [m.tool_call_id for m in state["messages"] if isinstance(m, ToolMessage)] == ["a", "b", "c"]


async def test_broken_calls_are_answered_and_break_nothing(tmp_path: Path) -> None:
    broken = AIMessage(
        "",
        tool_calls=[
            {"name": "no_such_tool", "args": {}, "id": "x", "type": "tool_call"},
            {"name": "read_file", "args": {"path": 7}, "id": "x", "type": "tool_call"},
            {"name": "read_file", "args": {"path": "a", "colour": "red"}, "id": None, "type": "tool_call"},
        ],
        invalid_tool_calls=[
            {"name": "write_file", "args": "{path: a", "id": "y", "error": "bad", "type": "invalid_tool_call"}
        ],
    )
    bench = Bench(tmp_path, FakeModel(broken, says("sorry")))
    state = await bench.run("go")
    answers = [m for m in state["messages"] if isinstance(m, ToolMessage)]
    stored = state["messages"][1]
    assert [c["id"] for c in stored.tool_calls] == [m.tool_call_id for m in answers]
    assert len({m.tool_call_id for m in answers}) == 4
    assert stored.invalid_tool_calls == []
    assert all(m.text.startswith("Error:") for m in answers)
    assert "`lockstitch tool` lists them" in answers[0].text
    assert "colour" in answers[2].text
    assert "no JSON object" in answers[3].text
    assert state["reason"] == "answered"


async def test_an_empty_reply_is_asked_again_and_the_third_ends_the_run(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FakeModel(says(""), says("  "), says("now")))
    assert (await bench.run("go"))["reason"] == "answered"
    bench = Bench(tmp_path, FakeModel(says(""), says(""), says("")))
    state = await bench.run("go")
    assert (state["reason"], state["phase"]) == ("model_error", "error")


async def test_the_third_path_out_of_the_workspace_ends_the_run(tmp_path: Path) -> None:
    escapes = [says("", call("read_file", id=f"c{n}", path="../../etc/passwd")) for n in range(4)]
    bench = Bench(tmp_path, FakeModel(*escapes))
    state = await bench.run("go")
    assert state["reason"] == "security_violation"
    assert state["escapes"] == 3


async def test_with_no_tools_selected_the_loop_still_runs(tmp_path: Path) -> None:
    model = FakeModel(says("", call("read_file", path="a")), says("fine"))
    bench = Bench(tmp_path, model)
    state = await bench.run("go", tools=[])
    assert model.tools == [[], []]
    assert "switched off" in state["messages"][2].text
    assert state["reason"] == "answered"


@pytest.mark.parametrize(
    ("context", "word"),
    [
        ({"strategy": "nonsense"}, "strategy"),
        ({"mode": "yolo"}, "mode"),
        ({"max_steps": 0}, "max_steps"),
        ({"workspace": "/no/such/folder"}, "no folder"),
        ({"tools": ["read_fil"]}, "read_file"),
    ],
)
async def test_a_wrong_choice_ends_with_a_clear_word(
    tmp_path: Path, context: dict[str, object], word: str
) -> None:
    bench = Bench(tmp_path, FakeModel())
    state = await bench.run("go", **context)
    assert state["reason"] == "system_error"
    assert word in state["final_answer"]


async def test_approval_waits_and_then_runs_the_command(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FakeModel(says("", call("run_command", command="echo hi > out.txt")), says("ok")))
    state = await bench.run("go")
    assert state["phase"] == "waiting"
    assert bench.events[-1]["reason"] == "waiting"
    assert bench.of_type("agent_approval_request")[0]["args"] == {"command": "echo hi > out.txt"}
    assert not (bench.workspace / "out.txt").exists()
    state = await bench.run(Command(resume={"decisions": [{"type": "approve"}]}))
    assert (bench.workspace / "out.txt").read_text() == "hi\n"
    assert state["reason"] == "answered"
    assert len(bench.of_type("agent_approval_request")) == 1


async def test_each_asking_call_of_a_reply_gets_its_own_question(tmp_path: Path) -> None:
    bench = Bench(
        tmp_path,
        FakeModel(
            says(
                "",
                call("run_command", id="a", command="touch a"),
                call("run_command", id="b", command="touch b"),
            ),
            says("ok"),
        ),
    )
    await bench.run("go")
    await bench.run(Command(resume="no, not this one"))
    state = await bench.run(Command(resume=True))
    assert sorted(p.name for p in bench.workspace.iterdir()) == ["b"]
    assert "not this one" in state["messages"][2].text
    assert [e["action_id"] for e in bench.of_type("agent_approval_request")] == ["a", "b"]


async def test_edited_arguments_are_what_runs(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FakeModel(says("", call("run_command", command="rm -rf .")), says("ok")))
    await bench.run("go")
    edited = {"type": "edit", "edited_action": {"name": "run_command", "args": {"command": "touch kept"}}}
    await bench.run(Command(resume=edited))
    assert [p.name for p in bench.workspace.iterdir()] == ["kept"]


async def test_an_unreadable_reply_means_no(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FakeModel(says("", call("run_command", command="touch a")), says("ok")))
    await bench.run("go")
    state = await bench.run(Command(resume={"decisions": [{"type": "approve"}, {"type": "approve"}]}))
    assert list(bench.workspace.iterdir()) == []
    assert state["messages"][2].status == "error"


async def test_a_question_becomes_the_tools_result(tmp_path: Path) -> None:
    bench = Bench(
        tmp_path, FakeModel(says("", call("request_input", question="Red or blue?")), says("blue it is"))
    )
    await bench.run("go")
    assert bench.of_type("agent_request_input")[0]["question"] == "Red or blue?"
    state = await bench.run(Command(resume="blue"))
    assert state["messages"][2].text == "blue"
    assert state["reason"] == "answered"


async def test_mode_plan_refuses_changes_and_commands(tmp_path: Path) -> None:
    bench = Bench(
        tmp_path,
        FakeModel(
            says(
                "",
                call("write_file", id="a", path="x", content="y"),
                call("run_command", id="b", command="touch z"),
            ),
            says("only a plan"),
        ),
    )
    state = await bench.run("go", mode="plan")
    assert list(bench.workspace.iterdir()) == []
    assert [m.status for m in state["messages"] if isinstance(m, ToolMessage)] == ["error", "error"]


async def test_a_new_message_while_a_call_waits_answers_the_call_first(tmp_path: Path) -> None:
    model = FakeModel(says("", call("run_command", command="touch a")), says("fine, not that"))
    bench = Bench(tmp_path, model)
    await bench.run("go")
    state = await bench.run("do something else")
    kinds = [type(m) for m in state["messages"]]
    assert kinds == [HumanMessage, AIMessage, ToolMessage, HumanMessage, AIMessage]
    assert state["reason"] == "answered"
    assert list(bench.workspace.iterdir()) == []
