"""The one way a tool is called: find, validate, rate and time limit, audit, every failure an observation.

Policy has spoken before (`tools/permission/policy.py`): what arrives here may run.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any, cast

from langchain_core.tools import StructuredTool, ToolException
from pydantic import BaseModel, ValidationError

from lockstitch.state.audit import Outcome
from lockstitch.state.errors import (
    PathEscapeError,
    RateLimitError,
    RecoverableError,
    ResourceLimitError,
    TerminalError,
    ToolValidationError,
)
from lockstitch.state.misfit import describe_misfit
from lockstitch.tools.context import ToolContext
from lockstitch.tools.output import clip_middle
from lockstitch.tools.rate_limit import RateLimit
from lockstitch.tools.registry import CONTEXT_ARGUMENT, RegisteredTool, Registry
from lockstitch.tools.result import ToolResult

FILE_EFFECTS = frozenset({"read", "edit", "delete"})  # what the rate limit counts
OWN_TIMEOUT = frozenset({"command", "person"})  # these end by themselves


class Guard:
    """Runs registered tools; shared by all runs of a process."""

    def __init__(
        self, registry: Registry, rate: RateLimit, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self.registry = registry
        self._rate = rate
        self._monotonic = monotonic

    async def run(self, name: str, args: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """Make the call. A failure comes back as a result whose error begins `Error:`.

        Raises:
            TerminalError: the run must end.
            asyncio.CancelledError: the run is being stopped.
        """
        began = self._monotonic()
        outcome: Outcome = "error"
        try:
            outcome, result = await self._observed(name, args, context)
        except asyncio.CancelledError:
            outcome = "cancelled"
            raise
        finally:
            time_ms = (self._monotonic() - began) * 1000
            if context.trail:
                context.trail.note(name, args, call_id=context.call_id, outcome=outcome, time_ms=time_ms)
        result.metadata["time_ms"] = round(time_ms, 3)
        return result

    async def _observed(
        self, name: str, args: Mapping[str, Any], context: ToolContext
    ) -> tuple[Outcome, ToolResult]:
        """What the call came to, for the audit and for the model."""
        try:
            result = await self._attempt(name, args, context)
        except TerminalError:
            raise
        except PathEscapeError as error:
            return "escape", _failure(error, context, escape=True)
        except RateLimitError as error:
            return "refused", _failure(error, context)
        except RecoverableError as error:
            return "error", _failure(error, context)
        except Exception as error:  # noqa: BLE001  a tool, ours or a user's, must not end the run
            return "error", ToolResult.failure(f"{name} failed: {type(error).__name__}. Try another way.")
        return "ok" if result.success else "error", result

    async def _attempt(self, name: str, args: Mapping[str, Any], context: ToolContext) -> ToolResult:
        registered = self.registry.get(name)
        _check_names(registered, args)
        if registered.effect in FILE_EFFECTS:
            self._rate.take(context.thread_id)
        given = {**args, CONTEXT_ARGUMENT: context} if registered.takes_context else dict(args)
        timeout_s = None if registered.effect in OWN_TIMEOUT else context.settings.tool_timeout_s
        limit = asyncio.timeout(timeout_s)
        try:
            async with limit:
                output = await _invoke(registered, given)
        except ValidationError as error:
            raise ToolValidationError(_explain(registered, error)) from error
        except TimeoutError as error:
            if not limit.expired():
                raise  # the tool's own: what it waited for did not come
            raise ResourceLimitError(f"{name} took over {timeout_s} s and was given up.") from error
        except ToolException as error:
            raise ToolValidationError(_clip(str(error), context)) from error
        return output if isinstance(output, ToolResult) else _foreign(output, context)


async def _invoke(registered: RegisteredTool, given: dict[str, Any]) -> Any:
    """Our own tools are validated and called without LangChain's callback machinery, which costs 0.15 ms."""
    tool = registered.tool
    if not (registered.takes_context and isinstance(tool, StructuredTool)):
        return await tool.ainvoke(given)
    parsed = cast("type[BaseModel]", tool.args_schema).model_validate(given)
    arguments = {name: getattr(parsed, name) for name in type(parsed).model_fields}
    if tool.coroutine is not None:
        return await tool.coroutine(**arguments)
    assert tool.func is not None
    return await asyncio.to_thread(tool.func, **arguments)


def _check_names(registered: RegisteredTool, args: Mapping[str, Any]) -> None:
    unknown = [name for name in args if name not in registered.parameters]
    if unknown:
        known = ", ".join(registered.parameters) or "none"
        raise ToolValidationError(
            f"{registered.name} has no argument {', '.join(map(repr, unknown))}. Its arguments: {known}."
        )


def _failure(error: RecoverableError, context: ToolContext, **metadata: Any) -> ToolResult:
    """The error as a result; one that repeats what was given is held to a result's size."""
    return ToolResult.failure(_clip(error.message, context), **metadata)


def _explain(registered: RegisteredTool, error: ValidationError) -> str:
    return f"the arguments of {registered.name} do not fit. {describe_misfit(error)}."


def _foreign(output: Any, context: ToolContext) -> ToolResult:
    """The result of a tool that is not ours: its text, held to the size ours hold themselves to."""
    text = output if isinstance(output, str) else str(output)
    return ToolResult(output=_clip(text, context))


def _clip(text: str, context: ToolContext) -> str:
    return clip_middle(text, max_chars=context.settings.output_chars, spill=context.spill)
