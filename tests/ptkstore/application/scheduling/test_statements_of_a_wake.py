"""A wake of the scheduler asks the catalog as often for many PTKs as for a few."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ptkstore.domain.scheduling.choices import Scheduler
from tests.support.statements import counted
from tests.support.world import STREAM, World

BOUNDS = {"least_significance": 0.1, "most_significance": 0.2}


def statements(world: World, ptks: int) -> tuple[list[int], int]:
    """How many statements three wakes and reading ended waits take, and the queue: one PTK at a time fits a window."""
    for number in range(ptks):
        tested = {"accept": {"metric": "loss", "epsilon": 0.2}}
        world.register(f"p{number:02}", epsilon=0.6, config=tested, target=1e-9)
    wakes = []
    for day in range(3):
        world.clock.pass_(hours=1)
        world.ingest([day + i / 100 for i in range(100)])
        world.close(day + 1)
        world.work("prepare")
        with counted(world) as asked:
            world.work("allocate")
        wakes.append(len(asked))
        world.work("schedule", "train", "validate", "place", "flip")
    with counted(world) as asked:
        assert len(world.service.queue(STREAM)) == ptks
    with counted(world) as also:
        assert world.service.ended_waits(STREAM) == ()
    return [*wakes, len(also)], len(asked)


@pytest.mark.parametrize(
    "policy", [{"scheduler": Scheduler.ADAPTIVE}, {"scheduler": Scheduler.BUDGETING, **BOUNDS}]
)
def test_statements_do_not_grow_with_the_ptks_that_wait(tmp_path: Path, policy: dict[str, Any]) -> None:
    found = []
    for ptks in (4, 16):
        world = World(tmp_path / str(ptks))
        world.stream(retention_windows=4, **policy)
        found.append(statements(world, ptks))
        world.service.close()
    assert found[0] == found[1]
