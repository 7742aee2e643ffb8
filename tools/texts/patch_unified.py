"""Unified diffs, of git or plain: several files, wrong line counts, renames, new and deleted files."""

import codecs
import re
from dataclasses import dataclass, field, replace
from typing import Final

from lockstitch.state.errors import ToolValidationError
from lockstitch.tools.texts.patch_envelope import NO_NEWLINE
from lockstitch.tools.texts.patch_hunk import FilePatch, Hunk, Sign

GIT: Final = "diff --git "
NOWHERE: Final = "/dev/null"
SIGNATURE: Final = "-- "  # ends what git format-patch writes
LINK_MODES: Final = ("120000", "160000")  # a symbolic link, a submodule
_HEADER: Final = re.compile(r"@@+ -(\d+)(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_GIT_NAMES: Final = re.compile(r'diff --git ("?)a/(.+)\1 ("?)b/(.+)\3$')
_BINARY: Final = ("GIT binary patch", "Binary files ")


@dataclass
class _Section:
    """What was read of one file so far."""

    old: str | None = None
    new: str | None = None
    git: bool = False
    renamed: bool = False
    mode: str = ""
    added: bool = False
    deleted: bool = False
    hunks: list[Hunk] = field(default_factory=list)


def parse_unified(lines: list[str]) -> list[FilePatch]:
    """The files of a diff. Text between them, as in a mail, is no part of it.

    Args:
        lines: of the whole text, without newlines.

    Raises:
        ToolValidationError: it says what cannot be done here, or has a hunk without a file.
    """
    sections: list[_Section] = []
    at = 0
    while at < len(lines):
        line = lines[at]
        if line.startswith(GIT):
            sections.append(_git_section(line))
        elif _is_names(lines, at):
            _name(sections, lines[at], lines[at + 1])
            at += 1
        elif line.startswith("@@"):
            if not sections:
                raise ToolValidationError(f"line {at + 1} of the patch begins a hunk of no file: name it.")
            at = _read_hunk(sections[-1], lines, at)
            continue
        elif sections and not sections[-1].hunks:
            _read_header(sections[-1], line)
        elif sections:
            _check_stray(line, at + 1)
        at += 1
    return [_file(section) for section in sections]


def _git_section(line: str) -> _Section:
    names = _GIT_NAMES.match(line)
    if names is None:
        return _Section(git=True)
    old, new = (_unquoted(f"{quote}{name}{quote}") for quote, name in (names.group(1, 2), names.group(3, 4)))
    return _Section(git=True, old=old, new=new)


def _is_names(lines: list[str], at: int) -> bool:
    """Whether `---` and `+++` name a file here; inside a hunk they need one that follows."""
    return lines[at].startswith("--- ") and at + 1 < len(lines) and lines[at + 1].startswith("+++ ")


def _name(sections: list[_Section], minus: str, plus: str) -> None:
    old, new = _path(minus), _path(plus)
    if not sections or not sections[-1].git or sections[-1].hunks:
        sections.append(_Section())
    section = sections[-1]
    if (old == NOWHERE or old.startswith("a/")) and (new == NOWHERE or new.startswith("b/")):
        old, new = (name if name == NOWHERE else name[2:] for name in (old, new))
    section.added |= old == NOWHERE
    section.deleted |= new == NOWHERE
    section.old, section.new = old, new


def _path(line: str) -> str:
    return _unquoted(line[4:].partition("\t")[0].rstrip())


def _unquoted(name: str) -> str:
    """Git writes names that are not ASCII as C strings."""
    if not (name.startswith('"') and name.endswith('"') and len(name) > 1):
        return name
    try:
        return codecs.escape_decode(name[1:-1].encode())[0].decode()
    except ValueError as error:
        raise ToolValidationError(f"the patch has a name that cannot be read: {name[:80]}.") from error


def _read_header(section: _Section, line: str) -> None:
    word, _, rest = line.partition(" ")
    if line.startswith(("rename from ", "rename to ")):
        section.renamed = True
        side = rest.partition(" ")
        setattr(section, "old" if side[0] == "from" else "new", _unquoted(side[2]))
    elif line.startswith("new file mode "):
        section.added, section.mode = True, line.rpartition(" ")[2]
    elif line.startswith("deleted file mode "):
        section.deleted = True
    elif line.startswith("copy "):
        raise ToolValidationError("the patch copies a file, which is not done here: add it as a new file.")
    elif word in {"GIT", "Binary"} and line.startswith(_BINARY):
        raise ToolValidationError("the patch holds a binary file, which is not done here.")


def _read_hunk(section: _Section, lines: list[str], at: int) -> int:
    """Add the hunk whose header is at `at`; gives the line after it."""
    header = _HEADER.match(lines[at])
    anchor = "" if header else lines[at].strip("@ ")
    old_left, new_left = (int(count or 1) for count in header.group(2, 3)) if header else (1, 1)
    body: list[tuple[Sign, str]] = []
    opens = {"-": False, "+": False}
    at += 1
    while at < len(lines) and not _ends_hunk(lines, at, complete=old_left <= 0 and new_left <= 0):
        sign = lines[at][:1] or " "  # an empty line is one of context whose blank was lost
        if lines[at].startswith(NO_NEWLINE):
            opens |= dict.fromkeys("-+" if not body or body[-1][0] == " " else body[-1][0], True)
        else:
            body.append((sign, lines[at][1:]))  # type: ignore[arg-type]
            old_left -= bool(header) and sign != "+"
            new_left -= bool(header) and sign != "-"
        at += 1
    while body and body[-1] == (" ", ""):  # no use as context, and often none of the hunk
        body.pop()
    hunk = Hunk(
        lines=tuple(body),
        anchors=(anchor,) if anchor else (),
        line=int(header[1]) if header else None,
        old_open=opens["-"],
        new_open=opens["+"],
    )
    if hunk.line is not None and not hunk.old:
        hunk = replace(hunk, line=hunk.line + 1)  # the header names the line it goes behind
    section.hunks.append(hunk)
    return at


def _ends_hunk(lines: list[str], at: int, *, complete: bool) -> bool:
    """Counts may be wrong, so that what follows decides; they tell apart only what could be either."""
    line = lines[at]
    if line.startswith(("@@", GIT)):
        return True
    if _is_names(lines, at):
        return complete or lines[at + 2 : at + 3] == [] or lines[at + 2].startswith("@@")
    if complete and (line in {"", SIGNATURE} or line.startswith("*** ")):
        return True
    return line[:1] not in {"", " ", "+", "-", "\\"}


def _check_stray(line: str, number: int) -> None:
    """A hunk that a line without its sign cut short must not be made by half."""
    if line.startswith(("+", "-")) and line != SIGNATURE:
        raise ToolValidationError(
            f"line {number} of the patch belongs to no hunk: in one, lines begin with a blank, - or +."
        )


def _file(section: _Section) -> FilePatch:
    path = section.old if section.deleted or section.renamed else section.new
    if not path or path == NOWHERE:
        raise ToolValidationError("the patch has a part without a file name: write --- and +++ lines.")
    if section.mode in LINK_MODES:
        raise ToolValidationError(f"the patch makes {path} a link, which is not done here: use run_command.")
    if section.added:
        return _added(path, section)
    if section.deleted:
        return FilePatch(action="delete", path=path, hunks=tuple(section.hunks))
    move_to = section.new if section.renamed else None
    if not section.hunks and not move_to:
        raise ToolValidationError(f"the patch changes nothing in {path}, or only its mode: use run_command.")
    return FilePatch(action="update", path=path, hunks=tuple(section.hunks), move_to=move_to)


def _added(path: str, section: _Section) -> FilePatch:
    lines = [line for hunk in section.hunks for line in hunk.new]
    if any(hunk.old for hunk in section.hunks):
        raise ToolValidationError(f"the patch adds {path}, but has lines of an older one: leave them out.")
    is_open = any(hunk.new_open for hunk in section.hunks)
    content = "\n".join(lines) if is_open else "".join(f"{line}\n" for line in lines)
    return FilePatch(action="add", path=path, content=content, mode=section.mode)
