"""Team code that says losses of rows: profiled, planned with, evaluated and validated, each time for its price."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ptkstore.domain.accounting.assurances import Assurance, Assured
from ptkstore.domain.jobs import JobState, Outcome
from ptkstore.domain.ptks.profiles import Point, Verdict
from ptkstore.domain.streams.blocks import PROFILE, TEST
from ptkstore.errors import InvalidRequest, NoSandbox
from ptkstore.ports.row_processes import RunFailed
from tests.support.team_code import GOOD, Inspector, bundle_with, described
from tests.support.world import CHAIN, World, speed

PTK = "taxi.trips"
TENTH = 10**8
SAYS = "\n\ndef row_losses(state, rows):\n    return np.{}(rows.num_rows)\n"
GOOD_MODEL, BAD_MODEL = GOOD + SAYS.format("zeros"), GOOD + SAYS.format("ones")
LOSSES = {"row_losses": "own:row_losses"}
PROFILE_OF = {"points": 2, "n_min": 64, "n_max": 64, "models": 1, "budget": 5.0, "tries": 2, "drift": 0}
ACCEPT = {"accept": {"metric": "loss", "epsilon": 0.9}}
EVALUATE = {"evaluate": {"epsilon": 0.2}}
EPSILONS = {"epsilons": [0.5, 1.0], "profile": PROFILE_OF}
ROWS = 4_800


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A stream that accepts team code, half of whose units are in profile sets."""
    world = World(tmp_path / "home")
    world.service.__dict__["sandbox"] = Inspector()
    world.stream(
        epsilon=9,
        profile_share=Decimal("0.5"),
        rows_per_window=ROWS,
        minimum_assurance=Assurance.ASSERTED,
    )
    yield world
    world.service.close()


def register(world: World, config: dict[str, Any], code: str = GOOD_MODEL, **more: Any) -> str:
    bundle = bundle_with(code)
    world.service.put_bundle(bundle, team="taxi")
    losses = LOSSES if "row_losses" in code else {}
    estimator = described(bundle, **{"epsilon": 1.0, **losses, **more})
    return world.register("trips", estimator=estimator, config=config, target=0.3)


def close(world: World, day: int) -> None:
    world.ingest((day + np.arange(ROWS) / ROWS * 0.9).tolist())
    world.close(day + 1)


def block(world: World, number: int) -> tuple[int, int]:
    found = next(one for one in world.service.budget("taxi") if one.number == number)
    return found.reserved.epsilon_nano, found.spent.epsilon_nano


def codes(world: World) -> list[str]:
    return [code for _, code in world.notices()]


# what is refused


@pytest.mark.parametrize("config", [ACCEPT, EVALUATE, EPSILONS, {"epsilons": [0.5, 1.0]}], ids=str)
def test_code_without_losses_of_rows_is_asked_for_none(world: World, config: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match=r"no row_losses\(state, rows\).*cannot have (accept|ep|ev)"):
        register(world, config, GOOD)
    assert world.service.ptks() == ()
    register(world, {}, GOOD)
    with pytest.raises(InvalidRequest, match="no row_losses"):
        world.service.update_ptk(PTK, config=config)
    (spec,) = world.service.ptks()
    assert (spec.config, spec.profile) == ({}, None)


def test_losses_cannot_be_taken_away_from_a_ptk_that_is_validated(world: World) -> None:
    register(world, ACCEPT)
    bundle = bundle_with(GOOD)
    world.service.put_bundle(bundle, team="taxi")
    with pytest.raises(InvalidRequest, match="no row_losses"):
        world.service.update_ptk(PTK, estimator=described(bundle))
    (spec,) = world.service.ptks()
    assert spec.estimator["params"]["row_losses"] == "own:row_losses"


def test_the_eval_of_team_code_is_never_profiled(world: World) -> None:
    with pytest.raises(InvalidRequest, match="synthetic rows only"):
        register(world, {**EPSILONS, "profile": {**PROFILE_OF, "evaluation": "eval"}})
    register(world, {**EPSILONS, "profile": {**PROFILE_OF, "evaluation": "rows"}})


@pytest.mark.parametrize("largest", [0, -1, "1"])
def test_a_largest_loss_that_bounds_nothing_is_refused(world: World, largest: Any) -> None:
    bundle = bundle_with(GOOD_MODEL)
    world.service.put_bundle(bundle, team="taxi")
    good = described(bundle, **LOSSES)
    estimator = {**good, "params": {**good["params"], "loss_max": largest}}
    with pytest.raises(InvalidRequest, match="loss_max"):
        world.register("trips", estimator=estimator, config=ACCEPT)
    assert world.service.ptks() == ()


def test_what_is_asserted_is_said_so(world: World) -> None:
    register(world, {**EPSILONS, **ACCEPT})
    (spec,) = world.service.ptks()
    assert spec.assurance is Assurance.ASSERTED
    assert spec.profile is not None
    assert (spec.profile.evaluation, spec.profile.epsilons) == ("rows", (0.5, 1.0))


# profiles


def test_a_profile_is_paid_for_before_its_rows_are_opened_whatever_its_code_does(world: World) -> None:
    register(world, EPSILONS)
    close(world, 0)
    world.profiler.failing = RunFailed("team-code-failed")
    world.work("prepare", "allocate")
    assert block(world, PROFILE) == (5 * 10**9, 0)
    world.work("profile")
    assert block(world, PROFILE) == (0, 5 * 10**9)
    (request,) = world.profiler.requests
    assert request.bundle == bundle_with(GOOD_MODEL)
    assert request.estimator["params"]["row_losses"] == "own:row_losses"
    assert "team-code-failed" in codes(world)
    job = world.job(f"profile/{PTK}/0")
    assert (job.state, job.outcome) == (JobState.ENDED, Outcome.FAILED)


def test_a_profile_of_team_code_stays_a_teams_word_when_its_ptk_is_the_librarys(world: World) -> None:
    register(world, EPSILONS)
    close(world, 0)
    world.profiler.failing = RunFailed("team-code-failed")
    world.work("prepare", "allocate", "profile")
    world.service.update_ptk(PTK, estimator=speed(), config={})
    assert world.service.ptks()[0].assurance is Assurance.LIBRARY
    odometers = world.service.odometers("taxi")
    assert odometers.assured == Assured(Assurance.ASSERTED, "taxi")
    (shares,) = [one.shares for one in odometers.blocks if one.number == PROFILE]
    assert shares is not None
    assert (shares.library.epsilon_nano, shares.asserted.epsilon_nano) == (0, 5 * 10**9)
    report = json.loads(world.service.export_ledger("taxi").content)["report"]
    assert [one["assurance"] for one in report["ptks"]] == ["asserted"]


def test_a_profile_whose_worker_is_lost_is_paid_for_and_not_run_again(world: World) -> None:
    register(world, EPSILONS)
    close(world, 0)
    world.work("prepare", "allocate")

    class Died(Exception):
        pass

    def die() -> None:
        raise Died

    world.profiler.meanwhile = die
    with pytest.raises(Died):
        world.work("profile")
    world.clock.pass_(hours=2)
    world.work("profile")
    assert len(world.profiler.requests) == 1
    assert world.job(f"profile/{PTK}/0").outcome is Outcome.FAILED
    assert block(world, PROFILE) == (0, 5 * 10**9)


def test_without_a_sandbox_no_profile_is_paid_for(world: World) -> None:
    register(world, EPSILONS)
    close(world, 0)
    world.work("prepare", "allocate")
    world.service.sandbox.works = False  # type: ignore[attr-defined]
    with pytest.raises(NoSandbox):
        world.work("profile")
    assert block(world, PROFILE) == (5 * 10**9, 0)
    assert world.profiler.requests == []


def test_code_that_changed_between_look_and_spend_profiles_nothing(world: World) -> None:
    register(world, EPSILONS)
    close(world, 0)
    world.work("prepare", "allocate")
    bundles, changed = world.service.bundles, bundle_with(GOOD_MODEL + "# changed\n")
    world.service.put_bundle(changed, team="taxi")
    get = bundles.get

    def change_meanwhile(sha256: str) -> bytes:
        content = get(sha256)
        bundles.__dict__.pop("get", None)
        world.service.update_ptk(PTK, estimator=described(changed, epsilon=1.0, **LOSSES))
        return content

    bundles.__dict__["get"] = change_meanwhile
    world.work("profile")
    assert world.profiler.requests == []  # another model asks for another profile
    assert world.job(f"profile/{PTK}/0").outcome is Outcome.WITHDRAWN
    assert block(world, PROFILE) == (0, 0)


@pytest.mark.long
@pytest.mark.usefixtures("sandbox")
def test_what_a_profile_found_is_what_later_windows_are_planned_with(world: World) -> None:
    register(world, EPSILONS)
    close(world, 0)
    world.work("prepare", "allocate", "profile")
    found = world.service.profile(PTK)
    assert found.points == (Point(0.5, Verdict.FOUND, 64), Point(1.0, Verdict.FOUND, 64))
    assert found.menu == ((0.5, 64),)
    world.work("train", "place")
    first = world.service.versions(PTK)[0].content
    assert first["guarantee"]["epsilon"] == 1.0  # what it declares, before it is profiled
    close(world, 1)
    world.work(*CHAIN, "profile")
    second = world.service.versions(PTK)[1].content
    assert second["planned"]["n"] == 64
    assert second["guarantee"]["epsilon"] == pytest.approx(0.5)
    assert second["guarantee"]["assurance"] == "asserted"
    assert world.trainer.requests[-1].estimator["params"]["row_losses"] == "own:row_losses"
    assert world.service.verify_ledger("taxi").faults == ()


# evaluations and validations


@pytest.fixture
def waiting(world: World, sandbox: object) -> World:
    """A state of team code that waits for its verdict."""
    register(world, ACCEPT)
    close(world, 0)
    world.work(*CHAIN)
    return world


VALIDATION = f"validate/{PTK}/0"


@pytest.mark.long
def test_a_state_whose_losses_pass_becomes_a_version_that_says_it_is_asserted(waiting: World) -> None:
    assert waiting.service.versions(PTK) == ()
    waiting.work("validate", "place", "flip")
    (version,) = waiting.service.versions(PTK)
    (validation,) = waiting.service.validations(PTK)
    assert version.content["release_decision"] == "accepted"
    assert version.content["guarantee"]["assurance"] == "asserted"
    assert (validation.number, validation.verdict["decision"]) == (1, "accept")
    assert version.content["verdict"] == validation.verdict
    assert (validation.verdict["assurance"], validation.verdict["asserted_by"]) == ("asserted", "taxi")
    assert block(waiting, TEST) == (0, 9 * TENTH)
    (request,) = waiting.evaluator.requests
    assert request.bundle == bundle_with(GOOD_MODEL)


@pytest.mark.long
def test_a_state_whose_losses_are_large_is_never_seen(world: World, sandbox: object) -> None:
    register(world, ACCEPT, BAD_MODEL)
    close(world, 0)
    world.work(*CHAIN, "validate", "flip")
    assert world.service.versions(PTK) == ()
    assert world.service.keys.draft_ids() == ()
    (validation,) = world.service.validations(PTK)
    assert (validation.number, validation.verdict["decision"]) == (0, "retry")
    assert block(world, TEST) == (0, 9 * TENTH)


@pytest.mark.long
def test_a_validation_that_fails_is_paid_in_full_and_its_draft_is_destroyed(waiting: World) -> None:
    waiting.evaluator.failing = RunFailed("team-code-failed")
    waiting.work("validate", "flip")
    job = waiting.job(VALIDATION)
    assert (job.state, job.outcome) == (JobState.ENDED, Outcome.FAILED)
    assert block(waiting, TEST) == (0, 9 * TENTH)
    assert waiting.service.versions(PTK) == ()
    assert waiting.service.validations(PTK) == ()
    assert waiting.service.keys.draft_ids() == ()
    assert "team-code-failed" in codes(waiting)


@pytest.mark.long
def test_a_validation_whose_worker_is_lost_is_not_run_again(waiting: World) -> None:
    class Died(Exception):
        pass

    def die() -> None:
        raise Died

    waiting.evaluator.meanwhile = die
    with pytest.raises(Died):
        waiting.work("validate")
    waiting.clock.pass_(hours=2)
    waiting.work("validate", "flip")
    assert len(waiting.evaluator.requests) == 1
    assert waiting.job(VALIDATION).outcome is Outcome.FAILED
    assert block(waiting, TEST) == (0, 9 * TENTH)
    assert waiting.service.versions(PTK) == ()
    assert waiting.service.keys.draft_ids() == ()


@pytest.mark.long
def test_without_a_sandbox_no_test_block_is_charged_and_the_draft_waits(waiting: World) -> None:
    waiting.service.sandbox.works = False  # type: ignore[attr-defined]
    with pytest.raises(NoSandbox):
        waiting.work("validate")
    assert block(waiting, TEST) == (0, 0)
    waiting.service.sandbox.works = True  # type: ignore[attr-defined]
    waiting.clock.pass_(hours=2)
    waiting.work("validate")
    assert waiting.job(VALIDATION).outcome is Outcome.PUBLISHED


@pytest.mark.long
def test_a_waiting_state_is_judged_by_the_code_that_trained_it(waiting: World) -> None:
    other = bundle_with(BAD_MODEL)
    waiting.service.put_bundle(other, team="taxi")
    waiting.service.update_ptk(PTK, estimator=described(other, epsilon=1.0, **LOSSES))
    for path in (waiting.service.settings.root / "lake" / "bundles").rglob("*"):
        os.utime(path, (0, 0))
    waiting.service.garbage(timedelta(days=1), delete=True)
    waiting.work("validate")
    assert waiting.job(VALIDATION).outcome is Outcome.PUBLISHED
    assert waiting.evaluator.requests[0].bundle == bundle_with(GOOD_MODEL)


@pytest.mark.long
def test_a_version_is_evaluated_by_the_code_that_trained_it_and_charged_whatever_comes(
    world: World, sandbox: object
) -> None:
    register(world, EVALUATE)
    close(world, 0)
    world.work(*CHAIN)
    world.clock.pass_(hours=2)
    world.work("evaluate")
    (found,) = world.service.evaluations(PTK)
    assert found.number == 1
    assert found.epsilon == pytest.approx(0.2)
    assert abs(found.mass.lost) / 2**20 <= 16 / 0.2  # losses of nothing, and noise: once in e**16
    assert block(world, TEST) == (0, 2 * TENTH)
    close(world, 1)
    world.evaluator.failing = RunFailed("team-code-failed")
    world.work(*CHAIN)
    world.clock.pass_(hours=2)
    world.work("evaluate")
    assert len(world.service.evaluations(PTK)) == 1
    assert block(world, 128 + TEST) == (0, 2 * TENTH)
    assert "team-code-failed" in codes(world)
