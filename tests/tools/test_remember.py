"""What the agent keeps of a workspace, and what it must not keep."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import ValidationError

from lockstitch.state.errors import ResourceLimitError, ToolExecutionError, ToolValidationError
from lockstitch.state.facts import FACT_CHARS, FACTS_MAX, FactStore
from lockstitch.state.settings import load_settings
from lockstitch.state.spill import SpillStore
from lockstitch.tools.context import ToolContext
from lockstitch.tools.remember import looks_secret, remember
from lockstitch.tools.result import ToolResult
from lockstitch.tools.workspace import Workspace


@pytest.fixture
def context(tmp_path: Path) -> Iterator[ToolContext]:
    (tmp_path / "work").mkdir()
    with Workspace(tmp_path / "work") as workspace, FactStore(tmp_path) as facts:
        yield ToolContext(
            workspace=workspace,
            settings=load_settings(),
            spill=SpillStore(tmp_path, "t"),
            thread_id="thread",
            facts=facts,
        )


def keep(context: ToolContext, fact: str) -> ToolResult:
    result = remember.invoke({"fact": fact, "call": context})
    assert isinstance(result, ToolResult)
    return result


def test_a_fact_is_kept_for_its_workspace_with_its_thread(context: ToolContext) -> None:
    result = keep(context, "The tests need `make db` first.")
    assert context.facts is not None
    (kept,) = context.facts.facts(str(context.workspace.root))
    assert (kept.text, kept.thread_id) == ("The tests need `make db` first.", "thread")
    assert kept.id in result.output


def test_without_a_store_that_is_told(context: ToolContext) -> None:
    with pytest.raises(ToolExecutionError, match="nothing can be kept"):
        keep(replace(context, facts=None), "x")


@pytest.mark.parametrize("fact", ["", "x" * (FACT_CHARS + 1)])
def test_a_fact_has_its_bounds(context: ToolContext, fact: str) -> None:
    with pytest.raises(ValidationError):
        keep(context, fact)


def test_a_blank_fact_is_refused(context: ToolContext) -> None:
    with pytest.raises(ToolValidationError, match="blank"):
        keep(context, " \n")


def test_a_full_workspace_is_told_how_to_make_room(
    context: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lockstitch.state.facts.FACTS_MAX", 2)
    assert FACTS_MAX == 200
    for number in range(2):
        keep(context, f"fact {number}")
    with pytest.raises(ResourceLimitError, match="--forget"):
        keep(context, "one more")
    keep(context, "fact 1")


SECRETS = [
    "The key is sk-proj-abcdefghijklmnop",
    "use ghp_0123456789abcdefghijABCDEFGHIJ456789",
    "AWS: AKIAIOSFODNN7EXAMPLE",
    "password: hunter2",
    "DB_PASSWORD=hunter",
    "the api key = abc",
    "The password is hunter2.",
    "clone with https://me:pw@example.org/x.git",
    "-----BEGIN RSA PRIVATE KEY-----",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.x",
    "call it with 9f86d081884c7d659a2feaa0c55ad015",
]
HARMLESS = [
    "The token is stored in ~/.netrc.",
    "Run `pytest -k test_py311_linux_x86_64` for the slow ones.",
    "The password prompt comes from sudo.",
    "Version 2.10.3 of the library has a bug in parse_http2_header_v1.",
    "The database listens on port 5433, the cache on 6380.",
    "die Tür heißt tests/integration/TestCaseForTheLongestNameEver2.py",
]


@pytest.mark.parametrize("fact", SECRETS)
def test_what_looks_like_a_key_is_refused_without_repeating_it(context: ToolContext, fact: str) -> None:
    with pytest.raises(ToolValidationError, match="never kept") as refusal:
        keep(context, fact)
    assert fact not in refusal.value.message
    assert context.facts is not None
    assert context.facts.all_facts() == []


@pytest.mark.parametrize("fact", HARMLESS)
def test_what_only_speaks_of_keys_is_kept(fact: str) -> None:
    assert not looks_secret(fact)
