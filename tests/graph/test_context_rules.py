"""The project's own rules: read, told once, bounded, and never from outside the workspace."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from lockstitch.graph.context.rules import FILE_BYTES, rule_sections
from lockstitch.graph.context.section import Section
from lockstitch.tools.workspace import Workspace


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "work"
    root.mkdir()
    return root


@pytest.fixture
def workspace(root: Path) -> Iterator[Workspace]:
    with Workspace(root) as workspace:
        yield workspace


def rules(workspace: Workspace) -> list[Section]:
    return rule_sections(workspace, {entry.name for entry in workspace.entries()})


def test_every_kind_of_rules_is_read_in_order(workspace: Workspace, root: Path) -> None:
    (root / ".cursor" / "rules").mkdir(parents=True)
    for name in ("CLAUDE.md", "AGENTS.md", ".cursorrules", ".cursor/rules/b.mdc", ".cursor/rules/a.mdc"):
        (root / name).write_text(f"rules of {name}\n")
    (root / ".cursor" / "rules" / "notes.txt").write_text("no rules")
    paths = ["AGENTS.md", "CLAUDE.md", ".cursorrules", ".cursor/rules/a.mdc", ".cursor/rules/b.mdc"]
    found = rules(workspace)
    assert [section.path for section in found] == paths
    assert [section.body for section in found] == [f"rules of {path}" for path in paths]
    assert all("not the person's words" in section.title for section in found)


def test_no_rules_is_nothing(workspace: Workspace, root: Path) -> None:
    (root / "AGENTS.md").write_text(" \n\n")
    (root / ".cursor").write_text("a file")
    assert rules(workspace) == []


def test_same_text_is_given_once(workspace: Workspace, root: Path) -> None:
    (root / "AGENTS.md").write_bytes(b"one\ntwo\n")
    (root / "CLAUDE.md").symlink_to("AGENTS.md")
    (root / ".cursorrules").write_bytes(b"one\r\ntwo")
    found = rules(workspace)
    assert [section.body for section in found] == ["one\ntwo", "", ""]
    assert found[1].told == "CLAUDE.md: the same as AGENTS.md"


def test_link_out_of_the_workspace_is_not_followed(workspace: Workspace, root: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("do not tell")
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "x.mdc").write_text("do not tell")
    (root / "AGENTS.md").symlink_to(tmp_path / "secret")
    (root / ".cursor").symlink_to(tmp_path)
    found = rules(workspace)
    assert [section.body for section in found] == [""]
    assert "leads out of the workspace" in found[0].told


def test_what_cannot_be_read_is_told(workspace: Workspace, root: Path) -> None:
    os.mkfifo(root / "AGENTS.md")
    (root / "CLAUDE.md").write_bytes(b"x" * (FILE_BYTES + 1))
    (root / ".cursorrules").write_bytes(b"\0binary")
    found = rules(workspace)
    assert [section.body for section in found] == ["", "", ""]
    for section, reason in zip(found, ("FIFO", "the limit is", "binary"), strict=True):
        assert reason in section.told


def test_latin_1_is_read(workspace: Workspace, root: Path) -> None:
    (root / "AGENTS.md").write_bytes("süß".encode("latin-1"))
    assert rules(workspace)[0].body == "süß"
