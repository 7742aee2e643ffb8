"""POST /api/agent/react_step: action, answer, error; and the examples of the docs as they stand there."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.fakes import FakeModel, says
from tests.http_door import Door, open_door
from tests.model_server import ModelServer

from lockstitch.graph.models.scenario import Scenario, Turn
from lockstitch.state.errors import ModelError
from lockstitch.studio.http.react_step import NO_CONTEXT, NO_PINS

DOCS = Path(__file__).parents[2] / "docs" / "http.md"
EXAMPLE = re.compile(r"<!-- react_step (\w+): ?(.*?) ?-->\n```json\n(.*?)```", re.DOTALL)
ANSWERS = "- say: unused\n"
PATH = "/api/agent/react_step"
ACTION = 'Thought: I look.\nAction: read_file(path="a.py")'
SECRET = "sk-canary-0123456789abcdef"
OBSERVED = {"role": "tool_observation", "toolResult": {"success": True, "result": {"lines": 3}}}
CALLED = {
    "role": "assistant",
    "content": "I look.",
    "toolCall": {"name": "read_file", "parameters": {"path": "a.py"}},
}


async def ask(door: Door, **body: Any) -> dict[str, Any]:
    reply = await door.post(PATH, {"user_query": "Go.", "max_iterations_left": 3} | body)
    assert reply.status_code == 200, reply.text
    answer: dict[str, Any] = reply.json()
    return answer


async def test_an_action_comes_with_the_conversation_to_send_back(tmp_path: Path) -> None:
    async with open_door(tmp_path, ANSWERS, models=FakeModel(says(ACTION))) as door:
        reply = await ask(door, session_id="mine")
    assert (reply["status"], reply["session_id"], reply["iterations_remaining"]) == (
        "action_proposed",
        "mine",
        2,
    )
    assert reply["action_details"] == {
        "tool_name": "read_file",
        "tool_args": {"path": "a.py"},
        "raw_action_string": 'read_file(path="a.py")',
    }
    assert reply["direct_response"] is None
    user, assistant = reply["updated_conversation_history"]
    assert (user["role"], user["content"]) == ("user", "Go.")
    assert assistant["toolCall"] == CALLED["toolCall"]


async def test_an_observation_goes_on_without_a_query(tmp_path: Path) -> None:
    model = FakeModel(says("Answer: Three lines."))
    async with open_door(tmp_path, ANSWERS, models=model) as door:
        history = [{"role": "user", "content": "How long?", "timestamp": 5}, CALLED, OBSERVED]
        reply = await ask(door, user_query="", conversation_history=history)
    assert (reply["status"], reply["direct_response"]) == ("direct_response_provided", "Three lines.")
    assert reply["updated_conversation_history"][:3] == history
    assert model.prompts[0][-1].text == 'Observation of read_file(path="a.py"): {"lines": 3}'


async def test_a_failed_tool_is_told_as_an_error(tmp_path: Path) -> None:
    model = FakeModel(says("Answer: It failed."))
    failed = {"role": "tool_observation", "toolResult": {"success": False, "result": "no such file"}}
    async with open_door(tmp_path, ANSWERS, models=model) as door:
        await ask(door, user_query="", conversation_history=[CALLED, failed])
    assert model.prompts[0][-1].text.endswith(": Error: no such file")


async def test_context_is_gathered_and_told(tmp_path: Path) -> None:
    model = FakeModel(says("Done."))
    async with open_door(tmp_path, ANSWERS, models=model) as door:
        (door.workspace / "a.py").write_text("x = 1\n")
        found = {"path": "b.py", "content": "y = 2", "score": 0.5}
        reply = await ask(
            door,
            explicit_context_paths=["a.py", "missing.py"],
            vector_search_results_to_include=[found],
            pinned_item_ids_to_include=["pin-1"],
        )
    told = "\n".join(message.text for message in model.prompts[0])
    assert "x = 1" in told
    assert "y = 2" in told
    assert NO_PINS in reply["notices"]
    assert any("missing.py" in notice for notice in reply["notices"])


async def test_context_that_cannot_be_gathered_leaves_the_conversation_and_a_word(tmp_path: Path) -> None:
    async with open_door(tmp_path, ANSWERS, models=FakeModel(says("Done."))) as door:
        reply = await ask(door, project_id="/etc")
    assert (reply["status"], reply["notices"]) == ("direct_response_provided", [NO_CONTEXT])


async def test_a_failing_model_is_an_error_that_can_be_tried_again(tmp_path: Path) -> None:
    words = "gpt: the endpoint timed out. The thread is kept and can go on."
    async with open_door(tmp_path, ANSWERS, models=FakeModel(ModelError(words))) as door:
        reply = await ask(door)
    assert (reply["status"], reply["error"]) == ("error", "gpt: the endpoint timed out.")
    assert (reply["action_details"], reply["direct_response"]) == (None, None)
    assert (reply["updated_conversation_history"], reply["iterations_remaining"]) == ([], 3)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"user_query": ""}, "user_query"),
        ({"user_query": "", "conversation_history": [CALLED]}, "user_query"),
        ({"max_iterations_left": 0}, "max_iterations_left"),
        ({"conversation_history": [{"role": "robot"}]}, "conversation_history.0.role"),
        ({"conversation_history": [{"role": "tool_observation"}]}, "conversation_history.0"),
        ({"llm_config": {"modelName": "scripted:demo"}}, "llm_config.modelName"),
        ({"llm_config": {"temperature": 3}}, "llm_config.temperature"),
        ({"llm_config": {"tokenLimit": 5, "reservedOutputTokens": 5}}, "llm_config.reservedOutputTokens"),
        ({"user_api_keys": {"llmKey": 7}}, "user_api_keys.llmKey"),
    ],
)
async def test_a_request_that_does_not_fit_names_the_field(
    tmp_path: Path, change: dict[str, Any], field: str
) -> None:
    async with open_door(tmp_path, ANSWERS, models=FakeModel(says("Done."))) as door:
        reply = await door.post(PATH, {"user_query": "Go.", "max_iterations_left": 3} | change)
        assert (reply.status_code, [f["field"] for f in reply.json()["fields"]]) == (400, [field])


async def test_the_clients_key_is_sent_to_the_endpoint_and_nowhere_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    scenario = Scenario(name="t", turns=())
    with ModelServer(scenario, replies=[Turn(number=0, say="Done.")], key=SECRET, keep_alive=False) as server:
        own = {"model": "gpt-x", "openai_base_url": server.base_url, "model_retries": 0}
        async with open_door(tmp_path, ANSWERS, **own) as door:
            refused = await ask(door)  # with the server's own key, which is none
            reply = await ask(door, user_api_keys={"llmKey": SECRET})
    assert refused["status"] == "error"
    assert (reply["status"], reply["direct_response"]) == ("direct_response_provided", "Done.")
    kept = [path for path in (tmp_path / "home").rglob("*") if path.is_file()]
    assert not [path for path in kept if SECRET.encode() in path.read_bytes()]
    assert SECRET not in json.dumps([refused, reply]) + caplog.text


def examples() -> list[tuple[str, str, str]]:
    return EXAMPLE.findall(DOCS.read_text(encoding="utf-8"))


def test_the_docs_have_examples_of_each_status() -> None:
    assert {status for status, _, _ in examples()} == {"action_proposed", "direct_response_provided", "error"}


@pytest.mark.parametrize(("status", "says_", "body"), examples(), ids=lambda text: str(text)[:20])
async def test_an_example_of_the_docs_works_as_it_stands(
    tmp_path: Path, status: str, says_: str, body: str
) -> None:
    replies = [Turn(number=0, say=says_.replace("\\n", "\n"))] if status != "error" else []
    with ModelServer(Scenario(name="t", turns=()), replies=replies, keep_alive=False) as server:
        own = {"model": "gpt-x", "openai_base_url": server.base_url, "model_retries": 0}
        async with open_door(tmp_path, ANSWERS, **own) as door:
            reply = await door.post(PATH, json.loads(body))
    assert reply.status_code == 200, reply.text
    assert reply.json()["status"] == status
