"""POST /api/agent/react_step: one step of reasoning; the client runs the tools and keeps the conversation."""

import asyncio
import json
from pathlib import Path
from typing import Any, Final

from fastapi import APIRouter

from lockstitch.graph.context.gather import gather_context
from lockstitch.graph.models.port import ModelPort
from lockstitch.graph.models.wish import ModelWish
from lockstitch.graph.react_step import Asked, ClientTurn, Step, ToolCall, react_step
from lockstitch.state.errors import AgentError, ModelError
from lockstitch.state.run_context import HandedContext, Snippet
from lockstitch.studio.http.choices import check_model, open_models
from lockstitch.studio.http.desk import Desk, TheDesk, key_of
from lockstitch.studio.http.problems import ProblemRoute, RefusedError
from lockstitch.studio.http.react_step_bodies import (
    ActionDetails,
    HistoryTurn,
    LlmConfig,
    ReactStepReply,
    ReactStepRequest,
    ToolCallMade,
)
from lockstitch.studio.http.roots import allowed_folder
from lockstitch.tools.workspace import Workspace

KEPT: Final = " The thread is kept and can go on."  # of a run, and this is none
NO_CONTEXT: Final = "The context could not be gathered, so the model was given the conversation alone."
NO_PINS: Final = "Pinned items are known to the client alone: their ids were left out. Send them as paths."

router = APIRouter(route_class=ProblemRoute, tags=["agent"])


@router.post(
    "/agent/react_step",
    summary="One step, the client runs the tools",
)
async def propose_step(body: ReactStepRequest, desk: TheDesk) -> ReactStepReply:
    """Ask the model for the next action or the answer. Nothing is run, and nothing is remembered."""
    _check_query(body)
    check_model(body.llm_config.model_name, field="llm_config.modelName")
    model = await asyncio.to_thread(_open_model, body, desk)
    tokens = _prompt_tokens(body.llm_config, model)
    context, notices = await asyncio.to_thread(
        _gather, body, desk, min(tokens // 2, desk.settings.context_tokens)
    )
    history = _with_query(body, desk.parts.now())
    asked = Asked(
        history=[_turn(turn) for turn in history],
        tools=body.available_tools_prompt_segment,
        context=context,
        steps_left=body.max_iterations_left,
        prompt_tokens=tokens,
    )
    try:
        step = await react_step(asked, model)
    except ModelError as error:
        return _failed(body, error, notices)
    return _reply(body, history, step, now=desk.parts.now(), notices=notices)


def _check_query(body: ReactStepRequest) -> None:
    last = body.conversation_history[-1].role if body.conversation_history else None
    if not body.user_query.strip() and last != "tool_observation":
        words = "It may be empty only when the last turn is a tool_observation."
        raise RefusedError(400, "invalid", words, field="user_query")


def _open_model(body: ReactStepRequest, desk: Desk) -> ModelPort:
    """The model asked for; with the client's own key built for this request alone."""
    key, config = key_of(body.user_api_keys), body.llm_config
    wish = ModelWish(model=config.model_name, temperature=config.temperature)
    changes = {"reply_tokens": config.reserved_output_tokens} if config.reserved_output_tokens else {}
    return open_models(key, desk, **changes).open(wish)


def _prompt_tokens(config: LlmConfig, model: ModelPort) -> int:
    """The longest prompt."""
    left = (config.token_limit or model.window) - (config.reserved_output_tokens or 0)
    if left < 1:
        words = "it leaves no room for a prompt."
        raise RefusedError(400, "invalid", words, field="llm_config.reservedOutputTokens")
    return left


def _gather(body: ReactStepRequest, desk: Desk, budget_tokens: int) -> tuple[str, list[str]]:
    """What there is to know, and for people what it is; the least where it cannot be gathered."""
    notices = [NO_PINS] if body.pinned_item_ids_to_include else []
    try:
        with Workspace(_folder(body, desk), hidden=(desk.parts.home.path,)) as workspace:
            found = gather_context(
                workspace,
                prompt=body.user_query,
                handed=_handed(body),
                max_steps=body.max_iterations_left,
                budget_tokens=budget_tokens,
            )
    except AgentError:
        return "", [*notices, NO_CONTEXT]
    parts = (found.handed, found.workspace)
    told = [line for part in parts for line in part.told.splitlines()]
    return "\n\n".join(part.text for part in parts if part.text), [*told, *notices]


def _folder(body: ReactStepRequest, desk: Desk) -> Path:
    """The project where it names a folder, else the server's workspace."""
    if Path(body.project_id).is_absolute():
        return allowed_folder(body.project_id, desk.roots, field="project_id")
    return desk.parts.folder


def _handed(body: ReactStepRequest) -> HandedContext:
    results = (
        Snippet(path=found.path, text=found.content, start_line=found.start_line, score=found.score)
        for found in body.vector_search_results_to_include
    )
    focused = body.implicit_context.last_focused_file_path if body.implicit_context else None
    return HandedContext(
        paths=tuple(body.explicit_context_paths), focused_file=focused, search_results=tuple(results)
    )


def _with_query(body: ReactStepRequest, now: str) -> list[HistoryTurn]:
    """The conversation with the query at its end, where the client has not put it there itself."""
    history = list(body.conversation_history)
    last = history[-1] if history else None
    is_there = last is not None and last.role == "user" and last.content == body.user_query
    if body.user_query.strip() and not is_there:
        history.append(HistoryTurn(role="user", content=body.user_query, timestamp=now))
    return history


def _turn(turn: HistoryTurn) -> ClientTurn:
    call = ToolCall(tool=turn.tool_call.name, args=turn.tool_call.parameters) if turn.tool_call else None
    content = turn.content or ""
    if turn.tool_result is not None:
        result = turn.tool_result.result
        text = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
        content = text if turn.tool_result.success else f"Error: {text.removeprefix('Error: ')}"
    return ClientTurn(role=turn.role, content=content, call=call)


def _reply(
    body: ReactStepRequest, history: list[HistoryTurn], step: Step, *, now: str, notices: list[str]
) -> ReactStepReply:
    action = step.action
    call = ToolCallMade(name=action.tool, parameters=action.args) if action else None
    content = step.thought if action else step.answer
    said = HistoryTurn(role="assistant", content=content or None, tool_call=call, timestamp=now)
    return ReactStepReply(
        session_id=body.session_id,
        thought=step.thought,
        action_details=ActionDetails(
            tool_name=action.tool, tool_args=action.args, raw_action_string=action.raw
        )
        if action
        else None,
        direct_response=None if action else step.answer,
        updated_conversation_history=_dump([*history, said]),
        iterations_remaining=body.max_iterations_left - 1,
        status="action_proposed" if action else "direct_response_provided",
        notices=notices,
    )


def _failed(body: ReactStepRequest, error: ModelError, notices: list[str]) -> ReactStepReply:
    """The model failed: nothing is added, so that the same request can be sent again."""
    return ReactStepReply(
        session_id=body.session_id,
        thought="",
        action_details=None,
        direct_response=None,
        updated_conversation_history=_dump(body.conversation_history),
        iterations_remaining=body.max_iterations_left,
        status="error",
        error=error.message.replace(KEPT, ""),
        notices=notices,
    )


def _dump(history: list[HistoryTurn]) -> list[dict[str, Any]]:
    return [turn.model_dump(by_alias=True, exclude_none=True) for turn in history]
