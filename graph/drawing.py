"""The graph as a Mermaid drawing, for the README: `make drawing` prints it."""

import sys
import tempfile
from pathlib import Path

from lockstitch.graph.builder import build_graph
from lockstitch.graph.parts import build_parts
from lockstitch.state.home import prepare_home
from lockstitch.state.settings import Settings


def draw_graph() -> str:
    """Nodes and edges as LangGraph draws them, without its colours; a dotted edge is one of several ways."""
    with tempfile.TemporaryDirectory() as folder:
        home = prepare_home(Path(folder))
        graph = build_graph(build_parts(Settings(home=home.path, workspace=home.path), home)).compile()
        return graph.get_graph().draw_mermaid(with_styles=False).rstrip()


if __name__ == "__main__":
    sys.stdout.write(draw_graph() + "\n")
