"""Routes that move a thread in its past: rewind, undo and redo, shown before they are made, and fork."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final, Literal

from fastapi import APIRouter
from pydantic import Field

from lockstitch.state.errors import WorkspaceError
from lockstitch.studio.fork import ForkRequest
from lockstitch.studio.http.desk import Desk, TheDesk
from lockstitch.studio.http.past import FileItem, StepNumber, file_items, sendable
from lockstitch.studio.http.problems import Problem, ProblemRoute, RefusedError
from lockstitch.studio.http.roots import allowed_folder, new_folder
from lockstitch.studio.http.schemas import FolderPath, Got, Sent
from lockstitch.studio.move_request import FilesChangedError, MovedOnError, MoveRequest, Preview
from lockstitch.studio.timeline import MoveKind, What

TOKEN_CHARS: Final = 200
HOLDER: Final = "a move over HTTP"  # named to others who find the thread busy
CONFLICT: Final = (
    "Somebody else changed files that would be overwritten, so nothing was touched. `conflicts` names them; "
    "with `keep_changed` they stay as they are, and the rest is taken back."
)
NO_FOLDER: Final = "The thread's folder cannot be opened. If it was moved, name its new place as `workspace`."
Kind = Literal["rewind", "undo", "redo"]

router = APIRouter(prefix="/threads", route_class=ProblemRoute, tags=["threads"])


class MovePlan(Sent):
    """A move to look at."""

    kind: Kind = Field(
        description="undo takes back the last rewind or else the last step; redo the last undo"
    )
    to: StepNumber | None = Field(
        default=None, description="of rewind: the step to go back to; 0 is the start"
    )
    what: What = Field(default="both", description="of rewind: what goes back")
    workspace: FolderPath | None = Field(
        default=None, description="where the thread's folder is now, if it was moved; below an allowed root"
    )


class MoveOrder(MovePlan):
    """A move to make."""

    token: Annotated[str, Field(min_length=1, max_length=TOKEN_CHARS)] = Field(
        description="of the preview that a person said yes to; it fits that move of that state alone"
    )
    keep_changed: bool = Field(
        default=False,
        description="leave files that somebody else changed as they are, and take back the rest",
    )


class MovePreview(Got):
    """What a move would do."""

    thread_id: str
    kind: MoveKind
    what: What
    step: int = Field(description="the last step afterwards; of files alone the one whose files come")
    from_step: int = Field(description="the last step now")
    messages_gone: int = Field(description="that leave the conversation; an undo brings them back")
    files: list[FileItem] = Field(description="that would change on the disk")
    total: int = Field(description="of the files; at most 1,000 are listed")
    conflicts: list[str] = Field(description="paths that somebody else changed: see `keep_changed`")
    staying: list[str] = Field(description="folders that stay, since they hold files of somebody else")
    warnings: list[str]
    token: str = Field(description="to be sent with the move")


class MoveReply(Got):
    """What a move did."""

    thread_id: str
    kind: MoveKind
    what: What
    step: int
    from_step: int
    files: list[FileItem]
    total: int
    left: list[str] = Field(description="paths that were left as they are")


class ForkOrder(Sent):
    """A fork."""

    at: StepNumber | None = Field(default=None, description="the step it begins at; default the last")
    workspace: FolderPath | None = Field(
        default=None,
        description="a new or empty folder below an allowed root, to copy the workspace to; without one it "
        "works in the same folder, which is left as it is",
    )


class ForkReply(Got):
    """A new thread."""

    thread_id: str
    source: str
    step: int
    workspace: str
    own_folder: bool
    files: list[FileItem] = Field(
        description="with a folder of its own what was changed there to be as at that step; else what in the "
        "shared folder is newer than the step"
    )
    total: int
    left: list[str] = Field(
        description="paths in the copy that are not as at that step: somebody changed them"
    )
    linked_git: bool = Field(description="the workspace is a linked worktree: the copy has no .git")


class Conflicts(Problem):
    """Why a move was refused, with the paths that it would overwrite."""

    conflicts: list[str]


class ConflictError(RefusedError):
    """Somebody else changed files since; nothing was touched."""

    def __init__(self, paths: tuple[str, ...]) -> None:
        super().__init__(409, "conflict", CONFLICT)
        named = [sendable(path) for path in paths]
        self.problem = Conflicts(message=CONFLICT, error="conflict", conflicts=named)


@router.post("/{thread_id}/moves/preview", summary="What a rewind, undo or redo would do")
async def preview_move(thread_id: str, body: MovePlan, desk: TheDesk) -> MovePreview:
    """Touches nothing. 400: there is no such step, or nothing to undo or redo. 409: the thread is running."""
    request = await _request(thread_id, body, desk)
    try:
        return _preview(await desk.stitches.preview(request))
    except WorkspaceError as error:
        raise RefusedError(409, "no_folder", NO_FOLDER) from error


@router.post(
    "/{thread_id}/moves", summary="Rewind, undo or redo", responses={409: {"model": Conflicts | Problem}}
)
async def move_thread(thread_id: str, body: MoveOrder, desk: TheDesk) -> MoveReply:
    """Make a move that was previewed, whole or not at all; an undo takes it back.

    409: `conflict` names files that somebody else changed, `moved_on` says that the thread is no longer what
    the preview showed, `busy` that it is running.
    """
    request = await _request(thread_id, body, desk)
    request = replace(request, seen=body.token, keep_changed=body.keep_changed)
    try:
        moved = await desk.stitches.move(request)
    except FilesChangedError as error:
        raise ConflictError(error.paths) from error
    except MovedOnError as error:
        words = "This is not what the preview showed, or the thread went on since. Nothing was changed."
        raise RefusedError(409, "moved_on", f"{words} Look again.") from error
    except WorkspaceError as error:
        raise RefusedError(409, "no_folder", NO_FOLDER) from error
    told = _preview(moved.preview).model_dump(include=set(MoveReply.model_fields))
    return MoveReply(**told, left=[sendable(path) for path in moved.left])


@router.post("/{thread_id}/fork", summary="Begin a new thread at one of its steps")
async def fork_thread(thread_id: str, body: ForkOrder, desk: TheDesk) -> ForkReply:
    """The thread stays as it is; the new one has its steps up to there.

    409: it is running, or the new folder cannot be taken.
    """
    thread_id = await desk.known(thread_id)
    await _check_folder(thread_id, None, desk)
    new = body.workspace and str(await asyncio.to_thread(new_folder, body.workspace, desk.roots))
    request = ForkRequest(thread_id=thread_id, at=body.at, workspace=new or None, holder=HOLDER)
    try:
        forked = await desk.stitches.fork(request)
    except WorkspaceError as error:
        raise RefusedError(409, "no_folder", _folder_words(new)) from error
    files, left = file_items(forked.files), [sendable(path) for path in forked.left]
    return ForkReply(**{**vars(forked), "files": files, "left": left, "total": len(forked.files)})


async def _request(thread_id: str, body: MovePlan, desk: Desk) -> MoveRequest:
    """The move, of a thread and in a folder that this server may work in."""
    thread_id = await desk.known(thread_id)
    if body.kind == "rewind" and body.to is None:
        raise RefusedError(400, "invalid", "A rewind needs the step to go back to.", field="to")
    folder = await _check_folder(thread_id, body.workspace, desk)
    moved = str(folder) if body.workspace else None
    return MoveRequest(
        thread_id=thread_id, kind=body.kind, to=body.to, what=body.what, workspace=moved, holder=HOLDER
    )


async def _check_folder(thread_id: str, moved_to: str | None, desk: Desk) -> Path:
    """The folder whose files would change, which lies below the allowed roots."""
    path = moved_to or str(desk.parts.folder_of((await desk.view(thread_id)).state))
    try:
        return await asyncio.to_thread(allowed_folder, path, desk.roots)
    except RefusedError as error:
        if moved_to or error.status != 400:
            raise
        raise RefusedError(409, "no_folder", NO_FOLDER) from error


def _folder_words(new: str | None) -> str:
    if new is None:
        return NO_FOLDER
    return "The new folder cannot be taken: it must be new or empty, and lie outside of the workspace."


def _preview(preview: Preview) -> MovePreview:
    return MovePreview(
        thread_id=preview.thread_id,
        kind=preview.kind,
        what=preview.what,
        step=preview.step,
        from_step=preview.from_step,
        messages_gone=preview.messages_gone,
        files=file_items(preview.files),
        total=len(preview.files),
        conflicts=[sendable(path) for path in preview.conflicts],
        staying=[sendable(path) for path in preview.staying],
        warnings=list(preview.warnings),
        token=preview.token,
    )
