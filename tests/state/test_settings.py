"""Settings: which source wins, what is refused, and that no secret is ever shown."""

import traceback
from pathlib import Path

import pytest
from pydantic import ValidationError

from lockstitch.state.errors import SettingsError
from lockstitch.state.settings import default_home, load_settings

SECRET = "sk-very-secret-0123456789"  # a made-up key


def write_toml(home: Path, text: str) -> None:
    (home / "settings.toml").write_text(text, encoding="utf-8")


def test_defaults_are_the_promised_ones(home: Path) -> None:
    settings = load_settings()
    assert settings.home == home
    assert (settings.mode, settings.strategy, settings.rate_limit_per_minute) == ("ask", "react", 100)
    assert (settings.read_lines, settings.list_entries, settings.grep_matches) == (500, 200, 100)
    assert (settings.command_timeout_s, settings.request_input_timeout_s) == (60, 600)
    assert settings.file_bytes == 10 * 1024 * 1024
    assert (settings.model, settings.openai_api_key, settings.openai_base_url) == (None, None, None)
    assert settings.max_steps is None


def test_environment_is_read_with_our_prefix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCKSTITCH_MODEL", "some-model")
    monkeypatch.setenv("LOCKSTITCH_MAX_STEPS", "7")
    settings = load_settings()
    assert (settings.model, settings.max_steps) == ("some-model", 7)


def test_endpoint_and_key_have_the_names_everyone_uses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    monkeypatch.setenv("OPENAI_API_BASE", "http://old.example/v1")
    assert load_settings().openai_base_url == "http://old.example/v1"
    monkeypatch.setenv("OPENAI_BASE_URL", "http://new.example/v1")
    settings = load_settings()
    assert settings.openai_base_url == "http://new.example/v1"
    assert settings.openai_api_key is not None
    assert settings.openai_api_key.get_secret_value() == SECRET


@pytest.mark.parametrize(
    ("field", "variable"),
    [("model", "LOCKSTITCH_MODEL"), ("openai_base_url", "OPENAI_BASE_URL")],
)
def test_argument_wins_over_environment_and_environment_over_file(
    home: Path, monkeypatch: pytest.MonkeyPatch, field: str, variable: str
) -> None:
    write_toml(home, f'{field} = "of the file"')
    assert getattr(load_settings(), field) == "of the file"
    monkeypatch.setenv(variable, "of the environment")
    assert getattr(load_settings(), field) == "of the environment"
    assert getattr(load_settings(**{field: "of the argument"}), field) == "of the argument"


def test_argument_that_was_not_given_hides_nothing(home: Path) -> None:
    write_toml(home, 'mode = "auto"')
    assert load_settings(mode=None).mode == "auto"


@pytest.mark.parametrize(
    "name", ["LOCKSTITCH_MODE", "LOCKSTITCH_MAX_STEPS", "OPENAI_API_KEY", "OPENAI_BASE_URL"]
)
def test_empty_variable_counts_as_not_set(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    without = load_settings()
    monkeypatch.setenv(name, "")
    assert load_settings() == without


def test_dotenv_of_the_current_folder_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".env").write_text(
        "LOCKSTITCH_MODE=auto\nOPENAI_BASE_URL=http://evil.example\n", encoding="utf-8"
    )
    (tmp_path / "settings.toml").write_text('mode = "auto"', encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    settings = load_settings()
    assert (settings.mode, settings.openai_base_url) == ("ask", None)


def test_home_may_be_relative_or_begin_with_a_tilde(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("LOCKSTITCH_HOME", "~/data")
    assert load_settings().home == default_home() == tmp_path / "data"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOCKSTITCH_HOME", "here")
    assert load_settings().home == default_home() == tmp_path / "here"


def test_settings_file_is_the_one_of_the_home_in_use(home: Path, tmp_path: Path) -> None:
    write_toml(home, 'mode = "auto"')
    write_toml(tmp_path, 'mode = "plan"')
    settings = load_settings(home=str(tmp_path))
    assert (settings.mode, settings.settings_file) == ("plan", tmp_path / "settings.toml")


def test_extra_tools_come_as_a_comma_list_or_a_toml_list(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_toml(home, 'extra_tools = ["a.b:c"]')
    assert load_settings().extra_tools == ("a.b:c",)
    monkeypatch.setenv("LOCKSTITCH_EXTRA_TOOLS", "d:e, f:g")
    assert load_settings().extra_tools == ("d:e", "f:g")


BAD_FILES = {
    "unknown key": (f'openai_api_kye = "{SECRET}"', "openai_api_kye: there is no such setting"),
    "wrong value": (f'mode = "{SECRET}"', "mode: input should be"),
    "wrong type": (f'openai_api_key = ["{SECRET}"]', "OPENAI_API_KEY: input should be a valid string"),
    "out of bounds": ("max_steps = 501", "max_steps: input should be less than or equal to 500"),
    "no TOML": (f"openai_api_key = {SECRET}", "no valid TOML"),
    "no end of a text": (f'openai_api_key = "{SECRET}', "no valid TOML"),
}


@pytest.mark.parametrize(("text", "word"), BAD_FILES.values(), ids=BAD_FILES)
def test_bad_settings_file_is_one_clear_line_without_the_value(home: Path, text: str, word: str) -> None:
    write_toml(home, text)
    with pytest.raises(SettingsError) as caught:
        load_settings()
    assert word in str(caught.value)
    assert "\n" not in str(caught.value)
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    assert caught.value.__cause__ is None, "the parser's error may hold the whole file"


def test_settings_file_in_another_encoding_is_a_clear_error(home: Path) -> None:
    (home / "settings.toml").write_bytes('model = "é"'.encode("latin-1"))
    with pytest.raises(SettingsError, match="no valid TOML"):
        load_settings()


def test_bad_variable_is_named_and_its_value_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCKSTITCH_MAX_STEPS", SECRET)
    with pytest.raises(SettingsError, match="max_steps") as caught:
        load_settings()
    assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_misspelt_argument_is_refused() -> None:
    with pytest.raises(SettingsError, match="modle: there is no such setting"):
        load_settings(modle="x")


def test_key_is_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    settings = load_settings()
    assert SECRET not in f"{settings!r} {settings!s} {settings.model_dump()} {settings.model_dump_json()}"


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        load_settings().mode = "auto"  # type: ignore[misc]


def test_sandbox_of_commands_is_the_best_or_one_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert load_settings(home=tmp_path).command_sandbox == "auto"
    monkeypatch.setenv("LOCKSTITCH_COMMAND_SANDBOX", "landlock")
    assert load_settings(home=tmp_path).command_sandbox == "landlock"
    monkeypatch.setenv("LOCKSTITCH_COMMAND_SANDBOX", "docker")
    with pytest.raises(SettingsError, match="command_sandbox"):
        load_settings(home=tmp_path)


@pytest.mark.parametrize(
    ("written", "meant"),
    [("off", "off"), (" on ", "on"), ("pypi.org, *.npmjs.org", ("pypi.org", "*.npmjs.org"))],
)
def test_network_of_commands_is_off_on_or_names(
    written: str, meant: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert load_settings(home=tmp_path).command_network == "off"
    monkeypatch.setenv("LOCKSTITCH_COMMAND_NETWORK", written)
    assert load_settings(home=tmp_path).command_network == meant
