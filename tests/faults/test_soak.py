"""A hundred kills and more, at random steps and of random processes, while windows come and go."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from tests.faults import scenario
from tests.faults.checker import check, spends_without_version
from tests.faults.machine import API, Machine, machine
from tests.faults.steps import all_points
from tests.support.plugins.measurements import Measured
from tests.support.real_processes import ZOMBIES, numbers, once_in_order, prepare
from tests.support.waiting import until

KILLS = 120
POINTS_A_WINDOW = 10
MEASURES = {
    "overspent": "blocks with more loss than their capacity",
    "uncharged": "versions whose loss the ledger does not hold",
    "second-version": "reservations with two versions",
    "torn-version": "versions that do not match their manifest",
    "lost-notification": "subscribers that missed a version",
}
KILLED = ("redis", "worker", "relay", "schedule", API)
LISTENERS = 3  # to server-sent events, of each PTK


def one_window(made: Machine, draw: random.Random, window: int) -> int:
    """Close a window under random faults; returns how many whole processes were killed beside them."""
    for point in draw.sample(all_points(), POINTS_A_WINDOW):
        made.faults.arm(point, n=draw.choice((1, 2)))
    made.faults.arm(draw.choice(ZOMBIES), "stall")
    made.receiver.answer_next(draw.randrange(2), 503)
    made.receiver.cut_next(draw.randrange(2))
    made.close(window, window)
    killed = draw.sample(KILLED, 2)
    shown = made.shown(scenario.SPEED)
    for name in killed:
        made.kill(name)
    made.wait_for(lambda: made.shown(scenario.SPEED) > shown, "a version to come online")
    made.kill(API)  # in the moment in which listeners are told
    killed.append(API)
    hit = [made.kill_a_pool_process() for _ in range(draw.randrange(3))]
    made.settle()
    return len(killed) + sum(hit)


@pytest.mark.soak
@pytest.mark.real
@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_a_hundred_kills_only_delay(
    tmp_path: Path, measured: Measured, database: str, request: pytest.FixtureRequest
):
    draw = random.Random(20_260_105)
    url = request.getfixturevalue("fresh_postgres_url") if database == "postgresql" else None
    with machine(tmp_path, database_url=url) as made:
        prefix = prepare(made)
        made.serve()
        for ptk_id in (scenario.SPEED, scenario.LONG) * LISTENERS:
            made.listen(ptk_id)
        processes = window = 0
        while processes + made.faults.kills() < KILLS:
            processes += one_window(made, draw, window)
            window += 1
        kills = processes + made.faults.kills()
        found = Counter(fault.code for fault in check(made.evidence, settled=True))
        lost = spends_without_version(made.evidence)
        streamed = once_in_order(made, prefix)
        until(lambda: not made.unheard(), "listeners to hear of every version once and in order")
        comebacks = min(one.connected for one in made.listeners) - 1
        versions = [numbers(made, ptk_id) for ptk_id in (scenario.SPEED, scenario.LONG)]
    measured(
        id=f"kill-9/{database}/kills",
        measure="kill -9 survived",
        unit="kills",
        ours=kills,
        goal=100,
        direction="max",
    )
    for code, what in MEASURES.items():
        measured(
            id=f"kill-9/{database}/{code}",
            measure=what,
            unit="faults",
            ours=found[code],
            goal=0,
            direction="min",
        )
    measured(
        id=f"kill-9/{database}/comebacks",
        measure="times that a listener to events was cut off and came back, and missed or repeated no version",
        unit="connections",
        ours=comebacks,
        goal=5,
        direction="max",
    )
    assert found == Counter()
    assert lost == []
    assert streamed
    assert versions == [list(range(1, window + 1))] * 2
