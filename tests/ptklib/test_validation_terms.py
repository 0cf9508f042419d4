"""The terms of a validation: what a developer may write, and what is refused with a reason."""

from __future__ import annotations

from typing import Any

import pytest

from ptklib import CovarianceMatrix, HistoricalStatistics
from ptklib.exceptions import CorruptStateError, InvalidParameterError
from ptklib.profiling import LossEstimate
from ptklib.validation import (
    AcceptTerms,
    AccuracyValidator,
    LossValidator,
    Metric,
    MinimumValidator,
    Verdict,
    look_failure,
    next_failure,
)
from ptklib.validation.looks import spent_after

LOSS = {"metric": "loss", "confidence": 0.9, "epsilon": 0.05}


def test_terms_are_read_and_written():
    terms = AcceptTerms.of(LOSS)
    assert (terms.metric, terms.confidence, terms.epsilon) == (Metric.LOSS, 0.9, 0.05)
    assert terms.to_json() == LOSS
    rejecting = AcceptTerms.of({**LOSS, "reject_epsilon": 0.1})
    assert rejecting.to_json() == {**LOSS, "reject_epsilon": 0.1}
    assert rejecting.minimum_validator(0.1) == MinimumValidator(0.1, exact_minimiser=True, confidence=0.9)
    assert AcceptTerms.of({"metric": "accuracy", "epsilon": 1}).confidence == 0.95
    assert terms.validator(0.1) == LossValidator(0.1, confidence=0.9)
    assert AcceptTerms.of({**LOSS, "metric": "accuracy"}).validator(0.9) == AccuracyValidator(
        0.9, confidence=0.9
    )


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (None, "accept names"),
        ("loss", "accept names"),
        ({"metric": "loss"}, "accept names"),
        ({**LOSS, "tau": 0.1}, "accept names"),
        ({**LOSS, "metric": "auc"}, "one of loss, accuracy, error"),
        ({**LOSS, "metric": ["loss"]}, "one of loss, accuracy, error"),
        ({**LOSS, "confidence": 0}, "confidence must be"),
        ({**LOSS, "confidence": 1.0}, "confidence must be"),
        ({**LOSS, "confidence": True}, "confidence must be a number"),
        ({**LOSS, "epsilon": 0}, "epsilon must be"),
        ({**LOSS, "epsilon": "1"}, "epsilon must be a number"),
        ({**LOSS, "reject_epsilon": 0}, "epsilon must be"),
        ({**LOSS, "reject_epsilon": None}, "epsilon must be a number"),
    ],
)
def test_terms_that_cannot_be_used_are_refused(given: Any, reason: str):
    with pytest.raises(InvalidParameterError, match=reason):
        AcceptTerms.of(given)


def test_a_family_without_the_loss_is_refused():
    means = HistoricalStatistics(
        ["hour"], ["speed"], domains={"hour": [0]}, bounds={"speed": (0, 60)}, epsilon=1.0
    )
    AcceptTerms.of(LOSS).check_family(means)
    with pytest.raises(InvalidParameterError, match="no loss of single rows"):
        AcceptTerms.of(LOSS).check_family(
            CovarianceMatrix(bounds={"speed": (0, 60)}, epsilon=1.0, delta=1e-6)
        )
    with pytest.raises(InvalidParameterError, match="predicts no class of a row"):
        AcceptTerms.of({**LOSS, "metric": "accuracy"}).check_family(means)
    error = AcceptTerms.of({**LOSS, "metric": "error"})
    error.check_family(means)
    error.check_target(59.0, means)  # in the unit of the value
    with pytest.raises(InvalidParameterError, match="the target of an error must be positive"):
        error.check_target(0.0, means)
    with pytest.raises(InvalidParameterError, match="ErrorValidator"):
        AcceptTerms.of({**LOSS, "metric": "error"}).validator(0.1)


@pytest.mark.parametrize(
    "change", [{"decision": "maybe"}, {"look": 0}, {"bound": float("nan")}, {"extra": 1}]
)
def test_a_verdict_that_is_none_is_not_read(change: dict[str, Any]):
    good = {"decision": "retry", "metric": "loss", "target": 0.1, "bound": 0.2, "estimate": None}
    good |= {"confidence": 0.9, "look": 1}
    for document in (good, {**good, "failure": 0.05}):  # one that an older program wrote has none
        assert Verdict.from_json(document).to_json() == document
    with pytest.raises(CorruptStateError):
        Verdict.from_json({**good, **change})


def test_a_verdict_is_read_without_what_a_record_says_beside_it():
    plain = {"decision": "accept", "metric": "loss", "target": 0.1, "bound": 0.05, "estimate": 0.04}
    plain |= {"confidence": 0.9, "look": 1}
    labelled = {**plain, "assurance": "asserted", "asserted_by": "taxi", "windows": [1, 2], "minimum": {}}
    assert Verdict.from_json(labelled) == Verdict.from_json(plain)


def test_looks_share_what_the_present_confidence_allows():
    """Whatever the confidence of earlier looks was, all of them together stay below the present eta."""
    spent = 0.0
    for look in range(1, 6):
        assert next_failure(0.95, look, spent) == pytest.approx(look_failure(0.95, look))
        assert next_failure(0.95, look, None) == look_failure(0.95, look)
        spent += next_failure(0.95, look, spent)
    for look in range(6, 2_000):
        spent += next_failure(0.955, look, spent)
    assert 0.0449 < spent < 0.045
    with pytest.raises(InvalidParameterError, match=r"earlier looks .* leaves nothing"):
        next_failure(0.96, 2_000, spent)


@pytest.mark.parametrize(("looks", "used"), [(0, 0.0), (3, 0.05 * 3 / 4), (4, 0.01), (700, 0.0499)])
@pytest.mark.parametrize("n", [0, 1, 2, 1_033])
def test_what_many_equal_looks_use_is_known_without_taking_each(looks: int, used: float, n: int):
    one_by_one = used
    for look in range(looks + 1, looks + n + 1):
        one_by_one += next_failure(0.95, look, one_by_one)
    assert spent_after(0.95, n, looks, used) == pytest.approx(one_by_one, rel=1e-12, abs=1e-15)


def test_many_looks_after_which_nothing_is_left_use_nothing():
    assert spent_after(0.97, 10, 1, 0.04) == 0.04
    assert spent_after(0.95, 10**18, 0, 0.0) <= 1 - 0.95


def test_a_verdict_says_how_probably_it_is_wrong():
    sums = LossEstimate(1.0, 0, 400 << 20)
    first, second = (LossValidator(0.5).verdict(sums, 2, spent) for spent in (None, 0.04))
    assert (first.failure, second.failure) == (pytest.approx(0.05 / 6), pytest.approx(0.01 / 3))
    assert second.bound > first.bound
    assert AccuracyValidator(0.5).verdict(sums, 2, 0.04).failure == second.failure
