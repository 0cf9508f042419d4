"""When a version is elected that waits for no release tick."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from ptkstore.domain.versions.versions import Version, election_time
from tests.support.world import ORIGIN

HALF = timedelta(milliseconds=500)
STEP = timedelta(microseconds=1)


@pytest.mark.parametrize(
    ("now", "newest", "elected"),
    [
        (ORIGIN + HALF, None, ORIGIN),
        (ORIGIN + HALF, ORIGIN - STEP, ORIGIN),
        (ORIGIN + HALF, ORIGIN, ORIGIN + HALF),
        (ORIGIN - HALF, ORIGIN, ORIGIN - HALF),
    ],
    ids=["first", "later", "in the same second", "by a clock that went back"],
)
def test_it_is_told_to_the_second_unless_the_newest_version_is_of_it_and_never_late(
    now: datetime, newest: datetime | None, elected: datetime
) -> None:
    before = None if newest is None else Version("taxi.speed", 1, "train/1", "draft", 0, newest, "{}")
    assert election_time(now, before) == elected
