"""What is wrong with the options of a session, found before anything is made; and the thread they mean."""

from pathlib import Path

from lockstitch.graph.budget import check_price
from lockstitch.graph.models.choice import choose_model
from lockstitch.graph.models.wish import ModelWish
from lockstitch.graph.nodes.begin import check_workspace
from lockstitch.graph.parts import current_folder
from lockstitch.graph.strategies.registry import choose_strategy
from lockstitch.state.errors import ThreadUnknownError
from lockstitch.state.settings import Settings
from lockstitch.state.threads import ThreadIndex, check_thread_id, new_thread_id
from lockstitch.studio.run_options import RunOptions
from lockstitch.studio.service import AgentService


def check_choices(options: RunOptions, service: AgentService) -> None:
    """Find what a run under these options could not do.

    Raises:
        UsageError: model or strategy cannot be what was asked for, or a cost limit cannot be kept.
    """
    choose_strategy(options.strategy or service.parts.settings.strategy)
    context = options.context()
    wish = ModelWish(model=context.model, preset=context.preset, temperature=context.temperature)
    model = service.parts.models.open(wish)
    if options.cost_limit or service.parts.settings.cost_limit_usd:
        check_price(model)


def check_options(options: RunOptions, settings: Settings) -> Path:
    """Find what is wrong before the home or a thread is made; the folder for a new thread.

    Raises:
        UsageError: workspace, model, strategy or thread id cannot be what was asked for.
    """
    choose_model(options.model, settings)
    choose_strategy(options.strategy or settings.strategy)
    if options.thread is not None:
        check_thread_id(options.thread)
    folder = (options.workspace or settings.workspace or current_folder()).expanduser()
    if options.workspace or options.thread is None:
        return check_workspace(folder, home=settings.home)
    return folder


def choose_thread(options: RunOptions, threads: ThreadIndex, folder: Path) -> str:
    """The id of the thread the options name, the folder's latest, or a new one.

    Raises:
        ThreadUnknownError: there is none to continue.
    """
    if options.thread is not None:
        return check_thread_id(options.thread)
    if not options.latest:
        return new_thread_id()
    row = threads.latest(str(folder))
    if row is None:
        raise ThreadUnknownError("this workspace has no thread yet: give a prompt without --continue.")
    return row.thread_id
