"""Small trainings share a slot of a worker, since they mostly wait for their tick."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ptklib import Clustering, CountFeaturizer, DPEstimator
from ptkstore.adapters.sql.jobs.jobs import SqlJobs
from ptkstore.application.operations.liveness import ProcessRole
from ptkstore.domain.jobs import SMALL_AT_ONCE, Job, JobKind
from ptkstore.errors import Unavailable
from tests.support.world import World

MANY = SMALL_AT_ONCE + 3


def allocated(world: World, n: int = MANY, **more: Any) -> None:
    """A window whose trainings wait."""
    for number in range(n):
        world.register(name=f"p{number}", epsilon=0.01, **more)
    world.ingest()
    world.close(1)
    world.work("prepare", "allocate")


def claimed(world: World) -> list[str]:
    return [str(job.ptk_id) for job in world.service.claim_fairest() if job.kind is JobKind.TRAIN]


def alive(world: World, *workers: str) -> None:
    for worker in workers:
        world.service.report_alive(ProcessRole.WORKER, worker)


def test_one_slot_takes_as_many_as_may_run_at_once(world: World) -> None:
    allocated(world)
    taken = [claimed(world) for _ in range(3)]
    assert [len(jobs) for jobs in taken] == [SMALL_AT_ONCE, MANY - SMALL_AT_ONCE, 0]
    assert len({job for jobs in taken for job in jobs}) == MANY


def test_each_slot_leaves_the_others_their_part(world: World) -> None:
    alive(world, "a", "b", "c")
    allocated(world, 7)
    assert [len(claimed(world)) for _ in range(5)] == [3, 2, 1, 1, 0]


def test_many_slots_and_few_trainings_share_nothing(world: World) -> None:
    alive(world, *(f"worker {number}" for number in range(9)))
    allocated(world, 4)
    assert [len(claimed(world)) for _ in range(5)] == [1, 1, 1, 1, 0]


@pytest.mark.parametrize(("spare", "beside"), [(0, True), (-1, False)])
def test_a_training_is_small_up_to_an_eighth_of_the_rows_of_one_that_is_not_split(
    world: World, spare: int, beside: bool
) -> None:
    allocated(world, 3)
    n_rows = world.job("train/taxi.p0/0").n_rows
    bound = {"rows_per_partial": (n_rows + spare) * SMALL_AT_ONCE}
    world.service.__dict__["settings"] = world.service.settings.model_copy(update=bound)
    assert [len(claimed(world)) for _ in range(3)] == ([3, 0, 0] if beside else [1, 1, 1])


@pytest.mark.parametrize("method", ["zoom", "grid"])
def test_clusterings_that_do_not_iterate_share_a_slot(world: World, method: str) -> None:
    light = Clustering(n_clusters=2, bounds={"speed": (0, 60), "hour": (0, 24)}, method=method, epsilon=0.01)
    allocated(world, 3, estimator=light.to_spec())
    assert [len(claimed(world)) for _ in range(2)] == [3, 0]


HEAVY = [
    CountFeaturizer(["zone"], "long", classes=[False, True], hash_buckets=2**18, epsilon=0.01),
    Clustering(n_clusters=2, bounds={"speed": (0, 60), "hour": (0, 24)}, method="lloyd", epsilon=0.01),
]


@pytest.mark.parametrize("heavy", HEAVY, ids=lambda one: type(one).__name__)
def test_a_training_that_may_take_much_memory_or_time_has_its_slot_alone(
    world: World, heavy: DPEstimator
) -> None:
    allocated(world, 3, estimator=heavy.to_spec())
    assert [len(claimed(world)) for _ in range(4)] == [1, 1, 1, 0]


def test_a_catalog_that_fails_amid_the_claims_leaves_those_that_were_made(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    allocated(world, 4)
    claim, made = SqlJobs.claim, []

    def twice(self: SqlJobs, job_id: str, *times: Any) -> Job | None:
        if len(made) == 2:
            raise Unavailable("the catalog does not answer")
        made.append(job_id)
        return claim(self, job_id, *times)

    with monkeypatch.context() as patch:
        patch.setattr(SqlJobs, "claim", twice)
        assert len(claimed(world)) == 2
    assert len(claimed(world)) == 2


def test_what_comes_first_and_is_no_training_runs_alone(world: World) -> None:
    allocated(world, 2)
    assert len(world.service.claim_fairest()) == 2
    world.ingest([1.5])
    world.close(2)
    assert [job.kind for job in world.service.claim_fairest()] == [JobKind.PREPARE]


def test_the_training_of_a_ptk_that_is_gone_brings_no_other(world: World) -> None:
    allocated(world, 2)
    gone = replace(world.job("train/taxi.p0/0"), id="train/aaa.gone/0", ptk_id="aaa.gone", fence=0)
    with world.service.begin() as uow:
        uow.jobs.add(gone)
        uow.commit()
    assert [len(claimed(world)) for _ in range(3)] in ([1, 2, 0], [2, 1, 0])
