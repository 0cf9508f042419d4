"""A real Redis that loses everything: real workers find it, tell it and write the rows again by themselves."""

from __future__ import annotations

from pathlib import Path

import pytest
import redis

from ptklib import HistoricalStatistics
from ptkstore.adapters.processes import RedisServer
from ptkstore.cli.machine import running
from ptkstore.errors import RowsLost
from ptkstore.sdk import Store
from ptkstore.settings import Settings
from ptkstore.wiring import Service
from tests.faults import scenario
from tests.waiting import until

pytestmark = [pytest.mark.real, pytest.mark.long]

PTK = f"{scenario.TEAM}.speed"
ASKED = [f"{scenario.TEAM}__speed:speed_mean"], [{"hour": 1}]
WITHIN_SECONDS = 180  # a look each minute, on a machine with other work


@pytest.mark.parametrize("online_store", ["redis", "packed"])
def test_rows_that_redis_lost_come_back_by_themselves(tmp_path: Path, online_store: str) -> None:
    with RedisServer(tmp_path / "online") as server:
        settings = Settings(
            home=tmp_path / "home",
            redis_url=server.client_url,
            online_store=online_store,
            worker_concurrency=1,
            publish_tick_seconds=0.2,
        )
        service = Service(settings)
        store = Store(service)
        scenario.create_stream(store)
        store.register_ptk(
            HistoricalStatistics(
                keys=["hour"],
                values=["speed"],
                domains={"hour": scenario.HOURS},
                bounds={"speed": (0.0, 60.0)},
                epsilon=0.6,
            ),
            name="speed",
            stream=scenario.STREAM,
            target=0.5,
        )
        store.ingest(scenario.STREAM, scenario.rows(0), "day 0")
        store.close_windows(scenario.STREAM, scenario.end_of(0))
        store.work_until_idle()
        before = store.look_up(*ASKED)
        spent = store.budget(scenario.STREAM)
        with running(settings):
            redis.Redis.from_url(server.client_url).flushall()
            with pytest.raises(RowsLost):
                store.look_up(*ASKED)

            def back() -> bool:
                try:
                    return store.look_up(*ASKED) == before
                except RowsLost:
                    return False

            until(back, "the rows to be back", seconds=WITHIN_SECONDS)
        assert (PTK, "online-rows-lost") in [(n["subject"], n["code"]) for n in store.notices(scenario.TEAM)]
        assert store.budget(scenario.STREAM) == spent
        service.close()
