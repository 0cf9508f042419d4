"""Addresses of pages of the documentation: on the site that `PTK_DOCS_URL` names, else paths in the repository."""

import os

DOCS_URL = "PTK_DOCS_URL"
_FOLDER, _PAGE = "docs/", ".md"


def on_site(page: str) -> str:
    """Return the address of a page on the site that `PTK_DOCS_URL` names; without one, its path as it is.

    Parameters
    ----------
    page : str
        A path in the repository, with the anchor of a section or without.
    """
    base = os.environ.get(DOCS_URL, "")
    if not base.startswith(("https://", "http://")) or not base.isprintable() or " " in base:
        return page
    return site_address(base, page) or page


def site_address(base: str | None, page: str) -> str:
    """Return where a page such as `docs/guide/operate.md#logs` is on the site at `base`; empty without a site.

    Parameters
    ----------
    base : str or None
        Where the site is served.
    page : str
        As in `on_site`.
    """
    path, _, anchor = page.partition("#")
    if not base or not path.startswith(_FOLDER) or not path.endswith(_PAGE):
        return ""
    place = path.removeprefix(_FOLDER).removesuffix(_PAGE)
    return f"{base.rstrip('/')}/{place}.html" + (f"#{anchor}" if anchor else "")
