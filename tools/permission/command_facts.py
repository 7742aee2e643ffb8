"""What rules look at in a command: each of its simple commands, what it writes, and what nobody can tell."""

import posixpath
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from lockstitch.tools.paths import is_protected
from lockstitch.tools.permission.call_paths import forms, resolved
from lockstitch.tools.permission.injections import SUBCOMMANDS, injection
from lockstitch.tools.permission.rules import Answer, Rule
from lockstitch.tools.permission.shell_parts import UNREADABLE, Script, read_script
from lockstitch.tools.permission.shell_words import Word, names, split_modules
from lockstitch.tools.permission.shell_wrappers import Inner, inner_commands, program_of

DEPTH: Final = 8  # wrappers within wrappers; people write one or two
PARTS_MAX: Final = 500  # simple commands of one call; one with more is not judged in full, and so asks
POWERSHELL: Final = "run_powershell"  # its language is another one
HARMLESS: Final = names(": [ cd echo exit export false pwd set test true")  # need no allowance of their own
DEVICES: Final = names("/dev/null /dev/stdout /dev/stderr /dev/tty")  # no file is written there
_SHELL_OPTION: Final = re.compile(r"-[eux]*o?|pipefail")  # of `set`: how a script stops
MODULES: Final = names("python python3")

# What an offered rule names of a command: so many words of these programs, the whole command of all others.
ONE_WORD: Final = names(
    "cat cut df diff du egrep fgrep grep head jq ls md5sum mypy nl pytest pyright rg ruff sha256sum sort "
    "stat tail tree tsc uniq wc which"
)
TWO_WORDS: Final = names("cargo docker dotnet gh git go gradle make mvn npm pip pnpm poetry uv yarn")
_RUN_WORDS: Final = frozenset(("run", "exec", "tool", "x", "compose"))  # what follows names the program


@dataclass(frozen=True)
class Piece:
    """One simple command of a call; `needs` an allowance unless another piece has it in its place."""

    words: tuple[Word, ...]
    needs: bool = True


class CommandFacts:
    """A call that runs a shell command, taken apart into `pieces`."""

    def __init__(self, tool: str, args: Mapping[str, Any], workspace: Path) -> None:
        self._tool = tool
        self._folder = str(args.get("working_directory") or ".")
        self._workspace = workspace
        self._script = Script()
        self.pieces: list[Piece] = []
        self._take(str(args["command"]), depth=0)
        self._doubt = self._script.risky or self._risk_of_writes()

    @property
    def hidden(self) -> str:
        """Why there may be more in it than `pieces`; empty when nothing is missing."""
        return self._script.hidden

    @cached_property
    def risk(self) -> str:
        """What a person should look at; empty when nothing stands out."""
        return self._doubt or next(filter(None, (injection(piece.words) for piece in self.pieces)), "")

    def answer(self, rule: Rule) -> Answer:
        """Whether a rule that holds back is about the tool, one of the commands, or a path in them."""
        if rule.path is not None:
            return self._about_path(rule)
        if not rule.names_tool(self._tool):
            return "no"
        if not rule.command:
            return "yes"
        answers = {rule.names_command(piece.words) for piece in self.pieces}
        if "yes" in answers:
            return "yes"
        return "maybe" if "maybe" in answers or self._script.hidden else "no"

    def allowed(self, rules: Sequence[Rule]) -> bool:
        """Whether the tool is allowed whatever it runs, or each of the commands is."""
        mine = [rule for rule in rules if rule.path is None and rule.names_tool(self._tool)]
        if any(not rule.command for rule in mine):
            return True
        return bool(self._needing) and not self._doubt and not self._uncovered(mine)

    def offer(self, rules: Sequence[Rule]) -> dict[str, str] | None:
        """An allowance for the one command that has none yet; None where there are several."""
        mine = [rule for rule in rules if rule.command and rule.names_tool(self._tool)]
        prefixes = {_prefix(words) for words in self._uncovered(mine)}
        if self._doubt or len(prefixes) != 1:
            return None
        (prefix,) = prefixes
        if prefix is None:
            return None
        fields = {"decision": "allow", "tool": self._tool, "command": prefix}
        try:
            rule = Rule.model_validate(fields)
        except ValueError:  # such a command has no prefix that a rule could hold
            return None
        return fields if self.allowed([*rules, rule]) else None

    def _take(self, command: str, *, depth: int) -> None:
        """Take a command apart, and what its parts run in turn."""
        unread = Script(hidden=UNREADABLE, risky=UNREADABLE)
        script = unread if self._tool == POWERSHELL else read_script(command)
        if script.hidden:
            self._script.hide(script.hidden)
        if script.risky:
            self._script.doubt(script.risky)
        self._script.writes += script.writes
        self._script.reads += script.reads
        for part in script.parts:
            self._add(Piece(part.words), depth=depth)

    def _add(self, piece: Piece, *, depth: int) -> None:
        if depth > DEPTH or len(self.pieces) >= PARTS_MAX:
            self._script.hide("it runs too many commands within each other to be judged")
            return
        inner = list(inner_commands(piece.words))
        through = bool(inner) and not any(one.lost for one in inner) and any(map(_runs, inner))
        self.pieces.append(Piece(piece.words, needs=piece.needs and not through))
        for one in inner:
            self._add_inner(one, depth=depth + 1)
        if module := _module(piece.words):
            self.pieces.append(Piece(module, needs=False))

    def _add_inner(self, inner: Inner, *, depth: int) -> None:
        if inner.lost:
            self._script.hide(inner.why)
        elif inner.why:
            self._script.doubt(inner.why)
        if inner.script is not None:
            self._take(inner.script, depth=depth)
        elif inner.words:
            self._add(Piece(inner.words), depth=depth)

    @cached_property
    def _needing(self) -> list[tuple[Word, ...]]:
        """The commands that need an allowance."""
        return [
            piece.words
            for piece in self.pieces
            if piece.needs and piece.words and not self._is_harmless(piece.words)
        ]

    def _uncovered(self, rules: Sequence[Rule]) -> list[tuple[Word, ...]]:
        """The commands that need an allowance and have none."""
        return [words for words in self._needing if not any(_covers(rule, words) for rule in rules)]

    def _is_harmless(self, words: Sequence[Word]) -> bool:
        if words[0].kind != "plain" or words[0].text not in HARMLESS:
            return False
        if words[0].text == "set":
            return all(_SHELL_OPTION.fullmatch(word.text) for word in words[1:])
        if words[0].text != "cd":
            return all(word.kind == "plain" for word in words) or words[0].text == "echo"
        places = [word for word in words[1:] if word.text != "--"]
        return len(places) == 1 and places[0].kind == "plain" and self._is_inside(places[0].text)

    def _is_inside(self, path: str) -> bool:
        """Whether a path is one of the workspace for sure, wherever links lead, and not what guards it."""
        if path.startswith(("~", "-")):
            return False
        found = resolved(posixpath.join(self._folder, path), self._workspace)
        return found is not None and not any(map(is_protected, found.split("/")))

    def _risk_of_writes(self) -> str:
        """Why a redirection needs a look: it leads out of the workspace, to what guards it, or anywhere."""
        moves = any(program_of(piece.words) in ("cd", "pushd", "popd") for piece in self.pieces)
        for target in self._script.writes:
            if target.text in DEVICES:
                continue
            if target.kind != "plain" or moves or not self._is_inside(target.text):
                return f"it writes to {target.text[:100]}"
        return ""

    def _about_path(self, rule: Rule) -> Answer:
        """A rule on paths is about the words that are paths, and about the files that are written."""
        writes = rule.names_tool("write_file")
        if not (writes or rule.names_tool(self._tool)):
            return "no"
        texts = self._written if not rule.names_tool(self._tool) else self._written | self._named
        hits = any(rule.names_path(form) for text in texts if text for form in self._forms(text))
        return "yes" if hits else "no"

    @cached_property
    def _written(self) -> frozenset[str]:
        return frozenset(word.text for word in self._script.writes if word.kind == "plain")

    @cached_property
    def _named(self) -> frozenset[str]:
        """Words that may be paths; of `--option=value` the value too."""
        words = [word for piece in self.pieces for word in piece.words] + self._script.reads
        texts = [word.text for word in words if word.kind == "plain"]
        return frozenset(texts) | {text.partition("=")[2] for text in texts}

    def _forms(self, text: str) -> set[str]:
        return forms(posixpath.join(self._folder, text), self._workspace)


def _runs(inner: Inner) -> bool:
    return bool(inner.words) or inner.script is not None


def _covers(rule: Rule, words: Sequence[Word]) -> bool:
    """Whether an allowance covers a command: its words, and nothing behind them that needs a look."""
    if rule.names_command(words) != "yes" or injection(words, beyond=len(rule.prefix)):
        return False
    return all(_is_written_out(word) for word in words[len(rule.prefix) :])


def _is_written_out(word: Word) -> bool:
    """A glob may stand for file names that are options, unless it begins with a letter."""
    return word.kind == "plain" or (word.kind == "glob" and word.text[:1] not in ("*", "?", "[", "-"))


def _prefix(words: Sequence[Word]) -> str | None:
    """The words that an offered rule names; None where no rule should."""
    texts = [word.text for word in words]
    if texts[0] in HARMLESS:  # what harms in it is where it leads, which a rule cannot say
        return None
    count = _usual_count(texts)
    named = words[: count or len(words)]
    if any(word.kind != "plain" for word in named) or injection(words, beyond=count or 1):
        return None
    if texts[0] in SUBCOMMANDS and texts[1:2] and texts[1] in SUBCOMMANDS[texts[0]]:
        return None
    return shlex.join(word.text for word in named)


def _usual_count(texts: Sequence[str]) -> int:
    """How many words say what a well-known program does; 0 where only the whole command does."""
    if texts[0] in ONE_WORD:
        return 1
    if texts[0] in MODULES and texts[1:2] == ["-m"] and len(texts) > 2:
        return 3
    if texts[0] in TWO_WORDS and len(texts) > 1 and not texts[1].startswith("-"):
        return 3 if texts[1] in _RUN_WORDS and len(texts) > 2 and not texts[2].startswith("-") else 2
    return 0


def _module(words: Sequence[Word]) -> tuple[Word, ...]:
    """What `python -m` runs, which rules that hold back may name by its own name."""
    if not program_of(words).startswith("python"):
        return ()
    parted = split_modules(words)
    at = next((n for n, word in enumerate(parted) if word.text == "-m"), 0)
    return tuple(parted[at + 1 :]) if at else ()
