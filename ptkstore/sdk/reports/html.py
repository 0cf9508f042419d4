"""Lays a report out as one self-contained HTML page."""

from __future__ import annotations

from html import escape
from typing import Final

from ptkstore.sdk.reports.content import Page, Table, Text

WORD_MOST: Final = 40

# nothing is loaded and nothing runs: a hostile name in the report stays a name
_HEAD: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 64rem; margin: 2rem auto; padding: 0 1rem; }}
h1 {{ font-size: 1.6rem; }} h2 {{ font-size: 1.15rem; margin: 2rem 0 .5rem; }}
table {{ border-collapse: collapse; width: 100%; font-size: .92rem; }}
th, td {{ text-align: left; vertical-align: top; padding: .3rem .8rem .3rem 0; border-bottom: 1px solid #8884; }}
.scroll {{ overflow-x: auto; }} .long {{ overflow-wrap: anywhere; }}
.alarm {{ border-left: 4px solid #c0262a; padding: .3rem .8rem; font-weight: 600; }}
section:first-of-type p:first-of-type {{ font-size: 1.25rem; }}
</style></head><body><main>
<h1>{title}</h1>
<p>{lead}</p>
"""


def html_of(page: Page) -> bytes:
    """Lay a page out as UTF-8 text of one HTML file."""
    parts = [_HEAD.format(title=escape(page.title), lead=escape(page.lead))]
    for section in page.sections:
        parts.append(f"<section><h2>{escape(section.heading)}</h2>\n")
        parts += [
            _text(part) if isinstance(part, Text) else _table(part, section.heading) for part in section.parts
        ]
        parts.append("</section>\n")
    return "".join((*parts, "</main></body></html>\n")).encode()


def _text(part: Text) -> str:
    kind = ' class="alarm" role="alert"' if part.alarm else ""
    return f"<p{kind}>{escape(part.text)}</p>\n"


def _table(table: Table, heading: str) -> str:
    """The table below a heading; a wide one scrolls by itself, by keyboard as well."""
    label = escape(f"{heading}: {table.header[0]}")
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in table.header)
    rows = "".join("<tr>" + "".join(map(_cell, row)) + "</tr>\n" for row in table.rows)
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{label}"><table>'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}</tbody></table></div>\n"
    )


def _cell(text: str) -> str:
    """A cell; a digest may be broken anywhere, words may not, so that a table on a phone stays readable."""
    longest = max(map(len, text.split()), default=0)
    kind = ' class="long"' if longest > WORD_MOST else ""
    return f"<td{kind}>{escape(text)}</td>"
