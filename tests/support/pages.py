"""What pages in Markdown are made of: their text without code, and the anchors that a link may name."""

from __future__ import annotations

import re


def without_code(page: str) -> str:
    """The text of a page without its fenced blocks."""
    return re.sub(r"^```.*?^```", "", page, flags=re.DOTALL | re.MULTILINE)


def anchors(page: str) -> set[str]:
    """The names of a page's headings, as links have them, and those that it gives itself."""
    text = without_code(page)
    named = {
        re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")
        for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    }
    return named.union(re.findall(r'<a id="([^"]+)"></a>', text))
