"""The input line of a talk: several lines, history, completion, and a line that stays while a run goes on.

Knows nothing of threads: text goes out, words to show come in.
"""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import (
    AbstractContextManager,
    asynccontextmanager,
    nullcontext,
    redirect_stderr,
    redirect_stdout,
)
from functools import partial
from typing import Final, TextIO, cast

from prompt_toolkit import PromptSession
from prompt_toolkit.application import Application, run_in_terminal
from prompt_toolkit.completion import Completer
from prompt_toolkit.document import Document
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import has_focus
from prompt_toolkit.formatted_text import AnyFormattedText, FormattedText
from prompt_toolkit.history import History
from prompt_toolkit.input import Input
from prompt_toolkit.input.typeahead import clear_typeahead
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.patch_stdout import StdoutProxy
from prompt_toolkit.styles import Style

from lockstitch.studio.chat.front import AGAIN, LEAVE, Take
from lockstitch.studio.stop_signals import AGAIN_S, SIGNALS, LeaveError, Presses, StopSignals, on_signals
from lockstitch.studio.terminal import drop_typeahead

MARK: Final = "> "
REDRAWN_S: Final = 0.25  # how often toolbar and spinner are drawn while a run goes on
BUNDLED_S: Final = 0.05  # output of so long is printed at once: each print draws the input line anew
MENU_ROWS: Final = 6
STYLE: Final = Style.from_dict(
    {"bottom-toolbar": "noreverse fg:ansibrightblack", "moment": "fg:ansibrightblack"}
)


class KeysOfTerminal(Vt100Input):
    """Keys that stay keys while output is printed above the line.

    prompt_toolkit would give the terminal its own line editing meanwhile: Enter would come as Ctrl-J then.
    """

    def cooked_mode(self) -> AbstractContextManager[None]:
        """Change nothing."""
        return nullcontext()


class RunOverError(Exception):
    """The line of a run ends with the run; what stood there is kept."""


class _CtrlCError(LeaveError):
    """Ctrl-C at a question; no KeyboardInterrupt, which would go through the event loop's own code."""

    def __init__(self) -> None:
        super().__init__(signal.SIGINT)


class Keyboard:
    """The person's end of a talk. What is half typed stays from one line to the next."""

    def __init__(
        self,
        *,
        history: History,
        completer: Completer,
        toolbar: Callable[[], str],
        presses: Presses,
        keys: Input | None = None,
    ) -> None:
        """`keys` are those of the current prompt_toolkit session if None."""
        self._toolbar = toolbar
        self._presses = presses
        self._half_typed = Document()
        self._run: StopSignals | None = None  # of the run under way
        self._run_over = False
        self._taking = asyncio.Lock()
        self._lines: PromptSession[str] = PromptSession(
            multiline=True,
            history=history,
            completer=completer,
            complete_in_thread=True,
            reserve_space_for_menu=MENU_ROWS,
            search_ignore_case=True,
            key_bindings=_keys(self._press),
            bottom_toolbar=self._bottom,
            prompt_continuation="  ",
            style=STYLE,
            input=keys,
        )
        self._answers: PromptSession[str] = PromptSession(interrupt_exception=_CtrlCError, input=keys)

    def put_back(self, text: str) -> None:
        """Let `text` stand in the next line, before what is half typed."""
        self._half_typed = Document("\n".join(filter(None, (text, self._half_typed.text))))

    async def read(self) -> str:
        """What the person types next; LEAVE for Ctrl-D.

        Raises:
            LeaveError: Ctrl-C twice, or a signal.
        """
        return await self._read_line("\n" + MARK)

    async def ask(self, prompt: str, *, prefill: str = "") -> str:
        """One answer to a question of ours; what was typed before it was asked is none.

        Raises:
            EOFError: Ctrl-D.
            LeaveError: Ctrl-C, or a signal.
        """
        drop_typeahead()
        clear_typeahead(self._answers.app.input)
        app = self._answers.app
        with on_signals(_endings(app, *SIGNALS)):
            try:
                return await self._answers.prompt_async(
                    prompt, default=prefill, handle_sigint=False, set_exception_handler=False
                )
            except LeaveError as error:
                if error.number == signal.SIGINT:  # one more at the next line leaves
                    self._presses.again()
                raise

    @asynccontextmanager
    async def stay(
        self, run: StopSignals, *, take: Take, moment: Callable[[int], str]
    ) -> AsyncIterator[None]:
        """Keep the line while a run goes on: `take` gets what is typed, and output is printed above it.

        `moment` says in at most so many columns what the run is doing.
        """
        proxy = StdoutProxy(sleep_between_writes=BUNDLED_S, raw=True)
        above = cast("TextIO", proxy)  # it has what a console needs
        self._run, self._run_over = run, False
        with redirect_stdout(above), redirect_stderr(above):
            typing = asyncio.create_task(self._take_lines(take, moment))
            try:
                yield
            finally:
                self._run_over = True
                async with self._taking:  # what is being obeyed still has its say
                    proxy.flush()
                await asyncio.to_thread(proxy.close)
                await run_in_terminal(lambda: None)  # comes after all that was to be printed
                _end(self._lines.app, RunOverError())
                await asyncio.wait([typing])
                self._run = None
        await typing

    async def _take_lines(self, take: Take, moment: Callable[[int], str]) -> None:
        app = self._lines.app
        app.erase_when_done, self._lines.refresh_interval = True, REDRAWN_S
        try:
            while not self._run_over:
                line = await self._read_line(lambda: self._beside(moment))
                if self._is_late(line):
                    self._half_typed = Document(line)
                    return
                async with self._taking:
                    await take(line)
        except RunOverError:
            self._half_typed = self._lines.default_buffer.document
        finally:
            app.erase_when_done, self._lines.refresh_interval = False, 0

    def _is_late(self, line: str) -> bool:
        """Whether the run is over, and what the line brings could not be shown above it any more."""
        return self._run_over and line != LEAVE

    async def _read_line(self, message: AnyFormattedText) -> str:
        default, self._half_typed = self._half_typed, Document()
        app = self._lines.app
        endings = _endings(app, signal.SIGTERM, signal.SIGHUP)
        handlers = {} if self._run else endings | {signal.SIGINT: self._press}
        if self._presses.recent:  # of a run or a question: the words about it go away in time
            asyncio.get_running_loop().call_later(AGAIN_S, app.invalidate)
        with on_signals(handlers):
            try:
                return await self._lines.prompt_async(
                    message, default=default, handle_sigint=False, set_exception_handler=False
                )
            except EOFError:
                return LEAVE

    def _press(self) -> None:
        """Ctrl-C: stops the run; else clears the line, says how to leave, or leaves the second time."""
        app, buffer = self._lines.app, self._lines.default_buffer
        if self._run is not None:
            self._presses.again()
            self._run.receive(signal.SIGINT)
        elif buffer.text and not self._presses.recent:
            buffer.reset()
        elif self._presses.again():
            _end(app, LeaveError(signal.SIGINT))
        else:
            app.invalidate()
            asyncio.get_running_loop().call_later(AGAIN_S, app.invalidate)

    def _bottom(self) -> str:
        words = AGAIN if self._presses.recent else self._toolbar()
        return f" {words}"[: self._lines.app.output.get_size().columns]

    def _beside(self, moment: Callable[[int], str]) -> FormattedText:
        width = self._lines.app.output.get_size().columns
        return FormattedText([("class:moment", moment(width - 1)), ("", "\n" + MARK)])


def _endings(app: Application[str], *numbers: int) -> dict[int, Callable[[], object]]:
    return {number: partial(_end, app, LeaveError(number)) for number in numbers}


def _end(app: Application[str], why: BaseException) -> None:
    """End the line that is being read, if one is."""
    if app.is_running and app.future is not None and not app.future.done():
        app.exit(exception=why)


def _keys(press: Callable[[], None]) -> KeyBindings:
    """Enter sends; Alt-Enter, Ctrl-J and a backslash before Enter begin a new line."""
    keys = KeyBindings()
    typing = has_focus(DEFAULT_BUFFER)

    @keys.add("enter", filter=typing)
    def _send(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.complete_state and buffer.complete_state.current_completion:
            buffer.complete_state = None  # the one that was chosen stands in the line already
        elif buffer.document.is_cursor_at_the_end and buffer.text.endswith("\\"):
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
        else:
            buffer.validate_and_handle()

    @keys.add("escape", "enter", filter=typing)
    @keys.add("c-j", filter=typing)
    def _break_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @keys.add("c-c", filter=typing)
    def _interrupt(_event: KeyPressEvent) -> None:
        press()

    return keys
