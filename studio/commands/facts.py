"""`lockstitch facts`: what the agent knows of a workspace beyond its threads. Does not load the graph."""

from dataclasses import asdict
from pathlib import Path

import click

from lockstitch.state.errors import UsageError, WorkspaceError
from lockstitch.state.facts import Fact, FactStore
from lockstitch.state.home import prepare_home
from lockstitch.state.settings import Settings, load_settings
from lockstitch.studio.confirm import confirm
from lockstitch.studio.terminal import write_json
from lockstitch.studio.visible import make_visible


@click.command(name="facts")
@click.option(
    "--workspace", type=click.Path(path_type=Path), help="Whose facts; default the current folder's."
)
@click.option("--all-workspaces", is_flag=True, help="List the facts of every workspace.")
@click.option("--search", "query", metavar="QUERY", help="List those that fit, by words and by meaning.")
@click.option("--forget", "doomed", metavar="ID", multiple=True, help="Delete this fact; may be repeated.")
@click.option("--forget-all", is_flag=True, help="Delete all facts of the workspace; asks first.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object a line.")
@click.pass_obj
def command(
    home: Path | None,
    /,
    *,
    workspace: Path | None,
    all_workspaces: bool,
    query: str | None,
    doomed: tuple[str, ...],
    forget_all: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """List what the agent remembers of a workspace, or delete it."""
    if sum(map(bool, (all_workspaces, doomed, forget_all, query))) > 1:
        raise click.UsageError("--all-workspaces, --search, --forget and --forget-all do not go together.")
    settings = load_settings(home=home, workspace=workspace)
    with FactStore(prepare_home(settings.home).path) as store:
        if all_workspaces:
            _list(store.all_facts(), as_json=as_json, with_workspace=True)
            return
        folder = _folder(settings)
        if query:
            _search(store.facts(folder), query, settings, as_json=as_json)
        elif doomed:
            _forget(store, folder, doomed)
            _forget_vectors(settings)
        elif forget_all:
            _forget_all(store, folder, yes=yes)
            _forget_vectors(settings)
        else:
            _list(store.facts(folder), as_json=as_json)


def _folder(settings: Settings) -> str:
    """The workspace as runs name it; it need not exist any more."""
    try:
        return str((settings.workspace or Path.cwd()).expanduser().resolve())
    except (OSError, RuntimeError) as error:
        raise WorkspaceError("the workspace cannot be found: name one with --workspace.") from error


def _list(facts: list[Fact], *, as_json: bool, with_workspace: bool = False) -> None:
    if not facts and not as_json:
        click.echo("No facts are kept here; the agent keeps one with its tool `remember`.")
    heading = ""
    for fact in facts:
        if as_json:
            write_json(asdict(fact))
            continue
        if with_workspace and fact.workspace != heading:
            heading = fact.workspace
            click.echo(make_visible(heading))
        click.echo(f"{fact.id}  {fact.created_at[:10]}  {make_visible(fact.text)}")


def _search(facts: list[Fact], query: str, settings: Settings, *, as_json: bool) -> None:
    from lockstitch.tools.fact_search import search_facts

    found = search_facts(facts, query, settings)
    for hit in found.hits:
        if as_json:
            write_json({**asdict(hit.fact), "relevance": round(hit.relevance, 3)})
        else:
            click.echo(f"{hit.fact.id}  {hit.relevance:.2f}  {make_visible(hit.fact.text)}")
    if found.note:
        click.echo(f"lockstitch: {found.note}", err=True)
    if not found.hits and not as_json:
        click.echo("No fact fits.", err=True)


def _forget_vectors(settings: Settings) -> None:
    from lockstitch.tools.fact_search import forget_vectors

    forget_vectors(settings.home)


def _forget(store: FactStore, folder: str, doomed: tuple[str, ...]) -> None:
    known = {fact.id for fact in store.facts(folder)}
    unknown = [fact_id for fact_id in doomed if fact_id not in known]
    if unknown:  # then nothing is deleted: half of what was asked for is no answer
        raise UsageError(
            f"{make_visible(folder)} has no fact {', '.join(unknown)}: `lockstitch facts` lists them."
        )
    for fact_id in doomed:
        store.forget(folder, fact_id)
    click.echo("Forgotten.")


def _forget_all(store: FactStore, folder: str, *, yes: bool) -> None:
    count = len(store.facts(folder))
    if count and confirm(f"Delete all {count} facts of {make_visible(folder)}?", yes=yes):
        store.forget_all(folder)
        click.echo(f"{count} forgotten.")
    else:
        click.echo("Nothing was deleted.")
