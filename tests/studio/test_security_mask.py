"""Keys do not leave, however an answer is cut into pieces, nor by the log."""

import io
import logging
import sys
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstitch.state.mask import Mask
from lockstitch.state.settings import load_settings
from lockstitch.studio.security.mask import MaskedFormatter, MaskedStream, mask_logs, mask_process_logs

KEY = "canary/7Q+zP4mW=k3y"
MASK = Mask({KEY})


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


@pytest.fixture
def log(logger: logging.Logger) -> Iterator[io.StringIO]:
    """What a masked handler writes whose own lines are coloured, as those of servers are."""
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(logging.Formatter("\x1b[32m%(levelname)s\x1b[0m %(message)s"))
    logger.addHandler(handler)
    mask_logs(MASK)
    yield written
    logger.removeHandler(handler)


def test_log_can_command_no_terminal_and_keeps_its_own_colours(
    logger: logging.Logger, log: io.StringIO
) -> None:
    logger.warning("\x1b[8mhidden %s %d", "\x1b]0;title\x07 \u202e\U000e0041 \x1b[31mred", 7)
    assert log.getvalue() == (
        "\x1b[32mWARNING\x1b[0m \\x1b[8mhidden \\x1b]0;title\\x07 \\u202e\\U000e0041 \\x1b[31mred 7\n"
    )


def test_log_shows_what_hides_in_an_error_and_its_trace(logger: logging.Logger, log: io.StringIO) -> None:
    hostile = ValueError("\x1b[2J\x9b\u2066")
    try:
        raise hostile
    except ValueError:
        logger.exception("met %s", hostile)
    assert "met \\x1b[2J\\x9b\\u2066\n" in log.getvalue()
    assert "ValueError: \\x1b[2J\\x9b\\u2066" in log.getvalue()
    assert "\x1b[2J" not in log.getvalue()


def test_other_handlers_have_the_record_as_it_was(logger: logging.Logger, log: io.StringIO) -> None:
    kept: list[logging.LogRecord] = []
    watcher = logging.Handler()
    watcher.emit = kept.append  # type: ignore[method-assign]
    logger.addHandler(watcher)
    try:
        logger.warning("%s", "\x1b")
    finally:
        logger.removeHandler(watcher)
    assert kept[0].getMessage() == "\x1b"


def test_log_of_a_process_loses_the_keys_of_its_settings(
    logger: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    handler = logging.StreamHandler(sys.stderr)
    logger.addHandler(handler)
    try:
        mask_process_logs(load_settings(openai_api_key=KEY))
        logger.warning("asked with %s", KEY)
    finally:
        logger.removeHandler(handler)
    assert capsys.readouterr().err == f"asked with {'*' * len(KEY)}\n"
