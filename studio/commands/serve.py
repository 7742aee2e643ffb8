"""`lockstitch serve`: the page, the HTTP API and the WebSocket, served alone."""

import asyncio
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from lockstitch.state.errors import UsageError
from lockstitch.state.home import prepare_home
from lockstitch.state.settings import Settings, load_settings
from lockstitch.studio.security.addresses import address_as_host
from lockstitch.studio.security.login import describe_links
from lockstitch.studio.security.token import read_or_make_token
from lockstitch.studio.stop_signals import on_stop_signals
from lockstitch.studio.uncollected import uncollected
from lockstitch.studio.visible import make_visible

if TYPE_CHECKING:
    import uvicorn
    from starlette.types import ASGIApp

    from lockstitch.studio.board import Board

LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
EVERY_ADDRESS: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  and which of them a link names
PORT: Final = 8765
BACKLOG: Final = 128  # connections that wait to be taken, as uvicorn and asyncio have it elsewhere
HANG_UP_S: Final = 3  # seconds for answers under way once the runs rest; a page that only listens has no end
STOPPING: Final = (
    "Stopping: runs end after what they are doing; every thread can go on later. Again leaves at once."
)
EXPOSED: Final = (
    "WARNING: others can reach this server, and what is sent is not encrypted: who listens in on the network "
    "learns the token, and can then run commands as you. Better: `ssh -L {port}:127.0.0.1:{port}` from there."
)


@click.command(name="serve")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=PORT, show_default=True, help="0 takes a free one."
)
@click.option("--host", default=LOOPBACK[0], show_default=True, help="Address to listen on.")
@click.option("--expose", is_flag=True, help="Allow a --host that others can reach.")
@click.option("--allow-host", "names", multiple=True, metavar="NAME", help="Another name in the address bar.")
@click.option(
    "--workspace", type=click.Path(path_type=Path), help="Folder to work in. Default: the current one."
)
@click.option(
    "--allow-root",
    "roots",
    type=click.Path(path_type=Path),
    multiple=True,
    metavar="DIR",
    help="Clients may choose workspaces below it. Default: the workspace.",
)
@click.option("--link", is_flag=True, help="Only make a new login link for the server on --port.")
@click.pass_obj
def command(
    home: Path | None,
    /,
    *,
    port: int,
    host: str,
    expose: bool,
    names: Sequence[str],
    workspace: Path | None,
    roots: Sequence[Path],
    link: bool,
) -> int:
    """Serve the page and the HTTP API, for this machine alone.

    Open the link it prints: it logs one browser in. Programs send the token of the home folder instead.
    Without a model, a --workspace and an --allow-root it runs the scripted demo, and says so.
    Ctrl-C and SIGTERM stop it in good order, with the exit codes 130 and 143.
    """
    settings = load_settings(home=home, workspace=workspace, allowed_roots=roots or None)
    if link:
        token = read_or_make_token(prepare_home(settings.home).path)
        click.echo(describe_links(_url(host, port), token, now=time.time(), studio=True))
        return 0
    if host not in LOOPBACK and not expose:
        raise click.UsageError(f"--host {host} can be reached by others: add --expose if that is meant.")
    with _listening(host, port) as listener:
        port = listener.getsockname()[1]
        if host not in LOOPBACK:
            click.echo(EXPOSED.format(port=port), err=True)
        is_named = workspace is not None or bool(roots)
        return asyncio.run(_serve(settings, listener, names, url=_url(host, port), demo=not is_named))


def _url(host: str, port: int) -> str:
    return f"http://{address_as_host(EVERY_ADDRESS.get(host, host))}:{port}"


@contextmanager
def _listening(host: str, port: int) -> Iterator[socket.socket]:
    """A socket that listens, so that the port is known and taken before anything else is begun.

    Raises:
        UsageError: the port is taken, or the address is none of this machine.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        reason = (error.strerror or "unknown error").partition(" (")[0].lower()
        raise UsageError(f"cannot listen on {host}, port {port}: {reason}. Choose another --port.") from error
    with listener:
        # as asyncio does for its own sockets: else an answer's body waits 40 ms for the receipt of its head
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield listener


async def _serve(
    given: Settings, listener: socket.socket, names: Sequence[str], *, url: str, demo: bool
) -> int:
    """Serve until a signal comes; the exit code. `demo` where it may run that, for want of a model."""
    with uncollected():
        from lockstitch.graph.keyless import settings_of_server
        from lockstitch.studio.app import build_app
        from lockstitch.studio.board import open_board
        from lockstitch.studio.security.guard import secure

    settings, project = settings_of_server(given) if demo else (given, None)
    async with open_board(settings, holder="lockstitch serve", on_loop=True) as board:
        app = build_app(board, settings, project)
        token = secure(app, settings, hosts=names, origins=())
        server = _build_server(app, partial(_tell, settings, url, token))
        stopped = asyncio.Event()
        with on_stop_signals(stopped.set) as signals:
            stopping = asyncio.create_task(_stop(server, board, stopped))
            await server.serve(sockets=[listener])
        await stopping
        return signals.exit_code or 0


def _tell(settings: Settings, url: str, token: str) -> None:
    from lockstitch.graph.models.choice import choose_model

    click.echo(f"Serving {make_visible(str(settings.workspace or Path.cwd()))}; Ctrl-C stops.")
    click.echo(describe_links(url, token, now=time.time(), studio=False))
    try:
        choose_model(None, settings)
    except UsageError as error:
        click.echo(f"Runs cannot begin yet: {error.message}", err=True)


async def _stop(server: "uvicorn.Server", board: "Board", stopped: asyncio.Event) -> None:
    """When it is time, let the runs rest before anybody is hung up on: their clients are still told."""
    from lockstitch.studio.board import DRAIN_S

    await stopped.wait()
    try:
        click.echo(STOPPING, err=True)
        await board.drain(DRAIN_S)
    finally:
        server.should_exit = True


def _build_server(app: "ASGIApp", tell: Callable[[], None]) -> "uvicorn.Server":
    import uvicorn

    from lockstitch.studio.security.guard import BODY_MAX

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            tell()  # not before: a link is good only at a server that was there when it was made

        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield  # they are ours

    return Server(
        uvicorn.Config(
            app,
            log_config=None,
            access_log=False,  # a request line holds what was asked for
            server_header=False,
            proxy_headers=False,  # nobody stands between, and who says so may say anything
            ws_max_size=BODY_MAX,
            timeout_graceful_shutdown=HANG_UP_S,
        )
    )
