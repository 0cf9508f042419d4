"""Counts and means per group by OpenDP's Polars group-by over given keys: time and mean squared errors."""

import json
import sys
import time

import numpy as np
import opendp.prelude as dp
import polars as pl

dp.enable_features("contrib")


def main(path: str, parameters: dict[str, float]) -> None:
    data = np.load(path)
    groups, high = int(parameters["groups"]), parameters["high"]
    rows = pl.LazyFrame({"group": data["codes"].astype(np.int64), "value": data["values"]})
    keys = pl.LazyFrame({"group": np.arange(groups, dtype=np.int64)})
    split = parameters["epsilon_means"] / parameters["epsilon_counts"]
    seconds, errors = [], []
    for _ in range(int(parameters["runs"])):
        start = time.perf_counter()
        context = dp.Context.compositor(
            data=rows,
            privacy_unit=dp.unit_of(contributions=1),
            privacy_loss=dp.loss_of(epsilon=parameters["epsilon_counts"] + parameters["epsilon_means"]),
            split_evenly_over=1,
            margins=[dp.polars.Margin(max_length=len(data["codes"]))],
        )
        clean = pl.col("value").fill_nan(high / 2).fill_null(high / 2)
        # The scale of lengths is in units of that of sums.
        both = dp.len(scale=split, signed=True), clean.dp.sum((0.0, high))
        asked = context.query().group_by("group").agg(*both)
        found = asked.with_keys(keys).release().collect().sort("group")
        seconds.append(time.perf_counter() - start)
        counts = found["len"].to_numpy().astype(float)
        means = np.clip(found["value"].to_numpy() / np.maximum(counts, 1.0), 0.0, high)
        missed = counts - data["true_counts"], means - data["true_means"]
        errors.append([float(np.mean(miss * miss)) for miss in missed])
    counts_error, means_error = np.mean(errors, axis=0).tolist()
    print(json.dumps({"seconds": float(np.median(seconds)), "counts": counts_error, "means": means_error}))


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
