"""What every test stands on: a home folder of its own, no key, no endpoint, no tracing."""

import os
from pathlib import Path

import pytest

_OF_THE_DEVELOPER = ("LOCKSTITCH_", "OPENAI_", "LANGSMITH_", "LANGCHAIN_")


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home folder; nothing the developer has set in the shell reaches a test."""
    for name in list(os.environ):
        if name.upper().startswith(_OF_THE_DEVELOPER):
            monkeypatch.delenv(name)
    folder = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("LOCKSTITCH_HOME", str(folder))
    monkeypatch.setenv("LANGSMITH_TRACING", "false")
    monkeypatch.setenv("LANGCHAIN_TRACING_V2", "false")
    return folder
