"""Tables for a terminal: no word is broken, whatever its width."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

HASH_SHOWN = 12
"""Characters of a SHA-256 that are shown where all of it has no room."""
WHOLE = 20
"""A cell of at most so many characters stays on one line; a longer one may be broken between words."""
ALIKE = 3
"""Rows from which on a value that all share is said once."""
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)")
_HASH = re.compile(r"[0-9a-f]{64}")


def fitting(
    rows: Sequence[Mapping[str, Any]], title: str, width: int, text: Callable[[Any], str]
) -> list[RenderableType]:
    """Return rows as a table that fits into a terminal.

    Columns that are empty in all rows are left out, and times are written in UTC to the minute. If the table is too
    wide, hashes are shortened. Then, of three rows or more, columns with one value in all rows become a line below it.
    At last each row becomes a block of lines.

    Parameters
    ----------
    width : int
        Of the terminal, in characters.
    text : callable
        Writes a value of a cell.
    """
    columns = list(dict.fromkeys(column for row in rows for column in row))
    right = {one for one in columns if not isinstance(next(row[one] for row in rows if one in row), str)}
    cells = {one: [text(row.get(one)) for row in rows] for one in columns}
    columns = [one for one in columns if any(cells[one])]
    headings = {one: one.replace("_", " ") for one in columns}
    for one in columns:
        if all(not cell or is_time(cell) for cell in cells[one]):
            cells[one] = [minute(cell) for cell in cells[one]]
            headings[one] += " (UTC)"
    if not _fits(columns, headings, cells, width):
        for one in columns:
            cells[one] = [cell[:HASH_SHOWN] if _HASH.fullmatch(cell) else cell for cell in cells[one]]
    same: list[str] = []
    every = columns
    if len(rows) >= ALIKE and not _fits(columns, headings, cells, width):
        same = [one for one in columns[1:] if len(set(cells[one])) == 1]
        columns = [one for one in columns if one not in same]
    if not _fits(columns, headings, cells, width):
        return _records(every, headings, cells, title, len(rows))
    table = Table(title=title, title_justify="left", header_style="bold")
    widths = _widths(columns, headings, cells, width)
    for one in columns:
        justify: Literal["left", "right"] = "right" if one in right else "left"
        table.add_column(headings[one], overflow="fold", justify=justify, width=widths[one])
    for number in range(len(rows)):
        table.add_row(*(cells[one][number] for one in columns))
    if not same:
        return [table]
    said = ", ".join(f"{headings[one]} {cells[one][0]}" for one in same)
    return [table, f"In every row: {said}."]


def _records(
    columns: Sequence[str],
    headings: Mapping[str, str],
    cells: Mapping[str, Sequence[str]],
    title: str,
    n_rows: int,
) -> list[RenderableType]:
    """Each row as lines of a name and its value."""
    shown: list[RenderableType] = [Text(title, "italic")] if title else []
    for number in range(n_rows):
        block = Table.grid(padding=(0, 2, 0, 0))
        block.add_column(style="bold", no_wrap=True)
        block.add_column(overflow="fold")
        for one in columns:
            if cells[one][number]:
                block.add_row(headings[one], cells[one][number])
        shown += [block] if number == n_rows - 1 else [block, ""]
    return shown


def _fits(
    columns: Sequence[str], headings: Mapping[str, str], cells: Mapping[str, Sequence[str]], width: int
) -> bool:
    needed = sum(_needed(headings[one], cells[one]) for one in columns)
    return needed + 3 * len(columns) + 1 <= width


def _widths(
    columns: Sequence[str], headings: Mapping[str, str], cells: Mapping[str, Sequence[str]], width: int
) -> dict[str, int]:
    """Return the width of each column: what it needs, and its share of the room that is left."""
    widths = {one: _needed(headings[one], cells[one]) for one in columns}
    wishes = {one: max(map(len, (headings[one], *cells[one]))) - widths[one] for one in columns}
    left = width - sum(widths.values()) - 3 * len(columns) - 1
    for one in sorted(columns, key=wishes.__getitem__):
        more = min(wishes[one], left)
        widths[one] += more
        left -= more
    return widths


def _needed(heading: str, cells: Sequence[str]) -> int:
    """Characters of the longest text of a column that is not broken."""
    words = heading.split()
    for cell in cells:
        words += [cell] if len(cell) <= WHOLE else cell.split()
    return max(map(len, words), default=1)


def is_time(text: str) -> bool:
    """Tell whether a text is a time as JSON has it."""
    return _TIME.fullmatch(text) is not None


def second(text: str) -> str:
    """Write such a time in UTC to the second."""
    return f"{datetime.fromisoformat(text).astimezone(UTC):%Y-%m-%d %H:%M:%S}"


def minute(text: str) -> str:
    """Write such a time in UTC to the minute, or only the day if it begins then; nothing of no text."""
    if not text:
        return ""
    at = datetime.fromisoformat(text).astimezone(UTC)
    return f"{at:%Y-%m-%d}" if (at.hour, at.minute, at.second) == (0, 0, 0) else f"{at:%Y-%m-%d %H:%M}"
