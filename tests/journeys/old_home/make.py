"""Makes the home that `test_old_home.py` opens, by an earlier program; generated rows alone.

It was run once, with the program of commit 6a8a306, which knew neither chained policies nor assurance in Feast nor
declared values:

    git worktree add --detach OLD 6a8a306
    cd OLD && PYTHONPATH=$PWD python REPOSITORY/tests/journeys/old_home/make.py REPOSITORY/tests/journeys/old_home

The archive has everything of that home: catalog, keys, raw rows of a window that is not closed yet, lake, bundles and
the Feast repository. Its keys protect generated rows and are no secret.
"""

from __future__ import annotations

import os
import sys
import tarfile
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ptklib import HistoricalStatistics
from ptkstore import connect
from ptkstore.sdk import Store, load_repository

DAYS, ROWS = 3, 1_000
OWN = """\
import numpy as np
import pyarrow as pa
from ptklib.mechanisms import laplace

ZONES = ["east", "west"]


def train_dp(trainset_iter, epsilon, previous_model_state, previous_config):
    counts = np.zeros(len(ZONES), dtype=np.int64)
    for table in trainset_iter:
        zones = table.column("zone").to_pylist()
        counts += np.array([zones.count(zone) for zone in ZONES])
    noisy = laplace(counts, l1_sensitivity=1, epsilon=epsilon)
    return {"zones": pa.table({"zone": ZONES, "trips": noisy})}
"""
PTKS = """\
from ptkstore import PTK, TeamFunctions
from own import train_dp

zones = PTK(
    name="zones",
    stream="rides",
    target=0.1,
    estimator=TeamFunctions(
        train_dp=train_dp,
        columns=["zone"],
        tables={"zones": {"keys": ["zone"], "columns": {"zone": "string", "trips": "int64"}}},
        synthetic={"zone": ["east", "west"]},
        epsilon=0.1,
    ),
)
"""


def rows(day: int) -> pd.DataFrame:
    """Rows of one day, the same each time."""
    generator = np.random.default_rng(day)
    return pd.DataFrame(
        {
            "at": pd.date_range(datetime(2026, 1, 5 + day, tzinfo=UTC), periods=ROWS, freq="80s"),
            "hour": np.arange(ROWS) % 24,
            "mph": generator.uniform(5.0, 40.0, ROWS),
            "zone": generator.choice(["east", "west"], ROWS),
        }
    )


def fill(store: Store, folder: Path) -> None:
    """Two published windows of a library PTK and of a team's own code, and rows of a third."""
    store.create_stream(
        "rides",
        team="rides",
        schema={"at": "timestamp", "hour": "int64", "mph": "float64", "zone": "string"},
        time_column="at",
        epsilon=2.0,
        delta=1e-6,
        origin="2026-01-05",
        retention=1,
        rows_per_window=500,
        closing="operator",
        minimum_assurance="asserted",
    )
    folder.mkdir()
    (folder / "team.toml").write_text('team = "rides"\n')
    (folder / "ptks.py").write_text(PTKS)
    (folder / "own.py").write_text(OWN)
    store.apply(load_repository(folder))
    estimator: Any = HistoricalStatistics(
        domains={"hour": range(24)}, bounds={"mph": (0.0, 60.0)}, epsilon=0.2
    )
    serve = {"defaults": {"mph_mean": 20.0}}
    config = {"serve": serve, "evaluate": {"epsilon": 0.1}}
    store.register_ptk(estimator, name="speed", stream="rides", target=0.1, config=config)
    for day in range(DAYS):
        store.ingest("rides", rows(day))
        if day < DAYS - 1:
            store.close_windows("rides", until=f"2026-01-{6 + day:02}")
            store.work_until_idle()


def main(target: Path) -> None:
    """Write home.tar.xz and the report that the old program signed."""
    with tempfile.TemporaryDirectory() as made:
        home = Path(made) / "home"
        os.environ |= {"PTK_ONLINE_STORE": "sqlite", "PTK_PUBLISH_TICK_SECONDS": "0.5"}
        with connect(home) as store:
            fill(store, Path(made) / "team")
            for ptk_id in ("rides.speed", "rides.zones"):
                assert [one.number for one in store.service.versions(ptk_id)] == [1, 2], ptk_id
            (target / "report.json").write_bytes(store.export_ledger("rides").content)
            (target / "report.key").write_text(store.report_key())
        with tarfile.open(target / "home.tar.xz", "w:xz") as archive:
            for path in sorted(home.rglob("*")):
                if not path.is_socket():
                    archive.add(path, str(path.relative_to(home)), recursive=False)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
