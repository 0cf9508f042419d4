"""Addresses on the documentation site of pages that are named by their path in the repository."""

from __future__ import annotations

_FOLDER, _PAGE = "docs/", ".md"


def site_address(base: str | None, page: str) -> str:
    """Return where a page such as `docs/guide/operate.md#logs` is on the site at `base`; empty without a site.

    Parameters
    ----------
    page : str
        A path in the repository, as `page` of an error, with the anchor of a section or without.
    """
    path, _, anchor = page.partition("#")
    if not base or not path.startswith(_FOLDER) or not path.endswith(_PAGE):
        return ""
    place = path.removeprefix(_FOLDER).removesuffix(_PAGE)
    return f"{base.rstrip('/')}/{place}.html" + (f"#{anchor}" if anchor else "")


class FirstUses:
    """Tells of each word whether it was asked for before; one for each page."""

    def __init__(self) -> None:
        self._used: set[str] = set()

    def __call__(self, word: str) -> bool:
        """Return whether this is the first use of a word."""
        is_first = word not in self._used
        self._used.add(word)
        return is_first
