"""`ptk notices`, and what `ptk show` and `ptk stream show` tell owners."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from ptkstore.domain.notices import Notice
from ptkstore.ports.row_processes import RunFailed
from tests.support.command_line import Line
from tests.support.world import NOW, World

PTK = "taxi.speed"
KILLED = "killed: Its process was killed. Something of the service or its machine went wrong: see the worker's log."


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A home in which a training has failed, and two teams were told of an endpoint."""
    made = World(tmp_path / "home")
    made.stream()
    made.register()
    made.publish(0)
    made.trainer.failing = RunFailed("killed")
    made.publish(1)
    with made.service.begin() as uow:
        for team in ("ads", "taxi"):
            at = NOW + timedelta(days=1)
            uow.notify_owner(Notice(at, team, "subscription-disabled", ptk_id=PTK, subscription_id="sub_0"))
        uow.commit()
    return made


@pytest.fixture
def ptk(tmp_path: Path, world: World) -> Line:
    return Line(tmp_path / "home")


def test_the_words_left_for_every_team_are_shown(ptk: Line, world: World) -> None:
    failed, ads, taxi = ptk.json("notices")
    assert failed == {
        "at": world.clock.now().isoformat(),
        "team": "taxi",
        "subject": f"{PTK} window 1",
        "code": "killed",
    }
    assert (ads["team"], taxi["team"], taxi["code"]) == ("ads", "taxi", "subscription-disabled")
    assert ptk.json("notices", "--team", "ads") == [ads]
    assert ptk.json("notices", "--since", (NOW + timedelta(days=1)).strftime("%Y-%m-%d")) == [ads, taxi]
    assert ptk.run("notices").stdout.splitlines()[-2:] == [
        KILLED,
        "subscription-disabled: The endpoint answered 410, or failed for ten days. "
        "Nothing is sent to it until ptk enable.",
    ]
    ptk.run("team", "create", "quiet")
    assert ptk.json("notices", "--team", "quiet") == []
    assert "no notices match" in ptk.run("notices", "--team", "quiet").output
    assert "no notices match" in ptk.run("notices", "--since", "2099-01-01").output
    assert "there is no team 'quite'; did you mean 'quiet'?" in ptk.refused(
        "notices", "--team", "quite", code=2
    )
    assert "see: ptk team list" in ptk.refused("notices", "--team", "nobody", code=2)
    assert "Ads" in ptk.refused("notices", "--team", "Ads", code=2)


def test_a_ptk_is_shown_with_its_trainings_and_the_words_for_its_team(ptk: Line, world: World) -> None:
    shown = ptk.json("show", PTK)
    failed, disabled = shown["notices"]
    assert shown["trainings"] == [
        {
            "window": 0,
            "oldest_window": 0,
            "look": 1,
            "state": "ended",
            "outcome": "published",
            "code": None,
            "version": 1,
            "ended_at": shown["newest"]["published_at"],
        },
        {
            "window": 1,
            "oldest_window": 1,
            "look": 1,
            "state": "ended",
            "outcome": "failed",
            "code": "killed",
            "version": None,
            "ended_at": failed["at"],
        },
    ]
    assert [one["code"] for one in (failed, disabled)] == ["killed", "subscription-disabled"]
    assert set(failed) == {"at", "subject", "code"}
    text = ptk.run("show", PTK).output
    for word in ("Trainings", "Notices"):
        assert word in text
    assert text.count(KILLED) == 1
