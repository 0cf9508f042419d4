"""Which names an unknown name may have been meant to be, of those that whoever asks may see."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptkstore.domain.near_names import Names, names_of, near, suggest
from ptkstore.errors import Unavailable, UnknownName
from tests.support.builders import ptk_spec

WORDS = st.text("abcde_.", min_size=1, max_size=12)


@dataclass(frozen=True)
class Numbered:
    number: int


def test_a_mistyped_name_is_near_and_another_word_is_not() -> None:
    assert near("taxi.sped", ["bikes.trips", "taxi.speed"]) == "did you mean 'taxi.speed'?"
    assert near("weather", ["bikes.trips", "taxi.speed"], otherwise="look there") == "look there"
    assert near("weather", []) == ""


def test_a_name_without_its_team_comes_before_those_that_look_like_it() -> None:
    assert near("speed", ["speeds", "taxi.speed", "bikes__speed"]) == (
        "did you mean 'taxi.speed' or 'bikes__speed' or 'speeds'?"
    )


def test_three_names_are_told_at_most() -> None:
    for names in ([f"speed{n}" for n in range(2, 9)], [f"team{n}.speed1" for n in range(9)]):
        assert near("speed1", names).count(" or ") == 2


@given(WORDS, st.lists(WORDS, max_size=30))
def test_no_name_is_told_that_was_not_among_those_that_may_be_seen(name: str, seen: list[str]) -> None:
    told = near(name, seen)
    assert set(told.split("'")[1::2]) <= set(seen)
    assert len(told.split("'")[1::2]) == len(set(told.split("'")[1::2]))


@given(WORDS, st.lists(WORDS, max_size=5))
def test_the_very_name_is_always_near(name: str, others: list[str]) -> None:
    assert repr(name) in near(name, [name, *others])


def test_long_names_and_names_far_down_a_long_list_cost_nothing() -> None:
    assert near("a" * 101, ["a" * 100]) == ""
    assert near("b" * 100, ["b" * 101]) == ""
    assert near("b" * 100, ["b" * 99]) != ""
    assert near("speed", [*("x" for _ in range(1_999)), "speed"]) != ""
    assert near("speed", [*("x" for _ in range(2_000)), "speed"]) == ""


def test_a_hint_is_given_once_and_for_kinds_that_have_names() -> None:
    names: dict[str, Names] = {"stream": lambda _: ["taxi"]}
    plain, hinted, other = (
        UnknownName("stream", "taxy"),
        UnknownName("stream", "taxy", "h"),
        UnknownName("x", "taxy"),
    )
    for error in (plain, hinted, other):
        suggest(error, names)
    assert [one.hint for one in (plain, hinted, other)] == ["did you mean 'taxi'?", "h", ""]


def test_an_error_while_names_are_read_leaves_the_first_one_as_it_was() -> None:
    def fails(name: str) -> list[str]:
        raise Unavailable("the catalog is away")

    error = UnknownName("stream", "taxy")
    suggest(error, {"stream": fails})
    assert str(error) == "there is no stream 'taxy'"


def test_a_name_that_is_there_is_not_said_to_be_meant() -> None:
    lost = UnknownName("version", "taxi.speed v1")  # the catalog knows it, and its files are gone
    suggest(lost, {"version": lambda _: ["taxi.speed v1", "taxi.speed v2"]})
    assert str(lost) == "there is no version 'taxi.speed v1'"


FORM = {"keys": ["zone"], "columns": [["zone", "int64"], ["mean", "double"]]}
SPECS = [
    replace(ptk_spec("taxi.speed"), tables={"statistics": FORM}),
    replace(ptk_spec("taxi.fares"), tables={"a": FORM, "b": FORM}),
]
NAMES = names_of(lambda: ["taxi"], lambda: SPECS, lambda ptk_id: [Numbered(n) for n in range(1, 26)])


@pytest.mark.parametrize("kind", ["PTK", "published version of PTK"])
def test_ptks_are_sought_by_their_ids(kind: str) -> None:
    assert list(NAMES[kind]("x")) == ["taxi.speed", "taxi.fares"]


@pytest.mark.parametrize("kind", ["version", "published version"])
def test_versions_are_the_newest_of_a_ptk_that_is_there_and_ptks_of_one_that_is_not(kind: str) -> None:
    assert list(NAMES[kind]("taxi.speed v99")) == [f"taxi.speed v{n}" for n in range(6, 26)]
    assert list(NAMES[kind]("taxi.sped v1")) == ["taxi.speed", "taxi.fares"]


def test_streams_views_and_features_are_sought_by_their_names() -> None:
    assert list(NAMES["stream"]("x")) == ["taxi"]
    assert list(NAMES["feature view"]("x")) == [
        "ptk_state",
        "taxi__speed",
        "taxi__fares__a",
        "taxi__fares__b",
    ]
    assert list(NAMES["feature"]("x")) == ["taxi__speed:mean", "taxi__fares__a:mean", "taxi__fares__b:mean"]
