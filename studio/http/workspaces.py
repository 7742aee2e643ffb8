"""Routes below /api/code-chat/workspaces: the folders a client may choose to work in."""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

from fastapi import APIRouter, Query
from pydantic import Field

from lockstitch.studio.http.choices import find_workspace
from lockstitch.studio.http.desk import TheDesk
from lockstitch.studio.http.problems import ProblemRoute, RefusedError
from lockstitch.studio.http.roots import allowed_folder
from lockstitch.studio.http.schemas import PATH_CHARS, FolderPath, Got, Sent
from lockstitch.tools.confined.listing import CLOSED_FOLDERS

FOLDERS_MAX: Final = 1000  # of one reply; a folder with more is no place to choose by eye
# What is never a place to work in: dependencies and caches beside what tools do not enter either.
LEFT_OUT: Final = CLOSED_FOLDERS | {
    ".cache", ".gradle", ".idea", ".next", ".nox", ".npm", ".pytest_cache", ".terraform", ".yarn",
    "bower_components", "env", "site-packages", "vendor",
}  # fmt: skip

router = APIRouter(prefix="/code-chat/workspaces", route_class=ProblemRoute, tags=["code chat"])


class Folder(Got):
    """A folder that can be chosen."""

    name: str
    path: str


class FolderList(Got):
    """The folders in one, by name."""

    path: str | None = Field(description="the folder they are in; null at the top, where the roots are")
    parent: str | None = Field(description="one up; null where that is not allowed")
    folders: list[Folder]
    truncated: bool = Field(description=f"only the first {FOLDERS_MAX} are told")


class WorkspaceChoice(Sent):
    """A folder to be looked at."""

    path: FolderPath


class WorkspaceVerdict(Got):
    """Whether a run may work there."""

    valid: bool
    path: str | None = Field(description="the folder without links, when it is valid")
    message: str


@router.get("", summary="Folders to choose from")
async def list_workspaces(
    desk: TheDesk,
    path: Annotated[
        str | None, Query(min_length=1, max_length=PATH_CHARS, description="below an allowed root")
    ] = None,
) -> FolderList:
    """The folders below `path`, without dependencies, caches and .git; without `path` the allowed roots."""
    return await asyncio.to_thread(_list, path, desk.roots)


@router.post("/validate", summary="Whether a folder can be worked in")
async def validate_workspace(body: WorkspaceChoice, desk: TheDesk) -> WorkspaceVerdict:
    """Look at one folder."""
    try:
        folder = await asyncio.to_thread(find_workspace, body.path, desk, field="path")
    except RefusedError as error:
        return WorkspaceVerdict(valid=False, path=None, message=error.message)
    return WorkspaceVerdict(valid=True, path=str(folder), message="A run may work there.")


def _list(path: str | None, roots: Sequence[Path]) -> FolderList:
    if path is None:
        tops = [Folder(name=root.name or str(root), path=str(root)) for root in roots]
        return FolderList(path=None, parent=None, folders=tops, truncated=False)
    folder = allowed_folder(path, roots, field="path")
    try:
        with os.scandir(folder) as found:
            names = sorted(item.name for item in found if _is_offered(item))
    except OSError as error:
        raise RefusedError(400, "invalid", "The folder cannot be read.", field="path") from error
    above = folder.parent
    is_allowed = above != folder and any(above.is_relative_to(root) for root in roots)
    return FolderList(
        path=str(folder),
        parent=str(above) if is_allowed else None,
        folders=[Folder(name=name, path=str(folder / name)) for name in names[:FOLDERS_MAX]],
        truncated=len(names) > FOLDERS_MAX,
    )


def _is_offered(item: "os.DirEntry[str]") -> bool:
    """A real folder with a name that JSON can hold; links may lead out."""
    return item.name not in LEFT_OUT and item.name.isprintable() and item.is_dir(follow_symlinks=False)
