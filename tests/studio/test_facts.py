"""`lockstitch facts` at the command line."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lockstitch.state.facts import Fact, FactStore
from lockstitch.tools.code_index.chunk import Chunk
from lockstitch.tools.code_index.index_file import IndexFile
from lockstitch.tools.code_index.indexes import FOLDER
from lockstitch.tools.fact_search import NAME

Lockstitch = Callable[..., Any]


@pytest.fixture
def facts(home: Path, workspace: Path) -> list[Fact]:
    """Two facts of the current folder, one of another."""
    with FactStore(home) as store:
        here = str(workspace.resolve())
        kept = [store.remember(here, text) for text in ("The port is 5433.", "Ruft \x1b[2J auf.")]
        return [*kept, store.remember("/elsewhere", "Of another folder.")]


def test_the_facts_of_the_workspace_are_listed(lockstitch: Lockstitch, facts: list[Fact]) -> None:
    done = lockstitch("facts")
    assert [line[:8] for line in done.out.splitlines()] == [fact.id for fact in facts[:2]]
    assert "The port is 5433." in done.out
    assert "another folder" not in done.out
    assert "\x1b" not in done.out


def test_a_workspace_is_named_and_need_not_exist(lockstitch: Lockstitch, facts: list[Fact]) -> None:
    assert "Of another folder." in lockstitch("facts", "--workspace", "/elsewhere").out
    assert "No facts" in lockstitch("facts", "--workspace", "/nowhere").out


def test_all_facts_are_listed_under_their_workspaces(lockstitch: Lockstitch, facts: list[Fact]) -> None:
    lines = lockstitch("facts", "--all-workspaces").out.splitlines()
    assert "/elsewhere" in lines
    assert len(lines) == 5


def test_json_has_every_field(lockstitch: Lockstitch, facts: list[Fact]) -> None:
    bodies = lockstitch("facts", "--json").events
    assert bodies[0] == {**vars(facts[0])}
    assert lockstitch("facts", "--json", "--workspace", "/nowhere").out == ""


def test_facts_are_forgotten_by_id(lockstitch: Lockstitch, facts: list[Fact]) -> None:
    assert lockstitch("facts", "--forget", facts[0].id, "--forget", facts[1].id).code == 0
    assert "No facts" in lockstitch("facts").out
    done = lockstitch("facts", "--forget", facts[2].id)
    assert (done.code, facts[2].id in done.err) == (2, True)


def test_forgetting_all_needs_a_word(lockstitch: Lockstitch, facts: list[Fact]) -> None:
    done = lockstitch("facts", "--forget-all")
    assert (done.code, "--yes" in done.err) == (2, True)
    assert lockstitch("facts", "--forget-all", "--yes").out == "2 forgotten.\n"
    assert len(lockstitch("facts", "--all-workspaces", "--json").events) == 1


def test_what_does_not_go_together_is_wrong_usage(lockstitch: Lockstitch, home: Path) -> None:
    assert lockstitch("facts", "--forget-all", "--all-workspaces").code == 2
    assert list(home.iterdir()) == []


def test_listing_creates_no_database(lockstitch: Lockstitch, home: Path) -> None:
    lockstitch("facts")
    assert list(home.iterdir()) == []


def test_a_person_at_the_terminal_is_asked(
    terminal: Callable[..., Any], facts: list[Fact], home: Path
) -> None:
    person = terminal("facts", "--forget-all")
    person.expect("[y/N] ")
    person.type("n")
    person.expect("Nothing was deleted.")
    assert person.code() == 0
    with FactStore(home) as store:
        assert len(store.all_facts()) == 3


def test_where_one_id_is_unknown_nothing_is_forgotten(lockstitch: Lockstitch, facts: list[Fact]) -> None:
    done = lockstitch("facts", "--forget", facts[0].id, "--forget", "nope")
    assert (done.code, "nope" in done.err) == (2, True)
    assert facts[0].id in lockstitch("facts").out


def test_facts_are_searched(
    lockstitch: Lockstitch, facts: list[Fact], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOCKSTITCH_EMBEDDINGS", "off")
    done = lockstitch("facts", "--search", "port")
    assert done.out.startswith(facts[0].id)
    assert len(done.out.splitlines()) == 1
    assert "by words alone" in done.err
    assert lockstitch("facts", "--search", "port", "--json").events[0]["text"] == "The port is 5433."
    assert "\x1b" not in lockstitch("facts", "--search", "Ruft").out
    assert "No fact fits" in lockstitch("facts", "--search", "zebra").err
    assert lockstitch("facts", "--search", "x", "--forget", "y").code == 2


@pytest.mark.parametrize("how", [["--forget", "{id}"], ["--forget-all", "--yes"]])
def test_vectors_go_with_the_facts(
    how: list[str], lockstitch: Lockstitch, facts: list[Fact], home: Path
) -> None:
    chunk = Chunk("", 1, 1, "", facts[0].text)
    (home / FOLDER).mkdir()
    with IndexFile(home / FOLDER / NAME) as file:
        file.put_vectors("m", [chunk], np.ones((1, 2), dtype=np.float32))
    assert lockstitch("facts", *(word.format(id=facts[0].id) for word in how)).code == 0
    with IndexFile(home / FOLDER / NAME) as file:
        assert file.vectors_by_sense("m") == {}
