"""The words the agent says to a model, as files beside the code."""

from functools import cache
from pathlib import Path

from lockstitch.state.errors import SettingsError


@cache
def load_prompt(name: str, replaced_in: Path | None = None) -> str:
    """The text of `name`.md in that folder where it is there, else in this one; no final newline.

    Raises:
        SettingsError: a file of theirs cannot be read as text.
    """
    own = replaced_in / f"{name}.md" if replaced_in else None
    try:
        if own is not None and own.exists():
            return own.read_text(encoding="utf-8").rstrip("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"the prompt {own} is no readable UTF-8 text. Mend it, or remove it.") from error
    return (Path(__file__).parent / f"{name}.md").read_text(encoding="utf-8").rstrip("\n")
