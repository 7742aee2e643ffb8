"""The rules a person writes: allow, ask or deny by tool, path and command; read, checked and matched."""

import re
import shlex
import tomllib
import unicodedata
from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from lockstitch.state.errors import SettingsError
from lockstitch.state.misfit import describe_misfit
from lockstitch.tools.permission.shell_words import Word
from lockstitch.tools.permission.shell_wrappers import program_of

FILE: Final = "policy.toml"
RULES_MAX: Final = 1000  # in one file; judging looks at each of them
Answer = Literal["yes", "maybe", "no"]
_NO_PREFIX: Final = re.compile(r"[;|&<>$`*?(){}\n]")
_GLOB_PIECE: Final = re.compile(r"\*\*/|\*\*|\*|\?|\[!?\]?[^\]]*\]|.", re.DOTALL)
_HEADER: Final = re.compile(r"^[ \t]*\[\[\s*[\"']?rule[\"']?\s*\]\]", re.MULTILINE)


class Rule(BaseModel):
    """One rule.

    Attributes:
        tool: a tool's name, `*` stands for any letters; left out it is every tool.
        path: a glob below the workspace; a folder stands for all that is in it, a name without a / for every
            file of that name. `./name` is the one at the top.
        command: the words that one command begins with.
        reason: told with every refusal and question.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    decision: Literal["allow", "ask", "deny"]
    tool: Annotated[str | None, Field(min_length=1, max_length=200)] = None
    path: Annotated[str | None, Field(min_length=1, max_length=1000)] = None
    command: Annotated[str | None, Field(min_length=1, max_length=1000)] = None
    reason: Annotated[str, Field(max_length=500)] = ""

    @field_validator("path")
    @classmethod
    def _inside(cls, path: str | None) -> str | None:
        if path and (path.startswith(("/", "~")) or "\\" in path or ".." in path.split("/")):
            raise ValueError("a path is a glob below the workspace, without ~, .. or a leading /")
        try:
            _glob(path or "")
        except re.error as error:
            raise ValueError(f"the glob cannot be read: {error}") from None
        return path

    @field_validator("command")
    @classmethod
    def _one_command(cls, command: str | None) -> str | None:
        if command is not None and (_NO_PREFIX.search(command) or not shlex.split(command)):
            raise ValueError(
                "a command is the words that one command begins with, without ; | & < > $ ` * ? ( ) { }"
            )
        return command

    @model_validator(mode="after")
    def _about_something(self) -> "Rule":
        if self.path and self.command:
            raise ValueError("path and command do not go together: write two rules")
        if not (self.tool or self.path or self.command):
            raise ValueError("it names no tool, path or command")
        return self

    @cached_property
    def prefix(self) -> tuple[str, ...]:
        """The words of `command`."""
        return tuple(shlex.split(self.command or ""))

    @property
    def holds_back(self) -> bool:
        """Whether it holds back, and so must hold in every spelling; an allowance is taken by its letters."""
        return self.decision != "allow"

    def names_tool(self, tool: str) -> bool:
        """Whether it is about that tool."""
        return self.tool is None or _glob(self.tool, flat=True).fullmatch(tool) is not None

    def names_path(self, path: str) -> bool:
        """Whether it is about that path, which is relative to the workspace, or one above it."""
        if self.path is None:
            return True
        if not self.holds_back:
            return _glob(self.path).fullmatch(path) is not None
        return _glob(_folded(self.path).removesuffix("/**")).fullmatch(_folded(path)) is not None

    def names_command(self, words: Sequence[Word]) -> Answer:
        """Whether a simple command begins with its words; `maybe` where only running it would tell."""
        if self.holds_back:
            return _begins_somehow(self.prefix, words)
        same = len(words) >= len(self.prefix) and all(
            word == Word(text) for text, word in zip(self.prefix, words, strict=False)
        )
        return "yes" if same else "no"

    def as_fields(self) -> dict[str, str]:
        """What its table in the file holds."""
        return {name: value for name, value in self.model_dump().items() if value}

    def __str__(self) -> str:
        about = [f"{name} = {value!r}" for name, value in self.as_fields().items() if name != "decision"]
        return f"{self.decision} {', '.join(about)}"


def read_rules(text: str, *, source: str) -> tuple[Rule, ...]:
    """The rules of a file's text.

    Raises:
        SettingsError: it does not fit; names the line and the field. Nothing of such a file counts.
    """
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{source} is no valid TOML: {error}") from None
    rules = tables.pop("rule", [])
    if tables:
        raise SettingsError(f"{source}: {next(iter(tables))}: there is no such table. Rules are [[rule]].")
    if not isinstance(rules, list) or len(rules) > RULES_MAX:
        raise SettingsError(f"{source}: rules are tables [[rule]], at most {RULES_MAX}.")
    return tuple(_rule(table, n, text, source) for n, table in enumerate(rules))


def _rule(table: Any, number: int, text: str, source: str) -> Rule:
    try:
        return Rule.model_validate(table)
    except ValidationError as error:
        lines = [text.count("\n", 0, found.start()) + 1 for found in _HEADER.finditer(text)]
        where = f"line {lines[number]}, " if number < len(lines) else ""
        raise SettingsError(
            f"{source}: {where}rule {number + 1} does not fit. {describe_misfit(error)}."
        ) from None


def _folded(path: str) -> str:
    return unicodedata.normalize("NFC", path).casefold()


@lru_cache(maxsize=1024)
def _glob(pattern: str, *, flat: bool = False) -> re.Pattern[str]:
    """The glob as an expression: `*` and `?` stay within a folder, `**` does not; `flat` knows no folders."""
    deeper = "" if flat or "/" in pattern.rstrip("/") else "(?:.*/)?"
    pieces = []
    for found in _GLOB_PIECE.finditer(pattern.removeprefix("./").rstrip("/")):
        piece = found[0]
        one = {"**/": "(?:.*/)?", "**": ".*", "*": ".*" if flat else "[^/]*", "?": "[^/]"}.get(piece)
        if one is None and len(piece) > 1:
            inside = piece[1:-1].replace("\\", r"\\").replace("[", r"\[").replace("^", r"\^")
            one = f"[{'^' + inside[1:] if inside.startswith('!') else inside}]"
        pieces.append(re.escape(piece) if one is None else one)
    below = "" if flat else "(?:/.*)?"
    return re.compile(f"{deeper}{''.join(pieces)}{below}", re.DOTALL)


def _begins_somehow(prefix: Sequence[str], words: Sequence[Word]) -> Answer:
    """Whether the command is the one that the prefix means, in whatever spelling.

    The program counts by its name in every folder. Options may stand between its words, with or without a
    value; options of the prefix count wherever they stand, cut short or in a cluster.
    """
    if not words or words[0].kind != "plain":
        return "maybe"
    if program_of(words).casefold() != prefix[0].rpartition("/")[2].casefold():
        return "no"
    options = [text for text in prefix[1:] if text.startswith("-")]
    rest = words[1:]
    steps = _in_order([text for text in prefix[1:] if not text.startswith("-")], rest)
    if steps == "no" or all(_has(option, rest) for option in options):
        return steps
    return "maybe" if any(word.kind != "plain" for word in rest) else "no"


def _in_order(wanted: Sequence[str], words: Sequence[Word]) -> Answer:
    """Whether the wanted words come first, but for options and what may be their values."""
    if not wanted:
        return "yes"
    for at, word in enumerate(words):
        if word.kind != "plain":
            return "maybe"
        follows_option = at > 0 and words[at - 1].text.startswith("-")
        if word.text == wanted[0]:
            found = _in_order(wanted[1:], words[at + 1 :])
            if found != "no":
                return found
        if not word.text.startswith("-") and not follows_option:
            return "no"
    return "no"


def _has(option: str, words: Sequence[Word]) -> bool:
    texts = [word.text.partition("=")[0] for word in words if word.text.startswith("-")]
    if option.startswith("--"):
        return any(len(text) > 2 and option.startswith(text) for text in texts)
    letters = "".join(text[1:] for text in texts if not text.startswith("--"))
    return option in texts or set(option[1:]) <= set(letters)
