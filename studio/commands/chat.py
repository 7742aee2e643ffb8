"""`lockstitch chat`: prompt after prompt on one thread."""

from pathlib import Path
from typing import Any, Final

import click

from lockstitch.state.errors import AgentError
from lockstitch.studio.run_options import RunOptions, run_options
from lockstitch.studio.session import Session, open_session
from lockstitch.studio.terminal import read_line

PROMPT: Final = "\n> "
LEAVE: Final = frozenset({"/exit", "/quit"})
EXIT_INTERRUPTED: Final = 130  # 128 + SIGINT: a run that Ctrl-C stopped; the talk goes on


@click.command(name="chat")
@run_options
@click.pass_obj
def command(home: Path | None, /, **choices: Any) -> int:
    """Talk with the agent on one thread, prompt after prompt.

    An empty line does nothing; /exit or Ctrl-D leaves. Ctrl-C during a run stops it and comes back here.
    """
    options = RunOptions(home=home, **choices)
    if options.thread is not None and options.latest:
        raise click.UsageError("give one of --thread and --continue.")
    with open_session(options) as session:
        code = 0
        if (options.thread or options.latest) and session.waiting_for():
            code = _turn(session, None)
        while not _ended_by_signal(code) and (prompt := _next_prompt()) is not None:
            code = _turn(session, prompt)
        if session.begun:
            session.say_how_to_go_on()
        return code if _ended_by_signal(code) else 0


def _next_prompt() -> str | None:
    """What to run next; None to leave."""
    while True:
        try:
            line = read_line(PROMPT).strip()
        except (EOFError, KeyboardInterrupt):
            return None
        if line in LEAVE:
            return None
        if line:
            return line.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _turn(session: Session, prompt: str | None) -> int:
    try:
        return session.run(prompt=prompt)
    except AgentError as error:  # the talk goes on: another prompt may fit
        session.view.warn(f"lockstitch: {error.message}")
    except KeyboardInterrupt:  # while being asked: the thread waits, and the next prompt may come
        return 0
    return 0


def _ended_by_signal(code: int) -> bool:
    return code > 128 and code != EXIT_INTERRUPTED
