"""Small HTML tables for notebooks: every text is escaped, and colours are those of the reader's theme."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

CELL_MAX = 80
"""Letters of a cell; longer texts are cut."""

_STYLE = (
    "<style>"
    ".ptk-shown{color:inherit;background:transparent;font-family:sans-serif;line-height:1.4}"
    ".ptk-shown table{border-collapse:collapse;margin:.3em 0;color:inherit;background:transparent}"
    ".ptk-shown caption{text-align:left;font-weight:bold;padding:.2em 0}"
    ".ptk-shown th,.ptk-shown td{text-align:left;padding:.15em .7em .15em 0;"
    "border-bottom:1px solid rgba(128,128,128,.4);background:transparent;color:inherit}"
    ".ptk-shown td.ptk-number{text-align:right;font-variant-numeric:tabular-nums}"
    "</style>"
)
"""Nothing has a colour of its own but the lines, which are seen on white and on black."""


def section(title: object, *parts: str) -> str:
    """Return a part of a page with a name; `parts` are HTML that this module made."""
    name = text(title)
    return f'{_STYLE}<section class="ptk-shown" aria-label="{name}"><strong>{name}</strong>{"".join(parts)}</section>'


def table(caption: object, header: Sequence[object], rows: Iterable[Sequence[object]]) -> str:
    """Return a table with a caption and a heading for each column."""
    head = "".join(f'<th scope="col">{text(name)}</th>' for name in header)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return f"<table><caption>{text(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def facts(caption: object, values: Mapping[str, object]) -> str:
    """Return a table of names and values, with the names as headings of the rows."""
    rows = "".join(
        f'<tr><th scope="row">{text(name)}</th>{_cell(value)}</tr>' for name, value in values.items()
    )
    return f"<table><caption>{text(caption)}</caption><tbody>{rows}</tbody></table>"


def folded(summary: object, content: str) -> str:
    """Return HTML that this module made, closed until somebody opens it."""
    return f"<details><summary>{text(summary)}</summary>{content}</details>"


def text(value: object, most: int = CELL_MAX) -> str:
    """Return any value as escaped text of at most `most` letters."""
    return escape(shortened(value, most), quote=True)


def shortened(value: object, most: int = CELL_MAX) -> str:
    """Return any value as text of at most `most` letters; numbers in six digits."""
    if value is None:
        return "none"
    written = f"{value:.6g}" if isinstance(value, float) else str(value)
    return written if len(written) <= most else f"{written[: most - 1]}…"


def _cell(value: Any) -> str:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return f'<td class="ptk-number">{text(value)}</td>' if number else f"<td>{text(value)}</td>"
