"""Lays a report out as a PDF of A4 pages."""

from __future__ import annotations

import io
import textwrap
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from matplotlib import rc_context
from matplotlib.backends.backend_pdf import PdfPages
from matplotlib.figure import Figure

from ptkstore.sdk.reports.content import Page, Table

_WIDTH, _HEIGHT = 8.27, 11.69  # A4 in inches
_LEFT, _TOP, _BOTTOM = 0.6, 0.7, 0.7
_COLUMNS: Final = 112  # characters of a line of a table
_LINE: Final = 1.45  # of the letters' height
_STYLE: Final[Any] = {"text.parse_math": False, "pdf.fonttype": 42, "font.family": "DejaVu Sans"}
_ONE = threading.Lock()  # matplotlib's settings are those of the process


@dataclass(frozen=True, slots=True)
class _Line:
    text: str
    size: float
    bold: bool = False
    alarm: bool = False
    table: bool = False

    @property
    def height(self) -> float:
        """In inches."""
        return self.size / 72 * _LINE


def pdf_of(page: Page) -> bytes:
    """Lay a page out as a PDF; the same page gives the same bytes."""
    file = io.BytesIO()
    pages = list(_pages(list(_lines(page))))
    with (
        _ONE,
        rc_context(_STYLE),
        PdfPages(file, metadata={"Title": page.title, "CreationDate": None}) as document,
    ):
        for number, lines in enumerate(pages, start=1):
            document.savefig(_drawn(lines, f"{page.title}, page {number} of {len(pages)}"))
    return file.getvalue()


def _lines(page: Page) -> Iterator[_Line]:
    yield from _wrapped(page.title, 17, bold=True)
    yield from _wrapped(page.lead, 9.5)
    for number, section in enumerate(page.sections):
        yield _Line("", 9)
        yield from _wrapped(section.heading, 12.5, bold=True)
        for place, part in enumerate(section.parts):
            if isinstance(part, Table):
                yield from _rows(part)
            else:
                yield from _wrapped(part.text, 12 if number == place == 0 else 9.5, alarm=part.alarm)


def _wrapped(text: str, size: float, *, bold: bool = False, alarm: bool = False) -> Iterator[_Line]:
    for line in textwrap.wrap(text, int(930 / size)) or [""]:
        yield _Line(line, size, bold, alarm)


def _rows(table: Table) -> Iterator[_Line]:
    widths = _widths(table)
    for number, row in enumerate((table.header, *table.rows)):
        cells = [textwrap.wrap(cell, width) or [""] for cell, width in zip(row, widths, strict=True)]
        for place in range(max(map(len, cells))):
            shown = (cell[place] if place < len(cell) else "" for cell in cells)
            text = "  ".join(one.ljust(width) for one, width in zip(shown, widths, strict=True))
            yield _Line(text.rstrip(), 7, bold=number == 0, table=True)


def _widths(table: Table) -> list[int]:
    """Return the widths that the columns want, the widest shortened until all fit."""
    widths = [max(1, *(len(row[n]) for row in (table.header, *table.rows))) for n in range(len(table.header))]
    while sum(widths) + 2 * (len(widths) - 1) > _COLUMNS:
        widths[widths.index(max(widths))] -= 1
    return widths


def _pages(lines: list[_Line]) -> Iterator[list[_Line]]:
    page: list[_Line] = []
    room = _HEIGHT - _TOP - _BOTTOM
    for line in lines:
        if line.height > room:
            yield page
            page, room = [], _HEIGHT - _TOP - _BOTTOM
        page.append(line)
        room -= line.height
    yield page


def _drawn(lines: list[_Line], foot: str) -> Figure:
    figure = Figure(figsize=(_WIDTH, _HEIGHT))
    top = _HEIGHT - _TOP
    for line in lines:
        figure.text(
            _LEFT / _WIDTH,
            top / _HEIGHT,
            line.text,
            size=line.size,
            weight="bold" if line.bold or line.alarm else "normal",
            color="#a3262a" if line.alarm else "#1d2320",
            family="DejaVu Sans Mono" if line.table else "DejaVu Sans",
            va="top",
        )
        top -= line.height
    figure.text(_LEFT / _WIDTH, 0.4 / _HEIGHT, foot, size=7, color="#56605b")
    return figure
