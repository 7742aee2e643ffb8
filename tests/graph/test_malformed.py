"""Whatever a model or its endpoint answers, a run ends or goes on as it should.

The replies stand in tests/contracts/malformed.yaml. Graph, tools and client are the real ones, the endpoint
is the model server on loopback. Commands and deletions are allowed: a misread reply shows in the files.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from langchain_core.messages import AIMessage, ToolMessage
from tests.fakes import Bench
from tests.model_server import ModelServer, RawReply

from lockstitch.graph.models.scenario import Scenario, Turn, WireCall
from lockstitch.graph.strategies.registry import STRATEGIES
from lockstitch.state.threads import new_thread_id

CONTRACT = Path(__file__).parents[1] / "contracts" / "malformed.yaml"
CASES: list[dict[str, Any]] = yaml.safe_load(CONTRACT.read_text(encoding="utf-8"))
FILES = {"a.txt": b"one\n", "src/b.txt": b"two\n"}
SECRET = b"of nobody's business\n"
WELL = "All is well."
AFTERWARDS = 12  # replies behind the malformed one: enough for every way a strategy may ask again

LIST = Turn(0, "", (WireCall(name="create_tasks", arguments='{"tasks": ["Look."]}', id="l"),))
LOOK = Turn(0, "", (WireCall(name="get_tasks", arguments="{}", id="g"),))
REASON = Turn(0, "I look around.")
# what comes before the malformed reply, so that it stands where the strategy may call tools
BEFORE: dict[str, list[Turn]] = {"plan-and-execute": [LIST], "reason-act-observe": [REASON]}
BEFORE_PHASE: dict[str, list[Turn]] = {"plan": [], "reason": [], "observe": [REASON, LOOK]}

_REPEATED = re.compile(r"<<(.+?)\*(\d+)>>", re.DOTALL)


def strategies_of(case: dict[str, Any]) -> list[str]:
    named = case.get("strategy", list(STRATEGIES))
    return named if isinstance(named, list) else [named]


PAIRS = [
    pytest.param(case, strategy, id=f"{case['id']}-{strategy}")
    for case in CASES
    for strategy in strategies_of(case)
]


def unfold(value: Any) -> Any:
    """`<<text*N>>` as N times the text, throughout."""
    match value:
        case str():
            return _REPEATED.sub(lambda found: found[1] * int(found[2]), value)
        case list():
            return [unfold(part) for part in value]
        case dict():
            return {key: unfold(part) for key, part in value.items()}
    return value


def reply_of(case: dict[str, Any]) -> RawReply:
    if "body" in case:
        kind = case.get("content_type", "application/json")
        return RawReply(unfold(case["body"]).encode(), content_type=kind)
    message = {"role": "assistant", **({"content": unfold(case["text"])} if "text" in case else {})}
    calls = [wire for call in case.get("calls", []) for wire in wires_of(call)]
    message |= {"tool_calls": calls} if "calls" in case else {}
    finish = case.get("finish", "tool_calls" if calls else "stop")
    choice = {"index": 0, "message": message | unfold(case.get("message", {})), "finish_reason": finish}
    body = {"id": "r", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]}
    return RawReply(json.dumps(body).encode())


def wires_of(call: dict[str, Any]) -> list[dict[str, Any]]:
    function = {key: unfold(call[key]) for key in ("name", "arguments") if key in call}
    head = {"id": unfold(call["id"])} if "id" in call else {}
    return [{**head, "type": call.get("type", "function"), "function": function}] * call.get("times", 1)


def files_in(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def expected_files(effects: Any) -> dict[str, bytes]:
    changed = {} if effects == "none" else effects
    kept = {path: content for path, content in FILES.items() if path not in changed}
    return kept | {path: text.encode() for path, text in changed.items() if text is not None}


def assert_every_call_is_answered(messages: list[Any]) -> None:
    """Right behind it, once, and in the shape that providers take back."""
    waiting: list[str] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            waiting.remove(message.tool_call_id)
            continue
        assert waiting == []
        if isinstance(message, AIMessage):
            assert message.invalid_tool_calls == []
            waiting = [call["id"] or "" for call in message.tool_calls]
            assert all(waiting)
            assert len(set(waiting)) == len(waiting)
            assert all(re.fullmatch(r"[\w-]{1,128}", call["name"]) for call in message.tool_calls)
    assert waiting == []


def assert_sendable(body: dict[str, Any]) -> None:
    """As an endpoint checks a conversation: each result behind its call, no half characters, whole JSON."""
    json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
    waiting: set[str] = set()
    for message in body["messages"]:
        if message["role"] == "tool":
            waiting.remove(message["tool_call_id"])
            continue
        assert waiting == set()
        waiting = {call["id"] for call in message.get("tool_calls") or ()}
        for call in message.get("tool_calls") or ():
            arguments = json.loads(call["function"]["arguments"], parse_constant=no_constant)
            assert isinstance(arguments, dict)


def no_constant(name: str) -> None:
    raise AssertionError(f"{name} is no JSON")


class Endpoint:
    """One server, and a graph whose model is there; both serve every case, which keeps a case under 0.1 s."""

    def __init__(self, folder: Path, server: ModelServer) -> None:
        self.server = server
        self.bench = Bench(
            folder,
            None,  # type: ignore[arg-type]  # the one that the settings and the run name
            openai_base_url=server.base_url,
            openai_api_key="none",
            unsandboxed_commands="allow",
            stream=False,
        )

    async def run(self, workspace: Path, replies: list[Turn | RawReply], strategy: str) -> dict[str, Any]:
        """A new thread that gets these replies; its state."""
        self.server.replies, self.server.requests, self.server.bodies = replies, 0, []
        self.bench.events, self.bench.config = [], {"configurable": {"thread_id": new_thread_id()}}
        return await self.bench.run(
            "Look around.", model="m", workspace=str(workspace), strategy=strategy, mode="auto", max_steps=6
        )


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    with ModelServer(Scenario(name="malformed"), replies=[], keep_bodies=True, keep_alive=False) as server:
        yield Endpoint(tmp_path_factory.mktemp("endpoint"), server)


def lay_out(workspace: Path) -> None:
    for path, content in FILES.items():
        (workspace / path).parent.mkdir(exist_ok=True, parents=True)
        (workspace / path).write_bytes(content)
    (workspace.parent / "secret.txt").write_bytes(SECRET)


@pytest.mark.asyncio(loop_scope="module")  # one loop, since the client's connections belong to theirs
@pytest.mark.parametrize(("case", "strategy"), PAIRS)
async def test_a_malformed_reply_does_what_it_must_and_no_more(
    tmp_path: Path, endpoint: Endpoint, case: dict[str, Any], strategy: str
) -> None:
    workspace = tmp_path / "work"
    lay_out(workspace)
    before = BEFORE_PHASE[case["phase"]] if "phase" in case else BEFORE.get(strategy, [])
    replies = [*before, reply_of(case), *[Turn(0, WELL)] * AFTERWARDS]
    state = await endpoint.run(workspace, replies, strategy)
    ends = case.get("ends", "answered")
    assert state["reason"] in (ends if isinstance(ends, list) else [ends]), state["final_answer"]
    assert case.get("answer", WELL) in state["final_answer"]
    told = "\n".join(message.text for message in state["messages"]) + state["error"]
    assert case.get("told", "") in told
    assert files_in(workspace) == expected_files(case["effects"])
    assert (tmp_path / "secret.txt").read_bytes() == SECRET
    assert SECRET.decode() not in told
    assert_every_call_is_answered(state["messages"])
    json.dumps(endpoint.bench.events, ensure_ascii=False, allow_nan=False).encode()
    assert endpoint.bench.types()[-1] == "agent_completion"
    for body in endpoint.server.bodies:
        assert_sendable(body)


def test_the_contract_names_each_case_once_and_every_strategy() -> None:
    ids = [case["id"] for case in CASES]
    assert len(ids) == len(set(ids))
    assert {strategy for case in CASES for strategy in strategies_of(case)} == set(STRATEGIES)
