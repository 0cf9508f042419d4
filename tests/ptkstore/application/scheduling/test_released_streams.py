"""Budgeting streams that release noisy losses: one payment, one number, and all that is granted follows from it."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from ptklib import UserEmbeddings
from ptklib.significance import LossSignificance
from ptkstore.application.ledger.charging import release_unopened
from ptkstore.application.planning.comparison_plans import price_of_comparison
from ptkstore.application.scheduling.waiting_ptks import begin_to_wait
from ptkstore.domain.accounting.sharing import Sharing
from ptkstore.domain.budgeting.partial import worth
from ptkstore.domain.budgeting.released import steps_between
from ptkstore.domain.budgeting.rule import ThresholdRule
from ptkstore.domain.jobs import JobState, Outcome, scheduler_of
from ptkstore.domain.ledger.journal import EntryKind
from ptkstore.domain.scheduling.choices import Scheduler, Significance
from ptkstore.domain.scheduling.queues import Awaited
from ptkstore.domain.streams.blocks import PROFILE, part_blocks, train_blocks, windows_behind
from ptkstore.domain.streams.windows import WindowId
from ptkstore.errors import InvalidRequest
from ptkstore.ports.row_processes import RunFailed
from tests.support.world import STREAM, World, speed, trips

CHAIN = ("prepare", "allocate", "schedule", "train", "compare", "place", "flip")
PTK = "taxi.y"
ROWS = [i / 1_000 for i in range(1_000)]
EPSILON_0 = 10**9
LEAST, MOST = 2 * 10**8, 2 * 10**9
T = 100.0  # losses per epsilon that a window asks for; U / (1 + ln(U/L)) with U = e L


def released(world: World, t: float = T, windows: tuple[int, int] = (1, 1), **policy: Any) -> World:
    """A PTK that got a version from window 0, where all speeds are 0."""
    defaults: dict[str, Any] = {
        "retention_windows": 1,
        "rows_per_window": 1_000,
        "comparison_epsilon": 1.0,
        "profile_share": Decimal("0.3"),
    }
    world.stream(
        epsilon=10,
        scheduler=Scheduler.BUDGETING,
        significance=Significance.RELEASED_LOSS,
        least_significance=2 * t / math.e,
        most_significance=2 * t,
        **{**defaults, **policy},
    )
    register(world, windows=windows)
    day(world, 0, 0.0)
    return world


def register(world: World, name: str = "y", **more: Any) -> None:
    world.register(name, **{"epsilon": 0.2, "target": 0.9, "config": {"epsilons": [0.2, 2.0]}, **more})


def day(world: World, number: int, lost: float, *kinds: str) -> None:
    """Close a window in which this share of the rows is what the version predicts worst."""
    world.clock.pass_(hours=1)
    speeds = np.where(np.arange(len(ROWS)) % 100 < 100 * lost, 60.0, 0.0)
    world.service.ingest(STREAM, trips([number + one for one in ROWS], speed=speeds))
    world.close(number + 1)
    world.work(*(kinds or CHAIN))


def spent(world: World, begin: str) -> list[tuple[str, int]]:
    """What was spent under keys that begin so: the key and nano-epsilon."""
    with world.service.read() as uow:
        entries = uow.ledger.journal(STREAM)
    return [
        (one.key, one.loss.epsilon_nano)
        for one in entries
        if one.kind is EntryKind.SPEND and one.key.startswith(begin)
    ]


def numbers(world: World) -> dict[str, float | None]:
    with world.service.read() as uow:
        return {one.job_id: one.noisy for one in uow.thresholds.released(STREAM)}


def number(world: World, key: str) -> float:
    found = numbers(world)[key]
    assert found is not None
    return found


def waits_for(world: World) -> dict[str, Awaited]:
    return {one.ptk_id: one.waits_for for one in world.service.queue(STREAM)}


def rule(world: World) -> ThresholdRule:
    with world.service.read() as uow:
        policy = uow.streams.get(STREAM).policy
    return ThresholdRule(policy.least_significance or 0, policy.most_significance or 0, EPSILON_0)


def granted(world: World, noisy: float) -> int:
    """What a window grants for its number, where its train part has that left."""
    return max(one for one in steps_between(LEAST, MOST) if one <= worth(rule(world), noisy))


def test_a_ptk_without_a_version_gets_the_least_of_its_range_and_nothing_is_released(in_files: World) -> None:
    world = released(in_files)
    assert spent(world, "train/") == [(f"train/{PTK}/0", LEAST)]
    assert (spent(world, "compare/"), world.comparer.releases) == ([], [])


def test_a_window_with_larger_losses_grants_more(in_files: World) -> None:
    world = released(in_files, t=50.0)
    day(world, 1, 1.0)
    large = number(world, f"compare/{PTK}/1")
    day(world, 2, 0.5)  # the version of window 1 predicts half of these well
    small = number(world, f"compare/{PTK}/2")
    trained = dict(spent(world, "train/"))
    assert large > small
    assert MOST >= trained[f"train/{PTK}/1"] > trained[f"train/{PTK}/2"] >= LEAST
    assert spent(world, "compare/") == [(f"compare/{PTK}/{window}", EPSILON_0) for window in (1, 2)]


def test_the_grant_is_what_the_released_number_is_worth_and_nothing_else(
    in_files: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B3: whatever the rows are, the same number gives the same grant. The exact sum would give another one."""
    world = released(in_files)
    monkeypatch.setattr(LossSignificance, "release", lambda *_, **__: 170.5)
    day(world, 1, 1.0)
    day(world, 2, 0.0)
    assert numbers(world) == {f"compare/{PTK}/1": 170.5, f"compare/{PTK}/2": 170.5}
    assert spent(world, "train/")[1:] == [
        (f"train/{PTK}/1", granted(world, 170.5)),
        (f"train/{PTK}/2", granted(world, 170.5)),
    ]
    assert worth(rule(world), 170.5) == pytest.approx(0.705e9)
    assert LEAST < granted(world, 170.5) < 0.705e9


def test_no_more_is_granted_than_the_ptk_asks_for_and_the_train_part_has_left(in_files: World) -> None:
    world = released(in_files, t=1.0)
    register(world, "z")
    for _ in range(2):
        world.work(*CHAIN)
    day(world, 1, 1.0)
    assert spent(world, f"train/{PTK}/1") == [(f"train/{PTK}/1", MOST)]
    assert world.service.verify_ledger(STREAM).faults == ()


def test_a_window_of_small_losses_grants_nothing_and_was_paid_for_once(in_files: World) -> None:
    world = released(in_files, t=1e6)
    day(world, 1, 1.0)
    assert spent(world, "compare/") == [(f"compare/{PTK}/1", EPSILON_0)]
    assert len(spent(world, "train/")) == 1
    assert waits_for(world) == {PTK: Awaited.SIGNIFICANCE}
    world.work(*CHAIN)
    assert len(world.comparer.releases) == 1


def test_one_release_serves_later_looks_and_later_waits_with_the_same_version(in_files: World) -> None:
    world = released(in_files, t=1e6)
    day(world, 1, 1.0)
    world.clock.pass_(hours=1)
    with world.service.begin() as uow:
        stream = uow.streams.lock(STREAM)
        begin_to_wait(uow, PTK, stream, world.clock.now())
        uow.commit()
    world.work(*CHAIN)
    assert waits_for(world) == {PTK: Awaited.SIGNIFICANCE}
    assert spent(world, "compare/") == [(f"compare/{PTK}/1", EPSILON_0)]


def test_a_number_of_an_older_version_does_not_count(in_files: World) -> None:
    world = released(in_files)
    day(world, 1, 1.0)  # trained: the version is a new one
    assert number(world, f"compare/{PTK}/1") > T
    day(world, 2, 0.0)
    with world.service.read() as uow:
        versions = {one.job_id: one.version for one in uow.thresholds.released(STREAM)}
    assert versions[f"compare/{PTK}/2"] == versions[f"compare/{PTK}/1"] + 1


def test_a_version_that_is_rolled_back_has_the_losses_of_the_one_that_it_repeats(
    in_files: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has the same state. Otherwise whoever rolls back and forth would use up what all pay from."""
    world = released(in_files)
    told = iter([1e6, 0.0, 1.0, 2.0])
    monkeypatch.setattr(LossSignificance, "release", lambda *_, **__: next(told))
    day(world, 1, 1.0)
    day(world, 2, 1.0)
    for version in (1, 2, 1):
        world.service.rollback_ptk(PTK, version)
        world.work(*CHAIN)
        with world.service.begin() as uow:  # whatever wakes it next
            uow.jobs.wake(scheduler_of(STREAM), world.clock.now())
            uow.commit()
        world.work(*CHAIN)
    with world.service.read() as uow:
        found = [(one.job_id, one.version) for one in uow.thresholds.released(STREAM)]
    assert found == [(f"compare/{PTK}/1", 1), (f"compare/{PTK}/2", 2), (f"compare/{PTK}/2/2", 1)]
    assert waits_for(world) == {PTK: Awaited.SIGNIFICANCE}


def test_a_failure_of_another_version_does_not_stand_in_the_way(in_files: World) -> None:
    world = released(in_files)
    day(world, 1, 1.0)
    world.comparer.failing = RunFailed("memory-limit")
    day(world, 2, 1.0)
    assert numbers(world)[f"compare/{PTK}/2"] is None
    world.comparer.failing = None
    world.service.rollback_ptk(PTK, 1)
    world.work(*CHAIN)
    with world.service.begin() as uow:
        uow.jobs.wake(scheduler_of(STREAM), world.clock.now())
        uow.commit()
    world.work(*CHAIN)
    assert number(world, f"compare/{PTK}/2/2") > T


def test_numbers_and_contexts_do_not_go_together(in_files: World) -> None:
    """A training's loss tells the number, and the budget shows it to every context."""
    with pytest.raises(InvalidRequest, match="does not go with contexts"):
        released(in_files, sharing=Sharing(contexts=(("eu", ("taxi",)),), no_collusion="two countries"))


def test_a_version_that_cannot_be_read_is_not_paid_for_and_grants_nothing(in_files: World) -> None:
    world = released(in_files)
    (folder,) = (one for one in world.service.settings.home.rglob("*") if one.is_dir() and one.name == PTK)
    for file in folder.rglob("*.parquet"):
        file.chmod(0o600)
        file.write_bytes(b"other bytes")
    day(world, 1, 1.0)
    assert (spent(world, "compare/"), numbers(world)) == ([], {f"compare/{PTK}/1": None})
    assert waits_for(world) == {PTK: Awaited.SIGNIFICANCE}
    assert (f"{PTK} compare of window 1", "version-unreadable") in world.notices()


def test_a_training_over_several_windows_has_the_loss_that_each_of_them_grants(
    in_files: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = released(in_files, t=1e6, windows=(2, 3), retention_windows=6)
    assert waits_for(world) == {PTK: Awaited.NEW_WINDOW}
    day(world, 1, 0.0)
    assert spent(world, "train/") == [(f"train/{PTK}/1", LEAST)]
    told = iter(
        [1.8e6, 1.6e6, 1.25e6]
    )  # two windows with .6 are more than three with .25, and than one with .8
    monkeypatch.setattr(LossSignificance, "release", lambda *_, **__: next(told))
    day(world, 2, 1.0)
    known = {number: int(key.rsplit("/", 1)[1]) for key, number in numbers(world).items()}
    best = sorted([known[1.8e6], known[1.6e6]])
    key = f"train/{PTK}/{best[1]}" + ("/2" if best[1] == 1 else "")  # it had a look at window 1 before
    assert spent(world, "train/")[1:] == [(key, granted(world, 1.6e6))]
    with world.service.read() as uow:
        blocks = uow.ledger.history(key)[0].blocks
        assert windows_behind(uow.streams.get(STREAM).policy, blocks, newest=0) == tuple(best)


def test_a_release_that_fails_grants_nothing_in_this_wait_and_is_tried_in_the_next(in_files: World) -> None:
    world = released(in_files)
    world.comparer.failing = RunFailed("memory-limit")
    day(world, 1, 1.0)
    assert numbers(world) == {f"compare/{PTK}/1": None}
    assert waits_for(world) == {PTK: Awaited.SIGNIFICANCE}
    world.work(*CHAIN)
    assert len(world.comparer.releases) == 1
    world.clock.pass_(hours=1)
    with world.service.begin() as uow:
        stream = uow.streams.lock(STREAM)
        begin_to_wait(uow, PTK, stream, world.clock.now())
        uow.commit()
    world.work(*CHAIN)
    assert number(world, f"compare/{PTK}/1/2") > T
    assert len(spent(world, "train/")) == 2


def test_a_run_that_takes_down_every_worker_grants_nothing(in_files: World) -> None:
    world = released(in_files)
    day(world, 1, 1.0, "prepare", "allocate")

    def die() -> None:
        raise Killed

    for _ in range(12):
        world.steps.at["opened"] = die
        with suppress(Killed):
            world.service.work_on(f"compare/{PTK}/1")
        world.clock.pass_(hours=2)
    assert world.job(f"compare/{PTK}/1").outcome is Outcome.FAILED
    assert numbers(world) == {f"compare/{PTK}/1": None}
    world.steps.at.clear()
    world.work(*CHAIN)
    assert (waits_for(world), world.comparer.releases) == ({PTK: Awaited.SIGNIFICANCE}, [])


def test_what_cannot_be_paid_for_is_not_read(in_files: World) -> None:
    """B4: the profile part has epsilon_0 once, for the first who asks."""
    world = released(in_files, comparison_epsilon=6.0)
    register(world, "z")
    world.work(*CHAIN)
    day(world, 1, 1.0)
    assert len(world.comparer.releases) == 1
    assert waits_for(world)["taxi.z"] is Awaited.BUDGET


def test_a_window_whose_train_part_cannot_pay_for_the_least_loss_is_not_read(in_files: World) -> None:
    world = released(in_files)
    register(world, "large", epsilon=9.9, config={})
    world.work(*CHAIN)
    day(world, 1, 1.0, "prepare")
    with world.service.begin() as uow:  # the large one came first
        stream = uow.streams.lock(STREAM)
        begin_to_wait(uow, PTK, stream, world.clock.now())
        uow.commit()
    world.work(*CHAIN)
    assert spent(world, "train/taxi.large") != []
    assert [one for one in spent(world, "compare/") if PTK in one[0]] == []


def test_the_run_that_pays_looks_at_the_train_part_again(in_files: World) -> None:
    """B5: it was queued before its window's train part retired."""
    world = released(in_files)
    day(world, 1, 1.0, "prepare", "allocate")
    with world.service.begin() as uow:
        stream = uow.streams.lock(STREAM)
        uow.ledger.retire(STREAM, tuple(train_blocks(WindowId(STREAM, 1), stream.policy, 0)))
        uow.commit()
    world.work("compare")
    assert (spent(world, "compare/"), world.comparer.releases) == ([], [])


def test_nobody_pays_for_the_losses_of_a_version_that_was_replaced_meanwhile(in_files: World) -> None:
    world = released(in_files)
    day(world, 1, 1.0)
    day(world, 2, 1.0, "prepare", "allocate")
    world.service.rollback_ptk(PTK, 1)
    world.work("place", "flip")
    world.work("compare")
    assert [key for key, _ in spent(world, "compare/")] == [f"compare/{PTK}/1"]
    world.work(*CHAIN)
    assert number(world, f"compare/{PTK}/2/2") is not None


def test_a_retired_profile_part_answers_nothing(in_files: World) -> None:
    world = released(in_files)
    day(world, 1, 1.0, "prepare")
    with world.service.begin() as uow:
        stream = uow.streams.lock(STREAM)
        blocks = part_blocks(PROFILE, WindowId(STREAM, 1), stream.policy, range(1))
        uow.ledger.retire(STREAM, tuple(blocks))
        uow.commit()
    world.work(*CHAIN)
    assert (world.comparer.releases, waits_for(world)) == ([], {PTK: Awaited.BUDGET})


def test_an_expired_window_takes_its_numbers_with_it(in_files: World) -> None:
    world = released(in_files, t=1e6)
    day(world, 1, 1.0)
    assert list(numbers(world)) == [f"compare/{PTK}/1"]
    day(world, 2, 1.0)
    world.work("expire")
    assert list(numbers(world)) == [f"compare/{PTK}/2"]


def test_a_withdrawn_ptk_gets_its_reservation_back(in_files: World) -> None:
    world = released(in_files)
    day(world, 1, 1.0, "prepare", "allocate")
    assert waits_for(world) == {PTK: Awaited.COMPARISON}
    world.service.deregister_ptk(PTK)
    world.work("compare")
    assert (spent(world, "compare/"), numbers(world)) == ([], {})
    assert world.job(f"compare/{PTK}/1").state is JobState.ENDED


def test_a_release_that_was_given_back_is_asked_for_again(in_files: World) -> None:
    world = released(in_files)
    day(world, 1, 1.0, "prepare", "allocate")
    with world.service.begin() as uow:
        run = uow.jobs.lock(f"compare/{PTK}/1")
        release_unopened(uow, run.reservation)
        uow.jobs.save(run.ended(Outcome.WITHDRAWN))
        uow.jobs.wake(scheduler_of(STREAM), world.clock.now())
        uow.commit()
    world.work(*CHAIN)
    assert number(world, f"compare/{PTK}/1/2") > T


def test_a_version_of_another_model_is_not_compared(in_files: World) -> None:
    world = released(in_files)
    day(world, 1, 1.0, "prepare", "allocate")
    with world.service.begin() as uow:
        spec = uow.ptks.lock(PTK)
        assert spec is not None
        uow.ptks.replace(replace(spec, estimator=speed(0.2, top=70.0)))
        uow.commit()
    world.work("compare")
    assert (spent(world, "compare/"), numbers(world)) == ([], {})


def test_two_ptks_release_beside_each_other(in_files: World) -> None:
    world = released(in_files)
    register(world, "z")
    world.work(*CHAIN)
    day(world, 1, 1.0, "prepare", "allocate")
    with world.service.read() as uow:
        runs = sorted(run.id for run in uow.jobs.comparisons(STREAM))
    assert runs == [f"compare/{PTK}/1", "compare/taxi.z/1"]


class Killed(BaseException):
    """The process dies."""


@pytest.mark.parametrize("step", ["spent", "opened", "compared", "answer-kept"])
def test_a_kill_at_any_step_leaves_one_charge_and_one_number(in_files: World, step: str) -> None:
    world = released(in_files)
    day(world, 1, 1.0, "prepare", "allocate")

    def die() -> None:
        raise Killed

    world.steps.at[step] = die
    with pytest.raises(Killed):
        world.service.work_on(f"compare/{PTK}/1")
    world.clock.pass_(hours=2)
    world.work(*CHAIN)
    assert number(world, f"compare/{PTK}/1") > T
    assert spent(world, "compare/") == [(f"compare/{PTK}/1", EPSILON_0)]
    assert world.service.verify_ledger(STREAM).faults == ()


def test_a_child_of_its_own_releases_as_well(in_files: World) -> None:
    world = released(in_files)
    day(world, 1, 1.0, "prepare", "allocate")
    world.in_processes()
    world.work("compare")
    assert T < number(world, f"compare/{PTK}/1") < 1_000


@pytest.mark.parametrize("accountant", ["renyi", "zcdp"])
def test_grants_follow_from_epsilon_under_every_accountant(in_files: World, accountant: str) -> None:
    from ptkstore.domain.accounting.accountants import Accountant

    world = released(in_files, accountant=Accountant(accountant), capacity_delta=1e-6)
    day(world, 1, 1.0)
    noisy = number(world, f"compare/{PTK}/1")
    assert spent(world, "train/")[1:] == [(f"train/{PTK}/1", granted(world, noisy))]


def test_losses_that_a_family_does_not_have_are_not_released(in_files: World) -> None:
    released(in_files, capacity_delta=1e-5)
    made = UserEmbeddings(
        user="zone",
        item="hour",
        users=["a", "b"],
        items=[0, 1, 2],
        n_factors=2,
        guarantee="record",
        max_rows_per_user=1,
        epsilon=0.1,
        delta=1e-6,
    )
    with pytest.raises(InvalidRequest, match="measures the losses of versions"):
        in_files.register("count", estimator=made.to_spec())


def test_a_stream_without_a_profile_part_has_no_losses_to_release(in_files: World) -> None:
    with pytest.raises(InvalidRequest, match="which has no share"):
        released(in_files, profile_share=Decimal(0))


def test_what_is_paid_for_is_the_noise_of_one_release(in_files: World) -> None:
    released(in_files)
    with in_files.service.read() as uow:
        price = price_of_comparison(uow.streams.get(STREAM).policy)
    assert price.event == LossSignificance(1.0).loss.event.to_json()


def test_a_release_has_a_price(in_files: World) -> None:
    with pytest.raises(InvalidRequest, match="comparison_epsilon"):
        released(in_files, comparison_epsilon=None)
