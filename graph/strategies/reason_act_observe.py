"""reason-act-observe: three strict phases a step, each a model call; only the middle one may call tools.

What a phase is told stands at the end of its prompt and is not stored, so that every prompt begins with the
whole conversation. Of a step are stored: the reasoning as the text of the acting reply, the results, a note.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage

from lockstitch.graph.conversation import answer_of
from lockstitch.graph.models.port import ToolSchemas
from lockstitch.graph.note import is_note, note, since_question
from lockstitch.graph.strategies.control_block import (
    DECIDE_NEXT,
    INTERNAL_TOOLS,
    OBSERVE_DECIDE,
    ObserveBlock,
    ReasonBlock,
    parse_observe,
    parse_reason,
)
from lockstitch.graph.strategies.protocol import Observation, Thought, Turn
from lockstitch.graph.tool_calls import ReadCall, read_reply, with_calls
from lockstitch.state.run_state import CallOutcome

OBSERVED: Final = "Your own note on these results, not the person's words: "  # before a stored observation
NOTHING_YET: Final = "nothing yet"
_FIELD: Final = re.compile(r"\{(question|observation|step|max_steps|tools|files|plan)\}")


def _internal_tool(name: str, description: str, properties: dict[str, Any]) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties, "required": list(properties)}
    return {
        "type": "function",
        "function": {"name": name, "description": description, "parameters": parameters},
    }


REASON_TOOLS: Final[ToolSchemas] = (
    _internal_tool(
        DECIDE_NEXT,
        "End the reason phase. Takes the place of the JSON block.",
        {
            "plan": {"type": "string", "description": "the one next action, or the answer when finished"},
            "tools_to_consider": {"type": "array", "items": {"type": "string"}},
            "finish": {"type": "boolean", "description": "true only when nothing is left to do"},
        },
    ),
)
OBSERVE_TOOLS: Final[ToolSchemas] = (
    _internal_tool(
        OBSERVE_DECIDE,
        "End the observe phase. Takes the place of the JSON block.",
        {
            "observation": {"type": "string", "description": "what is known now"},
            "should_continue": {"type": "boolean", "description": "false when the task is done"},
            "final_answer": {"type": ["string", "null"], "description": "the answer, when it is done"},
        },
    ),
)


class ReasonActObserve:
    """For models that do better when thinking, acting and judging are kept apart."""

    name = "reason-act-observe"

    async def think(self, turn: Turn) -> Thought:
        """Reason, then act, unless reasoning finishes the run."""
        fields = fields_of(turn)
        reasoned = await turn.model.ask([*turn.prompt, told_of(turn, "reason", fields)], tools=REASON_TOOLS)
        text, block = parse_reason(reasoned)
        plan = block.plan if block else ""
        if block and block.finish and (text or plan):
            reply = reworded(reasoned, text or plan, ())
            return Thought(reply=reply, answer=text or plan, reason="finished")
        told = told_of(turn, "act", {**fields, "plan": plan_of(text, block)})
        acted = await turn.model.ask([*turn.prompt, told], tools=turn.tools)
        return _acted(turn, text or plan, [reasoned, acted])

    async def observe(self, turn: Turn, outcomes: Sequence[CallOutcome]) -> Observation:
        """Ask what the results mean; keep that as a note, or end with the final answer."""
        answers = [answer_of(outcome) for outcome in outcomes]
        told = told_of(turn, "observe", fields_of(turn))
        reply = await turn.model.ask([*turn.prompt, *answers, told], tools=OBSERVE_TOOLS)
        text, block = parse_observe(reply)
        final = final_of(text, block)
        if final:
            ended: list[AnyMessage] = [*answers, AIMessage(final)]
            return Observation(
                messages=ended, summary=final, answer=final, reason="finished", replies=[reply]
            )
        seen = (block.observation if block else "") or text
        noted = [note(OBSERVED + seen)] if seen else []
        return Observation(messages=[*answers, *noted], summary=seen, replies=[reply])


def _acted(turn: Turn, reasoning: str, replies: Sequence[AIMessage]) -> Thought:
    """The acting reply, the last one, with its calls; without one its text is the answer."""
    whole, calls = read_reply(replies[-1])
    calls = [call for call in calls if call.tool not in INTERNAL_TOOLS]
    calls = calls[:1] if turn.one_call else calls
    if not calls:
        answer = whole.text.strip() or None
        return Thought(reply=reworded(whole, answer or "", ()), answer=answer, replies=replies)
    return Thought(reply=reworded(whole, reasoning or whole.text, calls), calls=calls, replies=replies)


def told_of(turn: Turn, name: str, fields: Mapping[str, str]) -> HumanMessage:
    """What a phase is told: its prompt with what it names."""
    return note(fill(turn.load_prompt(name), fields))


def fill(template: str, fields: Mapping[str, str]) -> str:
    """The template with its known fields; every other brace stays, so that JSON needs no escapes."""
    return _FIELD.sub(lambda field: fields.get(field[1], field[0]), template)


def fields_of(turn: Turn) -> dict[str, str]:
    """What a phase's prompt can name. The plan comes later, in the act phase alone."""
    return {
        "question": turn.question,
        "observation": last_observation(turn.prompt),
        "step": str(turn.step),
        "max_steps": str(turn.max_steps),
        "tools": "\n".join(summary_of(schema) for schema in turn.tools) or "none",
        "files": ", ".join(turn.files) or "none yet",
    }


def last_observation(prompt: Sequence[BaseMessage]) -> str:
    """The newest note on results since the person's last message."""
    notes = [m.text for m in since_question(prompt) if is_note(m)]
    return next((text.removeprefix(OBSERVED) for text in reversed(notes)), NOTHING_YET)


def summary_of(schema: Mapping[str, Any]) -> str:
    """A tool in one line: its name and the first line of its description."""
    function = schema["function"]
    return f"- {function['name']}: {str(function.get('description', '')).strip().partition(chr(10))[0]}"


def plan_of(text: str, block: ReasonBlock | None) -> str:
    """The reasoning as the act phase is told it."""
    plan = block.plan if block else ""
    tools = ", ".join(block.tools_to_consider) if block else ""
    parts = [text, plan if plan != text else "", f"Tools to consider: {tools}" if tools else ""]
    return "\n".join(part for part in parts if part) or "the next action that the question needs"


def final_of(text: str, block: ObserveBlock | None) -> str:
    """The final answer when the block ends the run; empty to go on, as when it has no words at all."""
    if block is None or block.should_continue:
        return ""
    return block.final_answer or text or block.observation


def reworded(reply: AIMessage, text: str, calls: Sequence[ReadCall]) -> AIMessage:
    """The reply with that text and those calls; its thinking stays, since providers want that back."""
    kept = [] if isinstance(reply.content, str) else [b for b in reply.content if not _is_said(b)]
    said = [{"type": "text", "text": text}] if text else []
    return with_calls(reply, calls, content=[*kept, *said] if kept else text)


def _is_said(block: Any) -> bool:
    """Whether a content block is text or a call, which are written anew."""
    kind = block.get("type") if isinstance(block, dict) else "text"
    return kind in ("text", "output_text", "tool_use", "tool_call", "function_call", "invalid_tool_call")
