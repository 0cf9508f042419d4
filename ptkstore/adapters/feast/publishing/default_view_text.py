"""The text that consumers of a filled view run: an independent function, beside the declaration it is given."""

# No `from __future__ import annotations`: the text is run where the names that stand in quotes are unknown.
import inspect
from typing import Any

FUNCTION = "filled"


def answer(inputs: "Any", declared: "dict[str, Any]") -> "Any":
    """Fill and derive, for a frame of Feast's; knows nothing but its arguments and the clock."""
    import math
    import time

    import pandas as pd

    def missing(value: "Any") -> bool:
        return value is None or value is pd.NA or value is pd.NaT or bool(value != value)

    versions = [0 if missing(v) else int(v) for v in inputs[declared["version_column"]].tolist()]
    fresh_seconds, ends = declared["fresh_seconds"], declared["ends"]
    if fresh_seconds is not None:
        moments = [time.time()] * len(versions)
        if "event_timestamp" in inputs.columns:  # a join in time: what was fresh then
            moments = [m.timestamp() for m in pd.to_datetime(inputs["event_timestamp"], utc=True)]
        versions = [
            v if v in ends and moment - ends[v] <= fresh_seconds else 0
            for v, moment in zip(versions, moments)  # noqa: B905
        ]
    cast = {"int64": int, "double": float, "bool": bool, "string": str}
    columns: dict[str, list[Any]] = {}
    numbers: dict[str, list[Any]] = {}
    for name, (column, default, kind) in declared["defaults"].items():
        given = inputs[column].tolist()
        values = [default if v == 0 or missing(x) else x for v, x in zip(versions, given)]  # noqa: B905
        columns[name + "_filled"] = numbers[name] = [cast[kind](x) for x in values]

    def operand(of: "Any") -> "list[float]":
        if not isinstance(of, str):
            return [float(of)] * len(versions)
        source = numbers[of] if of in numbers else inputs[of].tolist()
        return [math.nan if missing(x) else float(x) for x in source]

    for name, form, operands, edges in declared["derived"]:
        first = operand(operands[0])
        pairs = list(zip(first, operand(operands[-1])))  # noqa: B905
        if form == "ratio":
            columns[name] = [a / b if b != 0 else math.nan for a, b in pairs]
        elif form == "difference":
            columns[name] = [a - b for a, b in pairs]
        elif form == "sum":
            columns[name] = [a + b for a, b in pairs]
        elif form == "product":
            columns[name] = [a * b for a, b in pairs]
        elif form == "log":
            columns[name] = [math.log(a) if a > 0 else math.nan for a in first]
        else:
            columns[name] = [-1 if a != a else sum(a >= edge for edge in edges) for a in first]
        numbers[name] = columns[name]
    columns["filled_version"] = versions
    return pd.DataFrame(columns, index=inputs.index)


def text_of(declared: dict[str, Any]) -> str:
    """Write the function `filled(inputs)` over a declaration of plain values, as text."""
    return (
        f"{inspect.getsource(answer)}\n\ndef {FUNCTION}(inputs):\n    return answer(inputs, {declared!r})\n"
    )
