"""Concept pages: examples print what the pages show, each has a picture, and pages are short."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.machine import ROOT

FOLDER = ROOT / "docs" / "concepts"
PAGES = ["ptk", "window", "block", "budget", "allocation", "guarantee", "not-protected"]


def text(page: str) -> str:
    return (FOLDER / f"{page}.md").read_text()


def test_each_concept_has_a_page_and_each_page_a_picture() -> None:
    assert {path.stem for path in FOLDER.glob("*.md")} == set(PAGES)
    assert {path.stem for path in (FOLDER / "figures").iterdir()} == set(PAGES)


@pytest.mark.long
@pytest.mark.parametrize("page", [*PAGES, "../epsilon"])
def test_its_example_prints_what_it_shows(page: str, tmp_path: Path) -> None:
    ((program, shown),) = re.findall(
        r"<!-- tested: its output is below -->\n```python\n(.*?)```\n\n```\n(.*?)```", text(page), re.DOTALL
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == shown


@pytest.mark.parametrize("page", PAGES)
def test_it_is_short_has_one_picture_and_leads_to_reference_and_proof(page: str) -> None:
    written = text(page)
    words = re.sub(r"```.*?```|\]\([^)]*\)|[|#*`!\[\]-]", " ", written, flags=re.DOTALL).split()
    assert 300 <= len(words) <= 500, len(words)
    ((told, picture),) = re.findall(r"!\[(.*?)\]\((.*?)\)", written)
    assert len(told.split()) > 5
    assert picture == f"figures/{page}.svg"
    for kind in ("How-to", "Reference", "Proof"):
        assert re.search(rf"^- {kind}: \[", written, re.MULTILINE), kind
