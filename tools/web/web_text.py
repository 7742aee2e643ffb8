"""The text of a web page: HTML as Markdown without what a browser hides, other text as it is."""

import asyncio
import codecs
import re
from html import unescape
from typing import Final, NamedTuple

from lockstitch.state.errors import ToolExecutionError
from lockstitch.tools.web.markdown import to_markdown
from lockstitch.tools.web.web_page import WebPage

HTML: Final = frozenset({"text/html", "application/xhtml+xml"})
PLAIN: Final = re.compile(
    r"text/[\w.+-]+|[\w-]+/[\w.-]+\+(json|xml|yaml)"
    r"|application/(json|xml|javascript|ecmascript|x-javascript|yaml|x-yaml|toml|x-toml|x-sh|sql|x-ndjson|ndjson)"
)
HEAD_BYTES: Final = 1024  # in which HTML says its encoding, by its own standard
TITLE_WITHIN: Final = 64 * 1024  # characters; the title stands in the head
# What may name a page's encoding: Python knows codecs, too, that are none, and slow on purpose-made input.
CHARSET: Final = re.compile(
    r"(utf-?(8|16)([_-]?(le|be))?|us-ascii|ascii|latin-?1|iso-?8859-\d{1,2}|windows-125\d|cp125\d|koi8-[ru]|gb2312|gbk"
    r"|gb18030|big5|shift_jis|euc-(jp|kr)|iso-2022-jp|macintosh)"
)
BOMS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_TITLE: Final = re.compile(r"<title(?:\s[^>]{0,200})?>([^<]{1,500})", re.IGNORECASE)
_NAMED: Final = re.compile(r"charset\s*=\s*[\"']?\s*([\w.:-]+)")
_BLANK_LINES: Final = re.compile(r"\n{3,}")
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")  # terminals and databases stumble


class WebText(NamedTuple):
    """What a page says; `title` is empty where it has none."""

    title: str
    text: str


async def read_web_text(page: WebPage) -> WebText:
    """The text of a page.

    Raises:
        ToolExecutionError: the page is no text, or HTML that takes too much to read.
    """
    if page.kind in HTML or (not page.kind and page.body.lstrip()[:1] == b"<"):
        html = await asyncio.to_thread(_html, page)
        text = await to_markdown(html, base_url=str(page.address))
        return await asyncio.to_thread(_tidy, html, text)
    return await asyncio.to_thread(_plain, page)


def clean(text: str) -> str:
    """The text with one kind of line end, and no control characters but tab and line end."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n").replace("\r", "\n"))


def _plain(page: WebPage) -> WebText:
    kind = page.kind
    if (kind and not PLAIN.fullmatch(kind)) or (b"\0" in page.body and not _bom(page.body)):
        named = kind if re.fullmatch(r"[\w.+-]+/[\w.+-]+", kind) else "of no kind it says"
        raise ToolExecutionError(
            f"the page is no text ({named}, {len(page.body):,} bytes): only HTML, text, JSON and the like"
            " are read."
        )
    return WebText("", clean(_decode(page.body, _charset(page.content_type))))


def _html(page: WebPage) -> str:
    charset = _charset(page.content_type) or _charset(page.body[:HEAD_BYTES].decode("latin-1").lower())
    return _decode(page.body, charset)


def _tidy(html: str, text: str) -> WebText:
    return WebText(_title(html), _BLANK_LINES.sub("\n\n", clean(text)).strip())


def _title(html: str) -> str:
    found = _TITLE.search(html[:TITLE_WITHIN])
    return " ".join(clean(unescape(found[1])).split()) if found else ""


def _charset(said: str) -> str:
    """The encoding that a header or the head of a page names; empty when it is none."""
    found = _NAMED.search(said)
    return found[1] if found and CHARSET.fullmatch(found[1]) else ""


def _decode(data: bytes, charset: str) -> str:
    try:
        return data.decode(_bom(data) or charset or "utf-8", "replace" if charset else "strict")
    except (UnicodeDecodeError, LookupError):
        return data.decode("cp1252", "replace")  # what browsers fall back to


def _bom(data: bytes) -> str:
    return next((codec for mark, codec in BOMS if data.startswith(mark)), "")
