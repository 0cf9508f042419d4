"""What the guides about Feast and storage show works as it is written."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from ptklib import Clustering, HistoricalStatistics
from ptklib.base import DPEstimator
from ptkstore.cli.main import app
from ptkstore.errors import InvalidRequest, UnknownName
from ptkstore.sdk import Store
from ptkstore.sdk.repository.declarations import PTK, Repository
from tests.support.lake_reader import READER
from tests.support.world import World

START = datetime(2026, 1, 5, tzinfo=UTC)
VIEW = "taxi__speed_by_hour__filled"


@pytest.fixture
def serve(repository: Path) -> dict:
    guide = (repository / "docs" / "guide" / "feast.md").read_text()
    marked = guide[guide.index("<!-- example: tested as it stands -->") :]
    match = re.search(r"```python\n(.*?)```", marked, re.DOTALL)
    assert match is not None
    shown: dict = {}
    exec(match[1], shown)  # noqa: S102
    declared: dict = shown["serve"]
    return declared


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A service whose looks go through Feast itself."""
    made = World(tmp_path / "home")
    del made.service.__dict__["features"]
    yield made
    made.service.close()


def declared(serve: dict | None) -> Repository:
    estimator = HistoricalStatistics(
        keys=["hour"],
        values=["speed_mph"],
        domains={"hour": range(24)},
        bounds={"speed_mph": (0, 60)},
        epsilon=0.5,
    )
    ptk = PTK(name="speed_by_hour", stream="taxi", estimator=estimator, target=0.5, serve=serve)
    return Repository(team="taxi", ptks=(ptk,))


def publish(world: World, store: Store, day: int) -> None:
    n = 4_000
    times = START.timestamp() + 86_400 * day + np.arange(n) * 20
    rows = {
        "at": pa.array((times * 1e6).astype("int64"), pa.timestamp("us", tz="UTC")),
        "speed_mph": np.full(n, 20.0),
        "hour": (np.arange(n) * 20 // 3600).astype(np.int64),
    }
    store.ingest("taxi", pa.table(rows))
    store.close_windows("taxi", START.replace(day=START.day + day + 1))
    world.work("prepare", "allocate", "train", "place", "flip")


@pytest.mark.long
def test_declared_defaults_go_from_a_repository_to_a_lookup(world: World, serve: dict) -> None:
    store = Store(world.service)
    schema = {"at": "timestamp", "speed_mph": "float64", "hour": "int64"}
    store.create_stream(
        "taxi", team="taxi", schema=schema, time_column="at", epsilon=1.0, origin=START, closing="operator",
        rows_per_window=4_000,
    )  # fmt: skip
    endless = {name: value for name, value in serve.items() if name != "fresh"}
    store.apply(declared(endless))
    assert [change.action for change in store.plan(declared(endless), audit=False)] == ["keep"]
    publish(world, store, 0)
    asked = [f"{VIEW}:{name}" for name in ("speed_mph_mean_filled", "over", "busy", "filled_version")]
    known, unknown = store.look_up(asked, [{"hour": 8, "speed_mph": 15.0}, {"hour": 99, "speed_mph": 15.0}])
    assert known["filled_version"] == 1
    assert known["over"] == pytest.approx(15.0 - known["speed_mph_mean_filled"])
    assert known["busy"] == 1  # 180 rows, with noise of about 2
    assert unknown == {"speed_mph_mean_filled": 12.0, "over": 3.0, "busy": 0, "filled_version": 0}

    store.update_ptk_config(
        "taxi.speed_by_hour", {"serve": serve}
    )  # now with an age: these trips are too old
    publish(world, store, 1)
    (stale,) = store.look_up(asked, [{"hour": 8, "speed_mph": 15.0}])
    assert (stale["speed_mph_mean_filled"], stale["filled_version"]) == (12.0, 0)
    with pytest.raises(InvalidRequest, match="no feature"):
        store.update_ptk_config("taxi.speed_by_hour", {"serve": {"defaults": {"unheard": 1.0}}})
    store.update_ptk_config("taxi.speed_by_hour", {"serve": None})
    publish(world, store, 2)
    with pytest.raises(UnknownName):
        store.look_up(asked, [{"hour": 8, "speed_mph": 15.0}])


def test_a_computed_column_goes_from_a_repository_to_a_lookup(world: World, repository: Path) -> None:
    guide = (repository / "docs" / "guide" / "feast.md").read_text()
    match = re.search(r"example: computed, tested as it stands -->\n```python\n(.*?)```", guide, re.DOTALL)
    assert match is not None
    shown: dict = {}
    exec(match[1], shown)  # noqa: S102
    store = Store(world.service)
    store.create_stream(
        "taxi", team="taxi", schema={"at": "timestamp", "lon": "float64", "lat": "float64"}, time_column="at",
        epsilon=1.0, origin=START, closing="operator", rows_per_window=4_000,
    )  # fmt: skip
    bounds = {"lon": (-74.1, -73.7), "lat": (40.6, 40.9)}
    ptk = PTK(
        name="pickup_zones",
        stream="taxi",
        estimator=Clustering(bounds=bounds, n_clusters=5, epsilon=0.9),
        target=0.5,
        serve=shown["serve"],
    )
    store.apply(Repository(team="taxi", ptks=(ptk,)))
    n, random = 4_000, np.random.default_rng(1)
    times = START.timestamp() + np.arange(n) * 20
    rows = {"at": pa.array((times * 1e6).astype("int64"), pa.timestamp("us", tz="UTC"))}
    for name, (low, high) in bounds.items():
        rows[name] = random.uniform(low, high, n)
    store.ingest("taxi", pa.table(rows))
    store.close_windows("taxi", START.replace(day=START.day + 1))
    world.work("prepare", "allocate", "train", "place", "flip")
    answer = store.look_up(shown["features"], shown["rows"])
    state = store.ptk("taxi.pickup_zones").model_state
    asked = pa.Table.from_pylist(shown["rows"], pa.schema([("lon", pa.float64()), ("lat", pa.float64())]))
    wanted = DPEstimator.from_state(state).predict(asked)
    assert answer == [{"zone": zone, "computed_version": 1} for zone in wanted.tolist()]
    with pytest.raises(InvalidRequest, match="no form 'leaves'"):
        store.update_ptk_config("taxi.pickup_zones", {"serve": {"computed": {"zone": "leaves"}}})


def test_the_commands_of_the_guides_exist(repository: Path) -> None:
    for page in ("feast.md", "storage.md"):
        text = (repository / "docs" / "guide" / page).read_text()
        commands = re.findall(r"^ptk (.+?)(?:\s+#.*)?$", text, re.MULTILINE)
        assert commands
        for command in commands:
            words = command.split()
            depth = 2 if words[0] in ("lake", "feast") else 1
            shown = CliRunner().invoke(app, [*words[:depth], "--help"], env={"COLUMNS": "200"})
            assert shown.exit_code == 0, command
            assert all(option in shown.output for option in words if option.startswith("--")), command


def test_the_policy_of_the_guide_is_the_tested_one(repository: Path) -> None:
    text = (repository / "docs" / "guide" / "storage.md").read_text()
    policies = [json.loads(found) for found in re.findall(r"```json\n(.*?)```", text, re.DOTALL)]
    assert json.loads(json.dumps(policies[1]).replace("acme-ptk-lake", "LAKE")) == READER
