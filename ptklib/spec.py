"""Specs: an unfitted estimator as plain JSON, and back."""

import inspect
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ptklib.exceptions import InvalidParameterError
from ptklib.families import load_family

_PLAIN = {bool, int, str}


def plain(value: object, name: str) -> Any:
    """Return a parameter as JSON values; integers stay integers, strings stay strings."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidParameterError(f"parameter {name!r} has a number that is not finite")
        return value
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            raise InvalidParameterError(f"parameter {name!r} has a mapping whose keys are not strings")
        return {key: plain(item, name) for key, item in value.items()}
    if isinstance(value, range) or (isinstance(value, list | tuple) and set(map(type, value)) <= _PLAIN):
        return list(value)
    if isinstance(value, list | tuple | np.ndarray):
        return [plain(item, name) for item in value]
    raise InvalidParameterError(f"parameter {name!r} of type {type(value).__name__} has no JSON form")


def estimator_from_spec(spec: Mapping[str, Any]) -> Any:
    """Return the unfitted estimator that ``to_spec`` described.

    Raises
    ------
    InvalidParameterError
        For a family outside the allowlist, and for unknown or missing parameters.
    """
    if (
        not isinstance(spec, Mapping)
        or set(spec) != {"family", "params"}
        or not isinstance(spec["params"], Mapping)
    ):
        raise InvalidParameterError("a spec has exactly the fields 'family' and 'params'")
    family = load_family(spec["family"])
    parameters = inspect.signature(family).parameters
    given = spec["params"]
    unknown = sorted(str(name) for name in given if name not in parameters)
    if unknown:
        raise InvalidParameterError(f"{spec['family']} has no parameter {', '.join(map(repr, unknown))}")
    missing = [n for n, p in parameters.items() if p.default is inspect.Parameter.empty and n not in given]
    if missing:
        raise InvalidParameterError(f"{spec['family']} needs parameter {', '.join(map(repr, missing))}")
    return family(**given)
