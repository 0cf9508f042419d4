"""Makes a page of the site of each notebook in examples/notebooks: its texts, its code and its stored outputs."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "notebooks"
SHOWN = "<style>.ptk-shown"
"""Where the HTML of ptklib begins; what is before it is scikit-learn's own, with scripts and fixed colours."""


def on_files(files: Files, config: MkDocsConfig, **_: Any) -> Files:
    """Add a page for each notebook, and its pictures."""
    for path in sorted(FOLDER.glob("*.ipynb")):
        page, pictures = page_of(nbformat.read(path, as_version=4), path.stem)
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=page))
        for name, content in pictures.items():
            files.append(File.generated(config, f"notebooks/{name}", content=content))
    return files


def page_of(notebook: Any, name: str) -> tuple[str, dict[str, bytes]]:
    """Return a notebook as Markdown, and the pictures that it shows by their names."""
    parts: list[str] = []
    pictures: dict[str, bytes] = {}
    for place, cell in enumerate(notebook.cells):
        if cell.cell_type == "markdown":
            parts.append(cell.source)
            if place == 0:
                parts.append(
                    f"*This page is the notebook `examples/notebooks/{name}.ipynb` with its stored outputs.*"
                )
            continue
        parts.append(_fence(cell.source, "python"))
        for number, output in enumerate(cell.outputs):
            picture = output.get("data", {}).get("image/png")
            if picture is None:
                parts.extend(_output(output))
                continue
            pictures[f"{name}-{place}-{number}.png"] = base64.b64decode(picture)
            parts.append(f"![Plot of the cell above]({name}-{place}-{number}.png)")
    return "\n\n".join(parts) + "\n", pictures


def _output(output: Any) -> Iterator[str]:
    if output.output_type == "stream":
        yield _fence(output.text, "text")
        return
    data = output.get("data", {})
    html = data.get("text/html", "")
    if SHOWN in html:
        yield f'<div class="ptk-output">{html[html.index(SHOWN) :]}</div>'
    elif "text/plain" in data:
        yield _fence(data["text/plain"], "text")


def _fence(text: str, language: str) -> str:
    marks = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", text)), default=0))
    return f"{marks}{language}\n{text.rstrip()}\n{marks}"
