"""What Tab offers: slash commands, their values, and paths of the workspace behind `@`."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from lockstitch.studio.chat.paths import rank_paths

OFFERED: Final = 50  # paths in the menu: nobody reads further, one types on
# As a prompt is read later: a mention does not go on from a word or a path, and ends at these.
_MENTION: Final = re.compile(r"""(?<![\w@.+/\\-])@(?:"([^"\n]*)|([^\s"'`<>|,;@]*))$""")
_UNQUOTED: Final = re.compile(r"""[^\s"'`<>|,;@:()\[\]{}!?]+""")

Values = Callable[[str], Sequence[tuple[str, str]]]
"""The values of a command's argument, by the command's name, each with its help."""


class TalkCompleter(Completer):
    """Completes one line of a talk. Blocks while paths are listed: run it in a thread."""

    def __init__(
        self, *, commands: Sequence[tuple[str, str]], values: Values, paths: Callable[[], Sequence[str]]
    ) -> None:
        self._commands = commands
        self._values = values
        self._paths = paths

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:  # noqa: ARG002  prompt_toolkit's signature
        """See Completer."""
        before = document.text_before_cursor
        if before.startswith("/") and not before.startswith("//") and "\n" not in before:
            return self._of_commands(before[1:])
        mention = _MENTION.search(before)
        return self._of_paths(mention) if mention else ()

    def _of_commands(self, typed: str) -> Iterator[Completion]:
        name, blank, value = typed.partition(" ")
        offered, word = (self._values(name), value.lstrip()) if blank else (self._commands, name)
        for text, meta in offered:
            if text.startswith(word):
                yield Completion(text, start_position=-len(word), display_meta=meta)

    def _of_paths(self, mention: "re.Match[str]") -> Iterator[Completion]:
        typed = mention[1] if mention[1] is not None else mention[2]
        for path in rank_paths(self._paths(), typed, limit=OFFERED):
            if '"' in path:  # cannot be mentioned at all
                continue
            yield Completion(mention_of(path), start_position=mention.start() - mention.end(), display=path)


def mention_of(path: str) -> str:
    """The path as it is mentioned in a prompt: quoted where it would end too early."""
    if _UNQUOTED.fullmatch(path):
        return f"@{path}"
    return f'@"{path}' + ("" if path.endswith("/") else '"')
