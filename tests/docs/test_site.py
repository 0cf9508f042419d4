"""The documentation site: each page has a place in it, it builds without a warning and loads nothing from elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from mkdocs.config.base import load_config

CONFIG = "infra/docs/mkdocs.yml"
LOADS = {
    "script": "src",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "audio": "src",
    "embed": "src",
}
LINKED = {
    "stylesheet",
    "icon",
    "preload",
    "prefetch",
    "preconnect",
    "modulepreload",
    "dns-prefetch",
    "manifest",
}


class Loaded(HTMLParser):
    """What a page makes a browser load."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag in LOADS:
            self.addresses.append(given.get(LOADS[tag], ""))
        elif tag == "link" and LINKED & set(given.get("rel", "").lower().split()):
            self.addresses.append(given.get("href", ""))


def elsewhere(page: str) -> list[str]:
    """The addresses on other machines that a page loads."""
    read = Loaded()
    read.feed(page)
    return [one for one in read.addresses if one.lower().startswith(("http:", "https:", "//"))]


def listed(nav: Any) -> Iterator[str]:
    """The pages that a navigation names."""
    for entry in nav:
        for place in entry.values() if isinstance(entry, dict) else [entry]:
            if isinstance(place, list):
                yield from listed(place)
            else:
                yield place


def test_the_navigation_names_each_page_once(repository: Path) -> None:
    config = load_config(str(repository / CONFIG))
    pages = sorted(
        page.relative_to(repository / "docs").as_posix() for page in (repository / "docs").rglob("*.md")
    )
    notebooks = [f"notebooks/{one.stem}.md" for one in (repository / "examples/notebooks").glob("*.ipynb")]
    assert sorted(listed(config["nav"])) == sorted(pages + notebooks)


def test_what_a_page_loads_from_elsewhere_is_seen() -> None:
    assert (
        elsewhere('<a href="https://a.org"><img src="x.png"><link rel="canonical" href="https://b.org">')
        == []
    )
    assert elsewhere('<script src="https://c.org/x.js"></script>') == ["https://c.org/x.js"]
    assert elsewhere('<link href="//d.org/f.css" rel="stylesheet">') == ["//d.org/f.css"]


def built(repository: Path, config: Path, place: Path) -> tuple[int, list[str]]:
    """How a strict build ends, and its warnings."""
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", str(config), "-d", str(place)],
        cwd=repository,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return done.returncode, [line for line in done.stderr.splitlines() if "WARNING" in line]


@pytest.fixture(scope="module")
def site(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, as `make docs` builds it."""
    place = tmp_path_factory.mktemp("site")
    assert built(repository, repository / CONFIG, place) == (0, [])
    return place


@pytest.mark.long
def test_no_page_of_the_site_loads_anything_from_elsewhere(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 60
    assert {page.name: elsewhere(page.read_text(encoding="utf-8")) for page in pages} == {
        page.name: [] for page in pages
    }
    styles = [style.read_text(encoding="utf-8") for style in site.rglob("*.css")]
    assert not any("@import" in style or "url(http" in style or "url(//" in style for style in styles)


@pytest.mark.long
def test_a_notebook_is_a_page_with_its_outputs(site: Path) -> None:
    page = (site / "notebooks/01-csv-to-feature/index.html").read_text(encoding="utf-8")
    assert '<section class="ptk-shown" aria-label="HistoricalStatistics, fitted">' in page
    assert "sk-top-container" not in page
    assert len(list((site / "notebooks").glob("01-csv-to-feature-*.png"))) == 2


@pytest.mark.long
def test_each_script_and_picture_of_a_page_is_where_the_page_looks_for_it(site: Path) -> None:
    gone = []
    for page in site.rglob("*.html"):
        read = Loaded()
        read.feed(page.read_text(encoding="utf-8"))
        for address in read.addresses:
            name = address.partition("?")[0].partition("#")[0]
            place = site / name.lstrip("/") if name.startswith("/") else page.parent / name
            if name and not name.startswith("data:") and not place.exists():
                gone.append((page.relative_to(site).as_posix(), address))
    assert gone == []


@pytest.mark.long
def test_the_site_has_each_page_and_lists_it_for_programs(repository: Path, site: Path) -> None:
    pages = list(listed(load_config(str(repository / CONFIG))["nav"]))
    text = (site / "llms.txt").read_text(encoding="utf-8")
    linked = re.findall(r"^- \[.+\]\((.+)\)$", text, re.MULTILINE)
    assert len(linked) == len(pages)
    assert [link for link in linked if not (site / link / "index.html").is_file()] == []


@pytest.mark.long
@pytest.mark.parametrize("page", ["library", "client"])
def test_docstrings_of_public_names_are_on_the_site(site: Path, page: str) -> None:
    text = (site / "reference" / page / "index.html").read_text(encoding="utf-8")
    assert ":::" not in text
    name = {"library": "ptklib.linear.AdaSSPRegressor", "client": "ptkstore.sdk.store.Store"}[page]
    assert f'id="{name}"' in text


@pytest.mark.long
def test_a_broken_link_and_a_broken_anchor_fail_the_build(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("# One\n[a](gone.md) [b](#nope)\n")
    config = tmp_path / "mkdocs.yml"
    config.write_text(
        f"INHERIT: {repository / CONFIG}\ndocs_dir: docs\nhooks: []\nplugins: []\nnav: [index.md]\n"
    )
    code, warnings = built(repository, config, tmp_path / "site")
    assert code == 1
    assert len(warnings) == 2


def test_make_docs_counts_warnings(repository: Path) -> None:
    """Under --quiet, MkDocs counts none, and a strict build passes whatever is broken."""
    (line,) = re.findall(r"mkdocs build (.*)", (repository / "Makefile").read_text(encoding="utf-8"))
    assert "--strict" in line
    assert "--quiet" not in line
    assert " -q" not in line
