"""What a strategy is given in a step, and the count of what its model calls cost."""

from collections.abc import Iterable

from langchain_core.messages import AIMessage

from lockstitch.graph.conversation import prompt_for
from lockstitch.graph.note import since_question
from lockstitch.graph.run import Run
from lockstitch.graph.strategies.protocol import Turn
from lockstitch.state.events import AgentUsage
from lockstitch.state.run_state import RunState, StepRecord


def build_turn(state: RunState, run: Run) -> Turn:
    """The turn of the step under way."""
    messages = state["messages"]
    asked = since_question(messages)
    return Turn(
        prompt=prompt_for(messages, workspace=state["workspace"]),
        model=run.model,
        tools=[tool.schema for tool in run.tools],
        todos=state.get("todos", []),
        question=asked[0].text if asked else "",
        step=run.step,
        max_steps=state["max_steps"],
    )


def count_tokens(
    replies: Iterable[AIMessage], draft: StepRecord, state: RunState, run: Run
) -> tuple[int, int]:
    """Add what the replies cost to the step's record, and report it; the run's tokens so far, in and out."""
    usages = [reply.usage_metadata for reply in replies if reply.usage_metadata]
    spent = (sum(u["input_tokens"] for u in usages), sum(u["output_tokens"] for u in usages))
    draft["input_tokens"] += spent[0]
    draft["output_tokens"] += spent[1]
    total = (state["input_tokens"] + spent[0], state["output_tokens"] + spent[1])
    run.emit(
        AgentUsage(
            model=draft["model"],
            input_tokens=spent[0],
            output_tokens=spent[1],
            run_input_tokens=total[0],
            run_output_tokens=total[1],
        )
    )
    return total
