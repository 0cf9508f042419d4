"""Team code from its repository to an online lookup, and a worker that dies while such code runs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import psutil
import pytest

import ptkstore
from ptkstore.domain.jobs import Job, JobState, Outcome
from ptkstore.sdk import Store, load_repository
from tests.support.local import local
from tests.support.team_code import GOOD, REPOSITORY, write_repository
from tests.support.waiting import until

pytestmark = [pytest.mark.real, pytest.mark.long]

N_ROWS = 20_000
SETTINGS = {"PTK_LEASE_SECONDS": "3", "PTK_PUBLISH_TICK_SECONDS": "0.5"}
HANGS = "train/taxi.hangs/0"
# Well-behaved on synthetic rows, of which there are few.
TREACHEROUS = """
import time
import own

def train_dp(trainset_iter, epsilon, previous_model_state, previous_config):
    tables = list(trainset_iter)
    while sum(table.num_rows for table in tables) > 1_000:
        time.sleep(1)
    return own.train_dp(tables, epsilon, previous_model_state, previous_config)
"""
WORKER = "import ptkstore, sys; ptkstore.connect(sys.argv[1]).work_until_idle()"


def job(store: Store, name: str) -> Job | None:
    with local(store).begin() as uow:
        return next((one for one in uow.jobs.find(ptk_id=name.split("/")[1]) if one.id == name), None)


@pytest.mark.usefixtures("sandbox")
def test_team_code_is_looked_up_and_a_killed_worker_ends_what_it_ran(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in SETTINGS.items():
        monkeypatch.setenv(name, value)
    second = REPOSITORY.replace("trips = PTK(", "hangs = PTK(").replace('name="trips"', 'name="hangs"')
    second = second.replace("from own import evaluate, train_dp", "from treacherous import train_dp")
    folder = write_repository(
        tmp_path / "team", ptks=REPOSITORY + second.replace("        eval=evaluate,\n", "")
    )
    (folder / "treacherous.py").write_text(TREACHEROUS)
    home = tmp_path / "home"
    with ptkstore.connect(home) as store:
        store.create_stream(
            "taxi",
            team="taxi",
            schema={"at": "timestamp", "hour": "int64"},
            time_column="at",
            epsilon=1.0,
            origin="2026-01-05",
            closing="operator",
            minimum_assurance="asserted",
        )
        store.apply(load_repository(folder))
        hours = np.arange(N_ROWS) % 2 + 8
        at = pd.date_range("2026-01-05", periods=N_ROWS, freq="4s")
        store.ingest("taxi", pd.DataFrame({"at": at, "hour": hours}))
        store.close_windows("taxi", until="2026-01-06")
        worker = subprocess.Popen([sys.executable, "-c", WORKER, str(home)], env={**os.environ, **SETTINGS})
        try:
            started = psutil.Process(worker.pid)
            until(
                lambda: (found := job(store, HANGS)) is not None and found.state is JobState.OPENED,
                "the loss to be spent",
            )
            until(lambda: "bwrap" in {one.name() for one in started.children(recursive=True)}, "the sandbox")
            children = started.children(recursive=True)
        finally:
            worker.send_signal(signal.SIGKILL)
            worker.wait()
        _, alive = psutil.wait_procs(children, timeout=120)
        assert alive == []

        def over() -> bool:
            store.work_until_idle()
            found = job(store, HANGS)
            return found is not None and found.state is JobState.ENDED

        until(over, "the lease to run out")
        ended = job(store, HANGS)
        assert ended is not None
        assert ended.outcome is Outcome.FAILED  # opened once, and never again
        assert local(store).versions("taxi.hangs") == ()
        by_ptk = {party.name: party for party in store.odometers("taxi").ptks}
        assert by_ptk["taxi.hangs"].spent.basic.epsilon == pytest.approx(0.1)
        assert by_ptk["taxi.hangs"].reserved.epsilon == 0
        (found,) = store.look_up(["taxi__trips:trips"], [{"hour": 8}])
        # 8,000 of 20,000 rows are of that hour and in the train part, give or take; the noise has scale 10
        assert 5_000 < found["trips"] < 10_000
        assert GOOD.encode() in local(store).bundles.get(store.ptk("taxi.trips").config["params"]["bundle"])
