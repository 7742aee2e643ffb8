"""What bytes without a mark are taken for."""

import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstitch.state.errors import ToolExecutionError
from lockstitch.tools.texts.charset import guess_charset, guess_wide
from lockstitch.tools.texts.text_file import decode_text

TEXTS = {
    "german": "Grüße aus München, schöne Straße für alle Bürger überall.\n",
    "russian": "Привет, как дела? Это простой русский текст.\n",
    "greek": "Αυτό είναι ένα ελληνικό κείμενο.\n",
    "japanese": "これは日本語のテキストです。漢字とカタカナ。\n",
    "chinese": "这是一个简体中文的文本\uff0c用来测试编码检测。\n",
    "korean": "이것은 한국어 텍스트입니다. 안녕하세요.\n",
    "code": "def main():\n    name = 'Müller'  # für später\n    return name\n",
}


@pytest.mark.parametrize(
    ("name", "encoding"),
    [
        *(("german", "latin-1"), ("german", "cp1252"), ("code", "latin-1"), ("russian", "cp1251")),
        *(("russian", "koi8_r"), ("greek", "cp1253"), ("japanese", "cp932"), ("japanese", "euc_jp")),
        *(("chinese", "gb18030"), ("korean", "cp949")),
        *((name, wide) for name in TEXTS for wide in ("utf-16-le", "utf-16-be")),
    ],
)
@pytest.mark.parametrize("times", [1, 20])
def test_text_is_read_as_it_was_written(name: str, encoding: str, times: int) -> None:
    text = "# -*- plain -*-\n" + TEXTS[name] * times
    file = decode_text(text.encode(encoding))
    assert file.text == text
    assert file.to_bytes() == text.encode(encoding)


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (b"f\xfcr", "latin-1"),
        (b"5 \x80", "cp1252"),
        (b"\x81", "latin-1"),
        (b"it\x92s \x96 \x93so\x94", "cp1252"),
    ],
)
def test_few_bytes_are_western(data: bytes, name: str) -> None:
    assert guess_charset(data) == name


@pytest.mark.parametrize("name", ["german", "code"])
def test_western_text_is_named_by_the_encoding_that_can_hold_all_of_it(name: str) -> None:
    assert guess_charset((TEXTS[name] * 20).encode("latin-1")) == "latin-1"
    assert guess_charset((TEXTS[name] * 20 + "\u201cquoted\u201d").encode("cp1252")) == "cp1252"


@pytest.mark.parametrize(
    "data",
    [
        zlib.compress(bytes(range(256)) * 3).replace(b"\0", b"\1"),
        b"\x89PNG\r\n\x1a\n\x01\x02\xff",
        b"\xff\x01text",
    ],
)
def test_data_is_no_text(data: bytes) -> None:
    assert guess_charset(data) is None
    with pytest.raises(ToolExecutionError, match="binary"):
        decode_text(data)


@pytest.mark.parametrize(
    "data",
    [
        b"a\0b",
        b"\0\0",
        b"\x7fELF\2\1\1\0\0\0\0\0\0\0\0\0",
        struct.pack("<8h", 1, 2, 3, -1, 500, 7, 9, 3),
        b"a\0\0\xd8",
    ],
)
def test_numbers_are_no_wide_text(data: bytes) -> None:
    assert guess_wide(data) is None


@given(st.binary())
def test_whatever_is_guessed_gives_the_same_bytes_back(data: bytes) -> None:
    for name in (guess_charset(data), guess_wide(data)):
        assert name is None or data.decode(name).encode(name) == data
