"""Where the workspace's own git repository stands. A repository above the workspace is not its own."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Final

from lockstitch.graph.context.git_query import GIT, OUTPUT_BYTES, GitQuery, find_git
from lockstitch.graph.context.section import Section, counted, one_line
from lockstitch.tools.workspace import Workspace

TIMEOUT_S: Final = 2.0  # for all of it; the start of a run does not wait longer
PATHS_SHOWN: Final = 20  # the owner's figure
NAME_CHARS: Final = 200  # of a branch, a path, a subject
STATUS: Final = (
    *("status", "--porcelain=v2", "--branch", "-z"),
    *("--untracked-files=normal", "--no-renames", "--ignore-submodules=all"),
)
UNTRACKED: Final = "?"
UNCHANGED: Final = ".?"  # a letter of a path's mark that says nothing of the index, or of the file
_FIELDS_BEFORE_PATH: Final = {"1": 8, "u": 10, UNTRACKED: 1}  # of a record, see git-status(1)


@dataclass(frozen=True, kw_only=True)
class GitState:
    """Where a repository stands; `complete` is False when it had more to say than we read.

    Attributes:
        branch: "" when HEAD is on none.
        commit: its hash, "" before the first one.
        upstream: of the branch, "" without one.
        staged, changed, untracked: counts; a path may be both staged and changed.
        path_count: of the paths that are any of these.
        paths: the first of them, each behind its two letters of `git status --short`.
        subject: of the last commit.
    """

    branch: str = ""
    commit: str = ""
    upstream: str = ""
    ahead: int = 0
    behind: int = 0
    staged: int = 0
    changed: int = 0
    untracked: int = 0
    path_count: int = 0
    paths: tuple[str, ...] = ()
    subject: str = ""
    complete: bool = True


def git_sections(workspace: Workspace, names: Collection[str]) -> list[Section]:
    """One section about the repository; none without one. `names` is what the root holds.

    Raises:
        RecoverableError: there is one, and it cannot or must not be asked.
    """
    state = read_git_state(workspace) if GIT in names else None
    if state is None:
        return []
    return [
        Section(
            group="git",
            title="the git repository as it stood when the run began",
            body=render_git_state(state),
            told=f"git: {_named(state.branch) or 'no branch'}, {counted(state.path_count, 'path')} changed",
        )
    ]


def read_git_state(
    workspace: Workspace, *, program: str | None = None, timeout_s: float = TIMEOUT_S
) -> GitState | None:
    """Ask git, by two processes; None without git or without a repository in the workspace's root.

    Args:
        workspace: its root is the top of the working tree.
        program: git; the system's if None.
        timeout_s: for both processes together.

    Raises:
        RecoverableError: there is a repository, and it cannot or must not be asked.
    """
    entry = workspace.entry(GIT)
    git = program or find_git(workspace.root)
    if git is None or entry is None or entry.kind != "folder":
        return None
    query = GitQuery(workspace, program=git, timeout_s=timeout_s)
    state = parse_status(query.ask(*STATUS))
    if not state.commit:
        return state
    return replace(state, subject=parse_subject(query.ask("cat-file", "commit", state.commit)))


def parse_status(output: bytes) -> GitState:
    """The state that `git status --porcelain=v2 --branch -z --no-renames` tells.

    A last record that is cut off is dropped.
    """
    records = [record.decode("utf-8", "surrogateescape") for record in output.split(b"\0")[:-1]]
    heads = dict(record[2:].split(" ", 1) for record in records if record.startswith("# "))
    changes = [_change(record) for record in records if record[:1] in _FIELDS_BEFORE_PATH]
    ahead, behind = heads.get("branch.ab", "+0 -0").split()
    branch, commit = heads.get("branch.head", ""), heads.get("branch.oid", "")
    return GitState(
        branch="" if branch == "(detached)" else branch,
        commit="" if commit == "(initial)" else commit,
        upstream=heads.get("branch.upstream", ""),
        ahead=int(ahead),
        behind=-int(behind),
        staged=sum(mark[0] not in UNCHANGED for mark, _ in changes),
        changed=sum(mark[1] not in UNCHANGED for mark, _ in changes),
        untracked=sum(mark[0] == UNTRACKED for mark, _ in changes),
        path_count=len(changes),
        paths=tuple(f"{mark} {path}" for mark, path in changes[:PATHS_SHOWN]),
        complete=len(output) < OUTPUT_BYTES,
    )


def parse_subject(commit: bytes) -> str:
    """The first line of the message of a commit, as `git cat-file commit` prints one."""
    message = commit.partition(b"\n\n")[2].strip()
    return message.partition(b"\n")[0].decode("utf-8", "replace")


def render_git_state(state: GitState) -> str:
    """The state in a few lines, whatever the names in it hold."""
    branch = f"branch {_named(state.branch)}" if state.branch else "on no branch (HEAD is detached)"
    if state.upstream:
        branch += f", {state.ahead} ahead of and {state.behind} behind {_named(state.upstream)}"
    at_least = "" if state.complete else "at least "
    rows = [
        branch,
        f"last commit: {_named(state.subject)}" if state.commit else "no commit yet",
        f"{at_least}{state.staged} staged, {state.changed} changed, {state.untracked} untracked",
        *map(_named, state.paths),
    ]
    more = state.path_count - len(state.paths)
    return "\n".join([*rows, f"[{more} more paths: git status lists them]"] if more else rows)


def _change(record: str) -> tuple[str, str]:
    """The two letters and the path of a record; a `.` stands for unchanged."""
    kind = record[0]
    fields = record.split(" ", _FIELDS_BEFORE_PATH[kind])
    return ("??" if kind == UNTRACKED else fields[1]), fields[-1]


def _named(name: str) -> str:
    return one_line(name, max_chars=NAME_CHARS)
