"""Budgeting streams that measure significance: noisy thresholds are paid for once, kept, used up, and destroyed."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from ptklib import UserEmbeddings
from ptkstore.adapters.keys import AesGcmSealer
from ptkstore.adapters.sandbox.child.compare import compare, sealing_key
from ptkstore.adapters.sandbox.messages.orders import encode_answer
from ptkstore.adapters.sandbox.parent.runs import ChildRuns
from ptkstore.adapters.sandbox.processes.process import Ended
from ptkstore.application.ledger.charging import release_unopened
from ptkstore.application.scheduling.waiting_ptks import begin_to_wait
from ptkstore.domain.budgeting.rule import ThresholdRule
from ptkstore.domain.jobs import JobKind, JobState, Outcome, scheduler_of
from ptkstore.domain.ledger.journal import EntryKind
from ptkstore.domain.scheduling.choices import Scheduler, Significance
from ptkstore.domain.scheduling.queues import Awaited
from ptkstore.domain.scheduling.simulation.requests import SimulatedScheduler, SimulationRequest
from ptkstore.domain.streams.blocks import PROFILE, part_blocks
from ptkstore.domain.streams.windows import WindowId
from ptkstore.errors import CorruptObject, InvalidRequest, WindowGone
from ptkstore.ports.row_processes import Compared, RunFailed
from tests.support.world import STREAM, World, speed, trips

CHAIN = ("prepare", "allocate", "schedule", "train", "compare", "place", "flip")
E9 = 9_000.0
"""A little more than e**9: any query is taken below a share that is a little less than a tenth."""
FREE, FIRST, SECOND = "taxi.a", "taxi.y", "taxi.z"
ROWS = [i / 1_000 for i in range(1_000)]
EPSILON_0 = 10**9


def measured(world: World, least: float, **policy: Any) -> World:
    """Two PTKs that got a version from window 0, and one that takes a tenth of each window before them."""
    defaults: dict[str, Any] = {
        "retention_windows": 1,
        "rows_per_window": 1_000,
        "comparison_epsilon": 1.0,
        "profile_share": Decimal("0.3"),
    }
    world.stream(
        epsilon=10,
        scheduler=Scheduler.BUDGETING,
        significance=Significance.LOSS,
        least_significance=least,
        most_significance=least * E9,
        **{**defaults, **policy},
    )
    for name, epsilon in (("y", 0.2), ("z", 0.2), ("a", 1)):
        world.register(name, epsilon=epsilon)
        world.clock.pass_(hours=1)
    day(world, 0)
    return world


@pytest.fixture
def low(in_files: World) -> World:
    """Each window is above its threshold, at any noise."""
    return measured(in_files, 1.0)


@pytest.fixture
def high(in_files: World) -> World:
    """Each window is below its threshold, at any noise."""
    return measured(in_files, 1e6)


def day(world: World, number: int, *kinds: str) -> None:
    world.clock.pass_(hours=1)
    speeds = np.full(len(ROWS), 60.0 if number else 0.0)  # what the first versions predict worst
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


def kept(world: World) -> list[tuple[int, str]]:
    """The thresholds that are kept: window, and whose payment drew it."""
    with world.service.read() as uow:
        return [(one.window.index, one.reservation) for one in uow.thresholds.of(STREAM)]


def answers(world: World) -> dict[str, bool]:
    with world.service.read() as uow:
        return {one.job_id: one.above for one in uow.thresholds.answers(STREAM)}


def keys(world: World) -> list[str]:
    return [name for name in world.service.keys.draft_ids() if ".threshold-" in name]


def waits_for(world: World) -> dict[str, Awaited]:
    return {one.ptk_id: one.waits_for for one in world.service.queue(STREAM)}


def test_a_fresh_window_serves_whom_it_can_pay_for_and_compares_nothing(low: World) -> None:
    assert [len(low.service.versions(name)) for name in (FREE, FIRST, SECOND)] == [1, 1, 1]
    assert (spent(low, "compare/"), kept(low), keys(low)) == ([], [], [])


def test_above_is_paid_for_once_serves_and_uses_the_threshold_up(low: World) -> None:
    day(low, 1, "prepare", "allocate")
    assert waits_for(low)[FIRST] is Awaited.COMPARISON
    low.work(*CHAIN)
    compared = [(f"compare/{FIRST}/1", EPSILON_0), (f"compare/{SECOND}/1", EPSILON_0)]
    assert spent(low, "compare/") == compared  # each "above" needs a threshold of its own (B1)
    assert answers(low) == {key: True for key, _ in compared}
    assert (kept(low), keys(low)) == ([], [])
    assert [len(low.service.versions(name)) for name in (FIRST, SECOND)] == [2, 2]
    assert low.service.verify_ledger(STREAM).faults == ()


def test_below_keeps_the_threshold_and_the_next_answer_costs_nothing(high: World) -> None:
    day(high, 1)
    assert answers(high) == {f"compare/{FIRST}/1": False, f"compare/{SECOND}/1": False}
    assert spent(high, "compare/") == [(f"compare/{FIRST}/1", EPSILON_0)]
    assert kept(high) == [(1, f"compare/{FIRST}/1")]
    assert len(keys(high)) == 1
    assert [len(high.service.versions(name)) for name in (FIRST, SECOND)] == [1, 1]
    assert waits_for(high) == {FIRST: Awaited.SIGNIFICANCE, SECOND: Awaited.SIGNIFICANCE}


def test_one_holder_has_a_threshold_at_a_time(high: World) -> None:
    day(high, 1, "prepare", "allocate")
    with high.service.read() as uow:
        runs = [(run.ptk_id, run.state) for run in uow.jobs.comparisons(STREAM)]
    assert runs == [(FIRST, JobState.READY)]
    assert waits_for(high) == {FREE: Awaited.VERDICT, FIRST: Awaited.COMPARISON, SECOND: Awaited.COMPARISON}


def test_the_secret_is_sealed_with_the_keys_of_the_window_and_of_the_threshold(high: World) -> None:
    day(high, 1)
    with high.service.read() as uow:
        (one,) = uow.thresholds.of(STREAM)
    assert b"noisy" not in one.sealed
    assert one.sealed.hex() not in repr(one)
    first, second = high.comparer.requests
    assert (first.sealed, second.sealed is None) == (None, False)
    assert first.name == second.name == one.key_id


def test_an_expired_window_takes_its_thresholds_answers_and_keys_with_it(high: World) -> None:
    day(high, 1)
    (old,) = keys(high)
    day(high, 2)
    high.work("expire")
    assert 1 not in {window for window, _ in kept(high)}
    assert old not in keys(high)
    assert not any(job.endswith("/1") for job in answers(high))
    with pytest.raises(WindowGone):
        high.service.keys.draft_key(old)


def test_no_older_copy_of_the_catalog_brings_back_a_threshold_that_was_used_up(high: World) -> None:
    """A comparison that finds its threshold's key destroyed answers nothing from rows."""
    day(high, 1, "prepare", "allocate", "compare")
    assert kept(high) == [(1, f"compare/{FIRST}/1")]
    high.service.keys.destroy_draft(keys(high)[0])
    high.work(*CHAIN)
    assert len(high.comparer.requests) == 1
    assert kept(high) == []
    assert answers(high)[f"compare/{SECOND}/1"] is False


def test_a_run_that_fails_uses_its_threshold_up_and_is_not_tried_again(low: World) -> None:
    low.comparer.failing = RunFailed("memory-limit")
    day(low, 1)
    assert answers(low) == {f"compare/{FIRST}/1": False, f"compare/{SECOND}/1": True}
    assert (kept(low), keys(low)) == ([], [])
    assert waits_for(low)[FIRST] is Awaited.SIGNIFICANCE


def test_a_run_that_takes_down_every_worker_uses_its_threshold_up(low: World) -> None:
    day(low, 1, "prepare", "allocate")

    def die() -> None:
        raise Killed

    for _ in range(12):
        low.steps.at["opened"] = die
        with suppress(Killed):
            low.service.work_on(f"compare/{FIRST}/1")
        low.clock.pass_(hours=2)
    assert low.job(f"compare/{FIRST}/1").outcome is Outcome.FAILED
    assert (answers(low), kept(low), keys(low)) == ({f"compare/{FIRST}/1": False}, [], [])


def test_an_answer_of_an_earlier_wait_keeps_nobody_from_asking_however_late_it_came(low: World) -> None:
    """A job that is put off is due later than the wait that follows, which is another one."""
    day(low, 1, "prepare", "allocate")

    def waits_anew() -> None:
        low.clock.pass_(hours=1)
        with low.service.begin() as uow:
            stream = uow.streams.lock(STREAM)
            begin_to_wait(uow, FIRST, stream, low.clock.now())
            uow.commit()

    low.comparer.meanwhile = waits_anew
    low.service.work_on(f"compare/{FIRST}/1")
    with low.service.begin() as uow:
        run = uow.jobs.lock(f"compare/{FIRST}/1")
        uow.jobs.save(replace(run, due_at=low.clock.now() + timedelta(hours=1)))
        uow.commit()
    low.work(*CHAIN)
    assert answers(low)[f"compare/{FIRST}/1/2"] is True


def test_a_profile_part_that_cannot_pay_is_not_read(in_files: World) -> None:
    low = measured(in_files, 1.0, comparison_epsilon=6.0)
    day(low, 1)
    assert spent(low, "compare/") == [(f"compare/{FIRST}/1", 6 * EPSILON_0)]
    assert waits_for(low)[SECOND] is Awaited.BUDGET
    assert len(low.comparer.requests) == 1


def test_who_has_no_version_has_nothing_to_compare(low: World) -> None:
    low.register("new", epsilon=0.2)
    low.work(*CHAIN)
    assert waits_for(low)["taxi.new"] is Awaited.SIGNIFICANCE
    assert low.comparer.requests == []


def test_a_withdrawn_ptk_gets_its_reservation_back(low: World) -> None:
    day(low, 1, "prepare", "allocate")
    low.service.deregister_ptk(FIRST)
    low.work("compare")
    assert spent(low, "compare/") == []
    assert low.job(f"compare/{FIRST}/1").state is JobState.ENDED


class Killed(BaseException):
    """The process dies."""


@pytest.mark.parametrize("step", ["spent", "opened", "compared", "answer-kept"])
@pytest.mark.parametrize("which", [0, 1])
def test_a_kill_at_any_step_leaves_one_charge_one_threshold_and_one_answer(
    high: World, step: str, which: int
) -> None:
    """The first comparison draws a threshold, the second one continues it."""
    day(high, 1, "prepare", "allocate")
    if which:
        high.service.work_on(f"compare/{FIRST}/1")
        high.work("schedule")

    def die() -> None:
        raise Killed

    high.steps.at[step] = die
    with pytest.raises(Killed):
        high.service.work_on(f"compare/{SECOND if which else FIRST}/1")
    high.clock.pass_(hours=2)
    high.work(*CHAIN)
    assert answers(high) == {f"compare/{FIRST}/1": False, f"compare/{SECOND}/1": False}
    assert spent(high, "compare/") == [(f"compare/{FIRST}/1", EPSILON_0)]
    assert (kept(high), len(keys(high))) == ([(1, f"compare/{FIRST}/1")], 1)
    assert high.service.verify_ledger(STREAM).faults == ()


def test_a_kill_before_above_is_kept_never_asks_the_threshold_again(low: World) -> None:
    day(low, 1, "prepare", "allocate")

    def die() -> None:
        raise Killed

    low.steps.at["compared"] = die
    with pytest.raises(Killed):
        low.work("compare")
    (name,) = keys(low)
    low.service.keys.destroy_draft(name)  # as `keep` does first
    low.clock.pass_(hours=2)
    low.work(*CHAIN)
    assert answers(low)[f"compare/{FIRST}/1"] is False
    assert spent(low, f"compare/{FIRST}") == [(f"compare/{FIRST}/1", EPSILON_0)]


def test_losses_that_a_family_does_not_have_are_not_measured(in_files: World) -> None:
    measured(in_files, 1.0, capacity_delta=1e-5)
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


def test_a_measured_stream_can_be_simulated_as_if_it_were_adaptive(low: World) -> None:
    asked = SimulationRequest(rate=1.0, windows=10, schedulers=(SimulatedScheduler.GUIDED,), seed=0)
    assert low.service.simulate(STREAM, asked).arrived > 0


def test_comparisons_are_runs_that_the_scheduler_waits_for() -> None:
    from ptkstore.domain.jobs import PAID_RUNS, WAITED_FOR, WHILE_KEPT

    assert all(JobKind.COMPARE in kinds for kinds in (PAID_RUNS, WAITED_FOR, WHILE_KEPT))


def test_a_line_is_the_threshold_times_both_losses(low: World) -> None:
    """B2: p is compared with T(z) (epsilon_j + epsilon_0), and a tenth of the window is used by then."""
    day(low, 1)
    rule = ThresholdRule(1.0, E9, EPSILON_0)
    first, second = low.comparer.requests
    assert first.line == pytest.approx(rule.at(0.1) * (0.2 + 1.0))
    assert second.line == pytest.approx(rule.at(0.12) * (0.2 + 1.0))


def test_a_secret_opens_under_both_keys_and_its_own_name_alone(high: World) -> None:
    day(high, 1)
    _, again = high.comparer.requests
    assert again.sealed is not None
    sealer, raw = AesGcmSealer(), high.service.raw
    for key in (again.threshold_key, again.rows[0].window_key):
        with pytest.raises(CorruptObject):
            sealer.open(key, again.sealed, again.name)
    for other in (
        replace(again, threshold_key=bytes(32)),
        replace(again, name=f"{again.name}0"),
        replace(again, epsilon=0.5),
    ):
        with pytest.raises(CorruptObject):
            compare(other, raw, sealer)
    assert compare(again, raw, sealer).above is False
    other_window = replace(again, rows=(replace(again.rows[0], window_key=bytes(32)),))
    assert (
        len({sealing_key(one) for one in (again, other_window, replace(again, threshold_key=bytes(32)))}) == 3
    )


def test_above_is_kept_only_once_its_key_is_destroyed(low: World, monkeypatch: pytest.MonkeyPatch) -> None:
    day(low, 1, "prepare", "allocate")

    def die(*_: Any) -> None:
        raise Killed

    with monkeypatch.context() as broken:
        broken.setattr(type(low.service.keys), "destroy_draft", die)
        with pytest.raises(Killed):
            low.work("compare")
    assert answers(low) == {}
    assert low.job(f"compare/{FIRST}/1").state is JobState.OPENED


def test_a_child_of_its_own_compares_as_well(high: World) -> None:
    day(high, 1, "prepare", "allocate")
    high.in_processes()
    high.work("compare", "schedule")
    assert answers(high) == {f"compare/{FIRST}/1": False, f"compare/{SECOND}/1": False}
    assert spent(high, "compare/") == [(f"compare/{FIRST}/1", EPSILON_0)]


@pytest.mark.parametrize("answer", [Compared(True, b"sealed"), Compared(False, None)])
def test_an_answer_that_no_child_gives_is_bad_output(answer: Compared) -> None:
    class Says:
        def run(self, request: object, keep_alive: object) -> Ended:
            return Ended(encode_answer(answer), 0, timed_out=False)

    made: Any = ChildRuns(Says(), staging=None)  # type: ignore[arg-type]
    assert made.compare(None, None) == RunFailed("bad-output")


def spoil(world: World, name: str) -> None:
    """Change a file of the first version of a PTK in the lake."""
    (folder,) = (one for one in world.service.settings.home.rglob("*") if one.is_dir() and one.name == name)
    for file in folder.rglob("*.parquet"):
        file.chmod(0o600)
        file.write_bytes(b"other bytes")


def test_a_version_that_cannot_be_read_stops_its_own_comparison_alone(low: World) -> None:
    spoil(low, FIRST)
    day(low, 1)
    assert (low.job(f"compare/{FIRST}/1").state, spent(low, f"compare/{FIRST}")) == (JobState.ENDED, [])
    assert answers(low) == {f"compare/{FIRST}/1": False, f"compare/{SECOND}/1": True}
    assert waits_for(low)[FIRST] is Awaited.SIGNIFICANCE
    assert (f"{FIRST} compare of window 1", "version-unreadable") in low.notices()


def retire_profile_part(world: World, window: int) -> None:
    with world.service.begin() as uow:
        stream = uow.streams.lock(STREAM)
        blocks = part_blocks(PROFILE, WindowId(STREAM, window), stream.policy, range(1))
        uow.ledger.retire(STREAM, tuple(blocks))
        uow.commit()


def test_a_retired_profile_part_answers_nothing(high: World) -> None:
    day(high, 1, "prepare", "allocate", "compare")
    retire_profile_part(high, 1)
    high.work(*CHAIN)
    assert list(answers(high)) == [f"compare/{FIRST}/1"]
    assert len(high.comparer.requests) == 1


def test_a_threshold_whose_profile_part_retires_before_it_is_asked_is_destroyed(high: World) -> None:
    day(high, 1, "prepare", "allocate", "train", "place")
    high.service.work_on(f"compare/{FIRST}/1")
    high.work("schedule")
    assert len(kept(high)) == len(keys(high)) == 1
    retire_profile_part(high, 1)
    high.work("compare")
    assert list(answers(high)) == [f"compare/{FIRST}/1"]
    assert (kept(high), keys(high)) == ([], [])


def test_a_threshold_whose_spend_retires_its_profile_part_is_not_kept(in_files: World) -> None:
    high = measured(in_files, 1e6, comparison_epsilon=10.0)
    day(high, 1)
    assert answers(high) == {f"compare/{FIRST}/1": False}
    assert (kept(high), keys(high)) == ([], [])
    assert waits_for(high)[SECOND] is Awaited.BUDGET


def test_a_comparison_that_was_withdrawn_is_asked_for_again(low: World) -> None:
    day(low, 1, "prepare", "allocate")
    with low.service.begin() as uow:
        run = uow.jobs.lock(f"compare/{FIRST}/1")
        release_unopened(uow, run.reservation)
        uow.jobs.save(run.ended(Outcome.WITHDRAWN))
        uow.jobs.wake(scheduler_of(STREAM), low.clock.now())
        uow.commit()
    low.work(*CHAIN)
    assert answers(low)[f"compare/{FIRST}/1/2"] is True


def test_an_answer_is_kept_for_the_wait_that_it_was_asked_for(low: World) -> None:
    day(low, 1, "prepare", "allocate")

    def waits_anew() -> None:
        low.clock.pass_(hours=1)
        with low.service.begin() as uow:
            stream = uow.streams.lock(STREAM)
            begin_to_wait(uow, FIRST, stream, low.clock.now())
            uow.commit()

    low.comparer.meanwhile = waits_anew
    low.service.work_on(f"compare/{FIRST}/1")
    assert answers(low) == {}
    low.work(*CHAIN)
    assert answers(low)[f"compare/{FIRST}/1/2"] is True


def test_a_version_of_another_model_is_not_compared(low: World) -> None:
    day(low, 1, "prepare", "allocate")
    with low.service.begin() as uow:
        spec = uow.ptks.lock(FIRST)
        assert spec is not None
        uow.ptks.replace(replace(spec, estimator=speed(0.2, top=70.0)))
        uow.commit()
    low.work("compare")
    assert spent(low, f"compare/{FIRST}") == []
