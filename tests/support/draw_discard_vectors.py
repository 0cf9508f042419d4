"""Writes the test vectors of devices: ``python -m tests.support.draw_discard_vectors``.

Cases that are in the file stay. Those of this page come after them, each against a way to compute that is nearly right.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any

from ptklib.draw_discard import Categorical, Numeric, Specification
from tests.support import draw_discard as slow

ABOUT = (
    "docs/proofs/draw_discard.md says what each field is, under 'Test vectors'. All numbers of inputs, labels, "
    "gradient, step, distance, noise and report are whole."
)
EDGE = 2**31 - 1
Y = Numeric("y", 0, 1)
TINY = 2.0**-20


def computed(case: Mapping[str, Any]) -> dict[str, Any]:
    """Return a case with all that follows from its specification, rows, integers, instance and noise."""
    one = Specification.from_text(case["specification"])
    document = json.loads(case["specification"])
    rows = slow.rows_of(case)
    inputs, labels = slow.encoded(document, rows)
    gradient = slow.gradient(document, case["instance"], rows)
    limit, reach = slow.public(document)
    laplace = document["noise"] == "laplace"
    step = slow.step(document, gradient)
    found = {
        "name": case["name"],
        "specification": one.text,
        "digest": one.digest,
        "n_weights": slow.n_weights(document),
        "limit": limit,
        "reach": reach,
        "distance": slow.distance(document),
        "noise_scale": slow.laplace_scale(document) if laplace else one.noise_scale,
        **{name: case[name] for name in ("rows", "integers", "instance") if name in case},
        "inputs": inputs,
        "labels": labels,
        "gradient": gradient,
        "step": step,
    }
    if "noise" in case:
        found |= {"noise": case["noise"], "report": slow.report(case["instance"], step, case["noise"])}
    return found


def numbers(n: int) -> list[Numeric]:
    """Return columns of numbers from 0 to 1."""
    return [Numeric(f"x{i}", 0, 1) for i in range(n)]


def case(
    name: str,
    rows: Mapping[str, Any],
    instance: Sequence[int],
    *,
    integers: Mapping[str, Any] | None = None,
    noise_given: Sequence[int] | None = None,
    **fields: Any,
) -> dict[str, Any]:
    """Return what a case is computed from."""
    given: dict[str, Any] = {"label": Y, "epsilon": 3.47, "link": "linear"} | fields
    found = {"name": name, "specification": Specification(**given).text, "rows": rows, "instance": instance}
    others = {"integers": integers, "noise": noise_given}
    return found | {name: value for name, value in others.items() if value is not None}


def norms() -> Iterator[dict[str, Any]]:
    """L2 norms: rounded up, exact, and beyond what a root in float64 tells apart."""
    fields: dict[str, Any] = {"clip": "l2", "max_norm": TINY, "learning_rate": 2.0**10, "grid_bits": 22}
    for ones, told in ((3, "rounded up to 2"), (2, "rounded up to 2"), (1, "which is 1")):
        rows = {"x0": [int(ones > 1)], "x1": [int(ones > 2)], "y": [TINY]}
        yield case(
            f"L2 norm: the root of {ones}, {told}",
            rows,
            [0, 0, 0],
            features=numbers(2),
            k=2,
            epsilon=10,
            **fields,
        )
    shares = [2**15 - d for d in (494, 21, 3, 2, 2)] + [2**15 - 1] * 54
    shares += [2**15] * (1024 - len(shares))
    yield case(
        "L2 norm: the root of n * n + 1, above 2**26, rounded up to n + 1",
        {f"x{i}": [share / 2**15] for i, share in enumerate(shares)} | {"y": [TINY]},
        [2**30] + [0] * 1024,
        features=numbers(1024),
        clip="l2",
        noise="gaussian",
        delta=0.0099,
        epsilon=10,
        k=1,
        grid_bits=26,
        learning_rate=2.0,
    )


def scores() -> Iterator[dict[str, Any]]:
    """Scores whose sums pass 2**53 on the way, and those beyond the table of the logistic function."""
    random = Random(10)
    n = 300
    shares = [random.randrange(2**15 - 999, 2**15, 2) for _ in range(n)]
    weights = [EDGE - 2 * random.randrange(1000) for _ in range(n // 2)]
    total = sum(w * x for w, x in zip(weights, shares[: n // 2], strict=True))
    for share in shares[n // 2 :]:
        weight = max(-total // share, -EDGE - 1)
        weights.append(weight)
        total += weight * share
    rows = {f"x{i}": [share / 2**15] for i, share in enumerate(shares)} | {"y": [0.25]}
    yield case(
        "scores: sums beyond 2**53 that cancel",
        rows,
        [5, *weights],
        features=numbers(n),
        grid_bits=8,
        learning_rate=8.0,
    )
    rows = {"x0": [0, 0.5, 1, 0.559, 0.43, 0.5625], "y": [0.5] * 6}
    yield case(
        "scores: logistic, beyond the ends of the table",
        rows,
        [EDGE, -EDGE - 1],
        features=[*numbers(1)],
        link="logistic",
    )
    yield case(
        "scores: logistic, far below and far above",
        {"x0": [0, 1], "y": [1, 0]},
        [-EDGE - 1, EDGE],
        features=[*numbers(1)],
        link="logistic",
        learning_rate=0.003,
    )


def encodings() -> Iterator[dict[str, Any]]:
    """Numbers near half a unit, and integers that no float64 holds."""
    halves = [0.5, 0.49999999999999994, 1.5, 2.5, 3.5, 20000.4999, 20000.5, 20000.50001, 32767.5, 0.4999]
    rows = {
        "x0": [half / 2**15 for half in halves],
        "x1": [half / 2**15 * 3.3 - 1.1 for half in halves],
        "y": [half / 2**20 for half in halves],
    }
    yield case(
        "encoding: half of a unit, and next to it",
        rows,
        [2**20, -(2**22), 3],
        features=[Numeric("x0", 0, 1), Numeric("x1", -1.1, 2.2)],
        learning_rate=0.01,
    )
    beyond = (2**1024, -(10**400), 2**1024 - 2**970, 10**400)
    places = dict(enumerate(map(str, beyond)))
    missing: dict[str, Any] = {
        "x0": [None] * 5,
        "x1": [0.5] * 5,
        "c": [1, 2, None, None, None],
        "y": [1, 0, 1, 0, None],
    }
    yield case(
        "encoding: integers beyond float64 are missing",
        missing,
        [2**22] * 5,
        features=[*numbers(2), Categorical("c", [1, 2])],
        link="logistic",
        integers={"x0": places, "c": {3: str(10**400)}, "y": {4: str(10**400)}},
    )


def roundings() -> Iterator[dict[str, Any]]:
    """Steps of single entries, towards zero."""
    rows = {"x0": [0.3, 0.9], "x1": [0.123, 0.7], "y": [1, 0.8]}
    for sign in (1, -1):
        yield case(
            f"each entry by itself, none clipped, {'up' if sign > 0 else 'down'}",
            rows,
            [sign * 2**23, 2**20, -(2**19)],
            features=numbers(2),
            clip="coordinate",
            max_norm=2.1,
            learning_rate=0.0007,
        )


def crosses() -> Iterator[dict[str, Any]]:
    """Crosses with numbers: multiplied from left to right, half of a unit rounded up each time."""
    random = Random(11)
    n = 20
    ends = [1 / 2**15, 5 / 2**15, 1, 0, None, 0.5, 0.5, 0.75]
    columns = {
        f"x{i}": random.sample(ends, 8) + [random.randrange(2**15) / 2**15 for _ in range(n - 8)]
        for i in range(3)
    }
    rows = columns | {
        "c": [random.choice(["a", "b", "?", None]) for _ in range(n - 4)] + ["a", "b", "a", "b"],
        "d": [random.choice([False, True, None]) for _ in range(n - 4)] + [True, False, True, True],
        "y": [random.choice([0, 1]) for _ in range(n)],
    }
    some = [
        ("x0", "x1"),
        ("x2", "x1", "x0"),
        ("x0", "c"),
        ("c", "x1", "d"),
        ("x2", "d", "x0"),
        ("d", "c"),
    ]
    features = [*numbers(3), Categorical("c", ["a", "b"]), Categorical("d", [False, True])]
    n_weights = 1 + 3 + 4 + 1 + 1 + 2 + 4 + 2 + 4
    for link in ("logistic", "linear"):
        yield case(
            f"crosses with numbers, {link}",
            rows,
            [random.randrange(-(2**22), 2**22) for _ in range(n_weights)],
            features=features,
            crosses=some,
            link=link,
            learning_rate=0.01,
            grid_bits=22,
        )
    yield case(
        "crosses of numbers, softmax",
        {name: columns[name] for name in ("x0", "x1", "x2")} | {"y": [i % 3 for i in range(n)]},
        [random.randrange(-(2**22), 2**22) for _ in range(3 * 6)],
        features=numbers(3),
        crosses=[("x1", "x0"), ("x1", "x2", "x0")],
        link="softmax",
        label=Categorical("y", [0, 1, 2]),
        learning_rate=0.01,
        grid_bits=22,
    )


def reports() -> Iterator[dict[str, Any]]:
    """Noise that is given, and the report; a weight is beyond its end on each side."""
    rows = {"x0": [0.3, 0.9], "x1": [1, 0.7], "x2": [0.2, 0], "x3": [0.1, 0.05], "y": [1, 0.25]}
    instance = [2**21, EDGE - 4, -EDGE + 7, -EDGE - 1, EDGE - 4]
    noise = [12345, 200000, -200000, -1, -200000]
    gaussian: dict[str, Any] = {"noise": "gaussian", "delta": 1e-6}
    for clip, other in (
        ("l1", dict[str, Any]()),
        ("l2", {}),
        ("coordinate", {}),
        ("l2", gaussian),
        ("coordinate", gaussian),
    ):
        yield case(
            f"noise is given, {clip}, {other.get('noise', 'laplace')}",
            rows,
            instance,
            features=numbers(4),
            clip=clip,
            link="logistic",
            max_norm=0.3,
            noise_given=noise,
            **other,
        )


def cases() -> list[dict[str, Any]]:
    """Return all cases: those of the file that are not of this page, and those of this page."""
    parts = (norms(), scores(), encodings(), roundings(), crosses(), reports())
    ours = [one for part in parts for one in part]
    names = {one["name"] for one in ours}
    # From JSON and back: keys of objects are texts there.
    return [
        computed(json.loads(json.dumps(one)))
        for one in [*(old for old in slow.vectors() if old["name"] not in names), *ours]
    ]


def written(found: Sequence[Mapping[str, Any]]) -> str:
    """Return the text of the file: a line for each field."""
    blocks = (
        ",\n".join(
            f"   {json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}" for name, value in one.items()
        )
        for one in found
    )
    listed = ",\n".join(f"  {{\n{block}\n  }}" for block in blocks)
    head = f' "format": "draw-discard/1",\n "about": {json.dumps(ABOUT)},\n "cases": ['
    return "{\n" + head + "\n" + listed + "\n ]\n}\n"


if __name__ == "__main__":
    slow.VECTORS.write_text(written(cases()))
