"""Differentially private feature models with the interface of scikit-learn."""

from importlib import import_module
from typing import Any

_EXPORTS = {
    "AdaSSPRegressor": "linear",
    "Bounds": "privacy",
    "Clustering": "clustering",
    "CountFeaturizer": "counts",
    "CovarianceMatrix": "covariance",
    "DPEstimator": "base",
    "HistoricalStatistics": "statistics",
    "PartialStatistics": "partials",
    "PrivacyLoss": "privacy",
    "PrivacyUnit": "privacy",
    "Profile": "profiling",
    "Profiler": "profiling",
    "PtklibError": "exceptions",
    "Relation": "privacy",
    "ReleasedState": "state",
    "TableSchema": "state",
    "TeamCode": "team",
    "TreeFeaturizer": "trees",
    "UserEmbeddings": "embeddings",
    "as_ptk": "ptk",
    "bucket_of": "hashing",
    "estimator_from_spec": "spec",
    "load_state": "lake",
    "trust_family": "families",
}

__all__ = list(_EXPORTS)


def __getattr__(name: str) -> Any:
    """Load an exported name on first use, so that `import ptklib` alone costs nothing."""
    if name not in _EXPORTS:
        raise AttributeError(f"module 'ptklib' has no attribute {name!r}")
    return getattr(import_module(f"ptklib.{_EXPORTS[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_EXPORTS])
