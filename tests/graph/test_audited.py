"""A run's audit, end to end: every call with its end, also those that were kept from running."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from langchain_core.tools import tool
from langgraph.types import Command
from tests.fakes import Bench, FakeModel, call, says

from lockstitch.graph.builder import build_graph
from lockstitch.graph.parts import open_audit
from lockstitch.state.audit import Audit, AuditFilter
from lockstitch.state.intents import Intents
from lockstitch.state.ledger import Ledger

KEY = "canary-7QzP4mWk3y"


class AuditedBench(Bench):
    """A bench whose runs are audited."""

    def __init__(self, tmp_path: Path, ledger: Ledger, *replies: Any, **settings: Any) -> None:
        super().__init__(tmp_path, FakeModel(*replies), **settings)
        self.audit: Audit = open_audit(ledger, self.parts.settings)
        self.parts = replace(self.parts, audit=self.audit, intents=Intents(ledger))
        self.graph = build_graph(self.parts).compile(checkpointer=self.saver)

    def rows(self, **wanted: Any) -> list[dict[str, Any]]:
        return self.audit.rows(AuditFilter(**wanted), limit=99)

    def ends(self) -> list[tuple[str, str]]:
        return [(row["tool"], row["outcome"]) for row in self.rows()]


async def test_every_call_of_a_run_is_audited_with_its_step(tmp_path: Path, ledger: Ledger) -> None:
    write = call("write_file", id="a", path="a.txt", content="of nobody's business")
    read = [call("read_file", id="b", path="a.txt"), call("read_file", id="c", path="absent")]
    bench = AuditedBench(tmp_path, ledger, says("", write), says("", *read), says("done"))
    bench.attach()
    await bench.run("go", door="http")
    told = [(r["step"], r["call_id"], r["tool"], r["path"], r["outcome"]) for r in bench.rows()]
    assert sorted(told) == [  # reading calls run side by side, and end in any order
        (1, "a", "write_file", "a.txt", "ok"),
        (2, "b", "read_file", "a.txt", "ok"),
        (2, "c", "read_file", "absent", "error"),
    ]
    (where,) = {(r["thread_id"], r["door"], r["workspace"]) for r in bench.rows()}
    assert where == ("t", "http", str(bench.workspace))
    assert all(r["run_id"] and r["timestamp"].endswith("+00:00") for r in bench.rows())
    assert "business" not in str(bench.rows())


async def test_the_third_escape_ends_the_run_and_the_audit_shows_all_three(
    tmp_path: Path, ledger: Ledger
) -> None:
    tries = [
        says("", call("read_file", id="a", path="../../etc/passwd")),
        says("", call("write_file", id="b", path="/etc/cron.d/x", content="x")),
        says("", call("list_directory", id="c", path="..")),
        says("", call("read_file", id="d", path="never asked")),
    ]
    bench = AuditedBench(tmp_path, ledger, *tries)
    state = await bench.run("go")
    assert (state["reason"], state["escapes"]) == ("security_violation", 3)
    seen = [(r["tool"], r["path"]) for r in bench.rows(outcomes=("escape",))]
    assert seen == [
        ("read_file", "../../etc/passwd"),
        ("write_file", "/etc/cron.d/x"),
        ("list_directory", ".."),
    ]
    assert len(bench.rows()) == 3


async def test_the_rate_limit_is_per_thread_and_its_refusals_are_audited(
    tmp_path: Path, ledger: Ledger
) -> None:
    calls = [call("list_directory", id=f"c{n}") for n in range(3)]
    bench = AuditedBench(tmp_path, ledger, says("", *calls), says("done"), rate_limit_per_minute=2)
    state = await bench.run("go")
    assert sorted(outcome for _, outcome in bench.ends()) == ["ok", "ok", "refused"]
    assert any("go on in" in message.text for message in state["messages"])


@pytest.mark.parametrize(
    ("word", "ends"),
    [
        (True, ["asked", "ok"]),
        ({"type": "reject", "message": "no"}, ["asked", "rejected"]),
        ({"type": "respond", "message": KEY}, ["asked", "answered"]),
    ],
)
async def test_a_call_that_asks_is_noted_when_it_asks_and_when_it_is_decided(
    tmp_path: Path, ledger: Ledger, word: Any, ends: list[str]
) -> None:
    bench = AuditedBench(tmp_path, ledger, says("", call("delete_file", path="a.txt")), says("done"))
    (bench.workspace / "a.txt").write_text("one\n")
    await bench.run("go")
    assert bench.ends() == [("delete_file", "asked")]
    await bench.run(Command(resume=word))
    assert [outcome for _, outcome in bench.ends()] == ends
    assert {row["call_id"] for row in bench.rows()} == {"c1"}
    assert KEY not in str(bench.rows())


async def test_each_call_that_asks_is_noted_once(tmp_path: Path, ledger: Ledger) -> None:
    calls = [call("delete_file", id=name, path=name) for name in "ab"]
    bench = AuditedBench(tmp_path, ledger, says("", *calls), says("done"))
    await bench.run("go")
    await bench.run(Command(resume={"type": "reject"}))
    await bench.run(Command(resume={"type": "reject"}))
    told = [(row["call_id"], row["outcome"]) for row in bench.rows()]
    assert told == [("a", "asked"), ("b", "asked"), ("a", "rejected"), ("b", "rejected")]


async def test_what_policy_refuses_is_audited(tmp_path: Path, ledger: Ledger) -> None:
    calls = [call("write_file", id="a", path="x", content="y"), call("no_such_tool", id="b")]
    bench = AuditedBench(tmp_path, ledger, says("", *calls), says("done"), mode="plan")
    await bench.run("go")
    assert bench.ends() == [("write_file", "refused"), ("no_such_tool", "refused")]


async def test_a_stop_leaves_the_call_that_it_ended(tmp_path: Path, ledger: Ledger) -> None:
    begun = asyncio.Event()

    @tool(extras={"effect": "read"})
    async def lingers() -> str:
        """Never end by itself."""
        begun.set()
        await asyncio.Event().wait()
        return ""

    bench = AuditedBench(tmp_path, ledger, says("", call("lingers")))
    bench.parts.guard.registry.register(lingers)
    run = asyncio.create_task(bench.run("go"))
    await begun.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert bench.ends() == [("lingers", "cancelled")]


async def test_a_call_that_is_not_made_again_after_a_crash_is_noted(
    tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = AuditedBench(tmp_path, ledger, says("", call("run_command", command="true")), says("done"))
    await bench.run("go")
    with monkeypatch.context() as before_the_crash:
        before_the_crash.setattr(Intents, "begin", lambda *_, **__: False)  # it had begun
        await bench.run(Command(resume=True))
    assert bench.ends()[-1] == ("run_command", "interrupted")


async def test_keys_of_the_settings_are_in_no_row(tmp_path: Path, ledger: Ledger) -> None:
    reply = says("", call("read_file", path=f"notes/{KEY}"))
    bench = AuditedBench(tmp_path, ledger, reply, says("done"), openai_api_key=KEY)
    await bench.run("go")
    assert bench.rows()[0]["path"] == "notes/" + "*" * len(KEY)


async def test_a_run_whose_audit_cannot_be_written_ends(tmp_path: Path, ledger: Ledger) -> None:
    bench = AuditedBench(tmp_path, ledger, says("", call("get_tasks")), says("done"))
    ledger.execute("CREATE TRIGGER full BEFORE INSERT ON audit BEGIN SELECT RAISE(ABORT, 'full'); END")
    state = await bench.run("go")
    assert (state["reason"], "full" in state["error"]) == ("system_error", True)
