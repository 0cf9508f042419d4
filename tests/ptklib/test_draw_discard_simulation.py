"""Many devices in one process: the same numbers as one after the other, whatever is computed together."""

from typing import Any

import numpy as np
import pytest

from ptklib.draw_discard import (
    Categorical,
    Devices,
    Hashed,
    Numeric,
    Simulation,
    Specification,
    clipped_step,
    encode_rows,
    make_report,
    mean_gradient,
    start_instances,
)
from ptklib.draw_discard.simulation import Scheme
from ptklib.draw_discard.updates import Weights
from ptklib.exceptions import InvalidParameterError
from ptklib.mechanisms.recording import recorded_draws
from tests.support.plugins.repeatable import replayed_noise

SCHEMES: list[Scheme] = ["discard", "same", "accept", "average", "average-same"]


def specification(**other: Any) -> Specification:
    fields: dict[str, Any] = {
        "features": [Numeric("x", 0, 1), Categorical("c", ["a", "b", "c"]), Hashed("h", 6)],
        "crosses": [["c", "h"], ["x", "c"]],
        "label": Numeric("y", 0, 1),
        "epsilon": 3.47,
        "k": 4,
        "learning_rate": 0.05,
        "grid_bits": 20,
    }
    return Specification(**(fields | other))


SOFTMAX = {"link": "softmax", "label": Categorical("y", [0, 1, 2])}
SPARSE = {"features": [Hashed("h", 3000), Categorical("c", ["a", "b"])], "crosses": []}


def rows(n: int, seed: int = 1) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    table = {
        "x": random.uniform(-0.2, 1.2, n).tolist(),
        "c": random.choice(["a", "b", "c", "d"], n).tolist(),
        "h": random.integers(0, 50, n).tolist(),
        "y": random.integers(0, 3, n).tolist(),
    }
    for column in table.values():
        column[::7] = [None] * len(column[::7])
    return table


def table_of(table: dict[str, Any], owners: Any, device: int) -> dict[str, Any]:
    here = np.flatnonzero(np.asarray(owners) == device)
    return {name: [column[i] for i in here] for name, column in table.items()}


OWNERS = [0, 0, 3, 1, 1, 1, 3, 3, 3, 3, 3, 3, 3, 3, 5, 5, 4, 4, 4, 4]


@pytest.mark.parametrize(
    "other", [{}, {"clip": "l2"}, {"clip": "coordinate"}, SOFTMAX, {"link": "linear"}, SPARSE], ids=str
)
def test_steps_of_many_devices_are_those_of_each(other: Any) -> None:
    one, table = specification(**other), rows(len(OWNERS))
    devices = Devices.of(one, table, OWNERS)
    assert bool(len(devices.dense)) is (other is not SPARSE)
    assert len(devices) == 6  # device 2 has no row, and reports too
    drawn = start_instances(specification(k=20, **other))[:9]
    who = np.array([3, 2, 0, 1, 5, 4, 3, 0, 2])
    expected = [
        clipped_step(one, mean_gradient(one, start, encode_rows(one, table_of(table, OWNERS, device))))
        for device, start in zip(who, drawn, strict=True)
    ]
    assert np.array_equal(devices.steps(who, drawn), expected)
    assert np.abs(expected).sum() > 0
    assert devices.steps(who[:0], drawn[:0]).shape == (0, one.n_weights)


@pytest.mark.parametrize("weight", [2**31 - 1, -(2**31) + 1])
def test_products_of_the_largest_weights_are_exact(weight: int) -> None:
    one = specification(features=[Numeric(f"x{i}", 0, 1) for i in range(900)], crosses=[], k=1)
    table = {f"x{i}": [1.0, 0.99999] for i in range(900)} | {"y": [0, 1]}
    instance = np.full(901, weight, dtype=np.int32)
    instance[::3] -= np.sign(weight) * np.arange(301, dtype=np.int32)
    devices = Devices.of(one, table, [0, 0])
    found = devices.steps(np.array([0]), instance[np.newaxis])[0]
    assert np.array_equal(found, clipped_step(one, mean_gradient(one, instance, encode_rows(one, table))))


def test_a_device_without_rows_or_labels_reports_noise() -> None:
    one = specification()
    devices = Devices.of(one, {"x": [1.0], "c": ["a"], "h": [1], "y": [None]})
    assert len(devices) == 1
    assert not devices.steps(np.array([0]), start_instances(one)[:1]).any()
    with recorded_draws() as draws:
        Simulation(devices, noise=True).run(np.zeros(3, dtype=np.int64))
    assert (draws[-1].mechanism, draws[-1].scale, draws[-1].size) == (
        "DiscreteLaplace",
        one.noise_scale,
        3 * one.n_weights,
    )
    assert len(Devices.of(one, {"x": [], "c": [], "h": [], "y": []})) == 0


def test_rows_beyond_what_one_report_is_of_are_left_out() -> None:
    one = specification()
    n = 2**13 + 5
    table = {"x": [0.5] * n, "c": ["a"] * n, "h": [1] * n, "y": [1] * (n - 5) + [0] * 5}
    devices = Devices.of(one, table, np.zeros(n, dtype=np.int64))
    assert devices.starts.tolist() == [0, 2**13]
    assert (devices.labels == 2**20).all()


def run(checked: bool, **keywords: Any) -> tuple[Simulation, list[Weights]]:
    one = specification(**keywords.pop("specification", {}))
    devices = Devices.of(one, rows(60))
    if checked:
        keywords["admits"] = lambda instances, report: True
    found = []
    with replayed_noise("simulation"):
        simulation = Simulation(devices, **keywords)
        for _ in range(2):
            found.append(simulation.run(np.arange(300) % 60).instances.copy())
    return simulation, found


OPTIONS: list[dict[str, Any]] = [
    {},
    {"vanished": 0.3},
    {"stale": 0.4, "delay": 25},
    {"stale": 1.0, "delay": 2000, "vanished": 0.1},
    {"poisoned": 0.2, "poison": lambda drawn: drawn // 2},
    {"specification": {"k": 1}},
    {"specification": SOFTMAX, "noise": False},
]


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("options", OPTIONS, ids=lambda one: "-".join(one) or "plain")
def test_updates_computed_together_are_those_computed_one_by_one(
    scheme: Scheme, options: dict[str, Any]
) -> None:
    """The same random bytes, so the same draws, puts and noise: every weight must be equal."""
    together, found = run(False, scheme=scheme, **options)
    one_by_one, expected = run(True, scheme=scheme, **options)
    assert np.array_equal(found, expected)
    counts = (together.taken, together.refused, together.lost)
    assert counts == (one_by_one.taken, one_by_one.refused, one_by_one.lost)
    late = 600 - sum(counts)
    assert late == len(together._late) == len(one_by_one._late)
    assert (late > 0) == bool(options.get("stale"))
    if options.get("stale") != 1.0:
        assert not np.array_equal(found[0], found[1])


def test_one_by_one_is_what_devices_and_server_do() -> None:
    """Without noise, a run is fixed by what is drawn and put: the parts of the library, one after the other."""
    one = specification()
    table = rows(60)
    devices = Devices.of(one, table)
    start = start_instances(one)
    with replayed_noise("by hand"):
        simulation = Simulation(devices, instances=start, noise=False)
        block = simulation._planned(np.arange(60))
    instances = start.copy()
    for device, drawn, put in zip(block.devices, block.drawn, block.put, strict=True):
        own = {name: column[device : device + 1] for name, column in table.items()}
        step = clipped_step(one, mean_gradient(one, instances[drawn], encode_rows(one, own)))
        instances[put] = instances[drawn] - step
    with replayed_noise("by hand"):
        assert np.array_equal(simulation.run(np.arange(60)).instances, instances)
    assert np.array_equal(start_instances(one).shape, start.shape)


def test_noise_of_a_simulation_is_that_of_reports() -> None:
    """1,000 reports of one weight on devices without rows; false alarm below 1 in 10**9."""
    one = specification(features=[Numeric("x", 0, 1)], crosses=[], k=1, learning_rate=0.01)
    devices = Devices.of(one, {"x": [0.5], "y": [None]})
    zeros = np.zeros((1, 2), dtype=np.int32)
    found = []
    for _ in range(500):
        found += Simulation(devices, instances=zeros).run(np.array([0])).instances[0].tolist()
    reports = [make_report(one, zeros[0], {"x": [], "y": []}) for _ in range(500)]
    for noise in (np.array(found), np.array(reports).ravel()):
        assert np.abs(noise).mean() == pytest.approx(one.noise_scale, rel=6.2 / 1000**0.5)


def test_a_batch_is_replaced_by_the_mean_of_its_reports() -> None:
    one = specification()
    devices = Devices.of(one, rows(60))
    start = start_instances(one)
    done = Simulation(devices, instances=start, noise=False, scheme="batch", batch=25).run(np.arange(60))
    model = start[0]
    for first in (0, 25, 50):
        some = np.arange(first, min(first + 25, 60))
        reports = model - devices.steps(some, np.tile(model, (len(some), 1)))
        model = np.rint(reports.mean(axis=0)).astype(np.int32)
    assert np.abs(done.instances - model).max() <= 1  # a mean of exactly half a unit
    assert (done.taken, done.refused, done.lost) == (60, 0, 0)
    refusing = Simulation(devices, scheme="batch", batch=7, vanished=0.5, admits=lambda _, report: False)
    before = refusing.instances.copy()
    assert np.array_equal(refusing.run(np.arange(60)).instances, before)
    assert refusing.taken == 0
    assert refusing.refused + refusing.lost == 60


def test_what_is_refused_changes_nothing_and_is_counted() -> None:
    one = specification()
    devices = Devices.of(one, rows(60))
    seen = []

    def admits(instances: Any, report: Weights) -> bool:
        seen.append(report)
        return len(seen) % 2 == 0

    simulation = Simulation(devices, admits=admits)
    before = simulation.instances.copy()
    simulation.run(np.array([0]))
    assert np.array_equal(simulation.instances, before)
    simulation.run(np.array([1]))
    assert (simulation.taken, simulation.refused) == (1, 1)
    assert any(np.array_equal(row, seen[1]) for row in simulation.instances)


def test_a_report_survives_in_the_long_run_with_probability_one_in_k() -> None:
    """Lemma 2 of the paper. A binomial of 600 and a third is within 75 of 200 but once in 10**10 runs."""
    one = specification(features=[Numeric("x", 0, 1)], crosses=[], k=3)
    devices = Devices.of(one, {"x": [0.5], "y": [None]})  # its steps are zero
    survived = 0
    for _ in range(600):
        instances = np.zeros((3, 2), dtype=np.int32)
        instances[0] = 7  # what a report has just put
        found = (
            Simulation(devices, instances=instances, noise=False).run(np.zeros(120, dtype=np.int64)).instances
        )
        assert len(np.unique(found)) == 1
        survived += int(found[0, 0] == 7)
    assert abs(survived - 200) < 75


def test_one_report_in_k_is_accepted() -> None:
    """A binomial of 4,000 and a quarter leaves 820 to 1,180 less than once in 10**10."""
    one = specification(features=[Numeric("x", 0, 1)], crosses=[])
    devices = Devices.of(one, {"x": [0.5], "y": [1]})
    done = Simulation(devices, scheme="accept", noise=False).run(np.zeros(4000, dtype=np.int64))
    assert done.instances.shape == (1, 2)
    assert 820 < done.taken < 1180
    assert done.taken + done.lost == 4000


def test_poison_gets_what_was_drawn_and_must_return_weights() -> None:
    one = specification()
    devices = Devices.of(one, rows(60))
    drawn = []

    def poison(start: Weights) -> Weights:
        drawn.append(start.copy())
        start[:] = 5
        return start

    start = start_instances(one)
    done = Simulation(devices, instances=start, poisoned=1.0, poison=poison).run(np.array([3]))
    assert any(np.array_equal(drawn[0], row) for row in start)
    assert sum((row == 5).all() for row in done.instances) == 1
    wrong = Simulation(devices, poisoned=1.0, poison=lambda start: start[:2])
    with pytest.raises(InvalidParameterError):
        wrong.run(np.array([3]))


@pytest.mark.parametrize(
    "keywords",
    [
        {"scheme": "newest"},
        {"vanished": 1.5},
        {"stale": float("nan")},
        {"poisoned": 0.5},
        {"delay": 0},
        {"batch": 0},
        {"instances": np.zeros((3, 2), dtype=np.int32)},
    ],
    ids=str,
)
def test_odd_options_are_refused(keywords: Any) -> None:
    with pytest.raises(InvalidParameterError):
        Simulation(Devices.of(specification(), rows(5)), **keywords)


@pytest.mark.parametrize("order", [[5], [-1], [[0]]])
def test_devices_that_are_none_are_refused(order: Any) -> None:
    simulation = Simulation(Devices.of(specification(), rows(5)))
    before = simulation.instances.copy()
    with pytest.raises(InvalidParameterError):
        simulation.run(np.array(order))
    assert np.array_equal(simulation.instances, before)


@pytest.mark.parametrize("owners", [[0, 1], [0.0] * 5, [-1, 0, 0, 0, 0]])
def test_owners_that_are_no_devices_are_refused(owners: Any) -> None:
    with pytest.raises(InvalidParameterError):
        Devices.of(specification(), rows(5), owners)
