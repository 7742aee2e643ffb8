"""Bytes and counts as people read them."""

from typing import Final

KB: Final = 1_000
MB: Final = 1_000_000


def size_words(size: int) -> str:
    """Bytes as kB or MB, to one decimal."""
    return f"{size / MB:,.1f} MB" if size >= MB else f"{size / KB:,.1f} kB"


def count_words(count: int, noun: str) -> str:
    """`1 thread`, `2 threads`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"
