"""kill -9 of the command line at random moments of a scripted run.

Nothing acknowledged may be lost, every thread must go on, and the files must be those of a run that nobody
killed: each line that a command appends is there once. Acknowledged is what an event has told:
`agent_turn_start` of step n comes after the checkpoint of step n - 1.
"""

import argparse
import json
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from loopback import ROOT, Place, events_in, model_server
from report import report

SCENARIO = ROOT / "bench" / "scenarios" / "killed.yaml"
PROMPT = "Write the parts."
LEGS_MAX = 12  # processes one thread may need, so that a broken resume ends


def finish(place: Place, thread_id: str) -> str:
    """Go on with the thread until it is complete; why it is not, or nothing."""
    for _ in range(LEGS_MAX):
        if place.show(thread_id)["reason"] == "answered":
            return ""
        code, _, err = place.run("--thread", thread_id)
        if code:
            return f"resume ended with {code}: {err.strip()[-300:]}"
    return f"not complete after {LEGS_MAX} processes"


def kill_once(place: Place, moment_s: float) -> tuple[bool, list[str]]:
    """Kill a run `moment_s` after its first event, and finish it: (really killed, what went wrong)."""
    process = place.start(PROMPT)
    assert process.stdout is not None
    first = process.stdout.readline()
    time.sleep(moment_s)
    killed = process.poll() is None
    process.kill()
    rest, _ = process.communicate()
    events = events_in(first + rest)
    if not events:
        return killed, ["no event before the kill"]
    thread_id = events[0]["thread_id"]
    lost = lost_steps(events, place, thread_id)
    trouble = finish(place, thread_id)
    state = place.show(thread_id)
    faults = [f"lost: {lost}"] * bool(lost) + [trouble] * bool(trouble)
    numbers = [step["number"] for step in state["steps"]]
    if numbers != sorted(set(numbers)):
        faults.append(f"steps {numbers}")
    return killed, faults + wrong_files(place.workspace)


def wrong_files(workspace: Path) -> list[str]:
    """What differs from the files of a run that nobody killed, and each line of the log once."""
    wanted = {f"src/part{n}.txt": f"part {n}\nstate: final {n}\n" for n in range(3, 8)}
    wanted["first.txt"] = "part 1\nstate: final 1\n"
    found = {str(path.relative_to(workspace)): path.read_text() for path in workspace.rglob("*.txt")}
    wanted["log.txt"] = "".join(f"{n}\n" for n in range(1, 8))
    return [] if found == wanted else [f"files: {sorted(found.items() ^ wanted.items())}"]


def lost_steps(events: list[dict[str, Any]], place: Place, thread_id: str) -> str:
    """The acknowledged steps that the thread does not hold."""
    told = max((e["step"] - 1 for e in events if e["type"] == "agent_turn_start"), default=0)
    if told == 0:
        return ""
    held = len(place.show(thread_id)["steps"])
    return "" if held >= told else f"{told} acknowledged, {held} there"


def main() -> None:
    """Kill as often as asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--figures", action="store_true")
    options = parser.parse_args()
    moments = random.Random(options.seed)
    killed, faults = 0, []
    with model_server(SCENARIO, delay_s=0.02) as url:
        length_s = run_length_s(url)
        for number in range(options.times):
            with tempfile.TemporaryDirectory() as folder:
                really, wrong = kill_once(Place(Path(folder), url), moments.uniform(0, length_s))
            killed += really
            faults += [f"kill {number}: {fault}" for fault in wrong]
            print(f"{number + 1} of {options.times}: {json.dumps(wrong)}", file=sys.stderr, flush=True)
    well = options.times - len({fault.partition(":")[0] for fault in faults})
    report(
        f"kill -9 at {options.times} random moments of a run",
        seen="; ".join(
            [f"{well} of {options.times} lost nothing and went on ({killed} killed while running)", *faults]
        ),
        goal=f"{options.times} of {options.times}",
        holds=not faults,
    )


def run_length_s(url: str) -> float:
    """Seconds from the first event to the first stop, of a run that nobody kills."""
    with tempfile.TemporaryDirectory() as folder:
        process = Place(Path(folder), url).start(PROMPT)
        assert process.stdout is not None
        process.stdout.readline()
        began = time.monotonic()
        process.communicate(timeout=120)
        return time.monotonic() - began


if __name__ == "__main__":
    main()
