"""A search of the catalog: what it finds, and what a mistyped one may have meant."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ptkstore.domain.catalog_search import corrected, has_words, words_of
from tests.support.builders import ptk_spec

SPEED = replace(ptk_spec(), description="Mean speed by hour of day")
STREETS = replace(ptk_spec("taxi.busy"), description="When streets are full", tags=("night",))


def test_a_ptk_has_words_of_its_name_description_and_tags() -> None:
    assert has_words(SPEED, words_of("MEAN speed"))
    assert has_words(STREETS, words_of("busy night"))
    assert not has_words(STREETS, words_of("busy noon"))


@pytest.mark.parametrize(
    ("typed", "better"),
    [
        ("sped", "speed"),
        ("sped day", "speed day"),
        ("streest", "streets"),
        ("nigth ful", "night ful"),  # what a PTK has is left as it is
        ("nigth xylophone", ""),  # one of them is near nothing
        ("hour streest", ""),  # no PTK has both
        ("speed", ""),  # nothing to correct
        ("spd", ""),  # too short: too much is near it
        ("xylophone", ""),
    ],
)
def test_a_mistyped_word_is_corrected_where_that_finds_something(typed: str, better: str) -> None:
    assert " ".join(corrected(words_of(typed), [SPEED, STREETS])) == better
