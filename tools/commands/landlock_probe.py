"""Whether Landlock can hold a command here: its launcher, tried once."""

import marshal
import os
import platform
import subprocess
import sys
from typing import Final

from lockstitch.tools.commands import landlock_launcher
from lockstitch.tools.commands.landlock import landlock_version
from lockstitch.tools.commands.landlock_rules import FIRST_WITH_SIGNALS, READ, LandlockRules
from lockstitch.tools.commands.system_calls import MACHINES, build_filter

PROBE_S: Final = 10.0  # it takes 40 ms
LAUNCHER: Final = (os.path.realpath(sys.executable), "-I", "-S", landlock_launcher.__file__)


def probe_landlock() -> str | None:
    """None where it works, else why it does not."""
    version = landlock_version()
    if not version:
        return "this kernel has no Landlock, or its use is forbidden"
    if version < FIRST_WITH_SIGNALS:
        return f"Landlock is too old (version {version}; {FIRST_WITH_SIGNALS} comes with Linux 6.12)"
    if platform.machine() not in MACHINES:
        return f"Landlock is not used on {platform.machine()}"
    try:
        said = _try_it()
    except (OSError, subprocess.TimeoutExpired) as error:
        said = type(error).__name__
    return f"Landlock does not work here ({said})" if said else None


def _try_it() -> str:
    """What the launcher says where it cannot start a program."""
    rules = LandlockRules(network=False)
    reading, writing = os.pipe()
    try:
        rules.allow("/", READ)
        program = build_filter(MACHINES[platform.machine()], network=False, frozen=True)
        spec = {"filter": program.hex(), "limits": [], "processes": 1000, "capabilities": []}
        spec |= {"parent": os.getpid(), "rules": rules.fd, "told": 1}
        with open(writing, "wb") as pipe:  # noqa: PTH123  a descriptor has no Path
            marshal.dump(spec, pipe)
        done = subprocess.run(
            [*LAUNCHER, str(reading), "--", "/bin/sh", "-c", ":"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            pass_fds=(reading, rules.fd),
            timeout=PROBE_S,
            check=False,
        )
    finally:
        os.close(reading)
        rules.close()
    if done.returncode == 0:
        return ""
    return done.stderr.decode("utf-8", "replace").strip() or f"exit code {done.returncode}"
