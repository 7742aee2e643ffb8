"""CPU per step over HTTP on loopback, as a multiple of the bare loop in floor_loop.py.

Every step is one reply of the model with one call: read a file of 200 lines, search 20 files, write a
file of 5 lines, in turn. The server here reads the client's CPU time (user and system, its children
included) from /proc when a request arrives. Floor, agent and the peers that are installed run in turn, and
the median ratio is quoted. `--window TOKENS` adds a run whose context window is that small.
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
from peer_loops import DEEP_CALLS, NEEDS, is_installed
from report import report

HERE = Path(__file__).parent
GOALS = {100: (4.0, 2.5), 300: (3.5, 2.0)}  # must and aim, as a multiple of the floor
GROWTH_GOAL = 2.5  # last tenth to first tenth at N=300, nothing compacted
COMPACTED_GROWTH_GOAL = 1.3
NEVER_COMPACTED = (
    10_000_000  # tokens: a window that 300 steps do not fill, for all rows but the compacted one
)
BYTES_A_TOKEN = 4  # what the server says a request held
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
    calls: tuple[tuple[str, dict[str, Any]], ...] = CALLS
    pid: int = 0
    cpu_s: list[float] = field(default_factory=list)  # at each request
    peak_mb: float = 0
    faults: list[str] = field(default_factory=list)  # tools that did not do their work
    prefixes: int = 0  # requests whose messages begin with all of the request before
    last: list[Any] = field(default_factory=list)
    is_bare: bool = False


class Handler(BaseHTTPRequestHandler):
    """Answers each request with the next call, and the last one with text."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    log: Log

    def do_POST(self) -> None:
        """One chat completion."""
        raw = self.rfile.read(int(self.headers["Content-Length"]))
        request = json.loads(raw)
        # the bare loop sends no tools at all; another's request without them is for a summary
        is_step = "tools" in request or self.log.is_bare
        message = next_reply(self.log, request["messages"]) if is_step else says("what was done")
        body = json.dumps(completion(message, prompt_tokens=len(raw) // BYTES_A_TOKEN)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Say nothing."""


def next_reply(log: Log, messages: list[Any]) -> dict[str, Any]:
    """Take a look at the client, and give the next call or the end."""
    log.cpu_s.append(cpu_of(log.pid))
    log.peak_mb = max(log.peak_mb, peak_of(log.pid))
    log.prefixes += messages[: len(log.last)] == log.last
    log.last = messages
    result = str(messages[-1]["content"])
    log.faults += [result] * result.startswith("Error")
    number = len(log.cpu_s)
    if number > log.steps:
        return says("done")
    name, args = log.calls[number % len(log.calls)]
    if "content" in args:  # something new each time: the same again and again would be a loop
        args = {**args, "content": f"{number}\n{args['content']}"}
    function = {"name": name, "arguments": json.dumps(args)}
    return {**says(None), "tool_calls": [{"id": f"call_{number}", "type": "function", "function": function}]}


def says(text: str | None) -> dict[str, Any]:
    """A reply without a call."""
    return {"role": "assistant", "content": text}


def completion(message: dict[str, Any], *, prompt_tokens: int) -> dict[str, Any]:
    """The body of a reply."""
    reason = "tool_calls" if "tool_calls" in message else "stop"
    return {
        "id": "c",
        "object": "chat.completion",
        "created": 0,
        "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": {
            "prompt_tokens": prompt_tokens, "completion_tokens": 10, "total_tokens": prompt_tokens + 10
        },
    }  # fmt: skip


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


def measure(client: str, steps: int, *, window: int = NEVER_COMPACTED) -> Log:
    """Run one client to its end; `window` is Lockstitch's context window in tokens."""
    with tempfile.TemporaryDirectory() as folder:
        workspace = Path(folder) / "work"
        workspace.mkdir()
        fill(workspace)
        log = Log(steps, DEEP_CALLS if client == "deepagents" else CALLS, is_bare=client == "floor")
        server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (Handler,), {"log": log}))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/v1"
        environment = os.environ | {
            "LOCKSTITCH_HOME": f"{folder}/home", "LOCKSTITCH_RATE_LIMIT_PER_MINUTE": "0",
            "OPENAI_BASE_URL": url, "OPENAI_API_KEY": "none",
            "LOCKSTITCH_CONTEXT_WINDOW": str(window),
        }  # fmt: skip
        command = command_of(client, url, workspace, steps)
        process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
        log.pid = process.pid
        code = process.wait(300)
        server.shutdown()
        server.server_close()
        if code or len(log.cpu_s) != steps + 1:
            sys.exit(f"{client} ended with {code} after {len(log.cpu_s)} requests")
        if log.faults:
            sys.exit(f"{client} did not do the task: {log.faults[0]}")
        return log


def command_of(client: str, url: str, workspace: Path, steps: int) -> list[str]:
    """The command line of a client."""
    database = str(workspace.with_name("loop.db"))
    if client == "lockstitch":
        return [
            *LOCKSTITCH, "run", "work", "--workspace", str(workspace), "--model", "m",
            "--mode", "auto", "--json", "--max-steps", str(steps + 1),
        ]  # fmt: skip
    if client == "floor":
        return [sys.executable, str(HERE / "floor_loop.py"), url, str(workspace), database]
    return [sys.executable, str(HERE / "peer_loops.py"), client, url, str(workspace), database, str(steps)]


def step_ms(log: Log) -> float:
    """CPU milliseconds a step, between the first request and the last."""
    return (log.cpu_s[-1] - log.cpu_s[0]) / log.steps * 1000


def growth(log: Log) -> float:
    """CPU of the last tenth of the steps over that of the first tenth."""
    tenth = log.steps // 10
    first, last = log.cpu_s[tenth] - log.cpu_s[0], log.cpu_s[-1] - log.cpu_s[-1 - tenth]
    return last / max(first, 1 / TICKS_A_SECOND)


def ratio(logs: list[Log], floors: list[Log]) -> float:
    """The median of a client's steps over the floor's of the same round."""
    return statistics.median(step_ms(log) / step_ms(floor) for log, floor in zip(logs, floors, strict=True))


def report_cost(steps: int, seen: dict[str, list[Log]]) -> None:
    """Ours as a multiple of the floor, and each peer's."""
    ours = ratio(seen["lockstitch"], seen["floor"])
    floor_ms, ours_ms = (statistics.median(map(step_ms, seen[client])) for client in ("floor", "lockstitch"))
    must, aim = GOALS.get(steps, (0.0, 0.0))
    figure = f"x{ours:.2f} of the bare loop ({ours_ms:.1f} ms to {floor_ms:.1f} ms CPU)"
    report(f"CPU per step, N={steps}", seen=figure, goal=f"must x{must}, aim x{aim}", holds=ours <= must)
    for peer in [peer for peer in NEEDS if peer in seen]:
        theirs = ratio(seen[peer], seen["floor"])
        figure = f"x{theirs:.2f} of the bare loop, {theirs / ours:.1f} times ours"
        report(f"the same by {peer}, N={steps}", seen=figure, goal="more than ours", holds=theirs > ours)


def report_growth(logs: list[Log], *, goal: float, how: str) -> None:
    """How much more a late step costs than an early one."""
    grown = statistics.median(map(growth, logs))
    name = f"growth of a step's CPU, last to first tenth, N={logs[0].steps}{how}"
    report(name, seen=f"x{grown:.2f}", goal=f"at most x{goal}", holds=grown <= goal)


def report_rest(ours: list[Log]) -> None:
    """Memory and prefixes of the longest runs."""
    peak = max(log.peak_mb for log in ours)
    goal = f"must {MEMORY_GOAL_MB} MB, aim {MEMORY_AIM_MB} MB"
    report(f"peak memory, N={ours[0].steps}", seen=f"{peak:.0f} MB", goal=goal, holds=peak <= MEMORY_GOAL_MB)
    share = min(log.prefixes / (log.steps + 1) for log in ours)
    report(
        "requests that begin with all of the one before", seen=f"{share:.0%}", goal="100%", holds=share == 1
    )


def main() -> None:
    """Measure all at each length."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, nargs="+", default=list(GOALS))
    parser.add_argument("--window", type=int, metavar="TOKENS", help="also with so small a context window")
    parser.add_argument("--figures", action="store_true")
    options = parser.parse_args()
    peers = [peer for peer in NEEDS if is_installed(peer)]
    for peer in [peer for peer in NEEDS if peer not in peers]:
        print(f"{peer} is not installed, so it is not measured: pip install -e '.[peers]'", file=sys.stderr)
    for steps in options.steps:
        seen: dict[str, list[Log]] = {client: [] for client in ("floor", "lockstitch", *peers)}
        for _ in range(options.rounds):
            for client, logs in seen.items():
                logs.append(measure(client, steps))
        report_cost(steps, seen)
    report_growth(seen["lockstitch"], goal=GROWTH_GOAL, how="")
    if options.window:
        logs = [measure("lockstitch", steps, window=options.window) for _ in range(options.rounds)]
        report_growth(logs, goal=COMPACTED_GROWTH_GOAL, how=f", window of {options.window} tokens")
    report_rest(seen["lockstitch"])


if __name__ == "__main__":
    main()
