"""Writes the demo's report, which holds true values: JSON and an HTML page, both outside the PTK home."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

from ptkstore.cli.demo.records import Report
from ptkstore.errors import InvalidRequest

__all__ = ["Report", "check_target", "write"]


def check_target(path: str | Path, home: str | Path) -> tuple[Path, Path]:
    """Return the paths of JSON and page, or refuse them. Call it before the run too, as a run takes its time.

    Raises
    ------
    InvalidRequest
        When either file would be inside `home` (links are followed), the folder does not exist, or the name
        is no file's.
    """
    target = Path(path)
    if target.suffix.lower() in (".html", ".htm"):
        raise InvalidRequest(f"{target} must name the JSON file; the page gets the same name with .html")
    if target.is_dir() or not target.name or target.name == "..":
        raise InvalidRequest(f"{target} is a folder; name the report's JSON file")
    folder = target.parent.resolve()
    if not folder.is_dir():
        raise InvalidRequest(f"the folder {target.parent} does not exist")
    # by identity, not by name: links, letter case and mounts give one folder several names. What exists does
    # not lie in a home that does not exist
    if Path(home).exists() and any(f.samefile(home) for f in (folder, *folder.parents)):
        raise InvalidRequest(
            f"the report contains true values: write it outside the PTK home {home}, not to {target}"
        )
    # links in the last place are replaced, not followed, by `os.replace`
    return folder / target.name, (folder / target.name).with_suffix(".html")


def write(report: Report, path: str | Path, home: str | Path) -> tuple[Path, Path]:
    """Write the report as JSON to `path` and as a page beside it; return both paths.

    Each file appears whole or not at all, and only its owner may read it.
    """
    # charts load matplotlib, which takes a second; whoever only checks a target need not wait for it
    from ptkstore.cli.demo.page import render

    json_path, page_path = check_target(path, home)
    text = json.dumps(report.to_json(), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    page = render(report)
    _replace(json_path, text)
    _replace(page_path, page)
    return json_path, page_path


def _replace(path: Path, text: str) -> None:
    handle, name = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)  # mode 0600
    temporary = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
