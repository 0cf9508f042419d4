"""The action of a fitted estimator on a row, as plain numbers: for readers that have no ptklib."""

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
    """What a row must have; kinds are ``double``, ``int64``, ``string`` and ``bool``."""
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


def _score_form(estimator: Any) -> PlainForm:
    s = estimator.specification
    columns = tuple((feature.column, _kind_of(feature)) for feature in s.features)
    return PlainForm(columns, s.n_scores, _count(_inputs_of(estimator)) + _models(estimator) * s.n_weights)


def _score(estimator: Any) -> Parameters:
    """As `DrawDiscardModel.transform`: numbers clamped to their bounds, and no weight for a value without one."""
    from ptklib.draw_discard.model import INSTANCES, WEIGHTS  # as above

    averaged = INSTANCES if estimator.average == "predictions" else WEIGHTS
    weights = estimator.tables_[averaged].column("weight").to_numpy()
    shape = _models(estimator), estimator.specification.n_scores, -1
    return {**_inputs_of(estimator), "models": weights.reshape(shape).tolist()}


def _inputs_of(estimator: Any) -> Parameters:
    """Return what the weights of a model are multiplied by, and what becomes of the sum."""
    s = estimator.specification
    places = {feature.column: place for place, feature in enumerate(s.features)}
    features = [feature.to_json() for feature in s.features]
    bounds = {"low": s.label.low, "high": s.label.high} if s.link == "linear" else {}
    return {
        "link": s.link,
        "label": bounds,
        "features": [
            {name: value for name, value in feature.items() if name != "column"} for feature in features
        ],
        "crosses": [[places[name] for name in cross] for cross in s.crosses],
    }


def _models(estimator: Any) -> int:
    """Return of how many models the predictions are averaged."""
    return int(estimator.specification.k) if estimator.average == "predictions" else 1


def _kind_of(feature: Any) -> str:
    from ptklib.draw_discard.columns import Categorical, Numeric  # as above

    if isinstance(feature, Numeric):
        return "double"
    kinds = {bool: "bool", int: "int64", str: "string"}
    return kinds[type(feature.values[0])] if isinstance(feature, Categorical) else "string"


def _count(value: Any) -> int:
    """Return how many numbers and texts a document has."""
    if isinstance(value, dict):
        return sum(map(_count, value.values()))
    return sum(map(_count, value)) if isinstance(value, list) else 1


_FORMS: "dict[str, tuple[Any, ...]]" = {
    "nearest": ("Clustering", _nearest_form, _nearest),
    "project": ("CovarianceMatrix", _project_form, _project),
    "leaves": ("TreeFeaturizer", _leaves_form, _leaves),
    "score": ("DrawDiscardModel", _score_form, _score),
}
