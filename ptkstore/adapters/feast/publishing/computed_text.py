"""The text that consumers of a computed view run: an independent function, beside the numbers of a version."""

# No `from __future__ import annotations`: the text is run where the names that stand in quotes are unknown.
import inspect
from typing import Any

FUNCTION = "computed"


def compute(inputs: "Any", declared: "dict[str, Any]") -> "Any":
    """Compute, for a frame of Feast's, from what was sent along; knows nothing but its arguments."""
    import hashlib
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

    def mixed(word: "int") -> "int":  # the finaliser of SplitMix64
        word ^= word >> 30
        word = word * 0xBF58476D1CE4E5B9 % 2**64
        word ^= word >> 27
        word = word * 0x94D049BB133111EB % 2**64
        return word ^ word >> 31

    def bucket(value: "Any", width: "int") -> "int":
        if isinstance(value, str):
            octets = value.encode(errors="surrogatepass")
            if len(octets) > 1024 or octets.decode(errors="ignore") != value:
                return -1
            salted = hashlib.blake2b(octets, digest_size=8, salt=bytes(16))
            return int.from_bytes(salted.digest(), "little") % width
        if missing(value) or not isinstance(value, (int, float)):
            return -1
        if isinstance(value, float) and not (value.is_integer() and abs(value) < 2.0**63):
            return -1
        return mixed(int(value) % 2**64 ^ mixed(0x9E3779B97F4A7C15)) % width

    def codes(name: "str", feature: "dict[str, Any]") -> "Any":
        sent = [value.item() if isinstance(value, np.generic) else value for value in inputs[name]]
        if "hash_buckets" in feature:
            return np.array([bucket(value, feature["hash_buckets"]) for value in sent], dtype=np.int64)
        kind = type(feature["values"][0])
        fitting = {bool: (bool,), str: (str,), int: (int, float)}[kind]
        places = {value: place for place, value in enumerate(feature["values"])}
        found = []
        for value in sent:
            fits = isinstance(value, fitting) and isinstance(value, bool) == (kind is bool)
            found.append(places.get(value, -1) if fits else -1)
        return np.array(found, dtype=np.int64)

    def score(names: "list[str]", given: "dict[str, Any]") -> "list[Any]":
        one, end = 2**15, 1  # units of an input of 1; the constant is weight 0
        places, shares = [np.zeros(rows, dtype=np.int64)], [np.full(rows, one)]
        coded: dict[int, Any] = {}
        units: dict[int, Any] = {}

        def use(found: "Any", times: "Any", width: "int") -> "int":
            places.append(np.where(found < 0, 0, end + found))
            shares.append(np.where(found < 0, 0, times))
            return end + width

        for number, (name, feature) in enumerate(zip(names, given["features"])):  # noqa: B905
            if "low" in feature:
                low, high = feature["low"], feature["high"]
                at = (np.clip(numbers(name), low, high) - low) / (high - low)
                units[number] = np.floor(np.where(np.isnan(at), 0.0, at) * one + 0.5).astype(np.int64)
                end = use(np.zeros(rows, dtype=np.int64), units[number], 1)
            else:
                width = len(feature["values"]) if "values" in feature else feature["hash_buckets"]
                coded[number] = codes(name, feature), width
                end = use(coded[number][0], one, width)
        for cross in given["crosses"]:
            found, times, width = np.zeros(rows, dtype=np.int64), np.full(rows, one), 1
            for number in cross:
                if number in coded:
                    of, size = coded[number]
                    found, width = np.where((found < 0) | (of < 0), -1, found * size + of), width * size
                else:
                    times = (times * units[number] + one // 2) // one
            end = use(found, times, width)
        total: Any = 0.0
        for weights in given["models"]:
            scores = (np.array(weights)[:, np.array(places)] * (np.array(shares) / one)).sum(axis=1)
            if given["link"] == "logistic":
                scores = 1 / (1 + np.exp(-np.clip(scores, -700, 700)))
            elif given["link"] == "softmax":
                scores = np.exp(scores - scores.max(axis=0))
                scores = scores / scores.sum(axis=0)
            total = total + scores / len(given["models"])
        if given["link"] == "linear":
            low, high = given["label"]["low"], given["label"]["high"]
            total = low + np.clip(total, 0.0, 1.0) * (high - low)
        return [np.where(known, column, math.nan) for column in total]

    columns: dict[str, Any] = {}
    forms = {"nearest": nearest, "project": project, "leaves": leaves, "score": score}
    for form, names, outputs, given in declared["parts"]:
        columns.update(zip(outputs, forms[form](names, given)))  # noqa: B905
    columns["computed_version"] = np.where(known, declared["version"], 0)
    return pd.DataFrame(columns, index=inputs.index)


def text_of(declared: dict[str, Any]) -> str:
    """Write the function `computed(inputs)` over plain values, as text."""
    return (
        f"{inspect.getsource(compute)}\n\ndef {FUNCTION}(inputs):\n    return compute(inputs, {declared!r})\n"
    )
