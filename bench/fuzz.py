"""Schemathesis against the served API: no 5xx, and no key in any answer or log.

The model's endpoint refuses every request and repeats the key it was sent, as bad ones do. The token is
given, so that the requests reach the routes; what is refused without it is proved by the tests of the guard.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from loopback import serve
from report import report

CANARY = "canary-5b1f0c9e7d3a"
SECONDS = 90  # of fuzzing, beside the examples and the covering cases
RATE = "80/s"  # below what the guard allows a client


class Refusing(BaseHTTPRequestHandler):
    """A model's endpoint that says the key it was sent."""

    def do_POST(self) -> None:
        """Refuse."""
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = b'{"error": {"message": "Wrong key: %b"}}' % self.headers["Authorization"].encode()
        self.send_response(401)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""


@contextmanager
def refusing_endpoint() -> Iterator[str]:
    """Its address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()


def fuzz(program: str, folder: Path) -> tuple[subprocess.CompletedProcess[str], str]:
    """How schemathesis ended, and all that was answered, logged and stored."""
    (folder / "work").mkdir()
    answers, log = folder / "answers.har", folder / "server.log"
    with refusing_endpoint() as endpoint, log.open("wb") as written:
        settings = {"OPENAI_BASE_URL": endpoint, "OPENAI_API_KEY": CANARY, "LOCKSTITCH_MODEL": "m"}
        with serve(folder / "home", folder / "work", settings, log=written.fileno()) as (base_url, token):
            command = [
                program, "run", f"{base_url}/api/openapi.json", "-H", f"Authorization: Bearer {token}",
                "--checks", "not_a_server_error", "--continue-on-failure", "--rate-limit", RATE,
                "--max-time", str(SECONDS), "--output-sanitize", "false", "--no-color",
                "--report", "har", "--report-har-path", str(answers),
            ]  # fmt: skip
            run = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    kept = [answers, log, *(path for path in (folder / "home").rglob("*") if path.is_file())]
    return run, "".join(path.read_bytes().decode("latin-1") for path in kept)


def main() -> None:
    """Fuzz once and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", default=shutil.which("schemathesis"), help="where schemathesis is")
    parser.add_argument("--figures", action="store_true")
    options = parser.parse_args()
    if options.program is None:
        sys.exit("schemathesis is not installed: pip install schemathesis, or name it with --program")
    with tempfile.TemporaryDirectory() as folder:
        run, kept = fuzz(options.program, Path(folder))
    made = re.search(r"([\d,]+) generated", run.stdout)  # 5xx is the one check that is on
    seen = f"none in {made[1]} cases" if made and run.returncode == 0 else run.stdout[-600:]
    report("schemathesis against the API: 5xx", seen=seen, goal="none", holds=seen.startswith("none"))
    report(
        "the key in answers, log and home after that",
        seen=f"{kept.count(CANARY)} times in {len(kept) / 1e6:.1f} MB",
        goal="0",
        holds=CANARY not in kept,
    )


if __name__ == "__main__":
    main()
