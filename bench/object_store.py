"""What keeping files costs: the store after 100 one-line edits of 1 MB, and the journal of one written file.

CPU is user and system time of this process. The disk is that of the system's temporary folder.
"""

import argparse
import random
import statistics
import string
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from report import report

from lockstitch.state.journal import BEGINNING, Effect, Journal, new_effect_id
from lockstitch.state.ledger import open_ledger
from lockstitch.state.objects import ObjectStore
from lockstitch.state.tree_change import Change, Node

EDITS = 100
LINES, LINE_CHARS = 17_000, 61  # 1 MB
STORE_MB_MAX = 3.0
JOURNAL_CPU_MS = 0.4  # of a step that writes one file
MANY = 10_000  # changes of one command
BLOCKS = 3  # of the rounds: what else runs on the machine makes CPU time longer, too
WARM = 500  # puts before those that are measured: the first ones make the 256 folders


def timed(work: Callable[[int], object], rounds: int) -> tuple[float, float]:
    """(CPU ms on the average, wall ms at the median) of one round; of BLOCKS the one with the least CPU."""
    blocks = []
    for block in range(BLOCKS):
        walls: list[float] = []
        cpu = time.process_time()
        for number in range(block * rounds // BLOCKS, (block + 1) * rounds // BLOCKS):
            began = time.perf_counter()
            work(number)
            walls.append((time.perf_counter() - began) * 1000)
        blocks.append(((time.process_time() - cpu) * 1000 / len(walls), statistics.median(walls)))
    return min(blocks)


def shown(cost: tuple[float, float]) -> str:
    return f"{cost[0]:.2f} ms CPU, {cost[1]:.2f} ms wall"


def words(source: random.Random, chars: int) -> bytes:
    """Text without any pattern but its letters: about the worst that a source file can be."""
    return "".join(source.choices(string.ascii_letters + "    ", k=chars)).encode()


def versions(source: random.Random) -> list[bytes]:
    """A file of 1 MB, and what each of the edits makes of it."""
    lines = [words(source, LINE_CHARS - 1) for _ in range(LINES)]
    found = [b"\n".join(lines)]
    for _ in range(EDITS):
        lines[source.randrange(LINES)] = words(source, LINE_CHARS - 1)
        found.append(b"\n".join(lines))
    return found


def long_file(folder: Path) -> None:
    """One file, edited again and again."""
    contents = versions(random.Random(1))
    with open_ledger(folder / "ledger.db") as ledger:
        store = ObjectStore(folder / "objects", ledger)
        digests = [store.put(contents[0])]
        put = timed(lambda n: digests.append(store.put(contents[n + 1], base=digests[-1])), EDITS)
        read = timed(lambda n: store.read(digests[n]), EDITS + 1)
        whole = all(store.read(digest) == content for digest, content in zip(digests, contents, strict=True))
    files = [path.stat() for path in folder.rglob("*") if path.is_file()]
    size = sum(file.st_size for file in files) / 1e6
    disk = sum(file.st_blocks for file in files) * 512 / 1e6
    report(
        f"object store after {EDITS} one-line edits of a file of {len(contents[0]) / 1e6:.1f} MB",
        seen=f"{size:.2f} MB, {disk:.2f} on disk; put {shown(put)}, read {shown(read)}; "
        + ("all equal to the byte" if whole else "NOT EQUAL"),
        goal=f"at most {STORE_MB_MAX:.0f} MB on disk",
        holds=whole and disk <= STORE_MB_MAX,
    )


def one_step(folder: Path, rounds: int) -> None:
    """The journal of a step that writes one file of 5 KB."""
    body = words(random.Random(2), 4_900)
    with open_ledger(folder / "ledger.db") as ledger:
        store = ObjectStore(folder / "objects", ledger)
        for number in range(WARM):
            store.put(b"warm %d" % number)
        journal, heads, digests = Journal(ledger, store), [BEGINNING], [store.put(body)]

        def step(number: int) -> None:
            new = body + b"%d" % number
            before = Node(
                "file", 0o644, store.put(body if number == 0 else body + b"%d" % (number - 1)), 4_900
            )
            digests.append(store.put(new, base=digests[-1]))
            change = Change("src/a.py", before, Node("file", 0o644, digests[-1], len(new)))
            heads.append(new_effect_id())
            journal.seal(effect(heads[-1], parent=heads[-2], changes=(change,)))
            journal.finish(heads[-1])

        def put_and_flush(number: int) -> None:
            store.put(b"f%d" % number + body)
            store.sync()

        cost = timed(step, rounds)
        put = timed(lambda n: store.put(b"%d" % n + body), rounds)
        flush = timed(put_and_flush, rounds)
        bare = [new_effect_id() for _ in range(rounds)]
        seal = timed(lambda n: journal.seal(effect(bare[n], parent=BEGINNING, changes=(MODE,))), rounds)
        finish = timed(lambda n: journal.finish(bare[n]), rounds)
    report(
        f"journal of a step that writes one file of 5 KB, {rounds} steps",
        seen=f"{shown(cost)}; a put alone {shown(put)}, with its flush {shown(flush)}, seal {shown(seal)}, "
        f"finish {shown(finish)}",
        goal=f"at most {JOURNAL_CPU_MS} ms CPU",
        holds=cost[0] <= JOURNAL_CPU_MS,
    )


def many_changes(folder: Path) -> None:
    """One command that makes many small files."""
    source = random.Random(3)
    with open_ledger(folder / "ledger.db") as ledger:
        store = ObjectStore(folder / "objects", ledger)
        journal = Journal(ledger, store)
        began = time.perf_counter()
        nodes = [Node("file", 0o644, store.put(words(source, 40)), 40) for _ in range(MANY)]
        put_s = time.perf_counter() - began
        made = tuple(Change(f"node_modules/p{n % 100}/f{n}.js", None, node) for n, node in enumerate(nodes))
        began = time.perf_counter()
        journal.seal(effect("many", parent=BEGINNING, changes=made))
        seal_s = time.perf_counter() - began
        read = timed(lambda _: journal.effect("many"), 3)
        ((length,),) = ledger.execute("SELECT length(changes) FROM effects")
    report(
        f"an effect of {MANY:,} new files",
        seen=f"{length / 1e6:.2f} MB in the journal; put {put_s:.2f} s, seal with flush {seal_s:.2f} s, "
        f"read back {shown(read)}",
        goal="at most 1 MB and 3 s",
        holds=length <= 1e6 and put_s + seal_s <= 3,
    )


MODE = Change("a", Node("folder", 0o755), Node("folder", 0o700))


def effect(effect_id: str, *, parent: str, changes: tuple[Change, ...]) -> Effect:
    return Effect(
        id=effect_id,
        thread_id="3f2b8a52-9c1d-4e7b-8a46-0d6f5e1c2b7a",
        parent=parent,
        checkpoint_id="1f0b8a52-9c1d-6e7b-8a46-0d6f5e1c2b7a",
        call_id=effect_id,
        tool="write_file",
        kind="edit",
        at="2026-05-31T12:00:00.000+00:00",
        workspace="/home/someone/project",
        changes=changes,
        result="Changed src/a.py: 100 lines, 4900 bytes.",
    )


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--figures", action="store_true")
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as place:
        for name, measure in (
            ("long", long_file),
            ("step", lambda folder: one_step(folder, rounds)),
            ("many", many_changes),
        ):
            folder = Path(place, name)
            folder.mkdir()
            measure(folder)


if __name__ == "__main__":
    main()
