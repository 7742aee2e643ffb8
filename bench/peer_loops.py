"""The same task through LangChain's `create_agent` and through deepagents, for step_cost.py.

Each as its documentation sets it up, with the stock SQLite saver: `create_agent` with the three tools of
floor_loop.py, deepagents with its own file tools on the same folder.
`python bench/peer_loops.py NAME URL WORKSPACE DATABASE STEPS`
"""

import asyncio
import importlib.util
import sys
from pathlib import Path
from typing import Any

from floor_loop import run_tool

NEEDS = {"create_agent": "langchain", "deepagents": "deepagents"}
# Calls of deepagents' tools: its grep takes plain text, and its read_file gives 100 lines unless told.
DEEP_CALLS = (
    ("read_file", {"file_path": "/file00.py", "limit": 500}),
    ("grep", {"pattern": "needle_", "path": "/", "output_mode": "content"}),
    ("write_file", {"file_path": "/out.txt", "content": "b\nc\nd\ne\n"}),
)
SUPERSTEPS_A_STEP = 20  # more than any of their middleware makes of a step, so that no limit ends the run


def is_installed(name: str) -> bool:
    """Whether the peer can be measured here."""
    return importlib.util.find_spec(NEEDS[name]) is not None


def build_agent(name: str, model: Any, workspace: Path, saver: Any) -> Any:
    """The peer's compiled graph."""
    if name == "deepagents":
        from deepagents import create_deep_agent
        from deepagents.backends import FilesystemBackend

        backend = FilesystemBackend(root_dir=workspace, virtual_mode=True)
        return create_deep_agent(model=model, backend=backend, checkpointer=saver)
    from langchain.agents import create_agent

    return create_agent(model, tools=tools_on(workspace), checkpointer=saver)


def tools_on(workspace: Path) -> list[Any]:
    """The three tools of the bare loop."""
    from langchain_core.tools import tool

    @tool
    def read_file(path: str) -> str:
        """Read a file."""
        return run_tool("read_file", {"path": path}, workspace)

    @tool
    def grep_files(pattern: str, path: str) -> str:
        """Find lines by a regular expression."""
        return run_tool("grep_files", {"pattern": pattern, "path": path}, workspace)

    @tool
    def write_file(path: str, content: str) -> str:
        """Write a file."""
        return run_tool("write_file", {"path": path, "content": content}, workspace)

    return [read_file, grep_files, write_file]


async def main(name: str, url: str, workspace: Path, database: str, steps: int) -> None:
    """Run the task to its end."""
    from langchain_openai import ChatOpenAI
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

    model = ChatOpenAI(model="m", base_url=url, api_key="none", max_retries=0)
    async with AsyncSqliteSaver.from_conn_string(database) as saver:
        agent = build_agent(name, model, workspace, saver)
        config = {"configurable": {"thread_id": "t"}, "recursion_limit": SUPERSTEPS_A_STEP * (steps + 5)}
        await agent.ainvoke({"messages": [("user", "work")]}, config)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4], int(sys.argv[5])))
