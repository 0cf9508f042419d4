"""Columns as a team declares them, and what their weights are called."""

import json
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from ptklib.draw_discard.columns import Categorical, Column, Hashed, Numeric
from ptklib.draw_discard.specification import Specification
from ptklib.exceptions import InvalidParameterError
from ptklib.privacy import Bounds
from ptklib.scalars import is_integer
from ptklib.spec import plain


def column_given(name: str, given: Any) -> Column:
    """Return a column that is given by its bounds, its values or its number of buckets."""
    if isinstance(given, Mapping):
        fields = set(given)
        if fields == {"hash_buckets"}:
            return Hashed(name, given["hash_buckets"])
        if fields == {"values"}:
            return Categorical(name, listed(given["values"], f"the values of {name!r}"))
        raise InvalidParameterError(
            f"{name!r} has hash_buckets or values, or is given by bounds or a list of values"
        )
    if isinstance(given, Bounds):
        return Numeric(name, given.low, given.high)
    values = listed(given, f"what is declared of {name!r}")
    numbers = [isinstance(value, float | np.floating) or is_integer(value) for value in values]
    if len(values) == 2 and all(numbers):
        bounds = Bounds.of(values, name)
        return Numeric(name, bounds.low, bounds.high)
    return Categorical(name, values)


def listed(values: Any, what: str) -> list[Any]:
    """Return a list of values of Python."""
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Sequence | np.ndarray):
        raise InvalidParameterError(f"{what} must be a list")
    return [plain(value, what) for value in values]


def inputs_of(specification: Specification) -> list[tuple[str, str]]:
    """Return what each weight of a class is multiplied by: name of an input, and its value as a text."""
    found = [("1", "")]
    values: dict[str, list[Any]] = {}
    for feature in specification.features:
        if isinstance(feature, Numeric):
            found.append((feature.column, ""))
            continue
        values[feature.column] = (
            list(range(len(feature))) if isinstance(feature, Hashed) else list(feature.values)
        )
        found += [(feature.column, as_text(value)) for value in values[feature.column]]
    for cross in specification.crosses:
        coded = [values[name] for name in cross if name in values]
        found += [("*".join(cross), json.dumps(one, ensure_ascii=False)) for one in product(*coded)]
    return found


def as_text(value: Any) -> str:
    """Return a value as it is written in keys."""
    return str(value).lower() if isinstance(value, bool) else str(value)
