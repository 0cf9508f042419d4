"""Real processes killed with -9 at every step of the chain, and each process of the machine: only delays."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ptkstore.domain.jobs import Job, JobKind, Outcome
from ptkstore.domain.streams.windows import WindowId, WindowState
from tests.faults import scenario
from tests.faults.checker import spends_without_version
from tests.faults.machine import API, Machine, machine
from tests.faults.steps import Point, all_points
from tests.services.postgres import Postgres
from tests.support.local import local
from tests.support.real_processes import CLOCKED, KEPT_WINDOWS, ZOMBIES, numbers, once_in_order, prepare
from tests.support.waiting import until

pytestmark = [pytest.mark.real, pytest.mark.long, pytest.mark.timeout(880)]

SEEDS = (1,)
WINDOWS_TRIED = 20  # a fast machine may end every training of a window before it can be killed
KILLED = (("redis", "relay", API), ("worker", "schedule", API))  # these in each window after the kept ones
PTKS = (scenario.SPEED, scenario.LONG)
STRIDE = 128  # numbers of blocks in a window


@pytest.fixture(params=SEEDS)
def seed(request: pytest.FixtureRequest) -> int:
    value: int = request.param
    return value


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """One machine for the tests of this module; each goes on with the next windows."""
    with machine(tmp_path_factory.mktemp("machine")) as made:
        made.prefix = prepare(made)
        made.serve()
        for ptk_id in PTKS:
            made.listen(ptk_id)
        yield made


def next_window(made: Machine) -> int:
    with local(made.store).begin() as uow:
        return uow.streams.progress(scenario.STREAM).closed_before


def test_kills_at_every_step_and_of_every_process_only_delay(running: Machine, seed: int):
    draw = random.Random(seed)
    first = next_window(running)
    before = [len(numbers(running, ptk_id)) for ptk_id in PTKS]
    for point in all_points():
        if point.kind != "expire":
            running.faults.arm(point, n=draw.choice((1, 2)))
    running.receiver.answer_next(1, 503)
    running.close(first, first + KEPT_WINDOWS - 1, seed=seed)
    running.settle()
    assert running.faults.waiting() == []
    for point in all_points():  # these windows leave their retention from here on
        if point.kind == "expire":
            running.faults.arm(point)
    for point in ZOMBIES:
        running.faults.arm(point, "stall", draw.choice((1, 2)))
    for window, names in enumerate(KILLED, first + KEPT_WINDOWS):
        running.close(window, window, seed=seed)
        for name in names:
            running.kill(name)
        running.settle()
    assert running.faults.waiting() == []
    windows = KEPT_WINDOWS + len(KILLED)
    for ptk_id, count in zip(PTKS, before, strict=True):
        assert numbers(running, ptk_id) == list(range(1, count + windows + 1))
    assert [block for _, block in spends_without_version(running.evidence) if block >= first * STRIDE] == []
    assert once_in_order(running, running.prefix)
    until(lambda: not running.unheard(), "listeners to hear of every version once and in order")
    for window in (first, first + 1):
        folder = f"{scenario.STREAM}/{window}/"
        assert [file for file in local(running.store).raw.files() if file.startswith(folder)] == []
    shown = running.store.look_up(["ptk_state:version"], [{"ptk": ptk_id} for ptk_id in PTKS])
    assert [row["version"] for row in shown] == [len(numbers(running, ptk_id)) for ptk_id in PTKS]


def trainings(made: Machine, window: int) -> tuple[Job, ...]:
    with local(made.store).begin() as uow:
        return uow.jobs.of_window(WindowId(scenario.STREAM, window), JobKind.TRAIN)


def failed_ptks(made: Machine, window: int) -> list[str]:
    return sorted(str(job.ptk_id) for job in trainings(made, window) if job.outcome is Outcome.FAILED)


def killed(made: Machine, window: int) -> bool:
    """Close the window, and kill what trains in it until one training fails or all have ended.

    A run that had lost its lease before is only repeated, and a short one may end between two looks.
    """
    made.close(window, window)
    made.wait_for(
        lambda: trainings(made, window), "the window to be prepared, in a process of the same program"
    )

    def failed_or_over() -> bool:
        made.kill_trainings()
        return bool(failed_ptks(made, window)) or not made.unfinished()

    made.wait_for(failed_or_over, "a training to fail, or all of them to end")
    return bool(failed_ptks(made, window))


def test_a_killed_training_keeps_its_loss_and_tells_its_owner(running: Machine):
    for _ in range(WINDOWS_TRIED):
        window = next_window(running)
        before = {ptk_id: len(numbers(running, ptk_id)) for ptk_id in PTKS}
        if killed(running, window):
            break
    running.settle()
    failed = failed_ptks(running, window)
    assert failed, "no training of any window was met by a kill"
    lost = spends_without_version(running.evidence)
    assert [ptk_id for ptk_id, block in lost if block // STRIDE == window] == failed
    with local(running.store).begin() as uow:
        told = sorted(notice.subject for notice in uow.notices() if notice.code == "killed")
    assert told == [f"{ptk_id} window {window}" for ptk_id in failed]
    running.close(window + 1, window + 1)
    running.settle()
    for ptk_id in PTKS:
        assert len(numbers(running, ptk_id)) == before[ptk_id] + (1 if ptk_id in failed else 2)


def test_a_killed_schedule_closes_every_window_once_it_is_back(running: Machine):
    midnight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    running.kill("schedule")
    running.store.create_stream(
        CLOCKED,
        team=scenario.TEAM,
        schema={"at": "timestamp"},
        time_column="at",
        epsilon=1.0,
        origin=midnight - 3 * scenario.DAY,
        retention=10,
    )

    def closed() -> list[int]:
        with local(running.store).begin() as uow:
            return [window.id.index for window in uow.windows.of(CLOCKED)]

    running.kill("schedule")
    running.wait_for(lambda: len(closed()) >= 3, "the clock to close three windows")
    running.kill("schedule")
    running.settle()
    assert closed() == list(range(len(closed())))
    with local(running.store).begin() as uow:
        assert {window.state for window in uow.windows.of(CLOCKED)} == {WindowState.CLOSED}


def test_the_chain_on_postgresql_only_delays_too(tmp_path: Path, postgres: Postgres):
    draw = random.Random(1)
    with postgres.fresh_database() as url, machine(tmp_path, database_url=url) as made:
        prefix = prepare(made)
        for kind in (JobKind.ALLOCATE, JobKind.TRAIN, JobKind.PLACE, JobKind.FLIP, JobKind.NOTIFY):
            made.faults.arm(draw.choice([point for point in all_points() if point.kind == kind]))
        made.faults.arm(Point("train", "trained"), "stall", 2)
        made.close(0, 0)
        made.kill("redis")
        made.settle()
        assert made.faults.waiting() == []
        assert [numbers(made, ptk_id) for ptk_id in PTKS] == [[1], [1]]
        assert once_in_order(made, prefix)
