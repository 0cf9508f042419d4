"""A device stream through all rooms: devices of another process report, and a consumer reads by Feast."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ptklib import DrawDiscardModel
from ptkstore import PTK
from ptkstore.adapters.keys import verifies
from ptkstore.adapters.processes import ForgetfulRedisServer
from ptkstore.domain.identity import Role
from ptkstore.domain.ledger.reports import read_signed
from ptkstore.sdk import Repository
from ptkstore.sdk.store import HomeStore
from tests.support.api_server import Api
from tests.support.device_streams import FEATURES, PHONES, fresh_database
from tests.support.device_streams import PTK as PTK_ID
from tests.support.receiver import WebhookReceiver
from tests.support.world import DAY, ORIGIN

pytestmark = pytest.mark.long

WINDOWS = 3
DEVICES = 2_000
PTK_COMMAND = str(Path(sys.executable).with_name("ptk"))


@pytest.fixture
def api(tmp_path: Path, devices_redis: ForgetfulRedisServer) -> Iterator[Api]:
    with Api(tmp_path / "home", devices_redis_url=fresh_database(devices_redis, 12)) as made:
        del made.world.service.__dict__["features"]  # the real one
        yield made


def table(seed: int) -> pa.Table:
    """One row of each device: long messages and mails are spam."""
    draw = np.random.default_rng(seed)
    length, kind = draw.uniform(0, 100, DEVICES), draw.integers(0, 2, DEVICES)
    spam = draw.random(DEVICES) < 1 / (1 + np.exp(4 - 0.06 * length - 2 * kind))
    return pa.table({"length": length, "kind": np.array(["text", "mail"])[kind], "spam": spam})


def contribute(api: Api, token: str, rows: pa.Table, folder: Path) -> Any:
    """What a process of devices says, each of which sends a report on a row."""
    pq.write_table(rows, folder / "rows.parquet")
    done = subprocess.run(
        [PTK_COMMAND, "device", "simulate", PHONES, PTK_ID, "rows.parquet", "--server", api.url, "--json"],
        env={**os.environ, "PTK_URL": api.url, "PTK_TOKEN": token},
        cwd=folder,
        capture_output=True,
        check=True,
        timeout=500,
    )
    return json.loads(done.stdout)


def test_windows_of_devices_reach_feast_subscribers_and_the_officer(api: Api, tmp_path: Path) -> None:
    from feast import FeatureStore

    world, token = api.world, api.token(Role.DEVICE_GATEWAY)
    store = HomeStore(world.service)
    store.create_stream(
        PHONES,
        team="taxi",
        schema={"at": "timestamp", "length": "float64", "kind": "string", "spam": "bool"},
        time_column="at",
        origin=ORIGIN,
        closing="operator",
        rows="on-devices",
        report_epsilon=3.47,
        reports_per_window=1,
        reports_in_all=8,
    )
    model = DrawDiscardModel(FEATURES, "spam", k=5, learning_rate=0.05, grid_bits=20, epsilon=3.47)
    serve = {"computed": {"chance": "score"}}
    repository = Repository("taxi", (PTK("phishy", PHONES, model, serve=serve),))
    (change,) = store.plan(repository, audit=False)
    assert change.per_device == {"report": 3.47, "one_weight": 3.47, "one_window": 3.47, "in_all": 27.76}
    assert (change.refused, change.room) == (None, None)
    store.apply(repository)
    with WebhookReceiver(tmp_path / "calls.jsonl") as receiver:
        subscribed = store.subscribe_to_ptk(PTK_ID, receiver.endpoint("first"))
        receiver.trust(subscribed.secret)
        for window in range(WINDOWS):
            told_by_devices = contribute(api, token, table(window), tmp_path)
            assert told_by_devices == {"devices": DEVICES, "taken": DEVICES, "refused": {}}
            store.close_windows(PHONES, ORIGIN + (window + 1) * DAY)
            world.clock.pass_(seconds=5)
            store.work_until_idle()
        told = [(one.message or {})["data"] for one in receiver.accepted]
    assert [one["version"] for one in told] == list(range(1, WINDOWS + 1))
    assert {one["guarantee"]["model"] for one in told} == {"local"}
    counted = [one["instances"]["reports_at_most"] for one in store.versions(PTK_ID)]
    assert counted == [{"taken": 2_048, "refused": {}}] * WINDOWS
    feast = FeatureStore(str(world.service.settings.root / "feast"))
    rows = [
        {"class": "", "input": "1", "value": ""},
        {"class": "", "input": "length", "value": ""},
        {"class": "", "input": "kind", "value": "mail"},
        {"class": "", "input": "kind", "value": "text"},
    ]
    read = feast.get_online_features(["taxi__phishy:weight"], rows).to_dict()
    constant, length, mail, text = read["weight"]
    assert 0 not in (constant, length, mail, text)  # that they learn is judged where noise may be drawn again
    asked: list[dict[str, Any]] = [
        {"length": 95.0, "kind": "mail"},
        {"length": 5.0, "kind": "text"},
        {"length": None, "kind": "other"},
    ]
    scores = feast.get_online_features(
        ["taxi__phishy__computed:chance", "taxi__phishy__computed:computed_version"], asked
    ).to_dict()
    sums = constant + 0.95 * length + mail, constant + 0.05 * length + text, constant
    assert scores["chance"] == pytest.approx([1 / (1 + np.exp(-one)) for one in sums], abs=1e-4)
    assert scores["computed_version"] == [WINDOWS] * 3
    state = feast.get_online_features(
        ["ptk_state:version", "ptk_state:epsilon", "ptk_state:guarantee_model"], [{"ptk": PTK_ID}]
    ).to_dict()
    assert (state["version"], state["epsilon"], state["guarantee_model"]) == ([WINDOWS], [3.47], ["local"])
    view = feast.get_feature_view("taxi__phishy")
    assert view.tags["dp.model"] == "local"
    assert (view.tags["dp.epsilon"], view.tags["dp.in_all_epsilon"]) == ("3.47", "27.76")
    assert "Guarantee: local, of each report of a device" in view.description
    reading = read_signed(store.export_ledger(PHONES).content, verifies, store.report_key())
    assert (reading.fault, reading.summary["guarantee"], reading.summary["in_all_epsilon"]) == (
        "",
        "local",
        "27.76",
    )
    assert store.exposure(PHONES)["holds"]
