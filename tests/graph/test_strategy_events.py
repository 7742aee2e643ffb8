"""The events of whole runs, for each strategy, against tests/contracts/strategy_events.yaml.

The service, the tools and the client are the real ones; the model server on loopback gives the replies in
their order. After a change that is meant, write the file anew and read what changed:
`WRITE_CONTRACTS=1 .venv/bin/python -m pytest tests/graph/test_strategy_events.py`.
"""

import asyncio
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.model_server import ModelServer

from lockstitch.graph.models.scenario import Scenario, Turn
from lockstitch.graph.strategies.registry import STRATEGIES
from lockstitch.state.events import Event
from lockstitch.state.run_context import RunContext
from lockstitch.state.settings import load_settings
from lockstitch.state.threads import new_thread_id
from lockstitch.studio.service import AgentService, RunRequest, open_service

sys.path.append(str(Path(__file__).parents[2] / "bench"))  # no package: its scripts import each other by name
from task_replies import Check, Step, Task, replies_for

CONTRACT = Path(__file__).parents[1] / "contracts" / "strategy_events.yaml"
HEAD = """\
# The events of a run by strategy and case: type, step, and what tells them apart. Written by
# tests/graph/test_strategy_events.py, which says how to write it anew.
"""
TELLING = ("tool", "state", "reason", "steps", "change_type", "strategy")  # no ids, times, tokens or texts
PATIENCE_S = 60.0  # for a loaded machine
HANGS_S = 600.0  # far longer than any test; the server ends it when it closes

READ = {"tool": "read_file", "args": {"path": "a.txt"}}
EDIT = {"tool": "edit_file", "args": {"path": "a.txt", "old_text": "one", "new_text": "two"}}
MISSING = {"tool": "read_file", "args": {"path": "b.txt"}, "fails": True}
LIST = {"tool": "list_directory"}
ASK = {"tool": "request_input", "args": {"question": "Two or three?"}}


def script(*calls: dict[str, Any]) -> Task:
    """A task whose model makes these calls, one a step, and answers."""
    steps = tuple(Step(think=f"Step {n}.", calls=[call]) for n, call in enumerate(calls, start=1))  # type: ignore[arg-type]
    return Task(name="t", prompt="Go.", files={}, script=steps, answer="Done.", check=Check(files={}))


def replies_until_limit(strategy: str) -> list[Turn]:
    """Two whole steps, and the summary."""
    needed = 6 if strategy == "reason-act-observe" else 2
    return [*replies_for(script(READ, LIST, EDIT), strategy)[:needed], Turn(0, "Two steps are done.")]


class Door:
    """A thread of a service; keeps what its runs told."""

    def __init__(self, service: AgentService, strategy: str) -> None:
        self.service = service
        self.strategy = strategy
        self.thread_id = new_thread_id()
        self.events: list[Event] = []

    async def run(
        self, *, stop_after: Callable[[], None] | None = None, reply: Any = None, **context: Any
    ) -> None:
        """One run to its rest; `stop_after` waits for the moment at which it is stopped."""
        request = RunRequest(
            thread_id=self.thread_id,
            prompt=None if reply else "Go on with one.",
            reply=reply,
            context=RunContext(strategy=self.strategy, mode="auto", door="cli", **context),
        )
        async with asyncio.timeout(PATIENCE_S):
            handle = self.service.start(request)
            if stop_after is not None:
                await asyncio.to_thread(stop_after)
                handle.stop()
            self.events += [event async for event in handle.events()]
            await handle.ended()


async def happy_path(door: Door, server: ModelServer) -> None:
    server.replies = replies_for(script(READ, EDIT), door.strategy)
    await door.run()


async def no_tool_call(door: Door, server: ModelServer) -> None:
    server.replies = [Turn(0, "Hello."), Turn(0, "Hello, once more.")]
    await door.run()


async def tool_error(door: Door, server: ModelServer) -> None:
    server.replies = replies_for(script(MISSING, READ), door.strategy)
    await door.run()


async def step_limit(door: Door, server: ModelServer) -> None:
    server.replies = replies_until_limit(door.strategy)
    await door.run(max_steps=2)


async def stop(door: Door, server: ModelServer) -> None:
    server.replies = [Turn(0, "Late.", delay_s=HANGS_S)]
    await door.run(stop_after=lambda: wait_for_request(server))


def wait_for_request(server: ModelServer) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while server.requests == 0 and time.monotonic() < deadline:
        time.sleep(0.001)


async def question(door: Door, server: ModelServer) -> None:
    server.replies = replies_for(script(ASK), door.strategy)
    await door.run()
    await door.run(reply="Two.")


async def retrieval_with_tools(door: Door, server: ModelServer) -> None:
    server.replies = replies_for(script(READ), door.strategy)
    await door.run(use_cgrag=True)


CASES = (happy_path, no_tool_call, tool_error, step_limit, stop, question, retrieval_with_tools)


def told(events: Sequence[Event]) -> list[dict[str, Any]]:
    """The events as the contract has them."""
    return [
        {"type": event.type, "step": event.step}
        | {name: getattr(event, name) for name in TELLING if hasattr(event, name)}
        for event in events
    ]


def contract() -> dict[str, dict[str, list[dict[str, Any]]]]:
    return yaml.safe_load(CONTRACT.read_text(encoding="utf-8")) if CONTRACT.exists() else {}


def write(strategy: str, case: str, events: list[dict[str, Any]]) -> None:
    """Put it into the file, in the order of the tests."""
    held = contract()
    held.setdefault(strategy, {})[case] = events
    ordered = {
        s: {c.__name__: held[s][c.__name__] for c in CASES if c.__name__ in held[s]}
        for s in STRATEGIES
        if s in held
    }
    text = yaml.safe_dump(ordered, sort_keys=False, default_flow_style=None, width=200)
    CONTRACT.write_text(HEAD + text, encoding="utf-8")


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
async def test_a_run_tells_these_events_in_this_order(tmp_path: Path, case: Any, strategy: str) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.txt").write_text("one\n")
    with ModelServer(Scenario(name="events"), replies=[], keep_alive=False) as server:
        settings = load_settings(
            home=tmp_path / "home",
            workspace=tmp_path / "work",
            model="m",
            openai_base_url=server.base_url,
            openai_api_key="none",
            stream=False,
            embeddings="off",
        )
        async with open_service(settings) as service:
            door = Door(service, strategy)
            await case(door, server)
    assert [event.seq for event in door.events] == list(range(1, len(door.events) + 1))
    events = told(door.events)
    if os.environ.get("WRITE_CONTRACTS"):
        write(strategy, case.__name__, events)
    assert events == contract()[strategy][case.__name__]


def test_the_contract_holds_every_case_of_every_strategy_and_no_other() -> None:
    names = [case.__name__ for case in CASES]
    assert {strategy: list(held) for strategy, held in contract().items()} == dict.fromkeys(STRATEGIES, names)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_what_a_client_hands_in_is_told_before_the_first_step(strategy: str) -> None:
    types = [event["type"] for event in contract()[strategy]["retrieval_with_tools"]]
    assert types.index("agent_context") < types.index("agent_turn_start")
