"""Edits as models write them: blocks of real source files with one flaw each, through both edit formats.

The blocks are cut at random, by a fixed seed, from the packages of this environment. A real change is made
in each: a line changed, added or taken out. The model's old and new text then get one flaw. An edit is
clean when the file afterwards has, byte for byte, the real change and nothing else.
"""

import argparse
import random
import re
import sys
import sysconfig
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from report import report

from lockstitch.state.errors import RecoverableError
from lockstitch.state.settings import load_settings
from lockstitch.state.spill import SpillStore
from lockstitch.tools.context import ToolContext
from lockstitch.tools.edit import edit_file
from lockstitch.tools.patch import apply_patch
from lockstitch.tools.workspace import Workspace

SEED = 20_240
BLOCK_LINES = (3, 12)  # of a block: what models copy into old_text
FILE_LINES = (40, 3_000)  # of a file
CLEAN_MIN = 0.95
FILES = 400  # read at most
BIG_BYTES = 10 * 1024 * 1024 - 1024  # just below what a file may have

Flaw = Callable[[str, str], str | None]  # of one text of an edit, beside the other one


@dataclass(frozen=True)
class Case:
    """A block of a file, the real change of it, and where it stands."""

    before: str
    at: int
    old: str
    new: str

    @property
    def after(self) -> str:
        """The file as the change should leave it."""
        return self.before[: self.at] + self.new + self.before[self.at + len(self.old) :]


def sources(generator: random.Random) -> list[str]:
    """Texts of real files, in LF, with their own indents and quotes."""
    root = Path(sysconfig.get_paths()["purelib"])
    paths = sorted(path for path in root.rglob("*.py") if "lockstitch" not in path.parts)
    texts: list[str] = []
    for path in generator.sample(paths, min(len(paths), 4 * FILES)):
        text = path.read_bytes().decode("utf-8", "replace")
        if FILE_LINES[0] <= text.count("\n") <= FILE_LINES[1] and "\r" not in text and "\ufffd" not in text:
            texts.append(text)
        if len(texts) == FILES:
            break
    return texts


def cases(generator: random.Random, texts: list[str]) -> Iterator[Case]:
    """Blocks that stand in their file once, with a change."""
    while True:
        text = generator.choice(texts)
        lines = text.splitlines(keepends=True)
        count = generator.randint(*BLOCK_LINES)
        first = generator.randrange(max(1, len(lines) - count))
        block = lines[first : first + count]
        old = "".join(block)
        if not block[0].strip() or not block[-1].strip() or text.count(old) != 1:
            continue
        changed = change(generator, block)
        if changed is not None and "".join(changed) != old:
            yield Case(text, len("".join(lines[:first])), old, "".join(changed))


def change(generator: random.Random, block: list[str]) -> list[str] | None:
    """One line changed, one added behind or before a line with text, or one taken out."""
    places = [at for at, line in enumerate(block) if len(line.strip()) > 8]
    if not places:
        return None
    at = generator.choice(places)
    line = block[at]
    kind = generator.choice(["change", "change", "add behind", "add before", "remove"])
    if kind.startswith("add"):
        indent = line[: len(line) - len(line.lstrip())]
        at += kind == "add behind"
        return [*block[:at], f"{indent}added = {generator.randrange(1000)}\n", *block[at:]]
    if kind == "remove":
        return [*block[:at], *block[at + 1 :]]
    words = re.findall(r"[A-Za-z_]{3,}", line)
    if not words:
        return None
    word = generator.choice(words)
    return [*block[:at], re.sub(rf"\b{word}\b", f"{word}_new", line, count=1), *block[at + 1 :]]


def trailing_blanks(text: str, _: str) -> str:
    """Blanks at the end of each line."""
    return "".join(f"{line}  \n" for line in text.splitlines())


def dedent(text: str, other: str) -> str | None:
    """The block moved to the margin, old and new text by as much."""
    lines = [line for line in (text + other).splitlines() if line.strip()]
    margin = min((len(line) - len(line.lstrip(" ")) for line in lines), default=0)
    return "".join(f"{line[margin:]}\n" for line in text.splitlines()) if margin else None


def tabs(text: str, _: str) -> str | None:
    """Tabs for every four blanks of an indent."""
    lines = [
        re.sub(r"^( {4})+", lambda found: "\t" * (len(found[0]) // 4), line) for line in text.splitlines()
    ]
    return "".join(f"{line}\n" for line in lines) if any("\t" in line for line in lines) else None


def blank_lines_dropped(text: str, _: str) -> str | None:
    """Without its blank lines."""
    lines = text.splitlines(keepends=True)
    left = [line for line in lines if line.strip()]
    return "".join(left) if len(left) < len(lines) else None


def curly_quotes(text: str, _: str) -> str | None:
    """Opening and closing quotes in turn, as word processors make them."""
    if not re.search("[\"']", text):
        return None
    doubled = re.sub('"([^"\n]*)"', "\u201c\\1\u201d", text)
    return re.sub("'([^'\n]*)'", "\u2018\\1\u2019", doubled).replace('"', "\u201d").replace("'", "\u2019")


def typo(text: str) -> str | None:
    """One letter of a word is another one."""
    found = re.search(r"[a-z]{5,}", text)
    if found is None:
        return None
    at = found.start() + 2
    return text[:at] + ("q" if text[at] != "q" else "x") + text[at + 1 :]


def same(text: str, _: str) -> str:
    """As it is."""
    return text


FLAWS: dict[str, Flaw] = {
    "none": same,
    "trailing blanks": trailing_blanks,
    "dedent": dedent,
    "tabs": tabs,
    "blank line dropped": blank_lines_dropped,
    "curly quotes": curly_quotes,
    "CRLF": same,
}


class Desk:
    """A workspace with one file, and the two formats."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "file.py"
        self.context = ToolContext(
            workspace=Workspace(folder), settings=load_settings(), spill=SpillStore(folder / "spill", "t")
        )

    def edit(self, old: str, new: str) -> str:
        """What edit_file comes to: `done`, or the error."""
        return self._call(edit_file, path="file.py", old_text=old, new_text=new)

    def patch(self, old: str, new: str) -> str:
        """The same through apply_patch, every line of the block taken out and put in again."""
        lines = [f"-{line}" for line in old.splitlines()] + [f"+{line}" for line in new.splitlines()]
        text = "\n".join(["*** Begin Patch", "*** Update File: file.py", "@@", *lines, "*** End Patch"])
        return self._call(apply_patch, patch=text)

    def _call(self, tool: object, **args: str) -> str:
        try:
            tool.func(**args, call=self.context)  # type: ignore[attr-defined]
        except RecoverableError as error:
            return error.message
        return "done"


def flawed(flaw: str, case: Case) -> tuple[str, str, str, str] | None:
    """Before, after, old and new as they are used; None where the block cannot have the flaw."""
    old, new = FLAWS[flaw](case.old, case.new), FLAWS[flaw](case.new, case.old)
    if old is None or new is None or old == new:
        return None
    before, after = case.before, case.after
    if flaw == "CRLF":
        before, after = before.replace("\n", "\r\n"), after.replace("\n", "\r\n")
    return before, after, old, new


def run_row(desk: Desk, flaw: str, way: str, count: int) -> tuple[Counter[str], list[str]]:
    """How so many edits with a flaw came out, and the first that were not clean."""
    generator = random.Random(SEED)
    stream = cases(generator, sources(generator))
    seen: Counter[str] = Counter()
    examples: list[str] = []
    while seen["all"] < count:
        case = next(stream)
        made = flawed(flaw, case)
        if made is None:
            continue
        before, after, old, new = made
        desk.path.write_bytes(before.encode())
        said = getattr(desk, way)(old, new)
        got = desk.path.read_bytes().decode()
        outcome = "clean" if got == after else "refused" if got == before and said != "done" else "wrong"
        seen[outcome] += 1
        seen["all"] += 1
        seen["outside"] += outcome == "wrong" and not stays_outside(case, before, got)
        if outcome != "clean":
            examples.append(f"{said}\n--- old\n{old}--- new\n{new}--- wanted\n{case.new}")
    return seen, examples


def stays_outside(case: Case, before: str, got: str) -> bool:
    """Whether all before and behind the block is as it was."""
    ends = before.count("\r\n") > 0
    head, tail = case.before[: case.at], case.before[case.at + len(case.old) :]
    head, tail = (part.replace("\n", "\r\n") if ends else part for part in (head, tail))
    return got.startswith(head) and got.endswith(tail)


def rows(desk: Desk, count: int, *, examples: int) -> None:
    """Every flaw through both formats."""
    outside = 0
    for way, name in (("edit", "edit_file"), ("patch", "apply_patch")):
        for flaw in FLAWS:
            seen, wrong = run_row(desk, flaw, way, count)
            outside += seen["outside"]
            report(
                f"{name}, {flaw}",
                seen=f"{seen['clean']} of {count} clean, {seen['refused']} refused, {seen['wrong']} else",
                goal=f"{CLEAN_MIN:.0%} clean",
                holds=seen["clean"] >= CLEAN_MIN * count,
            )
            for example in wrong[:examples]:
                print(example, file=sys.stderr)
    report(
        "bytes changed outside the edits of all rows", seen=f"{outside} edits", goal="0", holds=outside == 0
    )


def typos(desk: Desk, count: int) -> None:
    """A typo is applied right, or refused with the place shown."""
    generator = random.Random(SEED)
    stream = cases(generator, sources(generator))
    seen: Counter[str] = Counter()
    while seen.total() < count:
        case = next(stream)
        old = typo(case.old)
        if old is None or old in case.before:
            continue
        desk.path.write_bytes(case.before.encode())
        said = desk.edit(old, case.new)
        line = case.before.count("\n", 0, case.at) + 1
        if said == "done":
            seen["right" if desk.path.read_bytes().decode() == case.after else "wrong"] += 1
        else:
            seen["shown" if f"{line:>6}\t" in said else "not shown"] += 1
    good = seen["right"] + seen["shown"]
    report(
        "edit_file, one letter mistyped",
        seen=f"{good} of {count} right or refused with the place shown, {seen['wrong']} wrong",
        goal=f"{CLEAN_MIN:.0%}, 0 wrong",
        holds=good >= CLEAN_MIN * count and not seen["wrong"],
    )


def doubles(desk: Desk, count: int) -> None:
    """A block that the file has twice is not edited."""
    generator = random.Random(SEED)
    stream = cases(generator, sources(generator))
    silent = 0
    for turn in range(count):
        case = next(stream)
        before = case.before + "\n\n" + case.old
        desk.path.write_bytes(before.encode())
        flaw = list(FLAWS)[turn % len(FLAWS)]
        old, new = FLAWS[flaw](case.old, case.new) or case.old, FLAWS[flaw](case.new, case.old) or case.new
        for way in (desk.edit, desk.patch):
            way(old, new)
            silent += desk.path.read_bytes().decode() != before
    report(
        "the same block in two places, with every flaw",
        seen=f"{silent} silent edits in {2 * count}",
        goal="0",
        holds=silent == 0,
    )


def speed(desk: Desk) -> None:
    """One lenient edit in a file of 10 MB, and one miss there and in an ordinary file."""
    lines = "".join(f"    value_{number} = compute({number}, 'name')\n" for number in range(300_000))
    big = lines[: lines.rfind("\n", 0, BIG_BYTES) + 1]
    desk.path.write_text(big)
    hit = timed(
        lambda: desk.edit("value_77777 = compute(77777, 'name')  \nvalue_77778 = compute(77778, 'name')", "x")
    )
    miss = timed(lambda: desk.edit("valeu_77777 = compute(7, 'eman')\nvalue_0 = 9", "x"))
    desk.path.write_text(lines[:100_000])
    small = timed(lambda: desk.edit("valeu_77 = compute(7, 'eman')\nvalue_0 = 9", "x"))
    report("lenient edit in 10 MB", seen=f"{hit:.2f} s of CPU", goal="1 s", holds=hit < 1)
    report("miss in 10 MB", seen=f"{miss:.2f} s of CPU", goal="1 s", holds=miss < 1)
    report("miss in 100 kB", seen=f"{small:.2f} s of CPU", goal="0.2 s", holds=small < 0.2)


def timed(call: Callable[[], object]) -> float:
    """Seconds of CPU: others may be at work on the machine."""
    began = time.process_time()
    call()
    return time.process_time() - began


def main() -> None:
    """All rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=1_000, help="for each flaw and format")
    parser.add_argument("--examples", type=int, default=0, help="of edits that were not clean")
    parser.add_argument("--figures", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        desk = Desk(Path(folder))
        rows(desk, options.blocks, examples=options.examples)
        typos(desk, options.blocks)
        doubles(desk, options.blocks)
        speed(desk)
        desk.context.workspace.close()


if __name__ == "__main__":
    main()
