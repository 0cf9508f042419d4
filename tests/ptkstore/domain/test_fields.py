"""How a field is declared: what it may hold, and its way through JSON and signed reports."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptkstore.domain.fields import (
    Declared,
    Flag,
    LeastAndMost,
    Moment,
    OneOf,
    PositiveNumber,
    Share,
    Span,
    WholeNumber,
    declared_fields,
    declared_in,
    declared_json,
    fields_of,
    time_of,
)
from ptkstore.errors import InvalidRequest


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True)
class Record:
    count: Annotated[int, WholeNumber("How many.", most=10, argument="n")]
    span: Annotated[timedelta, Span("How long.", reported=None)]
    by_hand: str = ""
    whole: Annotated[timedelta, Span("How long.", whole=True)] = timedelta(hours=1)
    colour: Annotated[Colour, OneOf("Which.", members=Colour, argument=None)] = Colour.RED
    share: Annotated[Decimal, Share("How much.")] = Decimal("0.1")
    at: Annotated[datetime, Moment("When.")] = datetime(2026, 1, 5, tzinfo=UTC)
    pair: Annotated[tuple[int, int], LeastAndMost("From, to.", limit=9, later=True)] = (1, 1)
    flag: Annotated[bool, Flag("Whether.", later=True)] = False


FIELDS = declared_fields(Record)
NAMED = {one.name: one for one in FIELDS}
EXAMPLE = Record(3, timedelta(seconds=1.5), pair=(2, 5), colour=Colour.BLUE)


def test_a_declaration_has_the_names_and_the_default_of_its_field() -> None:
    assert list(NAMED) == ["count", "span", "whole", "colour", "share", "at", "pair", "flag"]
    count, span, colour = NAMED["count"], NAMED["span"], NAMED["colour"]
    assert (count.key, count.argument, count.reported, count.default) == ("count", "n", "count", None)
    assert (span.key, span.argument, span.reported) == ("span_seconds", "span", None)
    assert (colour.argument, colour.default) == (None, Colour.RED)


def test_json_has_every_declared_field_and_no_other() -> None:
    assert declared_json(EXAMPLE, FIELDS) == {
        "count": 3,
        "span_seconds": 1.5,
        "whole_seconds": 3600,
        "colour": "blue",
        "share": "0.1",
        "at": "2026-01-05T00:00:00+00:00",
        "pair": [2, 5],
        "flag": False,
    }
    assert fields_of(EXAMPLE)["by_hand"] == ""


def test_what_came_later_is_left_out_of_hashed_texts_where_it_is_as_before() -> None:
    assert "flag" not in declared_json(EXAMPLE, FIELDS, with_later=False)
    assert declared_json(EXAMPLE, FIELDS, with_later=False)["pair"] == [2, 5]
    content = declared_json(EXAMPLE, FIELDS, with_later=False)
    assert "flag" not in declared_in(content, FIELDS)
    with pytest.raises(KeyError):  # what was always there is never left out
        declared_in({}, FIELDS)


@given(
    count=st.integers(1, 10),
    span=st.timedeltas(timedelta(0), timedelta(days=3650)),
    hours=st.integers(0, 10**5),
    colour=st.sampled_from(Colour),
    share=st.decimals(0, 1, places=9),
    at=st.datetimes(timezones=st.just(UTC)),
    pair=st.tuples(st.integers(1, 9), st.integers(1, 9)),
    flag=st.booleans(),
)
def test_a_record_survives_a_way_through_json(hours: int, **values: Any) -> None:
    record = Record(**values, whole=timedelta(hours=hours))
    assert Record(**declared_in(json.loads(json.dumps(declared_json(record, FIELDS))), FIELDS)) == record


@pytest.mark.parametrize(
    ("field", "wrong", "right"),
    [
        (NAMED["count"], [0, 11, True, 1.0, "1", None], [1, 10]),
        (NAMED["flag"], [0, 1, "true", None], [True, False]),
        (
            NAMED["pair"],
            [3, (1,), (1, 2, 3), (True, 2), (1, 2.0), (3, 2), (0, 2), (1, 10), None, "12"],
            [(1, 9), [2, 2]],
        ),
        (
            PositiveNumber().named("target", 1.0),
            [0, -1.0, float("nan"), float("inf"), True, "1", None],
            [1, 1e-300, 1e300],
        ),
    ],
    ids=["count", "flag", "pair", "positive"],
)
def test_a_field_holds_what_it_may_and_its_name_is_told(
    field: Declared, wrong: list[Any], right: list[Any]
) -> None:
    for value in wrong:
        with pytest.raises(InvalidRequest, match=field.name):
            field.check(value)
    for value in right:
        field.check(value)


def test_reports_hold_no_binary_fraction() -> None:
    assert PositiveNumber().to_report(0.1) == "0.1"
    assert NAMED["span"].to_report(timedelta(seconds=90.7)) == 90
    assert NAMED["pair"].to_report((1, 2)) == [1, 2]
    assert NAMED["share"].to_report(Decimal("0.25")) == "0.25"


@pytest.mark.parametrize("seconds", [1e30, 1e15])
def test_a_span_that_no_program_could_have_written_is_refused(seconds: float) -> None:
    with pytest.raises(InvalidRequest, match="too long"):
        NAMED["span"].of_json(seconds)


@pytest.mark.parametrize("text", ["", "soon", "2026-13-01", "0001-01-01T00:00:00+14:00", "2026-01-01T25:00"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match="ISO 8601"):
        time_of(text)


def test_a_time_is_brought_to_utc() -> None:
    there = datetime(2026, 1, 5, 12, tzinfo=timezone(timedelta(hours=2)))
    assert time_of(there.isoformat()) == there
    assert time_of(there.isoformat()).tzinfo is UTC
