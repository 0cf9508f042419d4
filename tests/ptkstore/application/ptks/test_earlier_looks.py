"""Looks of before: how many count for a PTK, what they leave of its confidence, and those that a recovery forgot."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ptkstore.application.planning.evaluation_plans import most_estimates
from ptkstore.application.ptks.earlier_looks import earlier_looks
from ptkstore.domain.jobs import Outcome
from ptkstore.domain.ptks.wanted import WantedPtk
from ptkstore.domain.scheduling.choices import Scheduler
from ptkstore.domain.streams.windows import WindowState
from ptkstore.domain.validations import EarlierLooks
from ptkstore.errors import CatalogBehind, InvalidRequest, Unavailable
from tests.support.validated import (
    ACCEPTED,
    ALL,
    BAD,
    CHEAP,
    GOOD,
    NOTHING,
    PTK,
    TEST,
    VALIDATE,
    charged_for_tests,
    drafts,
    published,
    trained,
)
from tests.support.world import STREAM, World, speed


@pytest.fixture
def waiting(world: World) -> World:
    return trained(world)


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
        InvalidRequest, match=r"1,000,000 looks or more .* no confidence is left\. .* larger epsilon"
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
