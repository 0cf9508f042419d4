"""Counts and means per group by diffprivlib: time and errors of its histogram and a mean per group."""

import json
import sys
import time
import warnings

import numpy as np
from diffprivlib import BudgetAccountant, tools

warnings.simplefilter("ignore")


def main(path: str, parameters: dict[str, float]) -> None:
    data = np.load(path)
    codes, values = data["codes"], data["values"]
    groups, high = int(parameters["groups"]), parameters["high"]
    for_counts, for_means = parameters["epsilon_counts"], parameters["epsilon_means"]
    spend = BudgetAccountant()
    seconds, errors = [], []
    for _ in range(int(parameters["runs"])):
        start = time.perf_counter()
        edges = {"bins": groups, "range": (-0.5, groups - 0.5), "accountant": spend}
        counts, _ = tools.histogram(codes, epsilon=for_counts, **edges)
        order = np.argsort(codes, kind="stable")
        means = [
            tools.mean(part, epsilon=for_means, bounds=(0.0, high), accountant=spend)
            if len(part)
            else high / 2
            for part in np.split(values[order], np.cumsum(np.bincount(codes, minlength=groups))[:-1])
        ]
        seconds.append(time.perf_counter() - start)
        missed = counts - data["true_counts"], np.asarray(means) - data["true_means"]
        errors.append([float(np.mean(miss * miss)) for miss in missed])
    counts_error, means_error = np.mean(errors, axis=0).tolist()
    print(json.dumps({"seconds": float(np.median(seconds)), "counts": counts_error, "means": means_error}))


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
