"""LangGraph's own conformance suite, with every capability that its server asks for."""

from collections.abc import AsyncGenerator
from pathlib import Path

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.conformance.capabilities import ALL_CAPABILITIES

from lockstitch.state.checkpointer import open_checkpointer


async def test_all_eight_capabilities_are_there_and_pass(tmp_path: Path) -> None:
    @checkpointer_test(name="ThreadSaver")
    async def saver() -> AsyncGenerator[BaseCheckpointSaver[str], None]:
        async with open_checkpointer(tmp_path / "threads.db") as opened:
            yield opened

    results = (await validate(saver)).results
    # a capability that is missing counts as passed in the suite's own summary
    assert {name: result.detected for name, result in results.items()} == dict.fromkeys(
        (capability.value for capability in ALL_CAPABILITIES), True
    )
    assert {name: result.failures for name, result in results.items() if not result.passed} == {}
    assert len(results) == 8
