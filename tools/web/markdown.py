"""HTML as Markdown, through a process that a hostile page cannot carry further than its limits."""

import asyncio
import sys
from typing import Final

from lockstitch.state.errors import ToolExecutionError
from lockstitch.tools.web import markdown_program

PROGRAM: Final = markdown_program.__file__ or ""


async def to_markdown(html: str, *, base_url: str) -> str:
    """The text of a page as Markdown, about 0.1 s; what a browser hides is left out.

    Args:
        html: of any quality.
        base_url: what its links are relative to.

    Raises:
        ToolExecutionError: it takes more memory or time than a page may, or becomes too long.
    """
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", PROGRAM, base_url),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={},
        start_new_session=True,  # no Ctrl-C but ours
    )
    try:
        text, _ = await process.communicate(html.encode("utf-8", "replace"))
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        raise ToolExecutionError(
            "the page's HTML cannot be turned into text in the memory and time a page may take. Try another"
            " source."
        )
    return text.decode("utf-8", "replace")
