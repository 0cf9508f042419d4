"""What a profile tells, for how long it is used, and what a window may do for it."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import pytest

from ptkstore.domain.accounting.losses import Loss
from ptkstore.domain.ptks.profiles import (
    Paid,
    Point,
    ProfileAsk,
    ProfileRecord,
    ProfileState,
    Step,
    Verdict,
    next_step,
    usable,
)
from ptkstore.domain.streams.blocks import BlockRange

ASK = ProfileAsk(
    "taxi", "common", "f" * 64, 0.2, (0.1, 0.5), 1.0, 64, 256, 2.0, 4, (0.0, 1.0), "rows", 100, 0.95, 3, 1_000, (0, 1),
    30, 0.1,
)  # fmt: skip
OPEN = ProfileRecord(ASK.key, 1, "taxi", 7, "profile/a/7", tries=1)
FOUND, MORE, NEVER = Verdict.FOUND, Verdict.NEEDS_MORE, Verdict.UNREACHABLE
ANSWERED = replace(OPEN, state=ProfileState.ANSWERED, points=(Point(0.1, FOUND, 256), Point(0.5, FOUND, 64)))


def test_an_ask_survives_a_way_through_json() -> None:
    assert ProfileAsk.of(json.loads(json.dumps(asdict(ASK)))) == ASK


@pytest.mark.parametrize("change", [{"max_age": 5}, {"drift": None}])
def test_how_long_a_profile_is_used_does_not_make_it_another(change: dict[str, object]) -> None:
    assert replace(ASK, **change).key == ASK.key  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "change",
    [
        {"stream": "bikes"},
        {"line": "context north"},
        {"fingerprint": "0" * 64},
        {"target": 0.21},
        {"epsilons": (0.1,)},
        {"budget": 1.1},
        {"confidence": 0.9},
        {"population": 1_001},
        {"groups": (0, 2)},
    ],
)
def test_what_a_profile_is_of_makes_it_another(change: dict[str, object]) -> None:
    assert replace(ASK, **change).key != ASK.key  # type: ignore[arg-type]


def test_the_menu_falls_with_epsilon_and_holds_what_was_found_alone() -> None:
    points = (Point(0.1, MORE, 256), Point(0.2, FOUND, 128), Point(0.3, FOUND, 128), Point(0.5, FOUND, 64))
    assert replace(OPEN, points=points).menu == ((0.2, 128), (0.5, 64))
    assert replace(OPEN, points=(Point(0.1, FOUND, 64), Point(0.5, FOUND, 128))).menu == ((0.1, 64),)
    assert replace(OPEN, points=(Point(0.1, NEVER),)).menu == ()


@pytest.mark.parametrize(
    ("answers", "tries", "state"),
    [
        ((FOUND, FOUND), 1, ProfileState.ANSWERED),
        ((NEVER, FOUND), 1, ProfileState.ANSWERED),
        ((MORE, FOUND), 2, ProfileState.OPEN),
        ((MORE, FOUND), 3, ProfileState.GIVEN_UP),
    ],
)
def test_a_profile_is_open_until_all_is_answered_or_all_windows_are_used(
    answers: tuple[Verdict, Verdict], tries: int, state: ProfileState
) -> None:
    told = [Point(e, verdict, 128) for e, verdict in zip(ASK.epsilons, answers, strict=True)]
    assert replace(OPEN, tries=tries, code="timeout").with_answers(told, ASK) == replace(
        OPEN, tries=tries, state=state, points=tuple(told)
    )


def test_a_profile_that_tried_the_largest_sample_is_given_up() -> None:
    assert (
        OPEN.with_answers([Point(0.1, MORE, 256), Point(0.5, FOUND, 256)], ASK).state is ProfileState.GIVEN_UP
    )


def test_later_answers_replace_needs_more_and_leave_the_others() -> None:
    first = OPEN.with_answers([Point(0.1, MORE, 128), Point(0.5, FOUND, 128)], ASK)
    assert (first.unanswered(ASK.epsilons), first.n_tried) == ((0.1,), 128)
    both = first.with_answers([Point(0.1, FOUND, 256)], ASK)
    assert both.points == (Point(0.1, FOUND, 256), Point(0.5, FOUND, 128))
    assert (both.unanswered(ASK.epsilons), both.n_tried) == ((), 0)


def test_a_charge_counts_as_a_try_of_an_open_profile_alone() -> None:
    paid = Paid("profile", 8, BlockRange(0, 1), Loss(1))
    assert (OPEN.charged(paid).tries, OPEN.charged(paid).paid) == (2, (paid,))
    assert ANSWERED.charged(replace(paid, what="drift")).tries == 1


def test_the_newest_settled_profile_is_used_unless_it_drifted() -> None:
    renewal = replace(OPEN, number=2, points=(Point(0.5, FOUND, 32),))
    assert usable([]) is None
    assert usable([OPEN]) == OPEN
    assert usable([ANSWERED, renewal]) == ANSWERED
    assert usable([ANSWERED, replace(renewal, state=ProfileState.GIVEN_UP)]).number == 2  # type: ignore[union-attr]
    drifted = replace(ANSWERED, drifted_at=9)
    assert usable([drifted]) is None
    assert usable([drifted, renewal]) == renewal


@pytest.mark.parametrize(
    ("newest", "window", "running", "step"),
    [
        (None, 0, False, Step.START),
        (OPEN, 8, False, Step.GO_ON),
        (OPEN, 8, True, Step.REST),
        (replace(OPEN, tries=3), 8, False, Step.GIVE_UP),
        (replace(OPEN, tries=0), 8, False, Step.GO_ON),
        (ANSWERED, 37, False, Step.TEST),
        (ANSWERED, 38, False, Step.START),
        (ANSWERED, 38, True, Step.REST),
        (replace(ANSWERED, drifted_at=9), 10, False, Step.START),
        (replace(OPEN, state=ProfileState.GIVEN_UP), 10, False, Step.REST),
        (replace(OPEN, state=ProfileState.GIVEN_UP), 38, False, Step.START),
    ],
)
def test_what_a_window_may_do(newest: ProfileRecord | None, window: int, running: bool, step: Step) -> None:
    assert next_step(newest, [ASK], window, running=running) is step


def test_the_shortest_age_of_those_who_share_counts_and_any_of_them_may_watch() -> None:
    asks = [replace(ASK, drift=None), replace(ASK, max_age=3)]
    assert next_step(ANSWERED, asks, 10, running=False) is Step.TEST
    assert next_step(ANSWERED, asks, 11, running=False) is Step.START
    assert next_step(ANSWERED, asks[:1], 11, running=False) is Step.REST
