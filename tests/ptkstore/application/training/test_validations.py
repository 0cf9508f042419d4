"""Validations: a trained state becomes a version once a paid test says so, and never reaches anybody before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ptklib import CountFeaturizer
from ptklib.covariance import CovarianceMatrix
from ptkstore.application.planning.evaluation_plans import most_estimates
from ptkstore.application.ptks.earlier_looks import earlier_looks
from ptkstore.domain.evaluations import RiskMass
from ptkstore.domain.jobs import JobKind, JobState, Outcome, job_of_window
from ptkstore.domain.ledger.journal import EntryKind
from ptkstore.domain.ptks.wanted import WantedPtk
from ptkstore.domain.scheduling.choices import Scheduler
from ptkstore.domain.streams.blocks import TEST as TEST_PART
from ptkstore.domain.streams.windows import WindowId, WindowState
from ptkstore.domain.validations import EarlierLooks
from ptkstore.errors import CatalogBehind, Conflict, InvalidRequest, LateWriter, PtkRejected, Unavailable
from ptkstore.ports.row_processes import RunFailed
from tests.support.cases import case
from tests.support.world import CHAIN, DAY, ORIGIN, STREAM, World, speed
from workers.online_check import destroy_once

PTK = "taxi.speed"
ALL = (*CHAIN, "validate", "flip")
TRAIN, VALIDATE = f"train/{PTK}/0", f"validate/{PTK}/0"
TEST = {"metric": "loss", "epsilon": 0.9}
ACCEPTED = {"accept": TEST}
CHEAP = {"accept": {**TEST, "epsilon": 0.05}}
ROWS = [i / 1_000 for i in range(1_000)]
GOOD, BAD = 0.9, 1e-9
"""Targets that the state surely meets, and surely cannot be shown to meet."""


def trained(world: World, target: float = GOOD, day: int = 0) -> World:
    """A state that waits for its verdict."""
    if day == 0:
        world.register(config=ACCEPTED, target=target)
    world.ingest([day + one for one in ROWS])
    world.close(day + 1)
    world.work(*CHAIN)
    return world


@pytest.fixture
def waiting(world: World) -> World:
    return trained(world)


def drafts(world: World) -> tuple[str, ...]:
    """Drafts that can be read: of which there are a key and files."""
    keys = set(world.service.keys.draft_ids())
    return tuple(one for one in world.service.staging.drafts() if one in keys)


def charged_for_tests(world: World, window: int = 0) -> tuple[int, int]:
    block = next(b for b in world.service.budget(STREAM) if b.number == window * 128 + TEST_PART)
    return block.reserved.epsilon_nano, block.spent.epsilon_nano


def published(world: World) -> dict[str, Any]:
    """Everything that a consumer could have seen."""
    return {
        "versions": world.service.versions(PTK),
        "lake": world.service.lake.ptk_ids(),
        "shown": world.views.shown,
        "evaluations": world.service.evaluations(PTK),
    }


NOTHING = {"versions": (), "lake": (), "shown": {}, "evaluations": ()}


def die() -> None:
    raise KeyboardInterrupt


def test_nobody_sees_a_state_that_waits_for_its_verdict(waiting: World) -> None:
    assert (waiting.job(TRAIN).state, waiting.job(TRAIN).outcome) == (JobState.ENDED, Outcome.DONE)
    assert waiting.job(VALIDATE).state is JobState.READY
    assert published(waiting) == NOTHING
    assert drafts(waiting) == (waiting.job(VALIDATE).draft_id,)


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


@pytest.mark.parametrize("target", [GOOD, BAD])
@pytest.mark.parametrize("step", ["claimed", "spent", "opened", "validated", "verdict-kept"])
def test_a_worker_that_dies_at_any_step_leaves_one_verdict_one_version_and_one_charge(
    world: World, step: str, target: float
) -> None:
    trained(world, target)
    world.steps.at[step] = die
    with pytest.raises(KeyboardInterrupt):
        world.work("validate")
    world.clock.pass_(minutes=2)
    world.work(*ALL)
    assert len(world.service.validations(PTK)) == 1
    assert len(world.service.versions(PTK)) == (target == GOOD)
    assert charged_for_tests(world) == (0, 900_000_000)
    with world.service.begin() as uow:
        spent = [one.key for one in uow.ledger.journal(STREAM) if one.kind is EntryKind.SPEND]
    assert spent == [TRAIN, VALIDATE]
    assert world.service.verify_ledger(STREAM).faults == ()


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
    with pytest.raises(InvalidRequest, match="target must lie between 0 and 1"):
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
    with pytest.raises(InvalidRequest, match=r"accuracy must lie in \(0, 1\)"):
        world.register(estimator=classes(), config=ACCURATE, target=1)
    assert world.service.ptks() == ()


# confidence


def failures(world: World) -> list[float]:
    return [one.failure for one in world.service.validations(PTK)]


def test_looks_of_one_confidence_are_divided_as_ever(world: World) -> None:
    for day in range(3):
        trained(world, BAD, day).work(*ALL)
    assert failures(world) == pytest.approx([0.05 / 2, 0.05 / 6, 0.05 / 12])
    assert [one.verdict["failure"] for one in world.service.validations(PTK)] == failures(world)


def test_looks_of_several_confidences_stay_below_the_last_together(world: World) -> None:
    """A raised confidence counted for the last look alone once."""
    trained(world, BAD).work(*ALL)
    world.service.update_ptk(PTK, config={"accept": {**TEST, "confidence": 0.97}})
    for day in (1, 2):
        trained(world, day=day).work(*ALL)
    assert failures(world) == pytest.approx([0.025, 0.005 / 3, (0.005 - 0.005 / 3) / 4])
    assert sum(failures(world)) < 0.03
    world.service.update_ptk(PTK, config=ACCEPTED)
    trained(world, day=3).work(*ALL)
    assert sum(failures(world)) < 0.05


@pytest.mark.parametrize("how", ["update", "register again"])
def test_more_confidence_than_earlier_looks_leave_is_refused(world: World, how: str) -> None:
    trained(world, BAD).work(*ALL)
    sure = {"accept": {**TEST, "confidence": 0.975}}
    before = world.service.ptk(PTK)
    with pytest.raises(InvalidRequest, match=r"its 1 looks .* with probability 0\.025, .* below 0\.975"):
        if how == "update":
            world.service.update_ptk(PTK, config=sure)
        else:
            world.service.deregister_ptk(PTK)
            world.register(config=sure, target=BAD)
    if how == "update":
        assert world.service.ptk(PTK) == before


def test_an_accepted_version_gives_confidence_back(world: World) -> None:
    trained(world, BAD).work(*ALL)
    world.service.update_ptk(PTK, target=GOOD)
    trained(world, day=1).work(*ALL)
    world.service.update_ptk(PTK, config={"accept": {**TEST, "confidence": 0.999}})
    trained(world, day=2).work(*ALL)
    assert failures(world) == pytest.approx([0.025, 0.05 / 6, 0.0005])


def test_a_look_that_could_accept_nothing_is_not_paid(world: World) -> None:
    trained(world, BAD).work("validate")
    world.service.update_ptk(PTK, config={"accept": {**TEST, "confidence": 0.97}})
    trained(world, day=1)
    with world.service.begin() as uow:  # as an older program left it: it refused no confidence
        (kept,) = uow.validations.of(PTK)
        uow.validations.add(replace(kept, job_id="validate/older", at=kept.at + timedelta(seconds=1)))
        uow.commit()
    world.work("validate")
    assert world.job(f"validate/{PTK}/1").outcome is Outcome.REFUSED
    assert world.notices()[-1] == (f"{PTK} validate of window 1", "confidence-used-up")
    assert charged_for_tests(world, 1) == (0, 0)
    assert drafts(world) == ()


def test_looks_that_a_recovery_forgot_are_counted(world: World) -> None:
    trained(world, GOOD).work(*ALL)
    with world.service.begin() as uow:  # a recovery after windows 1 to 3: their verdicts are forgotten
        uow.streams.advance(STREAM, replace(uow.streams.progress(STREAM), retired_before=4))
        uow.commit()
    for day in (1, 2, 3):
        trained(world, day=day).work(*ALL)  # nothing is trained on what is in doubt
    trained(world, day=4).work(*ALL)
    looks = {one.window_index: one.look for one in world.service.validations(PTK)}
    assert looks == {0: 1, 4: 4}
    assert failures(world)[-1] == pytest.approx(0.05 / 20)


def test_looks_before_an_adopted_version_are_over(world: World) -> None:
    """A version that a recovery took over from the lake was accepted: looks before it count no more."""
    trained(world, BAD).work(*ALL)
    world.service.update_ptk(PTK, target=GOOD)
    trained(world, day=1).work(*ALL)
    with world.service.begin() as uow:
        before, spec = uow.validations.of(PTK), uow.ptks.get(PTK)
        assert earlier_looks(uow, spec) == EarlierLooks()
        uow.streams.advance(STREAM, replace(uow.streams.progress(STREAM), retired_before=3))
        assert earlier_looks(uow, spec).number == 1  # window 2 may have had a look
        forgetful = SimpleNamespace(
            ptks=uow.ptks,
            streams=uow.streams,
            ledger=uow.ledger,
            versions=uow.versions,
            validations=SimpleNamespace(of=lambda _: before[:1]),
        )
        assert earlier_looks(cast(Any, forgetful), spec).number == 1


def test_looks_at_windows_before_the_accepted_one_count_where_a_scheduler_goes_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.register(config=ACCEPTED, target=GOOD)
    trained(world, day=1).work(*ALL)
    with world.service.begin() as uow:
        *_, accepted = uow.validations.of(PTK)
        spec, stream = uow.ptks.get(PTK), uow.streams.get(STREAM)
        assert (accepted.window_index, accepted.verdict["decision"]) == (1, "accept")
        for look in (1, 2, 3):  # at window 0, after the acceptance on window 1
            at = accepted.at + timedelta(seconds=look)
            verdict = {**accepted.verdict, "decision": "retry", "look": look}
            uow.validations.add(
                replace(
                    accepted,
                    job_id=f"again/{look}",
                    look=look,
                    window_index=0,
                    verdict=verdict,
                    at=at,
                    number=0,
                )
            )
        again = replace(stream, policy=replace(stream.policy, scheduler=Scheduler.ADAPTIVE))
        monkeypatch.setattr(uow.streams, "get", lambda _: again)
        assert earlier_looks(uow, spec).number == 3
        uow.streams.advance(STREAM, replace(uow.streams.progress(STREAM), retired_before=1))
        assert earlier_looks(uow, spec).number == max(3, most_estimates(spec, stream.policy))


def test_looks_are_forgotten_as_often_as_a_test_block_could_pay_for(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scheduler may look at one window again: after a recovery nobody knows how often it did."""
    world.register(config={"accept": {**TEST, "epsilon": 0.3}}, target=BAD)
    with world.service.begin() as uow:
        spec, stream = uow.ptks.get(PTK), uow.streams.get(STREAM)
        uow.streams.advance(STREAM, replace(uow.streams.progress(STREAM), retired_before=2))
        assert earlier_looks(uow, spec).number == 2
        again = replace(stream, policy=replace(stream.policy, scheduler=Scheduler.ADAPTIVE))
        monkeypatch.setattr(uow.streams, "get", lambda _: again)
        assert earlier_looks(uow, spec).number == 2 * 3  # 0.9 of 1


def in_doubt(world: World, windows: int, stream: str = STREAM) -> None:
    """A recovery after so many windows."""
    with world.service.begin() as uow:
        uow.streams.advance(stream, replace(uow.streams.progress(stream), retired_before=windows))
        uow.commit()


@pytest.mark.parametrize("how", ["register", "update", "exchange"])
def test_more_forgotten_looks_than_can_be_counted_refuse_a_test(world: World, how: str) -> None:
    """970 windows of an hour are enough; the error was none that a team could read."""
    world.stream("hours", 10, scheduler=Scheduler.ADAPTIVE)
    in_doubt(world, 1_200, "hours")
    small, large = {"accept": {**TEST, "epsilon": 0.01}}, {"accept": {**TEST, "epsilon": 0.5}}
    place: dict[str, Any] = {"stream": "hours", "target": BAD}
    if how == "update":
        world.register(config=large, **place)
    with pytest.raises(
        InvalidRequest, match=r"1,000,000 looks or more .* no confidence is left; .* larger epsilon"
    ):
        if how == "register":
            world.register(config=small, **place)
        elif how == "update":
            world.service.update_ptk(PTK, config=small)
        else:
            said = {"estimator": speed(0.1), "target": BAD, "config": small}
            wanted = [WantedPtk("speed", said)]
            world.service.exchange_ptks(team="taxi", stream="hours", wanted=wanted)
    assert [spec.config for spec in world.service.ptks()] == ([large] if how == "update" else [])
    world.register(config=large, name="other", **place)


def test_a_validation_without_confidence_ends_before_it_is_paid(waiting: World) -> None:
    """Each attempt raised an error once."""
    in_doubt(waiting, 2_000_000)
    waiting.work("validate")
    assert waiting.job(VALIDATE).outcome is Outcome.REFUSED
    assert waiting.notices()[-1] == (f"{PTK} validate of window 0", "confidence-used-up")
    assert charged_for_tests(waiting) == (0, 0)
    assert drafts(waiting) == ()
    assert published(waiting) == NOTHING


def test_a_new_name_counts_windows_in_doubt_and_the_refusal_says_so(world: World) -> None:
    trained(world, BAD).work(*ALL)
    in_doubt(world, 1)
    with pytest.raises(InvalidRequest, match=r"without those that are known, and counts windows in doubt"):
        world.service.update_ptk(PTK, config={"accept": {**TEST, "confidence": 0.975}})
    name = world.register(name="other", config={"accept": {**TEST, "epsilon": 0.1}}, target=BAD)
    with world.service.begin() as uow:
        assert earlier_looks(uow, uow.ptks.get(name)).number == 1


def number_of_looks(world: World, ptk_id: str = PTK) -> int:
    with world.service.read() as uow:
        return earlier_looks(uow, uow.ptks.get(ptk_id)).number


@pytest.mark.parametrize("how", ["register", "exchange"])
def test_windows_that_were_gone_when_a_name_was_new_count_no_look_of_it(world: World, how: str) -> None:
    trained(world, BAD).work(*ALL)  # somebody reads the first windows
    for day in (1, 2, 3):
        trained(world, day=day).work(*ALL, "expire")
    assert [one.state for one in world.service.windows(STREAM)].count(WindowState.EXPIRED) == 2
    if how == "register":
        world.register("other", config=CHEAP, target=BAD)
    else:
        wanted = [WantedPtk("other", {"estimator": speed(0.1), "target": BAD, "config": CHEAP})]
        world.service.exchange_ptks(team="taxi", stream=STREAM, wanted=wanted)
    in_doubt(world, 6)
    assert number_of_looks(world, "taxi.other") == 6 - 2
    assert number_of_looks(world) == 6
    world.service.deregister_ptk("taxi.other")  # a name that returns is not new
    trained(world, day=4).work(*ALL, "expire")
    world.register("other", config=CHEAP, target=BAD)
    assert number_of_looks(world, "taxi.other") == 6 - 2


def test_a_name_that_is_new_after_a_recovery_counts_all_windows_in_doubt(world: World) -> None:
    for day in range(4):
        trained(world, day=day).work(*ALL, "expire")
    in_doubt(world, 3)
    world.register("other", config=CHEAP, target=BAD)
    assert number_of_looks(world, "taxi.other") == 3


@pytest.mark.parametrize("error", [CatalogBehind, Unavailable])
def test_a_name_that_is_new_to_a_catalog_that_forgot_counts_all_windows_in_doubt(
    world: World, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    def forgot(*_: object) -> None:
        raise error("no")

    for day in range(4):
        trained(world, day=day).work(*ALL, "expire")
    monkeypatch.setattr(world.service.keys, "check_journal", forgot)
    world.register("other", config=CHEAP, target=BAD)
    in_doubt(world, 4)
    assert number_of_looks(world, "taxi.other") == 4
