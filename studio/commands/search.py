"""`lockstitch search`: the workspace's code by words and by meaning. Does not load the graph."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from lockstitch.studio.commands.index import Bar, open_place, with_json, with_workspace
from lockstitch.studio.terminal import write_json
from lockstitch.studio.visible import make_visible, one_line

if TYPE_CHECKING:
    from lockstitch.tools.code_index.search import Hit

STEP_S: Final = 10.0  # spent on bringing the index up to date: a person waits
LINE_CHARS: Final = 76  # of the first line of a place


@click.command(name="search")
@click.argument("query")
@click.option("--index", "name", help="The index to search; `default` if left out.")
@click.option("--max-results", type=click.IntRange(1, 100), default=10, show_default=True)
@click.option("--min-relevance", type=click.FloatRange(0, 1), default=0.0, show_default=True)
@with_workspace
@with_json
@click.pass_obj
def command(
    home: Path | None,
    /,
    *,
    query: str,
    name: str | None,
    max_results: int,
    min_relevance: float,
    workspace: Path | None,
    as_json: bool,
) -> int:
    """Search the workspace's code by words and by meaning.

    Shows the places that fit QUERY, the best first. Builds or refreshes the index for up to
    10 seconds first. The exit code is 1 where nothing fits.
    """
    from lockstitch.tools.code_index.build import Watch
    from lockstitch.tools.code_index.look_up import Question, find_denial, look_up

    with open_place(home, workspace) as place, Bar() as bar:
        question = Question(
            query=query,
            index=name,
            max_results=max_results,
            min_relevance=min_relevance,
            is_denied=find_denial(place.settings.home, place.workspace),
        )
        found, notes = look_up(
            question, place.workspace, place.settings, Watch(tell=bar.show, limit_s=STEP_S)
        )
    for hit in found.hits:
        _show(hit, as_json=as_json)
    for note in notes:
        click.echo(f"lockstitch: {note}.".replace("..", "."), err=True)
    if not found.hits and not as_json:
        click.echo("Nothing fits.", err=True)
    return int(not found.hits)


def _show(hit: "Hit", *, as_json: bool) -> None:
    chunk = hit.chunk
    if as_json:
        write_json({**_place(hit), "relevance": round(hit.relevance, 3), "why": hit.why, "text": chunk.text})
        return
    reasons = ", ".join(hit.why) or "little"
    place = f"{chunk.path}:{chunk.first}-{chunk.last} {chunk.symbol}".rstrip()
    click.echo(f"{hit.relevance:.2f}  {make_visible(place)}  ({reasons})")
    click.echo(f"      {one_line(chunk.text.strip(), max_chars=LINE_CHARS)}")


def _place(hit: "Hit") -> dict[str, object]:
    chunk = hit.chunk
    return {"path": chunk.path, "first_line": chunk.first, "last_line": chunk.last, "symbol": chunk.symbol}
