"""How many reports came, as it is told."""

from __future__ import annotations

import pytest

from ptkstore.domain.streams.report_counts import REPORTS_STEP, counted_since, reports_told, told


@pytest.mark.parametrize(
    ("count", "shown"),
    [(0, 0), (1, 16), (16, 16), (17, 32), (32, 32), (33, 64), (1_000, 1_024), (1_024, 1_024), (1_025, 2_048)],
)
def test_a_refused_count_is_told_as_a_power_of_two_that_it_does_not_exceed(count: int, shown: int) -> None:
    assert told(count) == shown


def test_reports_that_were_taken_are_apart_from_those_refused_by_reason() -> None:
    counts = {"put": 600, "range": 3, "norm": 40, "ticket-used": 0}
    assert reports_told(counts) == {"taken": 640, "refused": {"norm": 64, "range": 16}}
    assert reports_told({}) == {"taken": 0, "refused": {}}


@pytest.mark.parametrize(
    ("count", "shown"), [(0, 0), (1, 128), (128, 128), (129, 256), (1_000, 1_024), (1_025, 1_152)]
)
def test_what_was_taken_is_told_in_the_steps_of_the_number_in_all(count: int, shown: int) -> None:
    assert reports_told({"put": count})["taken"] == shown
    assert shown % REPORTS_STEP == 0


def test_a_window_counts_on_from_the_one_that_is_named() -> None:
    marks = {3: {"put": 10}, 4: {"put": 30, "range": 1}}
    now = {"put": 100, "range": 5, "norm": 2}
    assert counted_since(4, marks, now) == {"put": 70, "range": 4, "norm": 2}
    assert counted_since(3, marks, now) == {"put": 90, "range": 5, "norm": 2}
    assert counted_since(None, marks, now) == now
    assert counted_since(1, marks, now) == {"put": 70, "range": 4, "norm": 2}  # its mark is gone
    assert counted_since(1, {}, now) == now
