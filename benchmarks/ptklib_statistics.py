"""Statistics per group: against two numpy bincounts, diffprivlib and OpenDP's Polars group-by."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.measuring import Row, measured, median_seconds, take_turns
from benchmarks.peers import ask_peer
from ptklib import HistoricalStatistics
from ptklib.arrays import Floats

ROWS, GROUPS, EPSILON, HIGH = 1_000_000, 6_144, 1.0, 60.0
RUNS = 24
"""Of the peers, and three times as many of ours: the ratio of two equal errors then has a standard error of .35 %."""

WHAT = "counts and means, 1e6 rows, 6,144 groups"
PEERS = Path(__file__).parent / "peers"


def rows() -> list[Row]:
    random = np.random.default_rng(1)
    codes = random.integers(0, GROUPS, ROWS)
    values = np.clip(random.normal(20 + codes % 24, 6.0), 0, HIGH)
    frame = pd.DataFrame({"group": codes, "value": values})
    estimator = _estimator()

    def two_bincounts() -> None:
        np.bincount(codes, minlength=GROUPS)
        np.bincount(codes, weights=values, minlength=GROUPS)

    timed = take_turns(lambda: estimator.fit(frame), two_bincounts, 15)
    shares = [1 / noise.scale for noise in estimator.declared_loss().event.parts()]  # type: ignore[attr-defined]
    count = np.bincount(codes, minlength=GROUPS)
    true = {"counts": count, "means": np.bincount(codes, weights=values, minlength=GROUPS) / count}
    arrays = {"codes": codes, "values": values, "true_counts": true["counts"], "true_means": true["means"]}
    told = {"groups": GROUPS, "high": HIGH, "runs": RUNS}
    budget = {"epsilon_counts": shares[0], "epsilon_means": EPSILON - shares[0]}  # divided as ours is
    peers = {
        name: ask_peer(name, PEERS / f"{name}_groups.py", arrays, **told, **budget)
        for name in ("diffprivlib", "opendp")
    }
    seconds = median_seconds(lambda: estimator.fit(frame), 9)
    errors = _errors(estimator, frame, true)
    found = [
        measured(
            "statistics-bincounts",
            WHAT,
            unit="ms",
            ours=timed.ours * 1e3,
            against="two numpy bincounts",
            theirs=timed.theirs * 1e3,
            judged=timed.ratio,
            goal=4,
            direction="min",
        )
    ]
    for name, peer in peers.items():
        found += _against(name, peer, seconds, errors)
    return found + _costs(frame, seconds)


def _estimator(**asked: Any) -> HistoricalStatistics:
    return HistoricalStatistics(
        domains={"group": range(GROUPS)}, bounds={"value": (0.0, HIGH)}, epsilon=EPSILON, **asked
    )


def _errors(
    estimator: HistoricalStatistics, frame: pd.DataFrame, true: Mapping[str, Floats]
) -> dict[str, float]:
    """Return mean squared errors of counts and means over many fits."""
    found: dict[str, list[float]] = {what: [] for what in true}
    for _ in range(3 * RUNS):
        table = estimator.fit(frame).tables_["statistics"]
        for what, column in (("counts", "count"), ("means", "value_mean")):
            found[what].append(float(np.mean((table[column].to_numpy() - true[what]) ** 2)))
    return {what: float(np.mean(errors)) for what, errors in found.items()}


def _against(name: str, peer: Mapping[str, Any], seconds: float, errors: Mapping[str, float]) -> list[Row]:
    """Return time and errors beside those of a peer."""
    found = [
        measured(
            f"statistics-{name}",
            WHAT,
            unit="ms",
            ours=seconds * 1e3,
            against=f"{name}; judged: times faster",
            theirs=peer["seconds"] * 1e3,
            judged=peer["seconds"] / seconds,
            goal=25,
            direction="max",
        )
    ]
    for what, error in errors.items():
        mine, other = error**0.5, peer[what] ** 0.5
        found.append(
            measured(
                f"statistics-{name}-error-{what}",
                f"root mean square error of {what}, epsilon 1",
                unit="1",
                ours=mine,
                against=f"{name}, ratio",
                theirs=other,
                judged=mine / other,
                goal=1.01,  # 1, and three standard errors of the ratio
                direction="min",
            )
        )
    return found


def _costs(frame: pd.DataFrame, seconds: float) -> list[Row]:
    """Return the time of further statistics, in times that of counts and means."""
    asked: dict[str, tuple[float, dict[str, Any]]] = {
        "variance": (2, {"statistics": ("count", "mean", "variance")}),
        "quantiles": (8, {"statistics": ("count", "quantiles"), "quantiles": (0.1, 0.5, 0.9)}),
    }
    found = []
    for name, (goal, parameters) in asked.items():
        estimator = _estimator(**parameters)
        took = median_seconds(partial(estimator.fit, frame), 5)
        found.append(
            measured(
                f"statistics-{name}",
                f"{' and '.join(parameters['statistics'])}, 1e6 rows, 6,144 groups",
                unit="ms",
                ours=took * 1e3,
                against="counts and means; judged: times slower",
                theirs=seconds * 1e3,
                judged=took / seconds,
                goal=goal,
                direction="min",
            )
        )
    return found
