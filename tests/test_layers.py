"""The rules of the code that a machine can check: layers, sizes, names, docstrings, what an import costs."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
LAYERS = ("state", "tools", "graph", "studio")
FOREIGN = ROOT / "graph" / "demo" / "project"  # the repository of the demo: its code is not ours
MODULE_LINES_MAX = 300  # read in one sitting
FUNCTION_LINES_MAX = 40  # seen on one screen
NAMES_THAT_SAY_NOTHING = {"utils", "util", "helpers", "helper", "common", "manager", "misc"}
HEAVY = ("openai", "numpy", "faiss", "bm25s", "onnxruntime", "langchain_community")  # 0.1 to 2 s each
KEPT_FROM_THE_COMMAND_LINE = ("langgraph", "langchain", "langchain_core", "pydantic", "prompt_toolkit")
LATE = {
    "lockstitch.graph.app",
    "lockstitch.graph.models.lean_openai",  # source.py imports it when an endpoint is used
    "lockstitch.graph.models.posting",  # so does lean_openai.py
}  # modules that build their object, or import a client, when imported

MODULES = sorted(
    path for layer in LAYERS for path in (ROOT / layer).rglob("*.py") if not path.is_relative_to(FOREIGN)
)


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(("lockstitch", *(parts[:-1] if parts[-1] == "__init__" else parts)))


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def functions_of(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def imports_of(path: Path) -> Iterator[str]:
    """Absolute names of what a module imports; a relative import keeps its dots."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            source = "." * node.level + (node.module or "")
            yield source
            yield from (f"{source}.{alias.name}" for alias in node.names)


def loaded_after(code: str, names: tuple[str, ...]) -> str:
    """Which of `names` are loaded in a new interpreter after `code`."""
    report = f"{code}\nimport sys\nprint([n for n in {names!r} if n in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", report], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_these_checks_see_the_code() -> None:
    assert {path.relative_to(ROOT).parts[0] for path in MODULES} == set(LAYERS)
    assert FOREIGN.is_dir()


def test_imports_point_from_studio_to_graph_to_tools_to_state() -> None:
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache", "--no-logo"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_module_says_what_it_owns(path: Path) -> None:
    first_line = (ast.get_docstring(tree_of(path)) or "").partition("\n")[0]
    assert first_line.endswith((".", ":")), "the docstring's first line is one sentence"


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_module_and_its_functions_are_short(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MODULE_LINES_MAX
    lengths = {f.name: (f.end_lineno or f.lineno) - f.lineno + 1 for f in functions_of(path)}
    assert {name: lines for name, lines in lengths.items() if lines > FUNCTION_LINES_MAX} == {}


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_imports_are_absolute_and_through_the_namespace(path: Path) -> None:
    bare = {name for name in imports_of(path) if name.startswith(".") or name.split(".")[0] in LAYERS}
    assert bare == set(), "write lockstitch.<layer>: the repository at hand may have a `tools` of its own"


@pytest.mark.parametrize(
    "path", [p for p in MODULES if p.relative_to(ROOT).parts[0] in {"tools", "graph"}], ids=name_of
)
def test_annotations_can_be_read_at_run_time(path: Path) -> None:
    assert "__future__.annotations" not in set(imports_of(path))


def test_no_file_has_a_name_that_says_nothing() -> None:
    named = {p for p in [*MODULES, *(ROOT / "tests").rglob("*.py")] if p.stem in NAMES_THAT_SAY_NOTHING}
    assert named == set()


def makes_tools(path: Path) -> bool:
    marks = [mark for function in functions_of(path) for mark in function.decorator_list]
    called = [mark.func if isinstance(mark, ast.Call) else mark for mark in marks]
    return any(isinstance(mark, ast.Name) and mark.id == "tool" for mark in called)


def test_tools_do_not_import_each_other() -> None:
    tools = [path for path in MODULES if path.parent == ROOT / "tools" and makes_tools(path)]
    names = {name_of(path) for path in tools}
    assert len(names) > 1
    assert {path.stem: names & set(imports_of(path)) for path in tools if names & set(imports_of(path))} == {}


def test_no_import_loads_a_heavy_library() -> None:
    names = [name_of(path) for path in MODULES if name_of(path) not in LATE]
    assert loaded_after("\n".join(f"import {name}" for name in names), HEAVY) == "[]"


def test_command_line_starts_without_the_graph() -> None:
    assert loaded_after("import lockstitch.studio.cli", KEPT_FROM_THE_COMMAND_LINE) == "[]"
