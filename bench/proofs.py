"""Figures that tests hold: runs them, and counts what they cover."""

import argparse
import re
import subprocess
import sys
from pathlib import Path

import yaml
from report import report

ROOT = Path(__file__).resolve().parent.parent
MALFORMED = ROOT / "tests" / "contracts" / "malformed.yaml"


def passed_and_failed(path: str) -> tuple[int, int]:
    """How many of the tests in that file pass, and how many do not."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", path]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    counts = {word: int(number) for number, word in re.findall(r"(\d+) (passed|failed|error)", said)}
    return counts.get("passed", 0), counts.get("failed", 0) + counts.get("error", 0)


def main() -> None:
    """Malformed replies through the whole graph, and the search for a key of one run's own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--figures", action="store_true")
    parser.parse_args()
    cases = len(yaml.safe_load(MALFORMED.read_text(encoding="utf-8")))
    passed, failed = passed_and_failed("tests/graph/test_malformed.py")
    report(
        "crashes and wrong effects by malformed replies",
        seen=f"{failed} in {passed + failed} runs of {cases} replies",
        goal="0, of at least 60",
        holds=failed == 0 and passed > 0 and cases >= 60,
    )
    passed, failed = passed_and_failed("tests/e2e/test_canary_key.py")
    report(
        "a run's own key in database, logs, events and errors, after success, failure and kill -9",
        seen=f"{failed} of {passed + failed} searches found it",
        goal="0",
        holds=failed == 0 and passed > 0,
    )


if __name__ == "__main__":
    main()
