"""Every route's request and reply are a public contract: one client's day, compared with golden bodies.

The golden file only ever grows. What differs from run to run (ids, times, folders) is written as <...>.
After a change that is meant, write it anew and read what changed:
`WRITE_CONTRACTS=1 .venv/bin/python -m pytest tests/studio/test_http_contract.py`.
"""

import json
import os
import re
from pathlib import Path
from typing import Any, Final

from tests.fakes import FakeModel, call, says
from tests.http_door import Door, open_door

from lockstitch.studio.http.api import build_api

GOLDEN = Path(__file__).parents[1] / "contracts" / "http" / "routes.json"
THREAD: Final = "3f2b8a52-9c1d-4e7b-8a46-0d6f5e1c2b7a"
HISTORY = [{"timestamp": "2026-01-02", "prompt": "Hello", "result": "Hi"}]
VOLATILE: Final = {
    r"\d{4}-\d\d-\d\dT[\d:.]+\+00:00": "<time>",
    r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}": "<id>",
    r'("(?:time_ms|plan_ms|execute_ms|freed_bytes|size_bytes)": )[\d.]+': r"\g<1>0",
    r'("token": ")[0-9a-f]{64}"': r'\g<1><token>"',
    r'("prompt": ")(?:[^"\\]|\\.)*"': r'\g<1><prompt>"',
}
DAY: Final[list[tuple[str, str, Any]]] = [
    ("POST", "/api/agent", {"prompt": "Make it.", "thread_id": THREAD, "contextHistory": HISTORY}),
    ("GET", "/api/threads", None),
    ("GET", "/api/threads/{thread}", None),
    ("POST", "/api/threads/{thread}/answer?action_id=c1", {"decision": "reject", "message": "no"}),
    ("GET", "/api/threads/{thread}/steps", None),
    ("GET", "/api/threads/{thread}/events?after=2&limit=2", None),
    ("POST", "/api/agent", {"prompt": ""}),
    ("POST", "/api/threads/{thread}/answer", {"decision": "approve"}),
    ("POST", "/api/agent/react_step", {"user_query": "Go.", "session_id": "s", "max_iterations_left": 2}),
    ("POST", "/api/code-chat/query", {"query": "Say it.", "session_id": THREAD}),
    ("POST", "/api/code-chat/cancel/{thread}", None),
    ("POST", "/api/code-chat/confirm/c1", {"decision": "approve"}),
    ("GET", "/api/code-chat/sessions", None),
    ("GET", "/api/code-chat/sessions/{thread}", None),
    ("POST", "/api/code-chat/sessions/{thread}/clear", None),
    ("DELETE", "/api/code-chat/sessions/{thread}", None),
    ("POST", "/api/code-chat/sessions/cleanup", {"idle_hours": 24}),
    ("GET", "/api/code-chat/workspaces", None),
    ("POST", "/api/code-chat/workspaces/validate", {"path": "/"}),
    ("POST", "/api/code-chat/contexts", {"name": "docs"}),
    ("GET", "/api/code-chat/contexts", None),
    ("GET", "/api/code-chat/contexts/docs", None),
    ("POST", "/api/code-chat/contexts/docs/refresh", None),
    ("POST", "/api/code-chat/contexts/docs/stop", None),
    ("POST", "/api/code-chat/contexts/docs/search", {"query": "pay an invoice", "max_results": 1}),
    ("DELETE", "/api/code-chat/contexts/docs", None),
    ("GET", "/api/code-chat/contexts/docs", None),
    ("GET", "/api/code-chat/presets", None),
    ("POST", "/api/code-chat/presets", {"name": "careful", "tiers": {"plan": "powerful"}}),
    ("GET", "/api/threads/nonsense", None),
    ("POST", "/api/agent", {"prompt": "Serve it.", "thread_id": THREAD}),
    ("POST", "/api/threads/{thread}/answer?action_id=c3", {"decision": "approve"}),
    ("GET", "/api/threads/{thread}/processes", None),
    ("POST", "/api/threads/{thread}/processes/p1", {"action": "keep"}),
    ("POST", "/api/threads/{thread}/processes/p1", {"action": "stop"}),
    ("POST", "/api/threads/{thread}/processes/p1", {"action": "keep"}),
    ("POST", "/api/threads/{thread}/processes/p2", {"action": "stop"}),
    ("POST", "/api/agent", {"prompt": "Write it.", "thread_id": THREAD}),
    ("GET", "/api/threads/{thread}/timeline", None),
    ("GET", "/api/threads/{thread}/diff?from_step=0", None),
    ("GET", "/api/threads/{thread}/diff?from_step=99", None),
    ("POST", "/api/threads/{thread}/moves/preview", {"kind": "rewind", "to": 0}),
    ("POST", "/api/threads/{thread}/moves", {"kind": "rewind", "to": 0, "token": "{token}"}),
    ("POST", "/api/threads/{thread}/moves", {"kind": "rewind", "to": 0, "token": "{token}"}),
    ("POST", "/api/threads/{thread}/moves/preview", {"kind": "redo"}),
    ("GET", "/api/threads/{thread}/timeline", None),
    ("POST", "/api/threads/{thread}/fork", {"at": 0}),
    ("POST", "/api/agent", {"prompt": "Once more.", "thread_id": THREAD}),
    ("POST", "/api/code-chat/confirm/c2", {"decision": "respond", "message": "it is done"}),
]


async def live_through(day: list[tuple[str, str, Any]], door: Door) -> list[dict[str, Any]]:
    seen, token = [], ""
    for method, path, body in day:
        content = None if body is None else json.dumps(body).replace("{token}", token)
        headers = {"content-type": "application/json"} if content else {}
        url = path.format(thread=THREAD)
        reply = await door.client.request(method, url, content=content, headers=headers)
        await door.board.builds.rest()  # the same bodies on a slow machine
        is_json = reply.headers["content-type"] == "application/json"
        text = json.dumps(reply.json()) if is_json else reply.text
        token = reply.json().get("token", token) if is_json else token
        text = text.replace(str(door.workspace), "<workspace>").replace(THREAD, "<thread>")
        for pattern, word in VOLATILE.items():
            text = re.sub(pattern, word, text)
        kept = json.loads(text) if is_json else text.split("\n\n")[:-1]
        seen.append({"request": f"{method} {path}", "body": body, "status": reply.status_code, "reply": kept})
    return seen


async def test_a_clients_day_is_as_the_contract_has_it(tmp_path: Path) -> None:
    model = FakeModel(
        says("I make it.", call("run_command", id="c1", command="true")),
        says("Done."),
        says("Answer: Said."),
        says("Said."),
        says("", call("start_process", id="c3", command="sleep 60; :")),
        says("", call("request_input", id="c4", question="Is it as you want it?")),
        says("", call("write_file", id="c5", path="new.txt", content="one\n")),
        says("Written."),
        says("", call("run_command", id="c2", command="true")),
        says("Over."),
    )
    async with open_door(tmp_path, "- say: unused\n", models=model, model="gpt-x", embeddings="off") as door:
        (door.workspace / "shop.py").write_text("def pay_invoice():\n    return 1\n")
        seen = await live_through(DAY, door)
    if os.environ.get("WRITE_CONTRACTS"):
        lines = ",\n".join(f"  {json.dumps(told)}" for told in seen)
        GOLDEN.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    for told, expected in zip(seen, golden, strict=True):
        assert told == expected


def test_the_contract_has_a_good_reply_of_every_route() -> None:
    described = build_api().openapi()["paths"]
    routes = {(method.upper(), path) for path, methods in described.items() for method in methods}
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    well = [told["request"].split(" ") for told in golden if told["status"] < 300]
    lived = {(method, re.sub(r"\?.*", "", path).removeprefix("/api")) for method, path in well}
    missing = [
        (method, path)
        for method, path in sorted(routes)
        if not any(m == method and re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", path), p) for m, p in lived)
    ]
    assert missing == []


def test_every_route_is_described_with_its_refusals() -> None:
    described = build_api().openapi()
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            assert operation["summary"], (method, path)
            assert operation["description"], (method, path)
            assert {"4XX", "5XX"} <= set(operation["responses"]), (method, path)
            assert "422" not in operation["responses"], (method, path)
