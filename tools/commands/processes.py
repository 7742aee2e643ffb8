"""The long-lived processes of this program: by thread of the agent, started, found, kept, ended."""

import asyncio
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Final

from lockstitch.state.errors import ResourceLimitError, ToolExecutionError, ToolValidationError
from lockstitch.state.finished import finished
from lockstitch.state.settings import CommandNetwork
from lockstitch.tools.commands.long_process import Live, LongProcess
from lockstitch.tools.commands.ready_place import ReadyPlace
from lockstitch.tools.commands.sandbox import Sandbox
from lockstitch.tools.commands.shared_network import SharedNetwork, open_shared_network

RUNNING_MAX: Final = 5  # of one thread: a server, its database, a watcher and two more
ENDED_MAX: Final = 5  # that can still be read; each may hold a megabyte


class ThreadProcesses:
    """Those of one thread. They share a network, so that its commands reach its servers.

    Attributes:
        ready: where a sandbox waits for the thread's next command.
    """

    def __init__(self) -> None:
        self.ready = ReadyPlace()
        self._all: dict[str, LongProcess] = {}
        self._started = 0
        self._lock = threading.Lock()  # of the networks: two may be started at the same time
        self._networks: dict[CommandNetwork, SharedNetwork | None] = {}

    def __iter__(self) -> Iterator[LongProcess]:
        """All that can be read, the first started one first."""
        return iter(list(self._all.values()))

    @property
    def untouched(self) -> bool:
        """Whether none was ever started."""
        return self._started == 0

    def check_room(self) -> None:
        """Raise ResourceLimitError where so many run that none can be started."""
        running = [process.process_id for process in self if process.running]
        if len(running) >= RUNNING_MAX:
            raise ResourceLimitError(
                f"{RUNNING_MAX} processes run already ({', '.join(running)}): stop one with stop_process."
            )

    def start(self, live: Live, *, command: str, folder: str) -> LongProcess:
        """Start one under the next id.

        Raises:
            ResourceLimitError: too many run.
        """
        self.check_room()
        self._started += 1
        process = LongProcess(f"p{self._started}", live, command=command, folder=folder)
        self._all[process.process_id] = process
        for ended in [one for one in self if not one.running][:-ENDED_MAX]:
            self.forget(ended)
        return process

    def find(self, process_id: str) -> LongProcess:
        """The process of that id.

        Raises:
            ToolValidationError: there is none; the message names those there are.
        """
        found = self._all.get(process_id)
        if found is None:
            states = (f"{one.process_id} ({'running' if one.running else 'ended'})" for one in self)
            raise ToolValidationError(
                f"there is no process {process_id!r}. There are: {', '.join(states) or 'none'}. One from "
                "before ended with its run, or with the program that ran it: start_process starts it again."
            )
        return found

    def forget(self, process: LongProcess) -> None:
        """Drop one that has ended."""
        self._all.pop(process.process_id, None)

    def share_network(self, rule: CommandNetwork, sandbox: Sandbox) -> None:
        """Let commands with that rule share a network from here on. Waits for programs.

        Called in a process's own thread: there it is over before the process is, at whose end the network is
        given up.
        """
        if rule == "on" or sandbox.backend != "bubblewrap":
            return  # the machine's own is theirs, or none
        with self._lock:
            if rule not in self._networks:
                self._networks[rule] = open_shared_network(sandbox)

    def shared_network(self, rule: CommandNetwork) -> SharedNetwork | None:
        """The network of the commands that may reach what `rule` says; None: each has its own."""
        return self._networks.get(rule)

    def is_apart(self, rule: CommandNetwork) -> bool:
        """Whether a network should be shared and cannot be."""
        return rule in self._networks and self._networks[rule] is None

    async def end_run(self) -> None:
        """End those that nobody keeps: the run is over. They cannot be read any more."""
        try:
            await _end(process for process in self if not process.kept)
        finally:
            if not self.ready.is_empty:  # as most are, and at the beginning of each run
                await finished(self.ready.end)
        for process in self:
            if not (process.kept or process.running):
                self.forget(process)
        if not any(process.running for process in self):
            for network in self._networks.values():
                if network:
                    network.close()
            self._networks.clear()

    async def end_all(self) -> None:
        """End all of them, kept ones too."""
        for process in self:
            process.kept = False
        await self.end_run()


class Processes:
    """Those of all threads."""

    def __init__(self) -> None:
        self._threads: dict[str, ThreadProcesses] = {}

    def of(self, thread_id: str) -> ThreadProcesses:
        """Those of one thread."""
        return self._threads.setdefault(thread_id, ThreadProcesses())

    async def end_run(self, thread_id: str) -> None:
        """The thread's run is over: end those of its processes that nobody keeps."""
        processes = self.of(thread_id)
        await processes.end_run()
        if processes.untouched:
            self._threads.pop(thread_id, None)

    async def forget(self, thread_id: str) -> None:
        """The thread is deleted: end all of its processes."""
        if processes := self._threads.pop(thread_id, None):
            await processes.end_all()

    async def end_all(self) -> None:
        """This program ends, and all of them with it."""
        await asyncio.gather(*(processes.end_all() for processes in list(self._threads.values())))


async def _end(processes: Iterable[LongProcess]) -> None:
    """End them at the same time; one that cannot end holds nobody up."""
    ending = list(processes)
    for process in ending:
        process.stop()
    for process in ending:
        with suppress(ToolExecutionError):
            await process.end()
