"""Register, update, deregister: what is refused and that a refusal changes nothing."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ptklib import CountFeaturizer
from ptkstore.application.planning.window_plans import plan_window
from ptkstore.domain.accounting.assurances import Assurance
from ptkstore.domain.jobs import JobKind, JobState, Outcome
from ptkstore.domain.ptks.wanted import WantedPtk
from ptkstore.errors import InvalidRequest, NameTaken, PtkRejected, SchemaMismatch, UnknownName
from tests.support.cases import case
from tests.support.world import CHAIN, STREAM, World, speed

NANO_TENTH = 10**8


def params(**changes: Any) -> Mapping[str, Any]:
    spec = speed()
    return {"family": spec["family"], "params": {**spec["params"], **changes}}


def test_an_epsilon_out_of_range_or_no_number_is_refused(world: World) -> None:
    for epsilon in [math.nan, math.inf, -0.1, 0, 9e-7, 10.1, 5e-324, True, "0.1", None, [0.1]]:
        with case(repr(epsilon)):
            with pytest.raises(InvalidRequest, match="epsilon"):
                world.register(epsilon=epsilon)
            assert world.service.ptks() == ()


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"domains": {"hour": ["8", "9"]}}, "column 'hour' has type int64, its domain needs string"),
        ({"domains": {"hour": [False, True]}}, "column 'hour' has type int64, its domain needs bool"),
        (
            {"keys": ["zone"], "domains": {"zone": [1, 2]}},
            "column 'zone' has type string, its domain needs int64",
        ),
        (
            {"values": ["zone"], "bounds": {"zone": [0, 1]}},
            "column 'zone' has type string, a number is needed",
        ),
        ({"bounds": {"speed": [0, 1e300]}}, "too wide or too narrow"),
    ],
)
def test_a_column_whose_type_no_value_of_the_declaration_has_is_refused(
    world: World, changes: dict[str, Any], found: str
) -> None:
    with pytest.raises(InvalidRequest, match=re.escape(found)):
        world.register(estimator=params(**changes))
    assert world.service.ptks() == ()


def test_a_wrong_registration_is_refused_with_what_would_be_right(world: World) -> None:
    for wrong, says in [
        ({"name": "Speed"}, "PTK name"),
        ({"name": "a__b"}, "PTK name"),
        ({"stream": "bikes"}, "no stream 'bikes'"),
        ({"target": 0}, "the target must be"),
        ({"target": math.nan}, "the target must be"),
        ({"target": True}, "the target must be"),
        ({"target": "0.1"}, "the target must be"),
        ({"train_frequency": "36h"}, "multiple"),
        ({"train_frequency": "soon"}, "duration"),
        ({"estimator": {"family": "os.system", "params": {}}}, "family"),
        ({"estimator": {"family": "CountFeaturizer"}}, "family"),
        ({"estimator": params(n_jobs=3)}, "n_jobs"),
        ({"estimator": params(bounds=None)}, "bounds"),
        ({"estimator": params(bounds={"speed": [60.0, 0.0]})}, "bounds"),
        ({"estimator": params(domains={"hour": []})}, "domain"),
        ({"estimator": params(domains={"minute": [1]}, keys=["minute"])}, "'minute'.*has at, hour"),
        ({"estimator": params(delta=-1)}, "delta"),
        ({"estimator": params(delta=0.5)}, "delta"),
    ]:
        with case(str((wrong, says))):
            with pytest.raises(InvalidRequest, match=says):
                world.register(**wrong)
            assert world.service.ptks() == ()
            with world.service.begin() as uow:
                assert uow.jobs.find() == ()


@pytest.mark.parametrize("odd", ["\0", "\x1b", "\x7f", "\x9b", "\ud800"], ids=ascii)
def test_a_text_that_cannot_be_stored_or_shown_is_refused(world: World, odd: str) -> None:
    texts = {"domains": {"zone": ["z", f"a{odd}b"]}, "keys": ["zone"]}
    for wrong in (
        {"estimator": params(**texts)},
        {"estimator": params(domains={f"a{odd}": [1]})},
        {"config": {"serve": [{"as": odd}]}},
        {"description": f"speed{odd}"},
    ):
        with pytest.raises(InvalidRequest, match=rf"U\+{ord(odd):04X}") as refusal:
            world.register(**wrong)
        assert str(refusal.value).isprintable()
    assert world.service.ptks() == ()
    world.register(description="of taxis,\n\tby the hour \N{TAXI}")
    with pytest.raises(InvalidRequest, match=r"U\+"):
        world.service.update_ptk("taxi.speed", description=odd)


def test_a_refused_ptk_leaves_everybodys_plan_as_it_was_and_the_streams_owner_is_told(world: World) -> None:
    for name, epsilon in (("a", 0.2), ("b", 0.3), ("c", 0.4)):
        world.register(name=name, epsilon=epsilon)
    policy = world.service.streams()[0].policy
    before = plan_window(world.service.ptks(), policy)
    for _ in range(2):
        with pytest.raises(PtkRejected, match=r"epsilon 0\.1, delta 0"):
            world.register(name="aa", epsilon=0.11)
    assert plan_window(world.service.ptks(), policy) == before
    assert plan_window(tuple(reversed(world.service.ptks())), policy) == before
    with pytest.raises(PtkRejected):
        world.service.update_ptk("taxi.c", estimator=speed(0.51))
    assert plan_window(world.service.ptks(), policy) == before
    told = [(f"{STREAM} taxi.aa", "ptk-rejected"), (f"{STREAM} taxi.c", "ptk-rejected")]
    assert world.notices() == told
    world.register(name="aa", epsilon=0.1)  # what the refusal said would fit


def test_who_repeats_a_registration_gets_the_same_answer_and_changes_nothing(world: World) -> None:
    made = [world.register(epsilon=0.9) for _ in range(3)]
    assert made == ["taxi.speed"] * 3
    assert len(world.service.ptks()) == 1
    assert world.notices() == []
    with world.service.begin() as uow:
        assert len(uow.jobs.find(ptk_id="taxi.speed")) == 2


def test_a_name_that_is_registered_is_taken(world: World) -> None:
    world.register()
    with pytest.raises(NameTaken):
        world.register(epsilon=0.2)
    with pytest.raises(NameTaken):
        world.register(epsilon=0.99)  # not that there is no room
    assert world.notices() == []


@pytest.mark.parametrize("taken", [0.1, 0.1234567, 0.123456789, 0.999999])
def test_a_rejection_says_what_is_left_and_a_ptk_within_it_fits(world: World, taken: float) -> None:
    world.register("first", taken)
    with pytest.raises(PtkRejected) as rejection:
        world.register("second", 0.95)
    asked, left, _ = re.findall(r"epsilon (\S+),", str(rejection.value))
    assert asked == "0.95"
    assert [p.ptk_id for p in world.service.ptks()] == ["taxi.first"]
    with pytest.raises(PtkRejected):
        world.register("second", float(left) + 1e-8)
    world.register("second", float(left))
    with pytest.raises(PtkRejected, match="no noise of its kind fits"):
        world.register("third", 1e-6)


def test_a_stream_may_want_less_assurance_but_never_more_than_there_is(world: World) -> None:
    world.stream("open", minimum_assurance=Assurance.ASSERTED)
    world.register(stream="open")
    assert world.service.ptks()[0].assurance is Assurance.LIBRARY


def test_ptks_of_other_streams_leave_the_budget_alone(world: World) -> None:
    world.stream("bikes")
    world.register("one", 1)
    world.register("two", 1, stream="bikes")
    assert len(world.service.ptks(stream=STREAM)) == 1


def test_a_ptk_starts_with_idle_cursors_and_public_tables(world: World) -> None:
    counts = CountFeaturizer(
        features=["hour"], label="long", classes=[False, True], domains={"hour": [0, 1]}, epsilon=0.2
    )
    ptk_id = world.register("counts", estimator=counts.to_spec())
    (spec,) = world.service.ptks()
    assert (spec.family, spec.loss.epsilon_nano) == ("CountFeaturizer", 2 * NANO_TENTH)
    assert spec.tables["hour"]["keys"] == ["hour"]
    for kind in (JobKind.PLACE, JobKind.FLIP):
        assert world.cursor(kind, ptk_id).state is JobState.IDLE


# update


def test_an_update_is_checked_like_a_registration_and_a_refused_one_changes_nothing(world: World) -> None:
    ptk_id = world.register("one", 0.5)
    world.register("two", 0.4)
    before = world.service.ptks()
    for wrong, error in (
        ({"estimator": speed(0.7)}, PtkRejected),
        ({"estimator": speed(math.nan)}, InvalidRequest),
        ({"target": -1}, InvalidRequest),
        ({"estimator": params(domains={"minute": [1]}, keys=["minute"])}, InvalidRequest),
    ):
        with pytest.raises(error):
            world.service.update_ptk(ptk_id, **wrong)
        assert world.service.ptks() == before
    assert world.service.update_ptk(ptk_id, estimator=speed(0.6)).loss.epsilon_nano == 6 * NANO_TENTH
    with pytest.raises(UnknownName):
        world.service.update_ptk("taxi.three", target=0.2)


def test_a_reserved_training_keeps_its_loss_when_its_ptk_changes(world: World) -> None:
    ptk_id = world.register(epsilon=0.3)
    world.ingest()
    world.close(1)
    world.work("prepare", "allocate")
    world.service.update_ptk(ptk_id, estimator=speed(0.1))
    world.work("train")
    assert world.train_block(0) == (0, 3 * NANO_TENTH)
    assert world.trainer.requests[0].epsilon == pytest.approx(0.3)
    world.work("place")
    assert world.service.versions(ptk_id)[0].content["guarantee"]["epsilon"] == pytest.approx(0.3)


# deregister


def test_deregistering_gives_unopened_reservations_back_and_takes_the_views_away(world: World) -> None:
    ptk_id = world.register()
    world.publish(0)
    assert world.views.shown == {ptk_id: 1}
    world.ingest((1.5,))
    world.close(2)
    world.work("prepare", "allocate")
    assert world.train_block(1) == (NANO_TENTH, 0)
    world.service.deregister_ptk(ptk_id)
    assert world.train_block(1) == (0, 0)
    assert world.train_block(0) == (0, NANO_TENTH)  # spent stays spent
    assert world.work("flip") == ["flip/taxi.speed"]  # a job, so that a crash leaves no views behind
    assert world.views.shown == {}
    assert world.job("train/taxi.speed/1").outcome is Outcome.WITHDRAWN
    assert (ptk_id, "deregistered") in world.notices()
    assert len(world.service.versions(ptk_id)) == 1  # the lake keeps what was published
    assert world.work() == []
    with pytest.raises(UnknownName):
        world.service.deregister_ptk(ptk_id)


def test_a_ptk_deregistered_while_it_trains_keeps_its_spend_and_publishes_nothing(world: World) -> None:
    ptk_id = world.register()
    world.ingest()
    world.close(1)
    world.trainer.meanwhile = lambda: world.service.deregister_ptk(ptk_id)
    world.work()
    assert world.train_block(0) == (0, NANO_TENTH)
    assert world.job("train/taxi.speed/0").outcome is Outcome.WITHDRAWN
    assert world.drafts() == []
    with world.service.begin() as uow:
        assert uow.versions.of(ptk_id) == ()


def test_a_state_elected_before_its_ptk_was_deregistered_is_not_shown_again(world: World) -> None:
    ptk_id = world.register()
    world.ingest()
    world.close(1)
    world.work("prepare", "allocate", "train")
    world.service.deregister_ptk(ptk_id)
    world.work("place", "flip")
    assert (world.views.staged, world.views.shown) == ([], {})
    assert world.cursor(JobKind.FLIP, ptk_id).position == 1


@pytest.mark.parametrize("step", ["staged-online", "flipped"])
def test_a_state_that_is_shown_while_its_ptk_is_deregistered_is_taken_away_again(
    world: World, step: str
) -> None:
    ptk_id = world.register()
    world.ingest()
    world.close(1)
    world.work()
    world.steps.at[step] = lambda: world.service.deregister_ptk(ptk_id)
    world.work("flip")
    assert world.views.shown == {}


def test_a_state_that_is_shown_just_before_its_ptk_is_removed_is_taken_away_again(world: World) -> None:
    ptk_id = world.register()
    world.ingest()
    world.close(1)
    world.work()
    withdraw = world.views.withdraw

    def slow(name: str) -> None:
        withdraw(name)
        world.work("flip")

    world.views.withdraw = slow  # type: ignore[method-assign]
    world.service.deregister_ptk(ptk_id)
    assert world.views.shown == {}


@pytest.mark.parametrize(
    ("keys", "values", "says"),
    [(["hour"], ["zone"], "zone"), (["at"], ["speed"], "at"), (["speed"], ["speed"], "speed")],
)
def test_an_estimator_that_cannot_read_the_declared_types_is_refused_before_it_costs(
    world: World, keys: list[str], values: list[str], says: str
) -> None:
    estimator = {
        "family": "HistoricalStatistics",
        "params": {
            **speed()["params"],
            "keys": keys,
            "values": values,
            "domains": {keys[0]: [1, 2]},
            "bounds": {values[0]: [0.0, 1.0]},
        },
    }
    with pytest.raises(InvalidRequest, match=says):
        world.register(estimator=estimator)
    assert world.service.ptks() == ()


def test_a_ptk_whose_columns_feast_could_not_name_is_refused_before_it_costs(tmp_path: Path) -> None:
    world = World(tmp_path / "home")
    del world.service.__dict__["features"]  # the real one
    world.stream()
    estimator = CountFeaturizer(
        ["hour"], "zone", classes=["_a", "b"], domains={"hour": [1]}, epsilon=0.1
    ).to_spec()
    with pytest.raises(InvalidRequest, match="count__a"):
        world.register(estimator=estimator)
    assert world.service.ptks() == ()


def test_the_least_epsilon_there_is_can_be_trained(world: World) -> None:
    world.register(epsilon=1e-6)
    world.ingest()
    world.close(1)
    world.work(*CHAIN)
    assert world.train_block(0) == (0, 1_000)
    assert len(world.service.versions("taxi.speed")) == 1


def test_names_that_new_ptks_may_not_have_are_kept_by_those_that_have_them(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.stream()
    ptk_id = world.register()

    def check_names(*_: object) -> None:
        raise SchemaMismatch("of several tables none may be named so")

    monkeypatch.setattr(world.service.features, "check_names", check_names)
    assert world.register() == ptk_id
    world.service.update_ptk(ptk_id, target=0.2, description="hours")
    same = WantedPtk("speed", {"estimator": speed(0.05), "target": 0.2})
    world.service.exchange_ptks(team="taxi", stream=STREAM, wanted=[same])
    other = params(statistics=["count"])
    for change in (
        lambda: world.register("other"),
        lambda: world.service.update_ptk(ptk_id, estimator=other),
        lambda: world.service.exchange_ptks(team="taxi", stream=STREAM, wanted=[replace(same, name="other")]),
        lambda: world.service.exchange_ptks(
            team="taxi", stream=STREAM, wanted=[WantedPtk("speed", {"estimator": other, "target": 0.2})]
        ),
    ):
        with pytest.raises(SchemaMismatch):
            change()
    (spec,) = world.service.ptks()
    assert (spec.ptk_id, spec.target, spec.description) == (ptk_id, 0.2, "")
