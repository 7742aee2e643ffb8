"""One changed file in a few words, as people are shown it before they say yes."""

from typing import Literal

from pydantic import BaseModel


class FileSummary(BaseModel):
    """One changed file; a count is None where lines cannot be counted."""

    path: str
    change: Literal["A", "M", "D"]  # added, modified, deleted
    added: int | None = None
    removed: int | None = None
