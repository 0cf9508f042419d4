"""What many workers collect and one merges is the release of one pass, bit for bit, and bounds units alike."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from ptklib.clustering import Clustering
from ptklib.mechanisms import stream
from ptklib.partials import PartialStatistics
from ptklib.state import ReleasedState
from ptklib.statistics import HistoricalStatistics
from tests.support.families import EXAMPLES, Example, label_of, rows
from tests.support.plugins.repeatable import RepeatableBytes

N_SHARDS = 3
JOINED = {
    "clusters-by-lloyd",
    "clusters-by-zoom",
    "adaptive-trees",
    "boosted-trees",
    "boosted-trees-of-a-number-gaussian",
    "greedy-trees-of-a-number",
    "factors-of-items",
    "vectors-of-users-by-the-row",
    "logistic-regression-by-gradient-descent",
    "softmax-of-a-network-from-y",
    "regression-by-gradient-descent",
}
BY_NAME = pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
Noised = Callable[[Callable[[], Any]], ReleasedState]


@pytest.fixture
def noised(monkeypatch: pytest.MonkeyPatch) -> Noised:
    """Finish a training under noise that is the same each time."""

    def under_the_same_noise(finish: Callable[[], Any]) -> ReleasedState:
        noise = RepeatableBytes()
        noise.begin("partials")
        monkeypatch.setattr(stream, "os", SimpleNamespace(urandom=noise.urandom))
        state: ReleasedState = finish().to_state()
        return state

    return under_the_same_noise


def shards(estimator: Any, data: pd.DataFrame, label: Any, shard: np.ndarray) -> list[PartialStatistics]:
    """The statistics of each shard, as another process reads them."""
    found = []
    for number in range(N_SHARDS):
        here = shard == number
        part = estimator.partial_statistics(data[here], None if label is None else label[here])
        found.append(PartialStatistics.from_table(part.to_table()))
    return found


@BY_NAME
def test_which_families_condense_their_rows(example: Example):
    assert example.estimator.condenses() == (example.name not in JOINED)


@BY_NAME
def test_shards_by_hash_give_the_release_of_one_pass(example: Example, noised: Noised):
    data = rows(300)
    label = label_of(example, data)
    shard = np.sort(np.random.default_rng(1).integers(0, N_SHARDS, len(data)))  # joined rows keep their order
    estimator = clone(example.estimator)
    parts = shards(estimator, data, label, shard)
    whole = estimator.partial_statistics(data, label)
    merged = estimator.merge(iter(parts))
    assert merged.arrays.keys() == whole.arrays.keys()
    assert all(np.array_equal(merged.arrays[name], whole.arrays[name]) for name in whole.arrays)
    if not estimator.condenses():  # never split by the service; greedy trees choose by OpenDP's own noise
        return
    once = noised(lambda: clone(estimator).finalize([whole]))
    together = noised(lambda: clone(estimator).finalize(iter(parts)))
    assert together.to_files() == once.to_files()


def test_sums_take_the_same_room_whatever_they_sum():
    data = rows(300)
    for example in EXAMPLES:
        if example.name in JOINED or example.name == "selected-values-beside-a-domain":
            continue
        sizes = {
            name: {len(example.estimator.partial_statistics(some, label_of(example, some)).arrays[name])}
            for some in (data, data[:1], data[:0])
            for name in example.estimator.merge([]).arrays
        }
        assert sizes == {name: {len(units)} for name, units in example.estimator.merge([]).arrays.items()}


@pytest.mark.parametrize("most", [1, 3])
def test_a_unit_within_one_shard_is_bounded_as_in_one_pass(most: int):
    data = rows(400).assign(who=np.arange(400) % 40)  # ten rows of each
    estimator = HistoricalStatistics(
        ["hour"],
        ["speed"],
        domains={"hour": range(4)},
        bounds={"speed": (0, 60)},
        epsilon=1.0,
        unit="who",
        max_rows_per_unit=most,
    )
    by_unit = shards(estimator, data, None, data["who"].to_numpy() % N_SHARDS)
    assert estimator.merge(by_unit).arrays["count"].sum() == 40 * most
    by_row = shards(estimator, data, None, np.arange(400) // 10 % N_SHARDS)
    assert estimator.merge(by_row).arrays["count"].sum() > 40 * most  # why shards are by the unit's hash


@pytest.mark.parametrize(("method", "condenses"), [("auto", False), ("grid", True), ("lloyd", False)])
def test_only_grids_of_cells_condense(method: str, condenses: bool):
    bounds = {"x": (0, 1), "y": (0, 1)}
    assert Clustering(bounds=bounds, epsilon=1.0, method=method).condenses() == condenses
