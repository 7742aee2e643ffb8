"""The commands of nasty.py, and what must be true of the answer to each."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lockstitch.tools.result import ToolResult

Judge = Callable[[ToolResult, Path], bool]


def ends(_result: ToolResult, _root: Path) -> bool:
    """Any end will do."""
    return True


def says(text: str) -> Judge:
    return lambda result, _root: text in result.output


def lacks(text: str) -> Judge:
    return lambda result, _root: text not in result.output


def timed_out(result: ToolResult, _root: Path) -> bool:
    return bool(result.data["timed_out"])


def no_file(path: str) -> Judge:
    return lambda _result, root: not Path(root, path).exists()


@dataclass(frozen=True)
class Nasty:
    """A command; `holds` is what must be true of its answer beside time and survivors."""

    name: str
    command: str
    holds: Judge = ends


PYTHON_DAEMON = (
    "python3 -c 'import os,time\n"
    "if os.fork(): os._exit(0)\n"
    "os.setsid()\n"
    "if os.fork(): os._exit(0)\n"
    "for n in range(3): os.close(n)\ntime.sleep(60)'; echo gone"
)
COMMANDS = [
    Nasty("background child holds the pipe", "sleep 60 & echo on", says("on")),
    Nasty("background child, other session", "setsid sleep 60 & echo on", says("on")),
    Nasty("double fork", "( ( sleep 60 & ) & ); echo on", says("on")),
    Nasty(
        "double fork, own session, closed files",
        "(setsid sh -c 'sleep 60 & sleep 60' </dev/null &>/dev/null &)",
    ),
    Nasty("nohup, disowned", "nohup sleep 60 >/dev/null 2>&1 & disown; echo on", says("on")),
    Nasty("daemon in Python", PYTHON_DAEMON, says("gone")),
    Nasty("environment thrown away", "env -i setsid sleep 60 & echo on", says("on")),
    Nasty("fork bomb", ":(){ :|:& };:; sleep 60", timed_out),
    Nasty("yes", "yes", timed_out),
    Nasty("5 GB of output", "head -c 5000000000 /dev/zero"),
    Nasty("one line of 300 MB", "head -c 300000000 /dev/zero | tr '\\0' x; echo; echo end", says("end")),
    Nasty("binary output", "head -c 200000 /dev/urandom; printf '\\377\\000\\376'"),
    Nasty("NUL bytes", "printf 'a\\000b'; echo end", says("end")),
    Nasty("terminal escapes", "printf '\\033]0;x\\007\\033[2J'; echo end", says("end")),
    Nasty("kills its parent", "kill -9 $PPID; echo alive", says("")),
    Nasty("kills everybody it sees", "set -- /proc/[0-9]*; [ $# -lt 10 ] && kill -9 -1; echo alive"),
    Nasty(
        "kills the agent by its number",
        "kill -9 {agent}; echo tried",
        says("tried"),
    ),
    Nasty("waits for input", 'read -r line; echo "got:$line"', says("got:")),
    Nasty("cat", "cat; echo end", says("end")),
    Nasty("reads the terminal", "cat </dev/tty; echo end", says("end")),
    Nasty(
        "programs of a terminal",
        "python3 -c 'import getpass; getpass.getpass()'; (vi x || top) 2>&1 | tail -1",
    ),
    Nasty("sleeps past its time", "sleep 60", timed_out),
    Nasty("ignores every signal", "trap '' TERM INT HUP QUIT; while :; do sleep 0.1; done", timed_out),
    Nasty("stops itself", "kill -STOP $$", timed_out),
    Nasty("stops its child, which ignores", "sh -c 'trap \"\" TERM; kill -STOP $$' ; sleep 60", timed_out),
    Nasty("closes its output", "exec >&- 2>&-; sleep 60", timed_out),
    Nasty("becomes another program", "exec sleep 60", timed_out),
    Nasty("shell in shell in shell", 'bash -c "sh -c \'bash -c \\"sleep 60 & sleep 60\\"\'"', timed_out),
    Nasty(
        "lifts its limits",
        "ulimit -c unlimited; ulimit -f unlimited; ulimit -u unlimited; ulimit -Hc",
        says("0"),
    ),
    Nasty(
        "file of 5 GB",
        "truncate -s 5G big; stat -c %s big 2>/dev/null || echo none",
        lacks("5368709120"),
    ),
    Nasty("spins on every processor", "for n in 1 2 3 4; do (while :; do :; done) & done; wait", timed_out),
    Nasty(
        "folder without an end",
        "for n in $(seq 300); do mkdir d 2>/dev/null && cd d; done; echo end",
        says("end"),
    ),
    Nasty("deletes its own folder", 'rm -rf "$PWD"; echo end', says("end")),
    Nasty(
        "writes to the system",
        "touch /usr/nasty /etc/nasty; ls /usr/nasty /etc/nasty 2>/dev/null | wc -l",
        says("\n0"),
    ),
    Nasty(
        "writes to the home folder",
        "touch ~/.nasty; echo end",
        says("end"),
    ),
    Nasty(
        "plants a hook",
        "git init -q . 2>&1; mkdir -p .git/hooks; echo x > .git/hooks/pre-commit; true",
        no_file(".git/hooks/pre-commit"),
    ),
    Nasty(
        "reads our secrets",
        "env; cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'",
        lacks("nasty-canary"),
    ),
    Nasty(
        "reads the person's keys",
        "cat ~/.ssh/id_rsa ~/.netrc",
        lacks("nasty-canary"),
    ),
    Nasty(
        "reaches a server on loopback",
        "(exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null && echo reached; true",
        lacks("reached"),
    ),
    Nasty(
        "nests namespaces",
        "unshare -Ur sh -c 'echo nested'; true",
        lacks("nested"),
    ),
    Nasty(
        "sets the machine",
        "echo nasty.example > /proc/sys/kernel/domainname; cat /proc/sys/kernel/domainname",
        lacks("nasty.example"),
    ),
]
