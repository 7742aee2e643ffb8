"""What Studio, Agent Chat UI and Agent Inbox read of an interrupt, and what their replies mean.

The shapes in tests/contracts/hitl.json are those of the clients' sources: Agent Chat UI's
`isAgentInboxInterruptSchema`, Agent Inbox' `normalizeInterrupt` and `sendHumanResponse`. Studio shows any
JSON and sends what is typed. The clients themselves were not run.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from langgraph.types import Command
from tests.fakes import Bench, FakeModel, call, says

from lockstitch.state.interrupts import UNREADABLE, approval_request, read_approval
from lockstitch.state.run_state import PlannedCall

CONTRACT = Path(__file__).parents[1] / "contracts" / "hitl.json"
SHAPES: dict[str, Any] = json.loads(CONTRACT.read_text(encoding="utf-8"))
CLIENTS: dict[str, Any] = SHAPES["clients"]
CALL = PlannedCall(
    id="call_1", tool="delete_file", args={"path": "a.py"}, verdict="ask", note="delete asks first"
)
REPLIES = [
    (name, reply["sends"], reply["means"]) for name, one in CLIENTS.items() for reply in one["replies"]
]


def test_what_we_ask_is_what_the_contract_has() -> None:
    asked = approval_request(CALL)
    golden = SHAPES["approval"]
    assert {name: asked[name] for name in golden} == golden  # type: ignore[literal-required]


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_reads_what_we_ask(client: str) -> None:
    validation = pytest.importorskip(
        "jsonschema_rs", reason="needs jsonschema-rs, which comes with the extra `studio`"
    )
    reads = validation.validator_for(CLIENTS[client]["reads"])
    asked = json.loads(json.dumps(approval_request(CALL)))
    assert [error.message for error in reads.iter_errors(asked)] == []


@pytest.mark.parametrize(("client", "sent", "meant"), REPLIES)
def test_a_clients_reply_means_what_the_person_did(client: str, sent: Any, meant: Any) -> None:
    assert read_approval(sent) == (UNREADABLE if meant == "no" else meant), client


@pytest.mark.parametrize(
    ("client", "sent", "meant"), [r for r in REPLIES if r[0].startswith("Agent")], ids=lambda part: None
)
async def test_a_clients_reply_resumes_a_run(tmp_path: Path, client: str, sent: Any, meant: Any) -> None:
    bench = Bench(
        tmp_path,
        FakeModel(says("", call("delete_file", id="call_1", path="a.py")), says("Done.")),
    )
    for name in ("a.py", "b.py"):
        (bench.workspace / name).write_text("x\n")
    await bench.run("Clean up.")
    assert (await bench.waits_for())["action_requests"][0]["arguments"] == {"path": "a.py"}
    state = await bench.run(Command(resume=sent))
    gone = {"approve": "a.py", "edit": "b.py"}.get(meant["type"]) if isinstance(meant, dict) else None
    left = {path.name for path in bench.workspace.iterdir()}
    assert left == {"a.py", "b.py"} - {gone}, client
    assert state["final_answer"] == "Done."
