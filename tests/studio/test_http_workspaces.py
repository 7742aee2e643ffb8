"""Folders and presets that a client may choose."""

import tomllib
from pathlib import Path
from typing import Any

import pytest
from tests.http_door import open_door

ANSWERS = "- say: One.\n"
WORKSPACES = "/api/code-chat/workspaces"
PROMPT = "Two\nlines, a \\, a \x7f and a \u2028."  # what TOML must escape, and what it need not
PRESETS = "/api/code-chat/presets"


async def test_folders_are_listed_without_dependencies_caches_git_and_links(tmp_path: Path) -> None:
    async with open_door(tmp_path, ANSWERS) as door:
        for name in ("src", "docs", ".git", "node_modules", "__pycache__", ".venv", ".pytest_cache"):
            (door.workspace / name).mkdir()
        (door.workspace / "file.txt").write_text("x")
        (door.workspace / "link").symlink_to(tmp_path, target_is_directory=True)
        root = str(door.workspace.resolve())
        top = (await door.get(WORKSPACES)).json()
        assert top["folders"] == [{"name": "work", "path": root}]
        below = (await door.get(WORKSPACES, params={"path": root})).json()
        assert [folder["name"] for folder in below["folders"]] == ["docs", "src"]
        assert (below["path"], below["parent"]) == (root, None)
        deeper = (await door.get(WORKSPACES, params={"path": f"{root}/src"})).json()
        assert (deeper["folders"], deeper["parent"]) == ([], root)


@pytest.mark.parametrize("path", ["/", "/etc", "..", "{root}/..", "{root}/link", "a\0b", "~nobody/x"])
async def test_no_folder_outside_of_the_roots_is_listed_or_valid(tmp_path: Path, path: str) -> None:
    async with open_door(tmp_path, ANSWERS) as door:
        (door.workspace / "link").symlink_to(tmp_path, target_is_directory=True)
        asked = path.format(root=door.workspace)
        reply = await door.get(WORKSPACES, params={"path": asked})
        assert (reply.status_code, reply.json()["error"]) == (403, "outside")
        verdict = (await door.post(f"{WORKSPACES}/validate", {"path": asked})).json()
        assert (verdict["valid"], verdict["path"]) == (False, None)


async def test_a_folder_is_valid_where_a_run_may_work(tmp_path: Path) -> None:
    async with open_door(tmp_path, ANSWERS, workspace=tmp_path) as door:
        for path, valid in ((tmp_path / "work", True), (tmp_path / "no", False), (tmp_path / "home", False)):
            verdict = (await door.post(f"{WORKSPACES}/validate", {"path": str(path)})).json()
            assert verdict["valid"] is valid, verdict


async def test_allowed_roots_are_those_of_the_settings(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    roots = (tmp_path / "one", tmp_path / "two")
    async with open_door(tmp_path, ANSWERS, allowed_roots=roots) as door:
        assert [f["name"] for f in (await door.get(WORKSPACES)).json()["folders"]] == ["one", "two"]


async def test_a_preset_is_added_and_in_force_at_once(tmp_path: Path) -> None:
    async with open_door(tmp_path, ANSWERS) as door:
        mine = tmp_path / "home" / "presets.toml"
        mine.write_text('# mine\n[old]\ndescription = "kept"\n')
        new = {
            "name": "careful",
            "description": 'a "quoted" word',
            "tiers": {"plan": "powerful"},
            "temperature": 0,
        }
        reply = await door.post(PRESETS, new | {"tools": {"read_file": "fast"}, "system_prompt": PROMPT})
        assert (reply.status_code, reply.json()["tiers"]["plan"]) == (201, "powerful")
        listed = (await door.get(PRESETS)).json()
        assert listed["preset"] == "balanced"
        assert {"balanced", "careful", "old"} <= {preset["name"] for preset in listed["presets"]}
        assert mine.read_text().startswith('# mine\n[old]\ndescription = "kept"\n')
        assert tomllib.loads(mine.read_text())["careful"]["system_prompt"] == PROMPT
        run = await door.post("/api/code-chat/query", {"query": "Go.", "preset": "careful"})
        assert "There is no preset" not in run.text
        taken = await door.post(PRESETS, new)
        assert (taken.status_code, taken.json()["error"]) == (409, "taken")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"name": "a b"}, "name"),
        ({"name": "x]\n[y"}, "name"),
        ({"name": ""}, "name"),
        ({"tiers": {"plan": "best"}}, "tiers.plan"),
        ({"temperature": 3}, "temperature"),
        ({"fallbacks": ["scripted:demo"]}, "fallbacks"),
        ({"colour": "red"}, "colour"),
    ],
)
async def test_a_preset_that_does_not_fit_is_not_written(
    tmp_path: Path, change: dict[str, Any], field: str
) -> None:
    async with open_door(tmp_path, ANSWERS) as door:
        reply = await door.post(PRESETS, {"name": "careful"} | change)
        assert (reply.status_code, [f["field"] for f in reply.json()["fields"]]) == (400, [field])
        assert not (tmp_path / "home" / "presets.toml").exists()
