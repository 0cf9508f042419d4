"""Models that devices train go live only once a labelled stream, whose test blocks pay, shows that they are good."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ptkstore.adapters.processes import ForgetfulRedisServer
from ptkstore.application.ptks.earlier_looks import earlier_looks
from ptkstore.domain.jobs import JobState, Outcome
from ptkstore.domain.ptks.wanted import WantedPtk
from ptkstore.domain.scheduling.choices import Scheduler
from ptkstore.domain.streams.policies import Closing, PrivacyUnit
from ptkstore.domain.streams.schemas import ColumnType, Schema
from ptkstore.domain.streams.windows import WindowState
from ptkstore.errors import Conflict, InvalidRequest, PtkRejected, Unavailable, UnknownName
from tests.support.device_streams import (
    AVERAGING,
    LABELLED,
    PHONES,
    PTK,
    SCHEMA,
    DeviceWorld,
    device_table,
    phishy,
)
from tests.support.dying_process import FILE, KEY, Strike, die_at
from tests.support.validated import BAD, GOOD
from tests.support.world import DAY, ORIGIN

TEST = {"metric": "loss", "epsilon": 0.9, "stream": LABELLED}
ACCEPTED = {"accept": TEST}
AVERAGE, VALIDATE = f"average/{PTK}/0", f"validate/{PTK}/0"


@pytest.fixture
def world(tmp_path: Path, devices_redis: ForgetfulRedisServer) -> Iterator[DeviceWorld]:
    made = DeviceWorld(tmp_path / "home", devices_redis, 11)
    made.phones()
    made.labelled()
    yield made
    made.service.close()


def averaged(world: DeviceWorld, target: float = GOOD, window: int = 0, **accept: Any) -> DeviceWorld:
    """An average that waits for its verdict."""
    if window == 0:
        world.register_phishy(target=target, config={"accept": {**TEST, **accept}})
    world.label(window)
    world.report([device_table()] * 5)
    world.close_phones(window + 1)
    world.work(*AVERAGING)
    return world


def charged_for_tests(world: DeviceWorld, window: int = 0) -> tuple[int, int]:
    """What the test block of a labelled window has reserved and spent, in nano-epsilon."""
    block = next(b for b in world.service.budget(LABELLED) if b.number == window * 128 + 1)
    return block.reserved.epsilon_nano, block.spent.epsilon_nano


def told(world: DeviceWorld) -> list[tuple[str | None, int | None]]:
    return [(one.code, one.version) for one in world.service.trainings(PTK)]


def test_nobody_sees_an_average_that_waits_for_its_verdict(world: DeviceWorld) -> None:
    averaged(world)
    job = world.job(VALIDATE)
    assert (world.job(AVERAGE).outcome, job.state, job.stream) == (Outcome.DONE, JobState.READY, LABELLED)
    assert (world.service.versions(PTK), world.views.shown) == ((), {})
    assert tuple(world.drafts()) == (job.draft_id,)
    assert charged_for_tests(world) == (0, 0)
    assert told(world) == [("waits-for-verdict", None)]


def test_an_average_that_passes_becomes_a_version_which_says_who_paid_for_the_test(
    world: DeviceWorld,
) -> None:
    averaged(world)
    world.work("validate", *AVERAGING)
    (version,), (validation,) = world.service.versions(PTK), world.service.validations(PTK)
    content = version.content
    assert (version.number, version.job_id, version.window_index) == (1, AVERAGE, 0)
    assert (content["release_decision"], content["blocks"], content["stream"]) == ("accepted", [], PHONES)
    assert content["guarantee"]["model"] == "local"
    assert content["verdict"] == validation.verdict
    assert (content["verdict"]["stream"], content["verdict"]["windows"]) == (LABELLED, [0])
    assert charged_for_tests(world) == (0, 900_000_000)
    assert world.service.verify_ledger(LABELLED).faults == ()
    assert (world.views.shown, world.drafts(), world.notices()) == ({PTK: 1}, [], [])
    assert told(world) == [(None, 1)]


def test_the_numbers_of_windows_are_those_of_each_stream(world: DeviceWorld) -> None:
    """The labelled stream is at its third window when the devices' first one closes."""
    world.register_phishy(target=GOOD, config=ACCEPTED)
    for day in range(3):
        world.label(day)
    world.close_phones(1)
    world.work("validate", *AVERAGING)
    (version,), (validation,) = world.service.versions(PTK), world.service.validations(PTK)
    assert (version.window_index, version.job_id) == (0, AVERAGE)
    assert (validation.window_index, version.content["verdict"]["windows"]) == (2, [2])
    assert world.service.ptk(PTK).waiting.since == 1  # type: ignore[union-attr]


def test_an_average_that_does_not_pass_is_destroyed_and_the_next_one_is_looked_at_again(
    world: DeviceWorld,
) -> None:
    averaged(world, BAD).work("validate")
    assert (world.service.versions(PTK), world.drafts()) == ((), [])
    assert world.notices() == [(f"{PTK} validate of window 0", "validation-retry")]
    assert told(world) == [("validation-retry", None)]
    world.service.update_ptk(PTK, target=GOOD)
    averaged(world, window=1).work("validate", *AVERAGING)
    assert [(one.window_index, one.look, one.number) for one in world.service.validations(PTK)] == [
        (0, 1, 0),
        (1, 2, 1),
    ]
    assert [one.window_index for one in world.service.versions(PTK)] == [1]


def test_a_labelled_window_tests_one_average_of_a_ptk(world: DeviceWorld) -> None:
    averaged(world, BAD).work("validate")
    world.close_phones(2)
    world.work("validate", *AVERAGING)
    assert world.job(f"average/{PTK}/1").outcome is Outcome.DONE
    assert told(world) == [("validation-retry", None), ("no-new-test-rows", None)]
    assert charged_for_tests(world) == (0, 900_000_000)
    assert world.drafts() == []


def test_an_average_waits_for_no_verdict_and_takes_no_second_one(world: DeviceWorld) -> None:
    averaged(world)
    world.label(1)
    world.close_phones(2)
    world.work(*AVERAGING)
    assert told(world) == [("waits-for-verdict", None), ("no-new-test-rows", None)]
    world.work("validate", *AVERAGING)
    assert told(world) == [(None, 1), ("no-new-test-rows", None)]


def test_an_owner_whose_labelled_stream_keeps_no_window_is_told(world: DeviceWorld) -> None:
    world.register_phishy(target=GOOD, config=ACCEPTED)
    world.close_phones(1)
    world.work("validate", *AVERAGING)
    assert world.notices() == [(f"{PTK} average of window 0", "no-test-rows")]
    assert told(world) == [("no-test-rows", None)]


def test_windows_of_a_labelled_stream_are_prepared_though_nothing_is_trained_there(
    world: DeviceWorld,
) -> None:
    world.labelled("clocked", closing=Closing.CLOCK)
    assert world.service.streams()
    world.register_phishy(target=GOOD, config={"accept": {**TEST, "stream": "clocked"}})
    world.service.close_windows("clocked", ORIGIN + DAY)
    assert "prepare/clocked/0" in world.service.due()


@pytest.mark.parametrize("step", ["averaged", "average-staged", "average-elected"])
@pytest.mark.parametrize("target", [GOOD, BAD])
def test_kill_9_at_any_step_leaves_one_verdict_and_one_charge(
    world: DeviceWorld, step: str, target: float
) -> None:
    world.register_phishy(target=target, config=ACCEPTED)
    world.label(0)
    world.report([device_table()] * 5)
    world.close_phones(1)
    die_at(Strike(step), world, AVERAGE)
    world.clock.pass_(minutes=2)
    world.work("validate", *AVERAGING)
    assert [(one.look, one.number) for one in world.service.validations(PTK)] == [(1, int(target == GOOD))]
    assert len(world.service.versions(PTK)) == (target == GOOD)
    assert charged_for_tests(world) == (0, 900_000_000)
    assert world.drafts() == []


@pytest.mark.long
@pytest.mark.parametrize(
    "strike", [*map(Strike, ("spent", "validated", "verdict-kept")), Strike(KEY), Strike(FILE)], ids=str
)
def test_kill_9_of_its_validation_leaves_one_verdict_and_no_draft(world: DeviceWorld, strike: Strike) -> None:
    averaged(world, BAD)
    die_at(strike, world, VALIDATE)
    world.clock.pass_(minutes=2)
    world.work("validate", *AVERAGING)
    world.service.destroy_refused_drafts()
    assert world.service.keys.draft_ids() == ()
    world.service.close_windows(LABELLED, ORIGIN + 5 * DAY, expire_unfinished=True)
    world.work("expire")  # files without a key
    assert len(world.service.validations(PTK)) == 1
    assert charged_for_tests(world) == (0, 900_000_000)
    assert world.drafts() == []


def test_the_expiry_of_the_labelled_window_wins(world: DeviceWorld) -> None:
    averaged(world)
    world.service.close_windows(LABELLED, ORIGIN + 5 * DAY, expire_unfinished=True)
    world.work("expire")
    assert world.job(VALIDATE).outcome is Outcome.EXPIRED
    assert world.notices() == [(f"{PTK} validate of window 0", "expired")]
    assert (world.drafts(), world.service.keys.draft_ids()) == ([], ())
    assert world.state(0, LABELLED) is WindowState.EXPIRED
    assert told(world) == [("expired", None)]


def test_an_accepted_version_outlives_the_window_that_tested_it(world: DeviceWorld) -> None:
    averaged(world).work("validate")
    assert [one.number for one in world.service.validations(PTK)] == [1]  # and it is not in the lake yet
    world.service.close_windows(LABELLED, ORIGIN + 5 * DAY, expire_unfinished=True)
    world.work("expire")
    world.work(*AVERAGING)
    assert world.views.shown == {PTK: 1}


def test_a_withdrawn_ptk_is_not_tested(world: DeviceWorld) -> None:
    averaged(world)
    world.service.deregister_ptk(PTK)
    assert world.job(VALIDATE).outcome is Outcome.WITHDRAWN
    assert (world.drafts(), charged_for_tests(world)) == ([], (0, 0))


@pytest.mark.parametrize(
    "change",
    [
        {"target": 0.8},
        {"config": {"accept": {**TEST, "confidence": 0.9}}},
        {"config": {}},
    ],
    ids=["target", "confidence", "no test"],
)
def test_an_average_is_not_held_against_what_was_not_asked_of_it(
    world: DeviceWorld, change: dict[str, Any]
) -> None:
    world.labelled("others")
    averaged(world)
    world.service.update_ptk(PTK, **change)
    world.work("validate")
    assert world.job(VALIDATE).outcome is Outcome.WITHDRAWN
    assert (world.service.versions(PTK), world.drafts(), charged_for_tests(world)) == ((), [], (0, 0))


def test_an_average_that_was_to_pass_no_test_is_made_anew(world: DeviceWorld) -> None:
    world.register_phishy()
    world.label(0)
    world.close_phones(1)
    world.steps.at["average-staged"] = lambda: world.service.update_ptk(PTK, target=BAD, config=ACCEPTED)
    with pytest.raises(Unavailable):
        world.service.work_on(AVERAGE)
    assert world.service.versions(PTK) == ()
    world.clock.pass_(minutes=2)
    world.work("validate", *AVERAGING)
    assert (world.service.versions(PTK), len(world.service.validations(PTK))) == ((), 1)


# Giving up


def test_a_ptk_without_an_accepted_version_for_its_timeout_is_given_up_and_devices_get_no_tickets(
    world: DeviceWorld,
) -> None:
    averaged(world, BAD, timeout="2d").work("validate")
    assert not world.service.ptk(PTK).has_given_up
    averaged(world, window=1).work("validate")
    assert (f"{PTK} validate of window 1", "validation-timeout") in world.notices()
    assert world.service.ptk(PTK).has_given_up
    with pytest.raises(Conflict, match="ptk resume"):
        world.service.issue_tickets(PHONES, PTK, 1)
    world.close_phones(3)
    assert world.service.due() == ()
    assert world.service.resume_ptk(PTK) == 3
    assert len(world.service.issue_tickets(PHONES, PTK, 1).tickets) == 1


def test_without_labelled_rows_it_is_given_up_as_well(world: DeviceWorld) -> None:
    world.register_phishy(target=GOOD, config={"accept": {**TEST, "timeout": "2d"}})
    world.close_phones(3)
    world.work("validate", *AVERAGING)
    assert [code for _, code in world.notices()] == ["no-test-rows"] * 2 + ["validation-timeout"]
    assert world.job(f"average/{PTK}/2").outcome is Outcome.WITHDRAWN


def test_a_timeout_may_be_longer_than_a_stream_on_devices_keeps_anything(world: DeviceWorld) -> None:
    world.register_phishy(target=GOOD, config={"accept": {**TEST, "timeout": "300d"}})
    with pytest.raises(InvalidRequest, match="shorter than the time between two trainings"):
        world.register_phishy("hasty", target=GOOD, config={"accept": {**TEST, "timeout": "1h"}})


# What is refused


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({"accept": {"metric": "loss", "epsilon": 0.1}}, "names a stream with labelled rows"),
        ({"accept": {**TEST, "stream": PHONES}}, "stay on devices"),
        ({"accept": {**TEST, "stream": "waits"}}, "promises no room"),
        ({"accept": {**TEST, "stream": "people"}}, "of another privacy unit"),
        ({"accept": {**TEST, "stream": "narrow"}}, "reads column 'kind'"),
        ({"accept": {**TEST, "stream": "no such"}}, "stream name"),
        ({"accept": {**TEST, "reject_epsilon": 0.1}}, "least losses|exact"),
        ({"accept": {**TEST, "metric": "error"}}, "error"),
        ({"accept": TEST, "evaluate": {"epsilon": 0.1}}, "leave evaluate out"),
    ],
    ids=["none", "devices", "waits", "people", "narrow", "no name", "reject", "error", "evaluate"],
)
def test_labelled_streams_that_cannot_pay(world: DeviceWorld, said: dict[str, Any], reason: str) -> None:
    world.labelled("waits", scheduler=Scheduler.ADAPTIVE)
    world.labelled("people", privacy_unit=PrivacyUnit.USER, unit_column="kind", max_rows_per_unit=3)
    columns = tuple(one for one in SCHEMA.columns if one[0] != "kind")
    world.labelled("narrow", schema=Schema(columns, "at"))
    with pytest.raises(InvalidRequest, match=reason):
        world.register_phishy(target=GOOD, config=said)
    assert world.service.ptks() == ()


def test_a_stream_that_is_not_there_and_a_target_that_is_missing(world: DeviceWorld) -> None:
    with pytest.raises(UnknownName, match="nowhere"):
        world.register_phishy(target=GOOD, config={"accept": {**TEST, "stream": "nowhere"}})
    with pytest.raises(InvalidRequest, match="needs a target"):
        world.register_phishy(config=ACCEPTED)
    with pytest.raises(InvalidRequest, match="leave target out"):
        world.register_phishy(target=GOOD)


def test_a_central_ptk_is_tested_on_its_own_stream(world: DeviceWorld) -> None:
    world.stream()
    with pytest.raises(InvalidRequest, match="leave stream out"):
        world.register(target=GOOD, config=ACCEPTED)


def test_accuracy_is_asked_for_alike(world: DeviceWorld) -> None:
    averaged(world, 0.01, metric="accuracy").work("validate", *AVERAGING)
    assert [one.verdict["metric"] for one in world.service.validations(PTK)] == ["accuracy"]


# Room


def test_test_blocks_promise_room_to_ptks_of_both_streams(world: DeviceWorld) -> None:
    world.register_phishy(target=GOOD, config=ACCEPTED)
    with pytest.raises(PtkRejected, match=r"a verdict of epsilon 0\.9; beside 1 others"):
        world.register_phishy("again", target=GOOD, config=ACCEPTED)
    counts = {
        "family": "HistoricalStatistics",
        "params": {"domains": {"kind": ["mail"]}, "statistics": "count", "epsilon": 0.05},
    }
    central = {"target": 0.5, "train_frequency": "1d", "estimator": counts}
    with pytest.raises(PtkRejected, match="beside 1 others"):
        world.service.register_ptk(
            team="taxi", name="counts", stream=LABELLED, **central, config={"evaluate": {"epsilon": 0.2}}
        )
    wanted = [WantedPtk("counts", {**central, "config": {"evaluate": {"epsilon": 0.2}}})]
    with pytest.raises(PtkRejected, match="beside 1 others"):
        world.service.exchange_ptks(team="taxi", stream=LABELLED, wanted=wanted)
    world.service.deregister_ptk(PTK)
    world.service.exchange_ptks(team="taxi", stream=LABELLED, wanted=wanted)


def test_an_exchange_counts_all_that_it_brings(world: DeviceWorld) -> None:
    said = {"train_frequency": "1d", "estimator": phishy(), "target": GOOD}
    half = {**said, "config": {"accept": {**TEST, "epsilon": 0.5}}}
    both = [WantedPtk(name, half) for name in ("one", "two")]
    admitted = world.service.admit_ptks(team="taxi", stream=PHONES, wanted=[*both, WantedPtk("three", half)])
    assert list(admitted.refusals) == ["taxi.three"]
    world.service.exchange_ptks(team="taxi", stream=PHONES, wanted=both)
    whole = WantedPtk("whole", {**said, "config": ACCEPTED})
    with pytest.raises(PtkRejected):
        world.service.exchange_ptks(team="taxi", stream=PHONES, wanted=[whole], leaving=["taxi.one"])
    world.service.exchange_ptks(team="taxi", stream=PHONES, wanted=[whole], leaving=["taxi.one", "taxi.two"])
    smaller = [WantedPtk("first", half), WantedPtk("whole", half)]  # in whatever order they are declared
    assert world.service.admit_ptks(team="taxi", stream=PHONES, wanted=smaller).at_once
    world.service.exchange_ptks(team="taxi", stream=PHONES, wanted=smaller)


def test_a_test_block_without_room_refuses_the_average(world: DeviceWorld) -> None:
    averaged(world)
    with world.service.begin() as uow:
        uow.ledger.retire(LABELLED, [1])
        uow.commit()
    world.work("validate", *AVERAGING)
    assert world.notices() == [(f"{PTK} validate of window 0", "validation-denied")]
    assert (world.service.versions(PTK), world.drafts(), charged_for_tests(world)) == ((), [], (0, 0))


def test_a_recovery_of_the_labelled_stream_counts_its_windows_in_doubt_as_looks(world: DeviceWorld) -> None:
    averaged(world, BAD).work("validate")
    world.label(1)
    world.label(2)

    def looks(in_doubt: int) -> int:
        with world.service.begin() as uow:
            progress = uow.streams.progress(LABELLED)
            uow.streams.advance(LABELLED, replace(progress, retired_before=in_doubt))
            return earlier_looks(uow, uow.ptks.get(PTK)).number

    assert [looks(n) for n in (0, 1, 2, 3)] == [1, 1, 2, 3]
    world.service.update_ptk(PTK, target=GOOD)
    averaged(world, window=3).work("validate", "average", "place")
    assert [one.content["verdict"]["windows"] for one in world.service.versions(PTK)] == [[3]]
    assert [looks(n) for n in (0, 3, 4, 5)] == [0, 0, 0, 1]  # from the window on that accepted


def test_a_ptk_keeps_the_stream_where_its_looks_count(world: DeviceWorld) -> None:
    world.labelled("others")
    world.register_phishy(target=GOOD, config=ACCEPTED)
    other: dict[str, Any] = {"target": GOOD, "config": {"accept": {**TEST, "stream": "others"}}}
    with pytest.raises(InvalidRequest, match="tested on stream 'labelled'"):
        world.service.update_ptk(PTK, **other)
    world.service.update_ptk(PTK, config={})
    with pytest.raises(InvalidRequest, match="tested on stream 'labelled'"):
        world.service.update_ptk(PTK, **other)
    world.service.deregister_ptk(PTK)
    with pytest.raises(InvalidRequest, match="tested on stream 'labelled'"):
        world.register_phishy(**other)
    world.register_phishy("fresh", **other)


def test_no_older_average_is_published_over_a_newer_one(world: DeviceWorld) -> None:
    """Its verdict was under way when its PTK asked for none any more."""
    averaged(world)
    world.evaluator.meanwhile = lambda: later(world)
    world.work("validate", *AVERAGING)
    assert told(world) == [(None, 1), (None, None)]
    world.clock.pass_(minutes=2)
    world.work("validate", *AVERAGING)
    assert [one.window_index for one in world.service.versions(PTK)] == [0, 1]


def later(world: DeviceWorld) -> None:
    world.service.update_ptk(PTK, config={})
    world.close_phones(2)
    with pytest.raises(Unavailable, match="waits for its verdict"):
        world.service.work_on(f"average/{PTK}/1")


def test_windows_from_before_a_column_test_nothing(world: DeviceWorld) -> None:
    columns = tuple(one for one in SCHEMA.columns if one[0] != "kind")
    world.labelled("grows", schema=Schema(columns, "at"))
    world.service.close_windows("grows", ORIGIN + DAY)
    world.work("prepare", "allocate")
    world.service.evolve_stream("grows", "kind", ColumnType.STRING, "mail")
    world.register_phishy(target=GOOD, config={"accept": {**TEST, "stream": "grows"}})
    world.close_phones(1)
    world.work("validate", *AVERAGING)
    assert told(world) == [("no-test-rows", None)]
    world.service.close_windows("grows", ORIGIN + 2 * DAY)
    world.work("prepare", "allocate")
    world.close_phones(2)
    world.work("validate", *AVERAGING)
    assert told(world) == [("no-test-rows", None), ("validation-retry", None)]  # it has no row
