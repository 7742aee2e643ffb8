"""A network of loopback alone that several sandboxes share: a command reaches the server of another one.

No process holds it. Descriptors do: of the network, and of the namespace of users that it belongs to, which
an ordinary user must enter first. Sandboxes are started in it by util-linux' `nsenter`; each has users of its
own below, so that none has any power over the network.
"""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from lockstitch.tools.commands.sandbox import NAMESPACES, OWN_USERS, PROBE_S, SYSTEM_FOLDERS, Sandbox

SAYS_PID: Final = "echo $$; read -r _"  # bubblewrap has brought loopback up by then; it ends with its input
PROBED: Final = ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--", "/bin/sh", "-c", ":")


class SharedNetwork:
    """An open network.

    Attributes:
        entrance: the program, with its arguments, that starts what comes behind them in the network.
    """

    def __init__(self, nsenter: Path, namespaces: Mapping[str, int]) -> None:
        """`namespaces` are descriptors by nsenter's names, which `close` gives back."""
        self._open = list(namespaces.values())
        # found by our pid: a sandbox that inherited the descriptors would be led out by them
        places = [f"--{name}=/proc/{os.getpid()}/fd/{fd}" for name, fd in namespaces.items()]
        self.entrance = (str(nsenter), "--preserve-credentials", *places, "--")

    def close(self) -> None:
        """Give it up; those who are in it stay in it."""
        while self._open:
            os.close(self._open.pop())


def open_shared_network(sandbox: Sandbox) -> SharedNetwork | None:
    """A new one; None where this machine lets nobody in. Starts a few processes, about 15 ms."""
    nsenter = _find_nsenter()
    if nsenter is None:
        return None
    # as root the users stay the machine's, who may write in a folder that is another user's
    for names in (("net",), ("net", "user")) if os.geteuid() == 0 else (("net", "user"),):
        if namespaces := _make(sandbox, names):
            network = SharedNetwork(nsenter, namespaces)
            if _lets_in(network, sandbox):
                return network
            network.close()
    return None


def _find_nsenter() -> Path | None:
    """Not along PATH, as for bubblewrap itself."""
    places = (Path(folder, "nsenter") for folder in SYSTEM_FOLDERS)
    return next((place for place in places if place.is_file()), None)


def _make(sandbox: Sandbox, names: tuple[str, ...]) -> dict[str, int]:
    """Descriptors of these namespaces, made by a process that ends at once; empty where none can be made."""
    new = (f"--unshare-{name}" for name in names)
    argv = (
        sandbox.program,
        *new,
        "--die-with-parent",
        "--ro-bind",
        "/",
        "/",
        "--",
        "/bin/sh",
        "-c",
        SAYS_PID,
    )
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL) as maker:
        assert maker.stdout is not None
        told = maker.stdout.readline().strip()
        if not told.isdigit():
            return {}
        folder = f"/proc/{int(told)}/ns"
        return {name: os.open(f"{folder}/{name}", os.O_RDONLY | os.O_CLOEXEC) for name in names}


def _lets_in(network: SharedNetwork, sandbox: Sandbox) -> bool:
    probe = (*network.entrance, sandbox.program, *NAMESPACES, *OWN_USERS, *PROBED)
    quiet = subprocess.DEVNULL
    try:
        done = subprocess.run(probe, stdin=quiet, stdout=quiet, stderr=quiet, timeout=PROBE_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
