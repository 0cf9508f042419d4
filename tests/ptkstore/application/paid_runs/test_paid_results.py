"""Evaluations, profiles and drift tests while the catalog is away: what was paid for is kept, once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ptklib import Clustering
from ptkstore.domain.accounting.assurances import Assurance
from ptkstore.domain.jobs import JobState, Outcome
from ptkstore.domain.ledger.journal import EntryKind
from ptkstore.errors import CatalogBehind, Unavailable
from ptkstore.ports.row_processes import RunFailed
from tests.support.catalog_copies import catalog_of, put_back
from tests.support.catalog_faults import TICK, Faults
from tests.support.world import STREAM, World, trips

PTK = "taxi.centre"
ROWS = 4_800  # of a window, half of them in its profile set


def centre() -> Mapping[str, Any]:
    """One cluster of speeds that are all about the same: a profile finds at once how many rows it needs."""
    bounds = {"speed": (0.0, 60.0)}
    return Clustering(columns=["speed"], n_clusters=1, bounds=bounds, epsilon=1.0).to_spec()


def publish(world: World, day: int, speed: float) -> None:
    """A window up to what is to be paid for."""
    days = day + np.arange(ROWS) / ROWS * 0.9
    speeds = pa.array(speed + np.arange(ROWS) % 2)
    world.service.ingest(STREAM, trips(days.tolist(), speed=speeds))
    world.close(day + 1)
    world.work("prepare", "allocate", "train", "place")


def of_the_first_window(world: World, config: Mapping[str, Any]) -> None:
    world.stream(epsilon=9, profile_share=Decimal("0.5"), rows_per_window=ROWS)
    world.register("centre", estimator=centre(), target=0.3, config=config)
    publish(world, 0, speed=2.0)


def asked(drift: float) -> Mapping[str, Any]:
    profile = {"points": 2, "n_min": 64, "n_max": 256, "models": 1, "drift": drift}
    return {"epsilons": [0.5, 1.0], "profile": profile}


def an_evaluation(world: World) -> None:
    of_the_first_window(world, {"evaluate": {"epsilon": 0.2}})


def a_profile(world: World) -> None:
    of_the_first_window(world, asked(0))


def a_drift_test(world: World) -> None:
    of_the_first_window(world, asked(0.5))
    world.work("profile")
    publish(world, 1, speed=58.0)


@dataclass(frozen=True)
class Paid:
    """A job whose answer is paid for."""

    job_id: str
    ends_at: str
    """The step at which its run has ended."""
    prepare: Callable[[World], None]
    has_failed_as: str

    def requests(self, world: World) -> int:
        runs = world.evaluator.requests if self.prepare is an_evaluation else world.profiler.requests
        return len(runs) - (self.prepare is a_drift_test)

    def answers(self, world: World) -> list[object]:
        """What is known of it by now."""
        if self.prepare is an_evaluation:
            return [one.number for one in world.service.evaluations(PTK)]
        view = world.service.profile(PTK)
        return [view.drifted_at] if self.prepare is a_drift_test else list(view.menu)


KINDS = {
    "evaluate": Paid(f"evaluate/{PTK}/1", "evaluated", an_evaluation, f"{PTK} evaluation of version 1"),
    "profile": Paid(f"profile/{PTK}/0", "profiled", a_profile, f"{PTK} profile of window 0"),
    "drift": Paid(f"drift/{PTK}/1", "tested", a_drift_test, f"{PTK} drift of window 1"),
}
FOUND: dict[str, list[object]] = {"evaluate": [1], "profile": [(0.5, 64)], "drift": [1]}


@pytest.fixture(params=KINDS)
def paid(request: pytest.FixtureRequest) -> Paid:
    return KINDS[request.param]


@pytest.fixture
def faults(paid: Paid, catalog_faults: Faults) -> Faults:
    paid.prepare(catalog_faults.world)
    return catalog_faults


def expect_kept(world: World, paid: Paid, outcome: Outcome = Outcome.DONE) -> None:
    """For one spend and one opening of rows, and not done again."""
    world.clock.pass_(minutes=2)
    world.work("evaluate", "profile", "drift")
    job = world.job(paid.job_id)
    assert (job.state, job.outcome, job.fence) == (JobState.ENDED, outcome, 1)
    assert paid.requests(world) == 1
    with world.service.begin() as uow:
        assert [one.kind for one in uow.ledger.history(paid.job_id)] == [EntryKind.RESERVE, EntryKind.SPEND]
    if outcome is Outcome.DONE:
        assert paid.answers(world) == FOUND[paid.job_id.split("/", maxsplit=1)[0]]


@pytest.mark.parametrize("seconds", [5, 300])  # a lease is 60 s
def test_an_answer_is_kept_at_the_first_tick_at_which_the_catalog_is_back(
    faults: Faults, paid: Paid, seconds: int
) -> None:
    world = faults.world
    faults.away_for(seconds, paid.ends_at)
    began = world.clock.now()
    assert world.service.work_on(paid.job_id)
    waited = world.clock.now() - began
    assert timedelta(seconds=seconds) <= waited <= timedelta(seconds=seconds) + 2 * TICK
    expect_kept(world, paid)


@pytest.mark.parametrize("done", [False, True], ids=["lost", "unheard"])
def test_an_answer_whose_commit_nobody_heard_is_kept_once(faults: Faults, paid: Paid, done: bool) -> None:
    faults.world.steps.at[paid.ends_at] = lambda: faults.unanswered(done)
    assert faults.world.service.work_on(paid.job_id)
    expect_kept(faults.world, paid)


def own(world: World) -> None:
    """What is asked of team code before a second run."""
    with world.service.begin() as uow:
        uow.ptks.replace(replace(uow.ptks.get(PTK), assurance=Assurance.ASSERTED))
        uow.commit()


@pytest.mark.long
@pytest.mark.parametrize("of_team", [False, True], ids=["library", "own"])
@pytest.mark.parametrize("done", [False, True], ids=["lost", "unheard"])
def test_a_spend_that_nobody_answered_is_looked_at_and_its_run_goes_on(
    faults: Faults, paid: Paid, done: bool, of_team: bool
) -> None:
    if of_team:
        own(faults.world)
    faults.world.steps.at["claimed"] = lambda: faults.unanswered(done)
    assert faults.world.service.work_on(paid.job_id)
    expect_kept(faults.world, paid)


def test_team_code_whose_loss_is_spent_waits_for_its_key(faults: Faults, paid: Paid) -> None:
    own(faults.world)
    faults.away_for(10, "spent")
    assert faults.world.service.work_on(paid.job_id)
    expect_kept(faults.world, paid)


def test_an_answer_is_given_up_when_its_worker_is_told_to_stop(faults: Faults, paid: Paid) -> None:
    world = faults.world
    world.service.must_stop = lambda: True
    faults.away_for(1e6, paid.ends_at)
    with pytest.raises(Unavailable):
        world.service.work_on(paid.job_id)
    faults.back()
    assert paid.answers(world) == ([None] if paid.prepare is a_drift_test else [])


@pytest.mark.long
def test_a_run_that_failed_is_not_run_again_because_the_catalog_was_away(faults: Faults, paid: Paid) -> None:
    world = faults.world
    world.evaluator.failing = world.profiler.failing = RunFailed("memory-limit")
    faults.away_for(10, paid.ends_at)
    assert world.service.work_on(paid.job_id)
    expect_kept(world, paid, Outcome.FAILED)
    assert (paid.has_failed_as, "memory-limit") in world.notices()


def test_a_catalog_restored_meanwhile_keeps_nothing_that_it_does_not_know_to_be_spent(
    paid: Paid, in_files: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = in_files
    monkeypatch.setattr("time.sleep", lambda seconds: world.clock.pass_(seconds=seconds))
    paid.prepare(world)
    home = Path(world.service.settings.root)
    copies: list[bytes] = []

    def restore() -> None:
        world.service.catalog.close()
        put_back(home, copies[-1])

    world.steps.at["claimed"] = lambda: copies.append(catalog_of(home))
    world.steps.at[paid.ends_at] = restore
    with pytest.raises(CatalogBehind):
        world.service.work_on(paid.job_id)
    assert paid.answers(world) == ([None] if paid.prepare is a_drift_test else [])
