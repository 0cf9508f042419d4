"""Weights of a central model, as those that a model of devices begins around."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ptklib.arrays import Floats
from ptklib.draw_discard.columns import Categorical, Numeric
from ptklib.draw_discard.declarations import as_text, inputs_of
from ptklib.draw_discard.specification import Specification
from ptklib.exceptions import InvalidParameterError
from ptklib.linear import AdaSSPRegressor
from ptklib.privacy import Bounds
from ptklib.sgd import DPSGDClassifier

_Weights = dict[tuple[str, str], float]
"""What each input of a class is multiplied by, as `inputs_of` names it."""


def check_warm_start(specification: Specification, central: Any) -> None:
    """Raise `InvalidParameterError` unless a central model predicts the same label from the same columns.

    Parameters
    ----------
    specification : Specification
        Of numbers and declared values, without crosses.
    central : AdaSSPRegressor or DPSGDClassifier
        Fitted or not: its parameters are looked at alone. An `AdaSSPRegressor` fits a linear model, and a
        `DPSGDClassifier` without hidden layers a logistic or softmax one. Columns, their bounds and values, the label
        and its bounds or classes must be the same.
    """
    if specification.crosses:
        raise InvalidParameterError("a model with crosses cannot begin with a central one, which has none")
    if isinstance(central, AdaSSPRegressor):
        values: Mapping[str, Any] = {}
        _check_link(specification, "linear", central)
    elif isinstance(central, DPSGDClassifier):
        values = central.domains or {}
        _check_link(specification, "logistic" if len(central.classes) == 2 else "softmax", central)
        if tuple(central.hidden_units):
            raise InvalidParameterError("a network with hidden layers has no weights of its columns")
    else:
        raise InvalidParameterError(
            "a model of devices can begin with an AdaSSPRegressor or a DPSGDClassifier, and with no "
            f"{type(central).__name__}"
        )
    names, ours = _feature_names(central), {one.column for one in specification.features}
    if set(names) != ours:
        raise InvalidParameterError(
            f"the central model has the columns {', '.join(sorted(names))}, and this one {', '.join(sorted(ours))}"
        )
    for feature in specification.features:
        name = feature.column
        if isinstance(feature, Numeric):
            _check_bounds(feature, None if name in values else _bounds_of(central.bounds, name))
        elif not isinstance(feature, Categorical) or not _same(
            values.get(name), feature.values, in_order=False
        ):
            raise InvalidParameterError(f"column {name!r} has other values, or none, in the central model")
    _check_label(specification, central)


def warm_start(specification: Specification, central: Any) -> Floats:
    """Return the weights, (n_weights,), with which a model of devices predicts as a fitted central one does.

    Parameters
    ----------
    specification, central
        As for `check_warm_start`.

    Raises
    ------
    InvalidParameterError
        As there, or when a weight is beyond the grid of the specification.

    Notes
    -----
    Coefficients of a central model are in the units of its columns and its label. Inputs of devices run from 0 to 1
    between bounds, as does the label of a linear model. So a coefficient is multiplied by the width of its column's
    bounds, and what it gives at the lower bound goes to the constant. Weights of a linear model are divided by the
    width of the label's bounds. Predictions agree for rows with all columns. Only released numbers are used.
    """
    check_warm_start(specification, central)
    if isinstance(central, AdaSSPRegressor):
        scores = [_weights(specification, central, central.coef_, central.intercept_)]
        scores = [_of_share(specification, scores[0])]
    else:
        pairs = zip(central.coef_, central.intercept_, strict=True)
        scores = [_weights(specification, central, row, float(constant)) for row, constant in pairs]
        if specification.link == "softmax" and len(scores) == 1:  # of two classes, the second has the score
            scores = [dict.fromkeys(scores[0], 0.0), scores[0]]
    inputs = inputs_of(specification)
    found = np.array([score[one] for score in scores for one in inputs])
    if not (np.abs(found) * 2.0**specification.grid_bits < 2.0**31).all():
        raise InvalidParameterError("the central model has weights beyond the grid: take fewer grid_bits")
    return found


def _weights(specification: Specification, central: Any, coefficients: Floats, constant: float) -> _Weights:
    found: _Weights = {}
    places = dict(zip(_input_names(central), coefficients.tolist(), strict=True))
    for feature in specification.features:
        name = feature.column
        if isinstance(feature, Numeric):
            found[name, ""] = places[name, ""] * (feature.high - feature.low)
            constant += places[name, ""] * feature.low
        elif isinstance(feature, Categorical):
            found |= {(name, text): places[name, text] for text in map(as_text, feature.values)}
    return {("1", ""): constant, **found}


def _of_share(specification: Specification, weights: _Weights) -> _Weights:
    """Return weights of the label's share of its bounds, of those of the label."""
    label = specification.label
    assert isinstance(label, Numeric)  # of a linear model
    width = label.high - label.low
    return {key: (one - label.low * (key == ("1", ""))) / width for key, one in weights.items()}


def _feature_names(central: Any) -> tuple[str, ...]:
    if central.features is not None:
        return tuple(central.features)
    bounds = central.bounds if isinstance(central.bounds, Mapping) else {}
    return (*bounds, *(getattr(central, "domains", None) or {}))


def _input_names(central: Any) -> list[tuple[str, str]]:
    """Return what each coefficient is of, in their order: numbers, then each value of other columns."""
    values = getattr(central, "domains", None) or {}
    names = _feature_names(central)
    return [
        *((name, "") for name in names if name not in values),
        *((name, as_text(value)) for name in names if name in values for value in values[name]),
    ]


def _bounds_of(given: Any, name: str) -> Bounds | None:
    pair = given.get(name) if isinstance(given, Mapping) else given
    return None if pair is None else Bounds.of(pair, name)


def _check_link(specification: Specification, link: str, central: Any) -> None:
    two = {"logistic", "softmax"}  # of two classes
    if specification.link != link and not (link == "logistic" and specification.link in two):
        raise InvalidParameterError(
            f"a {specification.link} model cannot begin with {type(central).__name__}, which is {link} here"
        )


def _check_bounds(column: Numeric, bounds: Bounds | None) -> None:
    if bounds is None or (bounds.low, bounds.high) != (column.low, column.high):
        theirs = "none" if bounds is None else f"({bounds.low:g}, {bounds.high:g})"
        raise InvalidParameterError(
            f"{column.column!r} has the bounds ({column.low:g}, {column.high:g}), and {theirs} in the central model"
        )


def _check_label(specification: Specification, central: Any) -> None:
    label = specification.label
    if central.label != label.column:
        raise InvalidParameterError(
            f"the central model predicts {central.label!r}, and this one {label.column!r}"
        )
    if isinstance(central, AdaSSPRegressor):
        assert isinstance(label, Numeric)
        _check_bounds(label, Bounds.of(central.label_bounds, label.column))
        return
    ours: Sequence[Any] = label.values if isinstance(label, Categorical) else (False, True)
    numbers = isinstance(label, Numeric) and _same(central.classes, (0, 1))
    if not numbers and not _same(central.classes, ours):
        raise InvalidParameterError(
            f"{label.column!r} has other classes in the central model, or in another order"
        )


def _same(theirs: Any, ours: Sequence[Any], *, in_order: bool = True) -> bool:
    """Return whether two lists have the same values of the same types."""
    if theirs is None or isinstance(theirs, str | bytes):
        return False
    pairs = [[(type(one).__name__, one) for one in listed] for listed in (list(theirs), list(ours))]
    return pairs[0] == pairs[1] if in_order else sorted(pairs[0]) == sorted(pairs[1])
