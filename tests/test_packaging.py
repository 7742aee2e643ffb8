"""What is installed is what lies in the folders: nothing is missing from the wheel, nothing else is in it."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
LAYERS = ("state", "tools", "graph", "studio")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
FOREIGN = Path("graph/demo/project")  # data: the repository of the demo, with packages and tests of its own
NOT_SOURCE = shutil.ignore_patterns("__pycache__", "*.pyc", ".*")


def source_files() -> set[str]:
    files = (p for layer in LAYERS for p in (ROOT / layer).rglob("*") if p.is_file() and p.suffix != ".pyc")
    return {path.relative_to(ROOT).as_posix() for path in files}


def run(*command: str, cwd: Path, path: Path | None = None) -> str:
    """The output of a command that must succeed; `path` comes first where Python looks for modules."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    env |= {"PYTHONPATH": str(path)} if path else {}
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy: a build leaves folders behind that would end up in the next one."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("dist")
    for layer in LAYERS:
        shutil.copytree(ROOT / layer, source / layer, ignore=NOT_SOURCE)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source / name)
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), cwd=source)
    (built,) = out.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("installed")
    options = ("--quiet", "--no-deps", "--no-index", "--no-compile", "--target", str(target))
    run(sys.executable, "-m", "pip", "install", *options, str(wheel), cwd=target)
    return target


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A user's project whose packages are named like our folders."""
    for layer in LAYERS:
        (tmp_path / layer).mkdir()
        (tmp_path / layer / "__init__.py").write_text("raise SystemExit('foreign code was run')\n")
    return tmp_path


def test_list_of_packages_is_the_folders_with_an_init() -> None:
    inits = {Path(name).parent for name in source_files() if name.endswith("__init__.py")}
    ours = {path for path in inits if not path.is_relative_to(FOREIGN)}
    setuptools = PROJECT["tool"]["setuptools"]
    expected = {"lockstitch." + path.as_posix().replace("/", "."): path.as_posix() for path in ours}
    assert sorted(setuptools["packages"]) == sorted(expected)
    assert setuptools["package-dir"] == expected


def test_every_folder_with_code_has_an_init() -> None:
    folders = {Path(name).parent for name in source_files() if name.endswith(".py")}
    ours = {folder for folder in folders if not folder.is_relative_to(FOREIGN)}
    assert {folder for folder in ours if not (ROOT / folder / "__init__.py").is_file()} == set()


def test_wheel_holds_every_file_of_the_layers_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert names == {f"lockstitch/{name}" for name in source_files()}


def test_installed_data_is_found(installed: Path) -> None:
    folder = installed / "lockstitch" / "graph"
    assert list(folder.glob("prompts/*.md"))
    assert (folder / "demo" / "scenario.yaml").is_file()
    assert list(folder.glob("demo/project/tests/test_*.py"))


def test_installed_command_says_its_version(installed: Path, repository: Path) -> None:
    said = run(str(installed / "bin" / "lockstitch"), "--version", cwd=repository, path=installed)
    assert said.endswith(PROJECT["project"]["version"])


def test_inside_a_repository_with_folders_named_like_ours_our_code_runs(
    installed: Path, repository: Path
) -> None:
    imports = "".join(f"import lockstitch.{layer} as {layer}; " for layer in LAYERS)
    code = f"{imports} import lockstitch.studio.cli; print(*(m.__file__ for m in ({', '.join(LAYERS)})))"
    found = run(sys.executable, "-c", code, cwd=repository, path=installed).split()
    assert found == [str(installed / "lockstitch" / layer / "__init__.py") for layer in LAYERS]


def test_graph_is_importable_as_langgraph_json_names_it(installed: Path, repository: Path) -> None:
    named = json.loads((ROOT / "langgraph.json").read_text(encoding="utf-8"))["graphs"]["agent"]
    module, _, name = named.partition(":")
    code = f"from {module} import {name}; print(callable({name}) or {name}.get_graph())"
    assert run(sys.executable, "-c", code, cwd=repository, path=installed)


def test_type_checkers_find_every_layer_through_its_link() -> None:
    links = {link.name: link.resolve() for link in (ROOT / ".types" / "lockstitch").iterdir()}
    assert links == {layer: ROOT / layer for layer in LAYERS}


def test_pinned_versions_are_plain() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if not line.startswith("#")]
    assert pins
    assert [line for line in pins if "/" in line or line.count("==") != 1] == []
