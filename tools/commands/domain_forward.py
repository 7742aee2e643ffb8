"""Carries a command's connections out of a network namespace, to the proxy's unix socket.

A program of its own, for any python3 from 3.9 on that is found in a sandbox, without our packages:

    python3 -I -S domain_forward.py --socket /run/proxy.sock --port 0 -- sh -c 'pip download six'

It listens on 127.0.0.1 (port 0: a free one), runs the command with HTTP_PROXY, HTTPS_PROXY and ALL_PROXY
set in either letter case, and exits with the command's exit code, 128 + N when signal N ended it. Loopback
must be up (bubblewrap's `--unshare-net` brings it up). The socket is bound in by
`--bind SOCKET /run/proxy.sock`, this file by `--ro-bind FILE FILE`. `-I` keeps the folder of this file, and
the workspace, from being imported from.
"""

import os
import signal
import socket
import sys
import threading
from collections.abc import Mapping, Sequence

PIECE_BYTES = 64 * 1024  # read at once in either direction
WAITING_MAX = 64  # connections that wait to be taken; the proxy takes as many at once
EXIT_NOT_STARTED = 127  # as a shell says it of a command it does not find
NO_PROXY = "localhost,127.0.0.1,::1"  # servers that the command itself starts


def main(arguments: Sequence[str]) -> int:
    """Run the command behind `--`; returns its exit code."""
    options, command = split(arguments)
    with socket.create_server(("127.0.0.1", int(options["--port"])), backlog=WAITING_MAX) as listener:
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        threading.Thread(target=serve, args=(listener, options["--socket"]), daemon=True).start()
        try:
            code = run(command, environment(os.environ, address))
        except OSError as error:
            sys.stderr.write(f"{command[0]}: {error.strerror}\n")
            return EXIT_NOT_STARTED
    return code if code >= 0 else 128 - code


def run(command: "list[str]", env: Mapping[str, str]) -> int:
    """Run a program to its end: its exit code, -N after signal N. `subprocess` costs 15 ms to import."""
    ignored_by_python = (signal.SIGPIPE, signal.SIGXFSZ)  # and not by the command
    pid = os.posix_spawnp(command[0], command, env, setsigdef=ignored_by_python)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def split(arguments: Sequence[str]) -> "tuple[dict[str, str], list[str]]":
    """The options by name, and the command behind `--`."""
    end = list(arguments).index("--") if "--" in arguments else len(arguments)
    options = {"--port": "0", **dict(zip(arguments[:end:2], arguments[1:end:2]))}  # noqa: B905  3.9 knows no `strict`
    command = list(arguments[end + 1 :])
    if set(options) != {"--socket", "--port"} or not command:
        raise SystemExit("usage: domain_forward.py --socket PATH [--port N] -- COMMAND...")
    return options, command


def environment(given: Mapping[str, str], address: str) -> "dict[str, str]":
    """The command's environment: all that is given, and where the proxy is."""
    names = ("http_proxy", "https_proxy", "all_proxy")
    proxies = {spelled: address for name in names for spelled in (name, name.upper())}
    return {**given, **proxies, "no_proxy": NO_PROXY, "NO_PROXY": NO_PROXY}


def serve(listener: socket.socket, path: str) -> None:
    """Take connections until the program ends."""
    while True:
        try:
            client, _ = listener.accept()
        except OSError:  # closed, since the command has ended
            return
        threading.Thread(target=join, args=(client, path), daemon=True).start()


def join(client: socket.socket, path: str) -> None:
    """Carry bytes between a client and the proxy until both have ended."""
    with client, socket.socket(socket.AF_UNIX) as proxy:
        try:
            proxy.connect(path)
        except OSError:  # the proxy has ended: the client meets a closed connection
            return
        back = threading.Thread(target=carry, args=(proxy, client), daemon=True)
        back.start()
        carry(client, proxy)
        back.join()


def carry(source: socket.socket, target: socket.socket) -> None:
    """Carry bytes one way, and hand on the end."""
    try:
        while piece := source.recv(PIECE_BYTES):
            target.sendall(piece)
        target.shutdown(socket.SHUT_WR)
    except OSError:  # one side went away: the other is told
        for side in (source, target):
            end(side)


def end(side: socket.socket) -> None:
    """Wake whoever waits for this side."""
    try:
        side.shutdown(socket.SHUT_RDWR)
    except OSError:  # it has ended by itself
        return


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
