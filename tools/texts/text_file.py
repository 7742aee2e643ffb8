"""A file's bytes as text and back, so that what an edit does not touch stays byte for byte the same."""

import codecs
from dataclasses import dataclass
from typing import Final

from lockstitch.state.errors import ToolExecutionError, ToolValidationError
from lockstitch.tools.texts.charset import WESTERN, guess_charset, guess_wide

# Byte order marks, longest first: UTF-32's little-endian one begins with UTF-16's.
MARKS: Final = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
DEFAULT_ENCODING: Final = "utf-8"
LAST_RESORT: Final = WESTERN
_BINARY: Final = "the file is binary ({}): look into it by run_command."


@dataclass(frozen=True)
class TextFile:
    """A text with how it is written down. `text` has its newlines as they are and no byte order mark."""

    text: str
    encoding: str = DEFAULT_ENCODING
    mark: bytes = b""

    @property
    def newline(self) -> str:
        """The newline most lines end with."""
        return newline_of(self.text)

    @property
    def ends_open(self) -> bool:
        """Whether there is text and its last line has no newline."""
        return bool(self.text) and not self.text.endswith(("\n", "\r"))

    def with_text(self, text: str) -> "TextFile":
        """Other text, written down the same way."""
        return TextFile(text, self.encoding, self.mark)

    def to_bytes(self) -> bytes:
        """The bytes of the file.

        Raises:
            ToolExecutionError: a character does not exist in the encoding.
        """
        try:
            return self.mark + self.text.encode(self.encoding)
        except UnicodeEncodeError as error:
            wrong = ascii(self.text[error.start])
            raise ToolExecutionError(
                f"the file is {self.encoding}, which has no {wrong}: say it otherwise, or convert the file."
            ) from error


def decode_text(data: bytes, encoding: str = DEFAULT_ENCODING) -> TextFile:
    """The text of `data`: by its byte order mark, else as `encoding`, else as UTF-8, else by detection.

    `TextFile.encoding` tells which it was. Whatever it was, the text gives the same bytes back.

    Raises:
        ToolValidationError: there is no such encoding.
        ToolExecutionError: the data is binary.
    """
    wanted = _codec_name(encoding)
    for mark, name in MARKS:
        if data.startswith(mark):
            return _decode_marked(data, mark, name)
    if b"\0" in data and not wanted.startswith(("utf-16", "utf-32")):
        wide = guess_wide(data)
        if wide is None:
            raise ToolExecutionError(_BINARY.format("it holds a NUL byte"))
        return TextFile(data.decode(wide), wide)
    for name in dict.fromkeys((wanted, DEFAULT_ENCODING)):
        try:
            return TextFile(data.decode(name), name)
        except UnicodeError:
            continue
    guessed = guess_charset(data)
    if guessed is None:
        raise ToolExecutionError(_BINARY.format("it holds control characters and is no UTF-8"))
    return TextFile(data.decode(guessed), guessed)


def newline_of(text: str) -> str:
    r"""The newline most lines end with: `\n`, `\r\n`, or `\r` where there is no other."""
    pairs = text.count("\r\n")
    feeds = text.count("\n") - pairs
    if pairs or feeds:
        return "\r\n" if pairs > feeds else "\n"
    return "\r" if "\r" in text else "\n"


def to_newlines(text: str, newline: str) -> str:
    """The text with every newline written as `newline`."""
    plain = text.replace("\r\n", "\n")
    return plain if newline == "\n" else plain.replace("\n", newline)


def split_lines(text: str) -> list[str]:
    r"""The lines without their newlines, counted as editors and grep do.

    A `\r` alone ends a line only where the text has no `\n` at all.
    """
    feeds = [line.removesuffix("\r") for line in text.split("\n")]
    lines = feeds if "\n" in text else text.split("\r")
    return lines if lines[-1] else lines[:-1]


def _decode_marked(data: bytes, mark: bytes, name: str) -> TextFile:
    try:
        return TextFile(data[len(mark) :].decode(name), name, mark)
    except UnicodeDecodeError as error:
        raise ToolExecutionError(
            f"the file begins as {name} but is none: look into it by run_command."
        ) from error


def _codec_name(encoding: str) -> str:
    try:
        "".encode(encoding)  # refuses codecs that are no text encoding, such as base64
        return codecs.lookup(encoding).name
    except (LookupError, ValueError) as error:
        raise ToolValidationError(
            f"there is no encoding {encoding[:40]!r}: leave it out, or try utf-8, latin-1 or utf-16."
        ) from error
