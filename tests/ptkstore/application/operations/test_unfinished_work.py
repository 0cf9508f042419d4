"""Which work is unfinished: what the overview says of it, and to whom."""

from __future__ import annotations

from dataclasses import replace

from ptkstore.application.identity.sight import Sight
from ptkstore.application.operations.unfinished_work import JOBS_MOST, WorkFacts, WorkState
from ptkstore.domain.jobs import JobKind, JobState, retry_wait
from tests.support.world import STREAM, World

PTK = "taxi.speed"


def told(world: World, sight: Sight | None = None) -> tuple[WorkFacts, ...]:
    work = world.service.overview(sight).work
    assert work is not None
    assert work.count == len(work.items)
    return work.items


def test_a_window_says_what_waits_runs_and_lost_its_worker_since_it_closed(world: World) -> None:
    world.register()
    assert told(world) == ()
    world.ingest((0.5,))
    world.close(1)
    closed = world.clock.now()
    waits = WorkFacts(JobKind.PREPARE, WorkState.WAITING, STREAM, 0, None, closed)
    assert told(world) == (waits,)
    world.clock.pass_(minutes=3)
    assert told(world) == (waits,)
    (name,) = world.service.due()
    lease = world.service.settings.lease
    with world.service.begin() as uow:
        assert uow.jobs.claim(name, world.clock.now(), lease) is not None
        uow.commit()
    assert told(world) == (replace(waits, state=WorkState.RUNNING),)
    world.clock.time += lease  # nobody extends it: the worker was killed
    assert told(world) == (replace(waits, state=WorkState.INTERRUPTED),)
    world.work("prepare", "allocate")
    (training,) = told(world)
    assert training == WorkFacts(JobKind.TRAIN, WorkState.WAITING, STREAM, 0, PTK, closed)
    world.work("train")
    assert [(one.kind, one.window, one.since) for one in told(world)] == [(JobKind.PLACE, None, None)]
    world.work("place", "flip")
    assert told(world) == ()


def test_it_tells_neither_attempts_nor_waits_after_a_failure_and_no_partial(world: World) -> None:
    world.register()
    world.ingest((0.5,))
    world.close(1)
    world.work("prepare", "allocate")
    before = told(world)
    with world.service.begin() as uow:
        job = uow.jobs.lock(f"train/{PTK}/0")
        later = world.clock.now() + retry_wait(9)
        uow.jobs.save(replace(job, state=JobState.OPENED, attempt=9, failures=9, due_at=later))
        uow.jobs.add(replace(job, id=f"partial/{PTK}/0/0", kind=JobKind.PARTIAL, reservation=None))
        uow.commit()
    assert told(world) == before


def test_a_reader_sees_the_work_of_its_own_ptks_and_on_windows_whose_course_it_reads(world: World) -> None:
    world.register()
    for day in (0, 1):
        world.ingest((day + 0.5,))
        world.close(day + 1)
        if not day:
            world.work("prepare", "allocate")
    here, nothing = frozenset({STREAM}), frozenset[str]()
    sights = {
        "own team": Sight(here, nothing, nothing, here, team="taxi"),
        "budget": Sight(here, here, nothing, here, team="ads"),
        "exposure": Sight(here, nothing, here, here, team="ads"),
        "states alone": Sight(here, nothing, nothing, here, team="ads"),
        "all teams": Sight(here, nothing, nothing, here, team=None),
        "another stream": Sight(frozenset({"other"}), None, None, None, team=None),
    }
    kinds = {name: [one.kind.value for one in told(world, sight)] for name, sight in sights.items()}
    assert kinds == {
        "own team": ["train"],
        "budget": ["prepare"],
        "exposure": ["prepare"],
        "states alone": [],
        "all teams": ["train"],
        "another stream": [],
    }
    assert [one.kind.value for one in told(world)] == ["train", "prepare"]


def test_what_runs_comes_first_and_no_more_is_read_than_a_thousand_jobs(world: World) -> None:
    world.close(1)
    with world.service.begin() as uow:
        job = uow.jobs.get("prepare/taxi/0")
        made = [replace(job, id=f"prepare/taxi/{n}", window_index=n) for n in range(1, JOBS_MOST + 50)]
        uow.jobs.add(*made)
        uow.commit()
    with world.service.begin() as uow:
        held = uow.jobs.claim(f"prepare/taxi/{JOBS_MOST}", world.clock.now(), world.service.settings.lease)
        assert held is not None
        uow.commit()
    work = world.service.overview().work
    assert work is not None
    assert (work.count, work.items[0].window, work.items[1].window) == (JOBS_MOST, JOBS_MOST, 0)
