"""Gradient descent with noise: rows per second beside Opacus, and what is learned."""

from pathlib import Path
from time import perf_counter, process_time

import numpy as np

from benchmarks.measuring import Row, measured
from benchmarks.peers import ask_peer
from ptklib import DPSGDClassifier
from ptklib.sgd.network import UNIT

ROWS, COLUMNS, BOUND = 100_000, 20, 4.0
EPSILON, DELTA, EPOCHS = 1.0, 1e-6, 4
ROUNDS = 3
PEER = Path(__file__).parent / "peers" / "opacus_linear.py"


def rows() -> list[Row]:
    random = np.random.default_rng(0)
    data = random.normal(size=(ROWS, COLUMNS))
    weights = random.normal(size=COLUMNS)
    odds = data @ weights * (3 / np.linalg.norm(weights))
    label = (random.random(ROWS) < 1 / (1 + np.exp(-odds))).astype(np.int64)
    best = float(np.mean((odds > 0) == label))
    return [row for batch in (256, 2000) for row in _beside_opacus(data, label, batch, best)]


def _beside_opacus(data: np.ndarray, label: np.ndarray, batch: int, best: float) -> list[Row]:
    """Take turns: the same model, expected batch, epochs, clip norm and noise; the median of ratios is judged."""
    ours = DPSGDClassifier(
        [f"x{i}" for i in range(COLUMNS)],
        classes=(0, 1),
        bounds=(-BOUND, BOUND),
        batch_rate=batch / ROWS,
        epochs=EPOCHS,
        learning_rate=1.0,
        momentum=0.0,
        epsilon=EPSILON,
        delta=DELTA,
    )
    multiplier = ours._plan().step_scale / UNIT
    scaled = {"X": np.clip(data / BOUND, -1, 1), "y": label}
    wall, cpu, seen = [], [], []
    for _ in range(ROUNDS):
        n_rows = EPOCHS * ROWS
        start, worked = perf_counter(), process_time()
        ours.fit(data, label)
        rate, rate_cpu = n_rows / (perf_counter() - start), n_rows / (process_time() - worked)
        peer = ask_peer(
            "opacus",
            PEER,
            scaled,
            batch_size=batch,
            epochs=EPOCHS,
            clip_norm=1.0,
            learning_rate=1.0,
            noise_multiplier=multiplier,
        )
        wall.append((rate, peer["rows_per_second"], rate / peer["rows_per_second"]))
        cpu.append((rate_cpu, peer["rows_per_cpu_second"], rate_cpu / peer["rows_per_cpu_second"]))
        seen.append((ours.score(data, label), peer["accuracy"]))
    found = []
    for name, what, turns in (("", "second", wall), ("-cpu", "second of CPU time", cpu)):
        mine, theirs, ratio = (float(np.median([turn[i] for turn in turns])) for i in range(3))
        found.append(
            measured(
                f"sgd-rows-{batch}{name}",
                f"rows a {what}, logistic regression, {COLUMNS} features, 1e5 rows, batches of {batch}",
                unit=f"rows/s; accuracy {np.median([one for one, _ in seen]):.3f}, theirs "
                f"{np.median([one for _, one in seen]):.3f}, best {best:.3f}",
                ours=mine,
                against="Opacus 1.6.0, torch 2.13.0 on one thread",
                theirs=theirs,
                judged=ratio,
                goal=10,
                direction="max",
            )
        )
    return found
