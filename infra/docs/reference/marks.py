"""How texts of the program are written in Markdown."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Sequence

MADE = "<!-- made from the program by `make reference`: change the program, not this page -->"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def prose(text: str) -> str:
    """Return a text of the program with its lines joined, paragraph by paragraph, and no HTML in it."""
    paragraphs = inspect.cleandoc(text.partition("\f")[0]).split("\n\n")
    return "\n\n".join(escaped(" ".join(one.split())) for one in paragraphs)


def escaped(text: str) -> str:
    """Return a text with what is HTML, or emphasis by `*`, as it is written; code stays."""
    parts = re.split(r"(`[^`]*`)", text)
    plain = (re.sub(r"([*\[\]])", r"\\\1", part.replace("<", "&lt;")) for part in parts[::2])
    code = iter(parts[1::2])
    return "".join(part + next(code, "") for part in plain)
