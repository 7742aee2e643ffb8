"""Both formats of a patch are read, and what is cut off or unclear is refused with its line."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstitch.state.errors import ToolValidationError
from lockstitch.tools.texts.patch_format import deletes, parse_patch, patch_paths
from lockstitch.tools.texts.patch_hunk import FilePatch, Hunk

ENVELOPE = """*** Begin Patch
*** Add File: new/a.txt
+one
+
+two
*** Update File: b.py
*** Move to: c.py
@@ class B:
@@     def f(self):
-x = 1
+x = 2
 y

 z
@@
+end
*** End of File

*** Delete File: old name.txt
*** End Patch
"""
GIT = """From 1234 Mon Sep 17 00:00:00 2001
Subject: a change

---
 a.py | 2 +-

diff --git a/a.py b/a.py
index 1..2 100644
--- a/a.py
+++ b/a.py
@@ -3,2 +3,2 @@ def f():
-x = 1
+x = 2
 y
diff --git a/old.py b/new.py
similarity index 100%
rename from old.py
rename to new.py
diff --git a/run.sh b/run.sh
new file mode 100755
--- /dev/null
+++ b/run.sh
@@ -0,0 +1 @@
+true
\\ No newline at end of file
diff --git a/gone b/gone
deleted file mode 100644
--- a/gone
+++ /dev/null
@@ -1 +0,0 @@
-bye
-- \n2.39
"""


def test_envelope_is_read() -> None:
    add, update, delete = parse_patch(ENVELOPE)
    assert (add.action, add.path, add.content) == ("add", "new/a.txt", "one\n\ntwo\n")
    assert (delete.action, delete.path) == ("delete", "old name.txt")
    assert (update.path, update.move_to) == ("b.py", "c.py")
    first, second = update.hunks
    assert first.anchors == ("class B:", "def f(self):")
    assert (first.old, first.new) == (["x = 1", "y", "", "z"], ["x = 2", "y", "", "z"])
    assert (second.lines, second.at_end) == ((("+", "end"),), True)


def test_git_diff_is_read() -> None:
    update, rename, add, delete = parse_patch(GIT)
    assert (update.path, update.move_to) == ("a.py", None)
    assert update.hunks == (Hunk(lines=(("-", "x = 1"), ("+", "x = 2"), (" ", "y")), line=3),)
    assert rename == FilePatch(action="update", path="old.py", move_to="new.py")
    assert add == FilePatch(action="add", path="run.sh", content="true", mode="100755")
    assert (delete.action, delete.path, delete.hunks[0].old) == ("delete", "gone", ["bye"])


def test_policy_sees_every_path_and_every_delete() -> None:
    assert patch_paths(ENVELOPE) == ["new/a.txt", "b.py", "c.py", "old name.txt"]
    assert deletes(ENVELOPE) == ["old name.txt"]
    assert patch_paths(GIT) == ["a.py", "old.py", "new.py", "run.sh", "gone"]
    assert deletes(GIT) == ["gone"]


@pytest.mark.parametrize(
    "text",
    [
        "*** Begin Patch\n*** Update File: a\n-x\n+y\n*** End Patch",
        " *** Begin Patch \n *** Update File: a \n@@\n-x\n+y\n  *** End Patch  \n\n",
        "```diff\n*** Begin Patch\n*** Update File: a\n@@ @@\n-x\n+y\n*** End Patch\n```\n",
        "apply_patch <<'EOF'\n*** Begin Patch\n*** Update File: a\n@@\n-x\n+y\n\n*** End Patch\nEOF\n",
        "*** Update File: a\r\n@@\r\n-x\r\n+y\r\n*** End Patch\r\n",
        "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-x\n+y\n",
        "--- a/a\t2024-01-01\n+++ b/a\t2024-01-02\n@@ -1,7 +1,9 @@\n-x\n+y",
        "--- a\n+++ a\n@@ @@\n-x\n+y\n\n\n",
        '--- "a/\\141"\n+++ "b/\\141"\n@@ -1,0 +1,0 @@\n-x\n+y\n',
        "--- a.orig\n+++ a\n@@ -1 +1 @@\n-x\n+y\n",
        "Index: a\n====\n--- a\n+++ a\n@@ -1 +1 @@\n-x\n+y\n",
    ],
)
def test_patch_is_read_however_it_is_wrapped(text: str) -> None:
    (file,) = parse_patch(text)
    (hunk,) = file.hunks
    assert (file.action, file.path, hunk.lines) == ("update", "a", (("-", "x"), ("+", "y")))


def test_lines_that_look_like_headers_belong_to_their_hunk() -> None:
    text = "--- a/q.sql\n+++ b/q.sql\n@@ -1,2 +1,2 @@\n--- old\n+++ new\n x\n"
    (file,) = parse_patch(text)
    assert file.hunks[0].lines == (("-", "-- old"), ("+", "++ new"), (" ", "x"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "changes no file"),
        ("please change x to y", "changes no file"),
        ("*** Begin Patch\n*** End Patch", "changes no file"),
        ("*** Begin Patch\n*** Update File: a\n@@\n-x\n+y\n", "cut off"),
        ("*** Begin Patch\n*** Update File: a\n*** End Patch", "changes nothing in a"),
        ("*** Begin Patch\n*** Update File:\n@@\n-x\n*** End Patch", "line 2 of the patch names no file"),
        (
            "*** Begin Patch\n*** Update File: a\n@@\n x\n*** End Patch",
            "line 3 of the patch has no line with",
        ),
        ("*** Begin Patch\n*** Update File: a\n@@\n-x\ny\n*** End Patch", "line 5 of the patch is 'y'"),
        ("*** Begin Patch\n*** Add File: a\nx\n*** End Patch", "line 3 of the patch is 'x'"),
        ("*** Begin Patch\n*** Rename File: a\n*** End Patch", "line 2 of the patch is"),
        ("--- a/a\n+++ b/a\n@@ -1,3 +1,3 @@\n x\ny\n-z\n+w\n", "line 6 of the patch belongs to no hunk"),
        ("@@ -1 +1 @@\n-x\n+y\n", "changes no file|no file"),
        ("diff --git a/a b/a\nBinary files a/a and b/a differ\n", "binary"),
        ("diff --git a/a b/b\ncopy from a\ncopy to b\n", "copies a file"),
        ("diff --git a/a b/a\nold mode 100644\nnew mode 100755\n", "only its mode"),
        ("diff --git a/a b/a\nnew file mode 120000\n--- /dev/null\n+++ b/a\n@@ -0,0 +1 @@\n+x\n", "a link"),
        ("--- /dev/null\n+++ b/a\n@@ -1 +1,2 @@\n old\n+new\n", "lines of an older one"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_line(text: str, said: str) -> None:
    with pytest.raises(ToolValidationError, match=said):
        parse_patch(text)


def test_number_of_files_has_a_bound() -> None:
    files = "".join(f"*** Delete File: {number}\n" for number in range(201))
    with pytest.raises(ToolValidationError, match="201 files, the limit is 200"):
        parse_patch(f"*** Begin Patch\n{files}*** End Patch")


PIECES = [
    "@@ -1 +1 @@\n", "@@\n", "--- a\n", "+++ b\n", "diff --git a/x b/y\n", "rename to z\n",
    "*** Begin Patch\n", "*** Update File: a\n", "*** Add File: b\n", "*** Move to: c\n",
    "*** End of File\n", "*** End Patch\n", "+x\n", "-x\n", " x\n", "x\n",
    "\n", "-- \n", "\\ No newline\n", "+", "@", "***",
]  # fmt: skip


@given(st.lists(st.sampled_from(PIECES), max_size=20))
def test_any_text_is_read_or_refused(pieces: list[str]) -> None:
    with contextlib.suppress(ToolValidationError):
        for file in parse_patch("".join(pieces)):
            assert file.path
            assert file.action != "update" or file.hunks or file.move_to
