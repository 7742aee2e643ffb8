"""Rewinds bring back what was there: byte, mode and link, at any step, and an undo what was there before.

A thread of random steps: file tools through the journal, and shell scripts in the sandbox that delete,
rename, chmod, link and write binary files, whose changes are sealed as a command's are. Then random steps
are gone back to by the product's own way (`look_ahead`, `restore`), and every other rewind is undone.
"""

import argparse
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from report import report

from lockstitch.state.errors import AgentError
from lockstitch.state.heads import changes_between
from lockstitch.state.journal import BEGINNING, Effect, Journal, new_effect_id
from lockstitch.state.ledger import open_ledger
from lockstitch.state.objects import ObjectStore
from lockstitch.state.tree_change import Change, Node
from lockstitch.tools.changes.call_journal import StepJournal
from lockstitch.tools.changes.outlook import look_ahead
from lockstitch.tools.changes.restore import open_root, restore
from lockstitch.tools.commands.sandbox import find_sandbox
from lockstitch.tools.confined.tree import Tree, open_file
from lockstitch.tools.workspace import Workspace

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.random_commands import Contents, contents, random_script, sandboxed

THREAD = "bench"
NAMES = ["a", "b", "c.txt", "d/e/x", "d/y", "f/z", "ü", "new/deep/n"]
CALLS_A_STEP = 3
LINES_A_SCRIPT = 4


@dataclass
class Thread:
    """A workspace and its journal, with the tree as it was after each step."""

    root: Path
    journal: Journal
    source: random.Random
    heads: list[str] = field(default_factory=lambda: [BEGINNING])
    trees: list[Contents] = field(default_factory=list)

    @property
    def head(self) -> str:
        """What the files have."""
        return self.journal.position(THREAD)

    def step(self) -> None:
        """Some calls of file tools, or one command."""
        made = StepJournal(
            journal=self.journal,
            thread_id=THREAD,
            checkpoint_id=str(len(self.heads)),
            workspace=self.root,
            head=self.head,
            now=lambda: "2026-01-01T00:00:00+00:00",
        )
        if self.source.random() < 0.5:
            self._command(made)
        else:
            self._calls(made)
        self.heads.append(made.head)
        self.trees.append(contents(self.root))

    def _calls(self, made: StepJournal) -> None:
        with Workspace(self.root) as plain:
            for number in range(CALLS_A_STEP):
                verbs = plain.journaled(made.of_call(str(number), "write_file"))
                try:
                    self._verb(verbs)()
                except AgentError:
                    continue  # as a model's call may fail: nothing is there, or something is

    def _verb(self, verbs: Workspace) -> Callable[[], None]:
        path, other = self.source.choice(NAMES), self.source.choice(NAMES)
        data = self.source.randbytes(self.source.choice([0, 20, 3_000]))
        return self.source.choice(
            [
                lambda: verbs.write_bytes(path, data, create_dirs=True),
                lambda: verbs.write_bytes(path, b"line\n" * self.source.randint(0, 99), create_dirs=True),
                lambda: verbs.delete(path),
                lambda: verbs.move(path, other, create_dirs=True),
                lambda: verbs.move("d", f"d{self.source.randint(0, 9)}"),
            ]
        )

    def _command(self, made: StepJournal) -> None:
        before = self._nodes()
        script = random_script(self.source, steps=LINES_A_SCRIPT, few=5, closes=False)
        sandboxed(("--bind", str(self.root), str(self.root)), self.root, script)
        after = self._nodes()
        paths = sorted(before.keys() | after.keys())
        changes = [Change(path, before.get(path), after.get(path)) for path in paths]
        call = made.of_call("0", "run_command")
        if changed := [change for change in changes if change.before != change.after]:
            call.finish(call.seal(changed, kind="command"))

    def _nodes(self) -> dict[str, Node]:
        """All below the root, their bytes kept."""
        found: dict[str, Node] = {}
        with open_root(self.root) as root, Tree(root) as tree:
            left = list(tree.names("."))
            while left:
                path = left.pop()
                node = tree.node(path)
                assert node is not None
                found[path] = node
                if node.kind == "folder":
                    left += [f"{path}/{name}" for name in tree.names(path)]
                elif node.kind == "file":
                    with tree.parent(path) as (folder, name):
                        fd = open_file(folder, name)
                    self.journal.objects.put_file(fd)
                    os.close(fd)
        return found

    def go_to(self, files: str) -> bool:
        """A rewind; whether nothing stood in its way."""
        position = self.head
        with open_root(self.root) as root:
            outlook = look_ahead(root, changes_between(self.journal, position, files))
            effect = Effect(
                id=new_effect_id(),
                thread_id=THREAD,
                parent=position,
                checkpoint_id="",
                call_id="",
                tool="rewind",
                kind="rewind",
                at="2026-01-01T00:00:00+00:00",
                workspace=str(self.root),
                changes=outlook.ready,
            )
            left = restore(self.journal, effect, root) if outlook.ready else []
        return not (left or outlook.conflicts or outlook.staying)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--rewinds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--figures", action="store_true")
    given = parser.parse_args()
    if not find_sandbox().program:
        report("rewinds", seen=f"none ran: {find_sandbox().reason}", goal="a sandbox", holds=False)
        return 1
    with tempfile.TemporaryDirectory() as place, open_ledger(Path(place, "ledger.db")) as ledger:
        root = Path(place, "work")
        root.mkdir()
        journal = Journal(ledger, ObjectStore(Path(place, "objects"), ledger))
        thread = Thread(root, journal, random.Random(given.seed), trees=[contents(root)])
        for _ in range(given.steps):
            thread.step()
        return 0 if measure(thread, given.rewinds) else 1


def measure(thread: Thread, rewinds: int) -> bool:
    same = undone = 0
    times: list[float] = []
    for _ in range(rewinds):
        step = thread.source.randrange(len(thread.heads))
        before, position = contents(thread.root), thread.head
        began = time.perf_counter()
        free = thread.go_to(thread.heads[step])
        times.append(time.perf_counter() - began)
        same += free and contents(thread.root) == thread.trees[step]
        after = contents(thread.root)
        undone += thread.go_to(position) and contents(thread.root) == before
        if thread.source.random() < 0.5:  # and from here on, or from there
            thread.go_to(thread.heads[step])
            assert contents(thread.root) == after
    steps, effects = len(thread.heads) - 1, len(thread.journal.lineage(thread.heads[-1]))
    half_ms = sorted(times)[len(times) // 2] * 1000
    return all(
        [
            report(
                f"{steps} random steps ({effects} effects), {rewinds} rewinds to any of them",
                seen=f"{same} identical to the byte, mode and link, {half_ms:.0f} ms each at the median",
                goal="all",
                holds=same == rewinds,
            ),
            report(
                f"undo of each of {rewinds} rewinds",
                seen=f"{undone} restored the tree before",
                goal="all",
                holds=undone == rewinds,
            ),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
