"""Times that are read as UTC, and written as sentences say them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from ptkstore.domain.times import utc, utc_text
from ptkstore.errors import InvalidRequest

ORIGIN = datetime(2026, 1, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("2026-01-05", ORIGIN),
        ("2026-01-05T06:00", ORIGIN + timedelta(hours=6)),
        ("2026-01-05T06:00+02:00", ORIGIN + timedelta(hours=4)),
        (datetime(2026, 1, 5), ORIGIN),
        (datetime(2026, 1, 5, 1, tzinfo=timezone(timedelta(hours=1))), ORIGIN),
    ],
)
def test_times_are_utc_unless_they_say_otherwise(given: datetime | str, meant: datetime) -> None:
    assert utc(given) == meant
    assert utc(given).tzinfo is UTC


@pytest.mark.parametrize(
    "given", ["soon", "", "2026-13-01", "0001-01-01T00:00+05:00", "9999-12-31T23:00-05:00"]
)
def test_what_is_no_time_is_refused(given: str) -> None:
    with pytest.raises(InvalidRequest):
        utc(given)


@pytest.mark.parametrize(
    ("at", "text"),
    [
        (ORIGIN, "2026-01-05 00:00 UTC"),
        (ORIGIN + timedelta(hours=6, seconds=7), "2026-01-05 06:00:07 UTC"),
        (ORIGIN + timedelta(microseconds=8), "2026-01-05 00:00:00.000008 UTC"),
        (datetime(2026, 1, 5, 1, tzinfo=timezone(timedelta(hours=1))), "2026-01-05 00:00 UTC"),
    ],
)
def test_a_sentence_says_a_time_in_utc_and_loses_nothing_of_it(at: datetime, text: str) -> None:
    assert utc_text(at) == text
    assert utc(text.removesuffix(" UTC")) == at
