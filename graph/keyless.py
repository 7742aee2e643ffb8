"""What a server runs where no model is configured: the demo's script, on a copy of its project."""

import atexit
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lockstitch.graph.demo import copy_project
from lockstitch.graph.models.choice import choose_model
from lockstitch.state.errors import NoModelError
from lockstitch.state.settings import Settings

MODEL: Final = "scripted:demo"
SCRIPTED: Final = (
    "lockstitch: no model is configured, so this server runs the scripted demo model in a copy of the demo "
    "project. Set OPENAI_API_KEY, or OPENAI_BASE_URL and LOCKSTITCH_MODEL, for a real one."
)


@dataclass(frozen=True)
class DemoProject:
    """The copy that this process made; nobody else's folder is ever renewed."""

    folder: Path

    def renew(self) -> None:
        """Put the bug back: a new thread begins at the beginning."""
        shutil.rmtree(self.folder, ignore_errors=True)
        copy_project(self.folder)


def settings_of_server(given: Settings) -> tuple[Settings, DemoProject | None]:
    """The settings; without a model those of the demo with its project, said aloud."""
    try:
        choose_model(None, given)
    except NoModelError:
        print(SCRIPTED, file=sys.stderr)  # noqa: T201  the server's own log begins later
        throw_away = Path(tempfile.mkdtemp(prefix="lockstitch-demo-"))
        atexit.register(shutil.rmtree, throw_away, ignore_errors=True)
        demo = DemoProject(throw_away / "project")
        copy_project(demo.folder)
        return given.model_copy(update={"model": MODEL, "workspace": demo.folder}), demo
    return given, None
