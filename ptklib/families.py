"""The allowlist of estimator families: names a stored spec may ask for."""

from importlib import import_module
from typing import Any

from ptklib.exceptions import InvalidParameterError

FAMILIES = {
    "AdaSSPRegressor": "ptklib.linear",
    "Clustering": "ptklib.clustering",
    "CountFeaturizer": "ptklib.counts",
    "CovarianceMatrix": "ptklib.covariance",
    "DPSGDClassifier": "ptklib.sgd",
    "DPSGDRegressor": "ptklib.sgd",
    "DrawDiscardModel": "ptklib.draw_discard.model",
    "HistoricalStatistics": "ptklib.statistics",
    "TreeFeaturizer": "ptklib.trees",
    "UserEmbeddings": "ptklib.embeddings",
}
"""Family name to the module that holds it; loaded on first use, so that no family costs another's imports."""

TEAM_CODE = "TeamCode"
"""The family of what a team trains by code of its own: described here, computed elsewhere."""

_DESCRIBED = {TEAM_CODE: "ptklib.team"}
_TRUSTED: dict[str, Any] = {}


def is_family(name: object) -> bool:
    """Return whether a stored state or spec may name this family."""
    return isinstance(name, str) and (name in FAMILIES or name in _DESCRIBED or name in _TRUSTED)


def trust_family(family: type) -> None:
    """Let states and specs name a class of the caller's own, for the rest of this process.

    Nothing is imported because of it: whoever calls it has imported the class, and so run its code, already.

    Raises
    ------
    InvalidParameterError
        When another class has that name.
    """
    name = family.__name__
    trusted = _TRUSTED.get(name, family)
    if name in FAMILIES or name in _DESCRIBED or trusted is not family:
        raise InvalidParameterError(f"there is another family called {name!r}")
    _TRUSTED[name] = family


def load_family(name: object) -> Any:
    """Return the estimator class of a family in the allowlist."""
    if not isinstance(name, str) or not is_family(name):
        raise InvalidParameterError(f"unknown family {name!r}: known are {', '.join(sorted(FAMILIES))}")
    if name in _TRUSTED:
        return _TRUSTED[name]
    return getattr(import_module({**FAMILIES, **_DESCRIBED}[name]), name)
