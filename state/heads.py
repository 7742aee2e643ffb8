"""The way from one state of a thread's files to another: back to where they parted, then forward."""

from typing import Final

from lockstitch.state.journal import BEGINNING, Effect, Journal
from lockstitch.state.tree_change import Change, compose, inverse

REPOSITORY: Final = ".git"
NEAR: Final = 32  # effects of one step, nearly always: to look through these is quicker than to list a line


def changes_between(journal: Journal, from_head: str, to_head: str) -> list[Change]:
    """What leads from the files of one head to those of another, one change a path, sorted by path.

    Read from the journal alone, without a look at the disk: `before` is what the files have if nobody else
    has changed them. The heads may lie on one line, or on two that a fork has parted. An effect that was
    given up changes nothing. The workspace's own `.git` is left out: a commit stays made.

    Raises:
        SystemFaultError: an effect on the way is missing.
    """
    near = _if_near(journal, from_head, to_head)
    if near is not None:
        return compose(change for effect in near for change in _made(effect))
    back, forward = journal.lineage(from_head), journal.lineage(to_head)
    while back and forward and back[-1] == forward[-1]:  # the common beginning
        back.pop()
        forward.pop()
    taken_back = [change for effect_id in back for change in inverse(_made(journal.effect(effect_id)))]
    made = [change for effect_id in reversed(forward) for change in _made(journal.effect(effect_id))]
    return compose(taken_back + made)


def _if_near(journal: Journal, from_head: str, to_head: str) -> list[Effect] | None:
    """The effects that lead forward from one head to the other, where they are few; else None."""
    found: list[Effect] = []
    while to_head != from_head:
        if to_head == BEGINNING or len(found) == NEAR:
            return None
        found.append(journal.effect(to_head))
        to_head = found[-1].parent
    return found[::-1]


def _made(effect: Effect) -> list[Change]:
    if effect.status == "void":
        return []
    return [change for change in effect.changes if change.path.partition("/")[0] != REPOSITORY]
