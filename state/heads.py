"""The way from one state of a thread's files to another: back to where they parted, then forward."""

from lockstitch.state.journal import Effect, Journal
from lockstitch.state.tree_change import Change, compose, inverse


def changes_between(journal: Journal, from_head: str, to_head: str) -> list[Change]:
    """What leads from the files of one head to those of another, one change a path, sorted by path.

    Read from the journal alone, without a look at the disk: `before` is what the files have if nobody else
    has changed them. The heads may lie on one line, or on two that a fork has parted. An effect that was
    given up changes nothing.

    Raises:
        SystemFaultError: an effect on the way is missing.
    """
    back, forward = journal.lineage(from_head), journal.lineage(to_head)
    while back and forward and back[-1] == forward[-1]:  # the common beginning
        back.pop()
        forward.pop()
    taken_back = [change for effect_id in back for change in inverse(_made(journal.effect(effect_id)))]
    made = [change for effect_id in reversed(forward) for change in _made(journal.effect(effect_id))]
    return compose(taken_back + made)


def _made(effect: Effect) -> tuple[Change, ...]:
    return () if effect.status == "void" else effect.changes
