"""The rules in force: the person's policy.toml in the home folder, narrowed by the project's own.

The project's file can only narrow: it comes with the repository, so nobody has vouched for it.
"""

import os
import stat
import tempfile
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Final

from lockstitch.state.errors import SettingsError, SystemFaultError
from lockstitch.tools.paths import SETTINGS_FOLDER
from lockstitch.tools.permission.rules import FILE, Rule, read_rules

FILE_BYTES: Final = 1024 * 1024  # of a policy; a thousand rules take a tenth
_OF_HOME: Final = f"{FILE} in the home folder"
_OF_PROJECT: Final = f"{SETTINGS_FOLDER}/{FILE} of the project"
_Mark = tuple[int, int, int]  # inode, size and time of change: another one means another text


@dataclass(frozen=True)
class Rules:
    """What judging looks at: the person's rules, and those of the project that narrow."""

    home: tuple[Rule, ...] = ()
    project: tuple[Rule, ...] = ()
    ignored: int = 0  # allowances of the project's file

    @property
    def all(self) -> tuple[Rule, ...]:
        """Every rule in force."""
        return self.home + self.project

    def denial(self, tool: str) -> Callable[[str], bool] | None:
        """What tells of a path whether the tool may not have it; None where it may have every one."""
        denying = [
            rule
            for rule in self.all
            if rule.decision == "deny" and rule.path and not rule.command and rule.names_tool(tool)
        ]
        return (lambda path: any(rule.names_path(path) for rule in denying)) if denying else None

    @property
    def notices(self) -> tuple[str, ...]:
        """What a person should know of these rules when a run begins."""
        if not self.ignored:
            return ()
        return (f"{self.ignored} allow rules of {_OF_PROJECT} are ignored: a project can only narrow.",)

    def source(self, rule: Rule) -> str:
        """The file a rule stands in, for people."""
        return _OF_PROJECT if rule in self.project and rule not in self.home else _OF_HOME


@dataclass
class _Read:
    """A file as it was read last."""

    mark: _Mark | None = None
    rules: tuple[Rule, ...] = ()


@dataclass
class RuleBook:
    """The rules of one home folder. Shared by all runs of a process; waits for the disk."""

    home: Path
    _files: dict[Path, _Read] = field(default_factory=dict)
    _writing: threading.Lock = field(default_factory=threading.Lock)

    @cached_property
    def file(self) -> Path:
        """The person's file; it need not exist."""
        return self.home / FILE

    def rules(self, workspace: Path | None = None) -> Rules:
        """The rules for runs in that folder; a file is read again only when it has changed.

        Raises:
            SettingsError: a file cannot be read or does not fit; then no run may work.
        """
        home = self._read(self.file, _OF_HOME)
        if workspace is None:
            return Rules(home)
        project = self._read(_project_file(workspace), _OF_PROJECT)
        narrowing = tuple(rule for rule in project if rule.holds_back)
        return Rules(home, narrowing, ignored=len(project) - len(narrowing))

    def allow(self, fields: Mapping[str, str]) -> None:
        """Write down a rule for good, behind those that stand there; comments and order are kept.

        Does nothing when the very rule stands there already, so it may be done again.

        Raises:
            SettingsError: the file does not fit, or the rule does not.
            SystemFaultError: the file cannot be written.
        """
        import tomlkit  # 30 ms, for the few who say always

        rule = Rule.model_validate(dict(fields))
        with self._writing:
            if rule in self._read(self.file, _OF_HOME):
                return
            document = tomlkit.parse(_text_of(self.file, _OF_HOME)[1])
            rules = document.setdefault("rule", tomlkit.aot())
            table = tomlkit.inline_table() if isinstance(rules, tomlkit.items.Array) else tomlkit.table()
            table.update(rule.as_fields())
            rules.append(table)
            text = tomlkit.dumps(document)
            read_rules(text, source=_OF_HOME)
            _replace(self.file.resolve(), text)

    def _read(self, path: Path, source: str) -> tuple[Rule, ...]:
        known = self._files.setdefault(path, _Read())
        mark = _mark_of(path, source)
        if mark != known.mark:
            mark, text = _text_of(path, source)
            known.rules = read_rules(text, source=source)
            known.mark = mark
        return known.rules


@lru_cache(maxsize=64)
def _project_file(workspace: Path) -> Path:
    return workspace / SETTINGS_FOLDER / FILE


def _mark_of(path: Path, source: str) -> _Mark | None:
    try:
        found = path.stat(follow_symlinks=source == _OF_HOME)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise _unreadable(source, error) from error
    return found.st_ino, found.st_size, found.st_mtime_ns


def _text_of(path: Path, source: str) -> tuple[_Mark | None, str]:
    """The file's text and its mark; empty where there is none. A project's link is not followed."""
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if source == _OF_HOME else os.O_NOFOLLOW)
    try:
        opened = os.open(path, flags)
    except (FileNotFoundError, NotADirectoryError):
        return None, ""
    except OSError as error:
        raise _unreadable(source, error) from error
    with os.fdopen(opened, "rb") as file:
        found = os.fstat(opened)
        if not stat.S_ISREG(found.st_mode) or found.st_size > FILE_BYTES:
            raise SettingsError(f"{source} is no file of at most {FILE_BYTES} bytes.")
        data = file.read(FILE_BYTES)
    try:
        return (found.st_ino, found.st_size, found.st_mtime_ns), data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise SettingsError(f"{source} is no text in UTF-8.") from None


def _unreadable(source: str, error: OSError) -> SettingsError:
    return SettingsError(f"{source} cannot be read: {(error.strerror or 'unknown error').lower()}.")


def _replace(path: Path, text: str) -> None:
    """Write the whole file or nothing of it."""
    try:
        handle, name = tempfile.mkstemp(prefix=f".{FILE}.", dir=path.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise SystemFaultError(
            f"{_OF_HOME} cannot be written: {(error.strerror or 'unknown error').lower()}."
        ) from error
