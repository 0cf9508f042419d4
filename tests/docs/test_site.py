"""The documentation site: each page has a place in it, it builds without a warning and loads nothing from elsewhere."""

from __future__ import annotations

import json
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
from PIL import Image
from playwright.sync_api import Page, sync_playwright

from infra.docs import hooks
from infra.docs.appearance import CARD, HEIGHT, WIDTH
from infra.docs.openapi import DOCUMENT, PAGE
from ptkstore.api.reference import openapi
from tests.services.chromium import executable
from tests.support.plugins.lacking import needs

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
LOOK = """wanted => new Promise(seen => {
  const whole = document.documentElement, begun = performance.now()
  const look = () => {
    const beyond = whole.scrollWidth - whole.clientWidth, scheme = document.body.dataset.mdColorScheme
    const settled = beyond <= 0 && (!wanted || scheme === wanted)
    if (settled || performance.now() - begun > 3000) seen([beyond, scheme])
    else requestAnimationFrame(look)
  }
  look()
})"""
"""How far a page is too wide and its theme, once both are as they should be, or some seconds after a change."""
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
    assert sorted(listed(config["nav"])) == sorted([*pages, *notebooks, PAGE])


def test_the_name_of_a_source_file_is_its_title_as_it_is_written() -> None:
    shown = hooks._shown("ptklib/mechanisms/__init__.py")
    assert shown.startswith("# ptklib/mechanisms/\\_\\_init\\_\\_.py\n")


def test_what_a_page_loads_from_elsewhere_is_seen() -> None:
    assert (
        elsewhere('<a href="https://a.org"><img src="x.png"><link rel="canonical" href="https://b.org">')
        == []
    )
    assert elsewhere('<script src="https://c.org/x.js"></script>') == ["https://c.org/x.js"]
    assert elsewhere('<link href="//d.org/f.css" rel="stylesheet">') == ["//d.org/f.css"]


def built(repository: Path, config: Path, place: Path, **env: str) -> tuple[int, list[str]]:
    """How a strict build ends, and its warnings."""
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", str(config), "-d", str(place)],
        cwd=repository,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"} | env,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return done.returncode, [line for line in done.stderr.splitlines() if "WARNING" in line]


def inheriting(repository: Path, *pages: str, hook: str = "") -> str:
    """A configuration like the site's, for a few pages elsewhere."""
    own = {
        "INHERIT": str(repository / CONFIG),
        "docs_dir": "docs",
        "theme": {"custom_dir": str(repository / "infra/docs/theme")},
        "hooks": [str(repository / "infra/docs" / hook)] if hook else [],
        "plugins": [],
        "site_dir": "site",
        "use_directory_urls": False,
        "nav": ["index.md", *pages],
    }
    return json.dumps(own)


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
    page = (site / "notebooks/01-csv-to-feature.html").read_text(encoding="utf-8")
    assert '<section class="ptk-shown" aria-label="HistoricalStatistics, fitted">' in page
    assert "sk-top-container" not in page
    assert len(list((site / "notebooks").glob("01-csv-to-feature-*.png"))) == 2


@pytest.mark.long
def test_the_document_of_the_api_is_offered_and_each_request_and_schema_is_on_its_page(site: Path) -> None:
    document = json.loads((site / DOCUMENT).read_text(encoding="utf-8"))
    assert document == json.loads(json.dumps(openapi()))
    page = (site / "reference/openapi.html").read_text(encoding="utf-8")
    assert 'href="openapi.json"' in page
    anchors = set(re.findall(r'<h3 id="([^"]+)"', page))
    names = {operation["operationId"] for one in document["paths"].values() for operation in one.values()}
    schemas = {f"schema-{name.lower()}" for name in document["components"]["schemas"]}
    assert len(names) > 50
    assert anchors == names | schemas
    assert set(re.findall(r'href="#(schema-[^"]+)"', page)) <= schemas


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
    assert linked == [re.sub(r"\.md$", ".html", page) for page in pages]
    assert [link for link in linked if not (site / link).is_file()] == []


@pytest.mark.long
@pytest.mark.parametrize("page", ["library", "client"])
def test_docstrings_of_public_names_are_on_the_site(site: Path, page: str) -> None:
    text = (site / "reference" / f"{page}.html").read_text(encoding="utf-8")
    assert ":::" not in text
    name = {"library": "ptklib.linear.AdaSSPRegressor", "client": "ptkstore.sdk.store.Store"}[page]
    assert f'id="{name}"' in text


@pytest.fixture
def tab(site: Path) -> Iterator[Page]:
    """A page of a browser without a network, which complains about nothing."""
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=executable(), args=["--no-sandbox"])
        opened = browser.new_page(offline=True, color_scheme="dark")
        wrong: list[str] = []
        opened.on("console", lambda said: wrong.append(said.text))
        opened.on("pageerror", lambda error: wrong.append(str(error)))
        opened.on("requestfailed", lambda request: wrong.append(request.url))
        yield opened
        browser.close()
    assert wrong == []


@pytest.mark.long
@pytest.mark.real
@pytest.mark.skipif(executable() is None, reason=needs("chromium", "apt-get install chromium"))
def test_search_works_from_a_folder_without_a_server(site: Path, tab: Page) -> None:
    tab.goto((site / "index.html").as_uri())
    tab.locator("input[data-md-component=search-query]").fill("odometer")
    found = tab.locator("a.md-search-result__link[href*='reference/devices.html']").first
    found.wait_for()
    found.click()
    tab.wait_for_url("**/reference/devices.html*")
    assert tab.locator("h1").inner_text().startswith("The protocol of devices")


@pytest.mark.long
@pytest.mark.real
@pytest.mark.skipif(executable() is None, reason=needs("chromium", "apt-get install chromium"))
def test_drawings_and_plots_follow_the_switch_of_the_theme(site: Path, tab: Page) -> None:
    seen = {}
    ground = "getComputedStyle(document.querySelector('.ptk-drawing .page')).fill"
    tab.goto((site / "architecture.html").as_uri())
    for _ in range(3):
        seen[tab.evaluate("document.body.dataset.mdColorScheme")] = tab.evaluate(ground)
        tab.locator("label[for^=__palette]:visible").click()
    assert seen == {"slate": "rgb(30, 33, 41)", "default": "rgb(255, 255, 255)"}
    tab.goto((site / "guide/counts.html").as_uri())
    filters = "getComputedStyle(document.querySelector('img[src*=\"figures/counts.svg\"]')).filter"
    assert tab.evaluate(filters).startswith("invert")


WIDTHS = {"phone": {"width": 390, "height": 844}, "desk": {"width": 1280, "height": 800}}
SEEN = (("light", "desk"), ("dark", "desk"), ("dark", "phone"), ("light", "phone"))
"""Each theme at each width; one thing changes at a time."""
ALONE = {
    "404.html": "its addresses begin at the root of a server",
    "demo-report.html": "it has its own style",
}
"""Pages whose theme is not the site's, and why."""


@pytest.mark.long
@pytest.mark.real
@pytest.mark.timeout(1200)
@pytest.mark.skipif(executable() is None, reason=needs("chromium", "apt-get install chromium"))
def test_each_page_is_without_faults_in_both_themes_and_at_two_widths(site: Path) -> None:
    """A page is loaded once. Theme and width change while it is open, as a reader changes them."""
    found: set[tuple[str, str]] = set()
    here = ""
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=executable(), args=["--no-sandbox"])
        opened = browser.new_page(offline=True)
        opened.on("console", lambda said: found.add((here, f"console: {said.text}")))
        opened.on("pageerror", lambda error: found.add((here, f"error: {error}")))
        opened.on("requestfailed", lambda request: found.add((here, f"failed: {request.url}")))
        for page in sorted(site.rglob("*.html")):
            here = page.relative_to(site).as_posix()
            if here == "404.html":
                continue
            opened.goto(page.as_uri())
            for theme, width in SEEN:
                opened.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
                opened.set_viewport_size(WIDTHS[width])  # type: ignore[arg-type]
                wanted = None if here in ALONE else {"light": "default", "dark": "slate"}[theme]
                beyond, scheme = opened.evaluate(LOOK, wanted)
                if beyond > 0:
                    found.add((here, f"{beyond} pixels too wide, {theme}, {width}"))
                if wanted is not None and scheme != wanted:
                    found.add((here, f"{scheme} where {theme} is wanted"))
        browser.close()
    assert sorted(found) == []


@pytest.mark.long
def test_a_site_that_knows_its_address_has_a_card(repository: Path, site: Path, tmp_path: Path) -> None:
    def meta(place: Path) -> dict[str, str]:
        tags = re.findall(
            r'<meta (?:property|name)="((?:og|twitter):[^"]+)" content="([^"]*)">', place.read_text()
        )
        assert len(tags) == len(dict(tags))
        return dict(tags)

    without = meta(site / "concepts/ptk.html")
    assert (without["og:title"], without["twitter:card"]) == ("PTK - ptkstore", "summary")
    assert {"og:url", "og:image", "twitter:image"}.isdisjoint(without)
    assert not (site / CARD).exists()
    small = tmp_path / "mkdocs.yml"
    (tmp_path / "docs" / "concepts").mkdir(parents=True)
    (tmp_path / "docs" / "concepts" / "ptk.md").write_text('# A <b>"quoted"</b> title\n')
    (tmp_path / "docs" / "index.md").write_text("# One\n")
    small.write_text(inheriting(repository, "concepts/ptk.md", hook="appearance.py"))
    assert built(repository, small, tmp_path / "site", PTK_DOCS_URL="https://docs.example.org/ptk") == (0, [])
    tags = meta(tmp_path / "site/concepts/ptk.html")
    assert tags["og:title"] == "A &#34;quoted&#34; title - ptkstore"
    assert tags["og:url"] == "https://docs.example.org/ptk/concepts/ptk.html"
    assert tags["og:image"] == tags["twitter:image"] == f"https://docs.example.org/ptk/{CARD}"
    assert tags["twitter:card"] == "summary_large_image"
    assert meta(tmp_path / "site/index.html")["og:title"] == "ptkstore"
    with Image.open(tmp_path / "site" / CARD) as card:
        assert (card.format, card.size) == ("PNG", (WIDTH, HEIGHT))
        assert len(card.getcolors(WIDTH * HEIGHT) or ()) > 20  # there is text on it


@pytest.mark.long
def test_versions_are_kept_side_by_side(repository: Path, tmp_path: Path) -> None:
    def git(*args: str) -> str:
        return subprocess.run(
            ["git", "-c", "user.email=a@b.org", "-c", "user.name=a", f"--git-dir={tmp_path / '.git'}", *args],
            check=True, capture_output=True, text=True,
        ).stdout  # fmt: skip

    def make(*given: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["make", "docs-version", f"docs_config={config}", *given],
            cwd=repository,
            env=os.environ | {"GIT_DIR": str(tmp_path / ".git"), "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b.org",
                              "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b.org"},
            check=False, capture_output=True, text=True, timeout=600,
        )  # fmt: skip

    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("# One\n")
    config = tmp_path / "mkdocs.yml"
    config.write_text(inheriting(repository, hook="hooks.py"))
    git("init", "--quiet")
    git("commit", "--quiet", "--allow-empty", "--message", "the first one")
    refused = make()
    assert refused.returncode == 2
    assert "VERSION=1.2" in refused.stderr
    for given in (["VERSION=0.1"], ["VERSION=0.2"], ["VERSION=0.1.1", "ALIAS="]):
        done = make(*given)
        assert done.returncode == 0, done.stderr
    listed = json.loads(git("show", "gh-pages:versions.json"))
    assert {one["version"]: one["aliases"] for one in listed} == {"0.1": [], "0.1.1": [], "0.2": ["latest"]}
    assert git("show", "gh-pages:latest") == "0.2"
    assert "url=latest/" in git("show", "gh-pages:index.html")
    assert '"version": {"provider": "mike"}' in git("show", "gh-pages:0.2/index.html").replace(
        '":{"', '": {"'
    ).replace('":"', '": "')


@pytest.mark.long
def test_a_broken_link_and_a_broken_anchor_fail_the_build(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("# One\n[a](gone.md) [b](#nope)\n")
    config = tmp_path / "mkdocs.yml"
    config.write_text(inheriting(repository))
    code, warnings = built(repository, config, tmp_path / "site")
    assert code == 1
    assert len(warnings) == 2


def test_make_docs_counts_warnings(repository: Path) -> None:
    """Under --quiet, MkDocs counts none, and a strict build passes whatever is broken."""
    (line,) = re.findall(r"mkdocs build (.*)", (repository / "Makefile").read_text(encoding="utf-8"))
    assert "--strict" in line
    assert "--quiet" not in line
    assert " -q" not in line
