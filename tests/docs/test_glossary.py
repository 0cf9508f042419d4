"""The glossary: each word has an anchor of its own, by which pages and the console link to it."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from ptkstore.console.glossary import GLOSSARY

ANCHORS = re.compile(r'<a id="([^"]+)"></a>')
EXPLAINED_THERE = {
    "block",
    "privacy unit",
    "window",
    "accountant",
    "assurance",
    "PTK",
    "profile",
    "target",
    "family",
}
"""Words that the console explains and that are in the glossary as well."""


@pytest.fixture(scope="module")
def rows(repository: Path) -> list[str]:
    lines = (repository / "docs" / "glossary.md").read_text().splitlines()
    return [line for line in lines if line.startswith("|") and not re.match(r"\|( word |-)", line)]


def test_each_word_has_an_anchor_that_is_made_of_it(rows: list[str]) -> None:
    assert len(rows) > 100
    for row in rows:
        first = row.split("|")[1]
        word = re.sub(r"\(.*?\)", "", ANCHORS.sub("", first))
        expected = [one.strip().lower().replace(" ", "-") for one in word.split(",")]
        assert [name.removesuffix("-package") for name in ANCHORS.findall(first)] == expected, row


def test_no_two_words_and_no_heading_share_an_anchor(repository: Path) -> None:
    page = (repository / "docs" / "glossary.md").read_text()
    headings = [one.lower().replace(" ", "-") for one in re.findall(r"^#+ (.+)$", page, re.MULTILINE)]
    assert [name for name, times in Counter(ANCHORS.findall(page) + headings).items() if times > 1] == []


def test_the_console_can_link_to_the_words_that_it_explains(rows: list[str]) -> None:
    anchors = {name for row in rows for name in ANCHORS.findall(row)}
    assert set(GLOSSARY) >= EXPLAINED_THERE
    assert {word.lower().replace(" ", "-") for word in EXPLAINED_THERE} <= anchors
