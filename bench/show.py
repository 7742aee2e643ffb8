"""Runs every benchmark and prints figure, goal and verdict, a line each. `--full` uses the stated counts."""

import json
import subprocess
import sys
from pathlib import Path

from report import MARK, Figure, line_of

HERE = Path(__file__).parent
# name of the script, arguments for a quick look, arguments for the stated counts
SCRIPTS: list[tuple[str, list[str], list[str]]] = [
    ("cold_start.py", [], ["--rounds", "10"]),
    ("http_run.py", [], []),
    ("kill.py", ["--times", "8"], ["--times", "200"]),
    ("step_cost.py", ["--rounds", "1", "--window", "60000"], ["--rounds", "3", "--window", "60000"]),
    ("tasks.py", [], []),
    ("thread_storage.py", [], ["--full"]),
    ("memory.py", [], []),
    ("streams.py", [], []),
    ("proofs.py", [], []),
    ("confined_open.py", ["--rounds", "5"], []),
    ("search_cost.py", ["--rounds", "3"], []),
    ("code_search.py", ["--files", "1000", "--chunks", "20000"], []),
    ("policy.py", ["--scripts", "500"], []),
    ("race.py", ["--attempts", "3000"], ["--attempts", "300000"]),
    ("nasty.py", [], []),
    ("sandbox_cost.py", [], ["--pairs", "200"]),
    ("transactions.py", ["--scripts", "10", "--kills", "20", "--pairs", "30"], []),
    ("stitch_cost.py", ["--pairs", "30"], []),
    ("rewind.py", ["--steps", "60", "--rewinds", "20"], []),
    ("object_store.py", [], []),
    ("scan.py", ["--rounds", "5"], []),
    ("edits.py", ["--blocks", "100"], ["--blocks", "1000"]),
    ("fresh_clone.py", ["--only", "demo"], []),
]


def main() -> int:
    """Run them in turn; the exit code is 1 when a script breaks, not when a figure falls short."""
    full = "--full" in sys.argv
    broken = 0
    for script, quick, stated in SCRIPTS:
        print(f"-- {script}", file=sys.stderr, flush=True)
        command = [sys.executable, str(HERE / script), "--figures", *(stated if full else quick)]
        run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        figures = [
            json.loads(line.removeprefix(MARK)) for line in run.stdout.splitlines() if line.startswith(MARK)
        ]
        for figure in figures:
            print(line_of(Figure(**figure)), flush=True)
        if not figures:
            broken += 1
            print(f"BROKEN       {script} ended with {run.returncode} and no figure", flush=True)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
