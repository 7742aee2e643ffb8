"""What kind of project the workspace is: by the manifests in its root, and nothing that would have to run."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Final

from lockstitch.graph.context import manifests
from lockstitch.graph.context.manifests import Manifest, Parser
from lockstitch.graph.context.section import Section, one_line
from lockstitch.state.errors import RecoverableError
from lockstitch.tools.texts.text_file import decode_text
from lockstitch.tools.workspace import Workspace

FILE_BYTES: Final = 128 * 1024  # of one manifest; larger ones are generated
DEPENDENCIES_SHOWN: Final = 10  # of one kind: the owner's figure
FILES_PER_PATTERN: Final = 3  # such as *.csproj
NAME_CHARS: Final = 80  # of a project, a dependency
MAKE: Final = "Make"


@dataclass(frozen=True)
class _Known:
    """A file that tells the kind of a project; `command` runs one of its scripts, "" runs it by its name."""

    pattern: str
    kind: str
    parse: Parser = manifests.parse_nothing
    command: str = ""


# In this order they are told. Of one kind the first file that knows a field has the word on it.
KNOWN: Final = (
    _Known("pyproject.toml", "Python", manifests.parse_pyproject),
    _Known("setup.cfg", "Python", manifests.parse_setup_cfg),
    _Known("setup.py", "Python"),
    _Known("requirements.txt", "Python", manifests.parse_requirements),
    _Known("package.json", "Node.js", manifests.parse_package_json, "npm run"),
    _Known("deno.json", "Deno", manifests.parse_deno, "deno task"),
    _Known("deno.jsonc", "Deno", manifests.parse_deno, "deno task"),
    _Known("Cargo.toml", "Rust", manifests.parse_cargo),
    _Known("go.mod", "Go", manifests.parse_go_mod),
    _Known("pom.xml", "Java (Maven)", manifests.parse_pom),
    _Known("build.gradle", "Java or Kotlin (Gradle)", manifests.parse_gradle),
    _Known("build.gradle.kts", "Java or Kotlin (Gradle)", manifests.parse_gradle),
    _Known("Gemfile", "Ruby", manifests.parse_gemfile),
    _Known("composer.json", "PHP", manifests.parse_composer, "composer run-script"),
    _Known("*.sln", ".NET"),
    _Known("*.csproj", ".NET", manifests.parse_csproj),
    _Known("mix.exs", "Elixir", manifests.parse_mix),
    _Known("pubspec.yaml", "Dart", manifests.parse_pubspec),
    _Known("CMakeLists.txt", "C or C++ (CMake)", manifests.parse_cmake),
    _Known("Makefile", MAKE, manifests.parse_makefile, "make"),
)
NODE_RUNNERS: Final = {"pnpm-lock.yaml": "pnpm", "yarn.lock": "yarn", "bun.lock": "bun", "bun.lockb": "bun"}
NAMED_BY_FILE: Final = (".sln", ".csproj")
PYTEST_FILE: Final = "pytest.ini"


@dataclass(frozen=True)
class Project:
    """What is known of one kind of project; a workspace may be several."""

    kind: str
    name: str = ""
    dependencies: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()


def project_sections(workspace: Workspace, names: Collection[str]) -> list[Section]:
    """One section about what the workspace is, if anything tells it; `names` is what the root holds."""
    projects = detect_projects(workspace, names)
    if not projects:
        return []
    kinds = ", ".join(f"{p.kind} ({_named(p.name)})" if p.name else p.kind for p in projects)
    return [
        Section(
            group="project",
            title="what the workspace is, by the manifests in its root",
            body="\n".join(map(render_project, projects)),
            told=f"project: {kinds}",
        )
    ]


def detect_projects(workspace: Workspace, names: Collection[str]) -> list[Project]:
    """The kinds of project that the files of the root tell of; a broken file tells the kind alone."""
    found: dict[str, list[Project]] = {}
    for known in KNOWN:
        for name in _matching(names, known.pattern):
            manifest = _read(workspace, name, known.parse)
            found.setdefault(known.kind, []).append(_project(known, name, manifest, names))
    projects = [_joined(parts) for parts in found.values()]
    return [p for p in projects if p.kind != MAKE or p.commands or len(projects) == 1]


def render_project(project: Project) -> str:
    """One kind in one to three lines."""
    rows = [f"{project.kind} project {_named(project.name)}".rstrip()]
    if project.dependencies:
        shown = project.dependencies[:DEPENDENCIES_SHOWN]
        more = len(project.dependencies) - len(shown)
        rows.append(f"depends on {', '.join(map(_named, shown))}{f' and {more} more' if more else ''}")
    if project.commands:
        rows.append(f"commands: {', '.join(project.commands)}")
    return "\n".join(rows)


def _matching(names: Collection[str], pattern: str) -> list[str]:
    if "*" not in pattern:
        return [pattern] if pattern in names else []
    return sorted(name for name in names if fnmatchcase(name, pattern))[:FILES_PER_PATTERN]


def _read(workspace: Workspace, name: str, parse: Parser) -> Manifest:
    if parse is manifests.parse_nothing:
        return Manifest()
    try:
        return parse(decode_text(workspace.read_bytes(name, max_bytes=FILE_BYTES)).text)
    except (RecoverableError, ValueError, RecursionError):  # RecursionError: brackets nested too deep
        return Manifest()


def _project(known: _Known, file: str, manifest: Manifest, names: Collection[str]) -> Project:
    name = PurePosixPath(file).stem if file.endswith(NAMED_BY_FILE) else manifest.name
    return Project(known.kind, name, manifest.dependencies, _commands(known, manifest, names))


def _commands(known: _Known, manifest: Manifest, names: Collection[str]) -> tuple[str, ...]:
    command = known.command
    if known.kind == "Node.js":
        command = f"{_node_runner(manifest, names)} run"
    scripts = manifest.scripts
    if known.kind == "Python" and PYTEST_FILE in names:
        scripts = ("pytest",)
    return tuple(f"{command} {script}".strip() for script in scripts)


def _node_runner(manifest: Manifest, names: Collection[str]) -> str:
    """What installs the packages: as the manifest says, else by its lock file."""
    if manifest.runner in {"npm", *NODE_RUNNERS.values()}:
        return manifest.runner
    return next((runner for lock, runner in NODE_RUNNERS.items() if lock in names), "npm")


def _joined(parts: Sequence[Project]) -> Project:
    return Project(
        kind=parts[0].kind,
        name=next((part.name for part in parts if part.name), ""),
        dependencies=next((part.dependencies for part in parts if part.dependencies), ()),
        commands=next((part.commands for part in parts if part.commands), ()),
    )


def _named(name: str) -> str:
    return one_line(name, max_chars=NAME_CHARS)
