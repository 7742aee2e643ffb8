"""The token on disk, and the one-time links made from it."""

import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lockstitch.state.errors import HomeUnusableError
from lockstitch.studio.security.login import CODE_S, Codes, make_link, make_studio_url, studio_key
from lockstitch.studio.security.token import derive, is_same, read_or_make_token

TOKEN = "t" * 43
NOW = 1_800_000_000.0
URL = "http://127.0.0.1:8765"


def code_of(link: str) -> str:
    return parse_qs(urlsplit(link).query)["once"][0]


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


def test_token_is_made_once_random_and_for_its_owner_alone(home: Path) -> None:
    token = read_or_make_token(home)
    assert len(token) >= 43
    assert stat.S_IMODE((home / "token").stat().st_mode) == 0o600
    assert read_or_make_token(home) == token
    (home / "other").mkdir()
    assert read_or_make_token(home / "other") != token
    assert {path.name for path in home.iterdir()} == {"token", "other"}


def test_servers_that_start_at_once_get_one_token(home: Path) -> None:
    with ThreadPoolExecutor(8) as threads:
        tokens = set(threads.map(lambda _: read_or_make_token(home), range(32)))
    assert len(tokens) == 1
    assert [path.name for path in home.iterdir()] == ["token"]


def test_token_that_others_could_read_is_made_private(home: Path) -> None:
    (home / "token").write_text(f"{TOKEN}\n")
    (home / "token").chmod(0o644)
    assert read_or_make_token(home) == TOKEN
    assert stat.S_IMODE((home / "token").stat().st_mode) == 0o600


def write_words(home: Path) -> None:
    (home / "token").write_text("not a token")


def write_nothing(home: Path) -> None:
    (home / "token").touch()


def write_bytes(home: Path) -> None:
    (home / "token").write_bytes(b"\xff" * 43)


def link_elsewhere(home: Path) -> None:
    (home / "elsewhere").write_text(TOKEN)
    (home / "token").symlink_to(home / "elsewhere")


def make_folder(home: Path) -> None:
    (home / "token").mkdir()


@pytest.mark.parametrize("spoil", [write_words, write_nothing, write_bytes, link_elsewhere, make_folder])
def test_what_is_no_token_is_refused_and_not_told(home: Path, spoil: Callable[[Path], None]) -> None:
    spoil(home)
    with pytest.raises(HomeUnusableError, match="Delete it") as caught:
        read_or_make_token(home)
    assert "not a token" not in str(caught.value)


@pytest.mark.usefixtures("ordinary_user")
def test_home_that_cannot_be_written_is_said(home: Path) -> None:
    home.chmod(0o500)
    with pytest.raises(HomeUnusableError, match="may not be written by you"):
        read_or_make_token(home)


@given(st.text())
def test_only_the_secret_itself_is_the_same(given_text: str) -> None:
    assert is_same(given_text, TOKEN) == (given_text == TOKEN)


def test_what_browsers_get_does_not_hold_the_token() -> None:
    link, studio = make_link(URL, TOKEN, now=NOW), make_studio_url(URL, TOKEN)
    assert TOKEN not in link + studio
    assert studio == f"{URL}/for-studio/{studio_key(TOKEN)}"
    assert len({derive(TOKEN, "cookie"), derive(TOKEN, "studio"), derive("u" * 43, "cookie")}) == 3


def test_code_is_good_once() -> None:
    codes = Codes(TOKEN, Clock())
    first, second = (code_of(make_link(URL, TOKEN, now=NOW)) for _ in range(2))
    assert codes.take(first)
    assert not codes.take(first)
    assert codes.take(second)


def test_code_is_good_for_minutes_and_then_forgotten() -> None:
    clock = Clock()
    codes = Codes(TOKEN, clock)
    early, late = (code_of(make_link(URL, TOKEN, now=NOW)) for _ in range(2))
    clock.now += CODE_S
    assert codes.take(early)
    clock.now += 1
    assert not codes.take(late)
    assert not codes.take(early)


def test_code_from_before_the_start_is_refused_for_it_may_have_been_used() -> None:
    link = make_link(URL, TOKEN, now=NOW - 2)
    assert not Codes(TOKEN, Clock()).take(code_of(link))


def test_code_from_the_future_is_refused() -> None:
    assert not Codes(TOKEN, Clock()).take(code_of(make_link(URL, TOKEN, now=NOW + 60)))


@given(st.text(st.characters(exclude_categories=[])))
@example("\ud800.0123456789abcdef01234567")
@example("1.\ud800")
def test_code_of_anything_else_is_refused(code: str) -> None:
    assert not Codes(TOKEN, Clock()).take(code)


@given(st.data())
def test_code_with_one_character_changed_is_refused(data: st.DataObject) -> None:
    code = code_of(make_link(URL, TOKEN, now=NOW))
    place = data.draw(st.integers(0, len(code) - 1))
    other = data.draw(st.characters().filter(lambda character: character != code[place]))
    assert not Codes(TOKEN, Clock()).take(code[:place] + other + code[place + 1 :])
