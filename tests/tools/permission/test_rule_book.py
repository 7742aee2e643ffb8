"""The files of rules: read again when they change, narrowed by the project, and written to with care."""

import os
from pathlib import Path

import pytest

from lockstitch.state.errors import SettingsError, SystemFaultError
from lockstitch.tools.permission.rule_book import FILE, RuleBook

OFFER = {"decision": "allow", "tool": "run_command", "command": "git log"}
OWN = """# mine
[[rule]]  # why
decision = "deny"
tool = "web_search"   # never

# the end
"""


def project(tmp_path: Path, text: str) -> Path:
    folder = tmp_path / "work"
    (folder / ".lockstitch").mkdir(parents=True)
    (folder / ".lockstitch" / FILE).write_text(text)
    return folder


def test_no_file_is_no_rule(tmp_path: Path) -> None:
    assert RuleBook(tmp_path).rules(tmp_path / "none").all == ()


def test_a_file_is_read_again_only_when_it_has_changed(tmp_path: Path) -> None:
    book = RuleBook(tmp_path)
    book.file.write_text(OWN)
    first = book.rules().home
    assert book.rules().home is first
    book.file.write_text(OWN.replace("web_search", "web_lookup_"))
    assert book.rules().home[0].tool == "web_lookup_"
    book.file.unlink()
    assert book.rules().home == ()


def test_a_project_can_only_narrow(tmp_path: Path) -> None:
    folder = project(
        tmp_path,
        '[[rule]]\ndecision = "allow"\ntool = "*"\n[[rule]]\ndecision = "deny"\npath = "dist"\n',
    )
    rules = RuleBook(tmp_path).rules(folder)
    assert [rule.decision for rule in rules.all] == ["deny"]
    assert (rules.ignored, rules.source(rules.project[0])) == (1, ".lockstitch/policy.toml of the project")


def test_a_bad_file_names_itself_and_leaves_no_half_of_it(tmp_path: Path) -> None:
    folder = project(tmp_path, OWN + "[[rule]]\n")
    book = RuleBook(tmp_path)
    for _ in range(2):  # nor the next time
        with pytest.raises(SettingsError, match=r"^\.lockstitch/policy\.toml of the project: line 7, rule 2"):
            book.rules(folder)
    book.file.write_text("x")
    with pytest.raises(SettingsError, match=r"^policy\.toml in the home folder is no valid TOML"):
        book.rules()


def test_a_projects_file_is_no_way_out_of_it(tmp_path: Path) -> None:
    folder = project(tmp_path, "")
    named = folder / ".lockstitch" / FILE
    named.unlink()
    (tmp_path / "outside").write_text("secret = 1")
    named.symlink_to(tmp_path / "outside")
    with pytest.raises(SettingsError) as refused:
        RuleBook(tmp_path).rules(folder)
    assert "secret" not in refused.value.message
    named.unlink()
    os.mkfifo(named)
    with pytest.raises(SettingsError, match="is no file"):
        RuleBook(tmp_path).rules(folder)


def test_a_person_may_keep_the_own_file_elsewhere_and_link_to_it(tmp_path: Path) -> None:
    real = tmp_path / "dotfiles.toml"
    real.write_text(OWN)
    (tmp_path / "home").mkdir()
    book = RuleBook(tmp_path / "home")
    book.file.symlink_to(real)
    book.allow(OFFER)
    assert book.file.is_symlink()
    assert len(book.rules().home) == 2


def test_always_writes_the_shown_rule_and_nothing_else(tmp_path: Path) -> None:
    book = RuleBook(tmp_path)
    book.file.write_text(OWN)
    book.allow(OFFER)
    text = book.file.read_text()
    added = '[[rule]]\ndecision = "allow"\ntool = "run_command"\ncommand = "git log"\n'
    assert text.startswith(OWN)
    assert text.removeprefix(OWN).strip() == added.strip()
    assert [rule.as_fields() for rule in book.rules().home][1] == OFFER
    assert sorted(path.name for path in tmp_path.iterdir()) == [FILE]


def test_the_same_rule_is_written_once(tmp_path: Path) -> None:
    book = RuleBook(tmp_path)
    book.allow(OFFER)
    book.allow(OFFER)
    assert RuleBook(tmp_path).file.read_text().count("[[rule]]") == 1
    assert book.file.stat().st_mode & 0o077 == 0


def test_rules_written_in_line_are_kept(tmp_path: Path) -> None:
    book = RuleBook(tmp_path)
    book.file.write_text('rule = [{decision = "deny", tool = "a"}]\n')
    book.allow(OFFER)
    assert len(book.rules().home) == 2


def test_a_file_that_cannot_be_written_is_told_and_stays_whole(tmp_path: Path, ordinary_user: None) -> None:
    book = RuleBook(tmp_path)
    book.file.write_text(OWN)
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(SystemFaultError, match="cannot be written"):
            book.allow(OFFER)
    finally:
        tmp_path.chmod(0o700)
    assert book.file.read_text() == OWN


def test_denial_tells_a_tools_paths_and_nothing_where_no_rule_denies_one(tmp_path: Path) -> None:
    book = RuleBook(tmp_path)
    book.file.write_text(
        '[[rule]]\ndecision = "deny"\npath = ".env"\n'
        '[[rule]]\ndecision = "deny"\ntool = "write_file"\npath = "dist/**"\n'
        '[[rule]]\ndecision = "ask"\npath = "docs"\n'
    )
    rules = book.rules()
    for tool, expected in (("grep_files", [True, False, False]), ("write_file", [True, True, False])):
        is_denied = rules.denial(tool)
        assert is_denied is not None
        assert [is_denied(path) for path in ("sub/.env", "dist/a.js", "docs/x.md")] == expected
    book.file.write_text('[[rule]]\ndecision = "deny"\ncommand = "git push"\n')
    assert book.rules().denial("grep_files") is None
