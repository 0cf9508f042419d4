"""The drawings of the docs: the script draws them, they say in words what they show, and they follow the theme."""

from __future__ import annotations

import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright

from infra.docs.appearance import DRAWN
from infra.docs.pictures.__main__ import DOCS, PICTURES
from infra.docs.pictures.drawing import DARK, LIGHT
from tests.faults.machine import ROOT
from tests.services.chromium import executable
from tests.support.plugins.lacking import needs

SVG = "{http://www.w3.org/2000/svg}"
LEAVING = """() => [...document.querySelectorAll("text")].filter((one) => {
  const box = one.getBBox(), page = one.ownerSVGElement.viewBox.baseVal;
  return box.x < 4 || box.x + box.width > page.width - 4 || box.y < 2 || box.y + box.height > page.height - 2;
}).map((one) => one.textContent)"""
TIGHT = """() => [...document.querySelectorAll("rect.edge + text")].filter((one) => {
  const text = one.getBBox(), box = one.previousElementSibling.getBBox();
  const within = text.y > box.y && text.y + text.height < box.y + box.height;
  return within && (text.x < box.x + 2 || text.x + text.width > box.x + box.width - 2);
}).map((one) => one.textContent)"""


def test_the_script_draws_each_drawing_as_it_is(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "infra.docs.pictures", "--out", tmp_path],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    drawn = {path.relative_to(DOCS) for path in DOCS.rglob("*.svg") if DRAWN in path.read_text()}
    assert drawn == {Path(place) for place in PICTURES}
    for place in drawn:
        assert (tmp_path / place).read_text() == (DOCS / place).read_text(), "run: make pictures"


@pytest.mark.parametrize("place", PICTURES)
def test_a_drawing_says_in_words_what_it_shows_and_has_a_ground_for_both_themes(place: str) -> None:
    drawn = ET.parse(DOCS / place).getroot()
    title, told = drawn.find(f"{SVG}title"), drawn.find(f"{SVG}desc")
    assert title is not None
    assert told is not None
    assert (title.text or "").strip()
    assert len((told.text or "").split()) > 8
    assert (drawn.get("role"), drawn.get("aria-labelledby")) == ("img", f"{title.get('id')} {told.get('id')}")
    ground = drawn.find(f"{SVG}rect")
    assert ground is not None
    assert (ground.get("class"), ground.get("width")) == ("page", "640")
    style = drawn.findtext(f"{SVG}style") or ""
    for selector, colours in (("default", LIGHT), ("slate", DARK)):
        (ruled,) = re.findall(rf'\[data-md-color-scheme="{selector}"\] \.ptk-drawing {{ (.*?) }}', style)
        assert ruled == "; ".join(f"--ptk-{name}: {colour}" for name, colour in colours.items())
    rules = [line for line in style.splitlines() if line]
    assert [
        line for line in rules if ".ptk-drawing" not in line
    ] == []  # inside of a page, no rule is about more


@pytest.mark.parametrize("place", PICTURES)
def test_one_page_shows_it_with_a_text_beside(place: str) -> None:
    shown = [
        told
        for page in DOCS.rglob("*.md")
        for told, link in re.findall(r"!\[(.*?)\]\(([^)]+)\)", page.read_text())
        if (page.parent / link).resolve() == DOCS / place
    ]
    assert len(shown) == 1
    assert len(shown[0].split()) > 5


def test_no_page_has_a_diagram_that_only_some_readers_draw() -> None:
    assert [page.name for page in DOCS.rglob("*.md") if "```mermaid" in page.read_text()] == []


@pytest.mark.real
@pytest.mark.skipif(executable() is None, reason=needs("chromium", "apt-get install chromium"))
def test_no_text_of_a_drawing_leaves_it_or_its_box() -> None:
    drawn = "".join((DOCS / place).read_text() for place in PICTURES)
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=executable(), args=["--no-sandbox"])
        page = browser.new_page()
        page.set_content(f"<!doctype html><title>pictures</title>{drawn}")
        assert page.locator("text").count() > 80
        assert page.locator("rect.edge + text").count() > 40
        assert page.evaluate(LEAVING) == []
        assert page.evaluate(TIGHT) == []
        browser.close()
