"""TOML tables: those beside the code, and the file of the same name a person may keep in the home folder."""

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from lockstitch.state.errors import SettingsError
from lockstitch.state.misfit import describe_misfit


@cache
def shipped_tables(file: str) -> dict[str, Any]:
    """The tables of `file` in this folder. They are shared: change nothing in them."""
    return tomllib.loads((Path(__file__).parent / file).read_text(encoding="utf-8"))


def home_tables(home: Path, file: str) -> dict[str, Any]:
    """The tables of the person's own `file`; none where there is no such file.

    Raises:
        SettingsError: it cannot be read, or is no TOML.
    """
    try:
        return tomllib.loads((home / file).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{file} in the home folder is no valid TOML: {error}") from None
    except OSError as error:
        raise SettingsError(f"{file} in the home folder cannot be read: {error.strerror}") from error


def misfit(file: str, what: str, error: ValidationError) -> SettingsError:
    """What does not fit in one table of the person's file: the file, the table, and each field."""
    return SettingsError(f"{file} in the home folder: {what} does not fit. {describe_misfit(error)}.")
