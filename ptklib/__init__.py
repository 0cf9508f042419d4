"""Differentially private feature models with the interface of scikit-learn."""

from typing import TYPE_CHECKING

from ptklib.lazy import exports

if TYPE_CHECKING:  # for editors and type checkers, which cannot see `__getattr__`
    from ptklib.base import DPEstimator as DPEstimator
    from ptklib.clustering import Clustering as Clustering
    from ptklib.counts import CountFeaturizer as CountFeaturizer
    from ptklib.covariance import CovarianceMatrix as CovarianceMatrix
    from ptklib.draw_discard.model import DrawDiscardModel as DrawDiscardModel
    from ptklib.embeddings import UserEmbeddings as UserEmbeddings
    from ptklib.exceptions import PtklibError as PtklibError
    from ptklib.families import trust_family as trust_family
    from ptklib.hashing import bucket_of as bucket_of
    from ptklib.lake import load_state as load_state
    from ptklib.linear import AdaSSPRegressor as AdaSSPRegressor
    from ptklib.partials import PartialStatistics as PartialStatistics
    from ptklib.privacy import Bounds as Bounds
    from ptklib.privacy import PrivacyLoss as PrivacyLoss
    from ptklib.privacy import PrivacyUnit as PrivacyUnit
    from ptklib.privacy import Relation as Relation
    from ptklib.profiling import Profile as Profile
    from ptklib.profiling import Profiler as Profiler
    from ptklib.profiling import error_forecast as error_forecast
    from ptklib.ptk import as_ptk as as_ptk
    from ptklib.sgd import DPSGDClassifier as DPSGDClassifier
    from ptklib.sgd import DPSGDRegressor as DPSGDRegressor
    from ptklib.spec import estimator_from_spec as estimator_from_spec
    from ptklib.state import ReleasedState as ReleasedState
    from ptklib.state import TableSchema as TableSchema
    from ptklib.statistics import HistoricalStatistics as HistoricalStatistics
    from ptklib.team import TeamCode as TeamCode
    from ptklib.trees import TreeFeaturizer as TreeFeaturizer

_EXPORTS = {
    "AdaSSPRegressor": "linear",
    "Bounds": "privacy",
    "Clustering": "clustering",
    "CountFeaturizer": "counts",
    "CovarianceMatrix": "covariance",
    "DPEstimator": "base",
    "DPSGDClassifier": "sgd",
    "DPSGDRegressor": "sgd",
    "DrawDiscardModel": "draw_discard.model",
    "HistoricalStatistics": "statistics",
    "PartialStatistics": "partials",
    "PrivacyLoss": "privacy",
    "PrivacyUnit": "privacy",
    "Profile": "profiling",
    "Profiler": "profiling",
    "error_forecast": "profiling",
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

__getattr__, __dir__ = exports(__name__, _EXPORTS)
