"""train_dp and eval of the PTK paper over estimators."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from ptklib import CountFeaturizer, DPEstimator, HistoricalStatistics, as_ptk
from ptklib.exceptions import InvalidParameterError, PrivacyParameterError, StateMismatchError
from tests.support.families import rows


def speeds() -> HistoricalStatistics:
    return HistoricalStatistics(domains={"hour": range(4)}, bounds={"speed": (0, 60)}, epsilon=0.1)


def test_an_iterator_of_tables_trains_like_one_table_with_the_given_epsilon() -> None:
    data, ptk = rows(9000), as_ptk(speeds())
    shards = [data[:3000], pa.Table.from_pandas(data[3000:]), data[:0]]
    state = ptk.train_dp(iter(shards), 8.0)
    assert state.loss.epsilon == 8.0
    true = data.groupby("hour")["speed"].agg(["count", "mean"])
    assert state.tables["statistics"]["count"].to_numpy() == pytest.approx(true["count"].to_numpy(), abs=8)
    assert state.tables["statistics"]["speed_mean"].to_numpy() == pytest.approx(
        true["mean"].to_numpy(), abs=0.1
    )
    assert ptk.eval([data[:500], data[500:]]) < 0.01


def test_training_continues_a_state_with_a_given_config() -> None:
    ptk = as_ptk(speeds())
    first = ptk.train_dp([rows()], 1.0, None, None)
    config = {**ptk.config, "params": {**ptk.config["params"], "epsilon": 3.0}}
    second = ptk.train_dp([rows()], 0.5, first, config)
    assert second.meta["n_releases"] == 2
    assert second.loss.epsilon == 0.5
    assert (
        DPEstimator.from_state(second).noise_std_["statistics"]["count"]
        > first.meta["noise_std"]["statistics"]["count"]
    )


def test_bad_input_is_refused_before_the_first_table_is_asked_for() -> None:
    ptk = as_ptk(speeds())
    opened = []

    def trainset():
        opened.append(True)
        yield rows()

    other = as_ptk(
        CountFeaturizer("hour", "long", classes=[False, True], domains={"hour": range(4)}, epsilon=1)
    )
    with pytest.raises(PrivacyParameterError):
        ptk.train_dp(trainset(), 11.0)
    with pytest.raises(InvalidParameterError):
        ptk.train_dp(trainset(), 1.0, None, {"family": "Nothing", "params": {}})
    with pytest.raises(StateMismatchError):
        ptk.train_dp(trainset(), 1.0, other.train_dp([rows()], 1.0))
    assert opened == []


def test_eval_measures_the_last_state_between_zero_and_one() -> None:
    ptk = as_ptk(
        CountFeaturizer("hour", "long", classes=[False, True], domains={"hour": range(4)}, epsilon=1)
    )
    with pytest.raises(InvalidParameterError):
        ptk.eval([rows()])
    state = ptk.train_dp([rows(5000)], 5.0)
    good = ptk.eval([rows(5000)])
    flipped = ptk.eval([rows(5000).assign(long=lambda d: ~d["long"])])
    assert 0 <= good < 0.02 < flipped <= 1
    assert np.isnan(ptk.eval(iter([])))
    assert ptk.state is state
    assert np.isfinite(good)


def test_rows_bounded_per_unit_come_as_one_table() -> None:
    trainer = HistoricalStatistics(domains={"k": [0]}, statistics="count", epsilon=1.0, unit="who")
    table = pd.DataFrame({"k": [0, 0], "who": ["a", "a"]})
    ptk = as_ptk(trainer)
    assert ptk.train_dp([table], epsilon=1.0).meta["n_releases"] == 1
    with pytest.raises(InvalidParameterError, match="as one"):
        ptk.train_dp([table, table], epsilon=1.0)
    with pytest.raises(InvalidParameterError, match="as one"):
        ptk.eval([table, table])
