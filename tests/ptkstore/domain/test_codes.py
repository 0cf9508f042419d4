"""A code has a sentence in plain text for each of its uses."""

from __future__ import annotations

import re

import pytest

from ptkstore.domain.codes import GROUPS, JOB, LETTER, NOTICE, RUN, sentence_of, sentences_of


def test_a_code_says_what_it_means_where_it_comes_up() -> None:
    assert sentence_of("timeout", LETTER) == "The endpoint did not answer in time."
    assert sentence_of("timeout", NOTICE, RUN) == "It took longer than PTK_TRAIN_TIMEOUT_SECONDS allows."
    assert sentence_of("published", NOTICE, JOB) == "The job made a version."
    assert sentence_of("published", LETTER) is None
    assert sentence_of("of-a-newer-program", NOTICE, RUN, JOB) is None


def test_sentences_come_once_each_in_the_order_of_their_codes() -> None:
    codes = ["deregistered", None, "of-a-newer-program", "killed", "deregistered"]
    assert list(sentences_of(codes, NOTICE, RUN)) == ["deregistered", "killed"]


@pytest.mark.parametrize(
    ("code", "use"),
    [(code, use) for group in GROUPS.values() for code, uses in group.items() for use in uses],
)
def test_a_sentence_has_no_marks_of_a_page(code: str, use: str) -> None:
    sentence = sentence_of(code, use)
    assert sentence is not None
    assert re.fullmatch(r"(?:[A-Z]|ptk )[^`\[\]]*\.", sentence)
    assert ".md" not in sentence
