"""A window with many PTKs: from its closing until all of them are published, and what one training costs."""

import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
import psutil

import ptkstore
from benchmarks.measuring import Row, measured
from ptklib import HistoricalStatistics

PTKS = 200
ROWS = 200_000
WORKERS = 2
EPSILON = 0.004  # of each PTK, so that one block holds them all
ORIGIN, END = "2026-01-05", "2026-01-06"


def processor_seconds() -> float:
    """What this process, the processes that it has started and those that ended have used."""
    own = psutil.Process().cpu_times()
    used = own.user + own.system + own.children_user + own.children_system
    for one in psutil.Process().children(recursive=True):
        times = one.cpu_times()
        used += times.user + times.system + times.children_user + times.children_system
    return float(used)


def rows(n_ptks: int = PTKS, n_rows: int = ROWS) -> list[Row]:
    """Wall time of one window at home, closing included."""
    random = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as place, ptkstore.connect(Path(place) / "home") as store:
        store.create_stream(
            "taxi",
            team="taxi",
            schema={"at": "timestamp", "hour": "int64", "speed": "float64"},
            time_column="at",
            epsilon=1.0,
            origin=ORIGIN,
            closing="operator",
            rows_per_window=n_rows,
        )
        estimator = HistoricalStatistics(
            keys=["hour"], domains={"hour": list(range(24))}, bounds={"speed": (0, 60)}, epsilon=EPSILON
        )
        for number in range(n_ptks):
            store.register_ptk(estimator, name=f"speed_{number}", stream="taxi", target=0.5)
        at = pd.date_range(ORIGIN, periods=n_rows, freq=pd.Timedelta("1d") / n_rows)
        speed = random.uniform(0, 60, n_rows)
        store.ingest("taxi", pd.DataFrame({"at": at, "hour": at.hour.astype("int64"), "speed": speed}))
        store.close_windows("taxi", until=END)
        start, used = time.perf_counter(), processor_seconds()
        store.work_until_idle(WORKERS)
        took, cost = time.perf_counter() - start, processor_seconds() - used
        published = sum(bool(store.ptk(f"taxi.speed_{number}").version) for number in range(n_ptks))
        assert published == n_ptks, published
    return [
        measured(
            "window-of-many-ptks",
            f"{n_ptks} PTKs on a window of {n_rows:,} rows, closed until published, {WORKERS} at once",
            unit="s",
            ours=took,
            goal=60.0,
            direction="min",
        ),
        measured(
            "window-of-many-ptks-cost",
            "the same, processor time of all processes for each PTK",
            unit="s",
            ours=cost / n_ptks,
            goal=0.4,
            direction="min",
        ),
    ]
