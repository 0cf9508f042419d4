"""An audit: outputs on neighbouring datasets bound epsilon from below, and half-noised twins are caught."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from ptklib import CountFeaturizer, HistoricalStatistics
from tests.statistical.tools import empirical_epsilon
from tests.support.audits import halved_noise, ratio

pytestmark = pytest.mark.long

CELLS = 12_000


def statistics_scores(row_in_each_group: bool, epsilon: float) -> Any:
    """Return one score per group; each group is its own run of the mechanism with or without one row."""
    estimator = HistoricalStatistics(domains={"k": range(CELLS)}, bounds={"v": (0.0, 2.0)}, epsilon=epsilon)
    keys = np.arange(CELLS) if row_in_each_group else np.zeros(0, dtype=np.int64)
    table = estimator.fit(pd.DataFrame({"k": keys, "v": np.full(len(keys), 2.0)})).tables_["statistics"]
    count, events = table["count"].to_numpy(), estimator.declared_loss().event.to_json()["events"]
    centred = (table["v_sum"].to_numpy() - count) * 2**21
    # The most telling function of the output.
    return ratio(count, events[0]) + ratio(centred, events[1])


def counts_scores(rows: int, epsilon: float, delta: float = 0.0, features: int = 2) -> Any:
    """Return one score per run, a run being the same cell of all tables."""
    domains = {f"f{i}": range(CELLS) for i in range(features)}
    estimator = CountFeaturizer(label="y", classes=(0, 1), domains=domains, epsilon=epsilon, delta=delta)
    keys = np.arange(CELLS * rows) % CELLS
    data = pd.DataFrame({**dict.fromkeys(domains, keys), "y": np.zeros(len(keys), dtype=np.int64)})
    tables = estimator.fit(data).tables_.values()
    noisy = np.sum([np.clip(table["count_0"].to_numpy(), 0, 1) for table in tables], axis=0)
    # Counts clipped to [0, 1] are the log-likelihood ratio; the other class breaks ties of a discrete score.
    return noisy + 1e-9 * next(iter(tables))["count_1"].to_numpy()


def test_statistics_lose_no_more_than_they_declare() -> None:
    assert 0.3 < empirical_epsilon(statistics_scores(True, 1.0), statistics_scores(False, 1.0)) <= 1.0


def test_half_noised_statistics_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    halved_noise(monkeypatch)
    assert empirical_epsilon(statistics_scores(True, 1.0), statistics_scores(False, 1.0)) > 1.0


def test_counts_lose_no_more_than_they_declare() -> None:
    assert 0.3 < empirical_epsilon(counts_scores(1, 1.0), counts_scores(0, 1.0)) <= 1.0


def test_half_noised_counts_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    halved_noise(monkeypatch)
    assert empirical_epsilon(counts_scores(1, 1.0), counts_scores(0, 1.0)) > 1.0
