"""apply_patch as a model calls it: several files, all or nothing, with the hunk at fault."""

import errno
import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.desk import Desk

from lockstitch.state.errors import PathEscapeError, RecoverableError, ToolExecutionError, ToolValidationError
from lockstitch.state.events import AgentDiffPreview
from lockstitch.tools.patch import apply_patch
from lockstitch.tools.texts.patch_hunk import Hunk, Sign
from lockstitch.tools.texts.patch_place import apply_hunks
from lockstitch.tools.texts.text_file import TextFile


def envelope(*parts: str) -> str:
    return "\n".join(["*** Begin Patch", *parts, "*** End Patch"])


def update(*lines: str, path: str = "f") -> str:
    return "\n".join([f"*** Update File: {path}", *lines])


def tree(root: Path) -> dict[str, tuple[bytes, int]]:
    """Every name below with its bytes and mode; folders have none."""
    return {
        str(path.relative_to(root)): (path.read_bytes() if path.is_file() else b"", path.lstat().st_mode)
        for path in root.rglob("*")
    }


ALL = envelope(
    "*** Add File: new/deep/a.txt",
    "+one",
    update("@@", "-x = 1", "+x = 2", path="b.py"),
    update("*** Move to: moved/c.py", "@@", "-y = 1", "+y = 2", path="c.py"),
    update("*** Move to: e.bin", path="d.bin"),
    "*** Delete File: gone.txt",
)


def lay_out(desk: Desk) -> None:
    desk.put("b.py", "x = 1\n").chmod(0o750)
    desk.put("c.py", "y = 1\n").chmod(0o755)
    desk.put("d.bin", b"\0\1")
    desk.put("gone.txt", "bye\n")


def test_one_patch_adds_updates_moves_and_deletes(desk: Desk) -> None:
    lay_out(desk)
    result = desk.use(apply_patch, patch=ALL)
    assert {name: content for name, (content, _) in tree(desk.root).items() if content} == {
        "new/deep/a.txt": b"one\n",
        "b.py": b"x = 2\n",
        "moved/c.py": b"y = 2\n",
        "e.bin": b"\0\1",
    }
    assert stat.S_IMODE((desk.root / "b.py").stat().st_mode) == 0o750
    assert stat.S_IMODE((desk.root / "moved/c.py").stat().st_mode) == 0o755
    kinds = [(file["path"], file["change_type"], file.get("source")) for file in result.data["files"]]
    assert kinds == [
        ("new/deep/a.txt", "create", None),
        ("b.py", "modify", None),
        ("moved/c.py", "move", "c.py"),
        ("e.bin", "move", "d.bin"),
        ("gone.txt", "delete", None),
    ]
    previews = [event for event in desk.events if isinstance(event, AgentDiffPreview)]
    assert [(event.file_path, event.change_type) for event in previews] == [kind[:2] for kind in kinds]
    assert "Moved c.py to moved/c.py.\n--- a/moved/c.py" in result.output
    assert result.output.endswith("Deleted gone.txt.")


@pytest.mark.parametrize("failing", ["open", "link", "rename", "fchmod"])
@pytest.mark.parametrize("turn", range(6))
def test_disk_that_fails_half_way_leaves_all_as_it_was(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, failing: str, turn: int
) -> None:
    lay_out(desk)
    before = tree(desk.root)
    real, calls = getattr(os, failing), [0]

    def once_full(*args: object, **kwargs: object) -> object:
        writes = failing != "open" or int(args[1]) & os.O_CREAT  # type: ignore[call-overload]
        calls[0] += bool(writes)
        if writes and calls[0] == turn + 1:
            raise OSError(errno.ENOSPC, "full")
        return real(*args, **kwargs)

    monkeypatch.setattr(os, failing, once_full)  # the one seam: a disk cannot be filled in a unit test
    refusals: list[str] = []
    try:
        desk.use(apply_patch, patch=ALL)
    except RecoverableError as error:
        refusals.append(error.message)
    left = tree(desk.root)
    if calls[0] <= turn or failing == "link":  # a link that fails is made up for by a rename
        assert (refusals, "new/deep/a.txt" in left) == ([], True)
        assert not [name for name in left if name.endswith(".tmp")]
    else:
        assert "disk is full" in refusals[0]
        assert (left, desk.events) == (before, [])


def test_what_cannot_be_taken_back_is_named(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    lay_out(desk)
    real, calls = os.rename, [0]

    def broken(*args: object, **kwargs: object) -> None:
        calls[0] += 1
        if calls[0] > 2:
            raise OSError(errno.EIO, "broken")
        real(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "rename", broken)
    with pytest.raises(ToolExecutionError, match=r"could not be taken back for b\.py: .*\.tmp"):
        desk.use(apply_patch, patch=ALL)


@pytest.mark.parametrize(
    ("part", "said"),
    [
        ("*** Add File: b.py\n+x", "b.py is there already"),
        ("*** Delete File: nowhere", "there is no nowhere"),
        ("*** Delete File: folder", "is a folder"),
        (update("@@", "-a", "+b", path="nowhere"), "there is no nowhere"),
        (update("*** Move to: c.py", path="d.bin"), "c.py is there already"),
        (update("*** Move to: gone.txt", path="d.bin"), "gone.txt is there already"),
        (update("@@", "-x", "+y", path="d.bin"), "binary"),
        (update("@@", "-x = 2", "+x = 3", path="b.py"), r"hunk 1 of 1 for b\.py: its lines are not"),
        (update("@@", "-x = 1", "+x = 1", path="b.py"), r"leaves b\.py as it is"),
        (update("@@ def f", "-x = 1", "+x = 2", path="b.py"), "there is no line 'def f'"),
        (update("@@", "-x = 1", "+x = 2", path=".git/config"), "git"),
        ("*** Add File: a.txt/b\n+x\n*** Add File: a.txt\n+x", "a.txt"),
    ],
)
def test_refusal_of_one_part_writes_nothing(desk: Desk, part: str, said: str) -> None:
    lay_out(desk)
    desk.put("folder/f", "")
    desk.put(".git/config", "x = 1\n")
    before = tree(desk.root)
    with pytest.raises(RecoverableError, match=said):
        desk.use(apply_patch, patch=envelope("*** Add File: first.txt", "+one", part))
    assert tree(desk.root) == before
    assert desk.events == []


@pytest.mark.parametrize("second", ["f", "./f", "x/../f"])
def test_file_named_twice_is_refused(desk: Desk, second: str) -> None:
    desk.put("f", "a\nb\n")
    with pytest.raises(ToolValidationError, match="names f twice"):
        desk.use(apply_patch, patch=envelope(update("-a", "+A"), update("-b", "+B", path=second)))
    assert (desk.root / "f").read_text() == "a\nb\n"


def test_file_named_twice_by_a_link_is_refused(desk: Desk) -> None:
    desk.put("f", "a\nb\n")
    (desk.root / "link").symlink_to("f")
    with pytest.raises(ToolExecutionError, match="changed twice"):
        desk.use(apply_patch, patch=envelope(update("-a", "+A"), update("-b", "+B", path="link")))
    assert (desk.root / "f").read_text() == "a\nb\n"
    assert sorted(path.name for path in desk.root.iterdir()) == ["f", "link"]


def test_update_goes_through_a_link_that_leads_inside_and_none_that_leads_out(desk: Desk) -> None:
    target = desk.put("f", "a\n")
    (desk.root / "link").symlink_to("f")
    (desk.root / "out").symlink_to("../outside")
    desk.use(apply_patch, patch=envelope(update("-a", "+b", path="link")))
    assert (target.read_text(), (desk.root / "link").is_symlink()) == ("b\n", True)
    for part in ("*** Add File: out/x\n+x", "*** Add File: ../x\n+x", update("-a", "+b", path="out")):
        with pytest.raises((PathEscapeError, ToolExecutionError)):
            desk.use(apply_patch, patch=envelope(part))
    assert not (desk.root.parent / "outside").exists()


PLACES = "class A:\n    def f(self):\n        return 0\n\n\nclass B:\n    def f(self):\n        return 0\n"


def test_hunk_with_two_places_is_refused_and_an_anchor_decides(desk: Desk) -> None:
    path = desk.put("f", PLACES)
    for anchors in ([], ["@@"], ["@@ def f(self):"]):
        with pytest.raises(ToolExecutionError, match="2 times, on lines 3, 8"):
            desk.use(apply_patch, patch=envelope(update(*anchors, "-        return 0", "+        return 1")))
    assert path.read_text() == PLACES
    hunk = ["@@ class B:", "@@     def f(self):", "-        return 0", "+        return 1"]
    desk.use(apply_patch, patch=envelope(update(*hunk)))
    assert path.read_text() == PLACES[::-1].replace("0", "1", 1)[::-1]


@pytest.mark.parametrize(
    ("before", "hunk", "after"),
    [
        ("a\nb\na\nb\n", "@@ -3,2 +3,2 @@\n-a\n+x\n b\n", "a\nb\nx\nb\n"),
        ("0\n0\n0\na\nb\n", "@@ -1,2 +1,2 @@\n a\n-b\n+c\n", "0\n0\n0\na\nc\n"),
        ("a\nb\n", "@@ -1,0 +2 @@\n+x\n", "a\nx\nb\n"),
        ("a\r\nb\r\n", "@@ -1,2 +1,3 @@\n a\n+x\n b\n", "a\r\nx\r\nb\r\n"),
        ("a\nb", "@@ -2 +2 @@\n-b\n\\ No newline at end of file\n+c\n", "a\nc\n"),
        ("a\nb\n", "@@ -2 +2 @@\n-b\n+c\n\\ No newline at end of file\n", "a\nc"),
        ("a\nb", "@@ -1,2 +1,2 @@\n-a\n+x\n b\n", "x\nb"),
        ("a  \n\nb\n", "@@ -1,2 +1,2 @@\n a\n-b\n+c\n", "a  \n\nc\n"),
        ("é\n", "@@ -1 +1 @@\n-é\n+è\n", "è\n"),
    ],
)
def test_unified_hunk_is_placed_by_its_lines(desk: Desk, before: str, hunk: str, after: str) -> None:
    path = desk.put("f", before)
    desk.use(apply_patch, patch=f"--- a/f\n+++ b/f\n{hunk}")
    assert path.read_bytes() == after.encode()


@pytest.mark.parametrize(
    ("before", "lines", "after"),
    [
        ("a\n", ["+b"], "a\nb\n"),
        ("a", ["+b"], "a\nb"),
        ("", ["+b"], "b\n"),
        ("a\nb\n", ["@@ a", "+x"], "a\nx\nb\n"),
        ("a\nb\na\n", ["@@", "-a", "+x", "*** End of File"], "a\nb\nx\n"),
        ("a\nb\na\nc\n", ["@@", "-b", "+B", "@@", "-a", "+A"], "a\nB\nA\nc\n"),
        ("a\nb\nc\n", ["@@", "-c", "+C", "@@", "-a", "+A"], "A\nb\nC\n"),
        ("  a\n  b\n", ["@@", " a", "-b", "+c"], "  a\n  c\n"),
        ("a\nb\n", ["-a", "-b"], ""),
    ],
)
def test_envelope_hunk_is_placed_by_its_lines(desk: Desk, before: str, lines: list[str], after: str) -> None:
    path = desk.put("f", before)
    desk.use(apply_patch, patch=envelope(update(*lines)))
    assert path.read_bytes() == after.encode()


def test_answer_names_the_hunk_that_matched_loosely(desk: Desk) -> None:
    desk.put("f", "x\n  a\n  b\n")
    result = desk.use(apply_patch, patch=envelope(update("@@", "-x", "+y", "@@", " a", "-b", "+c")))
    assert "Note: hunk 2 matched although the indentation differs by 2 spaces." in result.output


def test_hunks_that_overlap_and_a_delete_that_shows_other_lines_are_refused(desk: Desk) -> None:
    desk.put("f", "a\nb\nc\n")
    with pytest.raises(ToolExecutionError, match="hunks 1 and 2 for f change the same lines"):
        desk.use(apply_patch, patch=envelope(update("@@", "-a", " b", "@@", "-b", " c")))
    with pytest.raises(ToolExecutionError, match="lines it does not show"):
        desk.use(apply_patch, patch="--- a/f\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-a\n-b\n")
    desk.use(apply_patch, patch="--- a/f\n+++ /dev/null\n@@ -1,3 +0,0 @@\n-a\n-b\n-c\n")
    assert not (desk.root / "f").exists()


LINES = st.lists(st.sampled_from(["a", "b", "  c", "", "\td", "e "]), max_size=6)


@given(LINES, LINES, LINES, LINES, st.sampled_from(["\n", "\r\n"]))
def test_hunk_changes_its_own_lines_alone(
    head: list[str], old: list[str], new: list[str], tail: list[str], newline: str
) -> None:
    def text(middle: list[str]) -> str:
        return "".join(line + newline for line in [*head, "<", *middle, ">", *tail])

    lines: list[tuple[Sign, str]] = [(" ", "<"), *(("-", line) for line in old)]
    lines += [*(("+", line) for line in new), (" ", ">")]
    patched = apply_hunks(TextFile(text(old)), [Hunk(lines=tuple(lines))], path="f")
    assert patched.text == text(new)
