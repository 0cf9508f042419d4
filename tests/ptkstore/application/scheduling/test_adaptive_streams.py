"""Adaptive streams: PTKs wait for windows, are given small looks first, and leave once they have a version."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from ptklib import CountFeaturizer, HistoricalStatistics
from ptklib.exceptions import InvalidParameterError
from ptklib.validation import MinimumSums
from ptkstore.adapters.keys.store import FileKeyStore
from ptkstore.application.planning.formula_plans import grid_of
from ptkstore.domain.jobs import JobKind, JobState, Outcome, job_id, scheduler_of
from ptkstore.domain.ledger.journal import EntryKind
from ptkstore.domain.ptks.wanted import WantedPtk
from ptkstore.domain.scheduling.allowances import Share
from ptkstore.domain.scheduling.choices import Mode, Scheduler
from ptkstore.domain.scheduling.queues import Awaited
from ptkstore.domain.streams.policies import Policy, PrivacyUnit
from ptkstore.errors import InvalidRequest, PtkRejected
from ptkstore.ports.row_processes import RunFailed
from tests.support.world import DAY, ORIGIN, STREAM, World, speed

CHAIN = ("prepare", "allocate", "schedule", "train", "validate", "place", "flip")
PTK = "taxi.speed"
RANGE = {"epsilons": [0.1, 0.4]}
TEST = {"metric": "loss", "epsilon": 0.2}
GOOD, BAD = 0.9, 1e-9
"""Targets that a state surely meets, and surely cannot be shown to meet."""
ROWS = [i / 1_000 for i in range(1_000)]


def counted(epsilon: float) -> Mapping[str, Any]:
    """Counts, whose rows follow from epsilon and the target alone."""
    hours = {"hour": [*range(24)]}
    made = CountFeaturizer(
        features=["hour"], label="long", classes=[False, True], domains=hours, epsilon=epsilon
    )
    return made.to_spec()


def adaptive(world: World, **policy: Any) -> World:
    defaults = {"retention_windows": 4, "scheduler_mode": Mode.CONSERVE, "rows_per_window": 1_000}
    world.stream(**{"scheduler": Scheduler.ADAPTIVE, **defaults, **policy})
    return world


@pytest.fixture
def stream(in_files: World) -> World:
    return adaptive(in_files)


def day(world: World, number: int, *, rows: bool = True) -> None:
    """One more window, from rows to versions."""
    world.clock.pass_(hours=1)
    if rows:
        world.ingest([number + one for one in ROWS])
    world.close(number + 1)
    world.work(*CHAIN)


def looks(world: World, ptk_id: str = PTK) -> list[tuple[str, int]]:
    """What was reserved for trainings of a PTK, in order: key and nano-epsilon."""
    with world.service.read() as uow:
        entries = uow.ledger.journal(STREAM)
    return [
        (one.key, one.loss.epsilon_nano)
        for one in entries
        if one.kind is EntryKind.RESERVE and one.key.startswith(f"train/{ptk_id}/")
    ]


def allowed(world: World, ptk_id: str = PTK) -> dict[int, int]:
    """The nano-epsilon that a PTK was allowed of each block."""
    with world.service.read() as uow:
        return {one.block: one.nano for one in uow.waits.allowed(STREAM) if one.ptk_id == ptk_id}


def numbers(world: World, ptk_id: str = PTK) -> list[int]:
    return [one.number for one in world.service.versions(ptk_id)]


def test_a_ptk_waits_for_a_window_and_leaves_with_a_version(stream: World) -> None:
    stream.register(epsilon=0.1)
    assert looks(stream) == []
    day(stream, 0)
    assert looks(stream) == [(f"train/{PTK}/0", 100_000_000)]
    assert (numbers(stream), stream.views.shown) == ([1], {PTK: 1})
    assert allowed(stream) == {}  # it waits no longer
    assert stream.job(scheduler_of(STREAM)).state is JobState.IDLE
    assert stream.service.verify_ledger(STREAM).faults == ()


def test_it_waits_anew_so_many_windows_after_its_version(stream: World) -> None:
    stream.register(epsilon=0.1, train_frequency="2d")
    for number in range(4):
        day(stream, number)
    assert [key for key, _ in looks(stream)] == [f"train/{PTK}/0", f"train/{PTK}/2"]


def test_a_retry_doubles_the_loss_until_the_ptk_is_accepted(stream: World) -> None:
    stream.register(config={**RANGE, "accept": TEST}, target=BAD)
    day(stream, 0)
    assert looks(stream) == [
        (f"train/{PTK}/0", 100_000_000),
        (f"train/{PTK}/0/2", 200_000_000),
        (f"train/{PTK}/0/3", 400_000_000),
    ]
    assert (numbers(stream), stream.views.shown) == ([], {})
    day(stream, 1)
    assert len(looks(stream)) == 3  # it had the most that it may have


def test_no_row_opens_for_a_state_that_no_test_block_could_test(stream: World) -> None:
    stream.register(config={**RANGE, "accept": {**TEST, "epsilon": 0.6}}, target=BAD)
    day(stream, 0)
    assert [key for key, _ in looks(stream)] == [f"train/{PTK}/0"]
    day(stream, 1)
    assert [key for key, _ in looks(stream)] == [f"train/{PTK}/0", f"train/{PTK}/1"]


def test_a_look_at_several_windows_waits_until_each_test_block_can_pay(stream: World) -> None:
    config = {"accept": {**TEST, "epsilon": 0.6}}
    stream.register("a", epsilon=0.1, config=config, target=GOOD, train_frequency="9d")
    day(stream, 0)
    stream.register("b", epsilon=0.1, config=config, target=GOOD, windows=(2, 2))
    day(stream, 1)
    assert looks(stream, "taxi.b") == []  # window 0 has no room for a second test
    (waits,) = [one for one in stream.service.queue(STREAM) if one.ptk_id == "taxi.b"]
    assert waits.waits_for is Awaited.TEST_BLOCK
    day(stream, 2)
    assert [key for key, _ in looks(stream, "taxi.b")] == ["train/taxi.b/2"]
    assert numbers(stream, "taxi.b") == [1]


def test_two_ptks_whose_tests_do_not_fit_one_test_block_take_turns(stream: World) -> None:
    for name in ("a", "b"):
        stream.register(name, epsilon=0.2, config={"accept": {**TEST, "epsilon": 0.6}}, target=GOOD)
    day(stream, 0)
    assert [numbers(stream, f"taxi.{name}") for name in ("a", "b")] == [[1], []]
    assert "budget-denied" not in [code for _, code in stream.notices()]
    day(stream, 1)
    assert numbers(stream, "taxi.b") == [1]


def test_a_look_may_read_several_windows_with_one_draw_of_noise(stream: World) -> None:
    stream.register(epsilon=0.4, windows=(1, 4), config={"accept": {**TEST, "epsilon": 0.4}}, target=BAD)
    for number in range(3):
        day(stream, number)
    with stream.service.read() as uow:
        blocks = [
            one.blocks.edges
            for one in uow.ledger.journal(STREAM)
            if one.kind is EntryKind.RESERVE and one.key.startswith("train/")
        ]
    assert blocks[:2] == [(2, 3), (2, 3, 130, 131)]
    assert stream.service.verify_ledger(STREAM).faults == ()


def test_a_guided_ptk_begins_with_a_pair_of_its_own_menu(in_files: World) -> None:
    """The least epsilon of its grid with which one window of 1,600 train rows is expected to be enough."""
    stream = adaptive(in_files, scheduler_mode=Mode.GUIDED, rows_per_window=2_000)
    stream.register(estimator=counted(0.1), config=RANGE)
    day(stream, 0)
    assert looks(stream) == [(f"train/{PTK}/0", 332_495_159)]
    assert numbers(stream) == [1]


def test_a_ptk_that_was_registered_late_reads_a_window_that_is_kept(stream: World) -> None:
    day(stream, 0)
    stream.register(epsilon=0.1)
    stream.work(*CHAIN)
    assert (looks(stream), numbers(stream)) == ([(f"train/{PTK}/0", 100_000_000)], [1])


def test_a_new_block_is_divided_evenly_among_those_who_wait(stream: World) -> None:
    stream.register("speed", epsilon=0.1)
    stream.register("other", epsilon=0.3, target=0.1)
    stream.ingest(ROWS)
    stream.close(1)
    stream.work("prepare", "allocate")
    assert (allowed(stream), allowed(stream, "taxi.other")) == ({2: 500_000_000}, {2: 500_000_000})
    assert len(looks(stream)) == len(looks(stream, "taxi.other")) == 1


def test_what_an_accepted_ptk_leaves_goes_to_the_others(stream: World) -> None:
    stream.register("speed", epsilon=0.1)
    stream.register("other", epsilon=0.1, windows=(1, 2), config={"accept": TEST}, target=BAD)
    day(stream, 0)
    assert allowed(stream, "taxi.other") == {2: 900_000_000}


def test_a_ptk_that_may_have_no_more_leaves_what_it_has_to_others_and_its_owner_is_told_once(
    stream: World,
) -> None:
    """Half a block is too little for `large`, and `small` comes first: it has its one look on the first block."""
    small: dict[str, Any] = {"epsilon": 0.1, "config": {"accept": TEST}, "target": BAD}
    stream.register("small", **small)
    stream.register("large", epsilon=0.6)
    day(stream, 0)
    assert (len(looks(stream, "taxi.small")), numbers(stream, "taxi.large")) == (1, [1])
    assert allowed(stream, "taxi.small") == {}
    for number in (1, 2):
        day(stream, number)
    told = ("taxi.small validate of window 0", "more-than-it-may-have")
    assert stream.notices().count(told) == 1
    (row,) = [one for one in stream.service.queue(STREAM) if one.ptk_id == "taxi.small"]
    assert (row.waits_for, row.looks, row.allowances) == (Awaited.MORE_THAN_IT_MAY_HAVE, 1, ())
    stream.service.update_ptk("taxi.small", windows=(1, 2))
    day(stream, 3)
    assert [key for key, _ in looks(stream, "taxi.small")[1:3]] == [
        "train/taxi.small/2",
        "train/taxi.small/3",
    ]
    assert [code for _, code in stream.notices()].count("more-than-it-may-have") == 2
    assert stream.service.verify_ledger(STREAM).faults == ()


def test_nobody_is_told_of_a_look_that_is_under_way(stream: World) -> None:
    stream.register(epsilon=0.1, config={"accept": TEST}, target=BAD)
    stream.ingest(ROWS)
    stream.close(1)
    stream.work("prepare", "allocate", "schedule", "train")
    assert stream.notices() == []
    assert len(allowed(stream)) == 1


def test_a_withdrawn_ptk_gives_its_allowances_to_the_others(stream: World) -> None:
    stream.register("speed", epsilon=0.1)
    stream.register("other", epsilon=0.1)
    stream.ingest(ROWS)
    stream.close(1)
    stream.work("prepare", "allocate")
    stream.service.deregister_ptk("taxi.other")
    stream.work("schedule")
    assert allowed(stream) == {2: 1_000_000_000}
    assert allowed(stream, "taxi.other") == {}
    assert stream.train_block(0) == (100_000_000, 0)


def test_who_does_not_fit_beside_the_others_waits_and_is_not_refused(stream: World) -> None:
    """Three PTKs of .4 each do not fit one block of 1; under `allocate` the third would be refused."""
    for name in ("a", "b", "c"):
        stream.register(name, epsilon=0.4)
    day(stream, 0)
    served = [name for name in ("a", "b", "c") if numbers(stream, f"taxi.{name}")]
    assert served == ["a", "b"]
    assert stream.notices() == []
    day(stream, 1)
    assert numbers(stream, "taxi.c") == [1]


def test_a_window_that_expires_before_the_spend_gives_the_reservation_back(stream: World) -> None:
    stream.register(epsilon=0.1)
    stream.ingest(ROWS)
    stream.close(1)
    stream.work("prepare", "allocate")
    stream.service.close_windows(STREAM, ORIGIN + 6 * DAY, expire_unfinished=True)
    stream.work("expire")
    assert stream.job(f"train/{PTK}/0").outcome is Outcome.EXPIRED
    stream.work(*CHAIN)
    assert [key for key, _ in looks(stream)] == [f"train/{PTK}/0", f"train/{PTK}/5"]
    assert numbers(stream) == [1]


def test_a_released_reservation_is_its_ptks_again_on_the_windows_that_are_left(stream: World) -> None:
    """One window of two expires before the spend: nobody else is given what was reserved of the other one."""
    stream.register("a", epsilon=0.5, windows=(2, 2))
    stream.register("b", epsilon=0.5, windows=(4, 4))
    for number in range(2):
        stream.ingest([number + one for one in ROWS])
    stream.close(2)
    stream.work("prepare", "allocate", "schedule")
    assert stream.job(scheduler_of(STREAM)).state is JobState.IDLE  # the expiry alone wakes it
    assert [key for key, _ in looks(stream, "taxi.a")] == ["train/taxi.a/1"]
    stream.service.close_windows(STREAM, ORIGIN + 5 * DAY, expire_unfinished=True)
    stream.work("expire", "schedule")
    assert stream.job("train/taxi.a/1").outcome is Outcome.EXPIRED
    half = {130: 500_000_000}
    assert (allowed(stream, "taxi.a"), allowed(stream, "taxi.b")) == (half, half)


def test_a_training_that_fails_is_tried_again_on_a_new_window_alone(stream: World) -> None:
    stream.register(epsilon=0.1)
    stream.trainer.failing = RunFailed("out-of-memory")
    day(stream, 0)
    stream.work(*CHAIN)
    assert [key for key, _ in looks(stream)] == [f"train/{PTK}/0"]
    day(stream, 1)
    assert [key for key, _ in looks(stream)] == [f"train/{PTK}/0", f"train/{PTK}/1"]
    assert numbers(stream) == [1]


def test_a_training_that_ends_with_one_of_its_partials_wakes_the_scheduler(tmp_path: Path) -> None:
    world = adaptive(World(tmp_path / "home", rows_per_partial=200))
    world.register(epsilon=0.1)
    world.ingest(ROWS)
    world.close(1)
    world.work("prepare", "allocate", "schedule", "train")
    assert world.job(scheduler_of(STREAM)).state is JobState.IDLE
    world.trainer.failing = RunFailed("out-of-memory")
    world.work("partial")
    assert world.job(f"train/{PTK}/0").outcome is Outcome.FAILED
    assert world.job(scheduler_of(STREAM)).state is JobState.READY
    world.service.close()


def test_a_ptk_that_asks_for_something_else_waits_anew(stream: World) -> None:
    stream.register(config={**RANGE, "accept": TEST}, target=BAD)
    stream.ingest([i / 10_000 for i in range(10_000)])  # by chance a test of few rows fails
    day(stream, 0)
    stream.service.update_ptk(PTK, target=GOOD)
    stream.work(*CHAIN)
    assert looks(stream)[-1] == (f"train/{PTK}/0/4", 100_000_000)  # the least again
    assert numbers(stream) == [1]


def test_a_changed_description_is_no_reason_to_begin_anew(stream: World) -> None:
    stream.register(config={**RANGE, "accept": TEST}, target=BAD)
    day(stream, 0)
    stream.service.update_ptk(PTK, description="mean speed by hour")
    day(stream, 1)
    assert len(looks(stream)) == 3


def die() -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("step", ["claimed", "reserved"])
def test_a_worker_that_dies_while_it_schedules_leaves_one_reservation_and_one_training(
    stream: World, step: str
) -> None:
    stream.register(epsilon=0.1)
    stream.ingest(ROWS)
    stream.close(1)
    stream.work("prepare")
    stream.steps.at[step] = die
    with pytest.raises(KeyboardInterrupt):
        stream.work("allocate")
    stream.clock.pass_(minutes=2)
    stream.work(*CHAIN)
    assert (looks(stream), numbers(stream)) == ([(f"train/{PTK}/0", 100_000_000)], [1])
    assert stream.train_block(0) == (0, 100_000_000)


def test_the_filter_decides_and_a_denied_look_waits(stream: World) -> None:
    """A table of allowances that somebody forged lets nobody lose more than a block may."""
    stream.register(epsilon=0.9)
    day(stream, 0)
    with stream.service.begin() as uow:
        uow.waits.allow(STREAM, [Share("taxi.greedy", 2, 10**12, 0)])
        uow.commit()
    stream.register("greedy", epsilon=0.9)
    stream.work(*CHAIN)
    assert looks(stream, "taxi.greedy") == []
    assert stream.notices() == []
    day(stream, 1)
    assert numbers(stream, "taxi.greedy") == [1]


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"epsilon": 2.0}, "does not fit an empty block"),
        ({"config": {"pinned": {"rows": 10}}}, "pinned"),
        ({"estimator": counted(0.1), "config": RANGE, "target": 1e-4}, "is expected to|are expected to"),
    ],
)
def test_what_no_number_of_kept_windows_could_serve_is_refused(
    stream: World, more: dict[str, Any], reason: str
) -> None:
    with pytest.raises(PtkRejected, match=reason):
        stream.register(**more)
    with stream.service.read() as uow:
        assert (uow.ptks.find(stream=STREAM), uow.waits.of(STREAM)) == ((), {})


def test_a_test_that_no_test_block_can_pay_for_is_refused(stream: World) -> None:
    """The sets of PTKs that come in one step have a check of their own."""
    config = {"accept": {**TEST, "epsilon": 1.5}}
    reason = r"a verdict of epsilon 1\.5; beside 0 others it does not fit a test block"
    with pytest.raises(PtkRejected, match=reason):
        stream.register(config=config, target=GOOD)
    wanted = [
        WantedPtk(name, {"estimator": speed(0.1), "target": GOOD, "config": config}) for name in ("a", "b")
    ]
    with pytest.raises(PtkRejected, match=reason):
        stream.service.exchange_ptks(team="taxi", stream=STREAM, wanted=wanted, leaving=[])
    with stream.service.read() as uow:
        assert (uow.ptks.find(stream=STREAM), uow.waits.of(STREAM)) == ((), {})


@pytest.mark.parametrize(
    ("policy", "reason"),
    [
        ({"privacy_unit": PrivacyUnit.USER, "unit_column": "hour"}, "privacy unit 'user'"),
        ({"train_partitions": 2}, "one train partition"),
        ({"scheduler": Scheduler.ALLOCATE, "scheduler_mode": Mode.CONSERVE}, "scheduler_mode"),
    ],
)
def test_a_policy_that_does_not_go_with_its_scheduler_is_refused(
    in_files: World, policy: dict[str, Any], reason: str
) -> None:
    with pytest.raises(InvalidRequest, match=reason):
        in_files.stream(**{"scheduler": Scheduler.ADAPTIVE, **policy})


def test_streams_of_before_have_the_scheduler_that_they_had() -> None:
    fields = Policy.__dataclass_fields__
    assert (fields["scheduler"].default, fields["scheduler_mode"].default) == (
        Scheduler.ALLOCATE,
        Mode.GUIDED,
    )


def test_a_recovery_ends_a_look_with_one_window_in_doubt(
    stream: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream.register(epsilon=0.1, windows=(2, 2))
    day(stream, 0)
    stream.clock.pass_(hours=1)
    stream.ingest([1 + one for one in ROWS])
    stream.close(2)
    stream.work("prepare", "allocate", "schedule")
    training = stream.job(job_id(JobKind.TRAIN, PTK, 1))
    assert (training.state, training.oldest.index) == (JobState.READY, 0)
    # as if window 0 had been opened once more since the backup, and window 1 never
    monkeypatch.setattr(FileKeyStore, "in_doubt", lambda self, stream, journal: 1)
    assert stream.job(scheduler_of(STREAM)).state is JobState.IDLE
    stream.service.recover_ledger()
    assert stream.job(scheduler_of(STREAM)).state is JobState.READY
    assert stream.job(training.id).outcome is Outcome.WITHDRAWN
    with stream.service.read() as uow:
        (reserve, end) = uow.ledger.history(str(training.reservation))
    assert (reserve.kind, end.kind) == (EntryKind.RESERVE, EntryKind.RELEASE)


def refuse(monkeypatch: pytest.MonkeyPatch, kind: type[Any], when: Callable[[Any], bool]) -> None:
    """As if the library had been upgraded to one that states no loss any more for some."""
    stated = kind.declared_loss

    def declared_loss(self: Any) -> Any:
        if when(self):
            raise InvalidParameterError("refused since the upgrade")
        return stated(self)

    monkeypatch.setattr(kind, "declared_loss", declared_loss)


@pytest.mark.parametrize("scheduler", [Scheduler.ADAPTIVE, Scheduler.BUDGETING])
@pytest.mark.parametrize("what", ["test", "pair of its menu"])
def test_a_ptk_with_a_charge_that_the_library_refuses_keeps_nobody_else_waiting(
    in_files: World, monkeypatch: pytest.MonkeyPatch, scheduler: Scheduler, what: str
) -> None:
    bounds = {"least_significance": 0.1, "most_significance": 0.2}
    stream = adaptive(
        in_files,
        scheduler=scheduler,
        scheduler_mode=Mode.GUIDED,
        rows_per_window=2_000,
        **(bounds if scheduler is Scheduler.BUDGETING else {}),
    )
    if what == "test":
        stream.register("refused", epsilon=0.1, config={"accept": {**TEST, "reject_epsilon": 0.1}})
        refuse(monkeypatch, MinimumSums, lambda one: True)
    else:
        stream.register("refused", estimator=counted(0.1), config=RANGE)
        refuse(monkeypatch, CountFeaturizer, lambda one: 0.1 < one.epsilon < 0.39)
    stream.register("other", epsilon=0.1)
    day(stream, 0)
    assert [one.ptk_id for one in stream.service.queue(STREAM)] == []
    assert (looks(stream, "taxi.refused"), numbers(stream, "taxi.other")) == ([], [1])


@pytest.mark.parametrize("mode", [Mode.CONSERVE, Mode.AGGRESSIVE, "budgeting"], ids=str)
def test_a_ptk_whose_next_loss_the_library_refuses_keeps_nobody_else_waiting(
    in_files: World, monkeypatch: pytest.MonkeyPatch, mode: Mode | str
) -> None:
    """Both ends of its range and its menu are charged as ever, and nothing between them is."""
    if isinstance(mode, Mode):
        stream = adaptive(in_files, scheduler_mode=mode)
    else:
        bounds = {"least_significance": 0.1, "most_significance": 0.2}
        stream = adaptive(in_files, scheduler=Scheduler.BUDGETING, scheduler_mode=Mode.GUIDED, **bounds)
    known = grid_of((0.1, 0.9))
    config = {"epsilons": [0.1, 0.9], "accept": TEST}
    stream.register("refused", config=config, target=BAD, windows=(1, 2))
    stream.register("other", epsilon=0.1)
    refuse(monkeypatch, HistoricalStatistics, lambda one: min(abs(one.epsilon - e) for e in known) > 1e-6)
    for number in range(3):
        day(stream, number)
    assert numbers(stream, "taxi.other") == [1, 2, 3]
    assert {round(nano, -4) for _, nano in looks(stream, "taxi.refused")} <= {100_000_000, 900_000_000}
    assert [one.ptk_id for one in stream.service.queue(STREAM)] == ["taxi.refused"]
