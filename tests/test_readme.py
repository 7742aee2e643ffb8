"""The README's commands work as they stand, and its tables say what the code says."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.model_server import ModelServer

from lockstitch.graph.drawing import draw_graph
from lockstitch.graph.models.scenario import Scenario
from lockstitch.state.reasons import ENDINGS
from lockstitch.state.settings import Settings
from lockstitch.studio.cli import cli

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
SHELL_LINES = [
    line.partition("  #")[0].strip()
    for block in re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
    for line in block.splitlines()
    if line.strip()
]
INLINE = [code for code in re.findall(r"`([^`\n]+)`", README) if code.startswith("lockstitch ")]


def test_every_make_target_that_is_named_exists() -> None:
    named = set(re.findall(r"(?:^|`)make ([a-z]+)", README, re.MULTILINE))
    offered = set(re.findall(r"^([a-z]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {"demo", "test", "dev", "show"} <= named <= offered


def test_ci_runs_the_test_command_of_the_readme() -> None:
    assert "make test" in SHELL_LINES
    assert re.search(r"^make test$", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)


@pytest.mark.parametrize("code", INLINE)
def test_every_command_and_option_that_is_named_exists(code: str) -> None:
    words = [word for command in code.split(", ") for word in shlex.split(command)]
    names = [word for word in words if not word.startswith("-") and word.islower() and word != "lockstitch"]
    helped = CliRunner().invoke(cli, [names[0], "--help"], standalone_mode=False)
    assert names[0] in cli.list_commands(None)  # type: ignore[arg-type]
    options = [word for word in words if word.startswith("--") and word != "--arg"]
    assert all(option in helped.output for option in options)


def test_the_steps_for_ones_own_repository_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs the block line by line: settings into the environment, `lockstitch` as the installed program."""
    lines = SHELL_LINES[SHELL_LINES.index(".venv/bin/lockstitch doctor") :][:5]
    with ModelServer(Scenario(name="readme", turns=({"say": "Mended."},))) as server:  # type: ignore[arg-type]
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        outputs = []
        for line in lines:
            command = shlex.split(line)
            if command[0] == "export":
                monkeypatch.setenv(*command[1].split("=", 1))
            elif command[0] != "cd":
                program = [sys.executable, "-m", "lockstitch.studio.cli", *command[1:]]
                done = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, check=True)
                outputs.append(done.stdout)
    assert "ripgrep" in outputs[0]
    assert "Mended." in outputs[1]
    assert server.requests == 1


def test_the_dev_command_is_the_one_make_runs() -> None:
    command = "langgraph dev --no-browser --no-reload --n-jobs-per-worker 8"
    assert command in README
    assert command in (ROOT / "Makefile").read_text()


def test_the_table_of_endings_is_the_codes_own() -> None:
    section = README.partition("## How a run ends")[2].partition("\n## ")[0]
    written: dict[str, int] = {}
    for row in re.findall(r"^\| (`.*?) \| ([\d, ]+) \|", section, re.MULTILINE):
        names, codes = re.findall(r"`(\w+)`", row[0]), [int(code) for code in row[1].split(",")]
        written |= dict(zip(names, codes * len(names) if len(codes) == 1 else codes, strict=False))
    assert written == {reason: ending.exit_code for reason, ending in ENDINGS.items()}


def test_every_setting_that_is_named_exists() -> None:
    named = {name.lower() for name in re.findall(r"`LOCKSTITCH_(\w+)", README)}
    assert named <= set(Settings.model_fields)


def test_the_drawing_of_the_graph_is_the_graphs_own() -> None:
    assert f"```mermaid\n{draw_graph()}\n```" in README
