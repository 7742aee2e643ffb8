"""A server without a model: the demo on a copy of its project, and nobody's own folder touched."""

from pathlib import Path

import pytest

from lockstitch.graph.keyless import MODEL, SCRIPTED, settings_of_server
from lockstitch.state.settings import load_settings

BUGGY = "fairsplit/shares.py"


def test_without_a_model_the_demo_is_run_and_said_aloud(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    settings, demo = settings_of_server(load_settings())
    assert demo is not None
    assert (settings.model, settings.workspace) == (MODEL, demo.folder)
    assert tmp_path in demo.folder.parents
    assert SCRIPTED in capsys.readouterr().err


def test_a_renewed_project_has_its_bug_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    _, demo = settings_of_server(load_settings())
    assert demo is not None
    before = (demo.folder / BUGGY).read_text()
    (demo.folder / BUGGY).write_text("mended")
    (demo.folder / "more.py").write_text("left behind")
    demo.renew()
    assert (demo.folder / BUGGY).read_text() == before
    assert not (demo.folder / "more.py").exists()


def test_the_demos_model_in_a_folder_of_ones_own_renews_nothing(tmp_path: Path) -> None:
    given = load_settings(model=MODEL, workspace=tmp_path)
    assert settings_of_server(given) == (given, None)
