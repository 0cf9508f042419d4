"""Draw and Discard done slowly: plain integers and fractions, one row and one weight after the other."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from hashlib import blake2b
from itertools import product
from math import floor, inf, isqrt, nextafter, prod
from pathlib import Path
from typing import Any

VECTORS = Path(__file__).parents[2] / "docs/reference/draw_discard_vectors.json"

ONE, FINE = 2**15, 2**20


def vectors() -> list[dict[str, Any]]:
    """Return the published test vectors."""
    cases: list[dict[str, Any]] = json.loads(VECTORS.read_text())["cases"]
    return cases


def rows_of(case: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return the rows of a case, with the integers that not all languages read from JSON."""
    rows = {name: list(column) for name, column in case["rows"].items()}
    for name, places in case.get("integers", {}).items():
        for place, digits in places.items():
            rows[name][int(place)] = int(digits)
    return rows


def number(entry: Any) -> float | None:
    """Return an entry as a number; None for NaN and all that is no number."""
    if not isinstance(entry, int | float):
        return None
    try:
        value = float(entry)
    except OverflowError:
        return None
    return None if value != value else value


def share(column: Mapping[str, Any], entry: Any, units: int) -> int | None:
    """Return where a number is between the bounds, in whole units."""
    value = number(entry)
    if value is None:
        return None
    low, high = float(column["low"]), float(column["high"])
    return floor((min(max(value, low), high) - low) / (high - low) * units + 0.5)


def bucket(n: int, entry: Any) -> int | None:
    """Return the bucket of a text or a whole number."""
    word = 2**64
    if isinstance(entry, str):
        octets = entry.encode(errors="surrogatepass")
        digest = blake2b(octets, digest_size=8, salt=bytes(16)).digest()
        return int.from_bytes(digest, "little") % n if len(octets) <= 1024 else None
    value = number(entry)
    if value is None or value % 1 or (isinstance(entry, float) and abs(value) >= 2.0**63):
        return None

    def mix(z: int) -> int:
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % word
        z = (z ^ z >> 27) * 0x94D049BB133111EB % word
        return z ^ z >> 31

    return mix(int(entry) % word ^ mix(0x9E3779B97F4A7C15)) % n


def chosen(column: Mapping[str, Any], entry: Any) -> int | None:
    """Return the place of an entry among values or buckets."""
    return code(column["values"], entry) if "values" in column else bucket(column["hash_buckets"], entry)


def many(column: Mapping[str, Any]) -> int | None:
    """Return how many weights a column chooses from; None for numbers."""
    return len(column["values"]) if "values" in column else column.get("hash_buckets")


def code(values: Sequence[Any], entry: Any) -> int | None:
    """Return the place of an entry among declared values of its own type."""
    for place, value in enumerate(values):
        boolean = isinstance(value, bool) == isinstance(entry, bool)
        text = isinstance(value, str) == isinstance(entry, str)
        if boolean and text and value == entry:
            return place
    return None


def layout(document: Mapping[str, Any]) -> list[Any]:
    """Return what each weight of a class stands for: None, a column, or numbers and pairs of column and value."""
    weights: list[Any] = [None]
    sizes = {c["column"]: many(c) for c in document["features"]}
    for name, size in sizes.items():
        weights += [name] if size is None else [((), ((name, v),)) for v in range(size)]
    for cross in document["crosses"]:
        numbers = tuple(name for name in cross if sizes[name] is None)
        pairs = [[(name, v) for v in range(sizes[name] or 0)] for name in cross if name not in numbers]
        weights += [(numbers, some) for some in product(*pairs)]
    return weights


def encoded(
    document: Mapping[str, Any], rows: Mapping[str, Sequence[Any]]
) -> tuple[list[list[int]], list[int]]:
    """Return all inputs of each row that has a label, zeros included, and its label."""
    label = document["label"]
    inputs, labels = [], []
    for place, target in enumerate(rows[label["column"]]):
        wanted = code(label["values"], target) if "values" in label else share(label, target, FINE)
        if wanted is None:
            continue
        found: dict[Any, int | None] = {}
        for column in document["features"]:
            entry = rows[column["column"]][place]
            if many(column) is not None:
                found[column["column"]] = chosen(column, entry)
            else:
                found[column["column"]] = share(column, entry, ONE) or 0
        row = []
        for weight in layout(document):
            if weight is None:
                row.append(ONE)
            elif isinstance(weight, str):
                row.append(found[weight] or 0)
            else:
                numbers, pairs = weight
                times = ONE if all(found[name] == value for name, value in pairs) else 0
                for name in numbers:
                    times = floor(Fraction(times * (found[name] or 0), ONE) + Fraction(1, 2))
                row.append(times)
        inputs.append(row)
        labels.append(wanted)
    return inputs, labels


def logistic(place: int) -> int:
    """Return an entry of the table of the logistic function, from 50 digits."""
    with localcontext() as context:
        context.prec = 50
        exact = FINE / (1 + (-(Decimal(place) / 128 - 16)).exp())
        assert abs(exact % 1 - Decimal("0.5")) > Decimal("1e-6")  # no language rounds it otherwise
        return int(exact.to_integral_value())


def exponential(place: int) -> int:
    """Return an entry of the table of the exponential function, from 50 digits."""
    with localcontext() as context:
        context.prec = 50
        exact = 2**24 * (-Decimal(place) / 128).exp()
        assert abs(exact % 1 - Decimal("0.5")) > Decimal("1e-5")  # no language rounds it otherwise
        return int(exact.to_integral_value())


def probabilities(scores: Sequence[int]) -> list[int]:
    """Return the probability of each class in units of 1 / FINE."""
    found = []
    for score in scores:
        cell, rest = divmod(min(max(scores) - score, 16 * FINE), 2**13)
        chord = Fraction(exponential(cell) * (2**13 - rest) + exponential(cell + 1) * rest, 2**13)
        found.append(floor(chord + Fraction(1, 2)))
    return [floor(Fraction(FINE * one, sum(found)) + Fraction(1, 2)) for one in found]


def prediction(document: Mapping[str, Any], score: int) -> int:
    """Return the prediction of a score in units of 1 / FINE."""
    if document["link"] == "linear":
        return min(max(score, -FINE), 2 * FINE)
    cell, rest = divmod(min(max(score, -16 * FINE), 16 * FINE) + 16 * FINE, 2**13)
    chord = Fraction(logistic(cell) * (2**13 - rest) + logistic(cell + 1) * rest, 2**13)
    return floor(chord + Fraction(1, 2))


def towards_zero(value: Fraction) -> int:
    """Return the whole part of a fraction."""
    return int(value)


def gradient(document: Mapping[str, Any], instance: Sequence[int], rows: Any) -> list[int]:
    """Return the mean gradient in units of 1 / FINE."""
    inputs, labels = encoded(document, rows)
    sums, n = [0] * len(instance), len(layout(document))
    models = [instance[first : first + n] for first in range(0, len(instance), n)]
    for row, label in zip(inputs, labels, strict=True):
        totals = [sum(w * x for w, x in zip(model, row, strict=True)) for model in models]
        scores = [floor(Fraction(total, 2 ** (document["grid_bits"] - 5))) for total in totals]
        if document["link"] == "softmax":
            errors = [p - FINE * (c == label) for c, p in enumerate(probabilities(scores))]
        else:
            errors = [prediction(document, scores[0]) - label]
        added = [error * x for error in errors for x in row]
        sums = [s + a for s, a in zip(sums, added, strict=True)]
    return [towards_zero(Fraction(s, max(len(labels), 1) * ONE)) for s in sums]


def public(document: Mapping[str, Any]) -> tuple[int, int]:
    """Return the limit of a gradient and the reach of a step, in whole units."""
    rate = floor(document["learning_rate"] * 2.0 ** document["grid_bits"] + 0.5)
    limit = floor(document["max_norm"] * FINE)
    return limit, rate * limit // FINE


def step(document: Mapping[str, Any], found: Sequence[int]) -> list[int]:
    """Return the clipped step in units of the grid."""
    limit, reach = public(document)
    if document["clip"] == "coordinate":
        return [towards_zero(Fraction(reach * min(max(g, -limit), limit), limit)) for g in found]
    if document["clip"] == "l1":
        norm = sum(map(abs, found))
    else:
        squares = sum(g * g for g in found)
        norm = isqrt(squares) + (isqrt(squares) ** 2 < squares)
    return [towards_zero(Fraction(reach * g, max(norm, limit))) for g in found]


def distance(document: Mapping[str, Any]) -> int:
    """Return how far two steps are apart at most, in L1 or L2; one entry of them with clipped coordinates."""
    reach = public(document)[1]
    if document["clip"] == "l2" and document["noise"] == "laplace":
        return isqrt(4 * reach**2 * n_weights(document))
    return 2 * reach


def laplace_scale(document: Mapping[str, Any]) -> float:
    """Return the least float64 that is no less than distance / epsilon."""
    exact = Fraction(distance(document)) / Fraction(document["epsilon"])
    scale = float(exact)
    while Fraction(scale) >= exact:
        scale = nextafter(scale, 0)
    return nextafter(scale, inf)


def report(instance: Sequence[int], step: Sequence[int], noise: Sequence[int]) -> list[int]:
    """Return what a device puts when its noise is this."""
    most = 2**31 - 1
    return [min(max(w - s + n, -most), most) for w, s, n in zip(instance, step, noise, strict=True)]


def n_weights(document: Mapping[str, Any]) -> int:
    """Return the number of weights, from the sizes of columns."""
    sizes = {c["column"]: many(c) or 1 for c in document["features"]}
    crosses = sum(prod(sizes[name] for name in cross) for cross in document["crosses"])
    return (1 + sum(sizes.values()) + crosses) * len(document["label"].get("values", (0,)))
