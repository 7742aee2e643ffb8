"""Files and folders of the workspace as sections: what the prompt mentions, what a client names."""

from collections.abc import Collection, Sequence
from typing import Final

from lockstitch.graph.context.mentions import Mention, parse_mentions, parse_place
from lockstitch.graph.context.section import Group, Section, counted, number_lines, one_line, word
from lockstitch.state.errors import RecoverableError
from lockstitch.tools.confined.listing import list_entries, render_listing
from lockstitch.tools.paths import ROOT, shown
from lockstitch.tools.texts.text_file import decode_text, split_lines
from lockstitch.tools.workspace import Workspace

FILE_BYTES: Final = 1024 * 1024  # of one file: some 260,000 tokens, more than any budget
FOLDER_ENTRIES: Final = 200  # as list_directory shows
FOLDER_DEPTH: Final = 2  # a folder and what is in its folders: enough to see how it is laid out
MENTIONS_MAX: Final = 50  # read in one run; a budget has room for a few


def attached_sections(
    workspace: Workspace, *, prompt: str, paths: Sequence[str], names: Collection[str]
) -> list[Section]:
    """A section for each file or folder that the prompt mentions or the client names.

    Args:
        workspace: where they are.
        prompt: the person's words.
        paths: named by the client, as in a mention.
        names: what the workspace's root holds.
    """
    mentions = [m for m in parse_mentions(prompt) if m.certain or m.path in names]
    wanted = list(dict.fromkeys([*mentions, *map(parse_place, paths)]))
    found = (_section(workspace, mention) for mention in wanted[:MENTIONS_MAX])
    sections = list(dict.fromkeys(found))  # two spellings of a path may have made the same one
    if len(wanted) > MENTIONS_MAX:
        sections.append(word("files", f"{len(wanted) - MENTIONS_MAX} more files, left out: too many"))
    return sections


def focused_sections(workspace: Workspace, path: str, *, told: Collection[str | None]) -> list[Section]:
    """The file the person looked at last, unless it is one of those `told` already."""
    section = _place_section(workspace, Mention(path), group="focused")
    return [] if section.path in told else [section]


def _section(workspace: Workspace, mention: Mention) -> Section:
    try:
        return _place_section(workspace, mention, group="files")
    except (RecoverableError, OSError) as error:
        return word("files", f"@{one_line(mention.path)}: {_reason(error)}")


def _reason(error: RecoverableError | OSError) -> str:
    return error.message if isinstance(error, RecoverableError) else (error.strerror or "").lower()


def _place_section(workspace: Workspace, mention: Mention, *, group: Group) -> Section:
    path = workspace.relative(mention.path)
    if _is_folder(workspace, path):
        return _folder_section(workspace, path, group=group)
    return _file_section(workspace, path, mention, group=group)


def _is_folder(workspace: Workspace, path: str) -> bool:
    """Links are followed, within the workspace; what is missing is no folder."""
    try:
        with workspace.open_folder(path):
            return True
    except RecoverableError as error:
        if isinstance(error.__cause__, NotADirectoryError | FileNotFoundError):
            return False
        raise


def _file_section(workspace: Workspace, path: str, mention: Mention, *, group: Group) -> Section:
    lines = split_lines(decode_text(workspace.read_bytes(path, max_bytes=FILE_BYTES)).text)
    first, last = mention.first or 1, min(mention.last or len(lines), len(lines))
    name = shown(path)
    if mention.first is None:
        told, title = f"{name}: {counted(len(lines), 'line')}", f"the file {name}"
    else:
        told, title = f"{name}: lines {first} to {last}", f"lines {first} to {last} of {len(lines)} of {name}"
    if first > len(lines) > 0:
        return word(group, f"{name}: it has {len(lines)} lines, so there is no line {first}")
    return Section(
        group=group,
        title=title,
        body=number_lines(lines[first - 1 : last], first=first) or "[the file is empty]",
        told=told,
        rest="read_file gives the rest",
        path=path,
    )


def _folder_section(workspace: Workspace, path: str, *, group: Group) -> Section:
    listing = list_entries(workspace.entries, path, pattern=None, depth=FOLDER_DEPTH, limit=FOLDER_ENTRIES)
    name = "the workspace" if path == ROOT else f"{shown(path)}/"
    return Section(
        group=group,
        title=f"the folder {name}: kind, size in bytes and path of each entry",
        body=render_listing(listing),
        told=f"{name}: {listing.total} entries",
        rest="list_directory gives the rest",
    )
