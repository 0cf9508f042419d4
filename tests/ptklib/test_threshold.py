"""Noisy thresholds that outlive a process: paid once, kept until "above", then silent."""

from __future__ import annotations

import copy
import json
import pickle
from fractions import Fraction
from typing import Any

import pytest

from ptklib.accounting import pure_epsilon
from ptklib.exceptions import PrivacyParameterError
from ptklib.mechanisms import DrawnThreshold, threshold
from ptklib.mechanisms.comparisons import Comparison
from ptklib.mechanisms.threshold import first_above

HIGH, LOW = 10**6, -(10**6)
COMPARISON = Comparison(2, Fraction(1, 2), monotonic=True)


def drawn(comparison: Comparison = COMPARISON) -> DrawnThreshold:
    return DrawnThreshold.draw(comparison, pay=lambda loss: None)


def test_a_threshold_is_paid_before_it_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """B1: the payment comes first, and covers both noises."""

    def refused(loss: Any) -> None:
        assert loss.epsilon == 0.5
        assert pure_epsilon(loss.event) == pytest.approx(0.5)
        raise PermissionError("the block is full")

    monkeypatch.setattr(threshold, "laplace", lambda *a, **k: pytest.fail("nothing may be drawn"))
    with pytest.raises(PermissionError):
        DrawnThreshold.draw(COMPARISON, pay=refused)


def test_a_threshold_that_has_answered_above_answers_nothing_more() -> None:
    """B1: a second answer above has to be paid for."""
    one = drawn()
    assert [one.is_above(LOW), one.is_above(LOW), one.spent, one.is_above(HIGH)] == [
        False,
        False,
        False,
        True,
    ]
    assert one.spent
    for value in (LOW, HIGH):
        with pytest.raises(PrivacyParameterError):
            one.is_above(value)
    again = DrawnThreshold.restore(one.secret())
    assert again.spent
    with pytest.raises(PrivacyParameterError):
        again.is_above(LOW)


def test_a_restored_threshold_is_the_same_one_and_draws_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    one = drawn()
    assert one.is_above(LOW) is False
    secret = one.secret()
    noisy = json.loads(secret)["noisy"]
    monkeypatch.setattr(threshold, "laplace", lambda units, **scale: units)
    again = DrawnThreshold.restore(secret)
    assert again.comparison == COMPARISON
    assert again.secret() == secret
    assert again.is_above(noisy - 1) is False
    assert again.secret() == secret
    assert again.is_above(noisy) is True


def test_a_spent_or_forgotten_threshold_keeps_no_noise() -> None:
    spent, forgotten = drawn(), drawn()
    spent.is_above(HIGH)
    forgotten.forget()
    for one in (spent, forgotten):
        assert json.loads(one.secret())["noisy"] is None
        with pytest.raises(PrivacyParameterError):
            one.is_above(HIGH)


def test_a_secret_is_as_long_whatever_its_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths = set()
    for noise in (0, 7, -12_345, 2**40, LOW, HIGH):
        monkeypatch.setattr(threshold, "_noised", lambda exact, *scale, noise=noise: [noise])
        one = drawn()
        assert json.loads(one.secret())["noisy"] == noise
        lengths.add(len(one.secret()))
        one.forget()
        lengths.add(len(one.secret()))
    assert len(lengths) == 1


def test_a_threshold_is_neither_copied_nor_shown() -> None:
    one = drawn()
    for leak in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError):
            leak(one)
    assert repr(one) == "DrawnThreshold(epsilon=0.5, spent=False)"
    with pytest.raises(TypeError):
        vars(one)


GOOD = {"epsilon": [1, 2], "monotonic": True, "noisy": 4711, "sensitivity": 2}


@pytest.mark.parametrize(
    "wrong",
    [
        {"epsilon": [1, 0]},
        {"epsilon": [0, 1]},
        {"epsilon": 4711},
        {"epsilon": [True, 2]},
        {"monotonic": 1},
        {"noisy": 4711.5},
        {"noisy": "4711"},
        {"sensitivity": 0},
        {"more": 1},
    ],
)
def test_bytes_that_are_no_secret_are_refused_without_being_shown(wrong: dict[str, Any]) -> None:
    DrawnThreshold.restore(json.dumps(GOOD).encode())
    with pytest.raises(PrivacyParameterError) as found:
        DrawnThreshold.restore(json.dumps(GOOD | wrong).encode())
    assert "4711" not in str(found.value)
    assert found.value.__cause__ is None


@pytest.mark.parametrize("wrong", [b"", b"\xff4711", b"[]", b"4711", b"[" * 100_000])
def test_bytes_that_are_no_json_are_refused(wrong: bytes) -> None:
    with pytest.raises(PrivacyParameterError):
        DrawnThreshold.restore(wrong)


def test_values_are_compared_in_turn_until_enough_are_above() -> None:
    several = [drawn() for _ in range(5)]
    assert first_above(several, [HIGH, LOW, HIGH, HIGH, LOW], most=2) == [True, False, True]
    assert [one.spent for one in several] == [True, False, True, False, False]


def test_one_threshold_is_not_compared_twice_at_once() -> None:
    one, other, spent = drawn(), drawn(Comparison(3, 0.5)), drawn()
    spent.is_above(HIGH)
    for several in ([one, one], [one, other], [spent], [one, spent]):
        with pytest.raises(PrivacyParameterError):
            first_above(several, [HIGH] * len(several), most=9)
    with pytest.raises(PrivacyParameterError):
        first_above([one], [HIGH, HIGH], most=1)
    with pytest.raises(PrivacyParameterError):
        first_above([one], [HIGH], most=0)
    assert not one.spent
    assert first_above([], [], most=1) == []
