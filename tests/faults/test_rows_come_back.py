"""A real Redis that loses everything: real workers find it, tell it and write the rows again by themselves."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest
import redis

from ptklib import HistoricalStatistics
from ptkstore.adapters.processes import RedisServer
from ptkstore.cli.service.machine import running
from ptkstore.errors import RowsLost
from ptkstore.sdk import Store
from ptkstore.settings import Settings
from ptkstore.wiring import Service
from tests.faults import scenario
from tests.support.waiting import until

pytestmark = [pytest.mark.real, pytest.mark.long]

PTK = f"{scenario.TEAM}.speed"
ASKED = [f"{scenario.TEAM}__speed:speed_mean"], [{"hour": 1}]
WITHIN_SECONDS = 180  # a look each minute, on a machine with other work


class Published:
    """A service with a published PTK on a Redis of its own."""

    def __init__(self, folder: Path, online_store: str, server: RedisServer) -> None:
        self.redis = redis.Redis.from_url(server.client_url)
        self.settings = Settings(
            home=folder / "home",
            redis_url=server.client_url,
            online_store=online_store,
            worker_concurrency=1,
            publish_tick_seconds=0.2,
        )
        self.service = Service(self.settings)
        self.store = store = Store(self.service)
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
        self.before, self.spent = store.look_up(*ASKED), store.budget(scenario.STREAM)

    def lose(self) -> None:
        self.redis.flushall()
        with pytest.raises(RowsLost):
            self.store.look_up(*ASKED)

    def back(self) -> bool:
        try:
            return self.store.look_up(*ASKED) == self.before
        except RowsLost:
            return False


def test_rows_that_redis_lost_come_back_by_themselves(tmp_path: Path) -> None:
    with ExitStack() as stack:
        found: dict[str, Published] = {}
        for online_store in (
            "redis",
            "packed",
        ):  # beside each other: most of the time is the wait for the next look
            folder = tmp_path / online_store
            server = stack.enter_context(RedisServer(folder / "online"))
            found[online_store] = Published(folder, online_store, server)
            stack.callback(found[online_store].service.close)
        for one in found.values():
            stack.enter_context(running(one.settings))
            one.lose()
        for online_store, one in found.items():
            until(one.back, f"the rows of {online_store} to be back", seconds=WITHIN_SECONDS)
        for one in found.values():
            told = [(n["subject"], n["code"]) for n in one.store.notices(scenario.TEAM)]
            assert (PTK, "online-rows-lost") in told
            assert one.store.budget(scenario.STREAM) == one.spent
