"""plan-and-execute: writes the TODO list first, works item by item, plans again when an item fails.

Keeps nothing between steps: what was said and what failed is read from the conversation.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, ToolMessage

from lockstitch.graph.note import is_note, note, since_question
from lockstitch.graph.prompts import load_prompt
from lockstitch.graph.strategies.protocol import Thought, Turn
from lockstitch.graph.strategies.react import React, thought_of
from lockstitch.state.todos import Todo

FAILED_STEPS: Final = 2  # in a row, with a failing call; one failure is how a model learns the next move
FAILED_MARK: Final = "ITEM FAILED:"  # how work_item.md lets the model give an item up
LIST_TOOLS: Final = frozenset({"create_tasks", "update_task_status"})  # no item can be worked off without

WHY_FAILED: Final = "The last steps failed."
WHY_GIVEN_UP: Final = "You said that the item failed."
WHY_ANSWERED: Final = "You answered while items are open."


class PlanAndExecute(React):
    """For long tasks: a list the person can follow, and one thing at a time."""

    name = "plan-and-execute"

    async def think(self, turn: Turn) -> Thought:
        """Ask for the list, or for work on one item of it; as react where there is no list."""
        if not names_of(turn) >= LIST_TOOLS:
            return await super().think(turn)
        if open_items(turn.todos):
            return await self._work(turn)
        return await (self._plan(turn) if turn.step == 1 else super().think(turn))

    async def _plan(self, turn: Turn) -> Thought:
        """One ask for the list alone. A refusal leaves no trace: the model is asked again as in react."""
        only = [schema for schema in turn.tools if schema["function"]["name"] == "create_tasks"]
        told = note(load_prompt("plan_tasks"))
        planned = await turn.model.ask([*turn.prompt, told], tools=only, must_call=True)
        if calls_something(planned):
            return replace(thought_of(planned), before=[told])
        thought = await super().think(turn)
        return replace(thought, replies=[planned, thought.reply])

    async def _work(self, turn: Turn) -> Thought:
        """One ask with all tools; an answer while items are open is questioned once."""
        told = directives(turn)
        reply = await turn.model.ask([*turn.prompt, *told], tools=turn.tools)
        again = replan_note(turn, WHY_GIVEN_UP if gives_up(reply) else WHY_ANSWERED)
        if calls_something(reply) or not reply.text.strip() or was_asked(turn, told, again):
            return replace(thought_of(reply), before=told)
        before: list[AnyMessage] = [*told, reply, again]
        second = await turn.model.ask([*turn.prompt, *before], tools=turn.tools)
        return replace(thought_of(second), before=before, replies=[reply, second])


def directives(turn: Turn) -> list[AnyMessage]:
    """What the model is told before this step: to plan again, which item is next, or nothing new."""
    why = why_replan(turn.prompt)
    if why:
        return [replan_note(turn, why)]
    item = current_item(turn.todos)
    said = note(load_prompt("work_item").format(id=item["id"], content=item["content"]))
    notes = [message.text for message in since_question(turn.prompt) if is_note(message)]
    return [] if notes and notes[-1] == said.text else [said]


def why_replan(prompt: Sequence[BaseMessage]) -> str:
    """Why the list must be looked at again; empty when the work goes on. Counts from the last such look."""
    recent = since_replan(prompt)
    replies = [message for message in recent if isinstance(message, AIMessage)]
    if replies and gives_up(replies[-1]):
        return WHY_GIVEN_UP
    failing = steps_that_failed(recent)
    return WHY_FAILED if len(failing) >= FAILED_STEPS and all(failing[-FAILED_STEPS:]) else ""


def since_replan(prompt: Sequence[BaseMessage]) -> list[BaseMessage]:
    """What came after the last directive to plan again, or after the person's last message."""
    run = since_question(prompt)
    marks = [at for at, message in enumerate(run) if is_note(message) and is_replan(message)]
    return run[marks[-1] + 1 :] if marks else run


def is_replan(message: BaseMessage) -> bool:
    """Whether this note asked to plan again."""
    return message.text.startswith((WHY_FAILED, WHY_GIVEN_UP, WHY_ANSWERED))


def steps_that_failed(messages: Sequence[BaseMessage]) -> list[bool]:
    """For each reply with calls, in order, whether one of them failed."""
    failed: list[bool] = []
    for message in messages:
        if isinstance(message, AIMessage) and message.tool_calls:
            failed.append(False)
        elif isinstance(message, ToolMessage) and message.status == "error" and failed:
            failed[-1] = True
    return failed


def was_asked(turn: Turn, told: Sequence[BaseMessage], again: BaseMessage) -> bool:
    """Whether the model knew the open items when it answered: told now, or in the same words before."""
    said = [message.text for message in since_question(turn.prompt) if is_note(message)]
    return any(is_replan(message) for message in told) or again.text in said


def replan_note(turn: Turn, why: str) -> AnyMessage:
    """The directive to look at the list again, with what is open and what is done."""
    done = [item for item in turn.todos if item["status"] == "completed"]
    return note(
        load_prompt("replan").format(why=why, open=_lines(open_items(turn.todos)), completed=_lines(done))
    )


def _lines(items: Iterable[Todo]) -> str:
    return "\n".join(f"- {item['id']}. {item['content']}" for item in items) or "- none"


def open_items(todos: Sequence[Todo]) -> list[Todo]:
    """The items that are not completed, in order."""
    return [item for item in todos if item["status"] != "completed"]


def current_item(todos: Sequence[Todo]) -> Todo:
    """The open item in progress, else the first open one."""
    items = open_items(todos)
    return next((item for item in items if item["status"] == "in_progress"), items[0])


def gives_up(reply: AIMessage) -> bool:
    """Whether a line of the reply says that the item failed."""
    return any(line.strip(" *`-").startswith(FAILED_MARK) for line in reply.text.splitlines())


def calls_something(reply: AIMessage) -> bool:
    """Whether the reply holds a tool call, be it a broken one."""
    return bool(reply.tool_calls or reply.invalid_tool_calls)


def names_of(turn: Turn) -> set[str]:
    """The tools this run may call."""
    return {schema["function"]["name"] for schema in turn.tools}
