"""Turns HTML into Markdown in a process of its own, since a page can be made to become 1,000 times as long.

A program: HTML on stdin, Markdown on stdout, the page's address as its argument. It knows nothing of our
packages. Exit code 0, or it was ended by a limit, or `EXIT_TOO_LONG`.
"""

import contextlib
import sys

MEMORY_BYTES = 512 * 1024 * 1024  # of addresses; 2 MB of ordinary HTML need under 256 MB
CPU_S = 5  # ordinary HTML takes 0.5 s a megabyte
TEXT_BYTES = (
    8 * 1024 * 1024
)  # what 2 MB of HTML become at most when nobody plays tricks: links grow to whole addresses
DEPTH_MAX = 500  # elements within elements; real pages have 30
EXIT_TOO_LONG = 3


def main(base_url: str) -> int:
    """Convert what stdin holds; returns the exit code."""
    limit()
    import html_to_markdown as markdown

    options = markdown.ConversionOptions(
        base_url=base_url,  # so that links can be fetched
        skip_images=True,
        inline_data_media="drop_element",
        strip_tags=["svg", "iframe"],
        max_depth=DEPTH_MAX,
        extract_metadata=False,  # else it writes all of them above the text
    )
    html = sys.stdin.buffer.read().decode("utf-8", "replace")
    text = (markdown.convert(html, options).content or "").encode("utf-8", "replace")
    if len(text) > TEXT_BYTES:
        return EXIT_TOO_LONG
    sys.stdout.buffer.write(text)
    return 0


def limit() -> None:
    """Bound memory and time; macOS keeps to the second alone."""
    import resource

    for kind, most in ((resource.RLIMIT_AS, MEMORY_BYTES), (resource.RLIMIT_CPU, CPU_S)):
        with contextlib.suppress(OSError, ValueError):  # the system knows it not, or has a lower one
            resource.setrlimit(kind, (most, most))
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
