"""Plans by formula with what the last version tells of the data."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ptklib import CountFeaturizer, CovarianceMatrix, HistoricalStatistics
from ptkstore.domain.jobs import JobState
from ptkstore.errors import PtkRejected
from ptkstore.settings import Settings
from ptkstore.wiring import Service
from tests.support.world import STREAM, StandingClock, World, trips

ROWS = 10_000
TRAIN = 8_000  # what is left of profile and test set
DECLARED = 0.5
SPAN = {"epsilons": [0.05, 1.0]}


@pytest.fixture
def wide(tmp_path: Path) -> Iterator[World]:
    """A world whose windows hold some thousand trips, most of them in two of many zones."""
    world = World(tmp_path / "home")
    world.stream(rows_per_window=ROWS, n_max=ROWS, capacity_delta=1e-6)
    yield world
    world.service.close()


def matrix(epsilon: float = DECLARED, top: float = 60.0) -> Mapping[str, Any]:
    bounds = {"speed": (0, top), "hour": (0, 23)}
    return CovarianceMatrix(columns=["speed", "hour"], bounds=bounds, epsilon=epsilon, delta=1e-8).to_spec()


def means() -> Mapping[str, Any]:
    return HistoricalStatistics(
        keys=["zone"],
        values=["speed"],
        domains={"zone": [f"z{i}" for i in range(64)]},
        bounds=(0, 60),
        epsilon=DECLARED,
    ).to_spec()


def counts() -> Mapping[str, Any]:
    return CountFeaturizer(
        features=["zone"],
        label="long",
        classes=[False, True],
        domains={"zone": [f"z{i}" for i in range(64)]},
        epsilon=DECLARED,
    ).to_spec()


def publish(world: World, window: int) -> None:
    """A window from rows to the lake."""
    close(world, window)
    world.work()


def close(world: World, window: int) -> None:
    """A window of trips whose zones are far from equally frequent."""
    numbers = np.random.default_rng(window)
    zones = np.where(numbers.random(ROWS) < 0.98, numbers.integers(0, 2, ROWS), numbers.integers(0, 64, ROWS))
    columns = {
        "hour": pa.array(numbers.integers(0, 24, ROWS)),
        "speed": pa.array(numbers.normal(30.0, 12.0, ROWS)),
        "zone": pa.array([f"z{zone}" for zone in zones]),
        "long": pa.array(numbers.random(ROWS) < 0.5),
    }
    world.service.ingest(STREAM, trips(window + np.arange(ROWS) / ROWS, **columns))
    world.close(window + 1)


def planned(world: World, ptk_id: str) -> list[tuple[float, int, int]]:
    """Epsilon, rows and the version that told facts, for each version."""
    contents = [version.content for version in world.service.versions(ptk_id)]
    return [(c["guarantee"]["epsilon"], c["planned"]["n"], c["planned"].get("facts_of", 0)) for c in contents]


def execute(world: World, statement: str) -> None:
    with closing(sqlite3.connect(world.service.settings.home / "catalog.db")) as connection:
        connection.execute(statement)
        connection.commit()


def forget_versions(world: World) -> None:
    """The catalog as one that knows of no version."""
    execute(world, "DELETE FROM version")


def silence_versions(world: World) -> None:
    """The versions as those made before versions told anything."""
    execute(world, "UPDATE version SET manifest = json_remove(manifest, '$.facts')")


@pytest.mark.long
def test_a_covariance_begins_as_declared_and_is_then_planned_by_its_formula(wide: World) -> None:
    ptk_id = wide.register("axes", estimator=matrix(), target=0.2, config=SPAN)
    assert wide.service.ptks()[0].profile is None
    assert wide.service.profile(ptk_id).menu == ((DECLARED, TRAIN),)
    publish(wide, 0)
    view = wide.service.profile(ptk_id)
    assert (view.method, view.facts_of) == ("formula", 1)
    assert len(view.menu) > 1
    publish(wide, 1)
    (first, second) = planned(wide, ptk_id)
    assert first == (DECLARED, TRAIN, 0)
    assert second[2] == 1
    assert second[1] in [n for _, n in view.menu]
    assert second[1] < TRAIN / 4
    assert wide.profiler.requests == []  # no profile set was opened, and nothing paid


@pytest.mark.parametrize(("estimator", "target"), [(means(), 0.08), (counts(), 0.1)])
def test_groups_that_are_not_alike_need_fewer_rows_once_a_version_tells_so(
    wide: World, estimator: Mapping[str, Any], target: float
) -> None:
    ptk_id = wide.register("groups", estimator=estimator, target=target, config=SPAN)
    publish(wide, 0)
    publish(wide, 1)
    (_, worst, none), (_, fewer, told) = planned(wide, ptk_id)
    assert (none, told) == (0, 1)
    assert fewer < 0.6 * worst


def test_the_job_and_the_manifest_keep_which_version_a_plan_is_from(wide: World) -> None:
    ptk_id = wide.register("axes", estimator=matrix(), target=0.2, config=SPAN)
    for window in range(3):
        publish(wide, window)
    assert [wide.job(f"train/{ptk_id}/{window}").facts_of for window in range(3)] == [0, 1, 2]
    assert [told for _, _, told in planned(wide, ptk_id)] == [0, 1, 2]
    facts = wide.service.versions(ptk_id)[0].content["facts"]
    assert set(facts) == {"total_variance", "frobenius", "mean_norm"}


def test_a_plan_is_the_same_after_a_restart(wide: World, tmp_path: Path) -> None:
    ptk_id = wide.register("axes", estimator=matrix(), target=0.2, config=SPAN)
    publish(wide, 0)
    before = wide.service.profile(ptk_id)
    again = Service(Settings(home=tmp_path / "home", online_store="sqlite"), clock=StandingClock())
    try:
        assert again.profile(ptk_id) == before
        assert before.facts_of == 1
    finally:
        again.close()


def test_without_the_version_the_worst_is_assumed_again(wide: World) -> None:
    axes = wide.register("axes", estimator=matrix(), target=0.2, config=SPAN)
    groups = wide.register("groups", estimator=means(), target=0.08, config=SPAN)
    before = [wide.service.profile(ptk_id).menu for ptk_id in (axes, groups)]
    publish(wide, 0)
    assert [wide.service.profile(ptk_id).menu for ptk_id in (axes, groups)] != before
    forget_versions(wide)
    assert [wide.service.profile(ptk_id).menu for ptk_id in (axes, groups)] == before
    assert wide.service.profile(axes).facts_of == 0


def test_another_model_does_not_believe_what_the_old_one_told(wide: World) -> None:
    ptk_id = wide.register("axes", estimator=matrix(), target=0.2, config=SPAN)
    publish(wide, 0)
    wide.service.update_ptk(ptk_id, estimator=matrix(top=90.0))
    assert wide.service.profile(ptk_id).menu == ((DECLARED, TRAIN),)
    wide.service.update_ptk(ptk_id, estimator=matrix())
    assert wide.service.profile(ptk_id).facts_of == 1


def test_after_a_rollback_the_facts_are_those_of_the_state_that_is_back(wide: World) -> None:
    ptk_id = wide.register("axes", estimator=matrix(), target=0.2, config=SPAN)
    publish(wide, 0)
    first = wide.service.profile(ptk_id)
    publish(wide, 1)
    assert wide.service.profile(ptk_id).menu != first.menu
    wide.service.rollback_ptk(ptk_id, 1)
    back = wide.service.profile(ptk_id)
    assert (back.menu, back.facts_of) == (first.menu, 3)
    wide.work("place")
    publish(wide, 2)
    assert planned(wide, ptk_id)[-1][2] == 3


def test_a_tight_target_is_refused_until_a_version_tells_that_it_can_be_reached(wide: World) -> None:
    tight = 0.032
    with pytest.raises(PtkRejected, match="looser target"):
        wide.register("groups", estimator=means(), target=tight, config=SPAN)
    ptk_id = wide.register("groups", estimator=means(), target=0.08, config=SPAN)
    with pytest.raises(PtkRejected, match="looser target"):
        wide.service.update_ptk(ptk_id, target=tight)
    publish(wide, 0)
    wide.service.update_ptk(ptk_id, target=tight)
    publish(wide, 1)
    assert planned(wide, ptk_id)[1][2] == 1
    with pytest.raises(PtkRejected, match="looser target"):
        wide.service.update_ptk(ptk_id, target=1e-4)


def test_nobody_is_put_out_when_facts_are_gone_that_a_target_needs(wide: World) -> None:
    tight = wide.register("groups", estimator=means(), target=0.08, config=SPAN)
    publish(wide, 0)
    wide.service.update_ptk(tight, target=0.032)
    beside = wide.register("beside", estimator=matrix(0.2), target=0.2, config={"epsilons": [0.05, 0.3]})
    silence_versions(wide)
    close(wide, 1)
    wide.work("prepare", "allocate")
    assert [wide.job(f"train/{ptk_id}/1").state for ptk_id in (tight, beside)] == [JobState.READY] * 2
    assert (wide.job(f"train/{tight}/1").n_rows, wide.job(f"train/{tight}/1").facts_of) == (TRAIN, 0)


def test_facts_that_leave_no_room_are_not_planned_with(wide: World) -> None:
    """As when versions of some PTKs tell of rows that are harder than those before."""
    axes = [
        wide.register(f"axes{n}", estimator=matrix(0.3), target=0.2, config={"epsilons": [0.05, 1.0]})
        for n in range(3)
    ]
    publish(wide, 0)
    changed = "json_set(manifest, '$.facts.frobenius', 0.07)"
    execute(wide, f"UPDATE version SET manifest = {changed}")
    needed = wide.service.profile(axes[0]).menu
    assert min(epsilon for epsilon, _ in needed) > 0.5
    close(wide, 1)
    wide.work("prepare", "allocate")
    jobs = [wide.job(f"train/{ptk_id}/1") for ptk_id in axes]
    assert [(job.state, job.n_rows, job.facts_of) for job in jobs] == [(JobState.READY, TRAIN, 0)] * 3


def test_room_that_facts_leave_is_not_given_away(wide: World) -> None:
    """A newcomer is let in beside what others are promised, whatever their versions tell today."""
    first = wide.register("first", estimator=means(), target=0.08, config={"epsilons": [0.05, 1.0]})
    needed = min(epsilon for epsilon, _ in wide.service.profile(first).menu)
    publish(wide, 0)
    told = min(epsilon for epsilon, _ in wide.service.profile(first).menu)
    assert told < needed / 2
    newcomer = {"estimator": means(), "target": 0.5}
    over, within = 1 - told - 0.01, 1 - needed - 0.01
    with pytest.raises(PtkRejected):
        wide.register("second", **newcomer, config={"epsilons": [over, 1.0]})
    wide.register("second", **newcomer, config={"epsilons": [within, 1.0]})
    with pytest.raises(PtkRejected):  # facts would leave room for it, but they may be others tomorrow
        wide.service.update_ptk(first, target=0.05)
