"""A reply in the text protocol `Thought: / Action: tool(arg=value) / Answer:`, parsed however it is written.

Pure: touches nothing and never raises. What cannot be read for sure is a fault that the model is told.
"""

import re
from dataclasses import dataclass, field
from typing import Final

from lockstitch.graph.models.port import ToolSchemas
from lockstitch.graph.strategies.text_calls import (
    CLOSING_MARKS,
    LEAD,
    LINE_END,
    NAME,
    NOTHING,
    Parameters,
    parameters_of,
    read_call,
)
from lockstitch.graph.strategies.text_labels import LABEL, rest_of
from lockstitch.graph.strategies.text_values import ValueReader
from lockstitch.graph.tool_calls import ReadCall
from lockstitch.state.errors import ToolValidationError

FORM: Final = (
    'Begin a line with `Action: tool(name="value", other=1)`, or with `Answer:` and your final answer.'
)

_FENCE: Final = re.compile(r"[ \t]{0,8}(`{3,}|~{3,})[\w+.#-]*[ \t]*$")
_FENCES: Final = re.compile(r"`{3,}|~{3,}")
_BETWEEN: Final = re.compile(r"(?:[\s,;`]|[-•*][ \t]|\d{1,2}[.)][ \t])*+")
_THINKING: Final = re.compile(r"\s*<think(?:ing)?>", re.IGNORECASE)
_THOUGHT_ENDS: Final = re.compile(r"</think(?:ing)?>", re.IGNORECASE)
_INLINE_ACTION: Final = re.compile(r"\baction[*_]{0,3}[:\uff1a][*_`\s]{0,4}([^\W\d]\w*)", re.IGNORECASE)
_LINE_CALL: Final = re.compile(r"^[ \t`>*-]{0,8}([^\W\d]\w*)[ \t]?\(", re.MULTILINE)
_MARKED_CALL: Final = re.compile(
    r"<(?:tool_call|function[_=]|invoke\b)|\"(?:name|tool|action)\"\s*:\s*\"(\w+)\""
)


@dataclass(frozen=True, kw_only=True)
class ParsedReply:
    """What a reply says.

    Attributes:
        thought: all that is neither call nor answer; with calls, an answer given too early as well.
        calls: in order, those before a fault; a call may carry a fault of its own.
        answer: the final words, only where nothing is called.
        fault: what could not be read, for the model; empty when all could.
        kept: the reply without results that the model made up itself.
    """

    thought: str = ""
    calls: list[ReadCall] = field(default_factory=list)
    answer: str | None = None
    fault: str = ""
    kept: str = ""


def parse_reply(text: str, tools: ToolSchemas) -> ParsedReply:
    """What the reply says, read once from its beginning to its end."""
    whole = text.replace("\r\n", "\n")
    if not whole.strip():
        return ParsedReply()
    scan = _Scan(whole, parameters_of(tools))
    try:
        scan.run()
    except ToolValidationError as error:
        scan.fault = f"the action could not be read: {error.message}. {FORM}"
    return scan.result()


class _Scan:
    """One pass over a reply."""

    def __init__(self, text: str, tools: dict[str, Parameters]) -> None:
        self.text = text
        self.tools = tools
        self.at = 0
        self.end = len(text)
        self.thought: list[str] = []
        self.answer: list[str] | None = None
        self.calls: list[ReadCall] = []
        self.fault = ""
        self.labelled = False
        self.fenced = False
        self.wrapped = False  # the answer began inside a fence: the fence is around the reply

    def run(self) -> None:
        """Take line by line; an action may take several.

        What a reasoning model thought first is left out: drafts of actions in it are none.
        """
        if _THINKING.match(self.text):
            ends = _THOUGHT_ENDS.search(self.text)
            self.at = ends.end() if ends else self.end
        while self.at < self.end:
            start = self.at
            stop = self.text.find("\n", start)
            self.at = stop + 1 if stop >= 0 else len(self.text)
            self._line(self.text[start : self.at], start)

    def result(self) -> ParsedReply:
        """What was found, as one reply."""
        kept = self.text[: self.end].rstrip()
        thought = "".join(self.thought).strip()
        answer = self._answer()
        if self.calls or self.fault:
            thought = "\n\n".join(part for part in (thought, answer) if part)
            return ParsedReply(thought=thought, calls=self.calls, fault=self.fault, kept=kept)
        if answer:
            return ParsedReply(thought=thought, answer=answer, kept=kept)
        fault = self._why_no_answer(thought)
        if fault:
            return ParsedReply(thought=thought, fault=fault, kept=kept)
        return ParsedReply(answer=thought, kept=kept)

    def _answer(self) -> str:
        text = "".join(self.answer or []).strip()
        before, _, last = text.rpartition("\n")
        return before.strip() if self.wrapped and _FENCE.match(last) else text

    def _why_no_answer(self, said: str) -> str:
        """What is wrong with a reply without action and answer; plain text is an answer."""
        if self.labelled:
            return f"the reply holds neither an action nor an answer. {FORM}"
        if not said:
            return f"the reply ends before it says anything. {FORM}"
        looks = (_INLINE_ACTION, _LINE_CALL, _MARKED_CALL)
        named = [found[1] for pattern in looks for found in pattern.finditer(said)]
        if any(name is None or name in self.tools for name in named):
            return f"the reply looks like an action and has not its form. {FORM}"
        return ""

    def _line(self, line: str, start: int) -> None:
        if self.answer is None and self._ends_thinking(line):
            return
        if _FENCE.match(line.rstrip("\n")):
            self.fenced = not self.fenced
            self._say(line if self.answer is not None or not self.labelled else "")
            return
        label = self._label(line)
        if label is None or not self._take(label, start):
            self._say(line)

    def _ends_thinking(self, line: str) -> bool:
        """The end of a thinking part whose beginning the endpoint kept: all before it was a draft."""
        bare = line.strip()
        found = _THOUGHT_ENDS.match(bare) or (bare.endswith(">") and _THOUGHT_ENDS.search(bare))
        if not found:
            return False
        self.at -= len(line) - line.index(found[0]) - len(found[0])
        self.thought, self.calls, self.labelled, self.fenced = [], [], False, False
        return True

    def _say(self, text: str) -> None:
        (self.thought if self.answer is None else self.answer).append(text)

    def _label(self, line: str) -> re.Match[str] | None:
        """The label at the line's beginning. Inside a fence, where code may stand, only a capitalized one."""
        found = LABEL.match(line)
        return found if found and not (self.fenced and found["word"][0].islower()) else None

    def _take(self, label: re.Match[str], start: int) -> bool:
        """Follow the label; False when it is mere text here."""
        word = label["word"].lower()
        if word.startswith("action"):
            return self._take_action(ValueReader(self.text, start + label.end()), word)
        if self.answer is not None:
            return False
        self.labelled = True
        if word.startswith("observation"):
            if self.calls:  # results come from the tools: what a model writes here it made up
                self.end = start
            return bool(self.calls)
        if "answer" in word:
            self.answer, self.wrapped = [], self.fenced
        self._say(rest_of(label))
        return True

    def _take_action(self, reader: ValueReader, word: str) -> bool:
        """In a fence or an answer only what has the form of a call is one; elsewhere every action is."""
        lead = reader.skip(LEAD)
        if self.answer is not None and self.fenced != self.wrapped:
            return False
        if (self.fenced or self.answer is not None) and ("input" in word or not self._is_call(reader)):
            return False
        self.labelled = True
        if "input" in word:
            reader.fail("an action input stands without an action")
        self.fenced ^= len(_FENCES.findall(lead)) % 2 == 1
        self._read_calls(reader)
        return True

    def _is_call(self, reader: ValueReader) -> bool:
        name = NAME.match(self.text, reader.at)
        behind = CLOSING_MARKS.match(self.text, name.end()) if name else None
        if name is None or behind is None:
            return False
        if self.text.startswith(("(", "{"), behind.end()):
            return True
        return name[0] in self.tools and LINE_END.match(self.text, behind.end()) is not None

    def _read_calls(self, reader: ValueReader) -> None:
        """The call here, if there is one, and those that follow it without a label of their own."""
        self.at = reader.at
        if self.at >= len(self.text) or LABEL.match(self.text, self.at):
            return
        if reader.skip(NOTHING):
            self.at = reader.at
            return
        while True:
            self.calls.append(read_call(reader, self.tools))
            self.at = reader.at
            reader.skip(_BETWEEN)
            name = NAME.match(self.text, reader.at)
            if not name or name[0] not in self.tools or not self.text.startswith("(", name.end()):
                return
