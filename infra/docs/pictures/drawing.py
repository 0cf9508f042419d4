"""Draws boxes, texts and arrows as SVG whose colours follow the theme.

A file that is shown by itself follows the system. Inside a page of the site, it follows the site's switch.
"""

import math
from html import escape

WIDTH = 640
LIGHT = {
    "page": "#ffffff",
    "ink": "#20242c",
    "soft": "#59616e",
    "plain": "#eef1f5",
    "private": "#f7d9d2",
    "public": "#d3ebdd",
    "own": "#d6e4f7",
}
DARK = {
    "page": "#1e2129",
    "ink": "#e8eaee",
    "soft": "#aeb5c0",
    "plain": "#323845",
    "private": "#6b342a",
    "public": "#235239",
    "own": "#2b4770",
}


def _colours(selector: str, colours: dict[str, str]) -> str:
    named = "; ".join(f"--ptk-{name}: {colour}" for name, colour in colours.items())
    return f"{selector} {{ {named} }}"


def _fill(name: str) -> str:
    return f".ptk-drawing .{name} {{ fill: var(--ptk-{name}) }}"


STYLE = "\n".join(
    [
        "",
        _colours(".ptk-drawing", LIGHT),
        f"@media (prefers-color-scheme: dark) {{ {_colours('.ptk-drawing', DARK)} }}",
        _colours('[data-md-color-scheme="default"] .ptk-drawing', LIGHT),
        _colours('[data-md-color-scheme="slate"] .ptk-drawing', DARK),
        *map(_fill, LIGHT),
        ".ptk-drawing .head { fill: var(--ptk-soft) }",
        ".ptk-drawing .none { fill: none }",
        ".ptk-drawing .line { stroke: var(--ptk-soft); stroke-width: 1.5; fill: none }",
        ".ptk-drawing .edge { stroke: var(--ptk-soft); stroke-width: 1 }",
        ".ptk-drawing .dashed { stroke-dasharray: 5 4 }",
        ".ptk-drawing text { font: 14px system-ui, sans-serif }",
        ".ptk-drawing .small { font-size: 12px }",
        ".ptk-drawing .over { paint-order: stroke; stroke: var(--ptk-page); stroke-width: 6px }",
        "",
    ]
)


class Drawing:
    """Boxes, texts and arrows, on a page of its own colour."""

    def __init__(self, title: str, told: str, height: int) -> None:
        self.title, self.told, self.height = title, told, height
        self._parts: list[str] = []

    def box(self, x: float, y: float, width: float, height: float, kind: str, *lines: str) -> None:
        """Draw a box with lines of text in its middle; `kind` is the class of its colour."""
        self._parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="4" class="{kind} edge"/>'
        )
        first = y + height / 2 + 5 - 9 * (len(lines) - 1)
        for place, line in enumerate(lines):
            self.text(x + width / 2, first + 18 * place, line, "middle")

    def text(self, x: float, y: float, text: str, anchor: str = "start", kind: str = "ink") -> None:
        """Write a line of text."""
        self._parts.append(
            f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" class="{kind}">{escape(text)}</text>'
        )

    def line(self, x: float, y: float, to_x: float, to_y: float, kind: str = "") -> None:
        """Draw a line."""
        self._parts.append(f'<path d="M{x:g} {y:g}L{to_x:g} {to_y:g}" class="{f"line {kind}".strip()}"/>')

    def arrow(self, x: float, y: float, to_x: float, to_y: float, kind: str = "") -> None:
        """Draw a line with a head at its end."""
        self.line(x, y, to_x, to_y, kind)
        angle = math.atan2(to_y - y, to_x - x)
        corners = [(to_x, to_y)] + [
            (to_x - 9 * math.cos(angle + side), to_y - 9 * math.sin(angle + side)) for side in (0.4, -0.4)
        ]
        points = " ".join(f"{across:.1f},{down:.1f}" for across, down in corners)
        self._parts.append(f'<polygon points="{points}" class="head"/>')

    def svg(self, name: str) -> str:
        """Return the picture, with its title and its description; `name` keeps its ids apart from those of a page."""
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="ptk-drawing" role="img"'
            f' viewBox="0 0 {WIDTH} {self.height}"'
            f' aria-labelledby="drawing-{name}-title drawing-{name}-told" data-search-exclude="">\n'
            f'<title id="drawing-{name}-title">{escape(self.title)}</title>\n'
            f'<desc id="drawing-{name}-told">{escape(self.told)}</desc>\n<style>{STYLE}</style>\n'
            f'<rect width="{WIDTH}" height="{self.height}" rx="8" class="page"/>\n'
            + "\n".join(self._parts)
            + "\n</svg>\n"
        )
