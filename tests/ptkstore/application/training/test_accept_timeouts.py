"""Timeouts: a PTK that no verdict accepts for long enough is given up, and starts anew when its owner says so."""

from __future__ import annotations

from typing import Any

import pytest

from ptkstore.domain.jobs import JobKind, Outcome
from ptkstore.domain.ptks.accept_deadlines import AcceptDeadline, GivenUp
from ptkstore.errors import Conflict, InvalidRequest, UnknownName
from ptkstore.ports.row_processes import RunFailed
from tests.support.cases import case
from tests.support.world import CHAIN, STREAM, World

PTK = "taxi.speed"
ALL = (*CHAIN, "validate", "flip")
ROWS = [i / 1_000 for i in range(1_000)]
GOOD, BAD = 0.9, 1e-9


def accept(timeout: str | None = "2d", **more: Any) -> dict[str, Any]:
    terms = {"metric": "loss", "epsilon": 0.9, **more}
    return {"accept": terms if timeout is None else {**terms, "timeout": timeout}}


def window(world: World, day: int) -> None:
    """One more window, up to its verdict."""
    world.ingest([day + one for one in ROWS])
    world.close(day + 1)
    world.work(*ALL)


def waiting(world: World) -> AcceptDeadline | None:
    return world.service.ptk(PTK).waiting


def trained_windows(world: World) -> list[int]:
    with world.service.begin() as uow:
        runs = [job for job in uow.jobs.find(ptk_id=PTK) if job.kind is JobKind.TRAIN]
    return sorted(job.window.index for job in runs if job.outcome is not Outcome.WITHDRAWN)


def codes(world: World) -> list[str]:
    return [code for _, code in world.notices()]


def test_a_ptk_that_nobody_accepts_for_its_timeout_is_given_up(world: World) -> None:
    world.register(config=accept(), target=BAD)
    window(world, 0)
    assert waiting(world) == AcceptDeadline(0)
    window(world, 1)
    assert waiting(world) == AcceptDeadline(0, GivenUp.TIMEOUT)
    assert world.notices()[-2:] == [
        (f"{PTK} validate of window 1", "validation-retry"),
        (f"{PTK} validate of window 1", "validation-timeout"),
    ]
    window(world, 2)
    assert trained_windows(world) == [0, 1]
    assert world.train_block(2) == (0, 0)
    assert codes(world).count("validation-timeout") == 1
    assert not world.service.ptk(PTK).wants(3)


def test_without_a_timeout_a_ptk_is_trained_on(world: World) -> None:
    world.register(config=accept(None), target=BAD)
    for day in range(4):
        window(world, day)
    assert len(world.service.validations(PTK)) == 4
    assert "validation-timeout" not in codes(world)


def test_an_accepted_version_begins_the_wait_anew(world: World) -> None:
    world.register(config=accept(), target=GOOD)
    for day in (0, 1, 2):
        window(world, day)
    assert waiting(world) == AcceptDeadline(3)
    assert [one.number for one in world.service.versions(PTK)] == [1, 2, 3]


def test_reserved_trainings_of_a_ptk_that_is_given_up_release_what_they_hold(world: World) -> None:
    world.register(config=accept("1d"), target=BAD)
    for day in (0, 1):
        world.ingest([day + one for one in ROWS])
    world.close(2)
    world.work("prepare", "allocate")
    assert world.train_block(1)[0] > 0
    world.work(*ALL)
    assert waiting(world) == AcceptDeadline(0, GivenUp.TIMEOUT)
    assert world.job(f"train/{PTK}/1").outcome is Outcome.WITHDRAWN
    assert world.train_block(1) == (0, 0)
    assert len(world.service.validations(PTK)) == 1
    assert world.service.verify_ledger(STREAM).faults == ()


def test_windows_that_never_got_a_verdict_count_too(world: World) -> None:
    world.register(config=accept(), target=GOOD)
    for day in (0, 1):
        world.evaluator.failing = RunFailed("memory-limit")
        window(world, day)
    assert waiting(world) == AcceptDeadline(0)  # nobody has looked
    window(world, 2)
    assert waiting(world) == AcceptDeadline(0, GivenUp.TIMEOUT)
    assert world.notices()[-1] == (f"{PTK} validate of window 2", "validation-timeout")
    assert trained_windows(world)[-1] == 1


def test_a_verdict_that_is_under_way_is_waited_for(world: World) -> None:
    world.register(config=accept("1d"), target=GOOD)
    world.ingest(ROWS)
    world.close(1)
    world.work(*CHAIN)
    world.ingest([1 + one for one in ROWS])
    world.close(2)
    world.work("prepare", "allocate")
    assert waiting(world) == AcceptDeadline(0)
    world.work(*ALL)
    assert [one.number for one in world.service.versions(PTK)] == [1, 2]


@pytest.mark.parametrize("how", ["resume", "target", "registered again"])
def test_a_ptk_that_was_given_up_starts_anew(world: World, how: str) -> None:
    world.register(config=accept("1d"), target=BAD)
    window(world, 0)
    assert waiting(world) == AcceptDeadline(0, GivenUp.TIMEOUT)
    if how == "resume":
        assert world.service.resume_ptk(PTK) == 1
        assert world.service.resume_ptk(PTK) == 1
    elif how == "target":
        assert world.service.update_ptk(PTK, target=2 * BAD).waiting == AcceptDeadline(1)
    else:
        world.service.deregister_ptk(PTK)
        world.register(config=accept("1d"), target=BAD)
    assert waiting(world) == AcceptDeadline(1)
    window(world, 1)
    assert [(one.window_index, one.look) for one in world.service.validations(PTK)] == [(0, 1), (1, 2)]
    assert waiting(world) == AcceptDeadline(1, GivenUp.TIMEOUT)


def test_neither_a_repeated_registration_nor_another_description_starts_anew(world: World) -> None:
    world.register(config=accept("1d"), target=BAD)
    window(world, 0)
    world.register(config=accept("1d"), target=BAD)
    world.service.update_ptk(PTK, description="mean speed")
    assert waiting(world) == AcceptDeadline(0, GivenUp.TIMEOUT)


def test_a_state_that_waits_is_judged_when_its_timeout_alone_changes(world: World) -> None:
    world.register(config=accept("1d"), target=GOOD)
    world.ingest(ROWS)
    world.close(1)
    world.work(*CHAIN)
    world.service.update_ptk(PTK, config=accept("2d"))
    world.work("validate")
    assert [one.number for one in world.service.validations(PTK)] == [1]


def test_who_waits_for_nothing_cannot_be_resumed(world: World) -> None:
    world.register()
    assert waiting(world) is None
    with pytest.raises(Conflict, match="does not wait"):
        world.service.resume_ptk(PTK)
    with pytest.raises(UnknownName):
        world.service.resume_ptk("taxi.nobody")


def test_a_ptk_that_asks_for_no_verdict_any_more_waits_for_nothing(world: World) -> None:
    world.register(config=accept("1d"), target=BAD)
    window(world, 0)
    world.service.update_ptk(PTK, config={})
    assert waiting(world) is None
    window(world, 1)
    assert [one.number for one in world.service.versions(PTK)] == [1]


def test_timeouts_that_no_ptk_can_have_are_refused(world: World) -> None:
    refused = {
        "3d": "the stream keeps rows for 2d after their window",
        "12h": "shorter than the time between two trainings, 1d",
        "soon": "is no duration",
        "": "is no duration",
    }
    for timeout, why in refused.items():
        with case(timeout), pytest.raises(InvalidRequest, match=why):
            world.register(config=accept(timeout))
    for odd in (2, True, ["2d"]):
        with case(str(odd)), pytest.raises(InvalidRequest, match="is no duration"):
            world.register(config={"accept": {"metric": "loss", "epsilon": 0.9, "timeout": odd}})
    with pytest.raises(InvalidRequest, match="shorter than the time between two trainings, 2d"):
        world.register(config=accept("1d"), train_frequency="2d")
    assert world.service.ptks() == ()
