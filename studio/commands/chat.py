"""`lockstitch chat`: prompt after prompt on one thread."""

from pathlib import Path
from typing import Any

import click

from lockstitch.studio.chat.front import Front, PlainFront
from lockstitch.studio.chat.loop import Loop
from lockstitch.studio.chat.talk import Talk, open_talk
from lockstitch.studio.run_options import RunOptions, run_options
from lockstitch.studio.session import open_session
from lockstitch.studio.terminal import person_is_here, terminal_is_dumb


@click.command(name="chat")
@run_options
@click.pass_obj
def command(home: Path | None, /, **choices: Any) -> int:
    """Talk with the agent on one thread, prompt after prompt.

    Enter sends, Alt-Enter begins a new line, @ completes a path, /help lists the commands. What is typed
    while the agent works is handed to its next step. Ctrl-C stops a run; twice, or Ctrl-D, leaves.
    """
    options = RunOptions(home=home, **choices)
    if options.thread is not None and options.latest:
        raise click.UsageError("give one of --thread and --continue.")
    with open_session(options) as session:
        talk = open_talk(session)
        loop = Loop(talk, _front(talk))
        code = loop.go()
        if session.begun:
            session.say_how_to_go_on()
        return code or (0 if person_is_here() else loop.last)  # a script is told how its last line ended


def _front(talk: Talk) -> Front:
    if not person_is_here() or terminal_is_dumb():
        return PlainFront()
    from lockstitch.studio.chat.keyboard_front import KeyboardFront  # prompt_toolkit, for this alone

    return KeyboardFront(talk)
