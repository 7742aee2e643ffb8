"""The simple commands inside a shell command: what policy judges one by one.

Reads bash with tree-sitter and runs nothing. Where bash might see more than is found here, it says so.
"""

import re
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

from lockstitch.tools.permission.shell_words import Word, names, read_word

COMMAND_CHARS: Final = 20_000  # of one command; a longer one is not taken apart, and so asks
DEPTH: Final = 60  # nested nodes; people write less than 20
HARMLESS_VARIABLES: Final = names(
    "CI COLUMNS COVERAGE FORCE_COLOR LANG LC_ALL LINES NO_COLOR NODE_ENV PYTHONDONTWRITEBYTECODE "
    "PYTHONHASHSEED PYTHONUNBUFFERED PYTHONUTF8 RUST_BACKTRACE TERM TZ"
)  # no program loads or runs what they name
UNREADABLE: Final = "it could not be taken apart"

# Statements and words that hold nothing a walk through their children would miss.
_PLAIN: Final = names(
    "program list pipeline subshell compound_statement redirected_statement command negated_command "
    "if_statement elif_clause else_clause for_statement while_statement do_group case_statement case_item "
    "function_definition variable_assignment variable_name command_name word number string string_content "
    "raw_string concatenation comment file_redirect file_descriptor heredoc_redirect heredoc_start "
    "heredoc_body heredoc_content heredoc_end herestring_redirect command_substitution process_substitution "
    "declaration_command"
)
_VALUES: Final = names(
    "simple_expansion expansion special_variable_name translated_string ansi_c_string test_command "
    "test_operator unary_expression binary_expression parenthesized_expression negation_expression regex "
    "extglob_pattern unset_command"
)  # these too, but what they come to is known only when it runs
_WORDS: Final = names(
    "word number string raw_string concatenation simple_expansion expansion command_substitution "
    "process_substitution translated_string ansi_c_string arithmetic_expansion brace_expression "
    "extglob_pattern regex"
)
_NAMED_WORDS: Final = _WORDS | {"command_name"}
_DUPLICATE: Final = re.compile(r"\d+-?|-")  # what `>&` is followed by when it opens no file
# Where the parser sees other words than bash, found by comparing the two: a line's end within a word, which
# bash takes out, and a line that begins with a backslash, which the parser hangs on to the line before.
_MISREAD: Final = re.compile(r"\S\\\n\S|\n[ \t]*\\")
_EVALUATED: Final = re.compile(r"\[[\"'\\]*[$`]")  # as in `a[$(x)]`, which arithmetic runs even when quoted
_QUOTES: Final = re.compile(r"[\"'\\]")
_QUOTED_SUBSCRIPT: Final = re.compile(r"\(\((?=.*[\"'\\]).*\[", re.DOTALL)
# Of tests: `-v` takes a subscript, and what `[[` compares as numbers is arithmetic. Plain ones run nothing.
_TAKES_NAME: Final = re.compile(r"(?<!\S)-v(?!\S)(?!\s+\w+(?:\s|\]|$))")
_NUMBER: Final = r"(?:-?\d+|\$[?#])"
_COMPARES: Final = r"-(?:eq|ne|lt|le|gt|ge)"
_OF_NUMBERS: Final = re.compile(rf"(?<!\S){_NUMBER}\s+{_COMPARES}\s+{_NUMBER}(?!\S)")
_ARITHMETIC: Final = re.compile(rf"(?<!\S){_COMPARES}(?!\S)")


@dataclass(frozen=True)
class Part:
    """One simple command."""

    words: tuple[Word, ...]


@dataclass
class Script:
    """What a command consists of.

    Attributes:
        parts: its simple commands, in the order they are written.
        writes: where its redirections write.
        reads: what its redirections read.
        hidden: why there may be more parts than were found; empty when all were.
        risky: why an allowance for its programs does not cover it; empty when nothing speaks against it.
    """

    parts: list[Part] = field(default_factory=list)
    writes: list[Word] = field(default_factory=list)
    reads: list[Word] = field(default_factory=list)
    hidden: str = ""
    risky: str = ""

    def hide(self, why: str) -> None:
        """Note that parts may be missing; the first reason stays."""
        self.hidden = self.hidden or why
        self.doubt(why)

    def doubt(self, why: str) -> None:
        """Note what no allowance covers; the first reason stays."""
        self.risky = self.risky or why


def read_script(command: str) -> Script:
    """Take a command apart. Whatever cannot be read is hidden in the answer, never left out silently."""
    script = Script()
    odd = any(not c.isprintable() and c not in "\t\n" for c in command)
    if odd or len(command) > COMMAND_CHARS or _MISREAD.search(command):
        script.hide(UNREADABLE)
        return script
    root = _new_parser().parse(command.encode("utf-8", "surrogatepass")).root_node
    if root.has_error:
        script.hide(UNREADABLE)
    if _EVALUATED.search(command):
        script.hide("a subscript in it may run a command")
    _walk(root, script)
    return script


def _new_parser() -> Any:
    """A parser of its own: calls of several runs are judged at once, in several threads."""
    from tree_sitter import Parser

    return Parser(_bash())


@cache
def _bash() -> Any:
    import tree_sitter_bash  # 11 ms with the parser: only runs with commands pay it
    from tree_sitter import Language

    return Language(tree_sitter_bash.language())


def _walk(node: Any, script: Script, depth: int = 0) -> None:
    if depth > DEPTH:
        script.hide("it is nested too deep to be read")
        return
    _look(node, script)
    if _is_arithmetic(node):
        script.hide("arithmetic in it may run a command")
    for child in node.named_children:
        _walk(child, script, depth + 1)


def _look(node: Any, script: Script) -> None:
    """Note what this node adds; what is inside it comes by itself."""
    match node.type:
        case "command":
            script.parts.append(_part(node))
        case "test_command":
            script.parts.append(Part((Word("test"),)))
        case "unset_command":
            script.doubt("it unsets variables")
        case "variable_assignment":
            _assigned(node.child_by_field_name("name"), script)
        case "for_statement":
            _assigned(node.child_by_field_name("variable"), script)
        case "declaration_command":
            _declared(node, script)
        case "file_redirect":
            _redirected(node, script)
        case "heredoc_redirect" | "herestring_redirect":
            _fed(node, script)
        case kind if kind not in _PLAIN | _VALUES:
            script.doubt(f"it uses {kind.replace('_', ' ')}, which is not looked into")


def _is_arithmetic(node: Any) -> bool:
    """Whether a word may be taken for arithmetic, in which a subscript runs commands, quoted or not.

    Arithmetic does the same with what a variable holds, so the values count that are given to one.
    """
    text = node.text.decode()
    match node.type:
        case "variable_assignment" | "for_statement":
            values = [value.text.decode() for value in node.children_by_field_name("value")]
            return any("[" in value or "$'" in value for value in values)
        case "compound_statement":
            return _QUOTED_SUBSCRIPT.match(text) is not None
        case "test_command":
            return _is_evaluated(text)
        case "command":
            words = _part(node).words
            return words[:1] == (Word("test"),) and _is_evaluated(" ".join(word.text for word in words))
        case _:
            return False


def _is_evaluated(test: str) -> bool:
    plain = _QUOTES.sub("", test)
    compares = test.startswith("[[") and _ARITHMETIC.search(_OF_NUMBERS.sub("", plain))
    return bool(compares or _TAKES_NAME.search(plain)) or "$'" in test


def _part(node: Any) -> Part:
    return Part(tuple(read_word(child) for child in node.children if child.type in _NAMED_WORDS))


def _assigned(name: Any, script: Script) -> None:
    text = name.text.decode() if name else ""
    if text not in HARMLESS_VARIABLES:
        script.doubt(f"it sets {text or 'a variable'}, which may change what programs do")


def _declared(node: Any, script: Script) -> None:
    """`export`, `declare` and the like; the assignments in them come by themselves."""
    script.parts.append(Part((Word(node.children[0].text.decode()),)))
    if any(child.type not in ("variable_assignment", "variable_name") for child in node.named_children):
        script.doubt("it sets variables, which may change what programs do")


def _redirected(node: Any, script: Script) -> None:
    """A redirection to a file is a write; the parser also takes the words after it for files."""
    targets = [read_word(child) for child in node.named_children if child.type in _WORDS]
    if len(targets) != 1:
        script.hide("words follow a redirection")
    operator = "".join(child.type for child in node.children if not child.is_named)
    for target in targets:
        if operator in (">&", "<&") and _DUPLICATE.fullmatch(target.text):
            continue
        (script.writes if ">" in operator else script.reads).append(target)


def _fed(node: Any, script: Script) -> None:
    """A here-document is data for the command before it, unless words of that command follow its mark."""
    if node.type == "heredoc_redirect" and any(child.type in _WORDS for child in node.named_children):
        script.hide("words follow a here-document")
