"""Why a loss is believed: the order, the words, and the weakest of several."""

from __future__ import annotations

import pytest

from ptkstore.domain.accounting.assurances import (
    UNKNOWN,
    Assurance,
    Assured,
    assured,
    assured_in,
    assured_of,
    budget_rests_on,
    least,
)

LIBRARY = assured("library", "taxi.speed")
ASSERTED = assured("asserted", "ads.trips")
COMPOSED = assured("composed", "maps.routes")


def test_a_policy_accepts_what_is_as_strong_or_stronger() -> None:
    assert [one for one in Assurance if one.at_least(Assurance.COMPOSED)] == [
        Assurance.COMPOSED,
        Assurance.LIBRARY,
    ]


def test_a_team_vouches_for_all_that_the_library_does_not() -> None:
    assert (LIBRARY.by, COMPOSED.by, ASSERTED.by) == ("", "maps", "ads")
    assert [one.proven for one in (LIBRARY, COMPOSED, ASSERTED, UNKNOWN)] == [True, False, False, False]
    assert assured(None, "ads.trips") is UNKNOWN


@pytest.mark.parametrize("one", [LIBRARY, COMPOSED, ASSERTED, UNKNOWN])
def test_a_document_is_read_back(one: Assured) -> None:
    assert assured_of(one.document()) == one


@pytest.mark.parametrize(
    ("manifest", "found"),
    [({"guarantee": {"assurance": "asserted"}}, ASSERTED), ({"guarantee": {}}, UNKNOWN), ({}, UNKNOWN)],
)
def test_a_manifest_says_it_or_nothing_is_known(manifest: dict[str, object], found: Assured) -> None:
    assert assured_in(manifest, "ads.trips") == found


@pytest.mark.parametrize(
    ("one", "words", "sentence"),
    [
        (LIBRARY, "library", "Library: its privacy loss is proven"),
        (ASSERTED, "asserted by ads", "Asserted by team ads: its privacy loss is that team's word"),
        (UNKNOWN, "unknown", "Nothing is known of who vouches"),
    ],
)
def test_words_name_the_team_whose_word_it_is(one: Assured, words: str, sentence: str) -> None:
    assert one.words() == words
    assert one.sentence().startswith(sentence)


def test_the_weakest_of_several_names_all_its_teams() -> None:
    other = assured("asserted", "taxi.own")
    assert least([LIBRARY, ASSERTED, COMPOSED, other]) == Assured(Assurance.ASSERTED, "ads, taxi")
    assert least([LIBRARY, COMPOSED]) == COMPOSED
    assert least([LIBRARY, UNKNOWN]) is UNKNOWN
    assert least([]) == LIBRARY


def test_a_budget_rests_on_the_word_of_those_who_are_registered() -> None:
    assert budget_rests_on(Assurance.LIBRARY, ["ads.trips"]).startswith("Only the library's own")
    assert "Registered now: ads.trips." in budget_rests_on(Assurance.ASSERTED, ["ads.trips"])
    assert "Registered now: none." in budget_rests_on(Assurance.ASSERTED, [])
