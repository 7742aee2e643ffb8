"""Routes below /api/code-chat/contexts: the indexes of workspaces, built in the background, and searched."""

import asyncio
import threading
from collections.abc import AsyncGenerator
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request, Response
from fastapi import Path as InPath
from pydantic import AfterValidator, Field

from lockstitch.state.errors import RecoverableError
from lockstitch.studio.builds import Build, Place
from lockstitch.studio.http.choices import find_workspace
from lockstitch.studio.http.desk import Desk, TheDesk
from lockstitch.studio.http.event_stream import STREAM, sse, stream
from lockstitch.studio.http.problems import ProblemRoute, RefusedError
from lockstitch.studio.http.schemas import PATH_CHARS, Done, FolderPath, Got, Sent, said
from lockstitch.tools.code_index.build import Phase, Watch
from lockstitch.tools.code_index.build_lock import IndexBusyError
from lockstitch.tools.code_index.indexes import Indexes, indexed_workspaces
from lockstitch.tools.code_index.look_up import Answer, Question, look_up
from lockstitch.tools.code_index.search import Hit
from lockstitch.tools.code_index.telling import until_stopped
from lockstitch.tools.workspace import Workspace

QUERY_CHARS: Final = 1_000  # as search_code has it
RESULTS_MAX: Final = 50
EVERY_S: Final = 1.0  # between two messages about one build
NAME: Final = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,39}$"

router = APIRouter(prefix="/code-chat/contexts", route_class=ProblemRoute, tags=["code chat"])
Name = Annotated[str, InPath(pattern=NAME)]
Folder = Annotated[
    str | None,
    Query(min_length=1, max_length=PATH_CHARS, description="its workspace; needed where two have the name"),
]


class NewContext(Sent):
    """An index to build."""

    name: Annotated[str, Field(pattern=NAME)] = Field(default="default", examples=["default"])
    path: FolderPath | None = Field(
        default=None, description="the workspace, below an allowed root; default the server's"
    )


class ContextProgress(Got):
    """How far a build is: `done` of `total` files to read, or of places to encode."""

    phase: Phase
    done: int
    total: int


class ContextItem(Got):
    """An index."""

    name: str
    path: str = Field(description="the workspace whose files it holds")
    files: int
    left_out: int = Field(description="files that are binary, generated, too large or unreadable")
    chunks: int = Field(description="places that words find")
    encoded: int = Field(description="of them those that meaning finds")
    model: str = Field(description="that encoded them; empty where there is none")
    complete: bool = Field(description="the last build came to its end")
    size_bytes: int
    building: bool = Field(description="this server builds it now, or will when its turn comes")
    progress: ContextProgress | None = Field(description="of that build")
    error: str | None = Field(description="why the last build here failed")
    notice: str | None = Field(description="what the last build here has to say")


class ContextList(Got):
    """Indexes, by workspace and name."""

    contexts: list[ContextItem]


class ContextQuery(Sent):
    """What is looked for."""

    query: Annotated[str, Field(min_length=1, max_length=QUERY_CHARS), AfterValidator(said)]
    max_results: Annotated[int, Field(ge=1, le=RESULTS_MAX)] = 10
    min_relevance: Annotated[float, Field(ge=0, le=1)] = 0.0


class ContextResult(Got):
    """One place that was found; lines count from 1, both included."""

    path: str
    first_line: int
    last_line: int
    symbol: str
    relevance: float = Field(description="0 to 1: over 0.4 usually fits, under 0.2 rarely does")
    why: list[str]
    text: str


class ContextResults(Got):
    """The places, the best first."""

    results: list[ContextResult]
    notices: list[str] = Field(description="what is not up to date, or not searched by meaning")


@router.get("", summary="List indexes")
async def list_contexts(desk: TheDesk, path: Folder = None) -> ContextList:
    """The indexes of the workspace `path`, or of all below the allowed roots."""
    return ContextList(contexts=await asyncio.to_thread(_list, path, desk))


@router.post("", summary="Build an index", status_code=202)
async def build_context(body: NewContext, desk: TheDesk) -> ContextItem:
    """Build an index in the background, or go on with a stopped one. 409: another process builds it."""
    folder = await asyncio.to_thread(_folder, body.path, desk)
    return await _start(Place(folder, body.name), desk)


@router.get(
    "/{name}", summary="One index", response_model=ContextItem, responses={200: {"content": {STREAM: {}}}}
)
async def read_context(
    name: Name, request: Request, desk: TheDesk, path: Folder = None
) -> Response | ContextItem:
    """What it holds; with `Accept: text/event-stream` the same body again and again while it is built."""
    place = await asyncio.to_thread(_find, name, path, desk)
    if STREAM in request.headers.get("accept", ""):
        return stream(_pieces(place, desk))
    return await asyncio.to_thread(_item, place, desk)


@router.post("/{name}/refresh", summary="Refresh an index", status_code=202)
async def refresh_context(name: Name, desk: TheDesk, path: Folder = None) -> ContextItem:
    """Read and encode what has changed, in the background. 409: another process does."""
    return await _start(await asyncio.to_thread(_find, name, path, desk), desk)


@router.post("/{name}/stop", summary="Stop a build")
async def stop_context(name: Name, desk: TheDesk, path: Folder = None) -> Done:
    """Stop the build that goes on here; what it has done is kept, and a refresh goes on with it."""
    stopped = desk.board.builds.stop(await asyncio.to_thread(_find, name, path, desk))
    return Done(message="The build is being stopped." if stopped else "No build of it goes on here.")


@router.post("/{name}/search", summary="Search an index")
async def search_context(
    name: Name, body: ContextQuery, desk: TheDesk, path: Folder = None
) -> ContextResults:
    """Find code by what it does. Spends a few seconds on what has changed, as search_code does."""
    place = await asyncio.to_thread(_find, name, path, desk)
    stop = threading.Event()
    found, notes = await until_stopped(partial(_search, place, body, desk, stop), stop)
    return ContextResults(results=[_result(hit) for hit in found.hits], notices=notes)


@router.delete("/{name}", summary="Delete an index")
async def delete_context(name: Name, desk: TheDesk, path: Folder = None) -> Done:
    """Delete it; the files it was made of stay. 409: it is being built."""
    place = await asyncio.to_thread(_find, name, path, desk)
    await asyncio.to_thread(_drop, place, desk)
    return Done(message="The index is deleted.")


def _folder(path: str | None, desk: Desk) -> Path:
    """The workspace asked for; looks at the disk."""
    return find_workspace(path or str(desk.parts.folder), desk, field="path")


def _indexes(folder: Path, desk: Desk) -> Indexes:
    return Indexes(desk.parts.home.path, folder)


def _find(name: str, path: str | None, desk: Desk) -> Place:
    """The index of this name: in the workspace asked for, the server's own, or the only one that has it.

    Raises:
        RefusedError: there is none, or several workspaces have one.
    """
    folders = [_folder(path, desk)] if path else _folders(desk)
    having = [folder for folder in folders if _indexes(folder, desk).exists(name)]
    own = desk.parts.folder.resolve()
    if len(having) > 1 and own not in having:
        raise RefusedError(409, "ambiguous", "Several workspaces have an index of that name.", field="path")
    if not having:
        raise RefusedError(
            404, "not_found", "There is no such index. POST /api/code-chat/contexts builds one."
        )
    return Place(own if own in having else having[0], name)


def _folders(desk: Desk) -> list[Path]:
    """The workspaces with an index that clients may choose."""
    known = indexed_workspaces(desk.parts.home.path)
    return [folder for folder in known if any(folder.is_relative_to(root) for root in desk.roots)]


def _list(path: str | None, desk: Desk) -> list[ContextItem]:
    folders = [_folder(path, desk)] if path else _folders(desk)
    return [_item(Place(f, name), desk) for f in folders for name in _indexes(f, desk).names()]


def _item(place: Place, desk: Desk) -> ContextItem:
    """The index as it stands; looks at the disk."""
    status = _indexes(place.workspace, desk).status(place.name)._asdict()
    return ContextItem(path=status.pop("workspace"), **status, **_build(desk.board.builds.find(place)))


def _build(build: Build | None) -> dict[str, Any]:
    """The last build, as an index's body tells it."""
    goes_on = build is not None and build.goes_on
    progress = build.progress._asdict() if build and goes_on and build.progress else None
    report = None if build is None else build.report
    replaced = bool(report and report.replaced_model)
    return {
        "building": goes_on,
        "progress": progress,
        "error": (build.fault or None) if build else None,
        "notice": "The index was of another model and was encoded anew." if replaced else None,
    }


async def _start(place: Place, desk: Desk) -> ContextItem:
    item = await asyncio.to_thread(_item, place, desk)  # as it stood
    try:
        await desk.board.builds.start(place)
    except IndexBusyError as error:
        raise RefusedError(409, "busy", _sentence(error)) from error
    return item.model_copy(update={"building": True, "error": None, "notice": None})


async def _pieces(place: Place, desk: Desk) -> AsyncGenerator[str, None]:
    """The index whenever it has changed, until its build is over."""
    before = None
    while True:
        build = desk.board.builds.find(place)
        goes_on = build is not None and build.goes_on
        item = await asyncio.to_thread(_item, place, desk)
        if item != before:
            yield sse(item.model_dump())
        before = item
        if build is None or build.task is None or not goes_on:
            return
        await asyncio.wait([build.task], timeout=EVERY_S)


def _search(place: Place, body: ContextQuery, desk: Desk, stop: threading.Event) -> Answer:
    settings = desk.settings
    denial = desk.parts.rules.rules(place.workspace).denial("search_code")
    question = Question(
        query=body.query,
        index=place.name,
        max_results=body.max_results,
        min_relevance=body.min_relevance,
        is_denied=denial,
    )
    watch = Watch(is_stopped=stop.is_set, limit_s=settings.index_step_s)
    try:
        with Workspace(place.workspace, hidden=(desk.parts.home.path,)) as workspace:
            return look_up(question, workspace, settings, watch)
    except RecoverableError as error:
        raise RefusedError(400, "invalid", _sentence(error)) from error


def _drop(place: Place, desk: Desk) -> None:
    try:
        _indexes(place.workspace, desk).drop(place.name)
    except IndexBusyError as error:
        raise RefusedError(409, "busy", _sentence(error)) from error


def _sentence(error: RecoverableError) -> str:
    return error.message[:1].upper() + error.message[1:]


def _result(hit: Hit) -> ContextResult:
    chunk = hit.chunk
    return ContextResult(
        path=chunk.path,
        first_line=chunk.first,
        last_line=chunk.last,
        symbol=chunk.symbol,
        relevance=round(hit.relevance, 3),
        why=list(hit.why),
        text=chunk.text,
    )
