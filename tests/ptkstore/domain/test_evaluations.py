"""What a PTK pays for an estimate, and what looks may be wrong with together."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptklib.validation.looks import LOOKS_MOST, look_failure
from ptkstore.domain.evaluations import AskedSums, RiskMass, evaluation_sums
from ptkstore.domain.validations import EarlierLooks, Validation, since_accepted
from ptkstore.errors import InvalidRequest
from tests.support.builders import NOW, PTK


@pytest.mark.parametrize("wrong", [0.1, [], {}, {"confidence": 0.9}, {"epsilon": 0}, {"epsilon": "a"}])
def test_an_estimate_that_names_no_epsilon_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidRequest, match="evaluate"):
        evaluation_sums({"evaluate": wrong})


def test_an_estimate_has_no_other_terms() -> None:
    assert evaluation_sums({"evaluate": {"epsilon": 0.1}}) == AskedSums(0.1, "loss", None)
    assert evaluation_sums({}) is None
    with pytest.raises(InvalidRequest, match="what an estimate costs"):
        evaluation_sums({"evaluate": {"epsilon": 0.1, "confidence": 0.9}})


def look(number: int, verdict: dict[str, float], elected: int = 0) -> Validation:
    return Validation(PTK, f"validate/{number}", number, number, 0.1, RiskMass(1, 2), verdict, NOW, elected)


def test_a_verdict_that_tells_no_failure_has_that_of_its_look() -> None:
    assert look(1, {"confidence": 0.9}).failure == look_failure(0.9, 1)
    assert look(3, {"confidence": 0.9}).failure == look_failure(0.9, 3)
    assert look(3, {"confidence": 0.9, "failure": 0.001}).failure == 0.001


@given(st.lists(st.booleans(), max_size=12))
def test_looks_count_from_the_last_that_was_accepted(accepted: list[bool]) -> None:
    looks = [look(n, {"confidence": 0.9}, elected=int(won)) for n, won in enumerate(accepted, start=1)]
    last = max((place for place, won in enumerate(accepted) if won), default=-1)
    assert since_accepted(looks) == tuple(looks[last + 1 :])


CONFIDENCES = st.sampled_from([0.5, 0.9, 0.95, 0.99])


@given(st.integers(0, 30), CONFIDENCES, CONFIDENCES)
def test_known_looks_and_forgotten_ones_stay_below_eta_together(
    known: int, before: float, now: float
) -> None:
    looks = EarlierLooks.of([look(n, {"confidence": before}) for n in range(1, known + 1)])
    assert looks.number == known
    after = looks.and_forgotten(5, now)
    if looks.failure < 1 - now:
        assert looks.failure < after.failure < 1 - now
        assert after.number == known + 5
    else:
        assert not looks.leaves_room(now)
        assert after == looks


@given(st.integers(1, 40), st.integers(1, 40), CONFIDENCES)
def test_forgotten_looks_count_like_known_ones_of_their_confidence(
    n: int, more: int, confidence: float
) -> None:
    forgotten = EarlierLooks().and_forgotten(n, confidence)
    known = EarlierLooks.of([look(k, {"confidence": confidence}) for k in range(1, n + 1)])
    assert forgotten.number == known.number
    assert forgotten.failure == pytest.approx(known.failure)
    at_once = EarlierLooks().and_forgotten(n + more, confidence)
    in_parts = forgotten.and_forgotten(more, confidence)
    assert at_once.number == in_parts.number
    assert at_once.failure == pytest.approx(in_parts.failure)


def test_no_look_follows_the_last_there_can_be() -> None:
    last = EarlierLooks().and_forgotten(LOOKS_MOST + 7, 0.9)
    assert last.number == LOOKS_MOST
    assert not last.leaves_room(0.9)
    assert last.and_forgotten(1, 0.9) == last
    assert EarlierLooks().and_forgotten(LOOKS_MOST - 1, 0.9).leaves_room(0.9)
    assert EarlierLooks().and_forgotten(0, 0.9) == EarlierLooks()
