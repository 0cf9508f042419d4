"""Principal components: variance captured, and time against one product of the matrix with itself."""

import time

import numpy as np

from benchmarks.measuring import Row, measured, take_turns
from ptklib import CovarianceMatrix

ROWS, COLUMNS, COMPONENTS, RUNS = 100_000, 20, 5, 10
NORM, DELTA = 2.5, 1e-6


def rows() -> list[Row]:
    random = np.random.default_rng(0)
    turn = np.linalg.qr(random.normal(size=(COLUMNS, COLUMNS)))[0]
    data = random.normal(size=(ROWS, COLUMNS)) / np.sqrt(np.arange(1, COLUMNS + 1)) @ turn.T
    names = [f"x{i}" for i in range(COLUMNS)]
    true = np.cov(data.T)
    best = float(np.linalg.eigvalsh(true)[-COMPONENTS:].sum())

    def captured(components: np.ndarray) -> float:
        return float(np.trace(components @ true @ components.T)) / best

    def mean_captured(epsilon: float) -> float:
        pca = CovarianceMatrix(names, max_norm=NORM, n_components=COMPONENTS, epsilon=epsilon, delta=DELTA)
        return float(np.mean([captured(pca.fit(data).components_) for _ in range(RUNS)]))

    found = [
        measured(
            f"covariance-captured-{epsilon:g}",
            f"variance in {COMPONENTS} of {COLUMNS} components, 1e5 rows, epsilon {epsilon:g}",
            unit="share of non-private PCA",
            ours=mean_captured(epsilon),
            goal=0.99,
            direction="max",
        )
        for epsilon in (0.1, 1.0)
    ]
    # No peer: diffprivlib samples eigenvectors by rejection, and does not end within minutes at 1e5 rows.
    pca = CovarianceMatrix(names, max_norm=NORM, n_components=COMPONENTS, epsilon=0.1, delta=DELTA)
    for what, work, goal in (
        ("clip, quantise and multiply", lambda: pca.partial_statistics(data), 3),
        ("whole fit", lambda: pca.fit(data), 2),
    ):
        timed = take_turns(work, lambda: data.T @ data, 45, time.process_time, rest_seconds=0.15)
        found.append(
            measured(
                f"covariance-time-{what.split()[0].strip(',')}",
                f"{what}, {COLUMNS} columns, 1e5 rows",
                unit="ms of CPU",
                ours=timed.ours * 1e3,
                against="one X.T @ X; judged in pairs",
                theirs=timed.theirs * 1e3,
                judged=timed.ratio,
                goal=goal,
                direction="min",
            )
        )
    return found
