"""What every test stands on: a home folder of its own, no key, no endpoint, no tracing."""

import ctypes
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lockstitch.state.ledger import Ledger, open_ledger

_OF_THE_DEVELOPER = ("LOCKSTITCH_", "OPENAI_", "LANGSMITH_", "LANGCHAIN_")


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home folder; nothing the developer has set in the shell reaches a test."""
    for name in list(os.environ):
        if name.upper().startswith(_OF_THE_DEVELOPER):
            monkeypatch.delenv(name)
    folder = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("LOCKSTITCH_HOME", str(folder))
    monkeypatch.setenv("TERM", "xterm")  # in a dumb terminal a person is asked and shown in another way
    monkeypatch.setenv("LANGSMITH_TRACING", "false")
    monkeypatch.setenv("LANGCHAIN_TRACING_V2", "false")
    return folder


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    """A ledger of its own, open."""
    with open_ledger(tmp_path / "ledger.db") as opened:
        yield opened


CAPABILITY_VERSION = 0x20080522  # _LINUX_CAPABILITY_VERSION_3
OVER_FILE_MODES = 1 << 1 | 1 << 2  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH


@pytest.fixture
def ordinary_user() -> Iterator[None]:
    """File modes count for this test: as root it lays down the powers that pass them by, in this thread."""
    if os.geteuid() != 0:
        yield
        return
    if sys.platform != "linux":
        pytest.skip(
            "needs an ordinary user: file modes do not count for root, and only Linux can change that"
        )
    libc, header = ctypes.CDLL(None, use_errno=True), (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0)
    powers = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable, twice
    assert libc.capget(header, powers) == 0
    before = powers[0]
    powers[0] = before & ~OVER_FILE_MODES
    assert libc.capset(header, powers) == 0
    yield
    powers[0] = before
    assert libc.capset(header, powers) == 0
