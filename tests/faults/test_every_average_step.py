"""At every step of an average a worker is killed, or stalls until others have done its work: versions have no gap."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import numpy as np
import pytest
import redis

from ptklib import DrawDiscardModel
from ptkstore.adapters.devices.keys import instances_key
from ptkstore.adapters.processes import ForgetfulRedisServer
from ptkstore.domain.jobs import JobKind
from tests.faults import scenario
from tests.faults.rig import Rig, rig
from tests.faults.steps import OF_AVERAGES, Point, all_points
from tests.support.device_streams import fresh_database
from tests.support.local import local
from tests.support.world import SeenViews

PTK = f"{scenario.TEAM}.long"
REFUSED, ELECTED = {"average-refused"}, {"average-staged", "average-elected"}
OF_BOTH = all_points(OF_AVERAGES)
POINTS = [*(one for one in OF_BOTH if one.step not in REFUSED), *all_points(("place", "flip"))]
POINTS_REFUSED = [one for one in OF_BOTH if one.step not in ELECTED]


@contextmanager
def devices_chain(home: Path, url: str) -> Iterator[Rig]:
    with rig(home, features=SeenViews(), devices_redis_url=url) as made:
        made.store.create_stream(
            scenario.STREAM,
            team=scenario.TEAM,
            schema={"at": "timestamp", "speed": "float64", "long": "bool"},
            time_column="at",
            origin=scenario.ORIGIN,
            closing="operator",
            rows="on-devices",
            report_epsilon=3.47,
            reports_per_window=1,
            reports_in_all=100,
        )
        model = DrawDiscardModel({"speed": (0.0, 60.0)}, "long", k=3, epsilon=3.47)
        made.store.register_ptk(model, name="long", stream=scenario.STREAM)
        made.subscribe(PTK, "first")
        yield made


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory, devices_redis: ForgetfulRedisServer) -> Iterator[Rig]:
    home = tmp_path_factory.mktemp("averages") / "home"
    with devices_chain(home, fresh_database(devices_redis, 14)) as made:
        yield made


@pytest.fixture(scope="module")
def poisoned(tmp_path_factory: pytest.TempPathFactory, devices_redis: ForgetfulRedisServer) -> Iterator[Rig]:
    home = tmp_path_factory.mktemp("refused") / "home"
    with devices_chain(home, fresh_database(devices_redis, 15)) as made:
        yield made


@pytest.fixture(scope="module")
def windows() -> Iterator[int]:
    return count()


@pytest.fixture(scope="module")
def windows_of_poisoned() -> Iterator[int]:
    return count()


@pytest.mark.parametrize("mode", ["kill", "stall"])
@pytest.mark.parametrize("point", POINTS, ids=str)
def test_a_fault_at_a_step_of_an_average_only_delays(
    chain: Rig, windows: Iterator[int], point: Point, mode: str
) -> None:
    window, service = next(windows), local(chain.store)
    chain.store.close_windows(scenario.STREAM, scenario.end_of(window))
    assert chain.work_struck(point, mode), f"{point} was never reached"
    assert chain.faults() == []
    found = service.versions(PTK)
    assert [one.window_index for one in found] == list(range(window + 1))
    assert len({one.content["instances"]["epoch"] for one in found}) == 1
    assert (service.keys.draft_ids(), service.staging.drafts()) == ((), ())


def move_far(chain: Rig) -> str:
    """Put all instances far away, as much spam would; return their epoch."""
    service = local(chain.store)
    epoch = service.instances.epoch(PTK)
    assert epoch is not None
    far = np.full_like(service.instances.all(PTK, epoch.id), 2**30).astype("<i4")
    with redis.Redis.from_url(str(service.settings.devices_redis_url)) as client:
        client.hset(
            instances_key(PTK, epoch.id), mapping={str(i): row.tobytes() for i, row in enumerate(far)}
        )
    return epoch.id


@pytest.mark.parametrize("mode", ["kill", "stall"])
@pytest.mark.parametrize("point", POINTS_REFUSED, ids=str)
def test_a_fault_at_a_step_of_an_average_that_moved_too_far_never_lets_it_through(
    poisoned: Rig, windows_of_poisoned: Iterator[int], point: Point, mode: str
) -> None:
    service = local(poisoned.store)
    kept, first = len(service.versions(PTK)), next(windows_of_poisoned)
    poisoned.store.close_windows(scenario.STREAM, scenario.end_of(first))
    poisoned.work(poisoned.service())
    epoch, window = move_far(poisoned), next(windows_of_poisoned)
    poisoned.store.close_windows(scenario.STREAM, scenario.end_of(window))
    assert poisoned.work_struck(point, mode), f"{point} was never reached"
    found = service.versions(PTK)
    assert [one.number for one in found] == list(range(1, kept + 2))
    assert found[-1].window_index == first
    with service.begin() as uow:
        about = uow.notices_about(scenario.TEAM, PTK, windows=[window], run=JobKind.AVERAGE)
    assert [one.code for one in about] == ["average-moved-too-far"]
    last = next(windows_of_poisoned)
    poisoned.store.close_windows(scenario.STREAM, scenario.end_of(last))
    poisoned.work(poisoned.service())
    after = service.versions(PTK)[-1]
    assert (after.number, after.window_index) == (kept + 2, last)
    assert after.content["instances"]["epoch"] != epoch
    assert poisoned.faults() == []
    assert (service.keys.draft_ids(), service.staging.drafts()) == ((), ())
