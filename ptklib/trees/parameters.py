"""Parameters of trees, checked before any row is read."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ptklib.domains import CELLS_MAX, Domain
from ptklib.exceptions import InvalidDomainError, InvalidParameterError, UnboundedSensitivityError
from ptklib.names import check_columns
from ptklib.privacy import SUMS_MOST, Bounds
from ptklib.scalars import finite_number, whole_number
from ptklib.trees.binning import BINS_MAX, Feature
from ptklib.trees.targets import Target

Method = Literal["adaptive", "boosting", "random", "greedy"]
METHODS = ("adaptive", "auto", "boosting", "random", "greedy")
OUTPUTS = ("prediction", "tree", "leaf", "leaf_index")

TREES_MAX = 1000
DEPTH_MAX = 12
CANDIDATES_MAX = 10_000
FEATURES_MAX = 4096
SEED_MAX = 2**63 - 1

BOOSTED_CLASSES_MAX = 16
"""Classes that boosting takes: it moves one score per class of every row in every round."""

LEAF_COLUMNS_MAX = 2**13
"""Leaf indicators of one row: 64 kilobytes."""

_DEFAULT_TREES = {"adaptive": 24, "boosting": 24, "random": 60, "greedy": 12}


@dataclass(frozen=True, eq=False)
class Shape:
    """Checked public parameters of trees."""

    method: Method
    features: tuple[Feature, ...]
    target: Target
    n_trees: int
    depth: int
    n_candidates: int
    seed: int
    learning_rate: float
    """Of boosting: the part of a Newton step that is taken."""


def method(value: object, n_classes: int) -> Method:
    """Return the method; of a number, `n_classes` is 0.

    Notes
    -----
    "auto" is what the default was before "adaptive": specifications that are stored have it.
    """
    if value not in METHODS:
        raise InvalidParameterError(f"method must be one of {', '.join(map(repr, METHODS))}")
    if value in ("adaptive", "auto"):
        if n_classes > BOOSTED_CLASSES_MAX:
            return "random"
        return "adaptive" if value == "adaptive" and n_classes else "boosting"
    if value == "boosting" and n_classes > BOOSTED_CLASSES_MAX:
        raise InvalidParameterError(f"boosting takes at most {BOOSTED_CLASSES_MAX} classes: take 'random'")
    return value  # type: ignore[return-value]


def output(value: object, n_trees: int, depth: int) -> str:
    """Return what `transform` gives."""
    if value not in OUTPUTS:
        raise InvalidParameterError(f"output must be one of {', '.join(map(repr, OUTPUTS))}")
    if value == "leaf" and n_trees << depth > LEAF_COLUMNS_MAX:
        raise InvalidParameterError(
            f"output 'leaf' would have {n_trees << depth} columns, more than {LEAF_COLUMNS_MAX}: "
            "take 'leaf_index', or fewer or shallower trees"
        )
    return str(value)


def n_trees(value: object, chosen: Method) -> int:
    """Return the number of trees; None means a number that is good with the method."""
    return whole_number(_DEFAULT_TREES[chosen] if value is None else value, "n_estimators", 1, TREES_MAX)


def rate(value: object) -> float:
    """Return a learning rate."""
    number = finite_number(value, "learning_rate", InvalidParameterError)
    if not 0 < number <= 1:
        raise InvalidParameterError("learning_rate must be in (0, 1]")
    return number


def check_cells(n: int) -> None:
    """Refuse tables of more numbers than can be kept in memory."""
    if n > CELLS_MAX:
        raise InvalidParameterError(
            f"the trees have more than {CELLS_MAX} numbers: give fewer or shallower trees, or fewer classes"
        )


def features(names: Any, bounds: Any, domains: Any, thresholds: Any, n_bins: Any) -> tuple[Feature, ...]:
    """Return the features with their public bins, in the order of `names`.

    Parameters
    ----------
    names, bounds, domains, thresholds, n_bins
        As `TreeFeaturizer` is given them.
    """
    listed = {} if domains is None else domains
    cuts = {} if thresholds is None else thresholds
    if not isinstance(listed, Mapping):
        raise InvalidDomainError("domains must map columns to their public values")
    if not isinstance(cuts, Mapping):
        raise InvalidParameterError("thresholds must map columns to increasing numbers")
    within = dict(bounds) if isinstance(bounds, Mapping) else {}
    if names is None:
        if bounds is not None and not isinstance(bounds, Mapping):
            raise UnboundedSensitivityError("give features, or bounds={column: (low, high)}, or domains")
        columns = check_columns([*within, *(name for name in listed if name not in within)], "features")
    else:
        columns = check_columns(names, "features")
        if bounds is not None and not isinstance(bounds, Mapping):
            within = {name: bounds for name in columns if name not in listed}
    if not 1 <= len(columns) <= FEATURES_MAX:
        raise UnboundedSensitivityError(
            f"TreeFeaturizer needs bounds={{column: (low, high)}} or domains of 1 to {FEATURES_MAX} features"
        )
    declared = [*within, *listed]
    if set(declared) != set(columns) or len(declared) != len(columns):
        raise UnboundedSensitivityError("bounds or domains, one of them, must declare each of the features")
    if not set(cuts) <= set(within):
        raise InvalidParameterError("thresholds are for columns with bounds only")
    bins = whole_number(n_bins, "n_bins", 2, BINS_MAX)
    binned = []
    for name in columns:
        if name in listed:
            domain = Domain.of(name, listed[name])
            if len(domain) > BINS_MAX:
                raise InvalidDomainError(f"the domain of {name!r} holds more than {BINS_MAX} values")
            binned.append(Feature.of_domain(name, domain))
            continue
        limits = Bounds.of(within[name], name).within(SUMS_MOST, name)
        if name in cuts:
            binned.append(Feature.cut_at(name, limits, _cuts(cuts[name], limits, name)))
        else:
            binned.append(Feature.between(name, limits, bins))
    return tuple(binned)


def _cuts(values: Any, limits: Bounds, name: str) -> Any:
    if isinstance(values, str | bytes | Mapping) or not hasattr(values, "__iter__"):
        raise InvalidParameterError(f"the thresholds of {name!r} must be a sequence of numbers")
    numbers = np.asarray(
        [finite_number(value, f"each threshold of {name!r}", InvalidParameterError) for value in values]
    )
    inside = len(numbers) and limits.low < numbers[0] and numbers[-1] < limits.high
    if not inside or len(numbers) >= BINS_MAX or (np.diff(numbers) <= 0).any():
        raise InvalidParameterError(
            f"the thresholds of {name!r} must increase inside its bounds, fewer than {BINS_MAX}"
        )
    return numbers
