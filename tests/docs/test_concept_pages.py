"""Concept pages: examples print what the pages show, pictures are those that the script draws, and pages are short."""

from __future__ import annotations

import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright

from tests.faults.machine import ROOT
from tests.services.chromium import executable
from tests.support.plugins.lacking import needs

FOLDER = ROOT / "docs" / "concepts"
PAGES = ["ptk", "window", "block", "budget", "allocation", "guarantee", "not-protected"]
SVG = "{http://www.w3.org/2000/svg}"
ESCAPES = """() => [...document.querySelectorAll("text")].filter((one) => {
  const box = one.getBBox(), page = one.ownerSVGElement.viewBox.baseVal;
  return box.x < 4 || box.x + box.width > page.width - 4 || box.y < 2 || box.y + box.height > page.height - 2;
}).map((one) => one.textContent)"""


def text(page: str) -> str:
    return (FOLDER / f"{page}.md").read_text()


def test_each_concept_has_a_page_and_each_page_a_picture() -> None:
    assert {path.stem for path in FOLDER.glob("*.md")} == set(PAGES)
    assert {path.stem for path in (FOLDER / "figures").iterdir()} == set(PAGES)


@pytest.mark.long
@pytest.mark.parametrize("page", PAGES)
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


def test_the_pictures_are_those_that_the_script_draws(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, FOLDER / "figures.py", "--out", tmp_path], check=True, capture_output=True
    )
    for page in PAGES:
        assert (tmp_path / f"{page}.svg").read_text() == (FOLDER / "figures" / f"{page}.svg").read_text()


@pytest.mark.parametrize("page", PAGES)
def test_a_picture_says_in_words_what_it_shows_and_has_a_ground_for_both_themes(page: str) -> None:
    drawn = ET.parse(FOLDER / "figures" / f"{page}.svg").getroot()
    assert drawn.findtext(f"{SVG}title")
    assert len((drawn.findtext(f"{SVG}desc") or "").split()) > 8
    assert "prefers-color-scheme: dark" in (drawn.findtext(f"{SVG}style") or "")
    ground = drawn.find(f"{SVG}rect")
    assert ground is not None
    assert (ground.get("class"), ground.get("width")) == ("page", "640")


@pytest.mark.real
@pytest.mark.skipif(executable() is None, reason=needs("chromium", "apt-get install chromium"))
def test_no_text_of_a_picture_leaves_it() -> None:
    drawn = "".join((FOLDER / "figures" / f"{page}.svg").read_text() for page in PAGES)
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=executable(), args=["--no-sandbox"])
        page = browser.new_page()
        page.set_content(f"<!doctype html><title>pictures</title>{drawn}")
        assert page.locator("text").count() > 50
        assert page.evaluate(ESCAPES) == []
        browser.close()
