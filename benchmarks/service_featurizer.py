"""A published state applied on the consumer's side: rows per second through the scikit-learn transformer."""

import statistics
import time
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

from benchmarks.measuring import Row, measured, take_turns
from ptklib import CountFeaturizer
from ptkstore.sdk.featurizer import Featurizer
from ptkstore.sdk.featurizing import Ptk

ROWS, VALUES = 1_000_000, 1_000
GOAL = 5_000_000.0


def published(*, texts: bool) -> Ptk:
    """Counts of two classes per value of one column, as the store would hand them over."""
    draw = np.random.default_rng(1)
    keys: list[Any] = [f"zone {n}" for n in range(VALUES)] if texts else list(range(VALUES))
    rows = pd.DataFrame({"zone": draw.choice(keys, 100_000), "long": draw.random(100_000) < 0.3})
    fitted = CountFeaturizer(
        features=["zone"], label="long", classes=[False, True], domains={"zone": keys}, epsilon=1.0
    ).fit(rows)
    return Ptk(
        id="bench.counts",
        version=1,
        model_state=fitted.to_state(),
        config={},
        tau=0.1,
        oldest_contributing_window={},
        newest_contributing_window={},
        guarantee={},
    )


def rows() -> list[Row]:
    found = []
    draw = np.random.default_rng(2)
    integers = draw.integers(0, VALUES, ROWS)
    codes = Featurizer(None, [published(texts=False)]).fit()
    names = Featurizer(None, [published(texts=True)]).fit()
    texts = [f"zone {n}" for n in integers]
    tables: dict[str, tuple[Any, Featurizer]] = {
        "arrow, integers": (pa.table({"zone": integers}), codes),
        "pandas, integers": (pd.DataFrame({"zone": integers}), codes),
        "polars, integers": (pl.DataFrame({"zone": integers}), codes),
        "polars, texts": (pl.DataFrame({"zone": texts}), names),
    }
    for what, (table, featurizer) in tables.items():
        featurizer.transform(table)
        taken = statistics.median(_timed(featurizer, table) for _ in range(9))
        found.append(
            measured(
                f"service-featurizer-{what.replace(', ', '-')}",
                f"counts of one column looked up by the Featurizer ({what})",
                unit="rows/s",
                ours=ROWS / taken,
                goal=GOAL,
                direction="max",
            )
        )
    table = pa.table({"zone": integers})
    alone = codes.ptks_[0].estimator
    timed = take_turns(lambda: codes.transform(table), lambda: alone.transform(table))
    found.append(
        measured(
            "service-featurizer-over-ptklib",
            "the same beside the estimator of ptklib alone (arrow, integers)",
            unit="rows/s",
            ours=ROWS / timed.ours,
            against="ptklib alone",
            theirs=ROWS / timed.theirs,
            judged=timed.ratio,
            goal=1.2,
            direction="min",
        )
    )
    return found


def _timed(featurizer: Featurizer, table: Any) -> float:
    start = time.perf_counter()
    featurizer.transform(table)
    return time.perf_counter() - start


if __name__ == "__main__":
    from benchmarks.measuring import table as shown

    print(shown(rows()))
