"""Counts and means per group: against two numpy bincounts and diffprivlib."""

from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.measuring import Row, measured, median_seconds, take_turns
from benchmarks.peers import ask_peer
from ptklib import HistoricalStatistics

ROWS, GROUPS, EPSILON, HIGH = 1_000_000, 6_144, 1.0, 60.0


def rows() -> list[Row]:
    random = np.random.default_rng(1)
    codes = random.integers(0, GROUPS, ROWS)
    values = np.clip(random.normal(20 + codes % 24, 6.0), 0, HIGH)
    frame = pd.DataFrame({"group": codes, "value": values})
    estimator = HistoricalStatistics(
        domains={"group": range(GROUPS)}, bounds={"value": (0.0, HIGH)}, epsilon=EPSILON
    )

    def two_bincounts() -> None:
        np.bincount(codes, minlength=GROUPS)
        np.bincount(codes, weights=values, minlength=GROUPS)

    timed = take_turns(lambda: estimator.fit(frame), two_bincounts, 15)
    shares = [1 / event["scale"] for event in estimator.declared_loss().event["events"]]
    peer = ask_peer(
        "diffprivlib",
        Path(__file__).parent / "peers" / "diffprivlib_groups.py",
        {"codes": codes, "values": values},
        groups=GROUPS,
        epsilon_counts=shares[0],  # both divide epsilon in the same way
        epsilon_means=EPSILON - shares[0],
        high=HIGH,
    )
    count = np.bincount(codes, minlength=GROUPS)
    mean = np.bincount(codes, weights=values, minlength=GROUPS) / count
    table = estimator.tables_["statistics"]
    errors = {
        "counts": (table["count"].to_numpy(), np.asarray(peer["counts"]), count),
        "means": (table["value_mean"].to_numpy(), np.asarray(peer["means"]), mean),
    }
    seconds = median_seconds(lambda: estimator.fit(frame), 9)
    what = "counts and means, 1e6 rows, 6,144 groups"
    found = [
        measured(
            "statistics-bincounts",
            what,
            unit="ms",
            ours=timed.ours * 1e3,
            against="two numpy bincounts",
            theirs=timed.theirs * 1e3,
            judged=timed.ratio,
            goal=4,
            direction="<=",
        ),
        measured(
            "statistics-diffprivlib",
            what,
            unit="ms",
            ours=seconds * 1e3,
            against="diffprivlib, times faster",
            theirs=peer["seconds"] * 1e3,
            judged=peer["seconds"] / seconds,
            goal=25,
            direction=">=",
        ),
    ]
    for name, (ours, theirs, true) in errors.items():
        mine, other = (float(np.sqrt(np.mean((x - true) ** 2))) for x in (ours, theirs))
        found.append(
            measured(
                f"statistics-error-{name}",
                f"root mean square error of {name}, epsilon 1",
                unit="1",
                ours=mine,
                against="diffprivlib, ratio",
                theirs=other,
                judged=mine / other,
                goal=1.03,  # 1, and twice the sampling error of a standard deviation over 6,144 groups
                direction="<=",
            )
        )
    return found
