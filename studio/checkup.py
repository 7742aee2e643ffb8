"""The checks of `lockstitch doctor`: each looks at one thing and says what to do about it."""

import platform
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from langchain_core.messages import HumanMessage

from lockstitch.graph.models.choice import choose_model
from lockstitch.graph.models.source import ConfiguredModels
from lockstitch.graph.models.wish import ModelWish
from lockstitch.graph.parts import current_folder
from lockstitch.state.errors import (
    HomeUnusableError,
    ModelError,
    SettingsError,
    ToolExecutionError,
    UsageError,
)
from lockstitch.state.home import Home, prepare_home
from lockstitch.state.settings import Settings
from lockstitch.studio.faults import find_faults
from lockstitch.tools.commands.sandbox import Sandbox, find_sandbox
from lockstitch.tools.confined.openat2 import has_openat2
from lockstitch.tools.permission.rule_book import RuleBook
from lockstitch.tools.ripgrep import find_ripgrep

Status = Literal["ok", "warn", "fail"]
LOCK_WAIT_S: Final = 5.0  # for a database that another process is just writing


@dataclass(frozen=True)
class Check:
    """What one check found."""

    status: Status
    name: str
    text: str


def check_installation(settings: Settings) -> Iterator[Check]:
    """Everything that can be seen without asking the network."""
    yield Check("ok", "python", platform.python_version())
    yield _settings_file(settings)
    yield from _home(settings)
    yield check_rules(settings)
    yield check_ripgrep(settings.workspace or current_folder())
    yield _confinement()
    yield check_sandbox(find_sandbox(settings.command_sandbox))
    yield _model(settings)


async def check_endpoint(settings: Settings) -> Check:
    """One tiny request to the configured model."""
    try:
        model = ConfiguredModels(settings).open(ModelWish())
        await model.ask([HumanMessage("Answer with the word ok.")])
    except (ModelError, UsageError) as error:
        return Check("fail", "endpoint", error.message)
    return Check("ok", "endpoint", f"{model.name} answered")


def check_database(path: Path, *, name: str) -> Check:
    """Whether SQLite finds the file whole."""
    if not path.exists():
        return Check("ok", name, "not made yet; the first run makes it")
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=LOCK_WAIT_S)) as database:
            found = str(database.execute("PRAGMA quick_check").fetchone()[0])
    except sqlite3.Error as error:
        found = str(error)
    if found == "ok":
        return Check("ok", name, "whole")
    return Check("fail", name, f"{path.name}: {found}. `lockstitch doctor --repair` saves what can be read")


def _settings_file(settings: Settings) -> Check:
    there = settings.settings_file.is_file()
    return Check(
        "ok", "settings", f"{settings.settings_file}{'' if there else ' (not there; none is needed)'}"
    )


def _home(settings: Settings) -> Iterator[Check]:
    try:
        home: Home = prepare_home(settings.home)
    except HomeUnusableError as error:
        yield Check("fail", "home", error.message)
        return
    mode = home.path.stat().st_mode & 0o777
    status: Status = "ok" if mode == 0o700 else "warn"
    advice = "" if mode == 0o700 else ": others can look in, chmod 700 it"
    yield Check(status, "home", f"{home.path} (mode {mode:04o}){advice}")
    yield check_database(home.threads_db, name="threads")
    yield check_database(home.ledger_db, name="ledger")
    for fault in find_faults(settings, home, read_all=False):
        if fault.name != "database":  # told above
            advice = ". `lockstitch doctor --repair` mends that" if fault.mend else ""
            yield Check("warn", fault.name, f"{fault.text}{advice}")


def check_rules(settings: Settings) -> Check:
    """Whether the rules can be read; no run begins with a file that does not fit."""
    try:
        rules = RuleBook(settings.home).rules(settings.workspace or current_folder())
    except SettingsError as error:
        return Check("fail", "policy", error.message)
    return Check("ok", "policy", f"{len(rules.all)} rules; `lockstitch policy` lists them")


def check_ripgrep(workspace: Path) -> Check:
    """Whether grep_files can work in that folder."""
    try:
        binary = find_ripgrep(workspace)
    except ToolExecutionError as error:
        return Check("fail", "ripgrep", error.message)
    said = subprocess.run([binary, "--version"], capture_output=True, text=True, check=False).stdout
    return Check("ok", "ripgrep", said.partition("\n")[0] or binary)


def check_sandbox(sandbox: Sandbox) -> Check:
    """What holds commands back here."""
    if sandbox.backend == "none":
        asks = "every command asks first, unless LOCKSTITCH_UNSANDBOXED_COMMANDS=allow"
        return Check("warn", "sandbox", f"none: {sandbox.reason}. So {asks}")
    return Check("ok" if sandbox.overlay else "warn", "sandbox", sandbox.reason)


def _confinement() -> Check:
    if has_openat2():
        return Check("ok", "confinement", "openat2")
    return Check("ok", "confinement", "walk: slower than openat2, which this system lacks, and as safe")


def _model(settings: Settings) -> Check:
    try:
        model = choose_model(None, settings)
        told = ConfiguredModels(settings).notices(ModelWish())
    except SettingsError as error:  # of presets.toml or models.toml: no run can begin
        return Check("fail", "model", error.message)
    except UsageError as error:
        return Check("warn", "model", error.message)
    return Check("warn" if told else "ok", "model", " ".join([f"{model}.", *told]) if told else str(model))
