"""Each code that a training is listed with has one sentence, and a section of the docs that is there."""

from __future__ import annotations

import re

import pytest

from ptkstore.adapters.sandbox.messages import codes
from ptkstore.application.training import average_ptk, read_trainings, train_ptk
from ptkstore.domain.causes import CAUSES, NOTICES_PAGE
from ptkstore.domain.jobs import Outcome
from ptkstore.domain.ptks.accept_deadlines import GivenUp
from ptkstore.domain.scheduling.queues import Awaited
from tests.architecture.source import REPOSITORY

OF_OTHER_NOTICES = {"deregistered", "ptk-rejected", "policy-differs", "online-rows-lost"}
FIELDS = {"page"}
OF_PREPARING = {"unavailable", "corrupt-object", "window-gone", "no-process"}


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


def test_the_page_about_notices_explains_the_same_codes() -> None:
    text = section(NOTICES_PAGE)
    named = set(re.findall(r"`([a-z]+(?:-[a-z]+)*)`", text))
    words = {word for word in named if "-" in word or f"| `{word}`" in text or f", `{word}`" in text}
    assert words - FIELDS - OF_OTHER_NOTICES - OF_PREPARING - set(CAUSES) == set()
    assert set(CAUSES) - named == {
        "refused"
    }  # an outcome of a job, which its notice tells as `budget-denied`


def test_codes_of_the_program_have_a_sentence() -> None:
    ends = {one.value for one in Outcome} - {"done", "published", "disabled"}
    runs = {value for name, value in vars(codes).items() if name.isupper()}
    own = {average_ptk.INSTANCES_AWAY, average_ptk.INSTANCES_LOST, average_ptk.MOVED_TOO_FAR}
    own |= {average_ptk.NO_TEST_ROWS, train_ptk.PREVIOUS_STATE_UNREADABLE}
    own |= {read_trainings.WAITS_FOR_VERDICT, read_trainings.NO_NEW_TEST_ROWS}
    verdicts = {f"validation-{one}" for one in ("retry", *GivenUp)}
    for group in (ends, runs, own, verdicts, {Awaited.MORE_THAN_IT_MAY_HAVE.value}):
        assert group - set(CAUSES) == set()


@pytest.mark.parametrize("page", sorted({one.page for one in CAUSES.values()}))
def test_the_section_that_a_cause_names_is_there(page: str) -> None:
    assert section(page) != ""


def test_sentences_are_sentences() -> None:
    for cause in CAUSES.values():
        assert re.fullmatch(r"[A-Z].*[^ ]\.", cause.sentence)
