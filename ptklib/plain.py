"""What a fitted estimator does to a row, as plain numbers: for readers that have no ptklib."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ptklib.exceptions import InvalidParameterError

NUMBERS_MAX = 5_000
"""Numbers of a form: they are read, as text, whenever somebody uses it."""

Parameters = dict[str, Any]


@dataclass(frozen=True)
class PlainForm:
    """The public side of a form, known without data."""

    columns: tuple[tuple[str, str], ...]
    """What a row must have; kinds are ``double``, ``int64`` and ``string``."""
    outputs: int
    """Columns that it gives."""
    numbers: int
    """Numbers and values that it needs."""


def plain_form(estimator: Any, form: str) -> PlainForm:
    """Return what a form of an estimator needs and gives; the estimator need not be fitted.

    Raises
    ------
    InvalidParameterError
        When the family has no such form, or it needs more than `NUMBERS_MAX` numbers.
    """
    described, _ = _of(estimator, form)
    needed = described(estimator)
    if needed.numbers > NUMBERS_MAX:
        raise InvalidParameterError(f"{form!r} would need {needed.numbers} numbers, more than {NUMBERS_MAX}")
    return needed


def plain_parameters(estimator: Any, form: str) -> Parameters:
    """Return the numbers of a form of a fitted estimator: lists and mappings of finite numbers and strings.

    Raises
    ------
    InvalidParameterError
        As `plain_form`.
    """
    plain_form(estimator, form)
    _, read = _of(estimator, form)
    return read(estimator)


def _of(estimator: Any, form: str) -> "tuple[Callable[[Any], PlainForm], Callable[[Any], Parameters]]":
    family, *functions = _FORMS.get(form, ("",))
    if family != type(estimator).__name__:
        forms = sorted(name for name, entry in _FORMS.items() if entry[0] == type(estimator).__name__)
        what = f"{', '.join(forms)} only" if forms else "none"
        raise InvalidParameterError(f"{type(estimator).__name__} has no form {form!r}: it has {what}")
    described, read = functions
    return described, read


def _nearest_form(estimator: Any) -> PlainForm:
    names = estimator.required_columns()
    columns = tuple((name, "double") for name in names)
    return PlainForm(columns, 1, len(names) * (len(estimator.get_feature_names_out()) + 4))


def _nearest(estimator: Any) -> Parameters:
    """As `Clustering.predict`: clamped to the bounds, what is missing takes the released mean."""
    box = estimator._box()
    return {
        "low": box.low.tolist(),
        "high": (box.low + box.width).tolist(),
        "factor": box.factor.tolist(),
        "usual": estimator._usual().tolist(),
        "centres": estimator.cluster_centers_.tolist(),
    }


def _project_form(estimator: Any) -> PlainForm:
    names = estimator.required_columns()
    outputs = len(estimator.get_feature_names_out())
    return PlainForm(tuple((name, "double") for name in names), outputs, len(names) * (outputs + 3) + 1)


def _project(estimator: Any) -> Parameters:
    """As `CovarianceMatrix.transform`: centred by the released mean, 0 for what is missing."""
    (block,) = estimator._blocks()
    return {
        "centre": np.broadcast_to(block.centres, len(block.names)).tolist(),
        "half_width": np.broadcast_to(block.half_widths, len(block.names)).tolist(),
        "reach": 1.0 if block.boxed else float(block.limit),
        "mean": ((estimator.mean_ - block.centres) / block.half_widths).tolist(),
        "components": estimator.components_.tolist(),
    }


def _leaves_form(estimator: Any) -> PlainForm:
    model = estimator._model()
    columns = []
    for feature in model.features:
        kind = "double" if feature.domain is None else feature.domain.kind
        if kind == "bool":
            raise InvalidParameterError("'leaves' takes bounds, or domains of integers or strings")
        columns.append((feature.name, kind))
    shape = model.shape
    values = sum(2 if feature.domain is None else len(feature.domain) for feature in model.features)
    return PlainForm(
        tuple(columns), shape.n_trees, shape.n_trees * (2**shape.depth - 1 + shape.depth) + values
    )


def _leaves(estimator: Any) -> Parameters:
    """As `TreeFeaturizer` with ``output="leaf_index"``: right from a threshold on, left where a value is missing."""
    from ptklib.trees.tables import TREES  # loaded by whoever has the estimator, and by nobody else

    model = estimator._model()
    trees = model.trees(estimator.tables_[TREES])
    return {
        "features": [
            {"low": feature.bounds.low, "high": feature.bounds.high}
            if feature.domain is None
            else {"values": list(feature.domain.values)}
            for feature in model.features
        ],
        "trees": [
            {
                "levels": looked.tolist(),
                "thresholds": [
                    float(model.features[feature].thresholds[split - 1])
                    for feature, split in zip(nodes.tolist(), splits.tolist(), strict=True)
                ],
            }
            for looked, nodes, splits in zip(trees.features, trees.node_features(), trees.splits, strict=True)
        ],
    }


_FORMS: "dict[str, tuple[Any, ...]]" = {
    "nearest": ("Clustering", _nearest_form, _nearest),
    "project": ("CovarianceMatrix", _project_form, _project),
    "leaves": ("TreeFeaturizer", _leaves_form, _leaves),
}
