"""Each code that a training is listed with has one sentence, and a section of the docs that is there."""

from __future__ import annotations

import re

import pytest

from ptkstore.adapters.sandbox.messages import codes
from ptkstore.application.training import average_ptk, read_trainings, train_ptk
from ptkstore.domain.causes import CAUSES
from ptkstore.domain.jobs import Outcome
from ptkstore.domain.notices import CODES_PAGE, code_page
from ptkstore.domain.ptks.accept_deadlines import GivenUp
from ptkstore.domain.scheduling.queues import Awaited
from tests.architecture.source import REPOSITORY


def section(page: str) -> str:
    """The text below the heading that a page names."""
    path, _, anchor = page.partition("#")
    found, level = [], 0
    for line in (REPOSITORY / path).read_text(encoding="utf-8").splitlines():
        if heading := re.match(r"(#+) (.*)", line):
            slug = re.sub(r"[^\w -]", "", heading[2].lower()).replace(" ", "-")
            if level and len(heading[1]) <= level:
                break
            if slug == anchor or (not anchor and not level):
                level = len(heading[1])
        if level:
            found.append(line)
    return "\n".join(found)


def test_the_page_of_all_codes_explains_each_of_them_and_no_other_page_lists_them() -> None:
    for code in CAUSES:
        assert section(code_page(code)) != "", code
    other = (REPOSITORY / "docs/guide/operate.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `(?:budget-denied|expired|killed)`", other, re.MULTILINE) == []
    assert CODES_PAGE.removeprefix("docs/") in other


def test_codes_of_the_program_have_a_sentence() -> None:
    ends = {one.value for one in Outcome} - {"done", "published", "disabled"}
    runs = {value for name, value in vars(codes).items() if name.isupper()}
    own = {average_ptk.INSTANCES_AWAY, average_ptk.INSTANCES_LOST, average_ptk.MOVED_TOO_FAR}
    own |= {average_ptk.NO_TEST_ROWS, train_ptk.PREVIOUS_STATE_UNREADABLE}
    own |= {read_trainings.WAITS_FOR_VERDICT, read_trainings.NO_NEW_TEST_ROWS}
    verdicts = {f"validation-{one}" for one in ("retry", *GivenUp)}
    for group in (ends, runs, own, verdicts, {Awaited.MORE_THAN_IT_MAY_HAVE.value}):
        assert group - set(CAUSES) == set()


@pytest.mark.parametrize("page", sorted({one.page for one in CAUSES.values() if one.page}))
def test_the_section_that_a_cause_names_is_there(page: str) -> None:
    assert section(page) != ""


def test_sentences_are_sentences() -> None:
    for cause in CAUSES.values():
        assert re.fullmatch(r"[A-Z].*[^ ]\.", cause.sentence)
