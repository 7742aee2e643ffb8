"""What calls leave in the audit: places and commands, in one commit, whatever ends the step."""

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from lockstitch.state.audit import Audit, AuditEntry, AuditFilter
from lockstitch.state.errors import SystemFaultError
from lockstitch.state.ledger import Ledger
from lockstitch.tools.trail import PATHS_MAX, Trail

NOW = "2026-05-31T12:00:00.000+00:00"
PATCH = """*** Begin Patch
*** Update File: src/a.py
@@
-the old secret line
+the new secret line
*** Delete File: b.py
*** End Patch
"""


@pytest.fixture
def audit(ledger: Ledger) -> Audit:
    return Audit(ledger)


def trail_of(audit: Audit | None) -> Trail:
    return Trail(audit=audit, now=lambda: NOW, door="cli", workspace="/w", thread_id="t", run_id="r", step=3)


async def row_of(audit: Audit, args: dict[str, Any]) -> dict[str, Any]:
    async with trail_of(audit) as trail:
        trail.note("a_tool", args, call_id="c1", outcome="ok", time_ms=1.23456)
    return audit.rows(AuditFilter(), limit=1)[0]


async def test_a_call_is_noted_with_its_place_in_the_run(audit: Audit) -> None:
    row = await row_of(audit, {"path": "a.py"})
    known = {k: row[k] for k in ("timestamp", "thread_id", "run_id", "step", "call_id", "door", "workspace")}
    assert known == {
        "timestamp": NOW,
        "thread_id": "t",
        "run_id": "r",
        "step": 3,
        "call_id": "c1",
        "door": "cli",
        "workspace": "/w",
    }
    assert (row["tool"], row["outcome"], row["time_ms"]) == ("a_tool", "ok", 1.235)


@pytest.mark.parametrize(
    ("args", "path", "host", "command"),
    [
        ({"path": "a.py", "content": "secret"}, "a.py", None, None),
        ({"source": "a", "destination": "b"}, "a\nb", None, None),
        ({"path": "a\nb"}, "a\\nb", None, None),
        ({"command": "make", "working_directory": "sub"}, "sub", None, "make"),
        ({"url": "https://me:pw@Example.org:8443/a?token=secret#x"}, None, "example.org", None),
        ({"url": "http://[::1"}, None, None, None),
        ({"patch": PATCH}, "src/a.py\nb.py", None, None),
        ({"patch": "*** Begin Patch\nsecret"}, None, None, None),
        ({"path": 7, "url": ["x"], "command": {"a": 1}, "patch": None}, None, None, None),
        ({"pattern": "secret", "query": "secret", "tasks": ["secret"]}, None, None, None),
    ],
)  # fmt: skip
async def test_of_the_arguments_only_places_and_commands_are_kept(
    audit: Audit, args: dict[str, Any], path: str | None, host: str | None, command: str | None
) -> None:
    row = await row_of(audit, args)
    assert (row["path"], row["host"], row["command"]) == (path, host, command)
    assert "secret" not in str(row)


async def test_a_patch_of_many_files_is_noted_in_part(audit: Audit) -> None:
    deleted = "\n".join(f"*** Delete File: {n}" for n in range(PATHS_MAX + 9))
    row = await row_of(audit, {"patch": f"*** Begin Patch\n{deleted}\n*** End Patch\n"})
    assert len(row["path"].split("\n")) == PATHS_MAX


async def test_the_calls_of_a_step_are_kept_in_one_commit_off_the_loop(audit: Audit) -> None:
    seen: list[tuple[int, bool]] = []

    class Watched(Audit):
        def record(self, entries: Sequence[AuditEntry]) -> None:
            seen.append((len(entries), threading.current_thread() is threading.main_thread()))

    async with trail_of(Watched(audit._ledger)) as trail:
        for n in range(3):
            trail.note("a_tool", {}, call_id=str(n), outcome="ok")
    assert seen == [(3, False)]


async def test_where_it_is_allowed_a_step_is_kept_in_the_loop_unless_another_writes(ledger: Ledger) -> None:
    off_loop: list[int] = []

    class Watched(Audit):
        def record(self, entries: Sequence[AuditEntry]) -> None:
            off_loop.append(len(entries))

    audit = Watched(ledger, on_loop=True)
    await step_of(audit, None)
    assert (audit.count(AuditFilter()), off_loop) == (1, [])
    with ledger.transaction():
        await step_of(audit, None)
    assert (audit.count(AuditFilter()), off_loop) == (1, [1])


async def test_a_step_without_calls_writes_nothing(audit: Audit) -> None:
    async with trail_of(audit):
        pass
    async with trail_of(None) as trail:
        trail.note("a_tool", {}, call_id="c", outcome="ok")
    assert audit.count(AuditFilter()) == 0


async def step_of(audit: Audit, end: BaseException | None) -> None:
    async with trail_of(audit) as trail:
        trail.note("a_tool", {}, call_id="c", outcome="cancelled")
        if end:
            raise end


async def test_what_was_noted_is_kept_when_the_step_fails_or_is_stopped(audit: Audit) -> None:
    for end in (KeyError("x"), asyncio.CancelledError()):
        with pytest.raises(type(end)):
            await step_of(audit, end)
    assert audit.count(AuditFilter(outcomes=("cancelled",))) == 2


async def test_an_audit_that_cannot_be_written_ends_the_run_but_hides_no_stop(
    audit: Audit, ledger: Ledger
) -> None:
    ledger.execute("CREATE TRIGGER full BEFORE INSERT ON audit BEGIN SELECT RAISE(ABORT, 'full'); END")

    with pytest.raises(SystemFaultError, match="full"):
        await step_of(audit, None)
    for end in (asyncio.CancelledError(), SystemFaultError("the disk is gone")):
        with pytest.raises(type(end)) as told:
            await step_of(audit, end)
        assert told.value is end
