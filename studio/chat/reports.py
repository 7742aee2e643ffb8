"""The slash commands that show: steps, tasks, facts, cost and context of the thread."""

import asyncio

from lockstitch.state.facts import FactStore
from lockstitch.studio.blocks import cost_words
from lockstitch.studio.chat.talk import Talk
from lockstitch.studio.commands.show import summary_lines
from lockstitch.tools.todo import render_todos


async def show_steps(talk: Talk, _: str) -> None:
    """The steps of the thread."""
    view = await talk.session.look()
    talk.say(*(summary_lines(view) if view else ("This thread has not begun.",)))


async def show_todos(talk: Talk, _: str) -> None:
    """Its TODO list."""
    view = await talk.session.look()
    todos = view.state.get("todos", []) if view else []
    talk.say(render_todos(todos) if todos else "This thread has no TODO list.")


async def show_cost(talk: Talk, _: str) -> None:
    """Tokens and cost of the last run and of the thread."""
    state = await talk.look_again()
    run = state.get("input_tokens", 0), state.get("output_tokens", 0)
    gauge = talk.gauge
    run_cost = cost_words(state.get("cost_usd", 0.0)) if gauge.paid else "free of cost"
    talk.say(f"run     {run[0]:,} tokens in, {run[1]:,} out · {run_cost}")
    talk.say(f"thread  {gauge.tokens:,} tokens · {gauge.cost or 'free of cost'}")


async def show_context(talk: Talk, _: str) -> None:
    """How full the context is."""
    await talk.look_again()
    gauge = talk.gauge
    window = f" of {gauge.window:,}" if gauge.window else "; the model's window is unknown"
    talk.say(f"{gauge.context}: {gauge.context_tokens:,}{window} tokens")


async def show_facts(talk: Talk, _: str) -> None:
    """What is remembered of the workspace from thread to thread."""
    home = talk.session.service.parts.home.path
    with FactStore(home) as store:
        facts = await asyncio.to_thread(store.facts, str(await talk.folder()))
    talk.say(
        *(f"- {fact.text}" for fact in facts) if facts else ("Nothing is remembered of this workspace.",)
    )
