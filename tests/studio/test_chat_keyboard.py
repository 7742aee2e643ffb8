"""The input line without a terminal: keys come through a pipe, nothing is drawn."""

import asyncio
import signal
from collections.abc import Iterator

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.completion import WordCompleter
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output import DummyOutput

from lockstitch.studio.chat.keyboard import Keyboard
from lockstitch.studio.stop_signals import LeaveError, Presses, StopSignals

UP, CTRL_C, CTRL_D, CTRL_R, ALT_ENTER = "\x1b[A", "\x03", "\x04", "\x12", "\x1b\r"


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def keys() -> Iterator[PipeInput]:
    with create_pipe_input() as pipe, create_app_session(input=pipe, output=DummyOutput()):
        yield pipe


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def keyboard(keys: PipeInput, clock: Clock) -> Keyboard:
    return Keyboard(
        history=InMemoryHistory(["an older line"]),
        completer=WordCompleter([]),
        toolbar=lambda: "toolbar",
        presses=Presses(clock),
    )


@pytest.mark.parametrize(
    ("typed", "line"),
    [
        ("one\r", "one"),
        (f"one{ALT_ENTER}two\r", "one\ntwo"),
        ("one\ntwo\r", "one\ntwo"),
        ("one\\\rtwo\r", "one\ntwo"),
        ("\x1b[200~one\ntwo\nthree\x1b[201~\r", "one\ntwo\nthree"),
        (f"{UP}\r", "an older line"),
        (f"{CTRL_R}older\r\r", "an older line"),
        (f"away{CTRL_C}here\r", "here"),
        (CTRL_D, "/exit"),
    ],
)
async def test_keys_make_a_line(keyboard: Keyboard, keys: PipeInput, typed: str, line: str):
    keys.send_text(typed)
    assert await keyboard.read() == line


async def test_ctrl_c_twice_in_short_order_leaves(keyboard: Keyboard, keys: PipeInput):
    keys.send_text(CTRL_C + CTRL_C)
    with pytest.raises(LeaveError) as left:
        await keyboard.read()
    assert left.value.exit_code == 130


async def test_ctrl_c_once_says_how_to_leave_for_a_while(keyboard: Keyboard, keys: PipeInput, clock: Clock):
    reading = asyncio.create_task(keyboard.read())
    keys.send_text(CTRL_C)
    await until(lambda: keyboard._bottom() == " Ctrl-C again to leave")
    clock.now += 3
    assert keyboard._bottom() == " toolbar"
    keys.send_text(CTRL_C + "on\r")
    assert await reading == "on"


async def test_a_signal_that_ends_programs_leaves(keyboard: Keyboard):
    reading = asyncio.create_task(keyboard.read())
    await until(lambda: keyboard._lines.app.is_running)
    signal.raise_signal(signal.SIGTERM)
    with pytest.raises(LeaveError) as left:
        await reading
    assert left.value.exit_code == 143
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


async def test_what_is_typed_beside_a_run_is_taken_and_the_rest_stays(keyboard: Keyboard, keys: PipeInput):
    taken: list[str] = []

    async def take(line: str) -> None:
        taken.append(line)

    run = StopSignals(lambda: None)
    async with keyboard.stay(run, take=take, moment=lambda _: "working"):
        keys.send_text("one\rtwo\rhalf")
        await until(lambda: keyboard._lines.default_buffer.text == "half")
    assert taken == ["one", "two"]
    keys.send_text(" done\r")
    assert await keyboard.read() == "half done"


async def test_a_line_that_comes_when_the_run_is_over_stays(keyboard: Keyboard, keys: PipeInput):
    taken: list[str] = []

    async def take(line: str) -> None:
        taken.append(line)

    async with keyboard.stay(StopSignals(lambda: None), take=take, moment=lambda _: "moment"):
        await until(lambda: keyboard._lines.app.is_running)
        keyboard._run_over = True  # while its last words are printed
        keys.send_text("/cost\r")
        await until(lambda: not keyboard._lines.app.is_running)
    assert taken == []
    keys.send_text("\r")
    assert await keyboard.read() == "/cost"


async def test_ctrl_c_beside_a_run_stops_it(keyboard: Keyboard, keys: PipeInput):
    stopped: list[str] = []

    async def take(line: str) -> None:
        stopped.append(line)

    run = StopSignals(lambda: stopped.append("stop"))
    async with keyboard.stay(run, take=take, moment=lambda _: ""):
        keys.send_text("half" + CTRL_C)
        await until(lambda: bool(stopped))
    assert (stopped, run.exit_code) == (["stop"], 130)
    keys.send_text(CTRL_C)  # the second, at the prompt
    with pytest.raises(LeaveError):
        await keyboard.read()


async def test_a_failure_to_take_a_line_is_no_silence(keyboard: Keyboard, keys: PipeInput):
    taken: list[str] = []

    async def take(line: str) -> None:
        taken.append(line)
        raise ValueError(line)

    async def run() -> None:
        async with keyboard.stay(StopSignals(lambda: None), take=take, moment=lambda _: ""):
            keys.send_text("one\r")
            await until(lambda: bool(taken))

    with pytest.raises(ValueError, match="one"):
        await run()


async def test_an_answer_is_no_line_of_the_history_and_has_its_own_ending(
    keyboard: Keyboard, keys: PipeInput
):
    keyboard.put_back("half")
    asking = asyncio.create_task(keyboard.ask("why: ", prefill="be"))
    await until(lambda: keyboard._answers.app.is_running)
    keys.send_text("cause\r")
    assert await asking == "because"
    keys.send_text(f"\x15{UP}\r")
    assert await keyboard.read() == "an older line"
    asking = asyncio.create_task(keyboard.ask("why: "))
    await until(lambda: keyboard._answers.app.is_running)
    keys.send_text(CTRL_C)
    with pytest.raises(LeaveError) as left:
        await asking
    assert left.value.number == signal.SIGINT


async def test_ctrl_c_at_a_question_is_the_first_of_two(keyboard: Keyboard, keys: PipeInput):
    asking = asyncio.create_task(keyboard.ask("why: "))
    await until(lambda: keyboard._answers.app.is_running)
    keys.send_text(CTRL_C)
    with pytest.raises(LeaveError):
        await asking
    keys.send_text(CTRL_C)
    async with asyncio.timeout(20):
        with pytest.raises(LeaveError) as left:
            await keyboard.read()
    assert left.value.number == signal.SIGINT


async def until(true: object) -> None:
    """Let the loop go round until it is so."""
    assert callable(true)
    async with asyncio.timeout(20):
        while not true():  # noqa: ASYNC110  what others do is seen, not told
            await asyncio.sleep(0.001)
