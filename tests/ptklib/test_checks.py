"""The conformance suite: every family passes it, and every fault it is about is caught."""

from collections.abc import Callable
from typing import Any, Self

import numpy as np
import pytest

from ptklib import CountFeaturizer, DPEstimator, HistoricalStatistics, PrivacyLoss
from ptklib.checks import check_ptk_estimator, examine, parametrize_with_ptk_checks, ptk_checks
from ptklib.checks import contract as c
from ptklib.checks.arrays import array_form
from ptklib.checks.event_diff import differences
from ptklib.exceptions import InvalidParameterError, SchemaError
from ptklib.mechanisms import AboveThreshold, gaussian, laplace
from ptklib.mechanisms.recording import Draw, recorded_draws
from tests.support.families import EXAMPLES, Example


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_every_family_conforms(example: Example) -> None:
    results = check_ptk_estimator(example.estimator, runs=0, on_fail=None)
    assert {(one.name, one.reason) for one in results if one.status == "failed"} == set()
    assert all(one.name.startswith("sklearn_") for one in results if one.status == "skipped")


@parametrize_with_ptk_checks([EXAMPLES[0].estimator], runs=0)
def test_a_check_can_be_a_test(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)


class KeepsLabels(CountFeaturizer):
    def fit(self, X: Any, y: Any = None, **keywords: Any) -> Self:
        super().fit(X, y, **keywords)
        self.labels_ = y
        return self


class KeepsItsShard(CountFeaturizer):
    def partial_statistics(self, X: Any, y: Any = None) -> Any:
        self._part = super().partial_statistics(X, y)
        return self._part


class DeclaresHalf(CountFeaturizer):
    """Draws the noise of twice the epsilon it declares: half as much as it says."""

    def declared_loss(self) -> PrivacyLoss:
        halved = CountFeaturizer(**{**self.get_params(), "epsilon": self.epsilon / 2})
        return halved.declared_loss()


class DeclaresAnything(CountFeaturizer):
    def declared_loss(self) -> PrivacyLoss:
        return PrivacyLoss(1.0, 0.0, {"name": "EpsilonDelta", "epsilon": 1.0, "delta": 0.0})


class SpendsMore(CountFeaturizer):
    def fit(self, X: Any, y: Any = None, **keywords: Any) -> Self:
        super().fit(X, y, **keywords)
        self.privacy_spent_ = PrivacyLoss(9.0, 0.0, self.privacy_spent_.event)
        return self


class DrawsInTransform(CountFeaturizer):
    def _transform(self, table: Any) -> Any:
        exact = np.zeros(8, dtype=np.int64)
        return super()._transform(table) + laplace(exact, l1_sensitivity=1, epsilon=1.0).mean()


class ReleasesOnlyWhatIsThere(CountFeaturizer):
    def _install(self, release: Any, n_releases: int, loss: PrivacyLoss) -> None:
        tables = {n: t.filter(np.abs(t["count_0"].to_numpy()) > 4) for n, t in release.tables.items()}
        super()._install(type(release)(tables, release.noise_std), n_releases, loss)


class RefusesMissing(CountFeaturizer):
    def _collect(self, table: Any, label: Any) -> Any:
        if any(value is None for name in self.required_columns() for value in table.column(name)):
            raise SchemaError("a value is missing")
        return super()._collect(table, label)


class QuotesAValue(CountFeaturizer):
    def _collect(self, table: Any, label: Any) -> Any:
        try:
            return super()._collect(table, label)
        except SchemaError:
            raise SchemaError(f"not a value of the domain: {table.column('hour')[0]}") from None


class AddsFractions(CountFeaturizer):
    def _collect(self, table: Any, label: Any) -> Any:
        return {name: units.astype(np.float64) for name, units in super()._collect(table, label).items()}


class ReplacesAParameter(CountFeaturizer):
    def fit(self, X: Any, y: Any = None, **keywords: Any) -> Self:
        self.domains = {name: tuple(values) for name, values in self.domains.items()}
        return super().fit(X, y, **keywords)


class NamesOtherFeatures(CountFeaturizer):
    def get_feature_names_out(self, input_features: object = None) -> Any:
        return np.array([f"f{i}" for i in range(3)], dtype=object)


class TransformsUnfitted(CountFeaturizer):
    def transform(self, X: Any) -> Any:
        return np.zeros((len(X), 4)) if not hasattr(self, "tables_") else super().transform(X)


class StartsAnew(CountFeaturizer):
    def fit(self, X: Any, y: Any = None, **keywords: Any) -> Self:
        return super().fit(X, y)


StartsAnew.__name__ = "CountFeaturizer"  # so that it has a state


class AnotherAfterStorage(CountFeaturizer):
    pass


AnotherAfterStorage.__name__ = "CountFeaturizer"

FAULTS: list[tuple[type[DPEstimator], Callable[[c.Case], None], str]] = [
    (KeepsLabels, c.check_holds_nothing_beyond_declared, "after fit the object also holds labels_"),
    (KeepsItsShard, c.check_holds_nothing_beyond_declared, "after partial_statistics .* _part"),
    (DeclaresHalf, c.check_event_is_what_was_drawn, "DiscreteLaplace at scale 1: declared 0 values, drew 8"),
    (DeclaresAnything, c.check_event_is_what_was_drawn, "'EpsilonDelta', which is no draw"),
    (DeclaresAnything, c.check_unusable_epsilon_is_refused_before_data, "accepts epsilon=0"),
    (SpendsMore, c.check_loss_is_declared_before_data, "after fit differs"),
    (DrawsInTransform, c.check_only_training_draws_noise, "outside of fit and finalize"),
    (ReleasesOnlyWhatIsThere, c.check_shapes_do_not_depend_on_data, "the shape tells the data"),
    (RefusesMissing, c.check_odd_rows_are_harmless, "an odd entry of column 'hour' of objects stops fit"),
    (QuotesAValue, c.check_errors_hold_no_value, "quotes an entry"),
    (AddsFractions, c.check_shards_merge, "not of whole numbers"),
    (ReplacesAParameter, c.check_parameters_are_kept_as_given, "replaced parameter 'domains'"),
    (NamesOtherFeatures, c.check_transform_names_its_columns, "f0|Length"),
    (TransformsUnfitted, c.check_unfitted_does_nothing, "must raise NotFittedError"),
    (StartsAnew, c.check_continues_a_previous_state, "does not count"),
    (AnotherAfterStorage, c.check_state_round_trip, "another class"),
]


def of(family: type[Any]) -> Any:
    return family(["hour"], classes=[0, 1], domains={"hour": range(4)}, epsilon=1.0)


@pytest.mark.parametrize(
    ("family", "check", "says"), FAULTS, ids=[f[0].__name__ + "-" + f[1].__name__ for f in FAULTS]
)
def test_a_fault_is_caught(family: type[Any], check: Callable[[c.Case], None], says: str) -> None:
    with pytest.raises((AssertionError, ValueError), match=says):
        check(c.Case(of(family)))
    check(c.Case(of(CountFeaturizer)))


def test_every_check_of_the_contract_catches_something() -> None:
    caught = {check for _, check, _ in FAULTS}
    assert set(c.CONTRACT) - caught == {c.check_spec_round_trip}


def test_a_spec_that_loses_a_parameter_is_caught() -> None:
    class Forgetful(CountFeaturizer):
        def to_spec(self) -> dict[str, Any]:
            spec = super().to_spec()
            spec["params"]["epsilon"] = 0.5
            return spec

    Forgetful.__name__ = "CountFeaturizer"  # so that a stored spec may ask for it
    with pytest.raises(AssertionError, match=r"read and written again differs|the loss differs"):
        c.check_spec_round_trip(c.Case(of(Forgetful)))


def test_the_suite_names_the_check_that_failed() -> None:
    with pytest.raises(
        AssertionError, match="KeepsLabels fails check_holds_nothing_beyond_declared: after fit"
    ):
        check_ptk_estimator(of(KeepsLabels), runs=0)
    results = check_ptk_estimator(of(KeepsLabels), runs=0, on_fail=None)
    failed = [result for result in results if result.status == "failed"]
    assert [result.name for result in failed] == ["check_holds_nothing_beyond_declared"]
    states = [r for r in results if r.name == "check_state_round_trip"]
    assert [(r.status, "ptklib.families" in r.reason) for r in states] == [("skipped", True)]


def test_a_failure_that_is_expected_has_a_reason_and_must_happen() -> None:
    name, reason = "check_holds_nothing_beyond_declared", "labels are public here"
    results = check_ptk_estimator(of(KeepsLabels), runs=0, expected_failed_checks={name: reason})
    assert [(r.status, r.reason) for r in results if r.name == name] == [("xfail", reason)]
    with pytest.raises(AssertionError, match="expected to fail, but passes: labels are public"):
        check_ptk_estimator(of(CountFeaturizer), runs=0, expected_failed_checks={name: reason})
    with pytest.raises(InvalidParameterError, match="no check called check_nothing"):
        list(ptk_checks(of(CountFeaturizer), expected_failed_checks={"check_nothing": reason}))


def test_what_fails_by_chance_may_pass() -> None:
    marks = {
        p.id: p.marks[0].kwargs
        for p in parametrize_with_ptk_checks([of(CountFeaturizer)], runs=0).args[1]
        if p.marks
    }
    assert marks["CountFeaturizer-sklearn_check_fit_idempotent"]["strict"] is False
    assert marks["CountFeaturizer-sklearn_check_n_features_in_after_fitting"]["strict"] is True


def test_only_instances_of_estimators_are_checked() -> None:
    for other in (CountFeaturizer, object()):
        with pytest.raises(InvalidParameterError, match="instance of a DPEstimator"):
            list(ptk_checks(other))


def test_columns_nobody_declared_are_asked_for() -> None:
    class Elsewhere(CountFeaturizer):
        def required_columns(self) -> tuple[str, ...]:
            return (*super().required_columns(), "extra")

    with pytest.raises(InvalidParameterError, match="nothing is declared of column 'extra'"):
        c.check_only_training_draws_noise(c.Case(of(Elsewhere)))
    c.check_only_training_draws_noise(c.Case(of(Elsewhere), columns={"extra": (0.0, 1.0)}))


def test_names_become_numbers_for_arrays() -> None:
    example = next(e for e in EXAMPLES if e.name == "boolean-label")
    made = array_form(example.estimator)
    assert made.required_columns() == ("x0", "x1")
    assert made.get_params()["domains"] == {"x0": [0, 1, 2], "x1": [0, 1, 2, 3]}
    assert (made.get_params()["classes"], made.get_params()["label"]) == ([0, 1], None)


def test_draws_are_recorded_while_a_record_is_kept() -> None:
    zeros = np.zeros((2, 3), dtype=np.int64)
    with recorded_draws() as draws:
        laplace(zeros, l1_sensitivity=3, epsilon=0.5)
        with recorded_draws() as inner:
            gaussian(zeros[0], scale=2.5)
    laplace(zeros, l1_sensitivity=1, epsilon=1.0)
    assert draws == [Draw("DiscreteLaplace", 6.0, 6)]
    assert inner == [Draw("DiscreteGaussian", 2.5, 3)]


def test_events_are_compared_by_mechanism_scale_and_number() -> None:
    matrix = {
        "name": "DiscreteGaussian",
        "l2_sensitivity": 1,
        "scale": 4.0,
        "scale_beside_diagonal": 3.0,
        "shape": [6],
    }
    event = {
        "name": "Composed",
        "events": [
            matrix,
            {"name": "DiscreteLaplace", "l1_sensitivity": 1, "scale": 2.0, "shape": [5], "count": 2},
        ],
    }
    right = [
        Draw("DiscreteGaussian", 4.0, 3),
        Draw("DiscreteGaussian", 3.0, 3),
        Draw("DiscreteLaplace", 2.0, 10),
    ]
    assert differences(event, right) == []
    assert differences(event, right[::-1]) == []
    wrong = [
        right[:2],
        [*right, Draw("DiscreteLaplace", 1.0, 1)],
        [*right[:2], Draw("DiscreteLaplace", 2.0, 9)],
        [*right[:2], Draw("DiscreteLaplace", 2.00001, 10)],
        [*right[:2], Draw("DiscreteGaussian", 2.0, 10)],
        [Draw("DiscreteGaussian", 4.0, 6), right[2]],
    ]
    assert all(differences(event, draws) for draws in wrong)


def test_of_one_of_several_events_all_of_one_are_drawn() -> None:
    one = {"name": "DiscreteLaplace", "l1_sensitivity": 1, "scale": 2.0, "shape": [5]}
    two = {"name": "Composed", "events": [{**one, "scale": 3.0}, {**one, "scale": 4.0}]}
    event = {"name": "Composed", "events": [one, {"name": "OneOf", "events": [{**one, "scale": 5.0}, two]}]}
    drawn = {scale: Draw("DiscreteLaplace", scale, 5) for scale in (2.0, 3.0, 4.0, 5.0)}
    assert differences(event, [drawn[2.0], drawn[5.0]]) == []
    assert differences(event, [drawn[2.0], drawn[3.0], drawn[4.0]]) == []
    for wrong in ((2.0,), (2.0, 3.0), (2.0, 3.0, 5.0), (2.0, 3.0, 4.0, 5.0), (3.0, 4.0)):
        assert differences(event, [drawn[scale] for scale in wrong])


def test_a_threshold_is_one_draw_and_comparisons_any_number() -> None:
    with recorded_draws() as draws:
        threshold = AboveThreshold(threshold=10**9, sensitivity=1, epsilon=1.0, pay=lambda loss: None)
        answers = [threshold.is_above(0) for _ in range(7)]
    assert answers == [False] * 7
    assert differences(threshold.loss.event, draws) == []
    assert differences(threshold.loss.event, draws[1:])
    assert differences(threshold.loss.event, [*draws, Draw("DiscreteLaplace", 77.0, 1)])


def test_an_examination_says_how_many_trainings_are_done_and_may_come() -> None:
    told: list[tuple[int, int]] = []
    estimator = HistoricalStatistics(domains={"hour": [0, 1]}, statistics="count", epsilon=0.5)
    found = examine(estimator, runs=100, tell=lambda done, of: told.append((done, of)))
    looks = sum(one.audit.runs + (0 if one.twin is None else one.twin.runs) for one in found)
    assert [done for done, _ in told] == list(range(1, looks + 1))
    assert told[0] == (1, 600)
    assert all(done <= of for done, of in told)
    expected = [of for _, of in told]
    assert expected == sorted(expected, reverse=True)
    assert told[100][1] == 600  # its twin may look twice
