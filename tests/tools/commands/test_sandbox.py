"""Which sandbox is chosen, from programs that say and do what a test has them do."""

from pathlib import Path

import pytest

from lockstitch.tools.commands import landlock_probe, sandbox
from lockstitch.tools.commands.landlock_probe import probe_landlock
from lockstitch.tools.commands.sandbox import NO_SANDBOX, choose_landlock, choose_sandbox, find_sandbox


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def program(folder: Path, name: str, version: str, probe: str = "exit 0") -> str:
    """A bubblewrap of that version, which does `probe` when it is to make a sandbox."""
    made = folder / name
    made.write_text(f'#!/bin/sh\nif [ "$1" = --version ]; then echo "{version}"; exit; fi\n{probe}\n')
    made.chmod(0o755)
    return str(made)


def test_first_that_can_lay_overlays_is_taken(folder: Path) -> None:
    old = program(folder, "old", "bubblewrap 0.8.0")
    new = program(folder, "new", "bubblewrap 0.11.0")
    newer = program(folder, "newer", "bubblewrap 0.12.1")
    found = choose_sandbox([old, new, newer])
    assert (found.backend, found.overlay, found.program, found.version) == (
        "bubblewrap",
        True,
        new,
        (0, 11, 0),
    )
    assert found.reason == "bubblewrap 0.11.0, with overlays"


def test_older_one_is_used_without_overlays(folder: Path) -> None:
    found = choose_sandbox([program(folder, "old", "bubblewrap 0.8.0")])
    assert (found.backend, found.overlay) == ("bubblewrap", False)
    assert "mode plan runs no commands" in found.reason


def test_overlays_that_do_not_work_here_are_not_used(folder: Path) -> None:
    probe = 'case "$*" in *--tmp-overlay*) exit 1;; esac'
    found = choose_sandbox([program(folder, "new", "bubblewrap 0.11.0", probe)])
    assert (found.backend, found.overlay) == ("bubblewrap", False)


def test_one_that_does_not_work_makes_room_for_the_next(folder: Path) -> None:
    broken = program(folder, "broken", "bubblewrap 0.11.0", "exit 1")
    old = program(folder, "old", "bubblewrap 0.8.0")
    assert choose_sandbox([broken, old]).program == old


def test_forbidden_namespaces_are_told_with_the_programs_own_words(folder: Path) -> None:
    probe = "echo 'bwrap: setting up uid map: Permission denied' >&2; exit 1"
    found = choose_sandbox([program(folder, "new", "bubblewrap 0.11.0", probe)])
    assert (found.backend, found.overlay, found.program) == ("none", False, "")
    assert "setting up uid map: Permission denied" in found.reason
    assert "user namespaces" in found.reason


@pytest.mark.parametrize("version", ["bubblewrap 0.7.0", "", "some other bwrap 9.9"])
def test_too_old_or_unknown_ones_are_no_sandbox(version: str, folder: Path) -> None:
    found = choose_sandbox([program(folder, "odd", version), str(folder / "missing")])
    assert found.backend == "none"
    assert "0.8 or newer" in found.reason


def test_landlock_says_what_it_lacks_and_can_hold_back_all_changes() -> None:
    found = choose_landlock(None, instead_of=NO_SANDBOX)
    assert (found.backend, found.overlay, found.can_discard) == ("landlock", False, True)
    assert found.reason.startswith("Landlock ")
    assert "weaker than bubblewrap: commands make no sockets" in found.reason


def test_without_either_both_reasons_are_told() -> None:
    found = choose_landlock("this kernel has no Landlock", instead_of=choose_sandbox([]))
    assert (found.backend, found.can_discard) == ("none", False)
    assert "0.8 or newer" in found.reason
    assert found.reason.endswith("; this kernel has no Landlock")


@pytest.mark.parametrize(
    ("version", "machine", "word"),
    [
        (0, "x86_64", "no Landlock"),
        (5, "x86_64", "too old (version 5"),
        (6, "riscv64", "not used on riscv64"),
    ],
)
def test_landlock_that_cannot_hold_a_command_says_why(
    version: int, machine: str, word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(landlock_probe, "landlock_version", lambda: version)
    monkeypatch.setattr(landlock_probe.platform, "machine", lambda: machine)
    assert word in (probe_landlock() or "")


def test_landlock_that_the_kernel_refuses_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    if probe_landlock() is not None:
        pytest.skip("needs a Linux with Landlock switched on, where commands can be held by it")
    monkeypatch.setattr(landlock_probe, "build_filter", lambda *_, **__: b"\0" * 8)
    assert "OSError: [Errno 22]" in (probe_landlock() or "")


def test_setting_wants_one_backend_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "_programs", lambda: iter(()))
    monkeypatch.setattr(sandbox, "probe_landlock", lambda: None)
    monkeypatch.setattr(sandbox.sys, "platform", "linux")
    find = find_sandbox.__wrapped__  # the answer is not for other tests
    assert [find(wanted).backend for wanted in ("auto", "bubblewrap", "landlock")] == [
        "landlock",
        "none",
        "landlock",
    ]
