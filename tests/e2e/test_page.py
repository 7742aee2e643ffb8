"""The page in a real browser, on the real app: runs, questions, lost connections, hostile text, access."""

import asyncio
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lockstitch.state.settings import Settings, load_settings
from lockstitch.studio.security.guard import guarded
from lockstitch.studio.security.login import make_link
from lockstitch.studio.visible import make_visible

pytest.importorskip("playwright", reason="needs Playwright, of the extra `dev`, to drive a browser")

from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Locator,
    Page,
    WebSocketRoute,
    expect,
    sync_playwright,
)

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs a browser: Chromium in the PATH")

PATIENCE_MS = 20_000  # for a loaded machine; a passing test waits a fraction of it
TOKEN = "t" * 43
PHONE = {"width": 390, "height": 844}
DESK = {"width": 1280, "height": 820}
expect.set_options(timeout=PATIENCE_MS)


class Served:
    """The app on a thread of its own, guarded as it is for people; can be stopped and started again."""

    def __init__(self, settings: Settings, port: int = 0) -> None:
        self._settings = settings
        self._up = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", port))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))
        self._thread.start()
        assert self._up.wait(PATIENCE_MS / 1000)

    async def _serve(self) -> None:
        import uvicorn

        from lockstitch.studio.app import build_app
        from lockstitch.studio.board import open_board

        async with open_board(self._settings, holder="test", on_loop=True) as board:
            app = build_app(board, self._settings)
            guard = guarded(app, token=TOKEN, hosts=[], origins=[])
            config = uvicorn.Config(guard, log_config=None, lifespan="off", timeout_graceful_shutdown=1)
            self._server = uvicorn.Server(config)
            self._up.set()
            await self._server.serve(sockets=[self._listener])

    @property
    def link(self) -> str:
        return make_link(self.url, TOKEN, now=time.time())

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join()
        self._listener.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []  # Chromium has none for root
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield browser
        browser.close()


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "stitches"
    folder.mkdir()
    (folder / "notes.txt").write_text("one\ntwo\nthree\n")
    return folder


@pytest.fixture
def scenario(tmp_path: Path) -> Callable[[str], str]:
    """Writes a scenario's turns; the name of the model that replays them."""

    def write(turns: str, more: str = "") -> str:
        path = tmp_path / "scenario.yaml"
        path.write_text(f"name: test\n{more}\nturns:\n" + textwrap.indent(textwrap.dedent(turns), "  "))
        return f"scripted:{path}"

    return write


@pytest.fixture
def serve(home: Path, workspace: Path, scenario: Callable[..., str]) -> Iterator[Callable[..., Served]]:
    running: list[Served] = []

    def start(turns: str, more: str = "", **settings: Any) -> Served:
        given = {"command_layers": False} | settings  # commands that ask do so before they run
        loaded = load_settings(home=home, workspace=workspace, model=scenario(turns, more), **given)
        running.append(Served(loaded))
        return running[-1]

    yield start
    for served in running:
        served.stop()


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Opens a page that logged in; at the end nothing may have gone wrong in it or come from elsewhere."""
    contexts: list[BrowserContext] = []
    troubles: list[str] = []

    def open_one(link: str, **options: Any) -> Page:
        contexts.append(browser.new_context(**({"viewport": DESK} | options)))
        page = contexts[-1].new_page()
        origin = link[: link.index("/", 8)]
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("console", lambda said: troubles.append(said.text) if is_trouble(said) else None)
        page.on("request", lambda sent: None if sent.url.startswith(origin) else troubles.append(sent.url))
        page.goto(link)
        expect(page.locator("#options-word")).to_contain_text("step")
        return page

    yield open_one
    for context in contexts:
        context.close()
    assert troubles == []


def is_trouble(said: ConsoleMessage) -> bool:
    """Whether the page said that something is wrong; a browser itself tells of servers that are gone."""
    from_browser = "Failed to load resource" in said.text or "WebSocket" in said.text
    return said.type in ("error", "warning") and not from_browser


def start(page: Page, prompt: str) -> None:
    page.locator("#prompt").fill(prompt)
    page.locator("#prompt").press("Enter")


def step(page: Page, number: int) -> Locator:
    return page.locator(".step").filter(has=page.get_by_role("heading", name=f"Step {number}", exact=True))


def button(page: Page, name: str) -> Locator:
    return page.locator("#ask").get_by_role("button", name=name, exact=True)


READ = """
    - say: I read the **notes**.
      calls:
        - {tool: create_tasks, args: {tasks: [Read, Tell]}}
        - {tool: update_task_status, args: {task_id: "1", status: completed}}
        - {tool: read_file, args: {path: notes.txt}}
    - say: I change them.
      calls: [{tool: edit_file, args: {path: notes.txt, old_text: two, new_text: second}}]
    - say: They hold three lines.
"""
COMMAND = """
    - say: I look.
      calls: [{tool: run_command, args: {command: "echo from-$((20 + 3))"}}]
    - capture: {came: '(from-\\d+|not today|edited)'}
      say: It came to ${came}.
"""
QUESTION = """
    - calls: [{tool: request_input, args: {question: "Which colour?"}}]
    - capture: {colour: '(\\w+)'}
      say: You said ${colour}.
"""
EDITS = """
    - calls: [{tool: edit_file, args: {path: notes.txt, old_text: two, new_text: second}}]
    - calls: [{tool: edit_file, args: {path: notes.txt, old_text: three, new_text: third}}]
    - capture: {why: '(enough)'}
      say: It is ${why}.
"""
GATED = """
    - say: It takes a while.
      calls: [{tool: run_command, args: {command: "touch begun; until [ -e go ]; do sleep 0.05; done"}}]
    - calls: [{tool: read_file, args: {path: notes.txt}}]
    - say: All is done.
"""
TWICE = """
    - calls: [{tool: run_command, args: {command: "touch begun; until [ -e go ]; do sleep 0.05; done"}}]
    - calls: [{tool: run_command, args: {command: "until [ -e end ]; do sleep 0.05; done"}}]
    - say: All is done.
"""
ALLOW = {"unsandboxed_commands": "allow", "mode": "auto", "command_layers": False}


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + PATIENCE_MS / 1000
    while not path.exists():
        assert time.monotonic() < deadline, f"{path.name} never came"
        time.sleep(0.02)


def test_a_run_is_shown_step_by_step(serve: Callable[..., Served], open_page: Callable[..., Page]) -> None:
    page = open_page(serve(READ).link)
    expect(page.locator("#max-steps")).to_have_value("10")
    expect(page.locator("#welcome-folder")).to_have_text("stitches")
    start(page, "What do the notes hold?")

    expect(page.locator(".answer .prose")).to_have_text("They hold three lines.")
    expect(page.locator(".asked")).to_contain_text("What do the notes hold?")
    expect(step(page, 1).locator(".badge")).to_have_text("1")
    expect(step(page, 1).locator(".prose strong").first).to_have_text("notes")
    read = step(page, 1).locator(".call").nth(2)
    expect(read.locator("summary")).to_contain_text("notes.txt")
    expect(read.locator("pre")).not_to_be_visible()
    read.locator("summary").click()
    expect(read.locator("pre")).to_contain_text("three")
    expect(step(page, 1).locator(".observed")).to_contain_text("read_file ok")
    expect(step(page, 2).locator(".diff tr.remove .text")).to_have_text("two")
    expect(step(page, 2).locator(".diff tr.add .text")).to_have_text("second")
    expect(page.locator("#todos li")).to_have_text(["done: Read", "to do: Tell"])
    expect(page.locator("#totals")).to_contain_text("none (scripted model)")
    expect(page.locator(".end strong")).to_have_text("answered")
    expect(page.locator("#thread-list a[aria-current]")).to_contain_text("What do the notes hold?")
    expect(page.locator("#polite")).to_contain_text("Answer: They hold three lines.")


def test_a_thread_of_the_command_line_is_opened_and_gone_on_with(
    serve: Callable[..., Served], open_page: Callable[..., Page], workspace: Path, home: Path
) -> None:
    served = serve(READ)
    model = f"scripted:{workspace.parent / 'scenario.yaml'}"
    command = [sys.executable, "-m", "lockstitch.studio.cli", "--home", str(home)]
    command += ["run", "--model", model, "--json", "Read the notes."]
    done = subprocess.run(command, cwd=workspace, capture_output=True, text=True, check=True)
    thread_id = json.loads(done.stdout.splitlines()[0])["thread_id"]

    page = open_page(served.link)
    page.get_by_role("link", name="Read the notes.").click()
    expect(page.locator(".asked")).to_contain_text("Read the notes.")
    expect(step(page, 1).locator(".call").nth(2)).to_contain_text("notes.txt")
    expect(page.locator(".answer .prose")).to_have_text("They hold three lines.")
    expect(page.locator("#todos li")).to_have_count(2)
    assert page.url.endswith(f"#{thread_id}")

    start(page, "And now?")
    expect(page.locator(".answer")).to_have_count(2)
    before = page.locator("#steps").inner_text()
    page.reload()
    expect(page.locator(".answer")).to_have_count(2)
    assert as_told(page.locator("#steps").inner_text()) == as_told(before)


def as_told(text: str) -> str:
    """The steps without their figures: a record keeps other times than the events do."""
    return re.sub(r"[\d,.]+ (tokens|ms|s)\b( · )?|\d+ lines · |at most \d+ steps| · ", "", text).replace(
        "\n", ""
    )


def test_what_was_chosen_is_sent(serve: Callable[..., Served], open_page: Callable[..., Page]) -> None:
    page = open_page(serve(READ).link)
    sent: list[dict[str, Any]] = []
    page.on("websocket", lambda ws: ws.on("framesent", lambda data: sent.append(json.loads(data))))
    page.locator("#options summary").click()
    page.get_by_label("Strategy").select_option("tool-first")
    page.get_by_role("combobox", name="Mode", exact=True).select_option("plan")
    page.get_by_label("Steps at most").fill("3")
    page.get_by_label("only these:").check()
    page.get_by_label("read_file").check()
    start(page, "Read.")

    expect(page.locator(".end")).to_be_visible()
    chat = {name: sent[0][name] for name in ("type", "content", "agent_loop_strategy", "agent_max_steps")}
    assert chat == {
        "type": "chat",
        "content": "Read.",
        "agent_loop_strategy": "tool-first",
        "agent_max_steps": 3,
    }
    assert (sent[0]["mode"], sent[0]["tools"]) == ("plan", ["read_file"])
    expect(page.locator(".run-facts")).to_contain_text("tool-first · mode plan · at most 3 steps")
    page.reload()
    expect(page.locator("#options-word")).to_have_text("tool-first · plan · 3 steps · 1 tool")


def test_a_preset_and_a_folder_are_chosen_by_keyboard(
    serve: Callable[..., Served], open_page: Callable[..., Page], workspace: Path
) -> None:
    (workspace / "inner" / "deep").mkdir(parents=True)
    (workspace / "node_modules").mkdir()
    (workspace / "inner" / "deep" / "notes.txt").write_text("two deep\n")
    page = open_page(serve(READ, allowed_roots=(workspace,)).link)
    sent: list[dict[str, Any]] = []
    page.on("websocket", lambda ws: ws.on("framesent", lambda data: sent.append(json.loads(data))))
    page.locator("#options summary").press("Enter")
    page.get_by_label("Preset").select_option("thrifty")
    expect(page.locator("#options-hint")).to_contain_text("The powerful model plans")
    page.get_by_role("button", name="Workspace").press("Enter")
    expect(page.locator("#folders")).to_be_focused()
    expect(page.locator("#folders li")).to_have_text(["inner"])
    for name in ("inner", "deep"):
        page.locator("#folders").get_by_role("button", name=name).press("Enter")
    expect(page.locator("#folders")).to_contain_text("No folder in here.")
    page.get_by_role("button", name="Up").press("Enter")
    page.locator("#folders").get_by_role("button", name="deep").press("Enter")
    expect(page.locator("#folders")).to_contain_text("No folder in here.")
    page.get_by_role("button", name="Work here").press("Enter")
    expect(page.get_by_role("button", name="Workspace")).to_be_focused()
    expect(page.locator("#options-word")).to_have_text(
        "react · ask · 10 steps · all tools · preset thrifty · in deep"
    )
    start(page, "Read.")

    expect(step(page, 2).locator(".diff tr.remove .text")).to_have_text("two deep")
    assert (sent[0]["preset"], sent[0]["workspace"]) == ("thrifty", str(workspace / "inner" / "deep"))
    expect(page.locator("#workspace")).to_be_disabled()
    start(page, "Again.")
    expect(page.locator(".answer")).to_have_count(2)
    assert "workspace" not in sent[-1]
    page.get_by_role("link", name="New").click()
    expect(page.locator("#workspace")).to_be_enabled()


def test_a_model_is_chosen_where_there_is_one_to_choose(
    serve: Callable[..., Served], open_page: Callable[..., Page]
) -> None:
    endpoint = {"openai_base_url": "http://127.0.0.1:9/v1", "model_powerful": "big-1"}
    page = open_page(serve(READ, **endpoint).link)
    page.locator("#options summary").click()
    expect(page.locator("#models option")).to_have_attribute("value", "big-1")
    page.get_by_role("combobox", name="Model", exact=True).fill("scripted:elsewhere.yaml")
    start(page, "Read.")
    expect(page.locator("#prompt-error")).to_contain_text("A scripted model cannot be chosen")
    expect(page.locator("#prompt")).to_have_value("Read.")
    page.reload()
    expect(page.locator("#options-word")).to_contain_text("scripted:elsewhere.yaml")  # as it was chosen


def test_a_run_at_another_door_is_read_along(
    serve: Callable[..., Served], open_page: Callable[..., Page], workspace: Path, home: Path
) -> None:
    page = open_page(serve(GATED, **ALLOW).link)
    with at_the_command_line(home, workspace, "Wait there.") as process:
        page.get_by_role("link", name="Wait there.").click()
        expect(page.locator("#elsewhere")).to_contain_text(f"lockstitch run (pid {process.pid})")
        expect(page.locator(".asked")).to_have_text(["You:Wait there."])
        expect(page.get_by_role("button", name="Stop")).to_be_hidden()
        expect(page.locator("#start")).to_be_disabled()
        start(page, "Me, too.")
        expect(page.locator("#prompt-error")).to_contain_text("It runs at another door")
        (workspace / "go").touch()
        expect(page.locator(".answer .prose")).to_have_text("All is done.")
        expect(page.locator("#elsewhere")).to_be_hidden()
        expect(page.locator(".step")).to_have_count(3)
    expect(page.locator("#prompt")).to_have_value("Me, too.")


def test_a_thread_on_show_is_followed_when_the_command_line_goes_on_and_is_killed(
    serve: Callable[..., Served], open_page: Callable[..., Page], workspace: Path, home: Path
) -> None:
    page = open_page(serve("\n    - say: I am there." + GATED, **ALLOW).link)
    start(page, "Are you there?")
    expect(page.locator(".answer")).to_have_count(1)
    thread_id = page.url.partition("#")[2]
    with at_the_command_line(home, workspace, "--thread", thread_id, "Once more.") as process:
        expect(page.locator("#elsewhere")).to_be_visible()
        expect(page.locator(".asked").last).to_contain_text("Once more.")
        process.kill()
    expect(page.locator(".end strong").last).to_have_text("cut off")
    expect(page.locator("#phase")).to_have_text("cut off")
    expect(page.locator(".step .pill:visible")).to_have_count(0)
    expect(page.locator("#elsewhere")).to_be_hidden()
    (workspace / "go").touch()
    page.get_by_role("button", name="Go on").click()
    expect(page.locator(".answer .prose").last).to_have_text("All is done.")


@contextmanager
def at_the_command_line(home: Path, workspace: Path, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """A run of the command line on the page's home, whose command has begun and waits for the file `go`."""
    model = f"scripted:{workspace.parent / 'scenario.yaml'}"
    command = [sys.executable, "-m", "lockstitch.studio.cli", "--home", str(home), "run", "--json"]
    environment = os.environ | {
        "LOCKSTITCH_UNSANDBOXED_COMMANDS": "allow", "LOCKSTITCH_MODE": "auto", "LOCKSTITCH_MODEL": model,
        "LOCKSTITCH_COMMAND_LAYERS": "0",  # they talk to the test by files
    }  # fmt: skip
    with subprocess.Popen(
        [*command, *words], cwd=workspace, env=environment, stdout=subprocess.DEVNULL
    ) as process:
        try:
            wait_for(workspace / "begun")
            yield process
        finally:
            process.kill()


PROCESSES = """
    - calls:
      - {tool: start_process, args: {command: "echo up; exec sleep 600"}}
      - {tool: start_process, args: {command: "exec sleep 601"}}
    - calls: [{tool: request_input, args: {question: "Which?"}}]
    - say: All is done.
"""


def test_a_process_is_kept_beyond_its_run_and_stopped(
    serve: Callable[..., Served], open_page: Callable[..., Page], axe: str
) -> None:
    page = open_page(serve(PROCESSES, **ALLOW).link)
    processes = page.locator("#process-list li")
    start(page, "Start them.")
    expect(processes).to_have_count(2)
    expect(processes.first).to_contain_text("echo up; exec sleep 600")
    expect(processes.first).to_contain_text("p1: runs, and ends with its run")
    expect(page.locator("#ask")).to_be_visible()  # the question takes the focus as it comes
    assert violations(page, axe) == []
    page.get_by_role("button", name="Keep p1").click()
    expect(processes.first).to_contain_text("p1: runs until the server ends")
    expect(page.get_by_role("button", name="Keep p1")).to_have_count(0)
    expect(page.locator("#processes-head")).to_be_focused()

    page.locator("#ask textarea, #ask input").first.fill("this")
    page.get_by_role("button", name="Answer").click()
    expect(page.locator(".answer .prose")).to_have_text("All is done.")
    expect(processes).to_have_count(1)  # the other one has ended with its run
    page.reload()
    page.get_by_role("button", name="Stop p1").click()
    expect(processes.first).to_contain_text("p1: was ended")
    expect(page.locator("#process-list button")).to_have_count(0)
    page.locator("#new").click()
    expect(page.locator("#processes")).to_be_hidden()


def test_two_tabs_show_the_same(serve: Callable[..., Served], open_page: Callable[..., Page]) -> None:
    page = open_page(serve(COMMAND, command_layers=False).link)
    start(page, "Look.")
    expect(page.locator("#ask")).to_be_visible()
    other = page.context.new_page()
    other.goto(page.url)
    button(other, "Approve").click()
    for each in (page, other):
        expect(each.locator(".answer .prose")).to_have_text("It came to from-23.")
        expect(each.locator("#ask")).to_be_hidden()
        expect(each.locator(".step")).to_have_count(2)


def test_without_a_model_the_scripted_demo_says_that_it_is_one(
    open_page: Callable[..., Page], home: Path, tmp_path: Path
) -> None:
    unset = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "LOCKSTITCH_MODEL")
    environment = {name: value for name, value in os.environ.items() if name not in unset}
    server, link = serve_alone(environment | {"LOCKSTITCH_HOME": str(home)}, tmp_path, port=0)
    try:
        page = open_page(link)
        expect(page.locator("#scripted")).to_contain_text("scripted demo")
        page.get_by_role("button", name="Find out why the tests fail").click()
        page.locator("#prompt").press("Enter")
        button(page, "Approve").click()
        expect(step(page, 2)).to_be_visible()
        expect(page.locator(".run-facts")).to_contain_text("scripted:demo")
    finally:
        end(server)


def test_an_approval_takes_the_focus_and_no_key_of_before(
    serve: Callable[..., Served], open_page: Callable[..., Page]
) -> None:
    page = open_page(serve(COMMAND, command_layers=False).link)
    start(page, "Look.")
    expect(page.locator("#ask")).to_be_focused()
    expect(page.locator("#ask")).to_contain_text("echo from-$((20 + 3))")
    expect(page.locator("#assertive")).to_contain_text("run_command waits for your word")
    for key in ("Enter", "Space", "y"):
        page.keyboard.press(key)
    expect(page.locator("#ask")).to_be_visible()
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    expect(button(page, "Approve")).to_be_focused()
    page.keyboard.press("Enter")

    expect(page.locator(".answer .prose")).to_have_text("It came to from-23.")
    expect(page.locator("#ask")).to_be_hidden()
    expect(page.locator(".step")).to_have_count(2)


def test_a_call_is_edited(serve: Callable[..., Served], open_page: Callable[..., Page]) -> None:
    page = open_page(serve(COMMAND, command_layers=False).link)
    start(page, "Look.")
    button(page, "Edit …").click()
    expect(page.get_by_label("command", exact=True)).to_be_focused()
    page.get_by_label("command", exact=True).fill("echo edited")
    button(page, "Approve as edited").click()
    expect(page.locator(".answer .prose")).to_have_text("It came to edited.")
    expect(step(page, 1).locator(".call summary")).to_contain_text("echo edited")


def test_a_call_is_rejected_and_the_model_told_why(
    serve: Callable[..., Served], open_page: Callable[..., Page]
) -> None:
    page = open_page(serve(COMMAND, command_layers=False).link)
    start(page, "Look.")
    button(page, "Reject …").click()
    page.keyboard.type("not today")
    button(page, "Reject").click()
    expect(page.locator(".answer .prose")).to_have_text("It came to not today.")


def test_a_diff_is_approved_and_another_one_rejected(
    serve: Callable[..., Served], open_page: Callable[..., Page], workspace: Path, home: Path
) -> None:
    (home / "policy.toml").write_text('[[rule]]\ndecision = "ask"\ntool = "edit_file"\n')
    page = open_page(serve(EDITS).link)
    start(page, "Change them.")
    expect(page.locator("#ask .diff tr.remove .text")).to_have_text("two")
    expect(page.locator("#ask .diff tr.add .text")).to_have_text("second")
    button(page, "Approve").click()
    expect(page.locator("#ask .diff tr.add .text")).to_have_text("third")
    assert (workspace / "notes.txt").read_text() == "one\nsecond\nthree\n"
    button(page, "Reject …").click()
    page.get_by_label("Why not?").fill("enough")
    button(page, "Reject").click()
    expect(page.locator(".answer .prose")).to_have_text("It is enough.")
    assert (workspace / "notes.txt").read_text() == "one\nsecond\nthree\n"
    expect(step(page, 2).locator(".call[data-state=failed] pre")).to_contain_text("enough")


def test_a_question_flashes_takes_the_focus_and_is_answered(
    serve: Callable[..., Served], open_page: Callable[..., Page]
) -> None:
    page = open_page(serve(QUESTION).link)
    start(page, "Paint it.")
    expect(page.get_by_label("Your answer")).to_be_focused()
    expect(page.locator(".question")).to_have_text("Which colour?")
    expect(page.locator(".draft:visible")).to_have_count(0)
    expect(page.locator("#ask")).to_have_css("animation-name", "flash")
    page.emulate_media(reduced_motion="reduce")
    expect(page.locator("#ask")).to_have_css("animation-name", "none")
    page.reload()  # it still stands
    page.get_by_label("Your answer").fill("teal")
    button(page, "Answer").click()
    expect(page.locator(".answer .prose")).to_have_text("You said teal.")


def test_at_a_limit_a_person_lets_the_run_go_on(
    serve: Callable[..., Served], open_page: Callable[..., Page]
) -> None:
    page = open_page(serve(READ, max_steps=1).link)
    start(page, "Read.")
    expect(page.locator("#ask-head")).to_have_text("The run has met its limit")
    page.get_by_label("Go on by (steps)").fill("2")
    button(page, "Go on").click()
    expect(page.locator(".answer .prose")).to_have_text("They hold three lines.")


def test_at_a_limit_a_person_stops_and_gets_a_summary(
    serve: Callable[..., Served], open_page: Callable[..., Page]
) -> None:
    page = open_page(serve(READ, "summary: One step was made.", max_steps=1).link)
    start(page, "Read.")
    button(page, "Stop and sum up").click()
    expect(page.locator(".answer")).to_contain_text("One step was made.")
    expect(page.locator(".end strong")).to_have_text("step limit")
    page.get_by_role("button", name="Go on").click()
    expect(page.locator("#ask-head")).to_have_text("The run has met its limit")


def test_a_run_is_told_something_stopped_and_gone_on_with(
    serve: Callable[..., Served], open_page: Callable[..., Page], workspace: Path
) -> None:
    page = open_page(serve(GATED, **ALLOW).link)
    start(page, "Wait.")
    wait_for(workspace / "begun")
    start(page, "mind the gap")
    expect(page.locator(".note.mine")).to_contain_text("mind the gap")
    page.get_by_role("button", name="Stop").click()
    expect(page.locator(".end strong")).to_have_text("cancelled")
    expect(page.get_by_role("button", name="Stop")).to_be_hidden()
    page.get_by_role("button", name="Go on").click()
    expect(page.locator(".answer .prose").last).to_have_text("All is done.")
    expect(page.get_by_role("button", name="Go on")).to_have_count(0)
    expect(page.locator(".asked")).to_have_text(["You:Wait.", "You:Go on where you left off."])
    page.reload()
    expect(page.locator(".answer .prose").last).to_have_text("All is done.")
    expect(page.locator(".asked")).to_have_text(["You:Wait.", "You:Go on where you left off."])


def test_a_lost_connection_misses_and_doubles_nothing(
    serve: Callable[..., Served], open_page: Callable[..., Page], workspace: Path
) -> None:
    page = open_page(serve(TWICE, **ALLOW).link)
    sockets: list[WebSocketRoute] = []

    def connect(ws: WebSocketRoute) -> None:
        server = ws.connect_to_server()
        server.on_message(lambda data: [ws.send(data) for _ in range(2)])  # what comes twice counts once
        sockets.append(ws)

    page.route_web_socket(re.compile("/ws$"), connect)
    start(page, "Wait.")
    expect(step(page, 1).locator(".call[data-state=running]")).to_be_visible()
    wait_for(workspace / "begun")
    sockets[0].close()
    expect(page.locator("#connection")).to_contain_text("The connection is lost")
    (workspace / "go").touch()  # it goes on while nobody listens
    expect(step(page, 1).locator(".observed")).to_be_visible()
    expect(step(page, 2).locator(".call[data-state=running]")).to_be_visible()
    (workspace / "end").touch()

    expect(page.locator(".answer .prose")).to_have_text("All is done.")
    expect(page.locator("#connection")).to_be_hidden()
    assert len(sockets) == 2
    expect(page.locator(".step")).to_have_count(3)
    expect(page.locator(".call")).to_have_count(2)
    expect(page.locator(".observed")).to_have_count(2)
    expect(page.locator(".call .figures")).to_contain_text(["exit 0", "exit 0"])


def test_a_killed_server_is_found_again_and_its_run_goes_on(
    open_page: Callable[..., Page], home: Path, workspace: Path, scenario: Callable[..., str]
) -> None:
    environment = os.environ | {
        "LOCKSTITCH_HOME": str(home), "LOCKSTITCH_MODEL": scenario(GATED),
        "LOCKSTITCH_UNSANDBOXED_COMMANDS": "allow", "LOCKSTITCH_MODE": "auto",
        "LOCKSTITCH_COMMAND_LAYERS": "0",
    }  # fmt: skip
    first, link = serve_alone(environment, workspace, port=0)
    try:
        page = open_page(link)
        start(page, "Wait.")
        wait_for(workspace / "begun")
        os.killpg(first.pid, signal.SIGKILL)
        expect(page.locator("#connection")).to_contain_text("The connection is lost")
    finally:
        end(first)
    (workspace / "go").touch()
    second, _ = serve_alone(environment, workspace, port=int(re.findall(r":(\d+)/", link)[0]))
    try:
        page.get_by_role("button", name="Go on").click()
        expect(page.locator(".answer .prose")).to_have_text("All is done.")
        expect(page.locator(".step")).to_have_count(3)
        expect(page.locator(".end strong")).to_have_text(["answered"])
    finally:
        end(second)


def serve_alone(environment: dict[str, str], folder: Path, *, port: int) -> tuple[subprocess.Popen[str], str]:
    command = [sys.executable, "-u", "-m", "lockstitch.studio.cli", "serve", "--port", str(port)]
    process = subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout
    for line in process.stdout:
        if found := re.search(r"http://\S+/login\S+", line):
            return process, found[0]
    raise AssertionError(f"the server ended with {process.wait()}")


def end(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert process.stdout
    process.stdout.close()


def test_hostile_text_stays_text(
    serve: Callable[..., Served], open_page: Callable[..., Page], workspace: Path
) -> None:
    bait = "<img src=x onerror=alert(1)><script>alert(2)</script>"
    (workspace / "evil.txt").write_text(f"{bait}\u202e reversed \x1b[31m\U000e0041")
    page = open_page(
        serve(f"""
            - say: '{bait} and `{bait}`'
              calls: [{{tool: read_file, args: {{path: evil.txt}}}}]
            - calls: [{{tool: request_input, args: {{question: '{bait}'}}}}]
            - say: |
                # {bait}
                - [a link](javascript:alert(3))

                ```
                {bait}
                ```
        """).link
    )  # fmt: skip
    start(page, bait)
    expect(page.locator(".question")).to_have_text(bait)
    page.get_by_label("Your answer").fill(bait)
    button(page, "Answer").click()
    expect(page.locator(".answer pre")).to_have_text(bait)
    step(page, 1).locator(".call summary").click()
    expect(step(page, 1).locator(".call pre")).to_contain_text("\\u202e reversed \\x1b[31m\\U000e0041")
    assert page.locator("#main img, #main script, .answer a, nav img").count() == 0


def test_the_page_and_the_terminal_make_the_same_visible(
    serve: Callable[..., Served], open_page: Callable[..., Page]
) -> None:
    page = open_page(serve(READ).link)
    codes = [*range(0xD800), *range(0xE000, 0x10000), *range(0xE0000, 0xE1001)]
    text = "".join(map(chr, codes))
    shown = page.evaluate("async (text) => (await import('/visible.js')).visible(text)", text)
    assert shown == make_visible(text)
    assert page.evaluate("async () => (await import('/visible.js')).visible('\\ud800')") == "\\ud800"


def test_a_server_that_refuses_or_is_gone_says_so_and_keeps_what_was_typed(
    serve: Callable[..., Served], open_page: Callable[..., Page]
) -> None:
    served = serve(READ)
    page = open_page(served.link)
    page.goto(f"{served.url}/#3f2b8a52-9c1d-4e7b-8a46-0d6f5e1c2b7a")
    expect(page.locator("#connection")).to_contain_text("There is no such thread")
    page.get_by_role("link", name="New").click()
    page.context.clear_cookies()
    page.route_web_socket(re.compile("/ws$"), lambda ws: ws.close())
    start(page, "Read.")
    expect(page.locator("#prompt-error")).to_contain_text("The server does not answer")
    expect(page.locator("#prompt")).to_have_value("Read.")


EXAMPLES = Path(__file__).parents[1] / "contracts" / "events.json"
DRAW = """async (events) => {
    const {StepsView} = await import('/steps.js');
    const {TodoView, TotalsView} = await import('/facts.js');
    const root = document.getElementById('steps');
    window.views = [new StepsView(root, {endings: {}, goOn() {}}), new TodoView(), new TotalsView()];
    for (const view of window.views) view.clear();
    document.getElementById('welcome').hidden = true;
    window.tell = (event) => window.views.forEach((view) => view.hear(event));
    events.forEach(window.tell);
}"""


def test_every_event_of_the_contract_is_drawn(
    serve: Callable[..., Served], open_page: Callable[..., Page]
) -> None:
    page = open_page(serve(READ).link)
    events = json.loads(EXAMPLES.read_text())["examples"]
    page.evaluate(DRAW, events)
    steps = page.locator("#steps")
    for words in (
        "a Python project",
        "I read the file first.",
        "Error: a.py: there is no such file.",
        "read_file: 1 line",
        "rate limit (429)",
        "Done.",
        "the model could not be reached.",
    ):
        expect(steps).to_contain_text(words)
    expect(page.locator("#totals")).to_contain_text("$0.0043")
    page.evaluate("(event) => tell(event)", {**usage(events), "run_cost_usd": None})
    expect(page.locator("#totals")).to_contain_text("unknown")


def usage(events: list[dict[str, Any]]) -> dict[str, Any]:
    return next(event for event in events if event["type"] == "agent_usage")


def test_a_reply_is_seen_while_it_is_written_and_then_once(
    serve: Callable[..., Served], open_page: Callable[..., Page]
) -> None:
    page = open_page(serve(READ).link)
    place = {"thread_id": "t", "run_id": "r", "step": 1, "timestamp": "2026-01-02T03:04:05.678Z"}
    piece = place | {"type": "agent_delta", "kind": "text", "tool": ""}
    page.evaluate(DRAW, [place | {"type": "agent_turn_start"}, piece | {"content": "I read "}])
    expect(page.locator(".draft")).to_have_text("I read")
    page.evaluate("(event) => tell(event)", piece | {"content": "it."})
    expect(page.locator(".draft")).to_have_text("I read it.")
    page.evaluate(
        "(event) => tell(event)", piece | {"kind": "tool_call", "tool": "grep_files", "content": "{"}
    )
    expect(page.locator(".draft")).to_contain_text("Prepares a call of grep_files")
    page.evaluate("(event) => tell(event)", place | {"type": "agent_reason", "content": "I read it."})
    expect(page.locator(".draft")).to_be_hidden()
    expect(page.get_by_text("I read it.")).to_have_count(1)


def test_a_run_in_a_circle_can_be_told_what_to_do_instead(
    serve: Callable[..., Served], open_page: Callable[..., Page]
) -> None:
    page = open_page(serve(READ).link)
    args = {"limit": "stuck", "at": 0, "more": 0, "compact": False}
    request = {"type": "agent_approval_request", "action_id": "stuck-1", "tool": "go_on", "args": args,
               "reason": "The run repeats itself.", "allowed_decisions": ["approve", "respond"]}  # fmt: skip
    page.evaluate(
        """async (request) => {
            const {AskView} = await import('/ask.js');
            const answer = (...reply) => { window.reply = reply; };
            new AskView(document.getElementById('ask'), {answer, announce() {}}).hear(request);
        }""",
        request,
    )
    expect(page.locator("#ask-head")).to_have_text("The run goes in a circle")
    page.get_by_label("What it should do instead").fill("Read the log.")
    button(page, "Go on").click()
    assert page.evaluate("window.reply") == ["stuck-1", {"decision": "respond", "message": "Read the log."}]


def test_always_shows_the_rule_it_would_write(
    serve: Callable[..., Served], open_page: Callable[..., Page]
) -> None:
    page = open_page(serve(READ).link)
    request = {"type": "agent_approval_request", "action_id": "c1", "tool": "run_command", "digest": "abc",
               "args": {"command": "make x"}, "reason": "asks", "allowed_decisions": ["approve"],
               "rule": {"decision": "allow", "command": "make x"}}  # fmt: skip
    page.evaluate(
        """async (request) => {
            const {AskView} = await import('/ask.js');
            const answer = (...reply) => { window.reply = reply; };
            new AskView(document.getElementById('ask'), {answer, announce() {}}).hear(request);
        }""",
        request,
    )
    expect(page.locator("#ask")).to_contain_text('this rule: decision = "allow", command = "make x"')
    button(page, "Always allow").click()
    reply = {"decision": "approve", "digest": "abc", "always": True}
    assert page.evaluate("window.reply") == ["c1", reply]


SHOW_ASK = """async (request) => {
    const {AskView} = await import('/ask.js');
    const answer = (...reply) => { window.reply = reply; };
    new AskView(document.getElementById('ask'), {answer, announce() {}}).hear(request);
}"""


def test_a_forks_files_are_shown_as_what_would_change(
    serve: Callable[..., Served], open_page: Callable[..., Page]
) -> None:
    page = open_page(serve(READ).link)
    changes = [{"path": "a.txt", "change": "M", "added": 1, "removed": 0}]
    request = {"type": "agent_approval_request", "action_id": "r1", "tool": "restore_files", "args": {},
               "reason": "The files are another step's.", "allowed_decisions": ["approve", "reject"],
               "total": 1, "changes": changes}  # fmt: skip
    page.evaluate(SHOW_ASK, request)
    expect(page.get_by_role("region", name="What it would do")).to_contain_text("a.txt")
    expect(page.locator("#ask")).not_to_contain_text("It ran")


def test_what_a_command_has_changed_is_shown_before_it_is_kept(
    serve: Callable[..., Served], open_page: Callable[..., Page], axe: str
) -> None:
    page = open_page(serve(READ).link)
    bait = "<img src=x onerror=alert(1)>"
    notes = ["--- a/notes.txt", "+++ b/notes.txt", "@@ -1,3 +1,3 @@", " one", "--- a/two", f"+{bait}\u202e"]
    notes += [" three", "@@ -40,1 +40,2 @@", " forty", "+++ b/more"]  # lines of the file like headers
    diff = "\n".join([*notes, "--- /dev/null", "+++ b/new.txt", "@@ -0,0 +1 @@", "+fresh"])
    changes = [
        {"path": "notes.txt", "change": "M", "added": 2, "removed": 1},
        {"path": "new.txt", "change": "A", "added": 1, "removed": 0},
        {"path": "logo.png", "change": "D", "added": None, "removed": None},
    ]
    request = {"type": "agent_approval_request", "action_id": "c1", "tool": "run_command", "digest": "abc",
               "args": {"command": "make x"}, "reason": "asks", "rule": None, "changes": changes, "total": 9,
               "diff": diff, "allowed_decisions": ["approve", "reject", "respond"]}  # fmt: skip
    page.evaluate(SHOW_ASK, request)
    files = page.locator("#ask .changes > li")
    expect(files).to_have_count(4)
    expect(files.nth(0).locator("tr.remove .text")).to_have_text("-- a/two")
    expect(files.nth(0).locator("tr.add .text")).to_have_text([f"{bait}\\u202e", "++ b/more"])
    expect(files.nth(0).locator("tr.add .number")).to_have_text(["2", "41"])
    expect(files.nth(0).locator("tr.gap")).to_have_count(1)
    expect(files.nth(0).locator("summary")).to_contain_text("changednotes.txt+2")
    expect(files.nth(1).locator("tr.add .text")).to_have_text("fresh")
    expect(files.nth(2)).to_have_text("deletedlogo.png")
    expect(files.nth(3)).to_have_text("and 6 more")
    expect(page.locator("#ask")).to_contain_text("It ran, and what it changed waits")
    expect(page.locator("#ask")).to_contain_text("make x")
    expect(page.locator("#ask .row button")).to_have_text(["Approve", "Reject …", "Answer for it …"])
    assert page.locator("#ask img").count() == 0
    assert violations(page, axe) == []
    button(page, "Approve").click()
    assert page.evaluate("window.reply") == ["c1", {"decision": "approve", "digest": "abc"}]


PAST = """
    - say: I begin.
      calls: [{tool: edit_file, args: {path: notes.txt, old_text: two, new_text: second}}]
    - calls: [{tool: write_file, args: {path: new.txt, content: "<b>fresh</b>"}}]
    - say: It is done.
"""


def past_step(page: Page, name: str) -> Locator:
    return page.locator("#past-list").get_by_role("button", name=name)


def in_past(page: Page, name: str) -> Locator:
    return page.locator("#past").get_by_role("button", name=name, exact=True)


def test_a_person_sees_a_step_as_it_was_and_goes_back_by_keyboard(
    serve: Callable[..., Served], open_page: Callable[..., Page], workspace: Path, axe: str
) -> None:
    page = open_page(serve(PAST).link)
    expect(page.locator("#past-button")).to_be_hidden()
    start(page, "Change them.")
    expect(page.locator(".answer")).to_be_visible()
    page.locator("#past-button").press("Enter")
    items = page.locator("#past-list > li")
    expect(items).to_have_count(4)
    expect(items.nth(1)).to_contain_text("edit_file")
    expect(items.nth(1).locator(".past-files")).to_contain_text("Mnotes.txt+1")
    expect(items.nth(2).locator(".past-files")).to_contain_text("Anew.txt+1")
    expect(past_step(page, "Step 3: answered")).to_have_attribute("aria-pressed", "true")

    past_step(page, "Step 1:").press("Enter")
    expect(page.locator("#past-step-head")).to_have_text("After step 1")
    expect(page.locator("#past-step .changes tr.remove .text")).to_have_text("two")
    expect(page.locator("#past-step .changes tr.add .text")).to_have_text("second")
    expect(page.locator(".past-talk .asked")).to_contain_text("Change them.")
    expect(page.locator(".past-talk .step")).to_have_count(1)
    assert violations(page, axe) == []

    in_past(page, "Go back to here …").press("Enter")
    expect(page.locator("#past-move")).to_be_focused()
    expect(page.locator("#past-move")).to_contain_text("rewind: step 3 → step 1")
    expect(page.locator("#past-move .changes")).to_contain_text("deletednew.txt+0")
    assert (workspace / "new.txt").exists()
    assert violations(page, axe) == []
    in_past(page, "Do it").press("Enter")
    expect(page.locator("#past-word")).to_contain_text("Done (rewind): step 1, 1 file changed.")
    expect(past_step(page, "Step 1:")).to_be_focused()
    expect(items.last).to_have_text("rewind: step 3 → step 1")
    assert not (workspace / "new.txt").exists()
    page.keyboard.press("Escape")
    expect(page.locator("#past")).to_be_hidden()
    expect(page.locator("#steps .step")).to_have_count(1)  # the page shows the thread as it is now
    expect(page.locator("#steps .answer")).to_have_count(0)
    expect(page.locator(".end strong")).to_have_text("cancelled")

    page.locator("#past-button").click()
    in_past(page, "Undo …").click()
    in_past(page, "Do it").click()
    expect(page.locator("#past-word")).to_contain_text("Done (undo): step 3")
    assert (workspace / "new.txt").read_text() == "<b>fresh</b>"
    in_past(page, "Close").click()
    expect(page.locator("#steps .step")).to_have_count(3)
    expect(page.locator("#steps .answer")).to_have_count(1)


def test_what_somebody_else_changed_is_told_before_a_person_goes_back(
    serve: Callable[..., Served], open_page: Callable[..., Page], workspace: Path, axe: str
) -> None:
    page = open_page(serve(PAST).link)
    start(page, "Change them.")
    expect(page.locator(".answer")).to_be_visible()
    page.locator("#past-button").click()
    past_step(page, "The beginning").click()
    in_past(page, "Go back to here …").click()
    expect(page.locator("#past-move .changes > li")).to_have_count(2)
    (workspace / "notes.txt").write_text("mine\n")  # after it was shown
    in_past(page, "Do it").click()
    expect(page.locator("#past-word")).to_contain_text("Somebody else changed files")
    expect(page.locator("#past-move .names")).to_have_text("notes.txt")
    assert violations(page, axe) == []
    in_past(page, "Do it").click()
    expect(page.locator("#past-word")).to_contain_text("Nothing was changed: say first")
    assert (workspace / "new.txt").exists()
    page.get_by_label("leave these as they are").check()
    in_past(page, "Do it").click()
    expect(page.locator("#past-word")).to_contain_text("Left as it is: notes.txt.")
    assert (workspace / "notes.txt").read_text() == "mine\n"
    assert not (workspace / "new.txt").exists()
    expect(page.locator(".past-talk")).to_contain_text("Nothing was said yet.")
    in_past(page, "Redo …").click()
    expect(page.locator("#past-move h3")).to_contain_text("step 0 → step 3")


def test_a_thread_is_forked_at_a_step_and_gone_on_with(
    serve: Callable[..., Served], open_page: Callable[..., Page]
) -> None:
    page = open_page(serve(PAST).link, viewport=PHONE)
    start(page, "Change them.")
    expect(page.locator(".answer")).to_be_visible()
    old = page.url
    page.locator("#past-button").click()
    past_step(page, "Step 2:").click()
    expect(page.locator("#past-step-head")).to_have_text("After step 2")
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    in_past(page, "Fork from here").click()
    expect(page.locator("#past")).to_be_hidden()
    expect(page.locator("#steps .step")).to_have_count(2)
    assert page.url != old
    page.get_by_role("button", name="Go on").click()
    expect(page.locator(".answer .prose")).to_have_text("It is done.")
    page.goto(old)
    expect(page.locator("#steps .step")).to_have_count(3)


def test_a_thread_on_show_is_read_anew_when_the_command_line_goes_back(
    serve: Callable[..., Served], open_page: Callable[..., Page], home: Path, workspace: Path
) -> None:
    page = open_page(serve(PAST).link)
    start(page, "Change them.")
    expect(page.locator(".answer")).to_be_visible()
    page.reload()
    expect(page.locator("#steps .step")).to_have_count(3)
    command = [sys.executable, "-m", "lockstitch.studio.cli", "--home", str(home), "rewind", "--yes"]
    subprocess.run([*command, "--to", "1", page.url.partition("#")[2]], cwd=workspace, check=True)
    expect(page.locator("#steps .step")).to_have_count(1)


def test_a_long_thread_opens_and_a_long_diff_is_cut(
    serve: Callable[..., Served], open_page: Callable[..., Page]
) -> None:
    page = open_page(serve(READ).link)
    examples = {event["type"]: event for event in json.loads(EXAMPLES.read_text())["examples"]}
    lines = [{"line_number": n, "type": "add", "content": f"line {n}"} for n in range(1, 201)]
    events = [examples["agent_start"]]
    for number in range(1, 301):
        kinds = (
            "agent_turn_start",
            "agent_reason",
            "agent_tool_start",
            "agent_tool_complete",
            "agent_observe",
        )
        events += [examples[kind] | {"step": number, "call_id": f"c{number}"} for kind in kinds]
    events.append(examples["agent_diff_preview"] | {"step": 300, "call_id": "c300", "diff_lines": lines})
    page.evaluate(DRAW, events)
    expect(page.locator(".step")).to_have_count(300)
    expect(page.locator(".diff tr")).to_have_count(60)
    page.get_by_role("button", name="Show 140 more lines").click()
    expect(page.locator(".diff tr")).to_have_count(200)


@pytest.fixture(scope="session")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The accessibility checker's script; nothing of it is kept in this repository."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("needs npm, which gets axe-core, the judge of accessibility")
    folder = tmp_path_factory.mktemp("axe")
    command = [npm, "install", "--no-save", "--no-audit", "--no-fund", "--fetch-retries=0"]
    command += ["--fetch-timeout=30000", "--prefix", str(folder), "axe-core@4"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"npm could not get axe-core: {done.stderr[-200:]}")
    return (folder / "node_modules" / "axe-core" / "axe.min.js").read_text()


def violations(page: Page, axe: str) -> list[str]:
    page.emulate_media(reduced_motion="reduce")  # no colour is measured half way
    page.evaluate(axe)
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    return [f"{each['id']}: {node['html'][:120]}" for each in found for node in each["nodes"]]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("viewport", [DESK, PHONE], ids=["desk", "phone"])
def test_every_state_can_be_used_by_everybody(
    scheme: str,
    viewport: dict[str, int],
    axe: str,
    serve: Callable[..., Served],
    open_page: Callable[..., Page],
) -> None:
    page = open_page(
        serve(READ.replace("They hold", "Wait") + COMMAND, command_layers=False).link,
        color_scheme=scheme,
        viewport=viewport,
    )
    assert violations(page, axe) == []
    page.locator("#options summary").click()
    page.get_by_label("only these:").check()
    assert violations(page, axe) == []
    page.get_by_label("auto: all of them").check()
    start(page, "Read.")
    expect(page.locator(".answer")).to_be_visible()
    for summary in page.locator(".call summary").all():
        summary.click()
    assert violations(page, axe) == []
    start(page, "Look.")
    button(page, "Edit …").click()
    assert violations(page, axe) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]


def test_on_a_phone_the_sides_open_over_the_steps(
    serve: Callable[..., Served], open_page: Callable[..., Page]
) -> None:
    page = open_page(serve(READ).link, viewport={"width": 320, "height": 640}, has_touch=True)
    start(page, "Read.")
    expect(page.locator("#facts-count")).to_have_text("1/2")
    expect(page.locator("#todos")).not_to_be_visible()
    page.get_by_role("button", name="Tasks and totals").press("Enter")
    expect(page.locator("#todos")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#todos")).not_to_be_visible()
    expect(page.get_by_role("button", name="Tasks and totals")).to_be_focused()
    page.get_by_role("button", name="Threads").click()
    expect(page.get_by_role("link", name="Read.")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
