from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lockstitch.state.settings import load_settings
from lockstitch.studio.checkup import check_database, check_endpoint, check_sandbox
from lockstitch.tools.commands.sandbox import NO_SANDBOX, choose_landlock, find_sandbox

Lockstitch = Callable[..., Any]


def lines(done: Any) -> dict[str, str]:
    """Status and text by the check's name."""
    return {line.split()[1]: line for line in done.out.splitlines()}


def test_a_fresh_installation_works_and_says_what_to_set(lockstitch: Lockstitch, home: Path):
    done = lockstitch("doctor")
    found = lines(done)
    assert done.code == 0
    assert {name: line.split()[0] for name, line in found.items()} == {
        "python": "ok",
        "settings": "ok",
        "home": "ok",
        "threads": "ok",
        "ledger": "ok",
        "policy": "ok",
        "ripgrep": "ok",
        "confinement": "ok",
        "sandbox": "ok" if find_sandbox().overlay else "warn",
        "model": "warn",
    }
    assert find_sandbox().reason in found["sandbox"]
    assert "OPENAI_API_KEY" in found["model"]
    assert str(home) in found["home"]


def test_without_a_sandbox_it_says_why_and_that_commands_ask():
    check = check_sandbox(NO_SANDBOX)
    assert (check.status, check.name) == ("warn", "sandbox")
    assert check.text.startswith("none: nobody looked for one. So every command asks first")


def test_the_weaker_sandbox_is_named_with_what_it_lacks():
    check = check_sandbox(choose_landlock(None, instead_of=NO_SANDBOX))
    assert (check.status, check.name) == ("warn", "sandbox")
    assert "weaker than bubblewrap" in check.text


def test_after_a_run_both_databases_are_whole(lockstitch: Lockstitch, scenario: Callable[[str], str]):
    model = scenario("- say: Done.")
    lockstitch("run", "go")
    found = lines(lockstitch("doctor"))
    assert found["threads"].endswith("whole")
    assert found["ledger"].endswith("whole")
    assert model in found["model"]


def test_a_policy_that_does_not_fit_fails(lockstitch: Lockstitch, home: Path):
    (home / "policy.toml").write_text("x = [")
    done = lockstitch("doctor")
    assert done.code == 1
    assert lines(done)["policy"].startswith("fail")


def test_a_home_that_cannot_be_one_fails(lockstitch: Lockstitch, tmp_path: Path):
    (tmp_path / "file").write_text("")
    done = lockstitch("--home", str(tmp_path / "file"), "doctor")
    assert done.code == 1
    assert lines(done)["home"].startswith("fail")


def test_a_damaged_database_fails(tmp_path: Path):
    path = tmp_path / "threads.db"
    path.write_bytes(b"SQLite format 3\0" + b"\xff" * 5000)
    check = check_database(path, name="threads")
    assert check.status == "fail"
    assert "threads.db" in check.text


def test_a_wrong_setting_fails(lockstitch: Lockstitch, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("LOCKSTITCH_MODE", "wild")
    done = lockstitch("doctor")
    assert done.code == 1
    assert lines(done)["settings"].startswith("fail")


async def test_an_endpoint_that_answers_is_ok(scenario: Callable[[str], str]):
    scenario("- say: ok")
    assert (await check_endpoint(load_settings())).status == "ok"


async def test_an_endpoint_that_refuses_fails(tmp_path: Path):
    path = tmp_path / "refuses.yaml"
    path.write_text("{name: refuses, without_tools: turns, turns: [{say: ok, fail: {status: 401}}]}")
    check = await check_endpoint(load_settings(model=f"scripted:{path}"))
    assert check.status == "fail"
    assert "refused the key (401)" in check.text


async def test_no_model_fails_when_it_is_to_be_asked():
    check = await check_endpoint(load_settings())
    assert (check.status, check.name) == ("fail", "endpoint")


def test_the_endpoint_is_asked_only_on_demand(lockstitch: Lockstitch, scenario: Callable[[str], str]):
    scenario("- say: ok")
    assert "endpoint" not in lines(lockstitch("doctor"))
    assert lines(lockstitch("doctor", "--online"))["endpoint"].startswith("ok")
