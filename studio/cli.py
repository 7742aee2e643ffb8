"""The command `lockstitch`: its commands by name, its global options, and the one place errors become words.

Imports a command's module only when that command is called: `--help` is on nobody's way.
"""

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from keyword import iskeyword
from pathlib import Path
from typing import Any, Final

import click

from lockstitch.state.errors import AgentError, TerminalError
from lockstitch.studio.uncollected import uncollected
from lockstitch.studio.visible import make_visible

COMMANDS: Final[dict[str, str]] = {
    "run": "Run the agent on a prompt, or go on with a thread.",
    "chat": "Talk with the agent on one thread, prompt after prompt.",
    "serve": "Serve the page and the HTTP API, for this machine alone.",
    "threads": "List threads, the latest first.",
    "show": "Show a thread: its steps, its answer and how to go on.",
    "diff": "Compare a thread's files after two of its steps.",
    "rewind": "Take files and conversation back to a step; asks first.",
    "fork": "Begin a new thread at a step of this one, which stays as it is.",
    "undo": "Take back the last rewind, or else the last step.",
    "redo": "Take back the last undo or rewind.",
    "export": "Write a thread, with the files it changed, into one archive.",
    "import": "Take in a thread from an archive.",
    "clear": "Clear a thread's memory; the thread itself and the files stay.",
    "prune": "Delete threads that rested for a while; lists them and asks first.",
    "vacuum": "Give the space of what was deleted back to the disk.",
    "facts": "List what the agent remembers of a workspace, or delete it.",
    "audit": "List every call of a tool: when, on what, how it ended.",
    "policy": "List the rules, or say what would happen to a command.",
    "index": "Build, refresh, list or drop the index that code is searched by.",
    "search": "Search the workspace's code by words and by meaning.",
    "tool": "List the tools, or call one directly without a model.",
    "models": "Show which models and presets are set, and what they cost.",
    "doctor": "Check this installation and say what to do.",
    "demo": "Watch a scripted model find and fix a real bug; needs no key.",
}
"""Each command's module in `studio/commands`, and its line of help."""

EXIT_FAULT: Final = 1  # anything unforeseen, also what Python itself ends with
EXIT_INTERRUPTED: Final = 130  # 128 + SIGINT, as shells report it
EXIT_BROKEN_PIPE: Final = 141  # 128 + SIGPIPE: whoever read our output has left


class CommandGroup(click.Group):
    """Loads commands late, and turns what they raise into one line and an exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  click's signature
        """The names in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import the command's module."""
        if cmd_name not in COMMANDS:
            return None
        module = f"{cmd_name}_" if iskeyword(cmd_name) else cmd_name  # no module can be called `import`
        with uncollected():
            command: click.Command = import_module(f"lockstitch.studio.commands.{module}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the list of commands from the table, importing none of them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; with --debug whatever it raises passes through."""
        if ctx.params.get("debug"):
            return super().invoke(ctx)
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except BrokenPipeError:
            return _drop_stdout()
        except AgentError as error:
            _complain(error.message)
            return error.exit_code if isinstance(error, TerminalError) else EXIT_FAULT
        except Exception as error:  # noqa: BLE001  the process's boundary: a person gets a line, no stack trace
            what = f"{type(error).__name__}: {error}"
            _complain(f"this is a bug: {what}. Run again with --debug for the stack trace.")
            return EXIT_FAULT


def _show_version(ctx: click.Context, param: click.Parameter, value: object) -> None:  # noqa: ARG001
    if not value:
        return
    from importlib.metadata import PackageNotFoundError, version

    try:
        click.echo(f"lockstitch {version('lockstitch')}")
    except PackageNotFoundError:
        click.echo("lockstitch, run from a source folder that is not installed")
    ctx.exit()


@click.group(
    cls=CommandGroup,
    name="lockstitch",
    context_settings={"help_option_names": ["-h", "--help"]},
    no_args_is_help=True,
)
@click.option(
    "--home",
    type=click.Path(path_type=Path),
    help="Folder for threads and settings, instead of LOCKSTITCH_HOME.",
)
@click.option("--debug", is_flag=True, envvar="LOCKSTITCH_DEBUG", help="Show the stack trace of an error.")
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version.",
)
@click.pass_context
def cli(ctx: click.Context, *, home: Path | None, debug: bool) -> None:  # noqa: ARG001  see CommandGroup.invoke
    """Lockstitch: a coding agent whose threads can be resumed at any step.

    Each command has a help of its own: `lockstitch run --help`.
    """
    ctx.obj = home.expanduser().absolute() if home else None


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; `argv` without the program's name."""
    _prepare_streams()
    try:
        code = cli.main(argv, prog_name="lockstitch", standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()  # the help itself, for a call with no words
        return error.exit_code
    except click.ClickException as error:
        _complain(_one_line(error))
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        return _drop_stdout()
    return code if isinstance(code, int) else 0


def _one_line(error: click.ClickException) -> str:
    """What is wrong with the call, and where to read how it goes."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    where = f" `{context.command_path} --help` shows how." if context else ""
    return error.format_message() + where


def _complain(message: str) -> None:
    click.echo(f"lockstitch: {make_visible(message)}", err=True)


def _prepare_streams() -> None:
    """Open what the caller has closed, so that no file of ours gets its place; print any character."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115  stays open
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal that cannot show a character gets its code instead
            stream.reconfigure(errors="backslashreplace")


def _drop_stdout() -> int:
    """Let the interpreter's last flush go nowhere, it would print a stack trace; the exit code."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
    return EXIT_BROKEN_PIPE


if __name__ == "__main__":
    sys.exit(main())
