"""How wide the range is that reports must be within: as wide as the traffic asks for, and no wider."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import numpy as np
import pytest
import redis

from ptklib.draw_discard import Numeric, Specification, start_instances
from ptkstore.adapters.devices import RedisInstances, RedisReports
from ptkstore.adapters.devices.keys import instances_key
from ptkstore.application.devices.served_models import ServedModel, puts_allowed_for, read_served
from ptkstore.ports.devices import Counted, DevicePtk

PTK = "team.model"
SPECIFICATION = Specification(
    features=[Numeric(f"x{i}", 0.0, 1.0) for i in range(6)], label=Numeric("y", 0.0, 1.0), epsilon=3.0, k=5
)


def served(instances: RedisInstances, before: ServedModel | None = None) -> ServedModel:
    ptk = DevicePtk(PTK, "phones", SPECIFICATION, 1, datetime(2030, 1, 1, tzinfo=UTC), 3.5, 1, 8)
    return read_served(
        PTK,
        before,
        read_ptk=lambda _: ptk,
        instances=instances,
        start=lambda found: Counted(start_instances(found.specification), 0),
    )


@pytest.mark.parametrize(
    ("lately", "allowed"), [(0, 128), (32, 128), (33, 256), (1_000, 4_096), (10**6, 2**14)]
)
def test_a_range_is_made_for_some_four_times_the_puts_of_lately(lately: int, allowed: int) -> None:
    assert puts_allowed_for(lately) == allowed


def test_a_late_honest_report_is_held_against_the_instances_that_it_was_drawn_from(
    instances: RedisInstances, url: str
) -> None:
    before = served(instances)
    late = instances.all(PTK, before.epoch)[0].astype("<i4").tobytes()
    far = np.full(SPECIFICATION.n_weights, 2**30, dtype="<i4").tobytes()
    with redis.Redis.from_url(url) as client:
        places = {str(place): far for place in range(SPECIFICATION.k)}
        client.hset(instances_key(PTK, before.epoch), mapping=places)
    now = served(instances, before)
    assert now.failed_test(late, older=False) is not None
    assert now.failed_test(late) is None
    assert now.failed_test(far) is None
    assert served(instances).failed_test(late) is not None  # another process, which has seen none before


def test_what_a_quiet_model_refuses_a_busy_one_may_take(instances: RedisInstances, url: str) -> None:
    first = served(instances)
    honest = np.stack([row.astype("<i4") for row in instances.all(PTK, first.epoch)])
    far = honest[0] + np.int32(200 * SPECIFICATION.instance_variance**0.5)
    assert first.failed_test(honest[0].tobytes()) is None
    assert first.failed_test(far.tobytes()) is not None

    async def put(n: int) -> None:
        reports = RedisReports(url)
        for place in range(n):
            await reports.put(PTK, first.epoch, SPECIFICATION.k, honest[place % len(honest)].tobytes())
        reports.close()

    asyncio.run(put(500))
    busy = served(instances, first)
    assert busy.puts == 500
    assert busy.failed_test(far.tobytes()) is None
    quiet = served(instances)  # another process, which has seen no put
    assert quiet.failed_test(far.tobytes()) is not None
