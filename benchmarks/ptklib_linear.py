"""Linear regression: variance explained at small epsilon."""

from pathlib import Path

import numpy as np
from sklearn.linear_model import LinearRegression

from benchmarks.measuring import Row, measured, take_turns
from benchmarks.peers import ask_peer
from ptklib import AdaSSPRegressor

ROWS, COLUMNS, RUNS = 100_000, 20, 10
EXPLAINED = 0.887
NORM, LABEL, DELTA = 6.0, 4.0, 1e-6
PEER = Path(__file__).parent / "peers" / "diffprivlib_linear.py"


def rows() -> list[Row]:
    random = np.random.default_rng(0)
    names = [f"x{i}" for i in range(COLUMNS)]
    found = []
    for kind, spectrum in (("equal", np.ones(COLUMNS)), ("falling", 1 / np.arange(1, COLUMNS + 1))):
        turn = np.linalg.qr(random.normal(size=(COLUMNS, COLUMNS)))[0]
        data = random.normal(size=(2 * ROWS, COLUMNS)) * np.sqrt(spectrum * COLUMNS / spectrum.sum()) @ turn.T
        signal = data @ random.normal(size=COLUMNS)
        signal /= signal.std()
        label = signal + random.normal(size=2 * ROWS) * np.sqrt((1 - EXPLAINED) / EXPLAINED)
        train, train_label, test, test_label = data[:ROWS], label[:ROWS], data[ROWS:], label[ROWS:]
        plain = LinearRegression().fit(train, train_label).score(test, test_label)
        for epsilon, goal in ((0.1, 0.75), (1.0, 0.877)):
            ours = AdaSSPRegressor(
                names, max_norm=NORM, label_bounds=(-LABEL, LABEL), epsilon=epsilon, delta=DELTA
            )
            scores = [ours.fit(train, train_label).score(test, test_label) for _ in range(RUNS)]
            peer = ask_peer(
                "diffprivlib",
                PEER,
                {"X": train, "y": train_label},
                epsilon=epsilon,
                bound=LABEL,
            )
            error = test_label - peer["intercept"] - test @ np.array(peer["coefficients"])
            found.append(
                measured(
                    f"linear-{kind}-{epsilon:g}",
                    f"R2 on fresh rows, {COLUMNS} features of {kind} variance, 1e5 rows, epsilon {epsilon:g}",
                    unit=f"R2, {plain:.3f} without privacy",
                    ours=float(np.mean(scores)),
                    goal=goal,
                    direction="max",
                    against="diffprivlib LinearRegression (pure epsilon)",
                    theirs=float(1 - np.mean(error**2) / np.var(test_label)),
                )
            )
    timed = take_turns(
        lambda: ours.fit(train, train_label), lambda: LinearRegression().fit(train, train_label), 11
    )
    found.append(
        measured(
            "linear-time",
            f"fit, {COLUMNS} features, 1e5 rows",
            unit="ms",
            ours=timed.ours * 1e3,
            against="sklearn LinearRegression",
            theirs=timed.theirs * 1e3,
            judged=timed.ratio,
            goal=1,
            direction="min",
        )
    )
    return found
