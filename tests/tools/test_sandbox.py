"""Which sandbox is chosen, from programs that say and do what a test has them do."""

from pathlib import Path

import pytest

from lockstitch.tools.sandbox import choose_sandbox


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
