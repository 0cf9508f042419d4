"""Pages of comparison: each cell has a source or a test that exists, and each source an address and a date."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.faults.machine import ROOT

FOLDER = ROOT / "docs" / "compare"
PAGES = ["attacks", "libraries", "platforms"]
PRODUCTS = ["BigQuery", "Snowflake", "AWS Clean Rooms"]
NOTHING = "not found in its docs"
REFERENCE = re.compile(r"\[([A-Z]?\d+)\](?!:)")
TEST = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")


def text(page: str) -> str:
    return (FOLDER / f"{page}.md").read_text()


def rows_of_comparison(page: str) -> list[list[str]]:
    """The cells of each row of a table that compares products, without the heads."""
    found = []
    for table in re.findall(r"(?:^\|.*\n)+", text(page), re.MULTILINE):
        lines = table.splitlines()
        if lines[0].endswith("| ptklib and ptkstore |") or lines[0].endswith("| ptkstore |"):
            found += [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]
    return found


def supported(cell: str) -> bool:
    """Whether a cell has a source, a page or a test of ours, or says that nothing was found."""
    return cell == NOTHING or bool(
        REFERENCE.search(cell) or TEST.search(cell) or re.search(r"\]\(\.\./", cell)
    )


def missing_tests(page: str, root: Path = ROOT) -> list[str]:
    """Tests that a page names and that do not exist."""
    gone = []
    for path, name in TEST.findall(page):
        file = root / path
        if not file.exists() or (name and not re.search(rf"\bdef {name}\(", file.read_text())):
            gone.append(f"{path}::{name}")
    return gone


def test_there_are_no_other_pages() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.md")) == PAGES


@pytest.mark.parametrize("page", PAGES)
def test_each_test_that_is_named_exists(page: str) -> None:
    assert len(TEST.findall(text(page))) >= 3
    assert missing_tests(text(page)) == []


def test_a_test_that_is_gone_is_seen() -> None:
    here = Path(__file__).relative_to(ROOT).as_posix()
    assert missing_tests(f"`{here}::test_a_test_that_is_gone_is_seen`") == []
    assert missing_tests(f"`{here}::test_nothing` and `tests/gone.py`") == [
        f"{here}::test_nothing",
        "tests/gone.py::",
    ]


@pytest.mark.parametrize("page", PAGES)
def test_each_source_has_an_address_and_the_page_a_date(page: str) -> None:
    written = text(page)
    addresses = dict(re.findall(r"^\[([A-Z]?\d+)\]: (https://\S+)$", written, re.MULTILINE))
    assert set(REFERENCE.findall(written)) == set(addresses)
    listed = dict(re.findall(r"^\| \[([A-Z]?\d+)\] \| \[[^\]]+\]\((\S+)\)", written, re.MULTILINE))
    assert listed == addresses
    assert "read on 28 November 2026" in written


@pytest.mark.parametrize("page", ["libraries", "platforms"])
def test_each_cell_has_a_source(page: str) -> None:
    rows = rows_of_comparison(page)
    assert len(rows) > 8
    width = {"libraries": 6, "platforms": 5}[page]
    assert [row[0] for row in rows if len(row) != width] == []
    assert [(row[0], cell) for row in rows for cell in row[1:] if not supported(cell)] == []


def test_each_of_ten_attacks_says_what_three_products_say_and_names_our_test() -> None:
    attacks = re.findall(r"^### (\d+)\. .+\n((?:(?!^##).*\n)+)", text("attacks"), re.MULTILINE)
    assert [int(number) for number, _ in attacks] == list(range(1, 11))
    for number, told in attacks:
        for product in PRODUCTS:
            (line,) = re.findall(rf"^- \*\*{product}\*\*: (.+)$", told, re.MULTILINE)
            assert REFERENCE.search(line) or line.startswith(NOTHING), (number, product)
        assert re.search(r"^- \*\*Ours\*\*: ", told, re.MULTILINE), number
        (ours,) = re.findall(r"^- \*\*Our tests?\*\*: (.+)$", told, re.MULTILINE)
        assert TEST.search(ours), number


@pytest.mark.parametrize("page", PAGES)
def test_it_says_what_others_do_better(page: str) -> None:
    better = text(page).partition("## What they do better\n")[2].partition("\n## ")[0]
    assert better.count("\n- **") >= 4
