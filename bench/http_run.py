"""Thirty scripted steps over HTTP on loopback, streamed and not, with every tool, in two processes."""

import argparse
import tempfile
from pathlib import Path

from loopback import ALL_TOOLS, ANSWER, EXIT_WAITING, Place, faults_of, model_server
from report import report

TOOLS = {
    "read_file", "write_file", "edit_file", "list_directory", "move_file", "delete_file",
    "grep_files", "run_command", "create_tasks", "update_task_status", "get_tasks", "request_input",
}  # fmt: skip


def try_run(*, stream: bool) -> list[str]:
    """Run the scenario in two processes; what went wrong."""
    with tempfile.TemporaryDirectory() as folder, model_server(ALL_TOOLS) as url:
        place = Place(Path(folder), url, stream=stream)
        code, events, err = place.run("Build a word counter with a test and a report.")
        if code != EXIT_WAITING:
            return [f"the first process ended with {code}: {err}"]
        thread_id = events[0]["thread_id"]
        code, more, err = place.run("--thread", thread_id, "--answer", ANSWER)
        if code != 0:
            return [f"the second process ended with {code}: {err}"]
        used = {e["tool"] for e in events + more if e["type"] == "agent_tool_complete"}
        failed = [e["message"] for e in events + more if e["type"] == "agent_tool_error"]
        steps = [step["number"] for step in place.show(thread_id)["steps"]]
        faults = [
            *failed,
            *(f"{tool} was not used" for tool in sorted(TOOLS - used)),
            *faults_of(place.workspace),
        ]
        if steps != list(range(1, len(steps) + 1)) or len(steps) < 30:
            faults.append(f"the steps are {steps}")
        return faults


def main() -> None:
    """Both ways."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--figures", action="store_true")
    parser.parse_args()
    for stream in (False, True):
        faults = try_run(stream=stream)
        report(
            f"30 steps over HTTP, {'streamed' if stream else 'not streamed'}, then a new process",
            seen="; ".join(faults)
            or f"{len(TOOLS)} of {len(TOOLS)} tools did their work, files as they must be",
            goal="every tool through HTTP, the thread goes on in a new process",
            holds=not faults,
        )


if __name__ == "__main__":
    main()
