"""The list of mounts is read as the kernel writes it."""

from pathlib import Path

import pytest

from lockstitch.tools.commands import mounts
from lockstitch.tools.commands.mounts import Mount, read_mounts

LINES = """\
22 1 254:0 / / rw,relatime shared:1 master:2 - ext4 /dev/vda rw
31 22 0:27 / /a\\040b\\011c rw - tmpfs tmpfs rw,size=1k
"""


def test_names_are_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mountinfo").write_text(LINES)
    monkeypatch.setattr(mounts, "MOUNTS", tmp_path / "mountinfo")
    assert read_mounts() == (Mount(Path("/"), "254:0", "ext4"), Mount(Path("/a b\tc"), "0:27", "tmpfs"))
