import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lockstitch.state.thread_lock import hold_thread
from lockstitch.studio.commands.show import summary_lines
from lockstitch.studio.service import ThreadView

Lockstitch = Callable[..., Any]
Scenario = Callable[[str], str]


def ten_steps() -> str:
    call = "- {say: 'A thought as long as a line of a terminal, or longer than that, as they are.', calls: "
    calls = "[{tool: get_tasks}, {tool: get_tasks}, {tool: read_file, args: {path: none%d.txt}}]}"
    return "\n".join([call + calls % n for n in range(9)] + ["- say: Done."])


def shown_thread(lockstitch: Lockstitch, **expected: int) -> str:
    done = lockstitch("run", "go", "--json")
    assert done.code == expected.get("code", 0)
    return str(done.events[0]["thread_id"])


def test_ten_steps_fit_25_lines_of_80_columns(lockstitch: Lockstitch, scenario: Scenario):
    scenario(ten_steps())
    done = lockstitch("show", shown_thread(lockstitch))
    lines = done.out.rstrip().splitlines()
    assert done.code == 0
    assert len(lines) <= 25
    assert max(map(len, lines[1:])) <= 80
    assert any("get_tasks ok x2, read_file failed · " in line for line in lines)
    assert lines[-3].strip() == "Done."
    assert lines[-2].startswith("answered: ")
    assert lines[-1].startswith("Go on: lockstitch run --thread ")


def test_a_waiting_thread_says_what_for(lockstitch: Lockstitch, scenario: Scenario):
    scenario("- calls: [{tool: delete_file, args: {path: a.txt}}]")
    done = lockstitch("show", shown_thread(lockstitch, code=7))
    assert "delete_file waits for your word: it deletes\n  path: a.txt" in done.out
    assert done.out.rstrip().endswith("--approve")


def test_json_holds_the_whole_thread(lockstitch: Lockstitch, scenario: Scenario):
    scenario("- {say: Think., calls: [{tool: get_tasks}]}\n- say: Done.")
    thread = shown_thread(lockstitch)
    [body] = lockstitch("show", thread, "--json").events
    assert body["thread_id"] == thread
    assert [step["thought"] for step in body["steps"]] == ["Think.", "Done."]
    assert (body["reason"], body["final_answer"], body["waiting_for"]) == ("answered", "Done.", None)


def test_what_a_model_said_is_shown_safely(lockstitch: Lockstitch, scenario: Scenario):
    scenario(r'- {say: "\e[2J[red]", calls: [{tool: get_tasks}]}' + "\n" + r'- say: "end \e[2J"')
    done = lockstitch("show", shown_thread(lockstitch))
    assert r"\x1b[2J[red]" in done.out
    assert "\x1b" not in done.out


def test_a_thread_that_another_process_writes_is_not_called_cut_off(
    lockstitch: Lockstitch, scenario: Scenario
):
    scenario("- say: Done.")
    thread = shown_thread(lockstitch)
    with hold_thread(Path(os.environ["LOCKSTITCH_HOME"]) / "locks", thread, holder="lockstitch chat"):
        done = lockstitch("show", thread)
        assert "running: thread" in done.out
        assert "lockstitch chat (pid" in done.out
        [body] = lockstitch("show", thread, "--json").events
        assert body["running"] is True
    [body] = lockstitch("show", thread, "--json").events
    assert body["running"] is False


@pytest.mark.parametrize("thread", ["12", "11111111-1111-4111-8111-111111111111"])
def test_an_unknown_thread_is_refused(lockstitch: Lockstitch, thread: str):
    done = lockstitch("show", thread)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("lockstitch: ")


def test_a_thread_without_steps_has_a_summary():
    view = ThreadView({"workspace": "/w"}, waiting_for=None, unfinished=True)
    assert list(summary_lines(view)) == ["no step yet · 0 tokens · /w"]


@pytest.mark.parametrize(
    ("model", "costs", "words"),
    [
        ("gpt-5", [0.25, 0.5], " · $0.7500 · "),
        ("gpt-5", [0.25, None], " · cost unknown · "),
        ("scripted:demo", [0.0, 0.0], " 20 tokens · /w"),
    ],
)
def test_the_thread_says_what_it_cost(model: str, costs: list[Any], words: str):
    steps = [
        {
            "number": n,
            "model": model,
            "cost_usd": cost,
            "calls": [],
            "observation": "",
            "thought": "",
            "plan_ms": 1.0,
            "execute_ms": 0.0,
            "input_tokens": 5,
            "output_tokens": 5,
        }
        for n, cost in enumerate(costs, 1)
    ]
    view = ThreadView({"steps": steps, "workspace": "/w"}, None, False)  # type: ignore[typeddict-item]
    assert words in next(summary_lines(view))
