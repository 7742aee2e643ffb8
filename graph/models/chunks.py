"""One streamed reply of a chat-completions endpoint, made into chunks that LangChain can add up.

Endpoints differ: usage in every chunk, a reason to finish in two, calls without an index or all with index 0,
arguments that are objects. Added up as they come, such replies have tokens twice, a reason `stopstop`, and
two calls in one.
"""

import json
from typing import Any

from lockstitch.graph.models.failure import BrokenStreamError
from lockstitch.graph.models.kept_fields import DETAILS, EXTRA, TEXTS, add_details, fields_of, name_calls


class ChunkReader:
    """Reads the events of one stream in order; `last` closes it."""

    def __init__(self) -> None:
        self._head: dict[str, Any] = {}
        self._usage: dict[str, Any] | None = None
        self._finish: str | None = None
        self._calls: list[dict[str, Any]] = []  # their ids and extra content
        self._place: dict[int, int] = {}  # the endpoint's index -> the latest call that has it
        self._seen: dict[str, Any] = {}  # of the fields to keep

    def read(self, event: dict[str, Any]) -> dict[str, Any]:
        """The event's delta, in OpenAI's own form; empty where it says nothing new."""
        if event.get("model") and not self._head:  # Azure's first event has none
            self._head = {name: value for name, value in event.items() if name not in ("choices", "usage")}
        choice = next(iter(event.get("choices") or ()), None) or {}
        self._usage = event.get("usage") or choice.get("usage") or self._usage  # Kimi's is in the choice
        self._finish = choice.get("finish_reason") or self._finish
        given = choice.get("delta") or {}
        delta = {name: given[name] for name in ("content", *TEXTS) if given.get(name)}
        self._keep(given)
        calls = [self._piece(call) for call in given.get("tool_calls") or ()]
        return {**delta, "tool_calls": calls} if calls else delta

    def last(self, *, endpoint: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """An event that ends the reply as one that was not streamed ends, and the fields to keep.

        Raises:
            BrokenStreamError: the stream gave no reason for its end.
        """
        if self._finish is None:
            raise BrokenStreamError("no finish reason")
        choice = {"index": 0, "delta": {}, "finish_reason": self._finish}
        kept = fields_of({**self._seen, "tool_calls": self._calls}, endpoint=endpoint)
        for name in TEXTS:  # went out with the deltas, and LangChain adds them up
            kept.pop(name, None)
        return {**self._head, "choices": [choice], "usage": self._usage}, kept

    def _keep(self, delta: dict[str, Any]) -> None:
        self._seen.update({name: delta[name] for name in TEXTS if delta.get(name)})
        if delta.get(DETAILS):
            add_details(self._seen.setdefault(DETAILS, []), delta[DETAILS])

    def _piece(self, call: dict[str, Any]) -> dict[str, Any]:
        """A piece of a call, with its own place; LangChain wants id and name with the first alone."""
        function = call.get("function") or {}
        given = function.get("arguments") or ""
        arguments = given if isinstance(given, str) else json.dumps(given)
        place = self._place_of(call)
        if place < len(self._calls):
            return {"index": place, "function": {"arguments": arguments}}
        name_calls([call])
        self._calls.append({"id": call.get("id"), EXTRA: call.get(EXTRA)})
        began = {"name": function.get("name"), "arguments": arguments}
        return {"index": place, "id": call.get("id"), "function": began}

    def _place_of(self, call: dict[str, Any]) -> int:
        """Where the call stands in the reply; a new id is a new call, whatever its index."""
        index = call.get("index")
        known = self._place.get(index, -1) if isinstance(index, int) else len(self._calls) - 1
        if known >= 0 and call.get("id") in {None, "", self._calls[known]["id"]}:
            return known
        if isinstance(index, int):
            self._place[index] = len(self._calls)
        return len(self._calls)
