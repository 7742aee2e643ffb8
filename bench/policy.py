"""What judging a call costs, and whether commands are read as bash reads them.

The second part lets bash run random scripts, whose programs only note that they ran, and compares: a program
that ran, and that judging did not see in a script it says it read whole, is a miss.
"""

import argparse
import contextlib
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from report import report

from lockstitch.tools.permission.command_facts import CommandFacts
from lockstitch.tools.permission.judge import Call, Ground, judge
from lockstitch.tools.permission.rule_book import RuleBook
from lockstitch.tools.permission.shell_wrappers import program_of

PROGRAMS = ("alpha", "beta", "gamma", "delta")
STARTS = (
    "alpha", "beta", "gamma", "delta", "al'p'ha", "\\beta", '"gamma"', "{gamma,x}", "$P", "V=2 alpha",
    "! beta", "time alpha", "exec alpha", "command beta", "env alpha", "bash -c 'alpha in'", "eval 'beta in'",
    'eval "gamma $V"', "coproc alpha", "nohup beta", "xargs gamma <<< in", "timeout 2 beta",
    "find . -maxdepth 0 -exec alpha in \\;", "trap 'alpha in' EXIT", "[ -n x ]", "[[ -n x ]]", "(( 1 ))",
    "function",
)  # fmt: skip
WORDS = (
    "alpha", "gam\\ma", "'del'ta", '"eps"', "-x", "--y=z", "$V", "${V:-w}", "$(alpha in)", "`beta in`",
    '"$(gamma in)"', "<(delta in)", "{p,q}", "a\\ b", "'x y'", "$'\\x61'", "#h", "a#b", "~", "*.none", "!",
    "[", "]]", "$((1+2))", '"a\\"b"', "\\\n", "a\\\nb", "=", "V=1", "2", "&&&",
)  # fmt: skip
AROUND = (
    "( %s )", "{ %s; }", "if %s; then alpha c; fi", "for i in 1; do %s; done", "while %s; do break; done",
    "f() { %s; }; f", "case a in a) %s;; esac", "$(%s)", "! %s", "%s > /dev/null", "%s 2>&1",
    "until %s; do break; done", 'echo "$(%s)"',
)  # fmt: skip
REDIRECTIONS = (">/dev/null", "2>&1", "</dev/null", "&>/dev/null", "<<<w", ">|/dev/null")
JOINTS = (" ; ", " && ", " || ", " | ", " & ", "\n", "|&")
RULE = '[[rule]]\ndecision = "{}"\ncommand = "program{} sub"\n'


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scripts", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--figures", action="store_true")
    given = parser.parse_args()
    holds = [_costs(), _misses(random.Random(given.seed), given.scripts)]
    return 0 if all(holds) else 1


def _costs() -> bool:
    """Milliseconds of one judgement; rules are looked up anew for each, as in a run's step."""
    with tempfile.TemporaryDirectory() as home:
        book, folder = RuleBook(Path(home)), Path(home, "work")
        folder.mkdir()
        read = Call(tool="read_file", effect="read", args={"path": "src/a.py"})
        command = "cd src && CI=1 python -m pytest -q tests/test_a.py 2>&1 | tail -20"
        run = Call(tool="run_command", effect="command", args={"command": command})
        plain = _ms(book, folder, read)
        book.file.write_text("".join(RULE.format(("deny", "allow")[n % 2], n) for n in range(50)))
        ruled, shell = _ms(book, folder, read), _ms(book, folder, run)
    return report(
        "one call judged",
        seen=f"{plain:.3f} ms without rules, {ruled:.3f} with 50, a command of three {shell:.2f}",
        goal="a command at most 2 ms",
        holds=shell <= 2,
    )


def _ms(book: RuleBook, folder: Path, call: Call, *, rounds: int = 300) -> float:
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        ground = Ground(
            mode="auto",
            shelter="overlay",
            unsandboxed_commands="ask",
            rules=book.rules(folder),
            workspace=folder,
        )
        judge(call, ground)
        times.append(time.perf_counter() - began)
    return sorted(times)[rounds // 2] * 1000


def _misses(rng: random.Random, count: int) -> bool:
    whole = ran = missed = 0
    with tempfile.TemporaryDirectory() as folder:
        _make_programs(Path(folder, "bin"))
        for number in range(count):
            script = _script(rng, 2)
            facts = CommandFacts("run_command", {"command": script}, Path(folder))
            seen = {program_of(piece.words) for piece in facts.pieces}
            if facts.hidden or "" in seen:
                continue
            whole += 1
            started = _programs_run(script, Path(folder), log=Path(folder, f"log{number}"))
            ran += len(started)
            if started - seen:
                missed += 1
                print(f"missed {started - seen} in {script!r}", file=sys.stderr)
    return report(
        "commands read as bash reads them",
        seen=f"{missed} missed in {whole} scripts read whole ({ran} programs ran), {count - whole} ask",
        goal="0 missed",
        holds=missed == 0,
    )


def _make_programs(folder: Path) -> None:
    folder.mkdir()
    for name in PROGRAMS:
        program = folder / name
        program.write_text(f'#!/bin/sh\necho {name} >> "$LOG"\n')
        program.chmod(0o755)


def _programs_run(script: str, folder: Path, *, log: Path) -> set[str]:
    """What it started; each has a log of its own, since what runs in the background may be late."""
    log.write_text("")
    env = {"PATH": f"{folder / 'bin'}:/usr/bin:/bin", "LOG": str(log), "HOME": str(folder)}
    with contextlib.suppress(subprocess.TimeoutExpired):  # what it ran until then counts
        subprocess.run(
            ["bash", "-c", script],
            env=env,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=5,
            check=False,
        )
    return set(log.read_text().split())


def _simple(rng: random.Random, depth: int) -> str:
    if depth and rng.random() < 0.25:
        return rng.choice(AROUND) % _script(rng, depth - 1)
    words = [rng.choice(STARTS), *(rng.choice(WORDS) for _ in range(rng.randint(0, 3)))]
    if rng.random() < 0.15:
        words.insert(rng.randint(0, len(words)), rng.choice(REDIRECTIONS))
    return " ".join(words) + ("<<E\n$(alpha hd)\nE\n" if rng.random() < 0.06 else "")


def _script(rng: random.Random, depth: int) -> str:
    return rng.choice(JOINTS).join(_simple(rng, depth) for _ in range(rng.randint(1, 2)))


if __name__ == "__main__":
    sys.exit(main())
