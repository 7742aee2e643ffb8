"""Every call of adversarial_files.yaml through the real guard and tools, and what it comes to."""

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from lockstitch.state.settings import load_settings
from lockstitch.state.spill import SpillStore
from lockstitch.tools.catalog import BUILT_IN
from lockstitch.tools.context import ToolContext
from lockstitch.tools.guard import Guard
from lockstitch.tools.rate_limit import RateLimit
from lockstitch.tools.registry import Registry
from lockstitch.tools.workspace import Workspace

CASES: list[dict[str, Any]] = yaml.safe_load(
    (Path(__file__).parents[1] / "contracts" / "adversarial_files.yaml").read_text(encoding="utf-8")
)
TOOLS = Registry(BUILT_IN)
FILES: dict[str, bytes] = {
    "a.txt": b"one\n",
    "src/b.py": b"def two():\n    return 2\n",
    "src/deep/c.md": b"three\n",
    "run.sh": b"true\n",
    "latin.txt": "Viele Grüße\n".encode("latin-1"),
    "wide.txt": "weit und breit\n".encode("utf-16-le"),
    "data.bin": b"\x7fELF\0\0\1",
    ".gitignore": b"*.log\n",
    "trace.log": b"one\n",
    ".git/config": b"[core]\n",
    ".git/hooks/sample": b"",
    "sub/.git": b"gitdir: elsewhere\n",
    "bare/HEAD": b"ref: refs/heads/main\n",
    "bare/config": b"[core]\n",
    "bare/objects/x": b"",
    "bare/refs/x": b"",
    "bare/hooks/sample": b"",
    "half/objects/x": b"",
    "half/refs/x": b"",
    ".lockstitch/policy.toml": b"deny = []\n",
    "home/settings.toml": b"OWN\n",
}
LINKS = {
    "in": "src",
    "broken": "nowhere",
    "loop": "loop",
    "self": ".",
    "out": "../outside",
    "secret": "../outside/secret.txt",
    "back": "<<root>>/src",
    "zero": "/dev/zero",
    "proc": "/proc/self",
    "sly": ".git",
}
HOLES = {"sparse": 10_000_000, "huge": 2**42}


@pytest.fixture(scope="module")
def long_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("long") / "long.txt"
    path.write_bytes(b"x" * 10_000_000)
    return path


@pytest.fixture
def root(tmp_path: Path, long_file: Path) -> Path:
    root = tmp_path / "ws"
    for name, data in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    for name, target in LINKS.items():
        (root / name).symlink_to(target.replace("<<root>>", str(root)))
    for name, size in HOLES.items():
        (root / name).touch()
        os.truncate(root / name, size)
    (root / "long.txt").hardlink_to(long_file)
    (root / "run.sh").chmod(0o4755)
    os.mkfifo(root / "fifo")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.txt").write_bytes(b"CANARY\n")
    return root


@pytest.fixture
def context(root: Path, tmp_path: Path) -> Iterator[ToolContext]:
    with Workspace(root, hidden=[root / "home"]) as workspace:
        spill = SpillStore(tmp_path / "spill", "t1")
        yield ToolContext(workspace=workspace, settings=load_settings(), spill=spill, thread_id="t1")


def filled(value: Any, texts: dict[str, str]) -> Any:
    """The value with each `<<...>>` replaced."""
    if not isinstance(value, str):
        return value
    named = re.sub(r"<<(\w+)>>", lambda found: texts[found[1]], value)
    return re.sub(r"<<(.+?)\*(\d+)>>", lambda found: found[1] * int(found[2]), named)


def contents(base: Path) -> dict[str, object]:
    """What lies below: bytes of files, targets of links, sizes of what is too large to read."""
    found: dict[str, object] = {}
    for folder, folders, files in os.walk(base):
        for name in (*folders, *files):
            path = Path(folder, name)
            status = path.lstat()
            if path.is_symlink():
                content: object = str(path.readlink())
            elif stat.S_ISREG(status.st_mode):
                content = path.read_bytes() if status.st_size < 1_000_000 else status.st_size
            else:
                content = stat.S_IFMT(status.st_mode)
            found[str(path.relative_to(base))] = content
    return found


def expected(before: dict[str, object], changes: dict[str, str | None]) -> dict[str, object]:
    after = dict(before)
    for name, content in changes.items():
        for folder in list(Path(name).parents)[:-1]:
            after.setdefault(f"ws/{folder}", stat.S_IFDIR)
        if content is None:
            del after[f"ws/{name}"]
        else:
            after[f"ws/{name}"] = content.encode()
    return after


def test_list_is_long_and_its_names_are_unique() -> None:
    assert len({case["id"] for case in CASES}) == len(CASES) >= 150
    assert {case["must"] for case in CASES} == {"ok", "error", "escape"}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
async def test_call_comes_to_what_it_must(
    case: dict[str, Any], context: ToolContext, root: Path, tmp_path: Path
) -> None:
    texts = {
        "root": str(root),
        "mine": context.spill.keep("kept text"),
        "other": SpillStore(tmp_path / "spill", "t2").keep("text of another thread"),
    }
    before = contents(tmp_path)
    guard = Guard(TOOLS, RateLimit(0, monotonic=lambda: 0.0))
    args = {name: filled(value, texts) for name, value in case["args"].items()}
    result = await guard.run(case["tool"], args, context)

    came_to = "escape" if result.metadata.get("escape") else "ok" if result.success else "error"
    assert (came_to, result.text) == (case["must"], result.text)
    told = case.get("told", [])
    for part in [told] if isinstance(told, str) else told:
        assert part in result.text
    assert "CANARY" not in result.text
    assert "another thread" not in result.text
    assert result.success or str(tmp_path) not in result.text
    assert not result.error or not re.search(r"failed: \w+Error", result.error), "an error nobody foresaw"
    after = {name: data for name, data in contents(tmp_path).items() if not name.startswith("spill/t1")}
    before = {name: data for name, data in before.items() if not name.startswith("spill/t1")}
    assert after == expected(before, case.get("changes", {}))
    assert stat.S_IMODE((root / "run.sh").stat().st_mode) == (
        0o755 if case["id"] == "set-id-bits-go" else 0o4755
    )
