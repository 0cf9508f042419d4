"""Windows planned under accountants, lines and profiles, and carried out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from ptkstore.domain.accounting.accountants import Accountant
from ptkstore.domain.accounting.losses import Loss
from ptkstore.domain.accounting.sharing import Sharing
from ptkstore.domain.jobs import Outcome
from ptkstore.domain.streams.blocks import BlockState
from ptkstore.errors import InvalidRequest, PtkRejected, Refused
from tests.support.planned_losses import gaussian, means
from tests.support.world import STREAM, World, speed


@pytest.fixture
def bare(tmp_path: Path) -> Iterator[World]:
    """A world whose stream the test makes."""
    world = World(tmp_path / "home")
    yield world
    world.service.close()


def trained(world: World, windows: int = 1) -> dict[str, Outcome | None]:
    world.ingest([i / 50 for i in range(40)])
    world.close(windows)
    world.work("prepare", "allocate", "train")
    with world.service.begin() as uow:
        return {str(job.ptk_id): job.outcome for job in uow.jobs.find() if job.kind == "train"}


@pytest.mark.parametrize("accountant", [Accountant.RENYI, Accountant.ZCDP])
def test_gaussian_ptks_that_basic_composition_has_no_room_for_are_trained(
    bare: World, accountant: Accountant
) -> None:
    bare.stream(accountant=accountant, capacity_delta=1e-6)
    ids = [bare.register(f"cov{n}", estimator=gaussian()) for n in range(8)]  # 1.6 by the sum of epsilons
    assert trained(bare) == dict.fromkeys(ids, Outcome.PUBLISHED)
    check = bare.service.verify_ledger(STREAM)
    assert (check.entries, check.faults) == (17, ())
    block = next(b for b in bare.service.budget(STREAM) if b.number == 2)
    assert 0.2 < block.spent.epsilon <= 1
    assert block.spent == block.committed


def test_under_basic_composition_the_sixth_of_them_is_rejected(bare: World) -> None:
    bare.stream(accountant=Accountant.BASIC, capacity_delta=1e-6)
    for n in range(5):
        bare.register(f"cov{n}", estimator=gaussian())
    with pytest.raises(PtkRejected) as rejection:
        bare.register("cov5", estimator=gaussian())
    assert str(rejection.value) == (
        "taxi.cov5 asks for epsilon 0.2, delta 1E-8 per window and does not fit beside 5 registered PTKs. "
        "Nothing is left. It would fit with a capacity of epsilon 1.2, delta 0.000001"
    )


def test_a_rejection_under_curves_names_an_epsilon_that_fits(bare: World) -> None:
    bare.stream(accountant=Accountant.RENYI, capacity_delta=1e-6)
    for n in range(4):
        bare.register(f"cov{n}", estimator=gaussian())
    with pytest.raises(PtkRejected) as rejection:
        bare.register("pure", 1.0)
    left = float(str(rejection.value).split("at most epsilon ")[1].split(",")[0])
    assert 0.05 < left < 1
    bare.register("pure", left)
    with pytest.raises(PtkRejected):
        bare.register("more", left)


def test_gaussian_noise_beyond_its_curve_is_rejected_without_a_promise_that_does_not_hold(
    bare: World,
) -> None:
    bare.stream(accountant=Accountant.RENYI, capacity_delta=1e-6)
    whole = {**gaussian(), "params": {**gaussian()["params"], "epsilon": 1.0, "delta": 1e-6}}
    with pytest.raises(PtkRejected) as rejection:
        bare.register("whole", estimator=whole)
    assert str(rejection.value) == (
        "taxi.whole asks for epsilon 1, delta 0.000001 per window and does not fit. "
        "Under renyi, ask for at most epsilon 0.813200238, delta 0.000001 or epsilon 1, delta 0 with pure noise. "
        "It would fit with a capacity of epsilon 1.208264567, delta 0.000001"
    )


def test_a_profiled_ptk_gets_the_epsilon_and_the_rows_that_open_least(world: World) -> None:
    alone = world.register("alone", estimator=means(), target=0.2, config={"epsilons": [0.05, 0.9]})
    world.ingest([i / 50 for i in range(40)])
    world.close(1)
    world.work("prepare", "allocate")
    job = world.job(f"train/{alone}/0")
    assert 0 < job.n_rows < 80
    reserved, _ = world.train_block(0)
    assert reserved > 10**8  # not what it declared, but what spares rows
    world.work("train", "place")
    assert world.job(job.id).outcome is Outcome.PUBLISHED
    manifest = world.service.versions(alone)[0].content
    assert manifest["planned"]["n"] == job.n_rows
    assert manifest["guarantee"]["epsilon"] == pytest.approx(reserved / 1e9)


def test_profiled_ptks_share_a_budget_that_none_of_them_could_have_alone(world: World) -> None:
    ids = [
        world.register(f"m{n}", estimator=means(), target=0.2, config={"epsilons": [0.05, 1.0]})
        for n in range(4)
    ]
    assert trained(world) == dict.fromkeys(ids, Outcome.PUBLISHED)
    block = next(b for b in world.service.budget(STREAM) if b.number == 2)
    assert block.spent.epsilon <= 1


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"epsilons": 0.5}, "least and the greatest"),
        ({"epsilons": [0.5]}, "least and the greatest"),
        ({"epsilons": [0.5, 0.1]}, "the least first"),
        ({"epsilons": [0, 1]}, r"\[1e-6, 10\]"),
        ({"epsilons": [0.1, "1"]}, "must be a number"),
        (
            {"epsilon": [0.1, 1]},
            "it may have accept, epsilons, evaluate, pinned, profile, recency, serve, start_from, where",
        ),
    ],
)
def test_a_range_of_epsilons_is_checked_at_registration(
    world: World, wrong: dict[str, Any], says: str
) -> None:
    with pytest.raises(InvalidRequest, match=says):
        world.register("m", estimator=means(), config=wrong)
    assert world.service.ptks() == ()


def test_a_target_that_needs_more_rows_than_there_are_is_rejected_with_the_reason(world: World) -> None:
    with pytest.raises(PtkRejected, match="looser target"):
        world.register("m", estimator=means(), target=0.001, config={"epsilons": [0.05, 1.0]})


def test_reserved_shares_and_contexts_pay_from_lines_of_their_own(bare: World) -> None:
    bare.stream(
        sharing=Sharing(
            (("eu", ("taxi",)), ("us", ("fares",))),
            "the regions' teams do not share what they learn",
            (("taxi.vip", Decimal("0.3")),),
        )
    )
    bare.register("vip", 0.3)
    bare.register("speed", 0.7)
    with pytest.raises(PtkRejected, match="no noise of its kind fits"):
        bare.register("more", 0.1)
    fares = {"target": 0.1, "train_frequency": "1d", "estimator": speed(1.0)}
    bare.service.register_ptk(team="fares", name="all", stream=STREAM, **fares)
    with pytest.raises(Refused, match="none of them"):
        bare.service.register_ptk(team="bikes", name="all", stream=STREAM, **fares)
    outcomes = trained(bare)
    assert set(outcomes.values()) == {Outcome.PUBLISHED}
    spent = {b.line: b.spent for b in bare.service.budget(STREAM) if b.number == 2}
    assert spent == {
        "context eu": Loss.charge(0.7),
        "context us": Loss.charge(1.0),
        "ptk taxi.vip": Loss.charge(0.3),
    }


def test_where_all_is_reserved_nobody_else_is_let_in(bare: World) -> None:
    bare.stream(sharing=Sharing(reserved=(("taxi.vip", Decimal(1)),)))
    with pytest.raises(PtkRejected, match="reserved for other PTKs"):
        bare.register("speed", 0.1)
    bare.register("vip", 1.0)


def test_a_retirement_that_every_line_would_meet_at_once_is_refused(bare: World) -> None:
    half = Sharing(reserved=(("taxi.vip", Decimal("0.5")),))
    with pytest.raises(InvalidRequest, match="retire_below"):
        bare.stream(sharing=half, retire_below=Loss.charge(0.6))


def test_a_block_that_is_used_up_retires_and_others_do_not(bare: World) -> None:
    bare.stream(retire_below=Loss.charge(0.2))
    bare.register("most", 0.9)
    trained(bare)
    states = {b.number: b.state for b in bare.service.budget(STREAM)}
    assert states == {0: BlockState.ACTIVE, 1: BlockState.ACTIVE, 2: BlockState.RETIRED}


def test_a_training_changed_to_something_dearer_after_its_reservation_is_given_back(bare: World) -> None:
    bare.stream(accountant=Accountant.RENYI, capacity_delta=1e-6)
    changed = bare.register("cov", estimator=gaussian(0.3))
    bare.ingest([i / 50 for i in range(40)])
    bare.close(1)
    bare.work("prepare", "allocate")
    # The same (epsilon, delta) by pure noise costs more at every order that a Gaussian was charged for.
    bare.service.update_ptk(changed, estimator={**means(), "params": {**means()["params"], "epsilon": 0.3}})
    bare.work("train")
    assert bare.job(f"train/{changed}/0").outcome is Outcome.WITHDRAWN
    assert bare.train_block(0) == (0, 0)
    assert (f"{changed} window 0", "changed-after-its-reservation") in bare.notices()


@pytest.mark.parametrize("accountant", [Accountant.RENYI, Accountant.ZCDP])
@pytest.mark.parametrize("beside", [0, 2])
def test_a_gaussian_ptk_without_room_is_told_the_largest_epsilon_of_its_noise_that_fits(
    bare: World, accountant: Accountant, beside: int
) -> None:
    bare.stream(accountant=accountant, capacity_delta=1e-6)
    for n in range(beside):
        bare.register(f"other{n}", estimator=gaussian())

    def of(epsilon: float) -> Mapping[str, Any]:
        spec = gaussian(epsilon)
        return {**spec, "params": {**spec["params"], "delta": 1e-6}}

    with pytest.raises(PtkRejected, match="ask for at most") as refused:
        bare.register("cov", estimator=of(1.0))  # its curve takes more than (1, 1e-6) at every order
    largest = float(re.findall(r"at most epsilon ([0-9.]+), delta", str(refused.value))[0])
    assert 0.1 < largest < 1
    with pytest.raises(PtkRejected):
        bare.register("cov", estimator=of(round(largest + 1e-6, 9)))
    bare.register("cov", estimator=of(largest))
