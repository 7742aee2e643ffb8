"""What of a value does not fit its pydantic model, in words: each field with its fault, never the value."""

from typing import TYPE_CHECKING

from pydantic import ValidationError

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails


def describe_misfit(error: ValidationError, *, field: str = "field", whole: str = "it") -> str:
    """The faults in one line, each with its place.

    Args:
        error: of the validation.
        field: what a field of the value is called.
        whole: the place of a fault that is of no field.
    """
    return "; ".join(
        f"{'.'.join(map(str, fault['loc'])) or whole}: {_words(fault, field)}" for fault in error.errors()
    )


def _words(fault: "ErrorDetails", field: str) -> str:
    if fault["type"] == "extra_forbidden":  # pydantic's own words say too little
        return f"there is no such {field}"
    words = fault["msg"].removeprefix("Value error, ")  # before one of ours
    return words[:1].lower() + words[1:]
