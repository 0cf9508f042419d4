"""The allowlist of estimator families: names a stored spec may ask for."""

from importlib import import_module
from typing import Any

from ptklib.exceptions import InvalidParameterError

FAMILIES = {
    "AdaSSPRegressor": "ptklib.linear",
    "Clustering": "ptklib.clustering",
    "CountFeaturizer": "ptklib.counts",
    "CovarianceMatrix": "ptklib.covariance",
    "HistoricalStatistics": "ptklib.statistics",
    "TreeFeaturizer": "ptklib.trees",
    "UserEmbeddings": "ptklib.embeddings",
}
"""Family name to the module that holds it; loaded on first use, so that no family costs another's imports."""


def load_family(name: object) -> Any:
    """Return the estimator class of a family in the allowlist."""
    if not isinstance(name, str) or name not in FAMILIES:
        raise InvalidParameterError(f"unknown family {name!r}: known are {', '.join(sorted(FAMILIES))}")
    return getattr(import_module(FAMILIES[name]), name)
