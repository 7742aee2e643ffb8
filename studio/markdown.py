"""A model's final words as a terminal shows them. Imported late: its parser is of no use to other doors."""

from markdown_it import MarkdownIt
from rich.markdown import Markdown

from lockstitch.studio.visible import make_visible


class Answer(Markdown):
    """A model's final words as markdown; rich alone would drop what looks like HTML, and say images."""

    def __init__(self, text: str) -> None:
        super().__init__(make_visible(text), hyperlinks=False)
        parser = MarkdownIt(options_update={"html": False}).enable(["strikethrough", "table"])
        self.parsed = parser.disable("image").parse(self.markup)
