"""Real workers under the load of another team: what a team has waiting does not hold up the others."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from ptklib import HistoricalStatistics
from ptkstore.adapters.processes import Command, RedisServer, Supervisor
from ptkstore.cli.service.machine import environment
from ptkstore.sdk import Store
from ptkstore.settings import Settings
from ptkstore.wiring import Service
from tests.faults import scenario
from tests.support.waiting import until

pytestmark = pytest.mark.real

ROOT = Path(__file__).resolve().parents[2]
ESTIMATOR = HistoricalStatistics(
    keys=["hour"], values=["speed"], domains={"hour": [0, 1]}, bounds={"speed": (0.0, 60.0)}, epsilon=0.1
)
MANY = 6
LATE = "train/zoo.last/0"  # the last by its id, and by its team's


def started(log: Path) -> list[str]:
    """The trainings that workers began, in order."""
    lines = (
        [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
        if log.exists()
        else []
    )
    claimed = (line["job"] for line in lines if line.get("step") == "claimed")
    return [job for job in claimed if job.startswith("train/")]


@pytest.mark.long
def test_the_only_training_of_a_team_starts_second_of_seven_that_one_worker_does(tmp_path: Path) -> None:
    settings = Settings(
        home=tmp_path / "home", online_store="sqlite", worker_concurrency=1, publish_tick_seconds=0.2
    )
    service = Service(settings)
    store = Store(service)
    scenario.create_stream(store)
    names = [("many", f"p{number}") for number in range(MANY)] + [("zoo", "last")]
    for team, name in names:
        service.register_ptk(
            team=team,
            name=name,
            stream=scenario.STREAM,
            estimator=ESTIMATOR.to_spec(),
            target=0.5,
            train_frequency="1d",
        )
    store.ingest(scenario.STREAM, scenario.rows(0), "day 0")
    store.close_windows(scenario.STREAM, scenario.end_of(0))
    log = settings.root / "log" / "worker.log"
    env = {
        **environment(settings),
        "PYTHONPATH": os.pathsep.join((str(ROOT), os.environ.get("PYTHONPATH", ""))),
    }
    with Supervisor(settings.root) as supervisor, RedisServer(settings.root, supervisor=supervisor):
        for name in ("worker", "relay"):
            supervisor.run(Command(name, (sys.executable, "-m", f"workers.{name}"), env=env, tier=2))
        until(lambda: LATE in started(log), "the training of the other team to start", seconds=150)
        order = started(log)
        for name in ("worker", "relay"):
            supervisor.remove(name)
    service.close()
    assert order.index(LATE) == 1, order
