"""Statistics of speeds per hour: what the tests of their parts share."""

from typing import Any

import pandas as pd

from ptklib import HistoricalStatistics


def speeds_per_hour(**params: Any) -> HistoricalStatistics:
    """Return statistics of speeds in four hours."""
    given = {"domains": {"hour": range(4)}, "bounds": {"speed": (0.0, 60.0)}, "epsilon": 1.0, **params}
    return HistoricalStatistics(**given)


def table_of(estimator: HistoricalStatistics) -> pd.DataFrame:
    """Return the released table."""
    frame: pd.DataFrame = estimator.tables_["statistics"].to_pandas()
    return frame
