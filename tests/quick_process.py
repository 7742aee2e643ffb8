"""A second process that has answered all it was asked before the look begins, as if it were much faster."""

import os
import select
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from lockstitch.tools.changes import scan_walk, second_walk
from lockstitch.tools.changes.second_process import SecondProcess
from lockstitch.tools.changes.second_walk import SecondWalk

ANSWER_S = 60.0


class QuickProcess(SecondProcess):
    def ask(self, request: bytes, descriptors: Sequence[int]) -> None:
        super().ask(request, descriptors)
        assert select.select([self._wire], [], [], ANSWER_S)[0]


@contextmanager
def helped_by(process: SecondProcess) -> Iterator[SecondWalk]:
    """Looks at workspaces of any size are helped by that process."""
    helper = SecondWalk(process)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(scan_walk, "SECOND_WALK", helper)
        patched.setattr(second_walk, "FILES_MIN", 0)
        patched.setattr(os, "sched_getaffinity", lambda _: {0, 1})
        try:
            yield helper
        finally:
            process.end()
