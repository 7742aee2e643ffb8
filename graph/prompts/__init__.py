"""The words the agent says to a model, as files beside the code."""

from functools import cache
from pathlib import Path


@cache
def load_prompt(name: str) -> str:
    """The text of `name`.md in this folder, without the final newline."""
    return (Path(__file__).parent / f"{name}.md").read_text(encoding="utf-8").rstrip("\n")
