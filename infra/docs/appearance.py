"""What MkDocs does to the look of the site: drawings are parts of their pages, and links to the site have a card."""

from __future__ import annotations

import io
import posixpath
import re
import textwrap
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

CARD = "assets/card.png"
WIDTH, HEIGHT = 1200, 630
"""Pixels of a card, as Open Graph and others show it without cutting."""
DRAWN = 'class="ptk-drawing"'

_IMAGE = re.compile(r'<img [^>]*\bsrc="([^":]+\.svg)"[^>]*>')


def on_files(files: Files, config: MkDocsConfig, **_: Any) -> Files:
    """Add the card. The address of a card is absolute, so that a site that knows no address has none."""
    if config.site_url:
        content = card(config.site_name, config.site_description or "")
        files.append(File.generated(config, CARD, content=content))
    return files


def on_page_content(html: str, page: Page, config: MkDocsConfig, **_: Any) -> str:
    """Put each drawing into its page, where it follows the switch of the theme; plots stay files."""

    def drawn(found: re.Match[str]) -> str:
        place = posixpath.normpath(posixpath.join(posixpath.dirname(page.url), found[1]))
        path = Path(config.docs_dir) / place
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        return text if DRAWN in text else found[0]

    return _IMAGE.sub(drawn, html)


def card(name: str, description: str) -> bytes:
    """Return the picture that a link to the site is shown with, in the font that Matplotlib brings."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    figure = Figure(figsize=(WIDTH / 100, HEIGHT / 100), dpi=100, facecolor="#00796b")
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, WIDTH), ylim=(HEIGHT, 0))
    axes.set_axis_off()
    for x, top, alpha in ((80, 180, 1.0), (116, 140, 1.0), (152, 100, 0.45)):  # the bars of the favicon
        axes.add_patch(Rectangle((x, top), 26, 240 - top, color="white", alpha=alpha, linewidth=0))
    axes.plot([70, 190], [160, 160], color="#ffcc80", linewidth=3, linestyle="--")
    axes.text(80, 350, name, color="white", fontsize=60, fontweight="bold", family="DejaVu Sans")
    lines = "\n".join(textwrap.wrap(description, 52))
    axes.text(80, 400, lines, color="white", fontsize=24, family="DejaVu Sans", va="top", linespacing=1.5)
    written = io.BytesIO()
    figure.savefig(written, format="png", metadata={"Software": None})
    return written.getvalue()
