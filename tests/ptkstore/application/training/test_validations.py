"""Validations: a trained state becomes a version once a paid test says so, and never reaches anybody before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from ptklib import CountFeaturizer
from ptklib.covariance import CovarianceMatrix
from ptkstore.domain.evaluations import RiskMass
from ptkstore.domain.jobs import JobKind, JobState, Outcome, job_of_window
from ptkstore.domain.ledger.journal import EntryKind
from ptkstore.domain.streams.windows import WindowId, WindowState
from ptkstore.errors import Conflict, InvalidRequest, LateWriter, PtkRejected, Unavailable
from ptkstore.ports.row_processes import RunFailed
from tests.support.cases import case
from tests.support.dying_process import FILE, KEY, Strike, die_at
from tests.support.validated import (
    ACCEPTED,
    ALL,
    BAD,
    GOOD,
    NOTHING,
    PTK,
    ROWS,
    TEST,
    TRAIN,
    VALIDATE,
    charged_for_tests,
    drafts,
    published,
    trained,
)
from tests.support.world import CHAIN, DAY, ORIGIN, STREAM, World
from workers.online_check import destroy_once


@pytest.fixture
def waiting(world: World) -> World:
    return trained(world)


def die() -> None:
    raise KeyboardInterrupt


def test_nobody_sees_a_state_that_waits_for_its_verdict(waiting: World) -> None:
    assert (waiting.job(TRAIN).state, waiting.job(TRAIN).outcome) == (JobState.ENDED, Outcome.DONE)
    assert waiting.job(VALIDATE).state is JobState.READY
    assert published(waiting) == NOTHING
    assert drafts(waiting) == (waiting.job(VALIDATE).draft_id,)


def test_a_training_whose_state_waits_for_its_verdict_says_so(waiting: World) -> None:
    """It said `done`, as if nothing was to come."""

    def told() -> list[tuple[str | None, int | None]]:
        return [(one.code, one.version) for one in waiting.service.trainings(PTK)]

    assert told() == [("waits-for-verdict", None)]
    waiting.work("validate")
    assert told() == [(None, 1)]
    trained(waiting, BAD, day=1).service.deregister_ptk(PTK)
    assert told() == [(None, 1), ("withdrawn", None)]


def test_a_state_that_passes_becomes_the_next_version(waiting: World) -> None:
    assert waiting.work("validate", "place", "flip") == [VALIDATE, f"place/{PTK}", f"flip/{PTK}"]
    (version,) = waiting.service.versions(PTK)
    (validation,) = waiting.service.validations(PTK)
    content = version.content
    assert (version.number, version.job_id, content["release_decision"]) == (1, TRAIN, "accepted")
    assert content["verdict"] == validation.verdict
    assert (validation.number, validation.look, validation.window_index) == (1, 1, 0)
    assert (waiting.job(VALIDATE).outcome, waiting.views.shown) == (Outcome.PUBLISHED, {PTK: 1})
    (estimate,) = waiting.service.evaluations(PTK)
    assert (estimate.number, estimate.mass) == (1, validation.mass)  # one release, two answers
    assert charged_for_tests(waiting) == (0, 900_000_000)
    assert drafts(waiting) == ()
    assert waiting.service.verify_ledger(STREAM).faults == ()


def test_a_state_that_does_not_pass_is_destroyed_and_its_owner_told(world: World) -> None:
    trained(world, BAD).work(*ALL)
    assert published(world) == NOTHING
    assert drafts(world) == world.service.keys.draft_ids() == ()
    (validation,) = world.service.validations(PTK)
    assert (validation.number, validation.verdict["decision"]) == (0, "retry")
    assert world.notices() == [(f"{PTK} validate of window 0", "validation-retry")]
    assert charged_for_tests(world) == (0, 900_000_000)  # looking costs, whatever is seen


def test_versions_have_no_gaps_and_looks_are_counted_until_one_passes(world: World) -> None:
    trained(world, BAD).work(*ALL)
    trained(world, day=1).work(*ALL)
    world.service.update_ptk(PTK, target=GOOD)
    for day in (2, 3):
        trained(world, day=day).work(*ALL)
    kept = [(one.window_index, one.look, one.number) for one in world.service.validations(PTK)]
    assert kept == [(0, 1, 0), (1, 2, 0), (2, 3, 1), (3, 1, 2)]
    assert [one.number for one in world.service.versions(PTK)] == [1, 2]


def test_a_later_look_needs_more(world: World) -> None:
    """Confidence is divided among the looks: what a first look accepts a later one may not (differences.md S4)."""
    trained(world, BAD).work(*ALL)
    trained(world, day=1).work(*ALL)
    bounds = [one.verdict["bound"] for one in world.service.validations(PTK)]
    masses = [one.mass for one in world.service.validations(PTK)]
    assert bounds[0] != bounds[1]
    assert masses[0] != masses[1]


def test_the_next_training_waits_for_the_verdict(waiting: World) -> None:
    waiting.ingest([1 + one for one in ROWS])
    waiting.close(2)
    waiting.work("prepare", "allocate")
    assert f"train/{PTK}/1" not in waiting.service.due()
    waiting.work("validate", "place")
    assert f"train/{PTK}/1" in waiting.service.due()


STEPS = ("claimed", "spent", "opened", "validated", "verdict-kept")


def one_of_each(world: World, target: float) -> None:
    """One verdict, one charge, and one version if it passed."""
    assert len(world.service.validations(PTK)) == 1
    assert len(world.service.versions(PTK)) == (target == GOOD)
    assert charged_for_tests(world) == (0, 900_000_000)
    with world.service.begin() as uow:
        spent = [one.key for one in uow.ledger.journal(STREAM) if one.kind is EntryKind.SPEND]
    assert spent == [TRAIN, VALIDATE]
    assert world.service.verify_ledger(STREAM).faults == ()


@pytest.mark.parametrize("target", [GOOD, BAD])
@pytest.mark.parametrize("step", STEPS)
def test_a_worker_that_dies_at_any_step_leaves_one_verdict_one_version_and_one_charge(
    world: World, step: str, target: float
) -> None:
    trained(world, target)
    world.steps.at[step] = die
    with pytest.raises(KeyboardInterrupt):
        world.work("validate")
    world.clock.pass_(minutes=2)
    world.work(*ALL)
    one_of_each(world, target)


@pytest.mark.long
@pytest.mark.parametrize(
    ("target", "strike"),
    [
        *((GOOD, Strike(step)) for step in STEPS),
        *((BAD, strike) for strike in (*map(Strike, STEPS), Strike(KEY), Strike(FILE))),
    ],
    ids=str,
)
def test_kill_9_at_any_step_leaves_one_verdict_one_version_and_one_charge(
    world: World, target: float, strike: Strike
) -> None:
    """Unlike an exception, a kill lets nothing be cleared away on the way out."""
    trained(world, target)
    die_at(strike, world, VALIDATE)
    world.clock.pass_(minutes=2)
    world.work(*ALL)
    one_of_each(world, target)
    destroy_once(world.service)
    assert drafts(world) == world.service.keys.draft_ids() == ()


def test_the_database_refuses_a_second_verdict(waiting: World) -> None:
    waiting.work("validate")
    (kept,) = waiting.service.validations(PTK)
    with pytest.raises(LateWriter), waiting.service.begin() as uow:
        uow.validations.add(replace(kept, look=2))


def test_a_validation_that_fails_keeps_the_spend_and_releases_nothing(waiting: World) -> None:
    waiting.evaluator.failing = RunFailed("memory-limit")
    waiting.work(*ALL)
    assert published(waiting) == NOTHING
    assert (waiting.service.validations(PTK), drafts(waiting)) == ((), ())
    assert waiting.notices() == [(f"{PTK} validate of window 0", "memory-limit")]
    assert charged_for_tests(waiting) == (0, 900_000_000)


def test_expiry_wins_over_a_validation(waiting: World) -> None:
    waiting.service.close_windows(STREAM, ORIGIN + 3 * DAY, expire_unfinished=True)
    waiting.work("expire")
    assert waiting.job(VALIDATE).outcome is Outcome.EXPIRED
    assert waiting.service.keys.draft_ids() == waiting.service.staging.drafts() == ()
    assert (f"{PTK} validate of window 0", "expired") in waiting.notices()
    assert charged_for_tests(waiting) == (0, 0)
    assert published(waiting) == NOTHING


def test_a_withdrawn_ptk_is_not_validated(waiting: World) -> None:
    waiting.service.deregister_ptk(PTK)
    assert waiting.job(VALIDATE).outcome is Outcome.WITHDRAWN
    assert waiting.work("validate") == []
    assert charged_for_tests(waiting) == (0, 0)
    assert published(waiting) == NOTHING


def test_staging_that_does_not_answer_costs_no_loss(waiting: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(*_: object) -> None:
        raise Unavailable("staging does not answer")

    monkeypatch.setattr(waiting.service.staging, "read", silent)
    with pytest.raises(Unavailable):
        waiting.work("validate")
    assert charged_for_tests(waiting) == (0, 0)


def test_a_worker_whose_lease_was_lost_keeps_nothing(waiting: World) -> None:
    kept: list[RiskMass] = []

    def take_over() -> None:
        waiting.clock.pass_(minutes=2)
        assert waiting.service.work_on(VALIDATE)
        kept.append(waiting.service.validations(PTK)[0].mass)

    waiting.steps.at["validated"] = take_over
    assert waiting.service.work_on(VALIDATE)
    assert [one.mass for one in waiting.service.validations(PTK)] == kept
    waiting.work("place")
    assert [one.number for one in waiting.service.versions(PTK)] == [1]


def test_a_validation_in_a_process_of_its_own(waiting: World) -> None:
    del waiting.service.__dict__["evaluator"]
    waiting.work(*ALL)
    assert [one.number for one in waiting.service.versions(PTK)] == [1]


def left_by_a_killed_worker(world: World) -> World:
    world.register("other")
    trained(world, BAD)
    world.ingest([1.5])
    world.close(2)
    world.steps.at["verdict-kept"] = die
    with pytest.raises(KeyboardInterrupt):
        world.work("validate")
    assert world.job(VALIDATE).draft_id in drafts(world)
    return world


def test_what_a_killed_worker_left_goes_at_the_next_check(world: World) -> None:
    left_by_a_killed_worker(world)
    world.work(*CHAIN)  # another one waits for its verdict
    waits = world.job(f"validate/{PTK}/1").draft_id
    destroy_once(world.service)
    assert drafts(world) == (waits,)
    assert world.service.destroy_refused_drafts() == 0


def test_what_nobody_destroyed_goes_when_the_next_window_expires(world: World) -> None:
    left_by_a_killed_worker(world)
    world.work(*CHAIN)
    (left,) = (one for one in drafts(world) if one.startswith("taxi.0."))
    assert left == world.job(VALIDATE).draft_id
    with world.service.begin() as uow:  # an older window than that of the draft
        uow.jobs.add(job_of_window(JobKind.EXPIRE, WindowId(STREAM, 1), world.clock.now()))
        uow.windows.set_state(WindowId(STREAM, 1), WindowState.EXPIRING)
        uow.commit()
    world.work("expire")
    assert left not in drafts(world)


@pytest.mark.parametrize("how", ["deregister", "exchange"])
def test_the_draft_of_a_withdrawn_ptk_is_destroyed_at_once(waiting: World, how: str) -> None:
    if how == "deregister":
        waiting.service.deregister_ptk(PTK)
    else:
        waiting.service.exchange_ptks(team="taxi", stream=STREAM, wanted=[], leaving=[PTK])
    assert waiting.service.keys.draft_ids() == waiting.service.staging.drafts() == ()


def test_a_ptk_is_withdrawn_while_staging_does_not_answer(
    waiting: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(*_: object) -> None:
        raise Unavailable("staging does not answer")

    with monkeypatch.context() as patch:
        patch.setattr(waiting.service.keys, "destroy_draft", silent)
        waiting.service.deregister_ptk(PTK)
        destroy_once(waiting.service)  # tells, and lives on
    assert waiting.job(VALIDATE).outcome is Outcome.WITHDRAWN
    assert waiting.service.keys.draft_ids() == (waiting.job(VALIDATE).draft_id,)
    destroy_once(waiting.service)
    assert waiting.service.keys.draft_ids() == waiting.service.staging.drafts() == ()


def test_a_draft_that_cannot_be_read_fails_and_holds_up_nobody(waiting: World) -> None:
    waiting.service.staging.delete(str(waiting.job(VALIDATE).draft_id))
    waiting.work("validate")
    assert waiting.job(VALIDATE).outcome is Outcome.FAILED
    assert waiting.notices() == [(f"{PTK} validate of window 0", "candidate-unreadable")]
    assert charged_for_tests(waiting) == (0, 0)
    assert waiting.service.keys.draft_ids() == ()
    waiting.ingest([1 + one for one in ROWS])
    waiting.close(2)
    waiting.work(*ALL)
    assert [one.window_index for one in waiting.service.versions(PTK)] == [1]


def test_a_rollback_waits_for_the_verdict(world: World) -> None:
    trained(world).work(*ALL)
    trained(world, day=1).work(*ALL)
    trained(world, day=2)
    with pytest.raises(Conflict, match="under way"):
        world.service.rollback_ptk(PTK, 1)
    world.work("validate", "place")
    assert world.service.rollback_ptk(PTK, 1) == 4


@pytest.mark.parametrize("change", [{"target": 0.8}, {"config": {"accept": {**TEST, "confidence": 0.9}}}])
def test_a_state_is_not_held_against_what_was_not_asked_of_it(waiting: World, change: dict[str, Any]) -> None:
    waiting.service.update_ptk(PTK, **change)
    waiting.work("validate")
    assert waiting.job(VALIDATE).outcome is Outcome.WITHDRAWN
    assert waiting.notices() == [(f"{PTK} validate of window 0", "changed-after-its-reservation")]
    assert (charged_for_tests(waiting), drafts(waiting)) == ((0, 0), ())
    assert published(waiting) == NOTHING


def test_a_test_that_is_asked_for_during_a_training_is_not_passed_by(world: World) -> None:
    world.register(target=GOOD)
    world.trainer.meanwhile = lambda: world.service.update_ptk(PTK, config=ACCEPTED)
    world.ingest(ROWS)
    world.close(1)
    world.work(*ALL)
    assert world.job(TRAIN).outcome is Outcome.WITHDRAWN
    assert published(world) == NOTHING
    assert world.notices() == [(f"{PTK} window 0", "changed-after-its-reservation")]


def test_a_state_whose_description_could_not_be_kept_is_trained_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = world.service.staging.write

    def silent(draft_id: str, files: Mapping[str, bytes], key: bytes) -> None:
        if "candidate.json" in files:
            raise Unavailable("staging takes no file")
        write(draft_id, files, key)

    with monkeypatch.context() as patch:
        patch.setattr(world.service.staging, "write", silent)
        with pytest.raises(Unavailable):
            trained(world)
    assert (drafts(world), world.service.keys.draft_ids()) == ((), ())
    world.clock.pass_(minutes=5)
    world.work(*ALL)
    assert [one.number for one in world.service.versions(PTK)] == [1]
    with world.service.begin() as uow:
        assert [one.kind for one in uow.ledger.history(TRAIN)] == [EntryKind.RESERVE, EntryKind.SPEND]


# registration


def test_what_cannot_be_accepted_is_refused(world: World) -> None:
    for accept in [
        0.1,
        {},
        {"metric": "loss"},
        {"metric": "beauty", "epsilon": 0.1},
        {"metric": "accuracy", "epsilon": 0.1},
        {"metric": "error", "epsilon": 0.1, "reject_epsilon": 0.1},
        {"metric": "loss", "epsilon": 0.1, "confidence": 0},
        {"metric": "loss", "epsilon": 0.1, "confidence": 1},
        {"metric": "loss", "epsilon": 0.1, "confidence": 1.5},
        {"metric": "loss", "epsilon": 0.1, "confidence": True},
        {"metric": "loss", "epsilon": 0.1, "confidence": "0.9"},
        {"metric": "loss", "epsilon": 0.1, "confidence": float("nan")},
        {"metric": "loss", "epsilon": 0},
        {"metric": "loss", "epsilon": 11},
        {"metric": "loss", "epsilon": 0.1, "delta": 1e-6},
        ["loss"],
    ]:
        with case(str(accept)), pytest.raises(InvalidRequest, match="accept"):
            world.register(config={"accept": accept})
    assert world.service.ptks() == ()


def test_a_target_that_no_loss_can_miss_is_refused(world: World) -> None:
    with pytest.raises(InvalidRequest, match="target must be between 0 and 1"):
        world.register(config=ACCEPTED, target=1.5)


def test_a_family_without_a_loss_of_rows_is_told_so(world: World) -> None:
    estimator = CovarianceMatrix(["speed"], bounds={"speed": (0, 60)}, epsilon=0.1, delta=1e-6)
    with pytest.raises(InvalidRequest, match="no loss of single rows"):
        world.register(estimator=estimator.to_spec(), config=ACCEPTED)


def test_accept_pays_for_the_estimate_too(world: World) -> None:
    with pytest.raises(InvalidRequest, match="accept pays for an estimate"):
        world.register(config={**ACCEPTED, "evaluate": {"epsilon": 0.1}})


def test_a_test_block_that_cannot_pay_for_all_refuses_the_last(world: World) -> None:
    world.register("a", config=ACCEPTED)
    with pytest.raises(PtkRejected, match=r"taxi\.b asks for a verdict of epsilon 0\.5; beside 1 others"):
        world.register("b", config={"accept": {"metric": "loss", "epsilon": 0.5}})
    world.register("b", config={"evaluate": {"epsilon": 0.1}})


# accuracy


def classes(epsilon: float = 0.1, **more: Any) -> dict[str, Any]:
    """Whether a trip is long, by hour; all trips of these tests are."""
    made = CountFeaturizer(
        label="long", classes=[False, True], domains={"hour": range(24)}, epsilon=epsilon, **more
    )
    spec: dict[str, Any] = made.to_spec()
    return spec


ACCURATE = {"accept": {**TEST, "metric": "accuracy"}}


@pytest.mark.parametrize(("target", "decision"), [(0.5, "accept"), (0.999999, "retry")])
def test_an_accuracy_is_validated_by_the_share_of_right_answers(
    world: World, target: float, decision: str
) -> None:
    world.register(estimator=classes(0.9), config=ACCURATE, target=target)
    world.ingest([one / 10_000 for one in range(10_000)])
    world.close(1)
    world.work(*ALL)
    (validation,) = world.service.validations(PTK)
    verdict = validation.verdict
    assert (verdict["metric"], verdict["decision"], verdict["target"]) == ("accuracy", decision, target)
    assert verdict["estimate"] > 0.9
    assert verdict["bound"] < verdict["estimate"]
    assert len(world.service.versions(PTK)) == (decision == "accept")
    assert world.service.evaluations(PTK) == ()  # those are of a loss; the verdict has the estimate
    assert [one.metric for one in world.evaluator.requests] == ["accuracy"]
    assert charged_for_tests(world) == (0, 900_000_000)


def test_a_target_that_is_an_accuracy_is_no_loss_to_plan_with(world: World) -> None:
    for more in ({"epsilons": [0.1, 0.5]}, {"epsilons": [0.1, 0.5], "profile": {"epsilon": 0.1}}):
        with case(str(more)), pytest.raises(InvalidRequest, match="its target is an accuracy"):
            world.register(estimator=classes(), config={**ACCURATE, **more}, target=0.9)
    with pytest.raises(InvalidRequest, match="predicts no class"):
        world.register(config=ACCURATE)
    with pytest.raises(InvalidRequest, match=r"accuracy must be in \(0, 1\)"):
        world.register(estimator=classes(), config=ACCURATE, target=1)
    assert world.service.ptks() == ()
