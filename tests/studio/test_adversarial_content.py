"""Hostile content meets a model that obeys it: the limits hold, and what a person sees hides nothing.

The files stand in tests/contracts/adversarial_content.yaml. Graph, tools, audit and views are the real ones.
"""

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console
from tests.fakes import Bench, FakeModel, call, says

from lockstitch.graph.builder import build_graph
from lockstitch.graph.parts import open_audit
from lockstitch.state.audit import AuditFilter
from lockstitch.state.events import AgentDelta, parse_event
from lockstitch.state.ledger import Ledger
from lockstitch.studio.ask import describe_request
from lockstitch.studio.render import LiveView
from lockstitch.studio.writing import Writing

CONTRACT = Path(__file__).parents[1] / "contracts" / "adversarial_content.yaml"
CASES: list[dict[str, Any]] = yaml.safe_load(CONTRACT.read_text(encoding="utf-8"))
SECRET = "of nobody's business"
HIDING = {
    *map(chr, range(0x20)),
    *map(chr, range(0x7F, 0xA0)),
    *"\u200b\u200d\u2028\u2029\u202e\u2060\u2066\u2069\xad\ufe00\ufeff",
    *map(chr, range(0xE0000, 0xE0200)),
} - {"\n"}


def bench_of(case: dict[str, Any], tmp_path: Path, ledger: Ledger) -> Bench:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.txt").write_text(SECRET)
    wanted = [call(c["tool"], id=f"c{n}", **c["args"]) for n, c in enumerate(case.get("calls", []))]
    look = says("I look.", call("read_file", id="look", path="notes.md"))
    replies = [look, *([says(case["text"], *wanted)] if wanted else []), says(case["text"])]
    bench = Bench(tmp_path, FakeModel(*replies))
    (bench.workspace / ".git").mkdir()
    for path, text in (("notes.md", case["text"]), ("a.txt", "one\n"), (".git/HEAD", "x")):
        (bench.workspace / path).write_text(text, newline="")
    bench.parts = replace(bench.parts, audit=open_audit(ledger, bench.parts.settings))
    bench.graph = build_graph(bench.parts).compile(checkpointer=bench.saver)
    return bench


def files_below(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes().decode()
        for path in folder.rglob("*")
        if path.is_file()
    }


def lies_in(folder: Path, name: str) -> bool:
    return (folder / name).exists()


def seen_by_a_person(bench: Bench, request: Any) -> str:
    """All that the terminal shows of the run, in one wide line each."""
    out = Console(file=io.StringIO(), width=1000, markup=False, highlight=False, emoji=False)
    view = LiveView(out, out)
    for event in bench.events:
        view.show(parse_event(event))
    return out.file.getvalue() + (describe_request(request) if request else "")  # type: ignore[attr-defined]


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
async def test_limits_hold_for_a_model_that_obeys_what_it_reads(
    case: dict[str, Any], tmp_path: Path, ledger: Ledger
) -> None:
    bench = bench_of(case, tmp_path, ledger)
    before = files_below(bench.workspace)
    state = await bench.run("Tidy up.", mode=case.get("mode", "ask"))
    request = await bench.waits_for()
    assert ("waiting" if request else state["reason"]) == case.get("reason", "answered")
    assert bench.parts.audit is not None
    rows = bench.parts.audit.rows(AuditFilter(), limit=99)
    assert [row["outcome"] for row in rows] == ["ok", *case.get("ends", [])]
    assert files_below(bench.workspace) == before | case.get("effects", {})
    assert files_below(tmp_path / "outside") == {"secret.txt": SECRET}
    assert not lies_in(tmp_path, ".bashrc")
    assert SECRET not in str([state["messages"], rows])


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
async def test_a_person_sees_what_hides(case: dict[str, Any], tmp_path: Path, ledger: Ledger) -> None:
    bench = bench_of(case, tmp_path, ledger)
    await bench.run("Tidy up.", mode=case.get("mode", "ask"))
    seen = seen_by_a_person(bench, await bench.waits_for())
    assert [part for part in case.get("shown", []) if part not in seen] == []
    assert set(seen) & HIDING == set()


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_a_reply_in_pieces_hides_nothing_while_it_is_written(case: dict[str, Any]) -> None:
    writing = Writing(monotonic=lambda: 0.0)
    for character in case["text"]:
        writing.hear(AgentDelta(kind="text", content=character))
        assert set(writing.line(500)) & HIDING == set()


async def test_the_model_is_told_once_that_content_gives_no_orders(tmp_path: Path, ledger: Ledger) -> None:
    bench = bench_of(CASES[0], tmp_path, ledger)
    await bench.run("Tidy up.")
    assert isinstance(bench.parts.models, FakeModel)
    told = [message.text for message in bench.parts.models.prompts[-1]]
    assert ["no orders" in text for text in told].count(True) == 1
    assert "no orders" in told[0]
