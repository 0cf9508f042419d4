"""Of many refused callers one a minute is on record, and a line that cannot be written keeps nobody waiting."""

from __future__ import annotations

import pytest

from ptkstore.application.identity.refused_callers import AGAIN_SECONDS, EVERY_SECONDS, NOBODY, RefusedCallers
from ptkstore.domain.identity import Principal
from ptkstore.errors import Unavailable


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_first_is_told_of_and_then_one_a_minute() -> None:
    clock = Clock()
    refused, told = RefusedCallers(clock), list[tuple[float, Principal]]()
    for clock.now in (0.0, 1.0, EVERY_SECONDS - 1, EVERY_SECONDS, EVERY_SECONDS + 1, 10 * EVERY_SECONDS):
        refused.tell(lambda nobody: told.append((clock.now, nobody)))
    assert told == [(0.0, NOBODY), (EVERY_SECONDS, NOBODY), (10 * EVERY_SECONDS, NOBODY)]


def test_a_line_that_cannot_be_written_is_tried_again_with_the_next_after_a_second() -> None:
    clock = Clock()
    refused, tried = RefusedCallers(clock), list[float]()

    def record(_: Principal) -> None:
        tried.append(clock.now)
        if clock.now < AGAIN_SECONDS:
            raise Unavailable("the catalog does not answer")

    with pytest.raises(Unavailable):
        refused.tell(record)
    for clock.now in (0.0, AGAIN_SECONDS / 2, AGAIN_SECONDS, AGAIN_SECONDS + 1, EVERY_SECONDS):
        refused.tell(record)
    assert tried == [0.0, AGAIN_SECONDS]


def test_nobody_may_do_anything() -> None:
    assert (NOBODY.team, NOBODY.token_id, NOBODY.scopes) == ("-", "-", frozenset())
