"""Tutorials: each command runs in order in an empty folder, and prints what the page shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.machine import ROOT
from tests.support.tutorials import likeness, printed, rewritten, steps

FOLDER = ROOT / "docs" / "tutorials"
PERSONS = ["administrator", "consumer", "data-scientist", "officer", "team-developer"]


def test_each_person_has_a_tutorial() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.md")) == PERSONS


@pytest.mark.real
@pytest.mark.long
@pytest.mark.parametrize("person", PERSONS)
def test_its_commands_print_what_it_shows(person: str, tmp_path: Path) -> None:
    page = (FOLDER / f"{person}.md").read_text()
    told = [shown for _, shown in steps(page)]
    assert sum(shown is not None for shown in told) >= 3
    for shown, now in zip(told, printed(page, tmp_path), strict=True):
        if shown is not None:
            assert likeness(now) == likeness(shown)


def test_another_word_is_seen_and_another_number_is_not() -> None:
    shown = "┏━━━┓\n│ count │ 327 │\nsigned by 720d6cd2f88f7e78aa1b at 2026-11-28T03:08:35.439074+00:00\n"
    assert likeness(
        "│ count │ 1,328.5 │\nsigned by aaaaaaaaaaaaaaaaaaaa at 2027-01-01T00:00:00+00:00"
    ) == likeness(shown)
    assert likeness(shown.replace("signed", "forged")) != likeness(shown)


def test_what_commands_print_is_written_into_the_page() -> None:
    page = "# A\n\n```bash\necho b\n```\n\n```text\nold\n```\n\n```bash\ntrue\n```\n"
    assert rewritten(page, ["b\n", ""]) == page.replace("old", "b")
