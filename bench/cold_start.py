"""CPU seconds until `lockstitch --help` is done, and until `lockstitch run` sends its first model request.

The first request is the moment its first byte arrives at a loopback socket; CPU is user plus system time
of the `lockstitch` process, from its own accounting. All rounds share one home, which the first of them
makes, as it makes the bytecode that an installed package comes with, also where the environment says to keep
none: to compile it all takes 0.4 s more each time. The minimum is quoted: noise only adds.
"""

import argparse
import os
import resource
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

from report import report

LOCKSTITCH = [sys.executable, "-m", "lockstitch.studio.cli"]
ENVIRONMENT = os.environ | {"PYTHONDONTWRITEBYTECODE": ""}
HELP_GOAL_S, FIRST_REQUEST_GOAL_S, FIRST_REQUEST_AIM_S = 0.25, 1.3, 0.9


def help_cpu_s() -> float:
    """CPU of one `lockstitch --help`."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([*LOCKSTITCH, "--help"], check=True, env=ENVIRONMENT, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def first_request_cpu_s(folder: str) -> float:
    """CPU of `lockstitch run` up to the moment its first request arrives here; its home is in `folder`."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(60)
        port = server.getsockname()[1]
        environment = ENVIRONMENT | {
            "LOCKSTITCH_HOME": str(Path(folder) / "home"),
            "OPENAI_BASE_URL": f"http://127.0.0.1:{port}/v1",
            "OPENAI_API_KEY": "none",
        }
        run = subprocess.Popen(
            [*LOCKSTITCH, "run", "hello", "--workspace", folder, "--model", "m", "--json"],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            connection, _ = server.accept()
            connection.recv(1)
            return cpu_of(run.pid)
        finally:
            run.kill()
            run.wait()


def cpu_of(pid: int) -> float:
    """User plus system seconds of a running process, from /proc."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Measure both and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--figures", action="store_true")
    rounds = parser.parse_args().rounds
    help_s = min(help_cpu_s() for _ in range(rounds + 1))
    report(
        "cold start, lockstitch --help",
        seen=f"{help_s:.2f} s CPU",
        goal="at most 0.25 s",
        holds=help_s <= HELP_GOAL_S,
    )
    with tempfile.TemporaryDirectory() as folder:
        first_s = min(first_request_cpu_s(folder) for _ in range(rounds + 1))
    report(
        "cold start, first model request",
        seen=f"{first_s:.2f} s CPU",
        goal=f"at most {FIRST_REQUEST_GOAL_S} s, aim {FIRST_REQUEST_AIM_S} s",
        holds=first_s <= FIRST_REQUEST_GOAL_S,
    )


if __name__ == "__main__":
    main()
