"""Writes the pages of docs/reference/ that are made from the program: `make reference`."""

from __future__ import annotations

from pathlib import Path

from infra.docs.reference import codes, commands, errors, python, settings
from ptkstore.api import reference as http

REFERENCE = Path(__file__).resolve().parents[3] / "docs" / "reference"


def pages() -> dict[str, str]:
    """Return the text of each page by its name."""
    served = (REFERENCE / "http.md").read_text(encoding="utf-8")
    return {
        "commands.md": commands.page(),
        "settings.md": settings.page(),
        "errors.md": errors.page(),
        "codes.md": codes.page(),
        "library.md": python.library(),
        "client.md": python.client(),
        "http.md": http.page_with(http.tables(), served),
    }


if __name__ == "__main__":
    for name, text in pages().items():
        (REFERENCE / name).write_text(text, encoding="utf-8")
