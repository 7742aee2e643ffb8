"""Known keys become stars wherever they stand; in commands also what looks like one, or is named so."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstitch.state.mask import Mask, find_secrets, mask_command, mask_key_like
from lockstitch.state.settings import load_settings

KEY = "canary/7Q+zP4mW=k3y"
QUOTED = 'canary"7Q\\zP4mW=k3y'
SPELT = "schlüssel-7Q+zP4mW"
MASK = Mask({KEY, QUOTED, SPELT, "EMPTY"})


@pytest.mark.parametrize("secret", [KEY, QUOTED, SPELT])
@pytest.mark.parametrize("ascii_only", [True, False])
def test_key_is_found_as_json_writes_it(secret: str, ascii_only: bool) -> None:
    said = json.dumps({"message": f"the key is {secret}."}, ensure_ascii=ascii_only).encode()
    masked = MASK.data(said)
    assert len(masked) == len(said)
    assert json.loads(masked)["message"].startswith("the key is *****")
    assert json.dumps(secret, ensure_ascii=ascii_only)[1:-1].encode() not in masked


def test_placeholders_of_local_endpoints_are_no_secrets() -> None:
    assert MASK.text("an EMPTY list") == "an EMPTY list"


def test_secrets_are_those_of_the_settings_and_of_the_environment() -> None:
    environment = {"ANTHROPIC_API_KEY": "a-key", "DB_PASSWORD": "b-word", "PATH": "/bin", "KEYBOARD": "us"}
    assert find_secrets(load_settings(openai_api_key=KEY), environment) == {KEY, "a-key", "b-word"}
    assert find_secrets(load_settings(), {}) == frozenset()


def test_key_with_bytes_of_no_encoding_is_masked() -> None:
    secret = b"secret-\xff-secret".decode("utf-8", "surrogateescape")
    assert Mask({secret}).data(b"is secret-\xff-secret") == b"is ***************"


@pytest.mark.parametrize(
    ("command", "masked"),
    [
        ("TOKEN=abc123 make deploy", "TOKEN=*** make deploy"),
        ("export OPENAI_API_KEY='a b'; ls", "export OPENAI_API_KEY=***; ls"),
        ("mysql --password hunter2 db", "mysql --password *** db"),
        ("mysql --password=hunter2 db", "mysql --password=*** db"),
        ("curl -u me:hunter2 host", "curl -u me:*** host"),
        ("git clone https://me:hunter2@host/x.git", "git clone https://me:***@host/x.git"),
        ("curl -H 'Authorization: Bearer abc.def'", "curl -H 'Authorization: Bearer ***'"),
        ("curl -H 'X-Api-Key: deadbeef'", "curl -H 'X-Api-Key: ***'"),
        ("""curl -d '{"password": "a b"}'""", """curl -d '{"password": ***}'"""),
        ("echo sk-proj-0123456789abcdef", "echo ***"),
        ("aws s3 ls AKIAIOSFODNN7EXAMPLE", "aws s3 ls ***"),
        ("echo ghp_0123456789abcdefghij", "echo ***"),
    ],
)
def test_what_a_command_gives_as_a_secret_is_masked(command: str, masked: str) -> None:
    assert mask_command(command) == masked


@pytest.mark.parametrize(
    "command",
    [
        "pytest -k token",
        "mkdir -p keys/new",
        "cat secrets.py",
        "git log --author=me",
        "ls npm-packages",
        "du -u x",
    ],
)
def test_an_ordinary_command_stays_as_it_is(command: str) -> None:
    assert mask_command(command) == command


@given(st.text(alphabet="keytoknpasword-_=: '\"\n/@.uBrsg1", max_size=300))
def test_masking_twice_changes_nothing_more_of_known_kinds(text: str) -> None:
    once = mask_key_like(text)
    assert mask_key_like(once) == once
