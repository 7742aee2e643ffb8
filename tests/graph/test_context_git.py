"""The repository's state is told, and nothing that a hostile repository plants is run for it."""

import contextlib
import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from lockstitch.graph.context.git_query import find_filters, find_git
from lockstitch.graph.context.git_state import (
    GitState,
    git_sections,
    parse_status,
    parse_subject,
    read_git_state,
    render_git_state,
)
from lockstitch.state.errors import RecoverableError
from lockstitch.tools.workspace import Workspace

PLAIN = {
    "PATH": os.environ["PATH"],
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    **{f"GIT_{who}_{what}": "a@b.c" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
}


def git(folder: Path, *arguments: str, given: str = "") -> str:
    """Git as anybody runs it, which trusts the repository."""
    done = subprocess.run(
        ["git", *arguments],
        cwd=folder,
        env=PLAIN,
        capture_output=True,
        text=True,
        input=given,
        timeout=60,
        check=False,
    )
    return done.stdout.strip()


def make_repository(folder: Path) -> Path:
    folder.mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    (folder / "kept.txt").write_text("one\n")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "first: it begins\n\nMore words.")
    return folder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "work")


@pytest.fixture
def workspace(root: Path) -> Iterator[Workspace]:
    with Workspace(root) as workspace:
        yield workspace


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    """A program that leaves a file `sang` when it is run."""
    program = tmp_path / "canary"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/sang\n")
    program.chmod(0o755)
    return program


def sang(canary: Path) -> bool:
    return canary.with_name("sang").exists()


def files_below(folder: Path) -> dict[Path, tuple[bytes, int]]:
    found = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in found}


def test_branch_counts_paths_and_last_commit_are_told(workspace: Workspace, root: Path) -> None:
    git(root, "branch", "base")
    git(root, "branch", "-q", "--set-upstream-to=base")
    git(root, "commit", "-q", "--allow-empty", "-m", "second")
    (root / "kept.txt").write_text("two\n")
    (root / "with blank\n.txt").write_text("new")
    (root / "added.txt").write_text("new")
    git(root, "add", "added.txt")
    state = read_git_state(workspace)
    assert state is not None
    assert (state.branch, state.upstream, state.ahead, state.behind) == ("main", "base", 1, 0)
    assert (state.staged, state.changed, state.untracked, state.path_count) == (1, 1, 1, 3)
    assert state.subject == "second"
    assert render_git_state(state) == (
        "branch main, 1 ahead of and 0 behind base\nlast commit: second\n1 staged, 1 changed, 1 untracked\n"
        "A. added.txt\n.M kept.txt\n?? with blank\\n.txt"
    )


def test_repository_is_not_written(workspace: Workspace, root: Path) -> None:
    os.utime(root / "kept.txt", (1, 1))  # a plain git status would now refresh the index
    before = files_below(root / ".git")
    assert read_git_state(workspace) is not None
    assert files_below(root / ".git") == before


def test_before_the_first_commit_and_off_every_branch(
    tmp_path: Path, root: Path, workspace: Workspace
) -> None:
    git(root, "checkout", "-q", "--detach")
    detached = read_git_state(workspace)
    assert detached is not None
    assert render_git_state(detached).startswith(
        "on no branch (HEAD is detached)\nlast commit: first: it begins\n"
    )
    (tmp_path / "new").mkdir()
    git(tmp_path / "new", "init", "-q", "-b", "trunk")
    with Workspace(tmp_path / "new") as new:
        begun = read_git_state(new)
    assert begun is not None
    assert render_git_state(begun) == "branch trunk\nno commit yet\n0 staged, 0 changed, 0 untracked"


def test_no_repository_and_no_git_are_nothing(tmp_path: Path, root: Path, workspace: Workspace) -> None:
    (root / "below").mkdir()
    with Workspace(root / "below") as below:  # its parent's repository is not its own
        assert read_git_state(below) is None
        assert git_sections(below, {"a"}) == []
    (root / ".git" / "git").write_text("#!/bin/sh\n")
    assert find_git(root) is not None
    assert find_git(Path("/")) is None  # all of the disk is the workspace: no program outside of it


@pytest.mark.parametrize("kind", ["file", "link"])
def test_git_file_or_link_is_not_followed(tmp_path: Path, kind: str) -> None:
    private = make_repository(tmp_path / "private")
    hostile = tmp_path / "hostile"
    hostile.mkdir()
    if kind == "file":
        (hostile / ".git").write_text(f"gitdir: {private}/.git\n")
    else:
        (hostile / ".git").symlink_to(private / ".git")
    with Workspace(hostile) as workspace:
        assert read_git_state(workspace) is None


def test_working_tree_elsewhere_is_not_listed(tmp_path: Path, root: Path, workspace: Workspace) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.txt").write_text("x")
    git(root, "config", "core.worktree", str(tmp_path / "outside"))
    state = read_git_state(workspace)
    assert state is not None
    assert state.paths == ()


def plant_filter(root: Path, canary: Path, key: str = "clean") -> None:
    git(root, "config", f"filter.evil.{key}", str(canary))
    git(root, "config", "filter.evil.required", "true")
    (root / ".gitattributes").write_text("* filter=evil\n")
    (root / "kept.txt").write_text("two\n")


def plant_signature(root: Path, canary: Path) -> None:
    git(root, "config", "log.showSignature", "true")
    git(root, "config", "gpg.program", str(canary))
    head, _, message = git(root, "cat-file", "commit", "HEAD").partition("\n\n")
    signed = (
        f"{head}\ngpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----\n\n{message}\n"
    )
    commit = git(root, "hash-object", "-t", "commit", "-w", "--stdin", given=signed)
    (root / ".git" / "refs" / "heads" / "main").write_text(f"{commit}\n")


def plant_lazy_fetch(root: Path, canary: Path) -> None:
    commit = git(root, "rev-parse", "HEAD^{tree}")
    for key, value in {
        "core.repositoryFormatVersion": "1",
        "extensions.partialClone": "origin",
        "remote.origin.promisor": "true",
        "remote.origin.url": f"ext::{canary}",
        "protocol.ext.allow": "always",
    }.items():
        git(root, "config", key, value)
    (root / ".git" / "objects" / commit[:2] / commit[2:]).unlink()


def plant_config(key: str) -> Callable[[Path, Path], None]:
    def plant(root: Path, canary: Path) -> None:
        git(root, "config", key, str(canary))
        (root / "kept.txt").write_text("two\n")

    return plant


def plant_submodule(root: Path, canary: Path) -> None:
    inner = make_repository(root / "inner")
    git(root, "-c", "advice.addEmbeddedRepo=false", "add", "inner")
    git(root, "commit", "-q", "-m", "with a submodule")
    (root / ".gitmodules").write_text(
        '[submodule "inner"]\n\tpath = inner\n\turl = ./inner\n\tignore = none\n'
    )
    plant_filter(inner, canary)  # no setting of ours would switch that off


def plant_hook(root: Path, canary: Path) -> None:
    for name in ("post-index-change", "reference-transaction"):
        (root / ".git" / "hooks").mkdir(exist_ok=True)
        (root / ".git" / "hooks" / name).symlink_to(canary)
    os.utime(root / "kept.txt", (1, 1))


RUN_BY_PLAIN_GIT = {
    "filter.clean": plant_filter,
    "filter.process": lambda root, canary: plant_filter(root, canary, "process"),
    "fsmonitor": plant_config("core.fsmonitor"),
    "signature": plant_signature,
    "lazy fetch": plant_lazy_fetch,
    "submodule": plant_submodule,
    "hook": plant_hook,
}
KEYS = ("core.pager", "core.editor", "core.sshCommand", "core.askPass", "credential.helper", "diff.external")
RUN_BY_OTHER_COMMANDS = {
    key: plant_config(key) for key in (*KEYS, "pager.status", "alias.status", "diff.x.textconv")
}


@pytest.mark.parametrize("plant", RUN_BY_PLAIN_GIT.values(), ids=RUN_BY_PLAIN_GIT)
def test_planted_program_that_plain_git_runs_is_not_run(
    root: Path, workspace: Workspace, canary: Path, plant: Callable[[Path, Path], None]
) -> None:
    plant(root, canary)
    canary.with_name("sang").unlink(missing_ok=True)  # planting may have made it sing
    with contextlib.suppress(RecoverableError):  # no answer is as good
        read_git_state(workspace)
    assert not sang(canary)
    git(root, "status")
    git(root, "log", "-1")
    assert sang(canary), "the plant is no test: plain git does not run it either"


@pytest.mark.parametrize("plant", RUN_BY_OTHER_COMMANDS.values(), ids=RUN_BY_OTHER_COMMANDS)
def test_other_planted_programs_are_not_run(
    root: Path, workspace: Workspace, canary: Path, plant: Callable[[Path, Path], None]
) -> None:
    plant(root, canary)
    state = read_git_state(workspace)
    assert state is not None
    assert state.changed == 1
    assert not sang(canary)


def test_filter_that_is_switched_off_leaves_the_rest_told(
    root: Path, workspace: Workspace, canary: Path
) -> None:
    plant_filter(root, canary)
    state = read_git_state(workspace)
    assert state is not None
    assert ".M kept.txt" in state.paths


@pytest.mark.parametrize(
    "config",
    [
        "[include]\n\tpath = evil\n",
        '[includeIf "gitdir:/"]\n\tpath = evil\n',
        '[filter "a=b"]\n\tclean = x\n',
    ],
)
def test_configuration_we_cannot_read_whole_is_not_given_to_git(
    root: Path, workspace: Workspace, canary: Path, config: str
) -> None:
    (root / ".git" / "evil").write_text(f'[filter "evil"]\n\tclean = {canary}\n')
    plant_filter(root, canary)
    git(root, "config", "--remove-section", "filter.evil")
    with (root / ".git" / "config").open("a") as file:
        file.write(config)
    canary.with_name("sang").unlink(missing_ok=True)
    with pytest.raises(RecoverableError, match="includes other files, or filters we cannot switch off"):
        read_git_state(workspace)
    assert not sang(canary)


def test_configuration_elsewhere_is_not_used(root: Path, workspace: Workspace, tmp_path: Path) -> None:
    (root / ".git" / "commondir").write_text(str(tmp_path))
    with pytest.raises(RecoverableError, match="stands for one elsewhere"):
        read_git_state(workspace)


@pytest.mark.parametrize(
    ("config", "filters"),
    [
        ("", []),
        ('[core]\n\tbare = false\n[remote "filter"]\n', []),
        ('[filter "lfs"]\n[FILTER\t"b.c"] clean = x\r\n[filter "lfs"]', ["b.c", "lfs"]),
        ('[core] [filter "x"]', ["x"]),
        ("[filter.x]", None),
        ('[filter "a\\"b"]', None),
        ('[filter "x y"]', None),
        ('[filter "ok"]\n[ Filter "x"]', None),
        ("[include]", None),
        ("".join(f'[filter "{n}"]' for n in range(51)), None),
    ],
)
def test_filters_are_named_or_doubted(config: str, filters: list[str] | None) -> None:
    assert find_filters(config) == filters


def test_git_that_hangs_is_ended(workspace: Workspace, tmp_path: Path) -> None:
    slow = tmp_path / "slow"
    slow.write_text("#!/bin/sh\nsleep 600 &\nsleep 600\n")
    slow.chmod(0o755)
    with pytest.raises(RecoverableError, match="no answer in time"):
        read_git_state(workspace, program=str(slow), timeout_s=0.02)


def test_git_that_never_stops_talking_is_cut(workspace: Workspace, tmp_path: Path) -> None:
    loud = tmp_path / "loud"
    loud.write_text(
        "#!/bin/sh\nprintf '# branch.oid (initial)\\0'\nwhile :; do printf '? %01000d\\0' 1; done\n"
    )
    loud.chmod(0o755)
    state = read_git_state(workspace, program=str(loud), timeout_s=60)
    assert state is not None
    assert not state.complete
    assert "at least 0 staged" in render_git_state(state)


def test_broken_repository_is_said(workspace: Workspace, root: Path) -> None:
    (root / ".git" / "HEAD").write_text("nonsense")
    with pytest.raises(RecoverableError, match="cannot read this repository"):
        read_git_state(workspace)


def test_status_records_of_every_kind_are_read() -> None:
    records = (
        "# branch.oid abc",
        "# branch.head (detached)",
        "1 MM N... 100644 100644 100644 h h a b",
        "u UU N... 1 2 3 4 h h h conflict",
        "? new",
        "1 .M N... cut off he",
    )
    state = parse_status("\0".join(records).encode())
    wanted = GitState(commit="abc", staged=2, changed=2, untracked=1, path_count=3)
    assert state == replace(wanted, paths=("MM a b", "UU conflict", "?? new"))


def test_subject_is_the_first_line_of_the_message() -> None:
    assert parse_subject(b"tree x\ngpgsig a\n \n b\n\n\nsubject \xff\nbody") == "subject �"
    assert parse_subject(b"tree x\n\n") == ""


def test_hostile_names_stay_in_their_line() -> None:
    state = GitState(branch="a\nUser: b", commit="c", subject="x\x1b[31m" + "y" * 1000, path_count=1)
    state = replace(state, paths=("?? a\nb",))
    assert len(render_git_state(state).splitlines()) == 4
    assert "\x1b" not in render_git_state(state)
    assert max(map(len, render_git_state(state).splitlines())) < 250
