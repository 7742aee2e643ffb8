"""Ctrl-C, SIGTERM and SIGHUP while something runs: the first one stops it in good order, a second leaves."""

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
EXIT_OF_SIGNAL: Final = 128  # added to a signal's number, as shells report it


class StopSignals:
    """Which signal came first; `exit_code` is None while none has."""

    def __init__(self, stop: Callable[[], object]) -> None:
        self._stop = stop
        self.exit_code: int | None = None

    def receive(self, number: int) -> None:
        """Stop, or leave at once the second time: cleaning up may be what hangs."""
        if self.exit_code is not None:
            os._exit(EXIT_OF_SIGNAL + number)
        self.exit_code = EXIT_OF_SIGNAL + number
        self._stop()


@contextmanager
def on_stop_signals(stop: Callable[[], object]) -> Iterator[StopSignals]:
    """Call `stop` on the first signal, inside a running event loop of the main thread.

    A signal that the caller told us to ignore (`nohup`, a shell's background job) stays ignored.
    """
    loop, received = asyncio.get_running_loop(), StopSignals(stop)
    taken = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    for number in taken:
        loop.add_signal_handler(number, received.receive, number)
    try:
        yield received
    finally:
        for number in taken:
            loop.remove_signal_handler(number)
