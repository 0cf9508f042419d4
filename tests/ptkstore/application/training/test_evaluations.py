"""Evaluations: one paid estimate of a version's loss on its window's test set, and nothing else, ever."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from ptklib import CovarianceMatrix, HistoricalStatistics
from ptklib.profiling import LossEstimate, LossEstimator
from ptklib.profiling.estimation import UNITS  # type: ignore[attr-defined]
from ptkstore.domain.accounting.sharing import Sharing
from ptkstore.domain.evaluations import Evaluation, RiskMass
from ptkstore.domain.jobs import MAX_ATTEMPTS, JobState, Outcome
from ptkstore.domain.ledger.journal import EntryKind
from ptkstore.domain.streams.blocks import TEST, part_blocks, place_of, rows_behind
from ptkstore.domain.streams.policies import PrivacyUnit
from ptkstore.domain.streams.windows import WindowId
from ptkstore.errors import CatalogBehind, InvalidRequest, LateWriter, PtkRejected, Unavailable
from ptkstore.ports.row_processes import RunFailed
from tests.support.builders import request
from tests.support.cases import case
from tests.support.catalog_copies import catalog_of, put_back
from tests.support.world import CHAIN, DAY, ORIGIN, STREAM, World, speed, trips

TENTH = 10**8
EVALUATE = "evaluate/taxi.speed/1"
PAID = {"evaluate": {"epsilon": 0.2}}
ROWS = [i / 400 for i in range(400)]


@pytest.fixture
def ready(world: World) -> World:
    """A version in the lake whose PTK pays for an estimate that nobody has begun."""
    world.register(config=PAID)
    world.ingest(ROWS)
    world.close(1)
    world.work()
    return world


def charged_for_tests(world: World, window: int = 0) -> tuple[int, int]:
    """Reserved and spent nano-epsilon of the window's test block."""
    block = next(b for b in world.service.budget(STREAM) if b.number == window * 128 + TEST)
    return block.reserved.epsilon_nano, block.spent.epsilon_nano


def spends(world: World) -> list[str]:
    with world.service.begin() as uow:
        return [entry.key for entry in uow.ledger.journal(STREAM) if entry.kind is EntryKind.SPEND]


def die() -> None:
    raise KeyboardInterrupt


def test_a_version_is_evaluated_once_it_is_in_the_lake(world: World):
    world.register(config=PAID)
    world.ingest(ROWS)
    world.close(1)
    world.work("prepare", "allocate", "train", "partial")
    assert world.job(EVALUATE).state is JobState.READY
    assert EVALUATE not in world.service.due()  # not in the lake yet
    world.work("place")
    assert world.work("evaluate") == [EVALUATE]
    (found,) = world.service.evaluations("taxi.speed")
    assert (found.number, found.window_index, found.epsilon) == (1, 0, pytest.approx(0.2))
    assert (world.job(EVALUATE).state, world.job(EVALUATE).outcome) == (JobState.ENDED, Outcome.DONE)
    assert charged_for_tests(world) == (0, 2 * TENTH)
    assert world.train_block(0) == (0, TENTH)
    assert world.service.verify_ledger(STREAM).faults == ()


def test_the_loss_is_that_of_the_test_set_and_no_other_rows(ready: World, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("ptklib.mechanisms.additive.laplace", lambda units, **_: np.asarray(units))
    ready.work("evaluate")
    (found,) = ready.service.evaluations("taxi.speed")
    window = WindowId(STREAM, 0)
    raw, key = ready.service.raw, ready.service.keys.sealing_key(window)
    table = raw.read_part(raw.part_url(window, TEST), key)
    (asked,) = ready.evaluator.requests
    (rows,) = asked.rows
    assert rows.part_urls == (raw.part_url(window, TEST),)
    _, files = ready.service.lake.read_version("taxi.speed", 1)
    (content,) = files.values()
    means = pa.parquet.read_table(pa.BufferReader(content)).to_pydict()
    mean = dict(zip(means["hour"], means["speed_mean"], strict=True))
    expected = [
        ((min(max(value, 0), 60) - mean[hour]) / 60) ** 2
        for hour, value in zip(table["hour"].to_pylist(), table["speed"].to_pylist(), strict=True)
    ]
    assert found.mass.lost / UNITS == pytest.approx(sum(expected), abs=1e-3)
    assert found.mass.lost + found.mass.kept == UNITS * table.num_rows
    assert 10 < table.num_rows < 100


def test_what_is_kept_is_noisy(ready: World):
    ready.work("evaluate")
    (found,) = ready.service.evaluations("taxi.speed")
    assert (
        found.mass.lost + found.mass.kept
    ) % UNITS  # a whole number of units of loss would be the number of rows
    estimate = LossEstimate(found.epsilon, found.mass.lost, found.mass.kept)
    assert abs(estimate.n_units - 40) <= 60 + 32 / found.epsilon  # of 400 rows a tenth, and noise


def test_the_loss_is_spent_before_the_key_is_asked_for(ready: World):
    asked: list[tuple[int, int]] = []
    opening_key = ready.service.keys.opening_key

    def watched(*args: object) -> bytes:
        asked.append(charged_for_tests(ready))
        return opening_key(*args)  # type: ignore[arg-type]

    ready.service.keys.opening_key = watched  # type: ignore[method-assign,assignment]
    ready.work("evaluate")
    assert asked == [(0, 2 * TENTH)]


def test_the_event_of_the_estimate_is_recorded(ready: World):
    ready.work("evaluate")
    with ready.service.begin() as uow:
        entries = uow.ledger.history(EVALUATE)
    assert [entry.kind for entry in entries] == [EntryKind.RESERVE, EntryKind.SPEND]
    assert entries[-1].event["name"] == "DiscreteLaplace"
    assert entries[-1].event["l1_sensitivity"] == UNITS
    assert entries[-1].loss.epsilon == pytest.approx(0.2)


@pytest.mark.parametrize("epsilon", [1.0000001e-6, 0.1, 0.2000000001])
def test_the_recorded_event_is_the_one_that_is_drawn(world: World, epsilon: float):
    world.register(config={"evaluate": {"epsilon": epsilon}})
    world.publish(0)
    world.work("evaluate")
    (asked,) = world.evaluator.requests
    drawn = LossEstimator(asked.estimator, asked.epsilon).declared_loss()
    with world.service.begin() as uow:
        entries = uow.ledger.history(EVALUATE)
    event = drawn.event.to_json()  # it is what a curve is charged for
    assert [dict(entry.event) for entry in entries] == [event, event]
    assert epsilon <= entries[-1].loss.epsilon <= epsilon + 1e-9


def test_a_ptk_that_does_not_ask_is_never_evaluated(world: World):
    world.register()
    world.publish(0)
    with world.service.begin() as uow:
        assert not [job for job in uow.jobs.find() if job.kind == "evaluate"]
    assert charged_for_tests(world) == (0, 0)
    assert world.service.evaluations("taxi.speed") == ()


def test_every_version_gets_one_estimate(world: World):
    world.register(config=PAID)
    for day in range(3):
        world.publish(day)
        world.work("evaluate")
    found = world.service.evaluations("taxi.speed")
    assert [(one.number, one.window_index) for one in found] == [(1, 0), (2, 1), (3, 2)]
    assert [charged_for_tests(world, day) for day in range(3)] == [(0, 2 * TENTH)] * 3


def test_an_estimate_asked_for_later_is_of_later_versions(world: World):
    ptk_id = world.register()
    world.publish(0)
    world.service.update_ptk(ptk_id, config=PAID)
    world.publish(1)
    world.work("evaluate")
    assert [one.number for one in world.service.evaluations(ptk_id)] == [2]


def test_the_database_refuses_a_second_estimate_of_a_version(ready: World):
    ready.work("evaluate")
    (found,) = ready.service.evaluations("taxi.speed")
    with pytest.raises(LateWriter), ready.service.begin() as uow:
        uow.evaluations.add(replace(found, job_id="another"))


def test_users_are_examples_and_all_shards_of_the_test_part_pay(tmp_path: Path):
    world = World(tmp_path / "users")
    world.stream(privacy_unit=PrivacyUnit.USER, unit_column="zone", max_rows_per_unit=4, user_shards=3)
    estimator = HistoricalStatistics(
        ["hour"],
        ["speed"],
        domains={"hour": list(range(24))},
        bounds={"speed": (0.0, 60.0)},
        epsilon=0.1,
        unit="zone",
        max_rows_per_unit=4,
    )
    world.register(estimator=estimator.to_spec(), config=PAID)
    world.service.ingest(STREAM, trips(ROWS, zone=pa.array([f"u{i % 100}" for i in range(400)])))
    world.close(1)
    world.work()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ptklib.mechanisms.additive.laplace", lambda units, **_: np.asarray(units))
        world.work("evaluate")
    (found,) = world.service.evaluations("taxi.speed")
    window = WindowId(STREAM, 0)
    raw, key = world.service.raw, world.service.keys.sealing_key(window)
    users = set(raw.read_part(raw.part_url(window, TEST), key)["zone"].to_pylist())
    assert found.mass.lost + found.mass.kept == UNITS * len(users)
    spent = {b.number: b.spent.epsilon_nano for b in world.service.budget(STREAM)}
    policy = world.service.streams()[0].policy
    assert {n: e for n, e in spent.items() if place_of(n, policy).part == TEST} == dict.fromkeys(
        part_blocks(TEST, window, policy, range(1)).numbers(), 2 * TENTH
    )
    world.service.close()


def test_a_ptk_of_some_groups_is_evaluated_on_them_alone(tmp_path: Path):
    world = World(tmp_path / "users")
    stream = world.stream(attribute="zone", attribute_values=("x", "y", "z"))
    world.register(config={**PAID, "where": {"zone": ["y"]}})
    world.service.ingest(STREAM, trips(ROWS, zone=pa.array(["x", "y", "z", "y"] * 100)))
    world.close(1)
    world.work(*CHAIN, "evaluate")
    (asked,) = world.evaluator.requests
    blocks = part_blocks(TEST, WindowId(STREAM, 0), stream.policy, range(1, 2))
    assert rows_behind(stream.policy, blocks, stream.policy.rows_per_window).files == (TEST * 3 + 1,)
    (rows,) = asked.rows
    assert [url.rpartition("/")[2] for url in rows.part_urls] == [f"{TEST * 3 + 1}.parquet"]
    spent = {b.number: b.spent.epsilon_nano for b in world.service.budget(STREAM)}
    assert [number for number, epsilon in spent.items() if epsilon == 2 * TENTH] == [TEST * 3 + 1]
    world.service.close()


# registration


def test_an_evaluation_that_cannot_be_paid_for_is_refused(world: World):
    for evaluate in [
        0.1,
        {},
        {"epsilon": 0},
        {"epsilon": -1},
        {"epsilon": 11},
        {"epsilon": True},
        {"epsilon": "0.1"},
        {"epsilon": float("nan")},
        {"epsilon": 0.1, "delta": 1e-6},
        {"eps": 0.1},
        [0.1],
    ]:
        with case(str(evaluate)), pytest.raises(InvalidRequest, match="evaluate"):
            world.register(config={"evaluate": evaluate})


def test_a_family_without_a_loss_of_rows_is_told_so(world: World):
    estimator = CovarianceMatrix(["speed"], bounds={"speed": (0, 60)}, epsilon=0.1, delta=1e-6)
    with pytest.raises(InvalidRequest, match="no loss of single rows"):
        world.register(estimator=estimator.to_spec(), config=PAID)


def test_a_test_block_that_cannot_pay_for_all_refuses_the_last(world: World):
    world.register("a", config={"evaluate": {"epsilon": 0.6}})
    with pytest.raises(PtkRejected, match=r"taxi\.b asks for an estimate of epsilon 0\.5; beside 1 others"):
        world.register("b", config={"evaluate": {"epsilon": 0.5}})
    world.register("b", config={"evaluate": {"epsilon": 0.4}})
    with pytest.raises(PtkRejected):
        world.service.update_ptk("taxi.a", config={"evaluate": {"epsilon": 0.7}})
    world.service.update_ptk("taxi.a", config={})
    world.service.update_ptk("taxi.b", config={"evaluate": {"epsilon": 1.0}})


def test_where_all_is_reserved_nobody_else_is_evaluated(tmp_path: Path):
    world = World(tmp_path / "home")
    world.stream(sharing=Sharing(reserved=(("taxi.vip", Decimal(1)),)))
    with pytest.raises(PtkRejected, match="reserved for other PTKs"):
        world.register("speed", config=PAID)
    world.register("vip", config=PAID)
    world.service.close()


def test_a_version_of_a_family_without_a_loss_of_rows_is_not_evaluated(tmp_path: Path):
    world = World(tmp_path / "home")
    world.stream(capacity_delta=1e-5)
    estimator = CovarianceMatrix(["speed"], bounds={"speed": (0, 60)}, epsilon=0.1, delta=1e-6)
    world.register(estimator=estimator.to_spec())

    def is_changed() -> None:  # while it is trained
        world.service.update_ptk("taxi.speed", estimator=speed(0.1), config=PAID)

    world.trainer.meanwhile = is_changed
    world.publish(0)
    world.work("evaluate")
    assert [version.number for version in world.service.versions("taxi.speed")] == [1]
    with world.service.begin() as uow:
        assert not [job for job in uow.jobs.find() if job.kind == "evaluate"]
    world.service.close()


# ends


@pytest.mark.parametrize("step", ["claimed", "spent", "opened", "evaluated", "estimate-kept"])
def test_a_worker_that_dies_at_any_step_costs_one_spend_and_leaves_one_estimate(ready: World, step: str):
    ready.steps.at[step] = die
    with pytest.raises(KeyboardInterrupt):
        ready.work("evaluate")
    ready.clock.pass_(minutes=2)
    ready.work("evaluate")
    assert charged_for_tests(ready) == (0, 2 * TENTH)
    assert spends(ready).count(EVALUATE) == 1
    assert len(ready.service.evaluations("taxi.speed")) == 1
    assert ready.service.verify_ledger(STREAM).faults == ()


def test_a_worker_whose_lease_was_lost_keeps_nothing(ready: World):
    told: list[RiskMass] = []

    def take_over() -> None:
        ready.clock.pass_(minutes=2)
        assert ready.service.work_on(EVALUATE)
        told.append(ready.service.evaluations("taxi.speed")[0].mass)

    ready.steps.at["evaluated"] = take_over
    assert ready.service.work_on(EVALUATE)
    (kept,) = ready.service.evaluations("taxi.speed")
    assert [kept.mass] == told


def test_an_evaluation_that_fails_keeps_the_spend_and_tells_a_fixed_code(ready: World):
    ready.evaluator.failing = RunFailed("memory-limit")
    ready.work("evaluate")
    assert ready.job(EVALUATE).outcome is Outcome.FAILED
    assert ready.notices() == [("taxi.speed evaluation of version 1", "memory-limit")]
    assert ready.service.evaluations("taxi.speed") == ()
    assert charged_for_tests(ready) == (0, 2 * TENTH)
    ready.clock.pass_(days=1)
    assert ready.work("evaluate") == []


def test_an_evaluation_that_takes_its_worker_down_again_and_again_is_given_up(ready: World):
    for _ in range(MAX_ATTEMPTS):
        ready.evaluator.meanwhile = die
        with pytest.raises(KeyboardInterrupt):
            ready.service.work_on(EVALUATE)
        ready.clock.pass_(minutes=2)
    ready.work("evaluate")
    assert ready.job(EVALUATE).outcome is Outcome.FAILED
    assert len(ready.evaluator.requests) == MAX_ATTEMPTS
    assert charged_for_tests(ready) == (0, 2 * TENTH)


def test_a_full_test_block_refuses_and_opens_nothing(ready: World):
    with ready.service.begin() as uow:  # somebody else was first on this block
        price = request("elsewhere", 0.9, (TEST, TEST + 1))
        charge = next(e for e in uow.ledger.journal(STREAM)).charge
        uow.ledger.append(
            replace(price, charge=replace(charge, amounts=(10**9,) * len(charge.amounts))),
            EntryKind.RESERVE,
            {},
        )
        uow.commit()
    ready.work("evaluate")
    assert ready.job(EVALUATE).outcome is Outcome.REFUSED
    assert ready.notices() == [("taxi.speed evaluation of version 1", "evaluation-denied")]
    assert ready.evaluator.requests == []


def test_expiry_wins_over_an_evaluation(ready: World):
    ready.service.close_windows(STREAM, ORIGIN + 3 * DAY, expire_unfinished=True)
    ready.work("expire")
    assert ready.job(EVALUATE).outcome is Outcome.EXPIRED
    assert ("taxi.speed evaluate of window 0", "expired") in ready.notices()
    assert charged_for_tests(ready) == (0, 0)
    assert ready.evaluator.requests == []


def test_an_evaluation_claimed_when_its_window_expires_spends_nothing(ready: World):
    ready.service.close_windows(STREAM, ORIGIN + 3 * DAY, expire_unfinished=True)
    ready.service.work_on(EVALUATE)
    assert ready.job(EVALUATE).outcome is Outcome.EXPIRED
    assert charged_for_tests(ready) == (0, 0)


def test_a_withdrawn_ptk_is_not_evaluated(ready: World):
    ready.service.deregister_ptk("taxi.speed")
    assert ready.job(EVALUATE).outcome is Outcome.WITHDRAWN
    assert ready.work("evaluate") == []
    assert charged_for_tests(ready) == (0, 0)


def test_a_lake_that_does_not_answer_costs_no_loss(ready: World, monkeypatch: pytest.MonkeyPatch):
    def silent(*_: object) -> None:
        raise Unavailable("the lake does not answer")

    monkeypatch.setattr(ready.service.lake, "read_version", silent)
    with pytest.raises(Unavailable):
        ready.work("evaluate")
    assert charged_for_tests(ready) == (0, 0)


def test_a_restored_catalog_evaluates_nothing(ready: World):
    home = Path(ready.service.settings.root)
    earlier = catalog_of(home)
    ready.work("evaluate")
    ready.service.close()
    del ready.service.__dict__["catalog"]
    put_back(home, earlier)
    with pytest.raises(CatalogBehind):
        ready.service.work_on(EVALUATE)
    assert len(ready.evaluator.requests) == 1
    ready.service.recover_ledger()
    assert ready.job(EVALUATE).outcome is Outcome.FAILED


@pytest.mark.parametrize("seconds", [0.0, 0.4])
def test_an_estimate_shows_only_at_the_next_tick(
    ready: World, monkeypatch: pytest.MonkeyPatch, seconds: float
):
    monkeypatch.setattr("time.sleep", lambda span: ready.clock.pass_(seconds=span))
    shown: list[datetime] = []
    ready.steps.at["estimate-kept"] = lambda: shown.append(ready.clock.now())
    ready.clock.pass_(seconds=seconds)
    ready.evaluator.meanwhile = lambda: ready.clock.pass_(seconds=0.3)
    ready.work("evaluate")
    (found,) = ready.service.evaluations("taxi.speed")
    assert [moment.microsecond for moment in (*shown, found.at)] == [0, 0]


def test_an_evaluation_in_a_process_of_its_own_tells_two_numbers(ready: World):
    del ready.service.__dict__["evaluator"]
    ready.work("evaluate")
    (found,) = ready.service.evaluations("taxi.speed")
    assert isinstance(found, Evaluation)
    assert ready.job(EVALUATE).outcome is Outcome.DONE


def test_a_test_set_that_was_changed_fails_with_a_fixed_code(ready: World):
    del ready.service.__dict__["evaluator"]
    for part in Path(ready.service.settings.raw).rglob(f"parts/{TEST}.parquet"):
        part.write_bytes(part.read_bytes()[:-100] + bytes(100))
    ready.work("evaluate")
    assert ready.notices() == [("taxi.speed evaluation of version 1", "rows-corrupt")]
    assert charged_for_tests(ready) == (0, 2 * TENTH)
