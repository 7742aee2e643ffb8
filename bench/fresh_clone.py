"""`make demo` and `make test` as a stranger meets them: a fresh clone, an empty home, each alone.

Only git, make, Python and the package registry's client settings are taken over from this machine.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from report import report

ROOT = Path(__file__).resolve().parent.parent
KEPT = ("PATH", "LANG", "LC_ALL", "TZ", "TMPDIR", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")
KEPT_PREFIXES = ("PIP_", "UV_", "PYENV_")  # how this machine reaches its package registry


def environment(home: Path) -> dict[str, str]:
    """What a new user has."""
    kept = {k: v for k, v in os.environ.items() if k in KEPT or k.startswith(KEPT_PREFIXES)}
    return kept | {"HOME": str(home)}


def try_target(target: str, *, keep_output: bool) -> tuple[bool, float]:
    """Clone, run `make TARGET`, and say whether it ended well and after how many seconds."""
    with tempfile.TemporaryDirectory() as folder:
        home, clone = Path(folder) / "home", Path(folder) / "clone"
        home.mkdir()
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        began = time.monotonic()
        output = None if keep_output else subprocess.DEVNULL
        run = subprocess.run(
            ["make", target],
            cwd=clone,
            env=environment(home),
            stdin=subprocess.DEVNULL,
            stdout=output,
            check=False,
        )
        return run.returncode == 0, time.monotonic() - began


def main() -> None:
    """Try the targets."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=["demo", "test"])
    parser.add_argument("--figures", action="store_true")
    parser.add_argument("--verbose", action="store_true", help="show what make prints")
    options = parser.parse_args()
    for target in [options.only] if options.only else ["demo", "test"]:
        well, seconds = try_target(target, keep_output=options.verbose)
        seen = f"{'ends well' if well else 'fails'} after {seconds:.0f} s, set-up included"
        report(f"fresh clone, empty home, make {target}", seen=seen, goal="ends well", holds=well)


if __name__ == "__main__":
    sys.exit(main())
