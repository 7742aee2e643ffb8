"""The audit keeps what it is told, in SQL, without keys or contents; nobody changes a row unseen."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lockstitch.state.audit import (
    COMMAND_CHARS,
    FIELD_CHARS,
    ROWS_AT_ONCE,
    Audit,
    AuditEntry,
    AuditFilter,
    query_ledger,
)
from lockstitch.state.errors import SystemFaultError, UsageError
from lockstitch.state.ledger import Ledger, open_ledger
from lockstitch.state.mask import Mask

KEY = "canary-7QzP4mWk3y"
ALL = AuditFilter()


def entry(**fields: Any) -> AuditEntry:
    usual: dict[str, Any] = {
        "timestamp": "2026-05-31T12:00:00.000+00:00",
        "thread_id": "t",
        "run_id": "r",
        "step": 1,
        "call_id": "c",
        "door": "cli",
        "workspace": "/w",
        "tool": "read_file",
        "outcome": "ok",
        "time_ms": 1.5,
        "path": "a.py",
    }
    return AuditEntry(**usual | fields)


@pytest.fixture
def audit(ledger: Ledger) -> Audit:
    return Audit(ledger, mask=Mask({KEY}))


def stored(audit: Audit, **fields: Any) -> dict[str, Any]:
    audit.record([entry(**fields)])
    return audit.rows(ALL, limit=1)[0]


def test_a_call_is_kept_with_all_that_is_known_of_it(audit: Audit) -> None:
    assert stored(audit) == {"id": 1, **vars(entry())}


def test_rows_come_back_in_order_and_the_last_ones_of_many(audit: Audit) -> None:
    audit.record([entry(call_id=str(n)) for n in range(5)])
    assert [row["call_id"] for row in audit.rows(ALL, limit=2)] == ["3", "4"]
    assert audit.count(ALL) == 5


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (AuditFilter(thread_id="b"), "2"),
        (AuditFilter(tools=("run_command", "grep_files")), "2 3"),
        (AuditFilter(outcomes=("escape",)), "1"),
        (AuditFilter(outcomes=("escape",), tools=("run_command",)), ""),
        (AuditFilter(since="2026-06-01"), "3"),
        (AuditFilter(tools=("' OR 1 --",)), ""),
    ],
)
def test_rows_are_found_by_thread_tool_outcome_and_time(
    audit: Audit, wanted: AuditFilter, found: str
) -> None:
    audit.record(
        [
            entry(call_id="1", thread_id="a", outcome="escape"),
            entry(call_id="2", thread_id="b", tool="run_command"),
            entry(call_id="3", thread_id="a", tool="grep_files", timestamp="2026-06-02T00:00:00.000+00:00"),
        ]
    )
    assert " ".join(row["call_id"] for row in audit.rows(wanted, limit=9)) == found
    assert audit.count(wanted) == len(found.split())


@pytest.mark.parametrize(
    "change",
    [
        "DELETE FROM audit",
        "UPDATE audit SET outcome = 'ok'",
        "INSERT OR REPLACE INTO audit SELECT * FROM audit",
        "REPLACE INTO audit SELECT * FROM audit",
        "INSERT INTO audit SELECT * FROM audit WHERE 1 ON CONFLICT (id) DO UPDATE SET outcome = 'ok'",
    ],
)
def test_a_row_can_be_neither_changed_nor_deleted(audit: Audit, ledger: Ledger, change: str) -> None:
    before = stored(audit, outcome="escape")
    with pytest.raises(SystemFaultError, match="append-only"):
        ledger.execute(change)
    assert audit.rows(ALL, limit=9) == [before]


def test_pruning_deletes_by_age_alone_and_says_so_in_the_audit(audit: Audit, ledger: Ledger) -> None:
    audit.record([entry(call_id="old"), entry(call_id="new", timestamp="2026-06-02T00:00:00.000+00:00")])
    now = "2026-06-03T00:00:00.000+00:00"
    assert audit.prune(before="2026-06-01T00:00:00.000+00:00", now=now) == 1
    kept, told = audit.rows(ALL, limit=9)
    assert (kept["call_id"], told["tool"], told["timestamp"]) == ("new", "audit_prune", now)
    assert told["command"] == "deleted 1 from before 2026-06-01T00:00:00.000+00:00"
    with pytest.raises(SystemFaultError, match="append-only"):
        ledger.execute("DELETE FROM audit")


def test_a_prune_that_fails_leaves_every_row_and_their_guard(audit: Audit, ledger: Ledger) -> None:
    audit.record([entry()])
    ledger.execute("CREATE TRIGGER full BEFORE INSERT ON audit BEGIN SELECT RAISE(ABORT, 'full'); END")
    with pytest.raises(SystemFaultError, match="full"):
        audit.prune(before="2027", now="2027")
    assert audit.count(ALL) == 1
    with pytest.raises(SystemFaultError, match="append-only"):
        ledger.execute("DELETE FROM audit")


def test_known_keys_are_kept_nowhere(audit: Audit, tmp_path: Path) -> None:
    row = stored(
        audit, path=f"a/{KEY}", command=f"curl {KEY} --token hunter2", tool=KEY, call_id=KEY, host=KEY
    )
    assert row["command"] == f"curl {'*' * len(KEY)} --token ***"
    assert KEY.encode() not in b"".join(file.read_bytes() for file in tmp_path.iterdir())


def test_of_a_command_only_the_beginning_of_its_first_line_is_kept(audit: Audit) -> None:
    assert stored(audit, command="cat > a.py <<END\nthe file\nEND")["command"] == "cat > a.py <<END…"
    assert len(stored(audit, command="x" * 1_000_000)["command"]) == COMMAND_CHARS


def test_a_key_at_the_cut_is_masked_before_it_is_cut(audit: Audit) -> None:
    row = stored(audit, command="x" * (COMMAND_CHARS - 5) + KEY)
    assert KEY[:3] not in row["command"]


def test_texts_are_short_and_printable_whatever_they_hold(audit: Audit) -> None:
    row = stored(audit, path="a\x1b[2J\nb\udc80\0", tool="x" * 5000, call_id="\u202e\r")
    assert row["path"] == "a\\x1b[2J\nb\\udc80\\x00"
    assert (len(row["tool"]), row["call_id"]) == (FIELD_CHARS, "\\u202e\\r")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50, deadline=None)
@given(text=st.text())
def test_any_text_can_be_kept(audit: Audit, text: str) -> None:
    row = stored(audit, **dict.fromkeys(("thread_id", "call_id", "workspace", "tool", "path", "host"), text))
    assert all(line.isprintable() for line in row["path"].split("\n"))
    assert stored(audit, command=text)["command"].isprintable()


def test_rows_of_one_step_are_kept_together_or_not_at_all(audit: Audit) -> None:
    broken = replace(entry(), tool=None)  # type: ignore[arg-type]
    with pytest.raises(SystemFaultError):
        audit.record([entry(), broken])
    assert audit.count(ALL) == 0


def test_at_once_a_step_is_kept_alike_together_or_not_at_all(ledger: Ledger) -> None:
    audit = Audit(ledger, mask=Mask({KEY}), on_loop=True)
    steps = [entry(command=f"echo {KEY}"), entry(outcome="escape")]
    assert audit.record_at_once(steps)
    audit.record(steps)
    first, second = audit.rows(ALL, limit=9)[:2], audit.rows(ALL, limit=9)[2:]
    assert [row | {"id": 0} for row in first] == [row | {"id": 0} for row in second]
    assert not audit.record_at_once([entry(), replace(entry(), tool=None)])  # type: ignore[arg-type]
    assert audit.count(ALL) == 4


def test_many_rows_and_those_that_may_not_are_left_to_a_worker_thread(ledger: Ledger) -> None:
    assert not Audit(ledger).record_at_once([entry()])
    assert not Audit(ledger, on_loop=True).record_at_once([entry()] * (ROWS_AT_ONCE + 1))
    assert Audit(ledger).count(ALL) == 0


def test_a_persons_own_select_is_answered(audit: Audit, tmp_path: Path) -> None:
    audit.record([entry(), entry(outcome="escape")])
    query = "SELECT outcome, count(*) AS calls FROM audit GROUP BY outcome"
    assert list(query_ledger(tmp_path / "ledger.db", query)) == [
        {"outcome": "escape", "calls": 1},
        {"outcome": "ok", "calls": 1},
    ]


def test_bytes_of_another_table_can_be_shown(audit: Audit, tmp_path: Path) -> None:
    assert list(query_ledger(tmp_path / "ledger.db", "SELECT x'00ff' AS raw")) == [{"raw": "00ff"}]


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM audit",
        "DROP TRIGGER audit_no_delete",
        "INSERT INTO threads SELECT 'x', '', '', '', '', '', '', '', '', 0, '', NULL RETURNING thread_id",
        "ATTACH '{folder}/evil.db' AS evil",
        "VACUUM INTO '{folder}/evil.db'",
        "PRAGMA writable_schema = 1",
        "SELECT load_extension('evil')",
        "SELECT 1; DELETE FROM audit",
        "SELEC",
        "",
    ],
)
def test_any_other_statement_is_refused_and_changes_nothing(
    audit: Audit, tmp_path: Path, statement: str
) -> None:
    audit.record([entry()])
    with pytest.raises(UsageError, match="the SQL cannot be followed"):
        list(query_ledger(tmp_path / "ledger.db", statement.format(folder=tmp_path)))
    assert audit.count(ALL) == 1
    assert not (tmp_path / "evil.db").exists()


def test_a_ledger_from_before_the_audit_gets_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lockstitch.state import ledger as module

    with monkeypatch.context() as earlier:
        earlier.setattr(module, "SCHEMA_VERSION", 2)
        earlier.setattr(module, "SCHEMA_STEPS", module.SCHEMA_STEPS[:2])
        open_ledger(tmp_path / "ledger.db").close()
    with open_ledger(tmp_path / "ledger.db") as upgraded:
        assert stored(Audit(upgraded))["tool"] == "read_file"
