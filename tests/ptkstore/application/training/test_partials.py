"""Large windows: partials of many workers, one noise draw, and nothing left of them however the run ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ptklib import Clustering, HistoricalStatistics
from ptklib.mechanisms import additive
from ptklib.spec import estimator_from_spec
from ptkstore.adapters.keys import AesGcmSealer
from ptkstore.adapters.objects import FsspecRawZone
from ptkstore.adapters.sandbox.child import train as training
from ptkstore.application.training.partials import PARTIALS_MAX, n_partials
from ptkstore.domain.jobs import MAX_ATTEMPTS, Job, JobKind, JobState, Outcome
from ptkstore.domain.streams.blocks import rows_behind
from ptkstore.domain.streams.policies import PrivacyUnit
from ptkstore.domain.streams.windows import WindowId
from ptkstore.errors import CatalogBehind, Unavailable
from ptkstore.ports.row_processes import RunFailed
from tests.support.catalog_copies import catalog_of, put_back
from tests.support.dying_process import FILE, KEY, Strike, die_at
from tests.support.several_windows import queue_training
from tests.support.world import DAY, ORIGIN, STREAM, World, speed, trips
from workers.online_check import destroy_once

TENTH = 10**8
TRAIN = "train/taxi.speed/0"
N = 4
PARTIALS = [f"partial/taxi.speed/0/{number}" for number in range(N)]
ROWS = [i / 200 for i in range(160)]


@pytest.fixture
def large(tmp_path: Path) -> Iterator[World]:
    """A window whose trainings are split into four, reserved and not begun."""
    made = World(tmp_path / "home", rows_per_partial=20)
    made.stream()
    made.register()
    made.ingest(ROWS)
    made.close(1)
    made.work("prepare", "allocate")
    yield made
    made.service.close()


def partials(world: World) -> list[Job]:
    with world.service.begin() as uow:
        return sorted(
            uow.jobs.of_window(WindowId(STREAM, 0), JobKind.PARTIAL),
            key=lambda job: (job.ptk_id, job.partial),
        )


def nothing_is_left(world: World, *, versions: int) -> None:
    """No partial in staging, no key of one; of drafts only elected ones are ever there."""
    assert world.drafts() == []
    assert world.service.keys.draft_ids() == ()
    assert [v.number for v in world.service.versions("taxi.speed")] == list(range(1, versions + 1))
    assert world.train_block(0) == (0, TENTH)
    assert world.service.verify_ledger(STREAM).faults == ()


def let_expire(world: World) -> None:
    """Event time goes on until window 0 has left its retention."""
    world.service.close_windows(STREAM, ORIGIN + 3 * DAY, expire_unfinished=True)


def nothing_is_due(world: World) -> bool:
    """Whether no job of window 0 is to be done any more."""
    with world.service.begin() as uow:
        return all(job.state is JobState.ENDED for job in uow.jobs.find() if job.window_index == 0)


def die() -> None:
    raise KeyboardInterrupt


# the split is public


@pytest.mark.parametrize(
    ("n_rows", "rows_per_partial", "n"),
    [(80, 80, 1), (80, 79, 2), (80, 40, 2), (80, 20, 4), (1, 1, 1), (10**9, 1, PARTIALS_MAX)],
)
def test_how_many_partials_there_are_follows_from_planned_rows(n_rows: int, rows_per_partial: int, n: int):
    assert n_partials(n_rows, rows_per_partial) == n


@pytest.mark.parametrize("rows", [(), (0.5,), ROWS], ids=["none", "one", "many"])
def test_a_training_is_split_alike_whatever_rows_there_are(tmp_path: Path, rows: tuple[float, ...]):
    world = World(tmp_path / "home", rows_per_partial=20)
    world.stream()
    world.register()
    if rows:
        world.ingest(rows)
    world.close(1)
    world.work("prepare", "allocate", "train")
    assert [job.id for job in partials(world)] == PARTIALS
    assert (world.job(TRAIN).state, world.job(TRAIN).lease_until) == (JobState.OPENED, None)
    assert world.train_block(0) == (0, TENTH)  # the loss is spent before any row is read
    world.work()
    nothing_is_left(world, versions=1)
    world.service.close()


def test_a_training_of_no_more_rows_than_one_partial_is_not_split(tmp_path: Path):
    world = World(tmp_path / "home", rows_per_partial=80)
    world.stream()
    world.register()
    world.publish(0)
    assert partials(world) == []
    assert world.trainer.collected == []
    world.service.close()


def test_a_family_whose_partials_would_be_its_rows_is_not_split(large: World):
    lloyd = Clustering(["speed"], 2, bounds=(0, 60), epsilon=0.1, delta=0, method="lloyd")
    large.register("clusters", estimator=lloyd.to_spec())
    large.ingest([1.5])
    large.close(2)
    large.work()
    split = {str(request.draft_id).split(".")[1] for request in large.trainer.collected}
    assert split == {"0", "1"}  # windows of `speed`
    with large.service.begin() as uow:
        jobs = uow.jobs.of_window(WindowId(STREAM, 1), JobKind.PARTIAL)
    assert {job.ptk_id for job in jobs} == {"taxi.speed"}
    assert [v.number for v in large.service.versions("taxi.clusters")] == [1]


# what is collected and merged


def test_partials_cover_the_granted_rows_without_overlap(large: World):
    large.work()
    ranges = [(rows.low, rows.high) for one in large.trainer.collected for rows in one.rows]
    with large.service.begin() as uow:
        spend = uow.ledger.history(TRAIN)[-1]
        policy = uow.streams.get(STREAM).policy
    granted = rows_behind(policy, spend.blocks.first, large.job(TRAIN).n_rows)
    assert (ranges[0][0], ranges[-1][1]) == (granted.low, granted.high)
    assert all(before[1] == after[0] for before, after in pairwise(ranges))
    assert len({one.draft_id for one in large.trainer.collected}) == N


def test_the_merging_run_opens_no_rows_and_holds_no_key_of_them(large: World):
    large.work()
    (merged,) = large.trainer.requests
    assert merged.rows == ()
    assert [one.draft_id for one in merged.partials] == [one.draft_id for one in large.trainer.collected]
    assert "draft_key" not in repr(merged)


def test_merged_partials_are_the_statistics_of_one_pass(large: World, monkeypatch: pytest.MonkeyPatch):
    seen: list[Any] = []
    finalize = HistoricalStatistics.finalize

    def watched(self: Any, parts: Any, **more: Any) -> Any:
        seen.append(self.merge(list(parts)))
        return finalize(self, [seen[-1]], **more)

    monkeypatch.setattr(HistoricalStatistics, "finalize", watched)
    large.work()
    window = WindowId(STREAM, 0)
    key = large.service.keys.sealing_key(window)
    rows = large.service.raw.read_part(large.service.raw.part_url(window, 2), key)
    whole = estimator_from_spec(speed()).partial_statistics(rows.select(["hour", "speed"]))
    assert rows.num_rows > 100
    (merged,) = seen
    assert {n: v.tolist() for n, v in merged.arrays.items()} == {
        n: v.tolist() for n, v in whole.arrays.items()
    }


def test_noise_is_drawn_once(large: World, monkeypatch: pytest.MonkeyPatch):
    drawn: list[int] = []
    laplace = additive.laplace

    def counted(units: Any, **more: Any) -> Any:
        drawn.append(len(units))
        return laplace(units, **more)

    monkeypatch.setattr(additive, "laplace", counted)
    large.work("train", "partial")
    assert len(large.trainer.collected) == N
    once = list(drawn)
    drawn.clear()
    estimator_from_spec(speed()).finalize([])
    assert once == drawn


def test_a_state_is_continued_over_split_trainings(large: World):
    large.work()
    large.publish(1)
    assert large.trainer.requests[0].previous_state is None
    assert large.trainer.requests[1].previous_state is not None
    assert [v.number for v in large.service.versions("taxi.speed")] == [1, 2]


def test_all_rows_of_a_user_lie_in_one_partial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    users = 120
    world = World(tmp_path / "home", rows_per_partial=20)
    world.stream(
        privacy_unit=PrivacyUnit.USER_IN_WINDOW, unit_column="zone", max_rows_per_unit=5, rows_per_window=100
    )
    estimator = HistoricalStatistics(
        ["hour"],
        ["speed"],
        domains={"hour": list(range(24))},
        bounds={"speed": (0.0, 60.0)},
        epsilon=0.1,
        unit="zone",
        max_rows_per_unit=5,
    )
    world.register(estimator=estimator.to_spec())
    days = [i / 800 for i in range(6 * users)]
    zone = pa.array([f"user {i % users}" for i in range(6 * users)])
    world.service.ingest(STREAM, trips(days, zone=zone))
    world.close(1)
    seen: list[set[str]] = []
    collected: list[int] = []
    partial_statistics = HistoricalStatistics.partial_statistics

    def watched(self: Any, table: Any) -> Any:
        part = partial_statistics(self, table)
        if table.num_rows:
            seen.append(set(table["zone"].to_pylist()))
            collected.append(int(part.arrays["count"].sum()))
        return part

    monkeypatch.setattr(HistoricalStatistics, "partial_statistics", watched)
    world.work("prepare", "allocate", "train", "partial")
    assert sum(map(len, seen)) == len(set().union(*seen)) > users // 2
    assert len(seen) == N
    assert sum(collected) == 5 * sum(map(len, seen))  # of six rows each, by the bound of the window
    world.service.close()


# many workers


def test_partials_are_collected_by_workers_at_the_same_time(large: World):
    large.work("train")
    at_once = 3
    inside: list[str] = []
    most: list[int] = []

    def work_on_the_next() -> None:
        inside.append("in")
        if len(inside) < at_once:  # while this one collects, the next two begin and end
            large.trainer.meanwhile = work_on_the_next
            assert large.service.work_on(PARTIALS[len(inside)])
        most.append(len(inside))

    large.trainer.meanwhile = work_on_the_next
    assert large.service.work_on(PARTIALS[0])
    assert max(most) == at_once
    assert [job.outcome for job in partials(large)] == [Outcome.DONE] * 3 + [None]
    assert not large.service.work_on(TRAIN)  # it waits for the last one
    large.work()
    nothing_is_left(large, versions=1)


def test_a_split_training_is_done_once_by_many_threads(large: World):
    def work(_: int) -> int:
        return sum(large.service.work_on(job_id) for _ in range(30) for job_id in large.service.due())

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    large.work()
    assert sorted(one.draft_id for one in large.trainer.collected) == sorted(
        {one.draft_id for one in large.trainer.collected}
    )
    assert len(large.trainer.collected) == N
    nothing_is_left(large, versions=1)


# workers die


@pytest.mark.parametrize(
    ("step", "collected"),
    [
        ("split", N),
        ("claimed", N),
        ("partial-opened", N),
        ("collected", N + 1),
        ("partial-ended", N),
        ("opened", N),
        ("trained", N),
    ],
)
def test_a_worker_that_dies_at_any_step_costs_one_spend_and_leaves_one_version(
    large: World, step: str, collected: int
):
    if step == "claimed":
        large.work("train")
    large.steps.at[step] = die
    with pytest.raises(KeyboardInterrupt):
        large.work()
    large.clock.pass_(minutes=2)
    large.work()
    assert len(large.trainer.collected) == collected
    assert [job.outcome for job in partials(large)] == [Outcome.DONE] * N
    for draft_id in [
        d for d in {*large.drafts(), *large.service.keys.draft_ids()} if "-" not in d
    ]:  # of the killed training itself; the window takes it along
        large.service.staging.delete(draft_id)
        large.service.keys.destroy_draft(draft_id)
    nothing_is_left(large, versions=1)


def test_a_late_worker_whose_partial_was_collected_by_another_changes_nothing(large: World):
    large.work("train")

    def take_over() -> None:
        large.clock.pass_(minutes=2)
        assert large.service.work_on(PARTIALS[0])

    large.steps.at["collected"] = take_over
    assert large.service.work_on(PARTIALS[0])
    job = large.job(PARTIALS[0])
    assert (job.fence, job.outcome) == (2, Outcome.DONE)
    assert len(large.drafts()) == 1
    large.work()
    nothing_is_left(large, versions=1)


COLLECTED = 2  # partials that somebody has collected before the window expires
EXPIRING = ("claimed", "expiring", "key-destroyed", "files-deleted", "expired")
DESTROYING = (Strike(KEY), Strike(KEY, COLLECTED), Strike(FILE), Strike(FILE, COLLECTED))


@pytest.mark.long
@pytest.mark.parametrize(
    ("job_id", "strike"),
    [
        *((PARTIALS[COLLECTED], one) for one in (Strike("claimed"), *DESTROYING)),
        *(("expire/taxi/0", one) for one in (*map(Strike, EXPIRING), *DESTROYING)),
    ],
    ids=str,
)
def test_a_process_that_is_killed_while_partials_are_discarded_leaves_none(
    large: World, job_id: str, strike: Strike
):
    large.work("train")
    for one in PARTIALS[:COLLECTED]:
        assert large.service.work_on(one)
    let_expire(large)
    assert len(large.drafts()) == len(large.service.keys.draft_ids()) == COLLECTED
    die_at(strike, large, job_id)
    large.clock.pass_(hours=2)
    large.work("partial", "train", "expire")
    assert large.job(TRAIN).outcome is Outcome.EXPIRED
    assert large.notices() == [("taxi.speed window 0", "expired")]
    nothing_is_left(large, versions=0)


ALL = (Strike(KEY), Strike(KEY, N), Strike(FILE), Strike(FILE, N))


def collected_by_all(world: World, but: int = 0) -> None:
    """The training is split, and all of its partials are collected, or all but the last ones."""
    world.work("train")
    for one in PARTIALS[: N - but]:
        assert world.service.work_on(one)


@pytest.mark.long
@pytest.mark.parametrize("strike", [Strike("elected"), *ALL], ids=str)
def test_what_a_process_left_that_was_killed_after_its_election_goes_at_the_next_check(
    large: World, strike: Strike
):
    collected_by_all(large)
    die_at(strike, large, TRAIN)
    assert large.job(TRAIN).outcome is Outcome.PUBLISHED
    large.clock.pass_(hours=2)
    large.work()
    assert large.drafts() != []  # nobody has a job left that would destroy them
    destroy_once(large.service)
    nothing_is_left(large, versions=1)


@pytest.mark.long
@pytest.mark.parametrize("strike", ALL, ids=str)
def test_what_a_process_left_that_was_killed_after_it_ended_the_training_goes_at_the_next_check(
    large: World, strike: Strike
):
    collected_by_all(large, but=1)
    large.service.deregister_ptk("taxi.speed")
    die_at(strike, large, PARTIALS[-1])
    assert large.job(TRAIN).outcome is Outcome.WITHDRAWN
    large.clock.pass_(hours=2)
    large.work()
    assert large.drafts() != []
    destroy_once(large.service)
    nothing_is_left(large, versions=0)


@pytest.mark.long
@pytest.mark.parametrize("strike", ALL, ids=str)
def test_a_check_that_is_killed_leaves_the_rest_to_the_next_one(large: World, strike: Strike):
    left_by_a_killed_worker(large)
    die_at(strike, large, None)
    assert large.drafts() != []
    destroy_once(large.service)
    nothing_is_left(large, versions=1)


def left_by_a_killed_worker(world: World) -> None:
    """A version was elected, and all partials that it was made of are there."""
    collected_by_all(world)
    world.steps.at["elected"] = die
    with pytest.raises(KeyboardInterrupt):
        world.service.work_on(TRAIN)
    world.work()
    assert len(world.drafts()) == len(world.service.keys.draft_ids()) == N


def test_keys_of_partials_that_were_left_go_first(large: World, monkeypatch: pytest.MonkeyPatch):
    def away(*_: object) -> None:
        raise Unavailable("staging does not answer")

    left_by_a_killed_worker(large)
    with monkeypatch.context() as patch:
        patch.setattr(large.service.staging, "delete", away)
        patch.setattr(large.service.staging, "drafts", away)
        destroy_once(large.service)  # tells, and lives on
    assert (len(large.drafts()), large.service.keys.draft_ids()) == (N, ())
    assert large.service.destroy_needless_partials() == N
    nothing_is_left(large, versions=1)
    assert large.service.destroy_needless_partials() == 0


def test_a_check_takes_no_partial_of_a_training_that_runs(large: World):
    def nothing_is_taken() -> None:
        before = large.drafts(), large.service.keys.draft_ids()
        assert large.service.destroy_needless_partials() == 0
        assert (large.drafts(), large.service.keys.draft_ids()) == before
        looked.append(len(before[1]))

    looked: list[int] = []
    large.work("train")
    for one in PARTIALS:
        large.trainer.meanwhile = nothing_is_taken
        assert large.service.work_on(one)
        nothing_is_taken()
    large.trainer.meanwhile = nothing_is_taken
    large.steps.at["trained"] = nothing_is_taken
    assert large.service.work_on(TRAIN)
    assert looked == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]  # the last one is the draft of the merged state
    large.work()
    nothing_is_left(large, versions=1)


@pytest.mark.parametrize("step", ["partial-opened", "collected", "partial-ended", "opened", "trained"])
def test_a_check_takes_no_partial_of_a_training_that_is_retried(large: World, step: str):
    large.steps.at[step] = die
    with pytest.raises(KeyboardInterrupt):
        large.work()
    for minutes in (0, 2):  # the dead worker's lease counts, and does not
        large.clock.pass_(minutes=minutes)
        assert large.service.destroy_needless_partials() == 0
    large.work()
    destroy_once(large.service)
    assert [d for d in large.drafts() if "-" in d] == []
    assert [version.number for version in large.service.versions("taxi.speed")] == [1]


def test_a_check_takes_no_partial_of_another_look_on_the_window(large: World):
    left_by_a_killed_worker(large)
    queue_training(large, 0, n_rows=80, look=2)
    large.work("train")
    assert large.service.work_on("partial/taxi.speed/0/2/0")
    assert large.service.destroy_needless_partials() == N
    assert len(large.drafts()) == len(large.service.keys.draft_ids()) == 1
    large.work()
    assert [version.number for version in large.service.versions("taxi.speed")] == [1, 2]
    assert large.drafts() == []


def test_a_check_leaves_a_partial_to_whoever_works_at_it(large: World):
    """Its training is over, and the worker destroys what it wrote by itself."""
    large.work("train")

    def another_fails() -> None:
        large.trainer.failing = RunFailed("timeout")
        assert large.service.work_on(PARTIALS[1])
        assert large.job(TRAIN).outcome is Outcome.FAILED
        keys = large.service.keys.draft_ids()
        assert large.service.destroy_needless_partials() == 0
        assert len(keys) == 1
        assert large.service.keys.draft_ids() == keys

    large.trainer.meanwhile = another_fails
    assert large.service.work_on(PARTIALS[0])
    large.work()
    nothing_is_left(large, versions=0)


def test_a_check_on_the_catalog_of_before_a_recovery_takes_nothing(large: World):
    left_by_a_killed_worker(large)
    large.service.keys.accept_ledger("another")
    with pytest.raises(CatalogBehind):
        large.service.destroy_needless_partials()
    assert len(large.drafts()) == len(large.service.keys.draft_ids()) == N


def test_a_lease_lost_while_collecting_stops_it(large: World):
    large.work("train")
    large.trainer.meanwhile = lambda: (large.clock.pass_(minutes=2), large.service.work_on(PARTIALS[1]))
    assert large.service.work_on(PARTIALS[1])
    large.work()
    assert len(large.trainer.collected) == N + 1
    nothing_is_left(large, versions=1)


def test_partials_stay_until_a_merging_run_has_elected(large: World):
    large.steps.at["trained"] = die
    with pytest.raises(KeyboardInterrupt):
        large.work()
    assert len([d for d in large.drafts() if "-" in d]) == N
    large.clock.pass_(minutes=2)
    large.work("train")
    first, second = large.trainer.requests
    assert first.partials == second.partials
    assert [d for d in large.drafts() if "-" in d] == []


def test_a_partial_that_takes_its_worker_down_again_and_again_ends_the_training(large: World):
    large.work("train")
    for _ in range(MAX_ATTEMPTS):
        large.trainer.meanwhile = die
        with pytest.raises(KeyboardInterrupt):
            large.service.work_on(PARTIALS[2])
        large.clock.pass_(minutes=2)
    large.work()
    assert large.job(TRAIN).outcome is Outcome.FAILED
    assert large.notices() == [("taxi.speed window 0", "failed")]
    nothing_is_left(large, versions=0)


def test_a_store_that_does_not_answer_puts_a_partial_off(large: World, monkeypatch: pytest.MonkeyPatch):
    def silent(*_: object) -> bytes:
        raise Unavailable("the key store does not answer")

    large.work("train")
    monkeypatch.setattr(large.service.keys, "opening_key", silent)
    with pytest.raises(Unavailable):
        large.service.work_on(PARTIALS[0])
    assert large.job(PARTIALS[0]).lease_until is None
    monkeypatch.undo()
    large.clock.pass_(minutes=2)
    large.work()
    nothing_is_left(large, versions=1)


# the run ends otherwise


def test_one_partial_that_fails_ends_the_training_which_keeps_its_loss(large: World):
    large.work("train")
    assert large.service.work_on(PARTIALS[0])
    large.trainer.failing = RunFailed("memory-limit")
    large.work()
    assert (large.job(TRAIN).state, large.job(TRAIN).outcome) == (JobState.ENDED, Outcome.FAILED)
    assert large.notices() == [("taxi.speed window 0", "memory-limit")]
    assert len(large.trainer.collected) == 2  # the others opened nothing any more
    assert {job.outcome for job in partials(large)[1:]} == {Outcome.WITHDRAWN}  # which one it was is not told
    assert large.trainer.requests == []
    nothing_is_left(large, versions=0)
    large.publish(1)
    assert [v.number for v in large.service.versions("taxi.speed")] == [1]


def test_a_partial_that_ends_after_another_failed_clears_itself_away(large: World):
    large.work("train")

    def another_fails() -> None:
        large.trainer.failing = RunFailed("timeout")
        assert large.service.work_on(PARTIALS[1])

    large.trainer.meanwhile = another_fails
    assert large.service.work_on(PARTIALS[0])
    assert large.drafts() == []
    assert [job.outcome for job in partials(large)[:2]] == [Outcome.WITHDRAWN] * 2
    large.work()
    assert large.notices() == [("taxi.speed window 0", "timeout")]
    nothing_is_left(large, versions=0)


@pytest.mark.parametrize("outcome", [Outcome.WITHDRAWN, Outcome.FAILED, Outcome.EXPIRED])
def test_partials_of_which_one_ended_otherwise_are_not_merged(large: World, outcome: Outcome):
    large.work("train")
    for job_id in PARTIALS:
        assert large.service.work_on(job_id)
    third = replace(large.job(PARTIALS[2]), outcome=outcome)
    with large.service.begin() as uow:  # as if nobody had told the training
        uow.jobs.save(third)
        uow.commit()
    large.work("train")
    assert large.job(TRAIN).outcome is Outcome.FAILED
    assert large.trainer.requests == []
    nothing_is_left(large, versions=0)


@pytest.mark.parametrize("collected", range(N + 1))
def test_expiry_wins_over_partials(large: World, collected: int):
    large.work("train")
    for job_id in PARTIALS[:collected]:
        assert large.service.work_on(job_id)
    let_expire(large)
    large.work("expire")
    assert large.job(TRAIN).outcome is Outcome.EXPIRED
    expected = [Outcome.DONE] * collected + [Outcome.EXPIRED] * (N - collected)
    assert [job.outcome for job in partials(large)] == expected
    assert large.notices() == [("taxi.speed window 0", "expired")]
    assert nothing_is_due(large)
    assert len(large.trainer.collected) == collected
    assert large.service.raw.files(STREAM) == ()
    nothing_is_left(large, versions=0)


def test_a_partial_claimed_when_the_window_expires_opens_nothing(large: World):
    large.work("train")
    assert large.service.work_on(PARTIALS[0])
    let_expire(large)
    assert large.service.work_on(PARTIALS[1])
    assert len(large.trainer.collected) == 1
    assert large.job(TRAIN).outcome is Outcome.EXPIRED
    assert large.notices() == [("taxi.speed window 0", "expired")]
    assert large.drafts() == []
    large.work("partial", "expire")
    assert len(large.trainer.collected) == 1
    assert nothing_is_due(large)
    nothing_is_left(large, versions=0)


def test_expiry_waits_for_a_partial_that_holds_a_lease(large: World):
    large.work("train")
    expire = f"expire/{STREAM}/0"

    def window_leaves() -> None:
        let_expire(large)
        assert not large.service.work_on(expire)

    large.trainer.meanwhile = window_leaves
    assert large.service.work_on(PARTIALS[0])
    assert large.service.work_on(expire)
    assert large.job(TRAIN).outcome is Outcome.EXPIRED
    nothing_is_left(large, versions=0)


def test_keys_of_partials_go_at_once_though_staging_deletes_nothing(
    large: World, monkeypatch: pytest.MonkeyPatch
):
    def away(*_: object) -> None:
        raise Unavailable("staging does not answer")

    large.work("train")
    for job_id in PARTIALS:
        assert large.service.work_on(job_id)
    large.trainer.failing = RunFailed("staging-failed")
    monkeypatch.setattr(large.service.staging, "delete", away)
    with pytest.raises(Unavailable):
        large.service.work_on(TRAIN)
    assert large.job(TRAIN).outcome is Outcome.FAILED
    assert large.service.keys.draft_ids() == ()


@pytest.mark.parametrize("collected", [0, 2, N])
def test_a_withdrawn_ptk_ends_its_split_training(large: World, collected: int):
    large.work("train")
    for job_id in PARTIALS[:collected]:
        assert large.service.work_on(job_id)
    large.service.deregister_ptk("taxi.speed")
    large.work()
    assert len(large.trainer.collected) == collected
    assert large.trainer.requests == []
    assert large.job(TRAIN).outcome is Outcome.WITHDRAWN
    assert all(job.state is JobState.ENDED for job in partials(large))
    nothing_is_left(large, versions=0)


def test_a_trainer_changed_while_partials_are_collected_ends_the_run(large: World):
    large.work("train")
    assert large.service.work_on(PARTIALS[0])
    large.service.update_ptk("taxi.speed", estimator=speed(0.1, top=80.0))
    for job_id in PARTIALS[1:]:
        assert large.service.work_on(job_id)
    del large.service.__dict__["trainer"]  # parts of two trainers do not add up: the process ends
    assert large.service.work_on(TRAIN)
    assert large.job(TRAIN).outcome is Outcome.FAILED
    assert large.notices() == [("taxi.speed window 0", "trainer-error")]
    nothing_is_left(large, versions=0)


def test_a_restored_catalog_collects_nothing(large: World):
    large.work("train")
    home = Path(large.service.settings.root)
    earlier = catalog_of(home)
    large.work()
    large.publish(1)
    large.service.close()
    del large.service.__dict__["catalog"]
    put_back(home, earlier)
    collected = len(large.trainer.collected)
    with pytest.raises(CatalogBehind):
        large.service.work_on(PARTIALS[0])
    assert len(large.trainer.collected) == collected
    large.service.recover_ledger()
    assert {job.outcome for job in partials(large)} == {Outcome.WITHDRAWN}


# what lies in staging


def test_partials_lie_encrypted_in_the_raw_zone_alone(large: World, tmp_path: Path):
    large.work("train")
    for job_id in PARTIALS:
        assert large.service.work_on(job_id)
    files = [path for path in tmp_path.rglob("*") if path.name == training.PARTIAL_FILE]
    assert len(files) == N
    assert {path.relative_to(tmp_path / "home").parts[:2] for path in files} == {("raw", "_staging")}
    assert len({path.stat().st_size for path in files}) == 1  # whatever rows are in them
    for path in files:
        assert b"count" not in path.read_bytes()
        assert b"ARROW" not in path.read_bytes()


def test_partials_are_collected_and_merged_in_processes_of_their_own(tmp_path: Path):
    world = World(tmp_path / "home", rows_per_partial=40)
    del world.service.__dict__["trainer"]
    world.stream()
    world.register()
    world.ingest(ROWS)
    world.close(1)
    world.work()
    assert [job.outcome for job in partials(world)] == [Outcome.DONE] * 2
    nothing_is_left(world, versions=1)
    world.service.close()


def test_only_the_groups_of_rows_that_a_range_needs_are_decrypted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("ptkstore.adapters.objects.parquet.ROWS_PER_GROUP", 100)
    n, zone, key, window = 1_000, FsspecRawZone(str(tmp_path), AesGcmSealer()), b"k" * 32, WindowId("s", 0)
    hashes = [i * (2**64 // n) for i in range(n)]
    rows = pa.table({"x": list(range(n)), "ptk_hash": pa.array(hashes, pa.uint64())})
    zone.write_part(window, 0, rows, key)
    read: list[int] = []
    read_row_group = pa.parquet.ParquetFile.read_row_group

    def watched(self: Any, group: int, **more: Any) -> Any:
        read.append(group)
        return read_row_group(self, group, **more)

    monkeypatch.setattr(pa.parquet.ParquetFile, "read_row_group", watched)
    found: Callable[..., pa.Table] = zone.read_part
    asked = (hashes[250], hashes[410])
    assert found(zone.part_url(window, 0), key, ["x"], asked)["x"].to_pylist() == list(range(250, 410))
    assert read == [2, 3, 4]
    whole = found(zone.part_url(window, 0), key, None, (0, 2**64))
    assert whole.equals(rows)
    assert found(zone.part_url(window, 0), key, ["x"], (5, 5)).num_rows == 0
