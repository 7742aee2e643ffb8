"""Hostile and malformed calls at the guard: each is answered as stated, none raises, none gets out.

The calls stand in tests/contracts/adversarial_calls.yaml. Guard, tools, workspace and audit are real.
"""

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from lockstitch.state.audit import Audit, AuditFilter
from lockstitch.state.ledger import open_ledger
from lockstitch.state.settings import load_settings
from lockstitch.state.spill import SpillStore
from lockstitch.tools.catalog import build_registry
from lockstitch.tools.context import ToolContext
from lockstitch.tools.guard import Guard
from lockstitch.tools.rate_limit import RateLimit
from lockstitch.tools.trail import Trail
from lockstitch.tools.workspace import Workspace

CONTRACT = Path(__file__).parents[1] / "contracts" / "adversarial_calls.yaml"
CASES: list[dict[str, Any]] = yaml.safe_load(CONTRACT.read_text(encoding="utf-8"))
CASES_MIN = 50
SECRET: Final = "of nobody's business"
OUTPUT_CHARS: Final = 2_000
FILES = {"a.txt": "one\n", "src/b.txt": "two\n", ".git/config": "[core]\n"}
_REPEATED = re.compile(r"<<([^<>]+?)\*(\d+)>>")
_NESTED = re.compile(r"<<nest\*(\d+)>>")


def unfold(value: Any, spill_id: str) -> Any:
    """The arguments as the model sends them; see the contract."""
    if isinstance(value, dict):
        return {unfold(name, spill_id): unfold(part, spill_id) for name, part in value.items()}
    if isinstance(value, list):
        return [unfold(part, spill_id) for part in value]
    if not isinstance(value, str):
        return value
    if nested := _NESTED.fullmatch(value):
        lists: list[Any] = []
        for _ in range(int(nested[1])):
            lists = [lists]
        return lists
    value = value.replace("<<other thread's spill>>", spill_id)
    return _REPEATED.sub(lambda found: found[1] * int(found[2]), value)


def files_below(folder: Path) -> dict[str, str]:
    files = (p for p in folder.rglob("*") if p.is_file() and not p.is_symlink())
    return {path.relative_to(folder).as_posix(): path.read_text() for path in files}


@dataclass
class Place:
    """A workspace beside what is nobody's business, a guard, and the audit of its calls."""

    folder: Path
    guard: Guard
    context: ToolContext
    trail: Trail
    audit: Audit
    other_spill: str

    @property
    def workspace(self) -> Path:
        return self.folder / "work"

    @property
    def outside(self) -> Path:
        return self.folder / "outside"


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    work, outside = tmp_path / "work", tmp_path / "outside"
    for path, text in FILES.items():
        (work / path).parent.mkdir(parents=True, exist_ok=True)
        (work / path).write_text(text)
    outside.mkdir()
    (outside / "secret.txt").write_text(SECRET)
    (work / "out").symlink_to(outside)
    (work / "loop").symlink_to("loop")
    os.mkfifo(work / "pipe")
    settings = load_settings(output_chars=OUTPUT_CHARS)
    with Workspace(work) as workspace, open_ledger(tmp_path / "ledger.db") as ledger:
        audit = Audit(ledger)
        trail = Trail(audit=audit, now=lambda: "", door="cli", workspace=str(work), thread_id="t")
        context = ToolContext(
            workspace=workspace,
            settings=settings,
            spill=SpillStore(tmp_path / "spill", "t"),
            thread_id="t",
            call_id="c",
            trail=trail,
        )
        guard = Guard(build_registry(), RateLimit(0, monotonic=lambda: 0.0))
        other = SpillStore(tmp_path / "spill", "other").keep(SECRET)
        yield Place(tmp_path, guard, context, trail, audit, other)


def test_the_list_is_long_and_names_each_call_once() -> None:
    assert len(CASES) >= CASES_MIN
    assert len({case["id"] for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
async def test_a_hostile_call_is_answered_as_stated(place: Place, case: dict[str, Any]) -> None:
    args = unfold(case.get("args", {}), place.other_spill)
    async with place.trail:
        result = await place.guard.run(unfold(case["tool"], ""), args, place.context)
    outcome = case.get("outcome", "error")
    (row,) = place.audit.rows(AuditFilter(), limit=9)
    assert row["outcome"] == outcome or (outcome == "any" and row["outcome"] in {"ok", "error"})
    assert result.success == (row["outcome"] == "ok")
    assert result.success or result.text.startswith("Error: ")
    assert case.get("told", "") in result.text
    assert len(result.text) <= OUTPUT_CHARS + len("Error: ")
    assert SECRET not in json.dumps([result.text, result.data, row])
    assert all(str(value).replace("\n", "").isprintable() for value in row.values())
    assert files_below(place.outside) == {"secret.txt": SECRET}
    assert files_below(place.workspace) == FILES
