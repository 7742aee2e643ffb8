"""One line a figure: what was measured, what was seen, the goal, and whether it holds."""

import json
import sys
from dataclasses import asdict, dataclass

MARK = "FIGURE "  # begins the machine-readable line that bench/show.py collects


@dataclass(frozen=True)
class Figure:
    """A measured figure; `seen` and `goal` are texts with their units."""

    name: str
    seen: str
    goal: str
    holds: bool


def report(name: str, *, seen: str, goal: str, holds: bool) -> bool:
    """Print the figure for people and for `make show`; gives `holds` back."""
    figure = Figure(name, seen, goal, holds)
    if "--figures" in sys.argv:
        print(MARK + json.dumps(asdict(figure)), flush=True)
    else:
        print(line_of(figure), flush=True)
    return holds


def line_of(figure: Figure) -> str:
    """The figure as one line for people."""
    verdict = "holds" if figure.holds else "FALLS SHORT"
    return f"{verdict:11}  {figure.name}: {figure.seen}  (goal: {figure.goal})"
