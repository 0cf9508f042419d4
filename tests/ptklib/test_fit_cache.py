"""What follows from parameters is computed once per fit, and kept no longer."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from ptklib import AdaSSPRegressor, CountFeaturizer, CovarianceMatrix, HistoricalStatistics
from ptklib import covariance as covariance_module
from ptklib.counts import estimator as counts_module
from ptklib.fit_cache import once, one_fit
from ptklib.statistics import estimator as statistics_module

DELTA = 1e-6


class Sized:
    """A thing with one method of parameters."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.calls = 0

    @once
    def squared(self) -> int:
        """Return a function of the parameter."""
        self.calls += 1
        if self.size < 0:
            raise ValueError("negative")
        return self.size**2


class Doubled(Sized):
    """One whose override asks the method it overrides."""

    @once
    def squared(self) -> int:
        """Return twice what the parent returns."""
        return 2 * super().squared()


def counted(monkeypatch: pytest.MonkeyPatch, module: Any, name: str) -> list[None]:
    calls: list[None] = []
    real = getattr(module, name)

    def counting(*args: Any, **keywords: Any) -> Any:
        calls.append(None)
        return real(*args, **keywords)

    monkeypatch.setattr(module, name, counting)
    return calls


def test_a_fact_is_computed_once_in_a_fit_and_at_each_call_outside_of_one():
    thing = Sized(3)
    with one_fit():
        assert [thing.squared(), thing.squared()] == [9, 9]
    assert thing.calls == 1
    thing.size = 4
    assert [thing.squared(), thing.squared()] == [16, 16]
    assert thing.calls == 3


def test_a_fit_knows_nothing_of_the_one_before_or_around_it():
    thing = Sized(3)
    with one_fit():
        thing.squared()
        with one_fit():
            thing.size = 5
            assert thing.squared() == 25
        assert thing.squared() == 9
    with one_fit():
        assert thing.squared() == 25


def test_two_objects_and_a_parent_keep_facts_of_their_own():
    with one_fit():
        assert [Sized(i).squared() for i in range(50)] == [i * i for i in range(50)]  # ids are used again
        thing = Doubled(3)
        assert [thing.squared(), thing.squared(), Sized.squared(thing)] == [18, 18, 9]
        assert thing.calls == 1


def test_what_could_not_be_computed_is_tried_again():
    thing = Sized(-1)
    with one_fit():
        for _ in range(2):
            with pytest.raises(ValueError, match="negative"):
                thing.squared()
    assert thing.calls == 2


def test_a_fit_that_fails_keeps_nothing(monkeypatch: pytest.MonkeyPatch):
    estimator = CovarianceMatrix(["a"], bounds=(0, 1), epsilon=1, delta=DELTA)
    with pytest.raises(ValueError, match="is missing"):
        estimator.fit(pd.DataFrame({"b": [0.5]}))
    calls = counted(monkeypatch, covariance_module, "block_of")
    estimator._blocks()
    assert len(calls) == 1


ROWS = pd.DataFrame({"a": [0.2, 0.8], "b": [0.5, 0.1], "k": [0, 1], "y": [0, 1]})
FAMILIES: dict[str, tuple[Any, Any, str]] = {
    "covariance": (
        CovarianceMatrix(["a", "b"], bounds=(0, 1), epsilon=1, delta=DELTA),
        covariance_module,
        "block_of",
    ),
    "statistics": (
        HistoricalStatistics(domains={"k": [0, 1]}, bounds={"a": (0, 1)}, epsilon=1),
        statistics_module,
        "layout_of",
    ),
    "counts": (
        CountFeaturizer(domains={"k": [0, 1]}, label="y", classes=(0, 1), epsilon=1),
        counts_module,
        "read_features",
    ),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_reads_its_parameters_once_per_fit(monkeypatch: pytest.MonkeyPatch, family: str):
    estimator, module, name = FAMILIES[family]
    calls = counted(monkeypatch, module, name)
    estimator.fit(ROWS)
    assert len(calls) == 1
    part = estimator.partial_statistics(ROWS)
    assert len(calls) == 2
    estimator.finalize([part])
    assert len(calls) == 3


def test_parameters_that_change_between_fits_count():
    rows = np.full((100, 2), 0.5)
    estimator = AdaSSPRegressor(["a"], "y", bounds=(0, 1), label_bounds=(0, 1), epsilon=1, delta=DELTA)
    few = estimator.fit(pd.DataFrame(rows, columns=["a", "y"])).noise_std_["covariance"]["product"]
    estimator.set_params(bounds=(0, 4))
    more = estimator.fit(pd.DataFrame(rows, columns=["a", "y"])).noise_std_["covariance"]["product"]
    assert more == pytest.approx(16 * few)  # four times as wide, and products
