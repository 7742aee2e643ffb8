"""In which encoding bytes without a mark are written, when they are no UTF-8."""

from typing import Final

SAMPLE_BYTES: Final = 64 * 1024  # of lines that are not plain ASCII; more changes no verdict, and costs 1 ms
EVIDENCE_BYTES: Final = 12  # above 127; with fewer the library takes `für` for Chinese
WESTERN: Final = "latin-1"  # takes any bytes, and gives the same bytes back
WINDOWS: Final = "cp1252"  # the same, with quotes, dashes and the euro where latin-1 has control characters
# What people still have files in. A longer list finds more that is not there.
CANDIDATES: Final = (
    *("cp1252", "cp1250", "cp1251", "koi8_r", "cp1253", "cp1254", "cp1255", "cp1256", "iso8859_2"),
    *("cp932", "euc_jp", "gb18030", "big5", "cp949"),
)
SPACES: Final = "\t\n\v\f\r\x1a\x1b"  # control characters of texts: old editors end files with \x1a
_CONTROLS: Final = bytes(set(range(32)) - set(SPACES.encode()))
_NO_SPACES: Final = dict.fromkeys(map(ord, SPACES))


def guess_wide(data: bytes) -> str | None:
    """`utf-16-le` or `utf-16-be` for a text of that kind without a byte order mark; None for all else.

    Its ASCII characters have a NUL each, most of all NULs on that side. Each character must be a printable
    one, which of arbitrary 16-bit numbers a third is not.
    """
    if len(data) % 2:
        return None
    name = "utf-16-be" if data[::2].count(0) > data[1::2].count(0) else "utf-16-le"
    try:
        text = data.decode(name)
    except UnicodeDecodeError:
        return None
    return name if text.translate(_NO_SPACES).isprintable() else None


def guess_charset(data: bytes) -> str | None:
    """The encoding of a text with bytes over 127 and no NUL; None when it looks binary.

    Whatever is named gives the very same bytes back. Where several fit, it is a Western one.
    """
    if data.translate(None, _CONTROLS) != data:
        return None
    name = _detect(_sample(data))
    return name if name and _gives_back(data, name) else _western(data)


def _detect(sample: bytes) -> str | None:
    """What charset-normalizer takes it for; None for a Western text, and where that is as likely."""
    if sum(byte > 127 for byte in sample) < EVIDENCE_BYTES:
        return None
    from charset_normalizer import from_bytes  # 0.02 s, for a file in a hundred

    found = from_bytes(sample, cp_isolation=list(CANDIDATES), preemptive_behaviour=False)
    best = found.best()
    if best is None:
        return None
    rank = (best.chaos, -best.coherence)
    likely = [match for match in found if (match.chaos, -match.coherence) <= rank]
    if any(WINDOWS in match.could_be_from_charset for match in likely):
        return None
    return best.encoding


def _sample(data: bytes) -> bytes:
    """The lines that tell something, as many as are needed."""
    lines: list[bytes] = []
    room = SAMPLE_BYTES
    for line in data.splitlines(keepends=True):
        if room <= 0:
            break
        if not line.isascii():
            lines.append(line[:room])
            room -= len(line)
    return b"".join(lines)


def _gives_back(data: bytes, name: str) -> bool:
    try:
        return data.decode(name).encode(name) == data
    except UnicodeError:
        return False


def _western(data: bytes) -> str:
    has_controls = any(0x80 <= byte < 0xA0 for byte in set(data))
    return WINDOWS if has_controls and _gives_back(data, WINDOWS) else WESTERN
