"""Rules as people write them: what they match, and what is said of a file that does not fit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstitch.state.errors import SettingsError
from lockstitch.tools.permission.rules import Rule, read_rules
from lockstitch.tools.permission.shell_words import Word


def rule(decision: str = "deny", **fields: str) -> Rule:
    return Rule.model_validate({"decision": decision, **fields})


@pytest.mark.parametrize(
    ("glob", "path", "hits"),
    [
        (".env", ".env", True),
        (".env", "a/b/.env", True),
        (".env", ".envrc", False),
        ("./.env", ".env", True),
        ("./.env", "a/.env", False),
        ("*.pem", "keys/a.pem", True),
        ("src/*.py", "src/a.py", True),
        ("src/*.py", "src/a/b.py", False),
        ("src/**/*.py", "src/a/b.py", True),
        ("src/**/*.py", "src/b.py", True),
        ("**/test_*", "a/b/test_x.py", True),
        ("secrets/**", "secrets/a/b", True),
        ("secrets", "secrets/a/b", True),
        ("secrets", "secretsx", False),
        ("a?c", "abc", True),
        ("[ab].txt", "b.txt", True),
        ("[!ab].txt", "b.txt", False),
        ("a.b", "aXb", False),
    ],
)
def test_a_path_glob_matches(glob: str, path: str, hits: bool) -> None:
    assert rule("allow", path=glob).names_path(path) == hits
    assert rule("deny", path=glob).names_path(path) == hits


def test_what_holds_back_holds_in_every_letter_case_and_for_the_folder_itself() -> None:
    for path in ("SECRETS/Key", "secrets"):
        assert rule("deny", path="secrets/**").names_path(path)
        assert not rule("allow", path="secrets/**").names_path(path)


@given(st.text(alphabet="ab/.*?[]!-\\^$(", max_size=12), st.text(alphabet="ab/.", max_size=12))
def test_any_glob_is_either_refused_or_usable(glob: str, path: str) -> None:
    try:
        made = rule(path=glob)
    except ValueError:
        return
    assert made.names_path(path) in (True, False)


def test_a_prefix_that_allows_is_taken_by_its_words() -> None:
    allow = rule("allow", command="git log")
    assert allow.names_command([Word("git"), Word("log"), Word("-p")]) == "yes"
    assert allow.names_command([Word("git"), Word("-p"), Word("log")]) == "no"
    assert allow.names_command([Word("git")]) == "no"
    assert allow.names_command([Word("git"), Word("$x", "unknown")]) == "no"


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        ("git push", "yes"),
        ("git push origin --force", "yes"),
        ("git -C . push --for origin", "yes"),
        ("git push origin", "no"),
        ("git pull --force", "no"),
        ("hg push --force", "no"),
        ("git push $X", "maybe"),
        ("$X", "maybe"),
        ("", "maybe"),
    ],
)
def test_a_prefix_that_denies_is_taken_by_its_meaning(command: str, answer: str) -> None:
    words = [Word(text, "unknown" if "$" in text else "plain") for text in command.split()]
    expected = "yes" if command == "git push" else answer
    prefix = "git push" if command == "git push" else "git push --force"
    assert rule("deny", command=prefix).names_command(words) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = ", "no valid TOML"),
        ('[[rules]]\ntool = "a"', "rules: there is no such table"),
        ("rule = 1", "rules are tables"),
        ('\n\n[[rule]]\ndecision = "deny"', "line 3, rule 1 does not fit. it: it names no tool"),
        ('[[rule]]\ndecision = "no"\ntool = "a"', "decision: input should be 'allow', 'ask' or 'deny'"),
        (
            '[[rule]]\ndecision = "ask"\ntool = "a"\n[[rule]]\ndecision = "deny"\ntools = "a"',
            "line 4, rule 2 does not fit. tools: there is no such field",
        ),
        ('[[rule]]\ndecision = "deny"\npath = "/etc/**"', "path: a path is a glob below the workspace"),
        ('[[rule]]\ndecision = "deny"\npath = "../x"', "path: a path is a glob below the workspace"),
        ('[[rule]]\ndecision = "deny"\npath = "[b-a]"', "the glob cannot be read"),
        ('[[rule]]\ndecision = "deny"\ncommand = "a; b"', "command: a command is the words"),
        ('[[rule]]\ndecision = "deny"\ncommand = "npm run *"', "command: a command is the words"),
        ('[[rule]]\ndecision = "deny"\ncommand = "a \'b"', "command: no closing quotation"),
        ('[[rule]]\ndecision = "deny"\ncommand = "a"\npath = "b"', "do not go together"),
        ("rule = [1]", "rule 1 does not fit"),
    ],
)
def test_a_file_that_does_not_fit_is_refused_with_line_and_field(text: str, said: str) -> None:
    with pytest.raises(SettingsError) as refused:
        read_rules(text, source="policy.toml")
    assert refused.value.message.startswith("policy.toml")
    assert said in refused.value.message


@given(st.text(max_size=200))
def test_any_text_is_rules_or_a_clear_refusal(text: str) -> None:
    try:
        found: object = read_rules(text, source="x")
    except SettingsError as error:
        found = error
    assert isinstance(found, tuple) or str(found).startswith("x")
