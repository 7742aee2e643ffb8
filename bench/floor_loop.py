"""The floor that a step's cost is measured against: no agent, only what nobody can leave out.

A loop that sends the whole history by httpx, runs the tool by hand, and commits one row to SQLite
(WAL, synchronous=NORMAL). `python bench/floor_loop.py URL WORKSPACE DATABASE`
"""

import asyncio
import json
import re
import sqlite3
import sys
from pathlib import Path
from typing import Any

import httpx


def run_tool(name: str, args: dict[str, Any], workspace: Path) -> str:
    """The three tools of the benchmark, without limits or checks."""
    if name == "read_file":
        lines = (workspace / args["path"]).read_text().splitlines()
        return "\n".join(f"{n}\t{line}" for n, line in enumerate(lines, start=1))
    if name == "grep_files":
        pattern = re.compile(args["pattern"])
        return "\n".join(
            f"{path.name}:{n}: {line}"
            for path in sorted(workspace.glob("*.py"))
            for n, line in enumerate(path.read_text().splitlines(), start=1)
            if pattern.search(line)
        )
    (workspace / args["path"]).write_text(args["content"])
    return "ok"


async def main(url: str, workspace: Path, database: str) -> None:
    """Loop until the model answers without a call."""
    connection = sqlite3.connect(database)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")
    connection.execute("CREATE TABLE messages (id INTEGER PRIMARY KEY, body TEXT)")
    messages: list[dict[str, Any]] = [{"role": "user", "content": "work"}]
    async with httpx.AsyncClient() as client:
        while True:
            body = json.dumps({"model": "m", "messages": messages})
            reply = (await client.post(f"{url}/chat/completions", content=body, timeout=60)).json()
            message = reply["choices"][0]["message"]
            added = [message]
            for call in message.get("tool_calls") or []:
                args = json.loads(call["function"]["arguments"])
                output = run_tool(call["function"]["name"], args, workspace)
                added.append({"role": "tool", "tool_call_id": call["id"], "content": output})
            messages += added
            connection.executemany(
                "INSERT INTO messages (body) VALUES (?)", [(json.dumps(m),) for m in added]
            )
            connection.commit()
            if not message.get("tool_calls"):
                return


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3]))
