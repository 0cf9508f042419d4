"""An estimator in the form scikit-learn's own checks can feed: numbered columns, whole numbers as values."""

from collections.abc import Mapping
from typing import Any

from ptklib.exceptions import PtklibError


def array_form(estimator: Any) -> Any:
    """Return the same configuration with columns ``x0, x1 ...`` and values ``0, 1, 2 ...``.

    scikit-learn's checks make arrays of numbers without names. `InputTable` names the columns of an array
    ``x0, x1 ...``, so an estimator of these columns reads them. Values of domains, classes, users and items that are
    not whole numbers are numbered; a label column becomes the `y` of `fit`.

    Notes
    -----
    Only parameters change, not the class. A parameter of another form than this library's does not change.
    """
    params: dict[str, Any] = estimator.to_spec()["params"]
    label = params.get("label")
    names = [name for name in estimator.required_columns() if name != label]
    renamed = {name: f"x{i}" for i, name in enumerate(names)}
    changed = {name: _renamed(value, renamed) for name, value in params.items()}
    if label is not None:
        changed["label"] = None
    if isinstance(changed.get("domains"), Mapping):
        changed["domains"] = {name: _numbered(values) for name, values in changed["domains"].items()}
    for name in ("classes", "users", "items"):
        if changed.get(name) is not None:
            changed[name] = _numbered(changed[name])
    if isinstance(changed.get("select"), Mapping):
        changed["select"] = dict.fromkeys(changed["select"], "int64")
    made = type(estimator)(**changed)
    try:
        made.declared_loss()
    except PtklibError:
        return estimator
    return made


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return names.get(value, value)
    if isinstance(value, Mapping):
        return {names.get(key, key): _renamed(item, names) for key, item in value.items()}
    if isinstance(value, list):
        return [_renamed(item, names) for item in value]
    return value


def _numbered(values: Any) -> Any:
    if not isinstance(values, list) or all(type(value) is int for value in values):
        return values
    return list(range(len(values)))
