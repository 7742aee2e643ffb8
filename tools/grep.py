"""The tool `grep_files`: lines of text found by ripgrep, in a time no pattern can blow up."""

import re
from collections.abc import Callable
from functools import partial
from typing import Annotated, Final, NamedTuple

from langchain_core.tools import tool
from pydantic import Field

from lockstitch.state.errors import ResourceLimitError, ToolExecutionError, ToolValidationError
from lockstitch.tools.commands.child import Child, in_thread
from lockstitch.tools.confined.listing import matches_glob
from lockstitch.tools.context import CallContext, ToolContext
from lockstitch.tools.found_lines import LINE_CHARS, FoundLines
from lockstitch.tools.output import clip_middle, cut_note
from lockstitch.tools.paths import ROOT, shown
from lockstitch.tools.result import ToolResult
from lockstitch.tools.ripgrep import Place, hiding_options, run_ripgrep

TIMEOUT_S: Final = 20  # ripgrep reads about 1 GB a second; whoever waits longer should name a folder
MATCHES_MAX: Final = 1_000  # of one call; more are read by nobody
CONTEXT_MAX: Final = 20  # lines on either side; for more there is read_file
PATTERN_CHARS: Final = 2_000  # ripgrep itself limits what a pattern compiles to
GLOB_CHARS: Final = 500
GLOBS_MAX: Final = 64  # braces multiply: `{a,b}{c,d}` are four
FOUND, NO_MATCH, FAULT = 0, 1, 2  # ripgrep's exit codes
ALL: Final = "./"  # the folder it runs in; with no path it might read stdin
_BRACES: Final = re.compile(r"\{([^{}]*)\}")

# `--no-ignore-*` is not given: .gitignore, .ignore and .git/info/exclude count, as in git.
FIXED_OPTIONS: Final = (
    *("--no-config", "--color=never", "--heading", "--with-filename", "--line-number", "--null"),
    "--no-require-git",
    *("--hidden", "--iglob=!.git"),  # dot files are code, too; iglob, since some file systems ignore case
    "--sort=path",  # the same answer each time, and the first results are the first files
    *(f"--max-columns={4 * LINE_CHARS}", "--max-columns-preview"),  # counts bytes: 4 make a character
    *("--no-messages", "--no-context-separator"),
    "--no-mmap",  # a file that shrinks meanwhile would end it by SIGBUS
)


Pattern = Annotated[str, Field(description="a regular expression", min_length=1, max_length=PATTERN_CHARS)]
SearchPath = Annotated[str, Field(description="a folder or one file")]
FileGlob = Annotated[
    str, Field(description="a glob: *.py, src/**/*.{ts,tsx}", min_length=1, max_length=GLOB_CHARS)
]
Literally = Annotated[bool, Field(description="take pattern as plain text")]
ContextLines = Annotated[int, Field(description="lines before and after", ge=0, le=CONTEXT_MAX)]
MaxResults = Annotated[
    int | None, Field(description="matching lines shown; 100 if left out", ge=1, le=MATCHES_MAX)
]


@tool(extras={"effect": "read"})
async def grep_files(
    pattern: Pattern,
    call: CallContext,
    *,
    path: SearchPath = ".",
    file_pattern: FileGlob = "*",
    case_sensitive: bool = True,
    literal: Literally = False,
    context_lines: ContextLines = 0,
    max_results: MaxResults = None,
) -> ToolResult:
    r"""Find lines in the files below a folder: `path:line: text` each, context as `path-line- text`.

    For a name, a call or a message whose place you do not know; to see more of a file use read_file. One
    line at a time: a pattern does not span lines, and look-around and backreferences are not supported. Set
    literal for text with brackets or dots. Not searched: what .gitignore names, binary files, .git.
    Of lines over 300 characters the beginning is shown.
    Example: grep_files(pattern="def \w*_total\(", path="src", file_pattern="*.py", context_lines=2).
    """
    options = (
        "--case-sensitive" if case_sensitive else "--ignore-case",
        *(["--fixed-strings"] if literal else []),
        f"--context={context_lines}",
    )
    most = max_results or call.settings.grep_matches
    return await in_thread(
        partial(_search, call, _Query(pattern, path, file_pattern, options, context_lines, most))
    )


class _Query(NamedTuple):
    pattern: str
    path: str
    file_pattern: str
    options: tuple[str, ...]  # to ripgrep
    context_lines: int
    max_matches: int


def _search(call: ToolContext, query: _Query, child: Child) -> ToolResult:
    """The whole search, which reads the disk and waits: for a worker thread."""
    folder, target = _place(call, query.path)
    globs = expand_braces(query.file_pattern) if target == ALL else []
    found = FoundLines(
        max_matches=query.max_matches,
        context_lines=query.context_lines,
        is_wanted=_path_filter(globs, folder, call.is_denied),
    )
    arguments = [*query.options, *_name_options(globs), "--", query.pattern, target]
    hidden = hiding_options(call.workspace.hidden, call.workspace.root / folder)
    with call.workspace.open_folder(ROOT) as root_fd, call.workspace.open_folder(folder) as folder_fd:
        exit_code = run_ripgrep(
            [*FIXED_OPTIONS, *hidden, *arguments],
            child=child,
            place=Place(call.workspace.root, root_fd, folder_fd),
            timeout_s=TIMEOUT_S,
            on_output=found.feed,
        )
    check_search(exit_code, found)
    where = "the workspace" if query.path == ROOT else shown(query.path)
    return _report(call, found, exit_code, folder=folder, nothing=f"No line matches in {where}.")


def expand_braces(glob: str) -> list[str]:
    """The globs that one with `{a,b}` stands for; a name without a folder is looked for in all of them.

    Raises:
        ToolValidationError: they are more than `GLOBS_MAX`.
    """
    pending, done = [glob], list[str]()
    while pending:
        if len(pending) + len(done) > GLOBS_MAX:
            raise ToolValidationError(
                f"file_pattern stands for more than {GLOBS_MAX} globs: use fewer braces."
            )
        one = pending.pop(0)
        braces = _BRACES.search(one)
        if braces is None:
            done.append(one.removeprefix("./") + ("**" if one.endswith("/") else ""))
        else:
            pending += [one[: braces.start()] + part + one[braces.end() :] for part in braces[1].split(",")]
    return list(dict.fromkeys(done))


def check_search(exit_code: int | None, found: FoundLines) -> None:
    """Tell an answer from a fault; `exit_code` is ripgrep's, None when its time was up.

    Raises:
        ToolValidationError: ripgrep does not take the pattern or the glob.
        ResourceLimitError: it found nothing in the time it had.
        ToolExecutionError: it broke down.
    """
    if exit_code is None and not found.match_count:
        raise ResourceLimitError(f"nothing found in {TIMEOUT_S} s, and not all was searched: narrow path.")
    if exit_code == FAULT and found.messages and not found.match_count:
        errors = [line.removeprefix("error: ") for line in found.messages if line.startswith("error: ")]
        reason = errors[-1] if errors else found.messages[0].removeprefix("rg: ")
        raise ToolValidationError(f"ripgrep cannot search for that: {reason}. Set literal for plain text.")
    if exit_code not in {FOUND, NO_MATCH, FAULT, None}:
        raise ToolExecutionError(f"ripgrep broke down with exit code {exit_code}: try a narrower path.")


def _place(call: ToolContext, path: str) -> tuple[str, str]:
    """The folder to search in, and what of it: all, or one file."""
    inside = call.workspace.relative(path)
    entry = call.workspace.entry(inside)
    if entry is None or entry.kind != "file":
        return inside, ALL
    folder, _, name = inside.rpartition("/")
    return folder or ROOT, f"./{name}"


def _name_options(globs: list[str]) -> list[str]:
    """Choose files by name, as a type: unlike these, `--glob` would overrule .gitignore."""
    names = {glob.rpartition("/")[2].replace("**", "*") for glob in globs}
    if not names or "*" in names:
        return []
    return [*(f"--type-add=wanted:{name.replace(':', '?')}" for name in sorted(names)), "--type=wanted"]


def _path_filter(
    globs: list[str], folder: str, is_denied: Callable[[str], bool] | None
) -> Callable[[str], bool] | None:
    """Choose files by path, which a type cannot; none that a rule forbids. Paths are below the folder."""
    by_path = globs if any("/" in glob for glob in globs) else []
    if not by_path and is_denied is None:
        return None
    prefix = "" if folder == ROOT else f"{folder}/"

    def is_wanted(path: str) -> bool:
        chosen = not by_path or any(matches_glob(path, glob) for glob in by_path)
        return chosen and not (is_denied is not None and is_denied(prefix + path))

    return is_wanted


def _report(
    call: ToolContext, found: FoundLines, exit_code: int | None, *, folder: str, nothing: str
) -> ToolResult:
    body = found.render("" if folder == ROOT else f"{folder}/") or nothing
    notes = _notes(found, exit_code)
    room = max(1, call.settings.output_chars - sum(len(note) + 1 for note in notes))
    clipped = clip_middle(body, max_chars=room, spill=call.spill)
    data = {
        "match_count": found.match_count,
        "file_count": found.file_count,
        "cut": found.kept_matches < found.match_count or exit_code is None or clipped != body,
    }
    return ToolResult(output="\n".join([clipped, *notes]), data=data)


def _notes(found: FoundLines, exit_code: int | None) -> list[str]:
    notes = []
    if found.kept_matches < found.match_count:
        rest = "a narrower path or file_pattern, or a larger max_results, shows others"
        notes.append(
            cut_note(shown=found.kept_matches, total=found.match_count, unit="matching lines", rest=rest)
        )
    if found.long_count:
        rest = "read_file with the path, offset=LINE and limit=1 gives the rest"
        total = len(found.lines)
        notes.append(cut_note(shown=total - found.long_count, total=total, unit="whole lines", rest=rest))
    if exit_code is None:
        notes.append(f"[not all was searched in {TIMEOUT_S} s: narrow path]")
    if exit_code == FAULT:
        notes.append("[some files could not be read]")
    if found.binary_count:
        notes.append(f"[binary files that match, not shown: {found.binary_count}; run_command reads them]")
    return notes
