"""A command's answer: its exit code, its output held to size, and nothing of ours within its reach."""

import asyncio
import json
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from lockstitch.state.errors import PathEscapeError, ToolExecutionError, ToolValidationError
from lockstitch.state.events import AgentToolProgress, Event
from lockstitch.state.settings import load_settings
from lockstitch.state.spill import SpillStore
from lockstitch.tools.command import run_command
from lockstitch.tools.commands.shell import PROGRESS_CHARS
from lockstitch.tools.context import ToolContext
from lockstitch.tools.result import ToolResult
from lockstitch.tools.workspace import Workspace


@pytest.fixture
def context(tmp_path: Path) -> Iterator[ToolContext]:
    root = tmp_path / "ws"
    (root / "sub").mkdir(parents=True)
    settings = load_settings(home=tmp_path / "home", output_chars=1000, command_timeout_max_s=1)
    with Workspace(root) as workspace:
        spill = SpillStore(tmp_path / "spill", "t")
        yield ToolContext(workspace=workspace, settings=settings, spill=spill, call_id="c1")


async def run(context: ToolContext, command: str, **given: Any) -> ToolResult:
    result = await run_command.ainvoke({"command": command, "call": context, **given})
    assert isinstance(result, ToolResult)
    return result


async def test_answer_begins_with_the_exit_code(context: ToolContext) -> None:
    result = await run(context, "echo out; echo err >&2")
    assert (result.success, result.output) == (True, "Exit code: 0\nout\nerr\n")
    assert result.data.pop("duration_s") >= 0
    assert result.data == {"exit_code": 0, "timed_out": False, "total_bytes": 8}


async def test_no_output_is_one_line(context: ToolContext) -> None:
    assert (await run(context, "true")).output == "Exit code: 0"


@pytest.mark.parametrize(
    ("command", "line"),
    [
        ("exit 7", "Exit code: 7"),
        ("no-such-program", "Exit code: 127"),
        ("-x", "Exit code: 127"),
        ("if", "Exit code: 2"),
        ("kill -SEGV $$", "Exit code: 139 (ended by SIGSEGV)"),
    ],
)
async def test_failing_command_is_an_answer_and_no_error(
    command: str, line: str, context: ToolContext
) -> None:
    result = await run(context, command)
    assert (result.success, result.error) == (True, None)
    assert result.output.splitlines()[0] == line


@pytest.mark.skipif(not Path("/bin/bash").exists(), reason="needs /bin/bash: without one the shell is sh")
async def test_shell_is_bash_where_there_is_one(context: ToolContext) -> None:
    assert (await run(context, "a=(x y); [[ ${a[1]} == y ]] && echo bash")).output == "Exit code: 0\nbash\n"


@pytest.mark.parametrize("command", ["", "  \n\t"])
async def test_empty_command_is_refused(command: str, context: ToolContext) -> None:
    with pytest.raises(ToolValidationError, match="empty"):
        await run(context, command)


async def test_command_runs_in_the_named_folder(context: ToolContext) -> None:
    await run(context, "touch here", working_directory="sub")
    assert Path(context.workspace.root, "sub", "here").exists()  # noqa: ASYNC240


async def test_folder_outside_or_missing_is_refused(context: ToolContext) -> None:
    (context.workspace.root / "out").symlink_to("/")
    for folder in ("..", "/", "out"):
        with pytest.raises(PathEscapeError):
            await run(context, "touch x", working_directory=folder)
    with pytest.raises(ToolExecutionError, match="there is no subb"):
        await run(context, "touch x", working_directory="subb")


async def test_timeout_is_said_with_what_came_until_then(context: ToolContext) -> None:
    result = await run(context, "echo begun; sleep 60", timeout_s=0.1)
    line, _, rest = result.output.partition("\n")
    assert line == "Exit code: none (timed out after 0.1 s, its processes were ended)"
    assert rest == "begun\n"
    assert result.success
    assert (result.data["exit_code"], result.data["timed_out"]) == (None, True)


async def test_timeout_has_an_upper_bound(context: ToolContext) -> None:
    result = await run(context, "sleep 60", timeout_s=9999)
    assert "timed out after 1 s" in result.output


async def test_secrets_and_our_own_python_do_not_show(
    context: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "LOCKSTITCH_X", "MY_TOKEN", "A_SECRET", "PYTHONPATH", "VIRTUAL_ENV"):
        monkeypatch.setenv(name, "never-shown")
    monkeypatch.setenv("PATH", f"{Path(sys.prefix, 'bin')}:{os.environ['PATH']}")
    output = (await run(context, "env")).output
    assert "never-shown" not in output
    assert "LOCKSTITCH" not in output
    if sys.prefix != sys.base_prefix:
        path = next(line for line in output.splitlines() if line.startswith("PATH="))
        assert str(Path(sys.prefix, "bin")) not in path.removeprefix("PATH=").split(":")


async def test_unicode_goes_in_and_comes_out(context: ToolContext) -> None:
    assert (await run(context, "echo 'größe 目录 🧵'")).output == "Exit code: 0\ngröße 目录 🧵\n"


async def test_binary_output_becomes_text_that_any_store_takes(context: ToolContext) -> None:
    result = await run(context, r"printf 'a\000\377z'")
    assert result.output == "Exit code: 0\na\ufffd\ufffdz"
    json.dumps(result.output).encode("utf-8")


async def test_long_output_keeps_both_ends_and_the_rest_is_spilled(context: ToolContext) -> None:
    result = await run(context, "seq 10000")
    assert result.output.startswith("Exit code: 0\n1\n2\n")
    assert result.output.endswith("\n9999\n10000\n")
    assert len(result.output) <= context.settings.output_chars
    spill_id = result.output.partition("spill:")[2].partition('"')[0]
    assert context.spill.read(spill_id).splitlines() == [str(number) for number in range(1, 10001)]


async def test_output_too_long_to_keep_says_so_in_the_spill(context: ToolContext) -> None:
    result = await run(context, "head -c 6000000 /dev/zero | tr '\\0' x; echo end")
    spill_id = result.output.partition("spill:")[2].partition('"')[0]
    assert "[cut: 4194304 of 6000004 bytes shown; " in context.spill.read(spill_id)
    assert result.output.endswith("xend\n")
    assert result.data["total_bytes"] == 6_000_004


async def test_command_waiting_for_input_ends(context: ToolContext) -> None:
    assert (await run(context, "cat; read x; git --no-pager version >/dev/null; echo on")).output.endswith(
        "\non\n"
    )


async def test_newest_output_is_reported_at_most_twice_a_second(context: ToolContext) -> None:
    heard: list[tuple[float, Event]] = []
    watched = replace(context, emit=lambda event: heard.append((time.monotonic(), event)))
    began = time.monotonic()
    await run(watched, "for i in $(seq 60); do echo zeile-ü-$i; sleep 0.01; done")
    spent_s = time.monotonic() - began
    assert 1 <= len(heard) <= spent_s / 0.5
    first = heard[0][1]
    assert isinstance(first, AgentToolProgress)
    assert (first.call_id, first.tool) == ("c1", "run_command")
    assert first.content.startswith("zeile-ü-1\n")
    assert all(b[0] - a[0] > 0.45 for a, b in pairwise(heard))


async def test_one_report_is_small_and_none_comes_after_the_end(context: ToolContext) -> None:
    heard: list[Event] = []
    watched = replace(context, emit=heard.append)
    await run(watched, "yes", timeout_s=0.6)
    contents = [event.content for event in heard if isinstance(event, AgentToolProgress)]
    assert contents
    assert max(map(len, contents)) <= PROGRESS_CHARS
    await run(watched, "echo quick")
    count = len(heard)
    await asyncio.sleep(0.55)
    assert len(heard) == count


async def test_cancellation_passes_through(context: ToolContext) -> None:
    task = asyncio.create_task(run(context, "touch begun; sleep 60; touch ended"))
    while not context.workspace.entry("begun"):  # noqa: ASYNC110  another process makes it
        await asyncio.sleep(0.005)
    began = time.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert time.monotonic() - began < 20  # of 60
    assert context.workspace.entry("ended") is None


def test_model_sees_the_arguments_and_not_the_context() -> None:
    assert run_command.extras == {"effect": "command"}
    schema: Any = run_command.tool_call_schema
    assert set(schema.model_json_schema()["properties"]) == {"command", "working_directory", "timeout_s"}
    assert "Example:" in run_command.description
