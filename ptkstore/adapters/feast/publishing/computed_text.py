"""The text that consumers of a computed view run: a function that stands alone, beside the numbers of a version."""

# No `from __future__ import annotations`: the text is run where the names that stand in quotes are unknown.
import inspect
from typing import Any

FUNCTION = "computed"


def compute(inputs: "Any", declared: "dict[str, Any]") -> "Any":
    """Compute, for a frame of Feast's, from what was sent along; knows nothing but its arguments."""
    import math

    import numpy as np
    import pandas as pd

    def missing(value: "Any") -> bool:
        return value is None or value is pd.NA or value is pd.NaT or bool(value != value)

    rows = len(inputs)
    known = np.ones(rows, dtype=bool)
    if "event_timestamp" in inputs.columns:  # a join in time: nothing was released before that moment
        moments = [m.timestamp() for m in pd.to_datetime(inputs["event_timestamp"], utc=True)]
        known = np.array([moment >= declared["since"] for moment in moments], dtype=bool)

    def numbers(name: "str") -> "Any":
        sent = inputs[name].tolist()
        return np.array([math.nan if missing(value) else float(value) for value in sent], dtype=np.float64)

    def points(names: "list[str]") -> "Any":
        return np.column_stack([numbers(name) for name in names])

    def nearest(names: "list[str]", given: "dict[str, Any]") -> "list[Any]":
        sent = points(names)
        sent = np.clip(np.where(np.isnan(sent), given["usual"], sent), given["low"], given["high"])
        places = sent * given["factor"]
        centres = np.array(given["centres"]) * given["factor"]
        found = np.zeros(rows, dtype=np.int64)
        at_once = max(1, 1_000_000 // centres.size)
        for start in range(0, rows, at_once):
            part = places[start : start + at_once, None, :] - centres
            found[start : start + at_once] = (part * part).sum(axis=2).argmin(axis=1)  # of equals the first
        return [np.where(known, found, -1)]

    def project(names: "list[str]", given: "dict[str, Any]") -> "list[Any]":
        sent = points(names)
        finite = np.isfinite(sent)
        width, reach = np.array(given["half_width"]), given["reach"]
        standard = (np.where(finite, sent, 0.0) - given["centre"]) / width
        standard = np.where(finite, np.clip(standard, -reach, reach) - given["mean"], 0.0)
        found = (standard * width) @ np.array(given["components"]).T
        return [np.where(known, column, math.nan) for column in found.T]

    def leaves(names: "list[str]", given: "dict[str, Any]") -> "list[Any]":
        seen = []
        for name, feature in zip(names, given["features"]):  # noqa: B905
            if "values" in feature:
                places = {value: float(place) for place, value in enumerate(feature["values"])}
                sent = [math.nan if missing(value) else places.get(value, math.nan) for value in inputs[name]]
                seen.append(np.array(sent, dtype=np.float64))
            else:
                seen.append(np.clip(numbers(name), feature["low"], feature["high"]))
        found = []
        for tree in given["trees"]:
            thresholds, node = np.array(tree["thresholds"]), np.zeros(rows, dtype=np.int64)
            for feature in tree["levels"]:
                node = 2 * node + 1 + (seen[feature] >= thresholds[node])  # not for what is missing
            found.append(np.where(known, node - len(thresholds), -1))
        return found

    columns: dict[str, Any] = {}
    forms = {"nearest": nearest, "project": project, "leaves": leaves}
    for form, names, outputs, given in declared["parts"]:
        columns.update(zip(outputs, forms[form](names, given)))  # noqa: B905
    columns["computed_version"] = np.where(known, declared["version"], 0)
    return pd.DataFrame(columns, index=inputs.index)


def text_of(declared: dict[str, Any]) -> str:
    """Write the function `computed(inputs)` over plain values, as text."""
    return (
        f"{inspect.getsource(compute)}\n\ndef {FUNCTION}(inputs):\n    return compute(inputs, {declared!r})\n"
    )
