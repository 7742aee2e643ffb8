"""Problems: what is wrong with a request or with us, as a status and one body for every route.

No body holds a value that the client sent, a key, a stack trace, or a path that the client did not name.
"""

import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Final, Literal

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import ErrorDetails
from starlette.exceptions import HTTPException

from lockstitch.state.errors import (
    AgentError,
    HomeUnusableError,
    ModelError,
    NoModelError,
    ThreadBusyError,
    ThreadUnknownError,
    UsageError,
)

NO_THREAD: Final = "There is no such thread. GET /api/threads lists those there are."
OUR_FAULT: Final = "The server could not do this. Its log says why; nothing that was recorded is lost."
FIELD_CHARS: Final = 80  # of a field's name, which may be the client's own word
FIELDS_MAX: Final = 20  # named in one body

_KINDS: Final[tuple[tuple[type[AgentError], int, str], ...]] = (
    (ThreadBusyError, 409, "busy"),
    (ThreadUnknownError, 404, "not_found"),
    (NoModelError, 400, "no_model"),
    (HomeUnusableError, 500, "system_error"),
    (UsageError, 400, "invalid"),
    (ModelError, 502, "model_error"),
    (AgentError, 500, "system_error"),
)
_FAULTS: Final = {  # where pydantic's own words say too little, or repeat what was sent
    "extra_forbidden": "there is no such field",
    "json_invalid": "the body is no valid JSON",
    "missing": "it is missing",
    "union_tag_invalid": "there is no such type",
    "union_tag_not_found": "it is missing",
}
_CODES: Final = {404: "not_found", 405: "not_allowed"}
_log = logging.getLogger(__name__)


class FieldFault(BaseModel):
    """One field at fault."""

    model_config = ConfigDict(frozen=True)

    field: str = Field(description="its name, with dots down to the part at fault", examples=["max_steps"])
    message: str = Field(description="what is wrong with it")


class Problem(BaseModel):
    """Why a request was not followed. Nothing was changed by it."""

    model_config = ConfigDict(frozen=True)

    success: Literal[False] = False
    message: str = Field(description="what happened and what to do next, for a person")
    data: None = None
    error: str = Field(
        description="one word for a program: invalid, not_found, busy, outside, ...", examples=["invalid"]
    )
    fields: list[FieldFault] = Field(default=[], description="the fields at fault, of `invalid` alone")


class RefusedError(UsageError):
    """A request that this door does not follow, with its status and body."""

    def __init__(self, status: int, error: str, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        faults = [FieldFault(field=field, message=message)] if field else []
        self.problem = Problem(message=message, error=error, fields=faults)


class ProblemRoute(APIRoute):
    """A route whose every error is a problem; FastAPI's own handlers would log and raise the rest again."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The route's handler, with its errors as replies."""
        handle = super().get_route_handler()

        async def answer(request: Request) -> Response:
            return await _answered(handle, request)

        return answer


async def _answered(handle: Callable[[Request], Awaitable[Response]], request: Request) -> Response:
    try:
        return await handle(request)
    except HTTPException as error:
        return await http_problem(request, error)
    except RequestValidationError as error:
        return respond(400, describe_faults(error.errors()))
    except AgentError as error:
        return respond(*describe_error(error))
    except Exception as error:  # noqa: BLE001  the border of a route: its text may hold anything
        _log.error("%s %s failed (%s)", request.method, request.url.path, type(error).__name__)
        return respond(500, Problem(message=OUR_FAULT, error="system_error"))


async def http_problem(_: Request, error: Exception) -> Response:
    """The reply to what Starlette refuses itself: no such route, no such method, no JSON."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    message = "There is no such route." if status == 404 else "The request cannot be read."
    if status == 405:
        message = "The route does not take this method."
    reply = respond(status, Problem(message=message, error=_CODES.get(status, "invalid")))
    reply.headers.update(getattr(error, "headers", None) or {})
    return reply


def respond(status: int, problem: Problem) -> Response:
    """The reply."""
    return JSONResponse(problem.model_dump(), status_code=status)


def describe_error(error: AgentError) -> tuple[int, Problem]:
    """Status and body for an error of ours; of our own faults the log alone is told the words."""
    if isinstance(error, RefusedError):
        return error.status, error.problem
    status, code = next((status, code) for kind, status, code in _KINDS if isinstance(error, kind))
    message = NO_THREAD if status == 404 else error.message
    if status == 500:
        _log.error("a request failed: %s", error.message)
        message = OUR_FAULT
    return status, Problem(message=message, error=code)


def describe_faults(faults: Sequence[ErrorDetails]) -> Problem:
    """The body that names each field at fault, without what stood in it."""
    fields = [FieldFault(field=_field(fault["loc"]), message=_words(fault)) for fault in faults[:FIELDS_MAX]]
    named = "; ".join(f"{fault.field}: {fault.message}" for fault in fields)
    return Problem(message=f"The request does not fit. {named}.", error="invalid", fields=fields)


def _field(place: tuple[int | str, ...]) -> str:
    """The field as the client wrote it: without where it stood, and without a place in broken JSON."""
    parts = place[1:] if place and place[0] in ("body", "path", "query", "header") else place
    name = ".".join(str(part) for part in parts)
    shown = name if name.isprintable() else ascii(name)[1:-1]
    return shown[:FIELD_CHARS] if shown and not shown.isdecimal() else "body"


def _words(fault: ErrorDetails) -> str:
    if fault["type"] == "value_error":  # one of ours, without what stands before it
        return str(fault["ctx"]["error"])
    return _FAULTS.get(fault["type"], fault["msg"][:1].lower() + fault["msg"][1:])
