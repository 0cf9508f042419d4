"""What code, tests and proofs cite of `docs/differences.md` stands there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.source import REPOSITORY

PAGE = "docs/differences.md"
CITING = ("ptklib", "ptkstore", "workers", "tests", "docs", "benchmarks", "examples")
LABEL = r"[PSBDF]\d{1,2}[a-z]?"
CITED = re.compile(rf"\bdifferences\.md ({LABEL}(?:(?:, |-){LABEL})*)")
GONE = re.compile(rf"\bPAPERS {LABEL}")


def rows_of(page: str) -> set[str]:
    """Labels that a table's first column explains."""
    return set(re.findall(rf"^\|[^|]*\(({LABEL})\) *\|", page, re.MULTILINE))


def cited(text: str) -> Iterator[str]:
    """Every label that a text cites, those within ranges included."""
    for labels in CITED.findall(text):
        for part in labels.split(", "):
            first, _, last = part.partition("-")
            yield first
            if last:
                yield from (f"{first[0]}{number}" for number in range(int(first[1:]) + 1, int(last[1:]) + 1))


def texts(repository: Path = REPOSITORY) -> Iterator[tuple[Path, str]]:
    """Python files and pages of the tree, this one and the cited page left out."""
    for root in CITING:
        for path in sorted((repository / root).rglob("*")):
            if path.suffix in (".py", ".md") and path not in (Path(__file__), repository / PAGE):
                yield path.relative_to(repository), path.read_text(encoding="utf-8")


def test_what_is_cited_has_a_row() -> None:
    known = rows_of((REPOSITORY / PAGE).read_text(encoding="utf-8"))
    found = [(str(path), label) for path, text in texts() for label in cited(text)]
    assert len(found) > 20
    assert [one for one in found if one[1] not in known] == []


def test_nothing_cites_a_page_that_is_not_in_the_tree() -> None:
    assert [str(path) for path, text in texts() if GONE.search(text)] == []


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("spent (differences.md F3a).", ["F3a"]),
        ("(differences.md P2-P4, F5)", ["P2", "P3", "P4", "F5"]),
        ("(differences.md)", []),
    ],
)
def test_citations_are_seen(text: str, labels: list[str]) -> None:
    assert list(cited(text)) == labels


def test_only_the_first_column_of_a_row_explains() -> None:
    assert rows_of("| said (F1) | found | done (F2) |\n| none | (F3) | |\n(F4)\n") == {"F1"}
