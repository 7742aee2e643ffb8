import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lockstitch.state.events import parse_event

Lockstitch = Callable[..., Any]
Scenario = Callable[[str], str]

NEVER = "11111111-1111-4111-8111-111111111111"
ANSWER = "- say: Hello there."
ASKS = """
- say: I delete it.
  calls: [{tool: delete_file, args: {path: old.txt}}]
- say: It was as you said.
"""
QUESTION = """
- calls: [{tool: request_input, args: {question: "Which title?"}}]
- say: Thanks.
"""


def started(done: Any) -> str:
    """The thread's id, from the events of a run."""
    return str(done.events[0]["thread_id"])


def test_a_prompt_is_answered_and_the_way_on_is_told(lockstitch: Lockstitch, scenario: Scenario):
    scenario(ANSWER)
    done = lockstitch("run", "hi")
    assert (done.code, done.err) == (0, "")
    assert "Hello there." in done.out
    assert "answered · 1 step" in done.out
    assert "Go on: lockstitch run --thread " in done.out
    assert "\x1b" not in done.out


def test_the_way_on_keeps_the_choices_of_this_run(lockstitch: Lockstitch, scenario: Scenario, home: Path):
    model = scenario(ANSWER)
    done = lockstitch("--home", str(home), "run", "hi", "--model", model, "--mode", "plan")
    assert f"lockstitch --home {home} run --thread " in done.out
    assert f"--model {model} --mode plan" in done.out


def test_a_prompt_may_come_through_a_pipe(lockstitch: Lockstitch, scenario: Scenario):
    scenario("""
    - capture: {word: 'say (\\w+)'}
      say: "${word}!"
    """)
    assert "piped!" in lockstitch("run", stdin="say piped\n").out


def test_an_empty_pipe_is_no_prompt(lockstitch: Lockstitch, scenario: Scenario):
    scenario(ANSWER)
    done = lockstitch("run", stdin=" \n")
    assert done.code == 2
    assert "give a PROMPT" in done.err


def test_json_lines_are_the_events_and_nothing_else(lockstitch: Lockstitch, scenario: Scenario):
    scenario(ANSWER)
    done = lockstitch("run", "hi", "--json")
    events = [parse_event(body) for body in done.events]
    assert done.code == 0
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert (events[0].type, events[-1].type) == ("agent_start", "agent_completion")


def test_a_call_that_asks_ends_with_7_and_says_how_to_answer(
    lockstitch: Lockstitch, scenario: Scenario, workspace: Path
):
    scenario(ASKS)
    (workspace / "old.txt").write_text("x")
    done = lockstitch("run", "go")
    assert done.code == 7
    assert "delete_file waits for your word: it deletes\n  path: old.txt" in done.err
    for way in ("--approve", "--reject WHY", "--answer TEXT"):
        assert f" {way}\n" in done.err
    assert (workspace / "old.txt").exists()


@pytest.mark.parametrize(
    ("words", "told", "deleted"),
    [
        (["--approve"], "", True),
        (["--reject", "I need it"], "I need it", False),
        (["--answer", "gone already"], "gone already", False),
    ],
)
def test_the_answer_to_a_call_decides_it(
    lockstitch: Lockstitch, scenario: Scenario, workspace: Path, words: list[str], told: str, deleted: bool
):
    scenario(ASKS)
    (workspace / "old.txt").write_text("x")
    thread = started(lockstitch("run", "go", "--json"))
    done = lockstitch("run", "--thread", thread, *words)
    assert done.code == 0
    assert told in done.out
    assert "It was as you said." in done.out
    assert (workspace / "old.txt").exists() is not deleted


def test_a_question_is_answered_by_text(lockstitch: Lockstitch, scenario: Scenario):
    scenario(QUESTION)
    asked = lockstitch("run", "go")
    assert asked.code == 7
    assert "A question: Which title?" in asked.err
    assert "--approve" not in asked.err
    done = lockstitch("run", "--continue", "--answer", "The Sea")
    assert done.code == 0
    assert "The Sea" in done.out


def test_a_waiting_thread_does_not_go_on_by_itself(lockstitch: Lockstitch, scenario: Scenario):
    scenario(QUESTION)
    lockstitch("run", "go")
    done = lockstitch("run", "--continue")
    assert done.code == 2
    assert "--answer TEXT" in done.err


def test_without_a_model_nothing_is_made(lockstitch: Lockstitch, home: Path):
    done = lockstitch("run", "hi")
    assert done.code == 2
    assert done.err.startswith("lockstitch: no model is configured.")
    assert not list(home.iterdir())


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--workspace", "nowhere"], "there is no folder"),
        (["--thread", "12"], "12"),
        (["--strategy", "wild"], "wild"),
    ],
)
def test_a_wrong_choice_is_told_and_nothing_is_made(
    lockstitch: Lockstitch, scenario: Scenario, home: Path, words: list[str], told: str
):
    scenario(ANSWER)
    done = lockstitch("run", "hi", *words)
    assert done.code == 2
    assert done.err.startswith("lockstitch: ")
    assert told in done.err
    assert not list(home.iterdir())


def test_a_scenario_that_is_missing_makes_no_thread(lockstitch: Lockstitch):
    done = lockstitch("run", "hi", "--model", "scripted:nowhere.yaml")
    assert done.code == 2
    assert "nowhere.yaml" in done.err
    assert lockstitch("threads", "--json").out == ""


def test_a_home_that_is_a_file_is_told(lockstitch: Lockstitch, scenario: Scenario, tmp_path: Path):
    scenario(ANSWER)
    (tmp_path / "file").write_text("")
    done = lockstitch("--home", str(tmp_path / "file"), "run", "hi")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("lockstitch: ")


def test_an_unknown_thread_has_nothing_to_go_on_with(lockstitch: Lockstitch, scenario: Scenario):
    scenario(ANSWER)
    done = lockstitch("run", "--thread", NEVER)
    assert done.code == 2
    assert f"there is no thread {NEVER}" in done.err


def test_continue_takes_the_latest_thread_of_this_workspace(
    lockstitch: Lockstitch, scenario: Scenario, tmp_path: Path
):
    scenario("- say: One.\n- say: Two.")
    first = started(lockstitch("run", "a", "--json"))
    (tmp_path / "other").mkdir()
    lockstitch("run", "b", "--workspace", str(tmp_path / "other"))
    done = lockstitch("run", "c", "--continue", "--json")
    assert started(done) == first
    assert "Two." in done.out


def test_continue_needs_a_thread(lockstitch: Lockstitch, scenario: Scenario):
    scenario(ANSWER)
    done = lockstitch("run", "hi", "--continue")
    assert done.code == 2
    assert "no thread yet" in done.err


def test_a_thread_keeps_its_workspace(
    lockstitch: Lockstitch,
    scenario: Scenario,
    workspace: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    scenario("- say: One.\n- say: Two.")
    thread = started(lockstitch("run", "a", "--json"))
    monkeypatch.chdir(tmp_path)
    done = lockstitch("run", "b", "--thread", thread, "--json")
    assert done.events[0]["workspace"] == str(workspace.resolve())


def test_a_thread_that_another_process_writes_is_refused(
    lockstitch: Lockstitch, scenario: Scenario, home: Path
):
    scenario(ANSWER)
    thread = started(lockstitch("run", "hi", "--json"))
    program = (
        "import sys; from pathlib import Path; from lockstitch.state.home import prepare_home; "
        "from lockstitch.state.thread_lock import hold_thread\n"
        f"with hold_thread(prepare_home(Path({str(home)!r})).locks, {thread!r}, holder='a test'):\n"
        "    print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout
        assert other.stdout.readline() == "held\n"
        done = lockstitch("run", "hi", "--thread", thread)
        other.communicate()
    assert (done.code, done.out) == (10, "")
    assert "a test" in done.err


def test_a_mistyped_thread_id_begins_no_thread(lockstitch: Lockstitch, scenario: Scenario):
    scenario(ANSWER)
    done = lockstitch("run", "hi", "--thread", NEVER)
    assert (done.code, done.out) == (2, "")
    assert f"there is no thread {NEVER}" in done.err


def test_the_step_limit_sums_up_and_ends_with_3(lockstitch: Lockstitch, scenario: Scenario):
    scenario("- calls: [{tool: get_tasks}]\n- calls: [{tool: get_tasks}]")
    done = lockstitch("run", "go", "--max-steps", "1")
    assert done.code == 3
    assert "Reached maximum iterations (1)" in done.out


def test_a_model_that_fails_is_told_on_stderr(lockstitch: Lockstitch, scenario: Scenario):
    scenario("- {say: Never., fail: {status: 401}}")
    for words in ([], ["--json"]):
        done = lockstitch("run", "go", *words)
        assert done.code == 9
        assert done.err.count("OPENAI_API_KEY") == 1
        assert "Traceback" not in done.err


def test_nothing_a_model_says_reaches_the_terminal_as_a_command(
    lockstitch: Lockstitch, scenario: Scenario, workspace: Path
):
    (workspace / "evil.txt").write_text("\x1b[2J\x9b[bold]\u202e")
    scenario(r"""
    - say: "think \e]0;x\a[red]"
      calls: [{tool: read_file, args: {path: evil.txt}}]
    - say: "done \e[31m"
    """)
    done = lockstitch("run", "go")
    assert done.code == 0
    for shown in (r"think \x1b]0;x\x07[red]", r"\x1b[2J\x9b[bold]\u202e", r"done \x1b[31m"):
        assert shown in done.out
    assert not set("\x1b\x07\x9b\u202e") & set(done.out)


def test_a_thread_whose_workspace_is_gone_is_wrong_usage(
    lockstitch: Lockstitch, scenario: Scenario, tmp_path: Path
):
    scenario(ANSWER)
    gone = tmp_path / "gone"
    gone.mkdir()
    thread = started(lockstitch("run", "hi", "--json", "--workspace", str(gone)))
    gone.rmdir()
    done = lockstitch("run", "more", "--thread", thread)
    assert (done.code, done.out) == (2, "")
    assert "--workspace" in done.err


def test_run_begins_with_what_the_index_finds(
    lockstitch: Lockstitch, scenario: Scenario, workspace: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("LOCKSTITCH_EMBEDDINGS", "off")
    (workspace / "shop.py").write_text("def pay_invoice():\n    return 1\n")
    scenario(ANSWER)
    done = lockstitch("run", "Why is paying an invoice slow?", "--use-cgrag", "--json")
    (told,) = [event["content"] for event in done.events if event["type"] == "agent_context"]
    assert "search result shop.py, lines 1 to 2, score 0." in told
    missing = lockstitch("run", "Why?", "--use-cgrag", "--index", "docs")
    assert missing.code == 0
    assert "no index 'docs'" in missing.out + missing.err
