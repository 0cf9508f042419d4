"""The first use of each word on a page, which alone leads to the documentation site."""

from __future__ import annotations


class FirstUses:
    """Tells of each word whether it was asked for before; one for each page."""

    def __init__(self) -> None:
        self._used: set[str] = set()

    def __call__(self, word: str) -> bool:
        """Return whether this is the first use of a word."""
        is_first = word not in self._used
        self._used.add(word)
        return is_first
