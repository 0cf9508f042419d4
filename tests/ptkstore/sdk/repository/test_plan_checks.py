"""Families of the library are held against the contract before they are registered, as long as there is time."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import numpy as np
import pytest

from ptklib import DrawDiscardModel, HistoricalStatistics
from ptklib.checks import rows
from ptklib.exceptions import InvalidParameterError
from ptklib.mechanisms import additive
from ptkstore.sdk.repository import plan_checks
from ptkstore.sdk.repository.plan_checks import FEW_RUNS, RUNS, FamilyChecks


def speeds(epsilon: float = 0.1) -> HistoricalStatistics:
    return HistoricalStatistics(
        keys=["hour"],
        values=["speed"],
        domains={"hour": [0, 1]},
        bounds={"speed": (0.0, 60.0)},
        epsilon=epsilon,
    )


@pytest.fixture(autouse=True)
def a_machine_that_is_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_checks, "SECONDS", 3600.0)
    monkeypatch.setattr(plan_checks, "SECONDS_EACH", 3600.0)


def test_all_checks_are_made_and_the_audit_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    found = FamilyChecks(audit=True).of(speeds().to_spec())
    assert (found.status, found.reason) == ("passed", f"15 checks, an audit of {RUNS} trainings")
    found = FamilyChecks(audit=False).of(speeds().to_spec())
    assert (found.status, found.reason) == ("passed", "15 checks, without the audit")


@pytest.mark.parametrize("more", [{}, {"clip": "coordinate"}, {"devices": "phone"}])
def test_a_model_that_devices_train_is_held_against_what_a_local_loss_promises(more: dict[str, str]) -> None:
    model = DrawDiscardModel({"speed": (0.0, 60.0)}, "long", k=3, epsilon=3.0, **more)
    found = FamilyChecks(audit=True).of(model.to_spec())
    assert (found.status, found.reason) == ("passed", "12 checks, without an audit")


def test_noise_that_is_missing_is_found_by_the_audit(monkeypatch: pytest.MonkeyPatch) -> None:
    real = additive._noised

    def silent(units: object, *more: object) -> object:
        real(np.zeros(1, dtype=np.int64), *more)  # drawn, and put nowhere
        return np.array(units)

    checks = FamilyChecks(audit=True)
    monkeypatch.setattr(additive, "_noised", silent)
    found = checks.of(speeds().to_spec())
    assert found.status == "failed"
    assert f"check_audit_stays_below_epsilon: {2 * FEW_RUNS} runs prove" in found.reason


def test_an_estimator_that_keeps_more_than_it_declares_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    real = HistoricalStatistics.finalize

    def keeps(self: HistoricalStatistics, *parts: object, **more: object) -> HistoricalStatistics:
        self.rows_ = parts
        return real(self, *parts, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(HistoricalStatistics, "finalize", keeps)
    found = FamilyChecks(audit=True).of(speeds().to_spec())
    assert found.status == "failed"
    assert "check_holds_nothing_beyond_declared" in found.reason


def test_a_column_of_unknown_values_makes_no_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(name: str, params: object) -> rows.Column:
        raise InvalidParameterError(f"nothing is declared of column {name!r}")

    monkeypatch.setattr(rows, "_declared", unknown)
    found = FamilyChecks(audit=True).of(speeds().to_spec())
    assert found.status == "not-run"
    assert "no rows can be made up" in found.reason


def test_equal_estimators_are_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    real = FamilyChecks._checked
    monkeypatch.setattr(FamilyChecks, "_checked", lambda self, spec: (made.append(spec), real(self, spec))[1])
    checks = FamilyChecks(audit=False)
    for epsilon in (0.1, 0.1, 0.2):
        assert checks.of(speeds(epsilon).to_spec()).status == "passed"
    assert len(made) == 2


def ticking(seconds: float) -> Callable[[], float]:
    """A clock on which so much passes between two looks."""
    ticks = count()
    return lambda: next(ticks) * seconds


def test_checks_end_when_their_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_checks, "SECONDS_EACH", 3.0)
    found = FamilyChecks(audit=True, clock=ticking(1.0)).of(speeds().to_spec())
    assert (found.status, found.reason) == (
        "partly",
        "3 of 15 checks, as they take long, no audit, as it would take too long",
    )


def test_an_audit_that_takes_long_is_not_made_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_checks, "SECONDS_EACH", 20.0)
    found = FamilyChecks(audit=True, clock=ticking(0.1)).of(speeds().to_spec())
    assert (found.status, found.reason) == ("passed", f"15 checks, an audit of {RUNS} trainings")
    monkeypatch.setattr(plan_checks, "RUNS", 10_000_000)  # which are expected to take 10,000 seconds
    found = FamilyChecks(audit=True, clock=ticking(0.1)).of(speeds().to_spec())
    assert (found.status, found.reason) == ("partly", f"15 checks, an audit of {FEW_RUNS} trainings")


def test_audits_of_one_plan_share_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        plan_checks, "SECONDS", 100.0
    )  # one look takes 1: 100 trainings to be expected after a fit
    monkeypatch.setattr(plan_checks, "SECONDS_EACH", 1000.0)
    checks = FamilyChecks(audit=True, n_ptks=2, clock=ticking(1.0))
    made = [checks.of(speeds(epsilon).to_spec()) for epsilon in (0.1, 0.2)]
    assert [(one.status, one.reason) for one in made] == [
        ("partly", "15 checks, no audit, as it would take too long"),  # half of the time is for the other one
        ("passed", f"15 checks, an audit of {RUNS} trainings"),
    ]
