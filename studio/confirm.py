"""A person's yes before something is deleted or taken back."""

from lockstitch.state.errors import UsageError
from lockstitch.studio.terminal import drop_typeahead, person_is_here, read_line


def confirm(question: str, *, yes: bool) -> bool:
    """Whether it may be done: said beforehand with `--yes`, or now at the terminal.

    Raises:
        UsageError: nobody is here who could be asked.
    """
    if yes:
        return True
    if not person_is_here():
        raise UsageError("nobody is here to say yes, so nothing was done: add --yes.")
    drop_typeahead()
    try:
        return read_line(f"{question} [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False
