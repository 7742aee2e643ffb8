"""CPU per step over HTTP on loopback, as a multiple of the bare loop in floor_loop.py.

Every step is one reply of the model with one call: read a file of 200 lines, search 20 files, write a
file of 5 lines, in turn. The server here reads the client's CPU time (user and system, its children
included) from /proc when a request arrives. Floor and agent run in turn, and the median ratio is quoted.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from loopback import LOCKSTITCH
from report import report

HERE = Path(__file__).parent
GOALS = {100: (4.0, 2.5), 300: (3.5, 2.0)}  # must and aim, as a multiple of the floor
GROWTH_GOAL = 2.5  # last tenth to first tenth at N=300, nothing compacted
MEMORY_GOAL_MB, MEMORY_AIM_MB = 160, 120
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
CALLS = (
    ("read_file", {"path": "file00.py"}),
    ("grep_files", {"pattern": "needle_[0-9]+", "path": "."}),
    ("write_file", {"path": "out.txt", "content": "b\nc\nd\ne\n"}),
)


@dataclass
class Log:
    """What the server saw of one client."""

    steps: int
    pid: int = 0
    cpu_s: list[float] = field(default_factory=list)  # at each request
    peak_mb: float = 0
    prefixes: int = 0  # requests whose messages begin with all of the request before
    last: list[Any] = field(default_factory=list)


class Handler(BaseHTTPRequestHandler):
    """Answers each request with the next call, and the last one with text."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    log: Log

    def do_POST(self) -> None:
        """One chat completion."""
        raw = self.rfile.read(int(self.headers["Content-Length"]))
        log = self.log
        log.cpu_s.append(cpu_of(log.pid))
        log.peak_mb = max(log.peak_mb, peak_of(log.pid))
        messages = json.loads(raw)["messages"]
        log.prefixes += messages[: len(log.last)] == log.last
        log.last = messages
        body = json.dumps(completion(len(log.cpu_s), log.steps)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Say nothing."""


def completion(number: int, steps: int) -> dict[str, Any]:
    """The reply to request `number`, counted from 1."""
    message: dict[str, Any] = {"role": "assistant", "content": "done"}
    if number <= steps:
        name, args = CALLS[number % len(CALLS)]
        if "content" in args:  # something new each time: the same again and again would be a loop
            args = {**args, "content": f"{number}\n{args['content']}"}
        call = {
            "id": f"call_{number}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(args)},
        }
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if number <= steps else "stop"}
    usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
    return {
        "id": f"c{number}",
        "object": "chat.completion",
        "created": 0,
        "model": "m",
        "choices": [choice],
        "usage": usage,
    }


def cpu_of(pid: int) -> float:
    """User and system seconds of a process and of its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / TICKS_A_SECOND


def peak_of(pid: int) -> float:
    """The most memory it has had resident, in MB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def fill(workspace: Path) -> None:
    """Twenty files of 200 lines."""
    for number in range(20):
        lines = [
            f"value_{line} = {line}  # {'needle_' + str(line) if line == number else 'hay'}"
            for line in range(200)
        ]
        (workspace / f"file{number:02}.py").write_text("\n".join(lines) + "\n")


def measure(client: str, steps: int) -> Log:
    """Run one client to its end."""
    with tempfile.TemporaryDirectory() as folder:
        workspace = Path(folder) / "work"
        workspace.mkdir()
        fill(workspace)
        log = Log(steps)
        server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (Handler,), {"log": log}))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/v1"
        environment = os.environ | {
            "LOCKSTITCH_HOME": f"{folder}/home", "LOCKSTITCH_RATE_LIMIT_PER_MINUTE": "0",
            "OPENAI_BASE_URL": url, "OPENAI_API_KEY": "none",
        }  # fmt: skip
        commands = {
            "floor": [sys.executable, str(HERE / "floor_loop.py"), url, str(workspace), f"{folder}/floor.db"],
            "lockstitch": [
                *LOCKSTITCH, "run", "work", "--workspace", str(workspace), "--model", "m",
                "--mode", "auto", "--json", "--max-steps", str(steps + 1),
            ],
        }  # fmt: skip
        process = subprocess.Popen(commands[client], env=environment, stdout=subprocess.DEVNULL)
        log.pid = process.pid
        code = process.wait(300)
        server.shutdown()
        server.server_close()
        if code or len(log.cpu_s) != steps + 1:
            sys.exit(f"{client} ended with {code} after {len(log.cpu_s)} requests")
        return log


def step_ms(log: Log) -> float:
    """CPU milliseconds a step, between the first request and the last."""
    return (log.cpu_s[-1] - log.cpu_s[0]) / log.steps * 1000


def growth(log: Log) -> float:
    """CPU of the last tenth of the steps over that of the first tenth."""
    tenth = log.steps // 10
    first, last = log.cpu_s[tenth] - log.cpu_s[0], log.cpu_s[-1] - log.cpu_s[-1 - tenth]
    return last / max(first, 1 / TICKS_A_SECOND)


def main() -> None:
    """Measure both at each length."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, nargs="+", default=list(GOALS))
    parser.add_argument("--figures", action="store_true")
    options = parser.parse_args()
    for steps in options.steps:
        pairs = [(measure("floor", steps), measure("lockstitch", steps)) for _ in range(options.rounds)]
        ratio = statistics.median(step_ms(ours) / step_ms(floor) for floor, ours in pairs)
        floor_ms = statistics.median(step_ms(floor) for floor, _ in pairs)
        ours_ms = statistics.median(step_ms(ours) for _, ours in pairs)
        must, aim = GOALS.get(steps, (0.0, 0.0))
        seen = f"x{ratio:.2f} of the bare loop ({ours_ms:.1f} ms to {floor_ms:.1f} ms CPU)"
        report(f"CPU per step, N={steps}", seen=seen, goal=f"must x{must}, aim x{aim}", holds=ratio <= must)
    ours = [ours for _, ours in pairs]
    grown = statistics.median(map(growth, ours))
    report(
        f"growth of a step's CPU, last to first tenth, N={steps}",
        seen=f"x{grown:.2f}", goal=f"at most x{GROWTH_GOAL}", holds=grown <= GROWTH_GOAL,
    )  # fmt: skip
    peak = max(log.peak_mb for log in ours)
    goal = f"must {MEMORY_GOAL_MB} MB, aim {MEMORY_AIM_MB} MB"
    report(f"peak memory, N={steps}", seen=f"{peak:.0f} MB", goal=goal, holds=peak <= MEMORY_GOAL_MB)
    share = min(log.prefixes / (log.steps + 1) for log in ours)
    report(
        "requests that begin with all of the one before", seen=f"{share:.0%}", goal="100%", holds=share == 1
    )


if __name__ == "__main__":
    main()
