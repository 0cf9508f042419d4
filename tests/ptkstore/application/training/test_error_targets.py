"""The metric `error`: the means of each group are validated from one release, and in the unit of their value."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from ptklib.profiling.estimates import LossEstimate
from ptklib.validation import ErrorValidator
from ptkstore.domain.accounting.accountants import Accountant
from ptkstore.domain.evaluations import GroupedMass, RiskMass
from ptkstore.domain.ledger.journal import EntryKind
from ptkstore.domain.streams.blocks import TEST as TEST_PART
from ptkstore.domain.streams.policies import PrivacyUnit
from tests.support.world import CHAIN, STREAM, World, speed, trips

PTK = "taxi.speed"
ALL = (*CHAIN, "validate", "flip")
VALIDATE = f"validate/{PTK}/0"
TEST = {"metric": "error", "epsilon": 0.9}
GOOD, BAD = 20.0, 1e-6
"""Targets in the unit of the speed, of bounds 0 and 60."""
N = 12_000
HOURS = 4


def window(world: World, day: int = 0, *kinds: str) -> None:
    """One more window, up to its verdict: 300 test rows for each of four hours, all of speed 30."""
    days = [day + i / N for i in range(N)]
    hours, speeds = pa.array([i % HOURS for i in range(N)]), pa.array([30.0] * N)
    world.service.ingest(STREAM, trips(days, hour=hours, speed=speeds, zone=pa.array(map(str, range(N)))))
    world.close(day + 1)
    world.work(*(kinds or ALL))


def register(world: World, target: float, **more: Any) -> None:
    made = speed(0.9)
    params = {**made["params"], "domains": {"hour": list(range(HOURS))}, **more}
    world.register(estimator={**made, "params": params}, target=target, config={"accept": TEST})


def charged(world: World) -> tuple[int, int]:
    block = next(b for b in world.service.budget(STREAM) if b.number == TEST_PART)
    return block.reserved.epsilon_nano, block.spent.epsilon_nano


def die() -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("accountant", Accountant)
def test_means_within_the_target_become_a_version_whose_error_is_told(
    in_files: World, accountant: Accountant
) -> None:
    in_files.stream(accountant=accountant, capacity_delta=1e-6)
    register(in_files, GOOD)
    window(in_files)
    (version,) = in_files.service.versions(PTK)
    (validation,) = in_files.service.validations(PTK)
    verdict = validation.verdict
    assert (version.content["verdict"], validation.number) == (verdict, 1)
    assert (verdict["decision"], verdict["metric"], verdict["target"]) == ("accept", "error", GOOD)
    assert 0 <= verdict["estimate"] < verdict["bound"] <= GOOD
    groups = tuple(RiskMass(*one) for one in verdict["groups"])
    assert len(groups) == HOURS
    assert validation.mass == GroupedMass.of(groups).of_state
    again = ErrorValidator(GOOD, bounds=(0, 60)).of_means(
        [30.0] * HOURS, [LossEstimate(0.9, one.lost, one.kept) for one in groups]
    )
    assert verdict["bound"] == pytest.approx(again.bound, abs=2)  # of the released means, which are near 30
    assert in_files.service.evaluations(PTK) == ()  # it is no loss
    assert in_files.service.verify_ledger(STREAM).faults == ()


@pytest.mark.parametrize("target", [GOOD, BAD])
@pytest.mark.parametrize("step", ["claimed", "spent", "opened", "validated", "verdict-kept"])
def test_a_worker_that_dies_at_any_step_leaves_one_verdict_one_version_and_one_charge(
    world: World, step: str, target: float
) -> None:
    register(world, target)
    window(world, 0, *CHAIN)
    world.steps.at[step] = die
    with pytest.raises(KeyboardInterrupt):
        world.work("validate")
    world.clock.pass_(minutes=2)
    world.work(*ALL)
    world.service.destroy_refused_drafts()
    (validation,) = world.service.validations(PTK)
    assert validation.verdict["decision"] == ("accept" if target == GOOD else "retry")
    assert len(world.service.versions(PTK)) == (target == GOOD)
    assert world.service.keys.draft_ids() == ()
    assert charged(world) == (0, 900_000_000)
    with world.service.begin() as uow:
        spent = [one.key for one in uow.ledger.journal(STREAM) if one.kind is EntryKind.SPEND]
    assert spent == [f"train/{PTK}/0", VALIDATE]


def test_groups_without_test_rows_are_not_accepted(world: World) -> None:
    world.register(estimator=speed(0.9), target=GOOD, config={"accept": TEST})
    window(world)  # twenty hours have no rows
    (validation,) = world.service.validations(PTK)
    assert (validation.verdict["decision"], validation.verdict["estimate"]) == ("retry", None)


def test_an_error_is_validated_in_a_process_of_its_own(world: World) -> None:
    register(world, GOOD)
    del world.service.__dict__["evaluator"]
    window(world)
    assert [one.number for one in world.service.versions(PTK)] == [1]


def test_users_of_several_rows_are_noised_for_as_many_groups(in_files: World) -> None:
    in_files.stream(privacy_unit=PrivacyUnit.USER_IN_WINDOW, unit_column="zone", max_rows_per_unit=3)
    register(in_files, BAD, unit="zone", max_rows_per_unit=3)
    window(in_files)
    (request,) = in_files.evaluator.requests
    assert request.rows_per_unit == 3
    assert charged(in_files) == (0, 900_000_000)
    with in_files.service.begin() as uow:
        (spent,) = (one for one in uow.ledger.history(VALIDATE) if one.kind is EntryKind.SPEND)
    (validation,) = in_files.service.validations(PTK)
    told, less = (
        ErrorValidator(BAD, bounds=(0, 60)).of_means(
            [30.0] * HOURS, [LossEstimate(epsilon, *one) for one in validation.verdict["groups"]]
        )
        for epsilon in (0.9 / 3, 0.9)
    )
    assert less.bound + 0.5 < told.bound == pytest.approx(validation.verdict["bound"], abs=0.4)
    assert spent.event["scale"] == pytest.approx(3 / 0.9 * 2**20, rel=1e-6)
