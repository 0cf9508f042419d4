"""Historical statistics: noisy counts, moments, histograms and quantiles of values per group of keys."""

from ptklib.statistics.estimator import HistoricalStatistics

__all__ = ["HistoricalStatistics"]
