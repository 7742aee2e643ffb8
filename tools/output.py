"""Results that are too long: how they are cut, and the one wording that says so."""

from typing import Final

from lockstitch.state.spill import SPILL_PREFIX, SpillStore

HEAD_SHARE: Final = 0.5  # of the room; beginnings tell what a text is, ends how it came out
NOTE_CHARS: Final = 160  # room left for the note; the longest one, with 12 digit counts, has 115


def cut_note(*, shown: int, total: int, unit: str, rest: str) -> str:
    """Say what was cut and how to get the rest.

    Args:
        shown: how many are shown.
        total: how many there are.
        unit: of what, in the plural: `lines`, `entries`, `characters`.
        rest: the call that gives the rest, and its verb: `read_file with offset=501 gives the rest`.
    """
    return f"[cut: {shown} of {total} {unit} shown; {rest}]"


def whole_of(text: str, spill: SpillStore) -> str:
    """Keep the whole of a text that is cut, and give the words that say how to read it.

    Raises:
        SystemFaultError: it could not be kept.
    """
    return f'read_file(path="{SPILL_PREFIX}{spill.keep(text)}") gives the whole'


def clip_middle(text: str, *, max_chars: int, spill: SpillStore) -> str:
    """Keep head and tail of a text longer than `max_chars`; the whole goes to `spill`, and a note says so.

    Cuts between lines unless a line alone fills most of the room. The result has at most `max_chars`
    characters, or the note alone where even that has no room.

    Raises:
        SystemFaultError: the text could not be kept.
    """
    if len(text) <= max_chars:
        return text
    room = max(0, max_chars - NOTE_CHARS)
    head = _head(text, int(room * HEAD_SHARE))
    tail = _tail(text, room - int(room * HEAD_SHARE))
    kept = len(head) + len(tail)
    note = cut_note(shown=kept, total=len(text), unit="characters", rest=whole_of(text, spill))
    before = "\n" if head and not head.endswith("\n") else ""
    return f"{head}{before}{note}\n{tail}"


def _head(text: str, room: int) -> str:
    end = text.rfind("\n", 0, room) + 1
    return text[: end if end > room // 2 else room]


def _tail(text: str, room: int) -> str:
    start = len(text) - room
    line = text.find("\n", start) + 1
    return text[line if 0 < line <= start + room // 2 else start :]
