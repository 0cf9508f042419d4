"""Thresholds of partition selection against laws that are summed term by term."""

import math

import numpy as np
import pytest

from ptklib.accounting import epsilon_of, event_delta, pure_epsilon, renyi_curve
from ptklib.exceptions import PrivacyParameterError
from ptklib.mechanisms import partition, vectorised
from ptklib.mechanisms.partition import PartitionSelection, gaussian_selection, laplace_selection
from ptklib.mechanisms.recording import recorded_draws
from ptklib.privacy import PrivacyLoss


def laplace_law(scale: float, reach: int) -> np.ndarray:
    x = np.arange(-reach, reach + 1)
    return math.tanh(1 / (2 * scale)) * np.exp(-np.abs(x) / scale)


def released_law(selection: PartitionSelection, rows: tuple[int, ...], reach: int) -> dict[object, float]:
    """Return the probability of each output for one key with so many rows per cell."""
    x, law = np.arange(-reach, reach + 1), laplace_law(selection.scale, reach)
    noise, mass = x[:, None], law[:, None]
    if selection.n_cells == 2:
        noise = np.stack(np.meshgrid(x, x, indexing="ij"), axis=-1).reshape(-1, 2)
        mass = np.outer(law, law).reshape(-1, 1)
    total, mass = noise.sum(axis=1), mass[:, 0]
    mass = np.where(np.abs(total) <= selection.threshold, mass, 0.0)
    mass /= mass.sum()
    found = noise + np.asarray(rows)
    passes = found.sum(axis=1) > selection.threshold
    outputs: dict[object, float] = {None: float(mass[~passes].sum())}
    for cells, chance in zip(found[passes].tolist(), mass[passes].tolist(), strict=True):
        outputs[tuple(cells)] = chance
    return outputs


def hockey_stick(p: dict[object, float], q: dict[object, float], epsilon: float) -> float:
    return sum(max(chance - math.exp(epsilon) * q.get(output, 0.0), 0.0) for output, chance in p.items())


@pytest.mark.parametrize("before", [0, 1, 4, 20, 60])
@pytest.mark.parametrize(
    ("epsilon", "delta", "n_cells", "rows"),
    [(1.0, 1e-3, 1, 1), (0.5, 1e-4, 1, 3), (1.0, 1e-3, 2, 1), (1.5, 1e-4, 2, 2), (0.7, 1e-2, 2, 1)],
)
def test_one_unit_more_moves_the_law_of_a_key_by_no_more_than_promised(
    before: int, epsilon: float, delta: float, n_cells: int, rows: int
) -> None:
    selection = laplace_selection(sensitivity=rows, epsilon=epsilon, delta=delta, n_cells=n_cells)
    reach = 40 + int(30 * selection.scale) if n_cells == 1 else 30 + int(12 * selection.scale)
    without = released_law(selection, (before, *[0] * (n_cells - 1)), reach)
    for split in {(rows, 0), (rows - 1, 1)} if n_cells == 2 else {(rows,)}:
        more = tuple(a + b for a, b in zip((before, 0), split, strict=False))
        with_unit = released_law(selection, more, reach)
        for p, q in ((with_unit, without), (without, with_unit)):
            # 1e-9 covers the noise beyond `reach`
            assert hockey_stick(p, q, epsilon * (1 + 1e-9)) <= selection.delta + 1e-9


def test_a_key_without_rows_never_passes() -> None:
    for rows, n_cells in ((1, 1), (3, 2)):
        selection = laplace_selection(sensitivity=rows, epsilon=1.0, delta=1e-3, n_cells=n_cells)
        assert released_law(selection, (0,) * n_cells, 60)[None] == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-6), (0.1, 1e-6), (0.05, 1e-9), (3.0, 1e-5)])
def test_one_cell_per_key_has_the_published_threshold(epsilon: float, delta: float) -> None:
    """Desfontaines et al., section 3.4: the truncated symmetric geometric distribution."""
    e = math.exp(epsilon)
    published = math.ceil(math.log((e + 2 * delta - 1) / (delta * (e + 1))) / epsilon)
    assert laplace_selection(sensitivity=1, epsilon=epsilon, delta=delta, n_cells=1).threshold == published


@pytest.mark.parametrize(("scale", "n_cells"), [(0.3, 2), (1.0, 1), (1.0, 5), (4.0, 2), (4.0, 30), (20.0, 7)])
def test_the_law_of_a_sum_is_the_convolution_of_its_cells(scale: float, n_cells: int) -> None:
    reach = int(60 * scale * math.sqrt(n_cells)) + 20
    law = total = laplace_law(scale, reach)
    for _ in range(n_cells - 1):
        total = np.convolve(total, law)
    middle = len(total) // 2
    for x in (0, 1, 3, int(3 * scale), int(12 * scale * math.sqrt(n_cells))):
        assert math.exp(partition._log_mass(x, scale, n_cells)) == pytest.approx(total[middle + x], rel=1e-9)
        if x:
            bound = partition._sum_mass(x, 4, scale, n_cells)
            exact = total[middle + x : middle + x + 4].sum()
            assert exact * (1 - 1e-9) <= bound
            assert bound <= exact * 3


@pytest.mark.parametrize(
    ("scale", "rows", "n_cells"), [(5.0, 1, 2), (12.0, 4, 2), (3.0, 1, 10), (40.0, 9, 1)]
)
def test_with_gaussian_noise_a_unit_makes_new_keys_pass_with_at_most_delta(
    scale: float, rows: int, n_cells: int
) -> None:
    selection = gaussian_selection(sensitivity=rows, scale=scale, delta=1e-6, n_cells=n_cells)
    reach = int(14 * scale)
    law = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * scale * scale))
    law /= law.sum()
    total = law
    for _ in range(n_cells - 1):
        total = np.convolve(total, law)
    tail = np.cumsum(total[::-1])[::-1]

    def passes(m: int) -> float:
        place = len(total) // 2 + selection.threshold - m + 1
        return float(tail[place]) if place < len(tail) else 0.0

    worst = max(rows // m * passes(m) + (passes(rows % m) if rows % m else 0) for m in range(1, rows + 1))
    assert worst <= selection.delta
    looser = gaussian_selection(sensitivity=rows, scale=scale, delta=2e-5 * n_cells, n_cells=n_cells)
    assert looser.threshold < selection.threshold
    assert worst >= selection.delta / 100


def test_more_of_the_budget_lowers_the_threshold_and_more_cells_raise_it() -> None:
    def threshold(epsilon: float, delta: float, n_cells: int) -> int:
        return laplace_selection(sensitivity=1, epsilon=epsilon, delta=delta, n_cells=n_cells).threshold

    assert threshold(1.0, 1e-6, 2) < threshold(0.5, 1e-6, 2)
    assert threshold(1.0, 1e-6, 2) < threshold(1.0, 1e-9, 2)
    assert threshold(1.0, 1e-6, 2) < threshold(1.0, 1e-6, 3)


@pytest.mark.parametrize(
    "broken",
    [
        {"sensitivity": 0},
        {"n_cells": 0},
        {"n_cells": 2**20},
        {"delta": 0.0},
        {"delta": 1.0},
        {"delta": float("nan")},
        {"epsilon": 0.0},
        {"epsilon": 1e-18},
    ],
    ids=str,
)
def test_unusable_parameters_are_refused(broken: dict[str, float]) -> None:
    given = {"sensitivity": 1, "epsilon": 1.0, "delta": 1e-6, "n_cells": 2, **broken}
    with pytest.raises(PrivacyParameterError):
        laplace_selection(**given)  # type: ignore[arg-type]


def test_the_event_charges_its_delta_beside_its_curve() -> None:
    event = laplace_selection(sensitivity=1, epsilon=0.5, delta=1e-6, n_cells=2).event
    assert event_delta(event) == 1e-6
    assert pure_epsilon(event) == math.inf
    response = {"name": "DiscreteLaplace", "scale": 2.0, "l1_sensitivity": 1}
    assert renyi_curve(event, [2.0, 8.0]) == pytest.approx(
        renyi_curve({**response, "scale": 1 / 0.5}, [2.0, 8.0])
    )
    loss = PrivacyLoss(0.5, 1e-6, event)
    assert epsilon_of([loss], 1.01e-6) == pytest.approx(0.5)
    assert epsilon_of([loss], 9e-7) == math.inf
    many = epsilon_of([loss] * 100, 2e-4)
    assert many < 0.9 * 100 * 0.5

    gaussian = gaussian_selection(sensitivity=2, scale=9.0, delta=1e-7, n_cells=3).event
    assert event_delta({"name": "Composed", "count": 3, "events": [gaussian]}) == pytest.approx(3e-7)
    plain = {"name": "DiscreteGaussian", "scale": 9.0, "l2_sensitivity": 2}
    assert np.array_equal(renyi_curve(gaussian), renyi_curve(plain))


def test_a_draw_notes_what_its_event_says_whatever_the_number_of_keys() -> None:
    selection = laplace_selection(sensitivity=1, epsilon=1.0, delta=1e-6, n_cells=2)
    for n in (0, 1, 50):
        with recorded_draws() as draws:
            selection.draw(np.zeros((3, 2), dtype=np.int64), np.ones((n, 2), dtype=np.int64))
        assert [(d.mechanism, d.scale, d.size) for d in draws] == [
            (selection.event.to_json()["name"], selection.event.to_json()["scale"], 2)
        ]


def test_known_keys_are_never_dropped_and_noise_beyond_the_threshold_is_drawn_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    selection = PartitionSelection("ThresholdedLaplace", 1.0, 1, 2, 10, 1e-3)
    drawn = iter([[[-9, -9]], [[6, 6], [1, 2], [20, -9]], [[7, 3], [11, -30]], [[4, 4]]])
    monkeypatch.setattr(
        vectorised, "discrete_laplace", lambda scale, n: np.array(next(drawn), dtype=np.int64).reshape(n)
    )
    known, new, passed = selection.draw(
        np.array([[3, 0]], dtype=np.int64), np.array([[1, 0], [9, 1], [2, 0]], dtype=np.int64)
    )
    assert known.tolist() == [[-6, -9]]
    assert passed.tolist() == [0, 1]
    assert new.tolist() == [[8, 3], [10, 3]]


def test_counts_of_another_shape_or_type_are_refused() -> None:
    selection = laplace_selection(sensitivity=1, epsilon=1.0, delta=1e-6, n_cells=2)
    good = np.zeros((1, 2), dtype=np.int64)
    for bad in (np.zeros((1, 3), dtype=np.int64), np.zeros((1, 2)), np.zeros(2, dtype=np.int64)):
        with pytest.raises(TypeError):
            selection.draw(good, bad)
