"""The builds of indexes that go on in the background of this process, one at a time, and their stop."""

import asyncio
import logging
import threading
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from lockstitch.state.errors import AgentError, SystemFaultError
from lockstitch.state.settings import Settings
from lockstitch.tools.code_index.build import BuildReport, Progress, Watch, refresh_index
from lockstitch.tools.code_index.build_lock import hold_index
from lockstitch.tools.code_index.encoder import find_encoder
from lockstitch.tools.code_index.indexes import Indexes
from lockstitch.tools.code_index.look_up import find_denial
from lockstitch.tools.code_index.telling import until_stopped
from lockstitch.tools.workspace import Workspace

OUR_FAULT: Final = "The build failed. The server's log says why; what was built is kept."
DRAIN_S: Final = 5.0  # for builds to be stopped at the end: a batch takes half a second, an endpoint longer
KEPT: Final = 100  # builds whose end is remembered
_log = logging.getLogger(__name__)


class Place(NamedTuple):
    """Which index: of a workspace without links, by name."""

    workspace: Path
    name: str


class Build:
    """One build: how far it is, and how it ended. Written by its thread, read by the event loop."""

    def __init__(self) -> None:
        self.stop = threading.Event()
        self.progress: Progress | None = None
        self.report: BuildReport | None = None
        self.fault = ""
        self.task: asyncio.Task[None] | None = None

    @property
    def goes_on(self) -> bool:
        """Whether it is not over; it may still wait for another one."""
        return self.task is not None and not self.task.done()

    def hear(self, progress: Progress) -> None:
        """Note how far it is."""
        self.progress = progress


class Builds:
    """The builds of one process. Lives on one event loop."""

    def __init__(self, home: Path, settings: Settings) -> None:
        self._home = home
        self._settings = settings
        self._builds: dict[Place, Build] = {}
        self._turn = asyncio.Lock()  # a build takes a processor: two at once gain nothing
        self._closed = False

    def find(self, place: Place) -> Build | None:
        """The last build of this index, here and since the start; None where there was none."""
        return self._builds.get(place)

    async def start(self, place: Place) -> Build:
        """Build or refresh in the background; the one that goes on already, if there is one.

        Raises:
            IndexBusyError: another process builds it.
            ToolValidationError: that is no name.
            HomeUnusableError, SystemFaultError: it cannot be opened, or this process is about to end.
        """
        if self._closed:
            raise SystemFaultError("this server is about to end: try again once it runs again.")
        before = self._builds.get(place)
        if before and before.goes_on:
            return before
        await asyncio.to_thread(self._check_free, place)
        if (meanwhile := self._builds.get(place)) and meanwhile.goes_on:
            return meanwhile
        build = self._builds[place] = Build()
        build.task = asyncio.create_task(self._run(place, build))
        self._forget_old()
        return build

    def stop(self, place: Place) -> bool:
        """Stop a build; what it has done is kept. False where none goes on here."""
        build = self._builds.get(place)
        if build is None or not build.goes_on:
            return False
        build.stop.set()
        return True

    async def rest(self, *, timeout_s: float | None = None) -> None:
        """Wait until no build goes on, or so long."""
        tasks = [build.task for build in self._builds.values() if build.task]
        if tasks:
            await asyncio.wait(tasks, timeout=timeout_s)

    async def close(self) -> None:
        """Stop all builds in good order, and begin no more."""
        self._closed = True
        for build in self._builds.values():
            build.stop.set()
        await self.rest(timeout_s=DRAIN_S)

    async def _run(self, place: Place, build: Build) -> None:
        async with self._turn:
            try:
                build.report = await until_stopped(partial(self._work, place, build), build.stop)
            except AgentError as error:
                build.fault = error.message
            except Exception as error:  # noqa: BLE001  the border of a worker: its text may hold anything
                _log.error("the build of an index failed (%s)", type(error).__name__)
                build.fault = OUR_FAULT

    def _work(self, place: Place, build: Build) -> BuildReport:
        """The build itself, in a worker thread."""
        encoder = find_encoder(self._settings)
        watch = Watch(tell=build.hear, is_stopped=build.stop.is_set)
        with (
            Workspace(place.workspace, hidden=(self._home,)) as workspace,
            Indexes(self._home, workspace.root).open(place.name) as index,
        ):
            is_denied = find_denial(self._home, workspace)
            return refresh_index(index, workspace, encoder, watch, is_denied=is_denied)

    def _check_free(self, place: Place) -> None:
        with Indexes(self._home, place.workspace).open(place.name) as index, hold_index(index.path):
            pass

    def _forget_old(self) -> None:
        over = [place for place, build in self._builds.items() if not build.goes_on]
        for place in over[: max(0, len(self._builds) - KEPT)]:
            del self._builds[place]
