"""The page's routes and files, without a browser."""

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from lockstitch.graph.prompts import load_prompt
from lockstitch.state.settings import load_settings
from lockstitch.studio.page import FILES, WEB, page_options, page_routes
from lockstitch.studio.visible import make_visible
from lockstitch.tools.catalog import build_registry

SCRIPTS = sorted(WEB.glob("*.js"))
STYLES = sorted(WEB.glob("*.css"))
INDEX = (WEB / "index.html").read_text(encoding="utf-8")


@pytest.fixture
def client() -> TestClient:
    app = Starlette(routes=page_routes())
    app.state.desk = SimpleNamespace(
        settings=load_settings(strategy="tool-first"),
        parts=SimpleNamespace(guard=SimpleNamespace(registry=build_registry())),
    )
    return TestClient(app)


def test_every_file_is_served_and_every_served_one_is_there(client: TestClient) -> None:
    assert set(FILES) == {path.name for path in WEB.iterdir()}
    for name, kind in FILES.items():
        reply = client.get(f"/{name}")
        assert (reply.status_code, reply.headers["content-type"]) == (200, kind)
        assert reply.content == (WEB / name).read_bytes()
    assert client.get("/").content == client.get("/index.html").content


def test_a_browser_gets_again_only_what_changed(client: TestClient) -> None:
    first = client.get("/main.js")
    assert first.headers["cache-control"] == "no-cache"
    tag = first.headers["etag"]
    again = client.get("/main.js", headers={"if-none-match": tag})
    assert (again.status_code, again.content) == (304, b"")
    assert client.get("/main.js", headers={"if-none-match": '"another"'}).status_code == 200


def test_what_can_be_chosen_is_told_with_words(client: TestClient) -> None:
    told = client.get("/options.json").json()
    assert [mode["name"] for mode in told["modes"]] == ["plan", "ask", "auto"]
    assert {"name": "react", "words": "One model call a step, with all tools."} in told["strategies"]
    assert told["strategy"] == "tool-first"
    assert told["steps"] == {"least": 1, "most": 500, "usual": 10}
    assert "read_file" in [tool["name"] for tool in told["tools"]]
    assert all(choice["words"] for choice in told["strategies"] + told["modes"] + told["tools"])
    assert told["model"] == {"usual": "", "others": [], "fixed": False}
    assert not told["demo"]
    assert told["endings"]["step_limit"]["can_go_on"]
    assert not told["endings"]["answered"]["can_go_on"]


def test_the_settings_name_the_usual_steps_and_folder(tmp_path: Path) -> None:
    desk = SimpleNamespace(
        settings=load_settings(max_steps=25, workspace=tmp_path),
        parts=SimpleNamespace(guard=SimpleNamespace(registry=build_registry())),
    )
    told = page_options(desk)  # type: ignore[arg-type]
    assert (told["steps"]["usual"], told["workspace"]) == (25, str(tmp_path))
    json.dumps(told)


def test_models_that_are_set_can_be_chosen_and_a_scripted_one_stands_alone() -> None:
    def told(**settings: Any) -> dict[str, Any]:
        desk = SimpleNamespace(
            settings=load_settings(**settings),
            parts=SimpleNamespace(guard=SimpleNamespace(registry=build_registry())),
        )
        return page_options(desk)  # type: ignore[arg-type]

    local = {"openai_base_url": "http://127.0.0.1:9/v1", "model": "middle", "model_fast": "small"}
    choice = {"usual": "middle", "others": ["small", "spare"], "fixed": False}
    assert told(**local, fallback_models=("spare",))["model"] == choice
    assert told(model="scripted:a.yaml")["model"] == {"usual": "scripted:a.yaml", "others": [], "fixed": True}
    assert told(model="scripted:demo")["demo"]


@pytest.mark.parametrize("path", [*SCRIPTS, *STYLES], ids=lambda path: path.name)
def test_a_file_of_the_page_is_short_and_says_what_it_owns(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.startswith(("// ", "/* "))
    assert len(text.splitlines()) <= 300


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_no_script_reads_html_or_runs_text(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    forbidden = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|\beval\(|new Function"
    assert re.findall(forbidden, text) == []
    assert make_visible(text) == text


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_scripts_import_only_what_is_served(path: Path) -> None:
    named = re.findall(r'from "\./([\w.]+)"', path.read_text(encoding="utf-8"))
    assert set(named) <= set(FILES)


def test_nothing_is_inline_or_from_elsewhere() -> None:
    assert re.findall(r"<style|\sstyle=|\son\w+=|<script(?![^>]*src=)", INDEX) == []
    named = re.findall(r'(?:src|href)="([^"#]+)"', INDEX)
    assert set(named) <= set(FILES)
    assert [path.name for path in STYLES if "url(" in path.read_text() or "@import" in path.read_text()] == []


def test_the_page_knows_where_a_persons_words_end() -> None:
    mark = re.search(r'CONTEXT_MARK = "\\n(.+?)"', (WEB / "steps.js").read_text(encoding="utf-8"))
    assert mark
    assert load_prompt("context").startswith(mark[1])
