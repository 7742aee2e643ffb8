"""`lockstitch audit`: what was called is listed, found and asked for in SQL; nothing of it can be changed."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lockstitch.state.audit import Audit, AuditEntry
from lockstitch.state.ledger import open_ledger
from lockstitch.state.threads import new_thread_id

Lockstitch = Callable[..., Any]
THREAD = new_thread_id()
NOON = datetime(2026, 5, 31, 12, tzinfo=UTC)


def entry(**fields: Any) -> AuditEntry:
    usual: dict[str, Any] = {
        "timestamp": NOON.isoformat(timespec="milliseconds"),
        "thread_id": THREAD,
        "run_id": "r",
        "step": 1,
        "call_id": "c",
        "door": "cli",
        "workspace": "/w",
        "tool": "read_file",
        "outcome": "ok",
        "time_ms": 1.0,
    }
    return AuditEntry(**usual | fields)


def keep(home: Path, *entries: AuditEntry) -> None:
    with open_ledger(home / "ledger.db") as ledger:
        Audit(ledger).record(entries)


def test_an_empty_audit_says_what_fills_it(lockstitch: Lockstitch):
    done = lockstitch("audit")
    assert (done.code, done.err) == (0, "")
    assert done.out == "No calls yet: a run or `lockstitch tool` makes the first one.\n"
    assert lockstitch("audit", "--json").out == ""
    assert lockstitch("audit", "--tool", "read_file").out == "No call fits.\n"


def test_calls_are_listed_below_their_thread_and_escapes_stand_out(lockstitch: Lockstitch, home: Path):
    keep(
        home,
        entry(path="a.py"),
        entry(tool="run_command", command="pytest -q", path="sub"),
        entry(outcome="escape", path="../../etc/passwd"),
        entry(thread_id="", door="tool", tool="fetch_url", host="example.org"),
    )
    day, time = f"{NOON.astimezone():%Y-%m-%d %H:%M:%S}".split()
    assert lockstitch("audit").out.splitlines() == [
        f"{day}  thread {THREAD}  cli  /w",
        f"  {time}  ok           read_file a.py",
        f"  {time}  ok           run_command pytest -q sub",
        f"! {time}  escape       read_file ../../etc/passwd",
        f"{day}  no thread  tool  /w",
        f"  {time}  ok           fetch_url example.org",
        "4 calls. ! 1 call named a path out of the workspace, and did not get there.",
    ]


def test_a_list_can_command_no_terminal(lockstitch: Lockstitch, home: Path):
    open_ledger(home / "ledger.db").close()
    hostile = "\x1b[2J\u202e\nforged line"
    with closing(sqlite3.connect(home / "ledger.db")) as connection, connection:
        columns = (
            "timestamp, thread_id, run_id, step, call_id, door, workspace, tool, outcome, time_ms, command"
        )
        row = (NOON.isoformat(), hostile, "", 0, "", "cli", hostile, hostile, "ok", 0.0, hostile)
        connection.execute(f"INSERT INTO audit ({columns}) VALUES ({', '.join('?' * len(row))})", row)
    out = lockstitch("audit").out
    assert r"\x1b[2J\u202e\nforged line" in out
    assert "\x1b" not in out
    assert not [line for line in out.splitlines() if line.startswith("forged")]


@pytest.mark.parametrize(
    ("words", "calls"),
    [
        (["--thread", THREAD], "1 2"),
        (["--tool", "grep_files"], "3"),
        (["--tool", "grep_files", "--tool", "run_command"], "2 3"),
        (["--outcome", "escape"], "2"),
        (["--outcome", "escape", "--tool", "grep_files"], ""),
        (["--since", "2026-06-01"], "3"),
        (["--since", "2026-05-31T12:00:00+00:00"], "1 2 3"),
        (["--since", "36500d"], "1 2 3"),
        (["--since", "5m"], ""),
        (["--limit", "2"], "2 3"),
    ],
)
def test_calls_are_found_by_thread_tool_outcome_and_time(
    lockstitch: Lockstitch, home: Path, words: list[str], calls: str
):
    later = (NOON + timedelta(days=2)).isoformat(timespec="milliseconds")
    keep(
        home,
        entry(call_id="1"),
        entry(call_id="2", tool="run_command", outcome="escape"),
        entry(call_id="3", thread_id="", tool="grep_files", timestamp=later),
    )
    found = lockstitch("audit", "--json", *words).events
    assert " ".join(row["call_id"] for row in found) == calls


def test_a_list_that_is_cut_says_so(lockstitch: Lockstitch, home: Path):
    keep(home, *[entry() for _ in range(3)])
    assert lockstitch("audit", "--limit", "2").out.endswith("2 calls of 3; --limit shows more.\n")


def test_json_has_every_column(lockstitch: Lockstitch, home: Path):
    keep(home, entry(path="a.py"))
    assert lockstitch("audit", "--json").events == [{"id": 1, **vars(entry(path="a.py"))}]


def test_a_persons_own_sql_is_answered_and_can_change_nothing(lockstitch: Lockstitch, home: Path):
    keep(home, entry(), entry(outcome="escape"))
    query = "SELECT outcome, count(*) AS calls FROM audit GROUP BY outcome"
    assert lockstitch("audit", "--sql", query).events == [
        {"outcome": "escape", "calls": 1},
        {"outcome": "ok", "calls": 1},
    ]
    done = lockstitch("audit", "--sql", "DELETE FROM audit")
    assert (done.code, done.out) == (2, "")
    assert "the SQL cannot be followed" in done.err
    assert len(lockstitch("audit", "--json").events) == 2


def test_pruning_asks_first_and_is_told_in_the_audit(lockstitch: Lockstitch, home: Path):
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    keep(home, entry(call_id="old"), entry(call_id="new", timestamp=now))
    done = lockstitch("audit", "--prune", "1")
    assert done.code == 2
    assert "add --yes" in done.err
    assert lockstitch("audit", "--prune", "1", "--yes").out == "Deleted 1 call; the audit says so.\n"
    kept, told = lockstitch("audit", "--json").events
    assert (kept["call_id"], told["tool"]) == ("new", "audit_prune")


@pytest.mark.parametrize(
    "words",
    [
        ["--since", "yesterday"],
        ["--outcome", "fine"],
        ["--limit", "0"],
        ["--prune", "-1"],
        ["--prune", "1", "--sql", "SELECT 1"],
        ["--thread", "../x"],
    ],
)
def test_wrong_usage_is_told_in_a_line(lockstitch: Lockstitch, words: list[str]):
    done = lockstitch("audit", *words)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)


def test_a_direct_call_is_audited(lockstitch: Lockstitch, workspace: Path):
    (workspace / "a.txt").write_text("of nobody's business")
    lockstitch("tool", "read_file", "--path", "a.txt")
    lockstitch("tool", "read_file", "--path", "../../etc/passwd")
    rows = lockstitch("audit", "--json").events
    assert [(r["tool"], r["path"], r["outcome"], r["door"]) for r in rows] == [
        ("read_file", "a.txt", "ok", "tool"),
        ("read_file", "../../etc/passwd", "escape", "tool"),
    ]
    assert rows[0]["workspace"] == str(workspace)
    assert "business" not in json.dumps(rows)


def test_a_runs_calls_are_audited_and_stay_when_the_thread_goes(lockstitch: Lockstitch, scenario: Any):
    scenario(
        """
        - calls: [{tool: write_file, args: {path: a.txt, content: hello}}]
        - say: Done.
        """
    )
    assert lockstitch("run", "Write it.").code == 0
    (row,) = lockstitch("audit", "--json").events
    assert (row["tool"], row["path"], row["outcome"], row["door"], row["step"]) == (
        "write_file",
        "a.txt",
        "ok",
        "cli",
        1,
    )
    assert lockstitch("prune", "--idle-hours", "0", "--yes").code == 0
    assert lockstitch("audit", "--json", "--thread", row["thread_id"]).events == [row]
