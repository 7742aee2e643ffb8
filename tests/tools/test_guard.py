"""The one way a tool is called: every failure becomes an observation, a stop and an end do not."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from langchain_core.tools import BaseTool, StructuredTool, ToolException, tool

from lockstitch.state.errors import PathEscapeError, SystemFaultError, ToolExecutionError
from lockstitch.state.settings import load_settings
from lockstitch.state.spill import SpillStore
from lockstitch.tools.catalog import BUILT_IN
from lockstitch.tools.context import CallContext, ToolContext
from lockstitch.tools.guard import Guard
from lockstitch.tools.rate_limit import RateLimit
from lockstitch.tools.registry import Registry
from lockstitch.tools.result import ToolResult
from lockstitch.tools.trail import Trail
from lockstitch.tools.workspace import Workspace

CANARY = "sk-canary-0123456789"


def raising(error: BaseException, effect: str = "unknown") -> BaseTool:
    def fail() -> str:
        raise error

    return StructuredTool.from_function(fail, name="fail", description="Fails.", extras={"effect": effect})


def saying(output: Any) -> BaseTool:
    return StructuredTool.from_function(lambda: output, name="say", description="Says.")


@tool
async def sleeper() -> str:
    """Sleep for ever."""
    await asyncio.Event().wait()
    return ""


@tool
def phone(call: str) -> str:
    """A foreign tool with an argument of the name that ours use for their context."""
    return f"called {call}"


@tool
def who(call: CallContext) -> ToolResult:
    """Tell which call it is."""
    return ToolResult(output=call.call_id, metadata={"seen": True})


class Ticking:
    """A clock that moves by a quarter of a second at each look."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        self.now_s += 0.25
        return self.now_s


Run = Callable[..., Any]


@pytest.fixture
def context(tmp_path: Path) -> Iterator[Callable[..., ToolContext]]:
    folder = tmp_path / "ws"
    folder.mkdir()
    with Workspace(folder) as workspace:

        def make(**settings: Any) -> ToolContext:
            return ToolContext(
                workspace=workspace,
                settings=load_settings().model_copy(update=settings),
                spill=SpillStore(tmp_path / "spill", "t"),
                thread_id="t",
                call_id="c1",
            )

        yield make


@pytest.fixture
def run(context: Callable[..., ToolContext]) -> Run:
    """Calls one tool among ours and `own` ones, under the settings given."""

    async def make(
        name: str, args: Mapping[str, Any] | None = None, *, own: tuple[BaseTool, ...] = (), **settings: Any
    ) -> ToolResult:
        guard = Guard(Registry([*BUILT_IN, *own]), RateLimit(0, monotonic=Ticking()))
        return await guard.run(name, args or {}, context(**settings))

    return make


def is_error(result: ToolResult) -> bool:
    return not result.success and result.text == result.error and result.text.startswith("Error: ")


async def test_a_result_of_ours_comes_back_with_its_time(context: Callable[..., ToolContext]) -> None:
    guard = Guard(Registry([who]), RateLimit(0, monotonic=Ticking()), monotonic=Ticking())
    result = await guard.run("who", {}, context())
    assert (result.success, result.output) == (True, "c1")
    assert result.metadata == {"seen": True, "time_ms": 250.0}


async def test_an_unknown_tool_is_answered_with_the_nearest(run: Run) -> None:
    result = await run("read_fil", {"path": "a"})
    assert is_error(result)
    assert "Did you mean read_file" in result.text


async def test_an_unknown_argument_is_answered_with_the_known_ones(run: Run) -> None:
    result = await run("delete_file", {"path": "a", "force": True})
    assert is_error(result)
    assert "no argument 'force'. Its arguments: path." in result.text


async def test_the_model_cannot_bring_a_context_of_its_own(run: Run) -> None:
    result = await run("who", {"call": {"call_id": "forged"}}, own=(who,))
    assert is_error(result)
    assert "no argument 'call'" in result.text


@pytest.mark.parametrize(
    ("args", "words"),
    [({"path": 7}, "path: "), ({}, "path: field required"), ({"path": "a", "limit": "many"}, "limit: ")],
)
async def test_arguments_that_do_not_fit_are_named(run: Run, args: dict[str, Any], words: str) -> None:
    result = await run("read_file", args)
    assert is_error(result)
    assert words in result.text
    assert "http" not in result.text  # pydantic's own text has links and the value


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError(CANARY),
        KeyError(CANARY),
        OSError(5, CANARY),
        UnicodeDecodeError("utf-8", b"x", 0, 1, CANARY),
    ],
)
async def test_a_tool_that_raises_gives_neither_trace_nor_secret(run: Run, error: Exception) -> None:
    result = await run("fail", own=(raising(error),))
    assert is_error(result)
    assert type(error).__name__ in result.text
    assert CANARY not in result.text
    assert "Traceback" not in result.text


async def test_an_error_for_the_model_keeps_its_words(run: Run) -> None:
    result = await run("fail", own=(raising(ToolExecutionError("the file is locked: wait.")),))
    assert result.text == "Error: the file is locked: wait."


async def test_a_tool_exception_keeps_its_words(run: Run) -> None:
    result = await run("fail", own=(raising(ToolException("no such city.")),))
    assert result.text == "Error: no such city."


async def test_a_long_tool_exception_is_cut(run: Run) -> None:
    result = await run("fail", own=(raising(ToolException("x" * 5000)),), output_chars=1000)
    assert is_error(result)
    assert "of 5000 characters shown" in result.text
    assert len(result.text) <= 1000 + len("Error: ")


async def test_a_path_out_of_the_workspace_is_flagged(run: Run) -> None:
    result = await run("read_file", {"path": "../../etc/passwd"})
    assert is_error(result)
    assert result.metadata["escape"] is True
    assert "escape" not in (await run("read_file", {"path": "absent"})).metadata
    assert (await run("fail", own=(raising(PathEscapeError("out")),))).metadata["escape"] is True


async def test_an_error_that_ends_the_run_passes_through(run: Run) -> None:
    with pytest.raises(SystemFaultError, match="the disk is full"):
        await run("fail", own=(raising(SystemFaultError("the disk is full")),))


async def test_a_tool_that_takes_too_long_is_given_up(run: Run) -> None:
    result = await run("sleeper", own=(sleeper,), tool_timeout_s=0.01)
    assert is_error(result)
    assert "took over 0.01 s" in result.text


@pytest.mark.parametrize("effect", ["unknown", "command", "person"])
async def test_a_timeout_inside_a_tool_is_the_tools_own_failure(run: Run, effect: str) -> None:
    result = await run("fail", own=(raising(TimeoutError("the site did not answer"), effect),))
    assert result.text == "Error: fail failed: TimeoutError. Try another way."


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (PathEscapeError("out"), "escape"),
        (ToolExecutionError("no"), "error"),
        (RuntimeError(CANARY), "error"),
        (TimeoutError(), "error"),
        (SystemFaultError("the disk is full"), "error"),
        (asyncio.CancelledError(), "cancelled"),
    ],
)
async def test_every_end_of_a_call_is_noted_for_the_audit(
    context: Callable[..., ToolContext], error: BaseException, outcome: str
) -> None:
    trail = Trail(audit=None, now=lambda: "", door="cli", workspace="")
    guard = Guard(Registry([raising(error)]), RateLimit(0, monotonic=Ticking()), monotonic=Ticking())
    with suppress(SystemFaultError, asyncio.CancelledError):
        await guard.run("fail", {}, replace(context(), trail=trail))
    (entry,) = trail._entries
    assert (entry.tool, entry.outcome, entry.call_id, entry.time_ms) == ("fail", outcome, "c1", 250.0)


async def test_calls_that_fit_nothing_or_come_too_fast_are_noted_too(
    context: Callable[..., ToolContext],
) -> None:
    trail = Trail(audit=None, now=lambda: "", door="cli", workspace="")
    guard = Guard(Registry(BUILT_IN), RateLimit(1, monotonic=lambda: 0.0))
    noted = replace(context(), trail=trail)
    calls: list[tuple[str, dict[str, Any]]] = [
        ("no_tool", {"path": "a"}),
        ("get_tasks", {"wrong": 1}),
        ("read_file", {}),
        ("list_directory", {}),
        ("get_tasks", {}),
    ]
    for name, args in calls:
        await guard.run(name, args, noted)
    outcomes = [(entry.tool, entry.outcome) for entry in trail._entries]
    assert outcomes == [
        ("no_tool", "error"),
        ("get_tasks", "error"),
        ("read_file", "error"),
        ("list_directory", "refused"),
        ("get_tasks", "ok"),
    ]


async def test_an_error_that_repeats_what_was_given_is_cut(run: Run) -> None:
    for name, args in (("x" * 100_000, {}), ("get_tasks", {"y" * 100_000: 1})):
        result = await run(name, args, output_chars=1000)
        assert is_error(result)
        assert len(result.text) <= 1000 + len("Error: ")


async def test_cancellation_passes_through(run: Run) -> None:
    task = asyncio.create_task(run("sleeper", own=(sleeper,)))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize(
    ("output", "text"), [("plain", "plain"), ({"a": 1}, "{'a': 1}"), (None, "None"), (3, "3"), ("", "")]
)
async def test_whatever_a_foreign_tool_returns_becomes_text(run: Run, output: Any, text: str) -> None:
    result = await run("say", own=(saying(output),))
    assert (result.success, result.text) == (True, text)


async def test_a_foreign_tools_long_output_is_cut_and_kept(
    run: Run, context: Callable[..., ToolContext]
) -> None:
    whole = "".join(f"line {n}\n" for n in range(1000))
    result = await run("say", own=(saying(whole),), output_chars=1000)
    assert len(result.output) <= 1000
    assert f'of {len(whole)} characters shown; read_file(path="spill:' in result.output
    spill_id = result.output.partition("spill:")[2][:16]
    assert context().spill.read(spill_id) == whole


async def test_a_foreign_argument_named_like_our_context_is_the_models(run: Run) -> None:
    result = await run("phone", {"call": "110"}, own=(phone,))
    assert result.text == "called 110"


async def test_file_operations_meet_the_rate_limit_and_others_do_not(
    context: Callable[..., ToolContext],
) -> None:
    guard = Guard(Registry(BUILT_IN), RateLimit(2, monotonic=lambda: 0.0))
    for _ in range(2):
        assert (await guard.run("list_directory", {}, context())).success
    refused = await guard.run("list_directory", {}, context())
    assert is_error(refused)
    assert "2 file operations a minute" in refused.text
    assert (await guard.run("get_tasks", {}, context())).success
