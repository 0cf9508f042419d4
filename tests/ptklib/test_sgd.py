"""Models by gradient descent with noise: what they learn, and what they refuse."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from ptklib import DPEstimator, DPSGDClassifier, DPSGDRegressor, ReleasedState
from ptklib.checks.transcript import record, replay
from ptklib.exceptions import (
    CorruptStateError,
    InvalidDomainError,
    InvalidParameterError,
    PrivacyParameterError,
    UnboundedSensitivityError,
)
from ptklib.mechanisms import additive

NAMES = [f"x{i}" for i in range(10)]


def problem(n: int = 20_000, seed: int = 1) -> tuple[Any, Any, Any]:
    """Return features, the log odds of a class, and the class."""
    random = np.random.default_rng(seed)
    rows = random.normal(size=(n, 10))
    weights = random.normal(size=10)
    odds = rows @ weights * (3 / np.linalg.norm(weights)) + 0.5
    return rows, odds, (random.random(n) < 1 / (1 + np.exp(-odds))).astype(np.int64)


def classifier(**given: Any) -> DPSGDClassifier:
    defaults = {"classes": (0, 1), "bounds": (-4.0, 4.0), "batch_rate": 0.05, "epochs": 10}
    return DPSGDClassifier(**{"features": NAMES, "epsilon": 1.0, "delta": 1e-6, **defaults, **given})


@pytest.mark.parametrize(("epsilon", "lost"), [(0.3, 0.02), (1.0, 0.01)])
def test_logistic_regression_is_nearly_as_good_as_the_true_odds(epsilon: float, lost: float) -> None:
    rows, odds, label = problem()
    model = classifier(epsilon=epsilon).fit(rows, label)
    fresh, odds, label = problem(seed=1)
    assert model.score(fresh, label) >= float(np.mean((odds > 0) == label)) - lost
    assert (
        np.mean((model.predict_proba(fresh)[:, 1] - label) ** 2)
        <= np.mean((1 / (1 + np.exp(-odds)) - label) ** 2) + lost
    )


def test_coefficients_are_those_of_the_scores() -> None:
    rows, _, label = problem(2000)
    model = classifier(domains={"x9": [0, 1]}, features=NAMES).fit(np.rint(rows), label)
    assert model.coef_.shape == (1, 11)
    data = np.rint(rows[:50])
    inputs = np.hstack([np.clip(data[:, :9], -4, 4), data[:, 9:] == 0, data[:, 9:] == 1])
    expected = inputs @ model.coef_[0] + model.intercept_
    assert model.decision_function(data) == pytest.approx(expected, abs=1e-3)
    likely = 1 / (1 + np.exp(-expected))
    assert model.predict_proba(data)[:, 1] == pytest.approx(likely, abs=1e-3)


def test_several_classes_and_a_network_learn_what_no_linear_model_can() -> None:
    random = np.random.default_rng(2)
    data = pd.DataFrame(random.uniform(-1, 1, (20_000, 2)), columns=["a", "b"])
    signs = np.sign(data["a"] * data["b"])
    data["kind"] = np.where(signs > 0, "same", "other")
    found = {
        hidden: DPSGDClassifier(
            label="kind",
            classes=["other", "same", "never"],
            bounds={"a": (-1, 1), "b": (-1, 1)},
            hidden_units=hidden,
            batch_rate=0.1,
            learning_rate=4.0,
            epochs=40,
            epsilon=5.0,
            delta=1e-5,
        )
        .fit(data)
        .score(data)
        for hidden in ((), (16,))
    }
    assert found[()] < 0.65
    assert found[(16,)] > 0.85


def test_regression_is_in_the_units_of_the_columns() -> None:
    random = np.random.default_rng(4)
    data = pd.DataFrame({"km": random.uniform(0, 20, 20_000), "hour": random.integers(0, 24, 20_000)})
    data["fare"] = 3.0 + 2.5 * data["km"] - 0.1 * data["hour"] + random.normal(size=len(data))
    model = DPSGDRegressor(
        label="fare",
        bounds={"km": (0, 20), "hour": (0, 24)},
        label_bounds=(-10, 70),
        epsilon=5.0,
        delta=1e-5,
    ).fit(data)
    assert model.coef_ == pytest.approx([2.5, -0.1], abs=0.1)
    assert model.intercept_ == pytest.approx(3.0, abs=0.5)
    rows = pd.DataFrame({"km": [10.0, 1e9, np.nan], "hour": [12, 12, 12]})
    expected = [model.intercept_ + model.coef_ @ [km, 12.0] for km in (10.0, 20.0, 10.0)]
    assert model.predict(rows) == pytest.approx(expected, abs=1e-3)
    assert model.score(data[["km", "hour"]], data["fare"]) > 0.99


def test_predictions_stay_within_the_bounds_of_the_label() -> None:
    data = pd.DataFrame({"x": [-1.0, 1.0] * 2000, "y": [-5.0, 5.0] * 2000})
    model = DPSGDRegressor(label="y", bounds={"x": (-1, 1)}, label_bounds=(-1, 1), epsilon=5.0, delta=1e-5)
    found = model.fit(data).predict(data)
    assert ((found >= -1) & (found <= 1)).all()
    assert found[:2] == pytest.approx([-1, 1], abs=0.1)


def test_a_continued_state_starts_where_the_last_one_ended() -> None:
    rows, _, label = problem()
    first = classifier().fit(rows, label)
    state = ReleasedState.from_files(first.to_state().to_files())
    more = classifier(epsilon=0.01).fit(rows[:0], label[:0], previous_state=state)
    assert more.n_releases_ == 2
    assert np.mean(more.predict(rows) == label) > 0.75  # with no row and much noise
    assert np.mean(classifier(epsilon=0.01).fit(rows[:0], label[:0]).predict(rows) == label) < 0.75


def test_weights_follow_from_what_mechanisms_gave_out() -> None:
    rows, _, label = problem(500)
    model = classifier(hidden_units=(3,), batch_rate=1.0, epochs=3)
    made = record(lambda: model.fit(rows, label))
    first = model.to_state().to_files()
    replay(made, lambda: model.fit(rows[:100], label[:100]))
    assert model.to_state().to_files() == first


def test_a_step_adds_the_gradient_of_the_sample_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[np.ndarray] = []

    def without_noise(units: Any, *_: Any) -> Any:
        seen.append(units.copy())
        return units

    monkeypatch.setattr(additive, "_noised", without_noise)
    monkeypatch.setattr("ptklib.sgd.training.sampled", lambda n, rate, stream: np.arange(0, n, 2))
    rows, _, label = problem(100)
    classifier(epochs=0.05, batch_rate=0.05).fit(rows, label)
    half = seen[1]
    seen.clear()
    monkeypatch.setattr("ptklib.sgd.training.sampled", lambda n, rate, stream: np.arange(n))
    classifier(epochs=0.05, batch_rate=0.05).fit(rows[::2], label[::2])
    assert [seen[0].tolist(), seen[1].tolist()] == [[50], half.tolist()]


def test_units_stay_together_in_merged_shards() -> None:
    random = np.random.default_rng(3)
    data = pd.DataFrame(
        {"x": random.uniform(0, 1, 60), "who": np.repeat(np.arange(20), 3), "y": random.integers(0, 2, 60)}
    ).sample(frac=1, random_state=1)
    model = DPSGDClassifier(
        label="y",
        classes=(0, 1),
        bounds={"x": (0, 1)},
        unit="who",
        max_rows_per_unit=2,
        epsilon=1.0,
        delta=1e-6,
    )
    shards = [data[data["who"] < 7], data[data["who"] >= 7]]
    merged = model.merge([model.partial_statistics(shard) for shard in shards])
    examples = model._examples(merged.arrays)
    assert examples.starts is not None
    assert examples.starts.tolist() == list(range(0, 40, 2))
    assert len(examples) == 40


def test_a_unit_whose_first_row_is_dropped_is_one_unit_still() -> None:
    data = pd.DataFrame({"x": [np.nan, 0.5, 0.2, 0.1], "who": ["a", "a", "b", "a"], "y": [0, 1, 1, 9]})
    model = DPSGDClassifier(
        label="y",
        classes=(0, 1),
        bounds={"x": (0, 1)},
        unit="who",
        max_rows_per_unit=3,
        epsilon=1,
        delta=1e-6,
    )
    examples = model._examples(model.partial_statistics(data).arrays)
    assert examples.starts is not None
    assert (examples.starts.tolist(), len(examples)) == ([0, 1], 2)


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"classes": [1]}, InvalidDomainError),
        ({"classes": range(501)}, InvalidDomainError),
        ({"bounds": None}, UnboundedSensitivityError),
        ({"domains": {"other": [1]}}, InvalidDomainError),
        ({"domains": [1]}, InvalidDomainError),
        ({"hidden_units": (1, 2, 3)}, InvalidParameterError),
        ({"hidden_units": (0,)}, InvalidParameterError),
        ({"hidden_units": (501,)}, InvalidParameterError),
        ({"hidden_units": 8}, InvalidParameterError),
        ({"hidden_units": "8"}, InvalidParameterError),
        ({"clip_norm": 0}, InvalidParameterError),
        ({"clip_norm": float("inf")}, InvalidParameterError),
        ({"learning_rate": 0}, InvalidParameterError),
        ({"momentum": 1.0}, InvalidParameterError),
        ({"momentum": -0.1}, InvalidParameterError),
        ({"seed": -1}, InvalidParameterError),
        ({"seed": 0.5}, InvalidParameterError),
        ({"batch_rate": 0}, InvalidParameterError),
        ({"epochs": float("nan")}, InvalidParameterError),
        ({"delta": 0}, PrivacyParameterError),
        ({"domains": {"x0": range(1995)}}, InvalidParameterError),
        ({"features": ["x0", "x0"]}, InvalidParameterError),
        (
            {"features": ["x0"], "domains": {"x0": [1, 2]}, "max_norm": 2.0, "bounds": None},
            InvalidParameterError,
        ),
        ({"label": "x0"}, InvalidParameterError),
    ],
)
def test_parameters_that_cannot_be_used_are_refused_before_any_row(
    given: Any, error: type[Exception]
) -> None:
    with pytest.raises(error):
        classifier(**given).declared_loss()


def test_states_with_weights_that_are_never_released_are_refused() -> None:
    rows, _, label = problem(200)
    state = classifier().fit(rows, label).to_state()
    table = state.tables["weights"]
    place = table.schema.get_field_index("weight")
    for weight in (300.0, 2.0**-30):
        weights = table["weight"].to_numpy().copy()
        weights[0] = weight
        broken = table.set_column(place, table.schema.field(place), [weights])
        with pytest.raises(CorruptStateError, match="never released"):
            DPEstimator.from_state(ReleasedState({**state.tables, "weights": broken}, state.meta))
