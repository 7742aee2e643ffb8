"""Keys do not leave, however an answer is cut into pieces, nor by the log."""

import json
import logging
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstitch.state.settings import load_settings
from lockstitch.studio.security.mask import Mask, MaskedFormatter, MaskedStream, find_secrets, mask_logs

KEY = "canary/7Q+zP4mW=k3y"
QUOTED = 'canary"7Q\\zP4mW=k3y'
SPELT = "schlüssel-7Q+zP4mW"
MASK = Mask({KEY, QUOTED, SPELT, "EMPTY"})


def passed(chunks: list[bytes]) -> bytes:
    stream = MaskedStream(MASK)
    return b"".join(stream.feed(chunk, more=True) for chunk in chunks) + stream.feed(b"", more=False)


@given(st.lists(st.sampled_from([KEY, KEY[:7], KEY[7:], "c", "canary", "said ", "é"])), st.data())
def test_stream_loses_every_key_and_nothing_else_wherever_it_is_cut(
    parts: list[str], data: st.DataObject
) -> None:
    whole = "".join(parts).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=6)))
    chunks = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    assert passed(chunks) == whole.replace(KEY.encode(), b"*" * len(KEY))


def test_stream_holds_back_only_what_may_become_a_key() -> None:
    stream = MaskedStream(MASK)
    assert stream.feed(b'data: {"said": "hello"}\n\n', more=True) == b'data: {"said": "hello"}\n\n'
    assert stream.feed(b"a canary", more=True) == b"a "
    assert stream.feed(b" bird", more=True) == b"canary bird"


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


@pytest.fixture
def logger() -> logging.Logger:
    return logging.getLogger("test_security_mask")


def test_log_loses_keys_in_words_arguments_and_stack_traces(
    logger: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    handler = logging.StreamHandler(sys.stderr)
    logger.addHandler(handler)
    try:
        mask_logs(MASK)
        mask_logs(MASK)
        try:
            int(KEY)
        except ValueError:
            logger.exception("asked with %s, then with sk-proj-0123456789abcdef and Bearer abc.def", KEY)
    finally:
        logger.removeHandler(handler)
    said = capsys.readouterr().err
    assert KEY not in said
    assert "sk-proj" not in said
    assert "abc.def" not in said
    assert "ValueError: invalid literal for int() with base 10: '****" in said
    assert "asked with ****" in said


def test_log_is_masked_once_however_often_it_is_asked_for(logger: logging.Logger) -> None:
    handler = logging.StreamHandler(sys.stderr)
    logger.addHandler(handler)
    try:
        mask_logs(MASK)
        first = handler.formatter
        mask_logs(MASK)
        assert handler.formatter is first
        assert isinstance(first, MaskedFormatter)
    finally:
        logger.removeHandler(handler)
