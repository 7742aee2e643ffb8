"""`lockstitch run`: one prompt, or one answer, on a thread."""

from pathlib import Path
from typing import Any

import click

from lockstitch.studio.ask import Reply
from lockstitch.studio.run_options import RunOptions, run_options
from lockstitch.studio.session import EXIT_WAITING, open_session
from lockstitch.studio.terminal import read_pipe


@click.command(name="run")
@click.argument("prompt", required=False)
@run_options
@click.option("--approve", is_flag=True, help="Say yes to the call that the thread waits with.")
@click.option("--reject", metavar="WHY", help="Say no to it, with the reason.")
@click.option("--answer", metavar="TEXT", help="Answer its question, or give the call's result yourself.")
@click.option("--json", "as_json", is_flag=True, help="Write events as lines of JSON, and nothing else.")
@click.pass_obj
def command(
    home: Path | None,
    /,
    *,
    prompt: str | None,
    approve: bool,
    reject: str | None,
    answer: str | None,
    as_json: bool,
    **choices: Any,
) -> int:
    """Run the agent on a prompt, or go on with a thread.

    The PROMPT may also come through a pipe. Without one, --thread or --continue go on where the thread
    stands. Exit codes: 0 done, 1 a fault of this program or machine, 2 wrong usage, 3 step limit, 4 cost or
    token limit, 5 time limit, 6 stuck, 7 a person must answer first, 8 security, 9 model, 10 thread busy,
    130 stopped.
    """
    options = RunOptions(home=home, **choices)
    reply = read_reply(approve=approve, reject=reject, answer=answer)
    if reply is None and prompt is None:
        prompt = read_pipe()
    _check(options, prompt, reply)
    with open_session(options, as_json=as_json) as session:
        code = session.run(prompt=_encodable(prompt), reply=reply)
        if code != EXIT_WAITING:  # then the ways to answer have been told
            session.say_how_to_go_on(prompt=code == 0)  # after any other end it goes on as it is
        return code


def read_reply(*, approve: bool, reject: str | None, answer: str | None) -> Reply | None:
    """The person's word in the options; None when there is none.

    Raises:
        click.UsageError: there are two.
    """
    replies: list[Reply] = []
    if approve:
        replies.append({"type": "approve"})
    if reject is not None:
        replies.append({"type": "reject", "message": reject})
    if answer is not None:
        replies.append({"type": "respond", "message": answer})
    if len(replies) > 1:
        raise click.UsageError("give one of --approve, --reject and --answer.")
    return replies[0] if replies else None


def _check(options: RunOptions, prompt: str | None, reply: Reply | None) -> None:
    known = options.thread is not None or options.latest
    if options.thread is not None and options.latest:
        raise click.UsageError("give one of --thread and --continue.")
    if prompt is not None and not prompt.strip():
        raise click.UsageError("the PROMPT is empty.")
    if reply is not None and prompt is not None:
        raise click.UsageError("give a PROMPT or an answer, not both.")
    if reply is not None and not known:
        raise click.UsageError("an answer needs its thread: add --thread ID or --continue.")
    if reply is None and prompt is None and not known:
        raise click.UsageError("give a PROMPT, or --thread ID or --continue to go on.")


def _encodable(prompt: str | None) -> str | None:
    """The prompt without the stray bytes of an argument in another encoding: nothing could store those."""
    return prompt and prompt.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
