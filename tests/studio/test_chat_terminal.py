"""A talk at a real terminal, with its input line: what is typed beside a run, Ctrl-C, and how it is left."""

import os
import re
import signal
import stat
import termios
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lockstitch.studio.cli import main

Start = Callable[..., Any]
Scenario = Callable[[str], str]

PATIENCE_S = 60.0  # for a loaded machine
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
CTRL_C, CTRL_D = "\x03", "\x04"
SLEEPS = """
- calls: [{tool: run_command, args: {command: "echo on > began; exec sleep 30"}}]
- say: All done.
"""
WAITS = """
- calls: [{tool: run_command, args: {command: "until test -e go; do sleep 0.01; done"}}]
- calls: [{tool: request_input, args: {question: "Which title?"}}]
- say: All done.
"""


@pytest.fixture(autouse=True)
def good_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that understands commands, but answers no questions about itself."""
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("PROMPT_TOOLKIT_NO_CPR", "1")
    monkeypatch.setenv("LOCKSTITCH_UNSANDBOXED_COMMANDS", "allow")
    monkeypatch.setenv("LOCKSTITCH_COMMAND_LAYERS", "0")  # commands wait for files that the test makes


class Talker:
    """A person who waits for the input line, and knows what the terminal was like before."""

    def __init__(self, start: Start, *argv: str) -> None:
        self.terminal = start("chat", "--mode", "auto", *argv)
        self.before = termios.tcgetattr(self.terminal._master)
        self._seen = 0
        self.terminal.expect("\x1b[?2004h")  # the input line stands there

    def expect(self, text: str) -> None:
        """Wait until `text` has been shown since the last time, whatever its colours."""
        deadline = time.monotonic() + PATIENCE_S
        while text not in (plain := ESCAPES.sub("", self.terminal.shown))[self._seen :]:
            assert self.terminal._read(deadline), f"{text!r} was not shown, but: {plain[self._seen :]}"
        self._seen = plain.index(text, self._seen) + len(text)

    def press(self, keys: str) -> None:
        os.write(self.terminal._master, keys.encode())

    def left_with(self) -> tuple[int, bool]:
        """The exit code, and whether the terminal is as it was before."""
        code = self.terminal.code()
        modes = re.findall("\x1b\\[\\?(?:25|2004)[hl]", self.terminal.shown)
        drawn = modes == [] or {"\x1b[?2004h", "\x1b[?25l"}.isdisjoint(
            {[m for m in modes if "25h" in m or "25l" in m][-1], [m for m in modes if "2004" in m][-1]}
        )
        return code, drawn and termios.tcgetattr(self.terminal._master) == self.before


@pytest.fixture
def talk(terminal: Start) -> Callable[..., Talker]:
    return lambda *argv: Talker(terminal, *argv)


def test_what_is_typed_beside_a_run_is_handed_over_and_questions_come_in_the_same_place(
    talk: Callable[..., Talker], scenario: Scenario, workspace: Path, home: Path
):
    scenario(WAITS)
    person = talk()
    person.press("first\r")
    person.expect("until test -e go")
    person.press("and mind the title\r")
    person.expect("(handed to the next step)")
    person.press("half")
    (workspace / "go").write_text("")
    person.expect("your answer:")
    person.press("The Sea\r")
    person.expect("All done.")
    person.expect("> half")
    person.press(" a word" + "\x15" + CTRL_D)
    person.expect("Go on: lockstitch run --thread ")
    assert person.left_with() == (0, True)
    history = home / "chat_history"
    assert stat.S_IMODE(history.stat().st_mode) == 0o600
    lines = [line for line in history.read_text().splitlines() if line.startswith("+")]
    assert lines == ["+first", "+and mind the title"]


def test_ctrl_c_stops_the_run_and_the_talk_goes_on(
    talk: Callable[..., Talker], scenario: Scenario, workspace: Path
):
    scenario(SLEEPS)
    person = talk()
    person.press("first\r")
    person.expect("exec sleep 30")
    person.press(CTRL_C)
    person.expect("Stopped; the thread is kept.")
    person.expect(">")
    person.press("second\r")
    person.expect("All done.")
    person.press(CTRL_D)
    assert person.left_with() == (0, True)


@pytest.mark.parametrize("times", [2, 3, 5])
def test_ctrl_c_pressed_again_leaves_in_good_order(
    talk: Callable[..., Talker], scenario: Scenario, times: int
):
    scenario(SLEEPS)
    person = talk()
    person.press("first\r")
    person.expect("exec sleep 30")
    person.press(CTRL_C * times)
    assert person.left_with() == (130, True)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("busy", [False, True])
def test_a_signal_leaves_the_terminal_in_order(
    talk: Callable[..., Talker], scenario: Scenario, number: signal.Signals, *, busy: bool
):
    scenario(SLEEPS)
    person = talk()
    if busy:
        person.press("first\r")
        person.expect("exec sleep 30")
    person.terminal.process.send_signal(number)
    assert person.left_with() == (128 + number, True)


def test_a_slash_command_beside_a_run_is_obeyed_and_not_said(
    talk: Callable[..., Talker], scenario: Scenario, workspace: Path
):
    scenario(WAITS)
    person = talk()
    person.press("first\r")
    person.expect("until test -e go")
    person.press("/steps 9\r")
    person.expect("at most 9 steps a run")
    person.press("/new\r")
    person.expect("/new waits until the run is over")
    person.press("/exit\r")
    assert person.left_with() == (0, True)
    assert "handed" not in person.terminal.shown


def test_a_command_that_cannot_be_done_stands_there_to_be_mended(
    talk: Callable[..., Talker], scenario: Scenario
):
    scenario("- say: One.")
    person = talk()
    person.press("/modle x\r")
    person.expect("there is no command /modle")
    person.expect("> /modle x")
    person.press("\x15" + CTRL_D)
    assert person.left_with() == (0, True)


def test_a_mode_chosen_beside_a_run_is_for_the_next_one(
    talk: Callable[..., Talker], scenario: Scenario, workspace: Path
):
    scenario("""
    - calls: [{tool: run_command, args: {command: "until test -e go; do sleep 0.01; done"}}]
    - calls: [{tool: run_command, args: {command: "echo second"}}]
    - calls: [{tool: run_command, args: {command: "echo third > made"}}]
    - say: All done.
    """)
    person = talk("--mode", "ask")
    person.press("first\r")
    person.expect("leave waiting:")
    person.press("a\r")
    person.expect("running run_command")
    person.press("/mode auto\r")
    person.expect("mode auto, from the next run on")
    (workspace / "go").write_text("")
    for command, answer in (("echo second", "a\r"), ("echo third > made", "r\r")):
        person.expect(f"command: {command}")
        person.expect("leave waiting:")
        person.press(answer)
    person.expect("why not:")
    person.press("no\r")
    person.expect("All done.")
    assert not (workspace / "made").exists()
    person.press(CTRL_D)
    assert person.left_with() == (0, True)


def test_paths_are_those_of_the_thread_that_was_switched_to(
    talk: Callable[..., Talker], scenario: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    scenario("- say: All done.")
    there = tmp_path / "there"
    there.mkdir()
    (there / "theirs.txt").write_text("")
    assert main(["run", "first", "--workspace", str(there)]) == 0
    person = talk()
    person.press("/threads\r")
    person.expect("goes on with one of them.")
    person.press("/threads 1\r")
    person.expect("thread ")
    person.press("@the")
    person.expect("theirs.txt")
    person.press("\x15" + CTRL_D)
    person.left_with()
