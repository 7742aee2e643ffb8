"""Bytes to text and back: encodings, marks, newlines."""

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstitch.state.errors import ToolExecutionError, ToolValidationError
from lockstitch.tools.texts.text_file import decode_text, split_lines, to_newlines


@pytest.mark.parametrize(
    ("data", "encoding", "found", "text"),
    [
        (b"\xc3\xa4", "utf-8", "utf-8", "ä"),
        (b"\xc3\xa4", "UTF8", "utf-8", "ä"),
        (b"\xe4", "utf-8", "latin-1", "ä"),
        (b"\x80", "cp1252", "cp1252", "€"),
        (b"\xc3\xa4", "ascii", "utf-8", "ä"),
        (codecs.BOM_UTF8 + b"a", "latin-1", "utf-8", "a"),
        (codecs.BOM_UTF16_LE + "a".encode("utf-16-le"), "utf-8", "utf-16-le", "a"),
        (codecs.BOM_UTF16_BE + "a".encode("utf-16-be"), "utf-8", "utf-16-be", "a"),
        (codecs.BOM_UTF32_LE + "a".encode("utf-32-le"), "utf-8", "utf-32-le", "a"),
        ("a\n".encode("utf-16-le"), "utf-16-le", "utf-16-le", "a\n"),
        (b"", "utf-8", "utf-8", ""),
    ],
)
def test_encoding_is_found(data: bytes, encoding: str, found: str, text: str) -> None:
    file = decode_text(data, encoding)
    assert (file.encoding, file.text) == (found, text)
    assert file.to_bytes() == data


@given(st.binary())
def test_any_bytes_that_are_text_come_back_the_same(data: bytes) -> None:
    try:
        file = decode_text(data)
    except ToolExecutionError:
        return
    assert file.to_bytes() == data


@pytest.mark.parametrize("data", [b"\x7fELF\0", codecs.BOM_UTF16_LE + b"\x00\xd8"])
def test_binary_is_refused(data: bytes) -> None:
    with pytest.raises(ToolExecutionError, match="run_command"):
        decode_text(data)


@pytest.mark.parametrize("encoding", ["none-such", "base64", "rot13", "a\0b", "ü", ""])
def test_what_is_no_encoding_is_refused(encoding: str) -> None:
    with pytest.raises(ToolValidationError, match="there is no encoding"):
        decode_text(b"a", encoding)


def test_character_the_encoding_lacks_is_named() -> None:
    with pytest.raises(ToolExecutionError, match=r"latin-1, which has no '\\u20ac'"):
        decode_text(b"\xe4").with_text("€").to_bytes()


@pytest.mark.parametrize(
    ("text", "newline", "ends_open"),
    [
        ("", "\n", False),
        ("a", "\n", True),
        ("a\r\nb\r\nc\n", "\r\n", False),
        ("a\nb\r\nc", "\n", True),
        ("a\rb\r", "\r", False),
    ],
)
def test_style_of_a_text_is_told(text: str, newline: str, ends_open: bool) -> None:
    file = decode_text(text.encode())
    assert (file.newline, file.ends_open) == (newline, ends_open)


def test_newlines_are_written_in_one_style() -> None:
    assert to_newlines("a\r\nb\nc", "\r\n") == "a\r\nb\r\nc"
    assert to_newlines("a\r\nb\nc", "\n") == "a\nb\nc"


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", []),
        ("\n", [""]),
        ("a\r\n\r\nb", ["a", "", "b"]),
        ("a\rb\n", ["a\rb"]),
        ("a\rb\r", ["a", "b"]),
        ("a\x0bb\u2028c\x85d", ["a\x0bb\u2028c\x85d"]),
    ],
)
def test_lines_are_counted_as_editors_do(text: str, lines: list[str]) -> None:
    assert split_lines(text) == lines
