"""Noise for long vectors: ours, OpenDP's and numpy's, which is not safe to use."""

from typing import Any

import numpy as np

from benchmarks.measuring import Row, measured, median_seconds, take_turns
from ptklib.mechanisms import additive, vectorised

N = 1_000_000
N_OPENDP = 20_000
SCALES = (1.0, 1000.0, 3.5e6)


def rows() -> list[Row]:
    random = np.random.default_rng(0)
    return [
        row(law, scale, *samplers)
        for law, *samplers in (
            ("laplace", vectorised.discrete_laplace, additive._laplace_measurement, random.laplace),
            ("gaussian", vectorised.discrete_gaussian, additive._gaussian_measurement, random.normal),
        )
        for scale in SCALES
    ]


def row(law: str, scale: float, sampler: Any, measurement: Any, unsafe: Any) -> Row:
    zeros, oracle = np.zeros(N_OPENDP, dtype=np.int64), measurement(scale)
    timed = take_turns(lambda: sampler(scale, N), lambda: unsafe(scale=scale, size=N), 15)
    return measured(
        f"noise-{law}-{scale:g}",
        f"discrete {law.capitalize()} noise of scale {scale:g}, 1e6 values",
        unit="ns/value",
        ours=timed.ours / N * 1e9,
        against=f"OpenDP; judged: times unsafe numpy's {timed.theirs / N * 1e9:.0f}, in pairs",
        theirs=median_seconds(lambda: oracle(zeros), 3) / N_OPENDP * 1e9,
        judged=timed.ratio,
        goal=2,
        direction="min",
    )
