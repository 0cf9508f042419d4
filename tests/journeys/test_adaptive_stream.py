"""Fourteen days of an adaptive stream: a PTK retries and is accepted, and a bad one never shows anywhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from starlette.testclient import TestClient

from ptklib import HistoricalStatistics
from ptkstore.api.app import create_app
from ptkstore.cli.demo import tlc
from ptkstore.cli.demo.trips import TIME_COLUMN, generate
from ptkstore.domain.identity import STREAM_ROLES
from ptkstore.domain.ledger.journal import EntryKind
from ptkstore.errors import UnknownName
from ptkstore.wiring.identity import Identity
from tests.faults.rig import Rig, rig
from tests.faults.scenario import STREAM, TEAM
from tests.support.local import local

pytestmark = [pytest.mark.real, pytest.mark.long]

DAYS = 14
GOOD, BAD = f"{TEAM}.good", f"{TEAM}.bad"
TEST = {"metric": "loss", "epsilon": 0.3}
RANGE = [0.1, 0.5]
LATE = 20
"""Trips of the first day, on which the producer began late: a test set of a few rows accepts nothing."""


def a_day_each(trips: pa.Table, first: datetime) -> list[pa.Table]:
    """The trips of so many days, with the columns that the stream has."""
    times = trips[TIME_COLUMN]
    days = [first + timedelta(days=day) for day in range(DAYS + 1)]
    kept = [
        trips.filter(pc.and_(pc.greater_equal(times, start), pc.less(times, end)))
        for start, end in pairwise(days)
    ]
    kept[0] = kept[0].slice(kept[0].num_rows - LATE)
    return [one.select([TIME_COLUMN, "hour", "speed_mph"]) for one in kept]


@pytest.fixture
def generated() -> list[pa.Table]:
    trips = generate(n_rows=DAYS * 2_000, days=DAYS)
    start = pc.min(trips[TIME_COLUMN]).as_py()
    return a_day_each(trips, datetime(start.year, start.month, start.day, tzinfo=UTC))


@pytest.fixture
def green(real_data: Path) -> list[pa.Table]:
    file = real_data / "nyc_green_taxi.parquet"
    if not file.is_file():
        pytest.skip(f"there is no {file}, which holds real green cab trips")
    return a_day_each(tlc.load(file), datetime(2022, 1, 3, tzinfo=UTC))


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Rig]:
    with rig(tmp_path / "home") as made:
        yield made


def create(made: Rig, first: datetime) -> None:
    made.store.create_stream(
        STREAM,
        team=TEAM,
        schema={TIME_COLUMN: "timestamp", "hour": "int64", "speed_mph": "float64"},
        time_column=TIME_COLUMN,
        epsilon=1.0,
        origin=first,
        closing="operator",
        retention=DAYS,
        rows_per_window=2_000,
        scheduler="adaptive",
        scheduler_mode="conserve",
    )
    for ptk_id, target in ((GOOD, 0.4), (BAD, 1e-9)):
        speeds = HistoricalStatistics(
            keys=["hour"],
            values=["speed_mph"],
            domains={"hour": list(range(24))},
            bounds={"speed_mph": (0.0, 60.0)},
            epsilon=RANGE[0],
        )
        made.store.register_ptk(
            speeds,
            name=ptk_id.partition(".")[2],
            stream=STREAM,
            target=target,
            config={"accept": TEST, "epsilons": RANGE},
            windows=(1, DAYS),
        )
        made.subscribe(ptk_id, ptk_id)


def shown(made: Rig, client: TestClient, ptk_id: str) -> dict[str, Any]:
    """What each consumer could have seen of a PTK: versions by every way out."""
    online: dict[str, Any] = {"version": None}
    with suppress(UnknownName):  # there is no view before the first version of any PTK
        (online,) = made.store.look_up(["ptk_state:version"], [{"ptk": ptk_id}])
    told = [line for line in made.receiver.log.read_text().splitlines() if ptk_id in line]
    answer = client.get(f"/v1/ptks/{ptk_id}/versions").raise_for_status().json()
    return {
        "store": len(made.store.versions(ptk_id)),
        "feast": online["version"] or 0,
        "lake": len(list(Path(made.settings.lake).glob(f"ptks/{ptk_id}/v*/manifest.json"))),
        "http": len(answer["items"]),
        "webhook": len(told) > 0,
    }


def journey(made: Rig, days: list[pa.Table]) -> None:
    start = pc.min(days[0][TIME_COLUMN]).as_py()
    first = datetime(start.year, start.month, start.day, tzinfo=UTC)
    create(made, first)
    service = local(made.store)
    identity = Identity(service)
    identity.create_team(TEAM)
    _, token = identity.issue_token(TEAM, STREAM_ROLES)
    with TestClient(create_app(service), headers={"Authorization": f"Bearer {token}"}) as client:
        for day, trips in enumerate(days):
            made.store.ingest(STREAM, trips, f"day {day}")
            made.store.close_windows(STREAM, first + timedelta(days=day + 1))
            made.work(made.service())
            seen = shown(made, client, BAD)
            assert seen == {"store": 0, "feast": 0, "lake": 0, "http": 0, "webhook": False}
        good = shown(made, client, GOOD)
        queue = client.get(f"/v1/streams/{STREAM}/queue").raise_for_status().json()
    decisions = [one.verdict["decision"] for one in service.validations(GOOD)]
    assert decisions[0] == "retry"
    assert "accept" in decisions
    n = decisions.count("accept")
    assert good == {"store": n, "feast": n, "lake": n, "http": n, "webhook": True}
    assert {one.verdict["decision"] for one in service.validations(BAD)} == {"retry"}
    (waits,) = [one for one in queue["items"] if one["ptk_id"] == BAD]
    assert (waits["verdict"], waits["looks"]) == ("retry", len(service.validations(BAD)))
    assert max(one.look for one in service.trainings(BAD)) > 1  # on one newest window
    with service.begin() as uow:
        spent = [one.key for one in uow.ledger.journal(STREAM) if one.kind is EntryKind.SPEND]
    assert len(spent) == len(set(spent))
    assert service.verify_ledger(STREAM).faults == ()
    assert made.faults() == []


def test_an_adaptive_stream_of_generated_trips(home: Rig, generated: list[pa.Table]) -> None:
    journey(home, generated)


def test_an_adaptive_stream_of_real_green_trips(home: Rig, green: list[pa.Table]) -> None:
    journey(home, green)
