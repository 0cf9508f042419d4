"""REJECT: a verdict that no model of a class meets the target gives a PTK up; it is paid beside the other look."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from ptklib import CountFeaturizer
from ptkstore.domain.accounting.accountants import Accountant
from ptkstore.domain.accounting.losses import Loss
from ptkstore.domain.jobs import JobKind, Outcome
from ptkstore.domain.ledger.journal import EntryKind
from ptkstore.domain.ptks.accept_deadlines import AcceptDeadline, GivenUp
from ptkstore.domain.scheduling.choices import Scheduler
from ptkstore.domain.streams.blocks import TEST as TEST_PART
from ptkstore.errors import Conflict, InvalidRequest
from ptkstore.ports.row_processes import RunFailed
from tests.support.catalog_faults import InFiles
from tests.support.several_windows import queue_training
from tests.support.world import CHAIN, STREAM, World, speed, trips

PTK = "taxi.speed"
ALL = (*CHAIN, "schedule", "validate", "flip")
VALIDATE = f"validate/{PTK}/0"
TEST = {"metric": "loss", "epsilon": 0.5, "reject_epsilon": 0.4}
FEW = {"metric": "loss", "epsilon": 0.2, "reject_epsilon": 0.4}
GOOD, OPEN, BAD = 0.9, 0.24, 0.05
"""Targets that the state surely meets, that nothing can be shown of, and that no model meets: the least loss is .25."""
N = 40_000
"""Rows of a window: so many that noise and sample decide otherwise less than once in 10**6 runs."""


def ingest(world: World, day: int) -> None:
    """Speeds that the hour tells nothing of."""
    days = [day + i / N for i in range(N)]
    speeds = pa.array([60.0 * (i // 24 % 2) for i in range(N)])
    world.service.ingest(STREAM, trips(days, speed=speeds))


def window(world: World, day: int = 0, *kinds: str) -> None:
    """One more window, up to its verdict."""
    ingest(world, day)
    world.close(day + 1)
    world.work(*(kinds or ALL))


def charged(world: World, number: int = 0) -> tuple[int, int]:
    block = next(b for b in world.service.budget(STREAM) if b.number == number * 128 + TEST_PART)
    return block.reserved.epsilon_nano, block.spent.epsilon_nano


def codes(world: World) -> list[str]:
    return [code for _, code in world.notices()]


def trained_windows(world: World) -> list[int]:
    with world.service.begin() as uow:
        runs = [job for job in uow.jobs.find(ptk_id=PTK) if job.kind is JobKind.TRAIN]
    return sorted(job.window.index for job in runs if job.outcome is not Outcome.WITHDRAWN)


def die() -> None:
    raise KeyboardInterrupt


def check_rejected(world: World) -> None:
    """One verdict, one charge, no version, and nothing that could become one."""
    (validation,) = world.service.validations(PTK)
    verdict = validation.verdict
    assert (validation.number, verdict["decision"], verdict["metric"]) == (0, "reject", "loss")
    assert 0.05 < verdict["bound"] < 0.25
    assert verdict["minimum"]["bound"] == verdict["bound"]
    assert (validation.epsilon, verdict["minimum"]["epsilon"]) == (0.5, 0.4)
    assert charged(world) == (0, 900_000_000)
    assert (world.service.versions(PTK), world.service.evaluations(PTK)) == ((), ())
    assert (world.service.lake.ptk_ids(), world.views.shown) == ((), {})
    assert world.service.keys.draft_ids() == ()
    assert world.service.ptk(PTK).waiting == AcceptDeadline(0, GivenUp.REJECT)
    assert world.notices() == [(f"{PTK} validate of window 0", "validation-reject")]
    assert world.service.verify_ledger(STREAM).faults == ()


def test_a_target_that_no_model_of_the_class_meets_gives_the_ptk_up(world: World) -> None:
    world.register(config={"accept": TEST}, target=BAD)
    window(world)
    check_rejected(world)
    assert world.job(VALIDATE).outcome is Outcome.DONE
    window(world, 1)
    assert trained_windows(world) == [0]
    assert world.train_block(1) == charged(world, 1) == (0, 0)
    assert codes(world) == ["validation-reject"]


@pytest.mark.parametrize("step", ["claimed", "spent", "opened", "validated", "verdict-kept"])
def test_a_worker_that_dies_at_any_step_leaves_one_verdict_one_charge_and_no_version(
    world: World, step: str
) -> None:
    world.register(config={"accept": TEST}, target=BAD)
    window(world, 0, *CHAIN)
    world.steps.at[step] = die
    with pytest.raises(KeyboardInterrupt):
        world.work("validate")
    world.clock.pass_(minutes=2)
    world.work(*ALL)
    world.service.destroy_refused_drafts()
    check_rejected(world)
    with world.service.begin() as uow:
        spent = [one.key for one in uow.ledger.journal(STREAM) if one.kind is EntryKind.SPEND]
    assert spent == [f"train/{PTK}/0", VALIDATE]


@pytest.mark.parametrize("done", [False, True], ids=["lost", "unheard"])
def test_a_verdict_whose_commit_nobody_heard_is_kept_once(
    in_files: World, monkeypatch: pytest.MonkeyPatch, done: bool
) -> None:
    in_files.stream()
    in_files.register(config={"accept": TEST}, target=BAD)
    window(in_files, 0, *CHAIN)
    in_files.steps.at["validated"] = lambda: InFiles(in_files, monkeypatch).unanswered(done)
    in_files.work("validate")
    assert in_files.steps.seen[-1] == "verdict-kept"  # and not taken for another worker's
    check_rejected(in_files)


@pytest.mark.parametrize("accountant", Accountant)
def test_a_state_that_passes_becomes_a_version_and_both_releases_are_paid(
    in_files: World, accountant: Accountant
) -> None:
    in_files.stream(accountant=accountant, capacity_delta=1e-6)
    in_files.register(config={"accept": TEST}, target=GOOD)
    window(in_files)
    (version,) = in_files.service.versions(PTK)
    (validation,) = in_files.service.validations(PTK)
    (estimate,) = in_files.service.evaluations(PTK)
    assert version.content["verdict"] == validation.verdict
    assert validation.verdict["minimum"].keys() == {"epsilon", "lost", "kept", "bound"}
    assert (estimate.epsilon, estimate.mass) == (0.5, validation.mass)
    (request,) = in_files.evaluator.requests
    assert (request.epsilon, request.reject_epsilon) == (0.5, Loss.charge(0.4).spendable_epsilon)
    with in_files.service.read() as uow:
        spent = [one for one in uow.ledger.journal(STREAM) if one.key == VALIDATE]
    assert {one.loss.epsilon_nano for one in spent} == {900_000_000}
    assert in_files.service.verify_ledger(STREAM).faults == ()
    assert in_files.service.ptk(PTK).waiting == AcceptDeadline(1)


def test_without_a_reject_epsilon_nothing_more_is_paid_or_asked(world: World) -> None:
    world.register(config={"accept": {"metric": "loss", "epsilon": 0.5}}, target=BAD)
    window(world)
    (validation,) = world.service.validations(PTK)
    assert validation.verdict["decision"] == "retry"
    assert "minimum" not in validation.verdict
    assert world.evaluator.requests[0].reject_epsilon is None
    assert charged(world) == (0, 500_000_000)
    assert world.service.ptk(PTK).waiting == AcceptDeadline(0)


def test_a_target_that_may_be_in_reach_is_retried(world: World) -> None:
    world.register(config={"accept": FEW}, target=OPEN)
    window(world)
    (validation,) = world.service.validations(PTK)
    assert validation.verdict["decision"] == "retry"
    assert validation.verdict["bound"] > OPEN >= validation.verdict["minimum"]["bound"]
    assert codes(world) == ["validation-retry"]
    window(world, 1)
    assert trained_windows(world) == [0, 1]


def test_a_later_look_rejects_with_less_confidence_to_spend(world: World) -> None:
    world.register(config={"accept": FEW}, target=OPEN)
    window(world)
    world.service.update_ptk(PTK, target=BAD)
    window(world, 1)
    first, second = (one.verdict for one in world.service.validations(PTK))
    assert (first["look"], second["look"], second["decision"]) == (1, 2, "reject")
    assert (first["failure"], second["failure"]) == pytest.approx((0.05 / 2, 0.05 / 6))


def test_what_its_reserved_trainings_hold_is_released(world: World) -> None:
    world.register(config={"accept": TEST}, target=BAD)
    for day in (0, 1):
        ingest(world, day)
    world.close(2)
    world.work("prepare", "allocate")
    assert world.train_block(1)[0] > 0
    world.work(*ALL)
    check_rejected(world)
    assert world.job(f"train/{PTK}/1").outcome is Outcome.WITHDRAWN
    assert world.train_block(1) == (0, 0)


def test_a_rejected_ptk_is_trained_again_once_it_is_another(world: World) -> None:
    world.register(config={"accept": FEW}, target=BAD)
    window(world)
    with pytest.raises(Conflict, match="change its target or estimator"):
        world.service.resume_ptk(PTK)
    world.service.update_ptk(PTK, target=GOOD)
    assert world.service.ptk(PTK).waiting == AcceptDeadline(1)
    window(world, 1)
    assert [(one.number, one.window_index) for one in world.service.versions(PTK)] == [(1, 1)]


@pytest.mark.parametrize("change", [{"target": GOOD}, {"estimator": speed(0.1, top=70.0)}])
def test_a_verdict_about_what_a_ptk_no_longer_is_does_not_give_it_up(
    world: World, change: dict[str, Any]
) -> None:
    world.register(config={"accept": FEW}, target=BAD)
    world.evaluator.meanwhile = lambda: world.service.update_ptk(PTK, **change)
    window(world)
    assert world.service.validations(PTK)[0].verdict["decision"] == "reject"
    assert world.service.ptk(PTK).waiting == AcceptDeadline(1)
    assert codes(world) == ["validation-reject"]
    assert world.service.versions(PTK) == ()


def test_a_run_that_fails_rejects_nothing(world: World) -> None:
    world.register(config={"accept": TEST}, target=BAD)
    world.evaluator.failing = RunFailed("memory-limit")
    window(world)
    assert world.service.validations(PTK) == ()
    assert world.service.ptk(PTK).waiting == AcceptDeadline(0)
    assert charged(world) == (0, 900_000_000)


def test_an_empty_test_set_rejects_nothing(world: World) -> None:
    world.register(config={"accept": TEST}, target=BAD)
    world.close(1)
    world.work(*ALL)
    (validation,) = world.service.validations(PTK)
    assert validation.verdict["decision"] == "retry"


def test_a_rejection_in_a_process_of_its_own(world: World) -> None:
    world.register(config={"accept": TEST}, target=BAD)
    del world.service.__dict__["evaluator"]
    window(world)
    check_rejected(world)


def test_a_rejection_frees_what_the_scheduler_held_for_the_ptk(in_files: World) -> None:
    in_files.stream(scheduler=Scheduler.ADAPTIVE, retention_windows=4, rows_per_window=N)
    hours = {"hour": [*range(24)]}
    other = CountFeaturizer(
        features=["hour"], label="long", classes=[False, True], domains=hours, epsilon=0.3
    )
    in_files.register(epsilon=0.1, config={"accept": TEST}, target=BAD)
    in_files.register("other", estimator=other.to_spec(), windows=(2, 2))
    window(in_files)
    check_rejected(in_files)
    assert [one.ptk_id for one in in_files.service.queue(STREAM)] == ["taxi.other"]
    with in_files.service.read() as uow:
        assert {one.ptk_id for one in uow.waits.allowed(STREAM)} == {"taxi.other"}
    window(in_files, 1)
    assert trained_windows(in_files) == [0]
    assert len(in_files.service.versions("taxi.other")) == 1


def test_a_ptk_without_confidence_is_given_up_and_trained_no_more(world: World) -> None:
    world.register(config={"accept": {"metric": "loss", "epsilon": 0.5}}, target=GOOD)
    window(world, 0, *CHAIN)
    with world.service.begin() as uow:
        uow.streams.advance(STREAM, replace(uow.streams.progress(STREAM), retired_before=2_000_000))
        uow.commit()
    world.work(*ALL)
    assert world.job(VALIDATE).outcome is Outcome.REFUSED
    assert world.service.ptk(PTK).waiting == AcceptDeadline(0, GivenUp.CONFIDENCE)
    assert codes(world) == ["validation-confidence-used-up", "confidence-used-up"]
    assert charged(world) == (0, 0)
    with pytest.raises(InvalidRequest, match="no confidence is left"):
        world.service.resume_ptk(PTK)
    assert world.service.ptk(PTK).waiting == AcceptDeadline(0, GivenUp.CONFIDENCE)
    assert not world.service.ptk(PTK).trains_on(1)


def test_a_ptk_of_an_older_program_without_confidence_is_given_up_too(world: World) -> None:
    """Nobody wrote down since when it waits."""
    world.register(config={"accept": {"metric": "loss", "epsilon": 0.5}}, target=GOOD)
    window(world, 0, *CHAIN)
    with world.service.begin() as uow:
        uow.ptks.wait(PTK, None)
        uow.streams.advance(STREAM, replace(uow.streams.progress(STREAM), retired_before=2_000_000))
        uow.commit()
    world.work(*ALL)
    assert world.job(VALIDATE).outcome is Outcome.REFUSED
    assert world.service.ptk(PTK).waiting == AcceptDeadline(0, GivenUp.CONFIDENCE)
    window(world, 1)
    assert trained_windows(world) == [0]


def test_the_training_of_a_later_look_on_a_window_says_that_it_was_rejected(world: World) -> None:
    world.register(config={"accept": {**TEST, "epsilon": 0.1}}, target=OPEN)
    window(world)
    world.service.update_ptk(PTK, target=BAD)
    queue_training(world, 0, n_rows=80, look=2)
    world.clock.pass_(hours=1)
    world.work("train", "validate")
    first, second = world.service.trainings(PTK)
    assert (first.code, second.code) == ("validation-retry", "validation-reject")
    assert second.ended_at not in (None, first.ended_at)
    assert world.notices()[-1] == (f"{PTK} validate of window 0, look 2", "validation-reject")
