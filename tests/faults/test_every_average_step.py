"""At every step of an average a worker is killed, or stalls until others have done its work: versions have no gap."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest

from ptklib import DrawDiscardModel
from ptkstore.adapters.processes import ForgetfulRedisServer
from tests.faults import scenario
from tests.faults.rig import Rig, rig
from tests.faults.steps import OF_AVERAGES, Point, all_points
from tests.support.device_streams import fresh_database
from tests.support.local import local
from tests.support.world import SeenViews

PTK = f"{scenario.TEAM}.long"
POINTS = [*all_points(OF_AVERAGES), *all_points(("place", "flip"))]


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory, devices_redis: ForgetfulRedisServer) -> Iterator[Rig]:
    home, url = tmp_path_factory.mktemp("averages") / "home", fresh_database(devices_redis, 14)
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
def windows() -> Iterator[int]:
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
