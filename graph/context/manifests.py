"""What the manifests of the common ecosystems say: a project's name, what it depends on, its commands.

Each `parse_*` takes a file's text and never a path. A broken file raises a ValueError; a field of the
wrong kind counts as missing. XML is searched as text: no entity is ever expanded.
"""

import configparser
import json
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

_REQUIREMENT: Final = re.compile(r"[A-Za-z0-9][\w.-]*")
_SCRIPTS: Final = ("test", "lint", "build", "check", "typecheck", "format")  # that names say for certain
_NO_TESTS: Final = "no test specified"  # in the script that `npm init` writes


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What one file says; `scripts` are names of its own, such as those of package.json.

    Attributes:
        runner: program that the manifest itself asks for, "" if it asks for none.
    """

    name: str = ""
    dependencies: tuple[str, ...] = ()
    scripts: tuple[str, ...] = ()
    runner: str = ""


Parser = Callable[[str], Manifest]


def parse_pyproject(text: str) -> Manifest:
    """pyproject.toml, of PEP 621 or of Poetry."""
    data = tomllib.loads(text)
    project, tool = _table(data, "project"), _table(data, "tool")
    poetry = _table(tool, "poetry")
    listed = _names(_strings(project.get("dependencies")))
    return Manifest(
        name=_text(project.get("name")) or _text(poetry.get("name")),
        dependencies=listed or tuple(n for n in _table(poetry, "dependencies") if n != "python"),
        scripts=("pytest",) if "pytest" in tool else (),
    )


def parse_setup_cfg(text: str) -> Manifest:
    """setup.cfg of setuptools."""
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        parser.read_string(text)
    except configparser.Error as error:
        raise ValueError("no valid INI file") from error
    return Manifest(
        name=parser.get("metadata", "name", fallback=""),
        dependencies=_names(parser.get("options", "install_requires", fallback="").splitlines()),
        scripts=("pytest",) if parser.has_section("tool:pytest") else (),
    )


def parse_requirements(text: str) -> Manifest:
    """requirements.txt; options, paths and addresses are no names."""
    return Manifest(dependencies=_names(line for line in text.splitlines() if "://" not in line))


def parse_package_json(text: str) -> Manifest:
    """package.json of npm, pnpm, yarn or bun."""
    data = _object(json.loads(text))
    scripts = _table(data, "scripts")
    real = [name for name in _SCRIPTS if name in scripts and _NO_TESTS not in _text(scripts[name])]
    return Manifest(
        name=_text(data.get("name")),
        dependencies=(*_table(data, "dependencies"), *_table(data, "devDependencies")),
        scripts=tuple(real),
        runner=_text(data.get("packageManager")).partition("@")[0],
    )


def parse_deno(text: str) -> Manifest:
    """deno.json; one with comments counts as broken."""
    data = _object(json.loads(text))
    tasks = _table(data, "tasks")
    return Manifest(
        name=_text(data.get("name")),
        dependencies=tuple(_table(data, "imports")),
        scripts=tuple(name for name in _SCRIPTS if name in tasks),
    )


def parse_cargo(text: str) -> Manifest:
    """Cargo.toml of a package or a workspace."""
    data = tomllib.loads(text)
    shared = _table(_table(data, "workspace"), "dependencies")
    return Manifest(
        name=_text(_table(data, "package").get("name")),
        dependencies=tuple(_table(data, "dependencies") or shared),
    )


def parse_go_mod(text: str) -> Manifest:
    """go.mod; what is only needed indirectly is left out."""
    lines = (line.strip().removeprefix("require ") for line in text.splitlines() if "// indirect" not in line)
    found = (re.match(r"(\S+) v\d", line) for line in lines if "=>" not in line)
    return Manifest(
        name=_first(r"^module[ \t]+(\S+)", text), dependencies=tuple(match[1] for match in found if match)
    )


def parse_pom(text: str) -> Manifest:
    """pom.xml of Maven."""
    outside, _ = _split_blocks(text, "<!--", "-->")
    for tag in ("parent", "dependencyManagement", "build", "profiles", "reporting"):
        outside, _ = _split_blocks(outside, f"<{tag}>", f"</{tag}>")
    outside, blocks = _split_blocks(outside, "<dependency>", "</dependency>")
    artifact = r"<artifactId>\s*([\w.-]+)\s*</artifactId>"
    return Manifest(
        name=_first(artifact, outside), dependencies=_known(_first(artifact, block) for block in blocks)
    )


def parse_gradle(text: str) -> Manifest:
    """build.gradle or build.gradle.kts; the name is in another file."""
    pattern = r"""^[ \t]*(?:api|implementation|compileOnly|runtimeOnly)[ \t(]+["'][\w.-]+:([\w.-]+)"""
    return Manifest(dependencies=_every(pattern, text))


def parse_gemfile(text: str) -> Manifest:
    """Gemfile of Bundler."""
    return Manifest(dependencies=_every(r"""^[ \t]*gem[ \t(]+["']([\w.-]+)""", text))


def parse_composer(text: str) -> Manifest:
    """composer.json of PHP; php itself and its extensions are left out."""
    data = _object(json.loads(text))
    scripts = _table(data, "scripts")
    return Manifest(
        name=_text(data.get("name")),
        dependencies=tuple(name for name in _table(data, "require") if "/" in name),
        scripts=tuple(name for name in _SCRIPTS if name in scripts),
    )


def parse_csproj(text: str) -> Manifest:
    """A project of .NET; its name is the file's."""
    return Manifest(dependencies=_every(r"""<PackageReference[ \t]+Include="([\w.-]+)\"""", text))


def parse_mix(text: str) -> Manifest:
    """mix.exs of Elixir."""
    return Manifest(
        name=_first(r"\bapp:[ \t]*:(\w+)", text),
        dependencies=_every(r"""^[ \t\[]*\{:(\w+),""", text),
    )


def parse_pubspec(text: str) -> Manifest:
    """pubspec.yaml of Dart or Flutter."""
    _, _, after = f"\n{text}".partition("\ndependencies:")
    block = re.split(r"^\S", after.partition("\n")[2], maxsplit=1, flags=re.MULTILINE)[0]
    return Manifest(
        name=_first(r"^name:[ \t]*[\"']?([\w.-]+)", text), dependencies=_every(r"^  ([\w.-]+):", block)
    )


def parse_cmake(text: str) -> Manifest:
    """CMakeLists.txt."""
    return Manifest(
        name=_first(r"(?i)^[ \t]*project[ \t]*\([ \t]*([\w.+-]+)", text),
        dependencies=_every(r"(?i)^[ \t]*find_package[ \t]*\([ \t]*([\w.+-]+)", text),
    )


def parse_makefile(text: str) -> Manifest:
    """A Makefile's targets of known names."""
    targets = set(_every(r"^([\w-]+)[ \t]*:(?!=)", text))
    return Manifest(scripts=tuple(name for name in _SCRIPTS if name in targets))


def parse_nothing(_: str) -> Manifest:
    """A file that only shows the kind of project."""
    return Manifest()


def _object(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _table(data: Mapping[str, object], key: str) -> Mapping[str, object]:
    return _object(data.get(key))


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _strings(value: object) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _names(requirements: Iterable[str]) -> tuple[str, ...]:
    """The names that requirements such as `httpx[http2]>=0.27` begin with."""
    found = (_REQUIREMENT.match(requirement.strip()) for requirement in requirements)
    return _known(match[0] if match else "" for match in found)


def _known(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name in names if name))


def _first(pattern: str, text: str) -> str:
    match = re.search(pattern, text, re.MULTILINE)
    return match[1] if match else ""


def _every(pattern: str, text: str) -> tuple[str, ...]:
    return _known(re.findall(pattern, text, re.MULTILINE))


def _split_blocks(text: str, opening: str, closing: str) -> tuple[str, list[str]]:
    """The text outside of the blocks, and the blocks; by plain search, which no text can slow down."""
    outside, blocks = list[str](), list[str]()
    for part in _parts(text, opening, closing):
        outside.append(part[0])
        blocks.append(part[1])
    return "".join(outside), blocks


def _parts(text: str, opening: str, closing: str) -> Iterator[tuple[str, str]]:
    at = 0
    while (start := text.find(opening, at)) >= 0 and (end := text.find(closing, start)) >= 0:
        yield text[at:start], text[start + len(opening) : end]
        at = end + len(closing)
    yield text[at:], ""
