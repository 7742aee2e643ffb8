"""The slash commands that move: to another thread, a new one, an emptier one, or out."""

from typing import Final

from lockstitch.graph.parts import utc_now
from lockstitch.state.errors import ThreadUnknownError, UsageError
from lockstitch.state.threads import check_thread_id
from lockstitch.studio.chat.gauge import ID_CHARS
from lockstitch.studio.chat.talk import Talk
from lockstitch.studio.housekeeping import open_housekeeping
from lockstitch.studio.visible import one_line

THREADS_SHOWN: Final = 15  # one line each, less than a screen
TITLE_CHARS: Final = 44  # of a thread, beside number, id and reason within 80 columns


async def list_or_switch(talk: Talk, wanted: str) -> None:
    """List the threads, or go on with one."""
    if wanted:
        await talk.session.turn_to(_find_thread(talk, wanted))
        await talk.refresh()
        talk.say(f"thread {talk.session.thread_id}")
        return
    rows = talk.session.service.threads.recent(THREADS_SHOWN)
    talk.listed = [row.thread_id for row in rows]
    if not rows:
        talk.say("No threads yet: a prompt begins one.")
    for number, row in enumerate(rows, start=1):
        mark = "*" if row.thread_id == talk.session.thread_id else " "
        title = one_line(row.title, max_chars=TITLE_CHARS) or "(no words)"
        talk.say(f"{mark}{number:>3}  {row.thread_id[:ID_CHARS]}  {row.reason or row.phase:<15}  {title}")
    if rows:
        talk.say("/threads NUMBER goes on with one of them.")


def _find_thread(talk: Talk, wanted: str) -> str:
    """The id meant by a number of the last list, the beginning of an id, or an id."""
    if wanted.isdecimal() and 1 <= int(wanted) <= len(talk.listed):
        return talk.listed[int(wanted) - 1]
    rows = talk.session.service.threads.recent(THREADS_SHOWN)
    found = [row.thread_id for row in rows if row.thread_id.startswith(wanted.lower())]
    if len(found) > 1:
        raise ThreadUnknownError(f"{wanted} begins {len(found)} ids: give more of it.")
    if found:
        return found[0]
    try:
        return check_thread_id(wanted)
    except UsageError:
        raise ThreadUnknownError(f"there is no thread {wanted[:80]!r}: /threads lists them.") from None


async def begin_thread(talk: Talk, _: str) -> None:
    """Begin a new thread."""
    talk.session.begin_anew()
    await talk.refresh()
    talk.say("A new thread: the next prompt begins it.")


async def compact_thread(talk: Talk, _: str) -> None:
    """Have the older turns summarised before the next call of the model."""
    _must_have_begun(talk)
    await talk.session.service.ask_for_room(talk.session.thread_id)
    talk.say("The older turns are summarised when the next run begins.")


async def clear_thread(talk: Talk, word: str) -> None:
    """Make the thread forget what was said and done in it, once the person has said yes."""
    if word != "yes":
        raise UsageError("/clear forgets this thread's messages, steps and tasks for good: say /clear yes.")
    _must_have_begun(talk)
    async with open_housekeeping(talk.session.service.parts.settings) as house:
        await house.clear(talk.session.thread_id, now=utc_now())
    await talk.refresh()
    talk.say("Cleared: the thread remembers nothing, the files are as they were.")


def _must_have_begun(talk: Talk) -> None:
    if not talk.session.begun:
        raise UsageError("this thread has not begun: there is nothing to forget or to summarise.")


async def leave(talk: Talk, _: str) -> None:
    """Leave; a run under way is stopped."""
    talk.leaving = True
    if talk.running and talk.handle:
        talk.handle.stop()
