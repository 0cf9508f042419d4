"""Pages lead to files and headings that exist, and name paths that are in the tree."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.source import REPOSITORY
from tests.support.pages import anchors, without_code

PAGES = sorted(
    path.relative_to(REPOSITORY).as_posix()
    for pattern in ("*.md", "docs/**/*.md", "ptklib/README.md", "changelog.d/README.md")
    for path in REPOSITORY.glob(pattern)
)
MAPS = [one for one in PAGES if re.match(r"CONTRIBUTING|docs/(architecture|adr/)", one)]
"""Pages that say where things are: each path in them, links apart, is looked for as well."""

LINK = re.compile(r"\]\(([^)\s]+)\)")
PATH = re.compile(r"`([\w.*-]+(?:/[\w.*-]+)+/?|(?:\w+/|Makefile|[\w.-]+\.(?:toml|yaml|md|lock)))`")
ELSEWHERE = ("backups/", "build/", "benchmarks/out/", "dist/", ".venv/", "keys/")
"""Made by programs, or folders of a home: no path of the tree."""


def _text(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def broken_links(page: Path) -> Iterator[str]:
    """Links of a page that lead nowhere."""
    for link in LINK.findall(without_code(_text(page))):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        if not target.exists() or (
            anchor and target.suffix == ".md" and anchor not in anchors(_text(target))
        ):
            yield link


def missing_paths(text: str, root: Path = REPOSITORY) -> list[str]:
    """Paths in code marks that are not in the tree; a `*` stands for anything."""
    named = (one.rstrip("/") for one in PATH.findall(without_code(text)) if not one.startswith(ELSEWHERE))
    return [one for one in named if not any(root.glob(one))]


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    assert list(broken_links(REPOSITORY / page)) == []


@pytest.mark.parametrize("page", MAPS)
def test_a_page_that_says_where_things_are_names_what_is_there(page: str) -> None:
    assert missing_paths(_text(REPOSITORY / page)) == []


def test_each_decision_is_linked_from_a_page_that_is_no_decision() -> None:
    linked = {
        Path(link.partition("#")[0]).name
        for page in PAGES
        if not page.startswith("docs/adr/")
        for link in LINK.findall(_text(REPOSITORY / page))
    }
    records = {Path(page).name for page in PAGES if page.startswith("docs/adr/")}
    assert records - linked == set()


def test_a_link_to_nothing_and_a_path_that_is_gone_are_seen(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A heading, once\n[a](page.md#a-heading-once) [b](#twice) [c](gone.md) [d](https://x.org/y)\n"
        '<a id="here"></a>[e](#here)\n'
    )
    assert list(broken_links(page)) == ["#twice", "gone.md"]
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "a_b.py").touch()
    assert missing_paths("`there/a_*.py`, `there/`, `there/c.py` and `a / b`", tmp_path) == ["there/c.py"]
