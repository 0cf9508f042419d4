"""The parts of gradient descent: what a row adds, who is sampled, what is paid."""

from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptklib import DPSGDClassifier
from ptklib.accounting import renyi_curve, renyi_epsilon
from ptklib.arrays import Floats, Ints
from ptklib.events import DiscreteGaussian, PoissonSampled
from ptklib.exceptions import InvalidParameterError, PrivacyParameterError
from ptklib.inputs import InputTable
from ptklib.mechanisms.stream import KeyStream
from ptklib.sgd import tables, training
from ptklib.sgd.encoding import Encoding, encoding_of, unit_of
from ptklib.sgd.heads import LABEL_UNITS, Head, Logistic, Number, Softmax
from ptklib.sgd.network import HIDDEN_MAX, UNIT, WEIGHT_MAX, Network, Shape, quantised
from ptklib.sgd.plan import DRAWS_MAX, plan_steps, sampling_of
from ptklib.sgd.start import first_weights
from ptklib.sgd.training import Examples

HEADS: dict[str, Head] = {"logistic": Logistic(), "softmax": Softmax(5), "number": Number()}
every_head = pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)
every_depth = pytest.mark.parametrize("hidden", [(), (7,), (6, 4)], ids=str)


def encoding(max_norm: float | None = None) -> Encoding:
    return encoding_of(["a", "b", "z"], {"a": (0.0, 1.0), "b": (-2.0, 5.0)}, max_norm, {"z": ["u", "v", "w"]})


def some_inputs(n: int = 300, seed: int = 5, max_norm: float | None = None) -> tuple[Encoding, Floats]:
    random, encoded = np.random.default_rng(seed), encoding(max_norm)
    data = pd.DataFrame(
        {
            "a": random.uniform(-1, 2, n),
            "b": random.normal(1.0, 4.0, n) * 10.0 ** random.integers(-3, 9, n),
            "z": random.choice(["u", "v", "w", "else"], n),
        }
    )
    rows, kept = encoded.read(InputTable(data, encoded.names))
    assert kept.all()
    return encoded, encoded.inputs(rows)


def some_labels(head: Head, n: int, seed: int = 6) -> Ints:
    random = np.random.default_rng(seed)
    if isinstance(head, Number):
        return random.integers(-LABEL_UNITS, LABEL_UNITS + 1, n)
    return random.integers(0, max(head.n_scores, 2), n)


def some_network(
    head: Head, hidden: tuple[int, ...], size: float = 1.0
) -> tuple[Shape, list[Floats], Network]:
    encoded, random = encoding(), np.random.default_rng(7)
    shape = Shape(encoded.n_inputs, encoded.one, hidden, head.n_scores)
    weights = quantised([random.normal(size=layer) * size for layer in shape.layers])
    return shape, weights, Network(shape, weights, head)


@every_head
@every_depth
@pytest.mark.parametrize("clip_norm", [1e-6, 0.1, 1.0, 1e6])
@pytest.mark.parametrize("size", [0.0, 1.0, 1e5])
def test_no_row_adds_more_than_the_declared_length(
    head: Head, hidden: tuple[int, ...], clip_norm: float, size: float
) -> None:
    _, inputs = some_inputs()
    labels = some_labels(head, len(inputs))
    _, _, network = some_network(head, hidden, size)
    for i in range(0, len(inputs), 3):
        part = network.clipped_gradient(inputs[i : i + 1], labels[i : i + 1], clip_norm)
        whole = [int(value) for value in part]
        assert np.array_equal(part, whole)
        assert sum(value * value for value in whole) <= UNIT * UNIT


@every_head
@every_depth
def test_what_a_row_adds_does_not_depend_on_the_rows_beside_it(head: Head, hidden: tuple[int, ...]) -> None:
    _, inputs = some_inputs()
    labels = some_labels(head, len(inputs))
    _, _, network = some_network(head, hidden)
    alone = [network.clipped_gradient(inputs[i : i + 1], labels[i : i + 1], 1.0) for i in range(len(inputs))]
    total = np.sum(alone, axis=0)
    for order in (np.arange(len(inputs)), np.random.default_rng(1).permutation(len(inputs))):
        assert np.array_equal(network.clipped_gradient(inputs[order], labels[order], 1.0), total)
    without = network.clipped_gradient(inputs[1:], labels[1:], 1.0)
    assert np.array_equal(total - without, alone[0])


def test_sums_of_the_largest_model_stay_below_what_float64_adds_exactly() -> None:
    """The bounds of docs/proofs/sgd.md, with numbers as large as they can be."""
    n_inputs = 2000
    for one in (unit_of(n_inputs), unit_of(0)):
        longest = n_inputs * one**2 + one**2  # each input at its bound
        row = WEIGHT_MAX * 2**24
        assert longest**0.5 * row < 2**53
        assert longest < 2**53
    assert HIDDEN_MAX * 2**22 * (WEIGHT_MAX * 2**14 + 1) < 2**53
    assert HIDDEN_MAX * 2**44 < 2**53
    assert 2**22 * UNIT < 2**53


def float_gradient(
    shape: Shape, weights: list[Floats], head: Head, inputs: Floats, label: int
) -> tuple[Floats, float]:
    """Return gradient and loss of one row, by automatic differences of a float model."""

    def loss(flat: Floats) -> float:
        given = inputs / shape.one
        for place, layer in enumerate(shape.split(flat)):
            given = layer @ given
            if place < len(shape.hidden):
                given = np.append(np.tanh(given), 1.0)
        if isinstance(head, Number):
            return float((given[0] - label / LABEL_UNITS) ** 2 / 2)
        scores = np.array([0.0, given[0]]) if isinstance(head, Logistic) else given
        return float(np.logaddexp.reduce(scores) - scores[label])

    flat = np.concatenate([layer.ravel() for layer in weights])
    found = np.zeros_like(flat)
    for i in range(len(flat)):
        step = np.zeros_like(flat)
        step[i] = 1e-5
        found[i] = (loss(flat + step) - loss(flat - step)) / 2e-5
    return found, loss(flat)


@every_head
@every_depth
def test_it_is_the_gradient_shrunk_to_the_clip_norm(head: Head, hidden: tuple[int, ...]) -> None:
    _, inputs = some_inputs(12)
    labels = some_labels(head, len(inputs))
    shape, weights, network = some_network(head, hidden, 0.3)
    for i in range(len(inputs)):
        expected, _ = float_gradient(shape, weights, head, inputs[i], int(labels[i]))
        length = float(np.linalg.norm(expected))
        for clip_norm in (length * 4, length / 4):
            found = network.clipped_gradient(inputs[i : i + 1], labels[i : i + 1], clip_norm) / UNIT
            want = expected / max(length, clip_norm)
            assert found == pytest.approx(want, abs=3e-3 * float(np.linalg.norm(want)))


def test_functions_in_tables_are_near_the_real_ones() -> None:
    numbers = np.linspace(-20, 20, 10_001)
    exact = 1 / (1 + np.exp(-np.clip(numbers, -16, 16)))
    assert tables.logistic()[tables.places(numbers.copy())] / tables.FINE == pytest.approx(exact, abs=1e-4)
    assert tables.logistic_between(numbers) == pytest.approx(exact, abs=1e-8)
    assert tables.activation(1000)[tables.places(numbers.copy())] / 1000 == pytest.approx(
        np.tanh(np.clip(numbers, -16, 16)), abs=1e-3
    )
    below = -np.abs(numbers)
    assert tables.exponential_between(below) == pytest.approx(np.exp(np.maximum(below, -16)), rel=1e-7)


def test_a_category_is_one_input_and_an_unknown_one_is_none() -> None:
    encoded = encoding()
    data = pd.DataFrame({"a": [0.5, 1.0, 7.0], "b": [1.5, 5.0, -9.0], "z": ["v", "w", "else"]})
    rows, _ = encoded.read(InputTable(data, encoded.names))
    found = encoded.inputs(rows) / encoded.one
    expected = [[0, 0, 0, 1, 0, 1], [1, 1, 0, 0, 1, 1], [1, -1, 0, 0, 0, 1]]
    assert found == pytest.approx(np.array(expected, dtype=np.float64))
    assert encoded.input_names == ("a", "b", "z=u", "z=v", "z=w")


def test_rows_without_a_finite_number_are_not_kept() -> None:
    encoded = encoding()
    data = pd.DataFrame({"a": [0.5, np.nan, 0.1], "b": [np.inf, 1.0, 2.0], "z": ["v", "w", None]})
    assert encoded.read(InputTable(data, encoded.names))[1].tolist() == [False, False, True]


def test_rows_of_a_unit_share_one_coin(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def coins(n: int, rate: float, stream: KeyStream) -> Any:
        asked.append(n)
        return np.arange(n) % 2 == 0

    monkeypatch.setattr(training, "tossed", coins)
    examples = Examples(np.zeros((7, 1), dtype=np.int64), np.zeros(7, dtype=np.int64), np.array([0, 3, 4]))
    stream = KeyStream()
    assert examples.sample(0.5, stream).tolist() == [0, 1, 2, 4, 5, 6]
    assert asked == [3]
    alone = Examples(examples.rows, examples.labels, None)
    assert len(np.unique([len(alone.sample(0.5, stream)) for _ in range(40)])) > 1


@given(
    st.floats(1e-6, 1.0),
    st.integers(1, 50),
    st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_a_unit_is_in_a_step_no_more_often_than_is_paid(rate: float, rows: int, by_unit: bool) -> None:
    sampling = sampling_of(rate, rate * 3, rows, by_unit)
    assert sampling.n_steps == 3
    share = Fraction(rate)
    exact = share if by_unit else 1 - (1 - share) ** rows
    assert (
        exact <= Fraction(sampling.unit_rate) <= exact * (1 + Fraction(1, 10**9)) or sampling.unit_rate == 1
    )


@pytest.mark.parametrize("by_unit", [True, False])
@pytest.mark.parametrize("rows", [1, 4])
def test_a_plan_spends_what_it_promises_on_the_count_and_the_steps(rows: int, by_unit: bool) -> None:
    sampling = sampling_of(0.1, 5, rows, by_unit)
    plan = plan_steps("Family", sampling, 21, 1.0, 1e-6)
    counted, steps = plan.loss.event.parts()
    assert counted == DiscreteGaussian(scale=plan.count_scale, l2_sensitivity=rows, shape=(1,))
    noise = DiscreteGaussian(scale=plan.step_scale, l2_sensitivity=UNIT * rows, shape=(21,))
    rate = 0.1 if by_unit else sampling.unit_rate
    assert steps == PoissonSampled(sampling_rate=rate, event=noise, count=50)
    orders = [1 + x / 10 for x in range(1, 2000)]
    assert 0.98 <= renyi_epsilon(orders, renyi_curve(plan.loss.event, orders), 1e-6) <= 1.001


def test_one_coin_for_a_unit_needs_less_noise_than_one_for_each_row() -> None:
    together, apart = (
        plan_steps("Family", sampling_of(0.02, 5, 4, by_unit), 21, 1.0, 1e-6).step_scale
        for by_unit in (True, False)
    )
    assert apart > 1.5 * together


def test_steps_on_all_rows_are_charged_as_such() -> None:
    plan = plan_steps("Family", sampling_of(1, 3, 1, False), 21, 1.0, 1e-6)
    noise = DiscreteGaussian(scale=plan.step_scale, l2_sensitivity=UNIT, shape=(21,), count=3)
    assert plan.loss.event.parts()[1] == noise


@pytest.mark.parametrize(
    ("rate", "epochs"),
    [(0, 1), (1.1, 1), (float("nan"), 1), ("half", 1), (0.5, 0), (0.5, -1), (1e-6, 2), (0.5, None)],
)
def test_sampling_that_cannot_be_is_refused(rate: Any, epochs: Any) -> None:
    with pytest.raises(InvalidParameterError):
        sampling_of(rate, epochs, 1, False)


def test_gaussian_steps_need_a_delta() -> None:
    with pytest.raises(PrivacyParameterError, match="Family needs delta > 0"):
        plan_steps("Family", sampling_of(0.1, 1, 1, False), 3, 1.0, 0)


def test_first_weights_are_public_and_break_the_symmetry_of_hidden_units() -> None:
    shape = Shape(3, 100, (4,), 2)
    one, two, other = (first_weights(shape, seed) for seed in (1, 1, 2))
    assert all(np.array_equal(a, b) for a, b in zip(one, two, strict=True))
    assert not np.array_equal(one[0], other[0])
    assert len(np.unique(one[0][:, :-1])) == 12
    assert not one[1].any()
    assert not first_weights(Shape(3, 100, (), 2), 1)[0].any()


@every_head
@every_depth
@pytest.mark.parametrize("size", [0.3, 1e5])
def test_all_numbers_that_are_multiplied_and_added_are_whole_and_bounded(
    head: Head, hidden: tuple[int, ...], size: float
) -> None:
    _, inputs = some_inputs()
    labels = some_labels(head, len(inputs))
    shape, weights, network = some_network(head, hidden, size)
    for layer in weights:
        assert np.array_equal(layer * 2**24, np.rint(layer * 2**24))
        assert np.linalg.norm(layer, axis=1).max() <= WEIGHT_MAX
    *layers, scores = network._forward(inputs)
    errors = network._errors(layers, head.errors(scores, labels))
    for given_, error, one in zip(layers, errors, shape.ones, strict=True):
        assert np.array_equal(given_, np.rint(given_))
        assert (given_[:, -1] == one).all()
        assert np.array_equal(error, np.rint(error))
        assert np.abs(error).max() <= 2**22


def test_a_scale_that_no_noise_has_is_refused_before_any_row() -> None:
    with pytest.raises(PrivacyParameterError, match="noise scale"):
        plan_steps("Family", sampling_of(1, 1, 10_000, True), 3, 1e-6, 1e-9)


def test_more_work_than_a_run_has_time_for_is_refused_before_any_loss() -> None:
    steps = sampling_of(0.001, 1, 1, True)
    most = DRAWS_MAX // steps.n_steps
    assert plan_steps("Family", steps, most, 1.0, 1e-6).sampling == steps
    with pytest.raises(
        InvalidParameterError, match=r"1,000,001 weights times 1,000 steps .* too long; take fewer"
    ):
        plan_steps("Family", steps, most + 1, 1.0, 1e-6)


def test_the_largest_model_cannot_take_a_million_steps() -> None:
    bounds = {f"x{i}": (0.0, 1.0) for i in range(400)}
    large = DPSGDClassifier(
        label="y", classes=range(500), bounds=bounds, hidden_units=(500, 500), epsilon=1.0, delta=1e-6
    ).set_params(batch_rate=0.001, epochs=1_000)
    with pytest.raises(InvalidParameterError, match="steps are more than 1,000,000,000"):
        large.declared_loss()
    assert large.set_params(epochs=1).declared_loss().epsilon == 1.0
