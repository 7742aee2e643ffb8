"""The forwarder: a command in it reaches the proxy's socket, and its exit code is the command's."""

import asyncio
import sys
from pathlib import Path

import pytest

from lockstitch.tools.commands import domain_forward
from lockstitch.tools.commands.domain_forward import environment, split

PROGRAM = domain_forward.__file__ or ""
PATIENCE_S = 30
CLIENT = """
import os, socket, urllib.parse
place = urllib.parse.urlsplit(os.environ['https_proxy'])
with socket.create_connection((place.hostname, place.port)) as s:
    s.sendall(b'ping'); s.shutdown(socket.SHUT_WR)
    print(s.makefile().read(), os.environ['HTTP_PROXY'] == os.environ['all_proxy'])
raise SystemExit(7)
"""


async def forwarded(socket: Path, *command: str) -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-S", PROGRAM, "--socket", str(socket), "--port", "0", "--", *command),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(PATIENCE_S):
        out, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


async def test_a_command_reaches_the_socket_and_keeps_its_exit_code(tmp_path: Path) -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.read()).upper())
        writer.close()

    socket = tmp_path / "s"
    async with await asyncio.start_unix_server(echo, socket):
        assert await forwarded(socket, sys.executable, "-c", CLIENT) == (7, "PING True\n", "")


async def test_a_proxy_that_is_gone_is_a_closed_connection(tmp_path: Path) -> None:
    code, _, err = await forwarded(tmp_path / "absent", sys.executable, "-c", CLIENT)
    assert code == 7 or "Error" in err  # the client reads an end, or meets it while it writes


async def test_exit_codes_are_those_of_a_shell(tmp_path: Path) -> None:
    assert (await forwarded(tmp_path / "s", "sh", "-c", "kill -9 $$"))[0] == 137
    code, _, err = await forwarded(tmp_path / "s", "/no/such/program")
    assert (code, err) == (127, "/no/such/program: No such file or directory\n")


async def test_a_command_meets_a_broken_pipe_as_it_would_alone(tmp_path: Path) -> None:
    script = "sh -c 'yes; echo $? >&2' | head -1"
    assert await forwarded(tmp_path / "s", "sh", "-c", script) == (0, "y\n", "141\n")


@pytest.mark.parametrize(
    "arguments", [[], ["--", "ls"], ["--socket", "s"], ["--socket", "s", "--"], ["--sock", "s", "--", "ls"]]
)
def test_wrong_usage_is_said(arguments: list[str]) -> None:
    with pytest.raises(SystemExit, match="usage: "):
        split(arguments)


def test_what_stands_behind_the_dashes_is_the_commands() -> None:
    options, command = split(["--socket", "s", "--", "a", "--", "--port", "9"])
    assert options == {"--socket": "s", "--port": "0"}
    assert command == ["a", "--", "--port", "9"]


def test_the_proxy_stands_in_every_spelling_and_not_for_loopback() -> None:
    env = environment({"A": "b", "https_proxy": "old"}, "http://127.0.0.1:1")
    assert {env[name] for name in ("http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY")} == {
        "http://127.0.0.1:1"
    }
    assert env["A"] == "b"
    assert "127.0.0.1" in env["NO_PROXY"].split(",")
