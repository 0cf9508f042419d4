"""Writes the pages that are made from the program, or from measured rows: `make reference`."""

from __future__ import annotations

from pathlib import Path

from infra.docs.reference import benchmarks, codes, commands, errors, python, settings
from ptkstore.api import reference as http

REFERENCE = Path(__file__).resolve().parents[3] / "docs" / "reference"


def pages() -> dict[str, str]:
    """Return the text of each page by its place below docs/reference/."""
    served = (REFERENCE / "http.md").read_text(encoding="utf-8")
    return {
        "commands.md": commands.page(),
        "settings.md": settings.page(),
        "errors.md": errors.page(),
        "codes.md": codes.page(),
        "library.md": python.library(),
        "client.md": python.client(),
        "../benchmarks.md": benchmarks.page(),
        "http.md": http.page_with(http.tables(), served),
    }


if __name__ == "__main__":
    for name, text in pages().items():
        (REFERENCE / name).write_text(text, encoding="utf-8")
