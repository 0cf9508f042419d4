"""Commands about accountants, contexts, reserved shares and recovery."""

from __future__ import annotations

from pathlib import Path

import pytest

from ptkstore.domain.accounting.accountants import Accountant
from ptkstore.domain.accounting.losses import Loss
from ptkstore.domain.streams.policies import Policy
from ptkstore.sdk.store import connect
from tests.support.command_line import Line
from tests.support.local import local
from tests.support.world import World

CREATE = [
    *("stream", "create", "rides", "--team", "taxi", "--schema", "at:timestamp,hour:int64"),
    *("--time-column", "at", "--epsilon", "1", "--delta", "1e-6", "--origin", "2026-01-05"),
]


@pytest.fixture
def ptk(tmp_path: Path) -> Line:
    return Line(tmp_path / "home")


def policy(ptk: Line) -> Policy:
    with connect(ptk.home) as store, local(store).begin() as uow:
        return uow.streams.get("rides").policy


def test_a_stream_adds_up_renyi_divergences_unless_told_otherwise(ptk: Line) -> None:
    ptk.run(*CREATE)
    assert policy(ptk).accountant is Accountant.RENYI


def test_contexts_and_shares_are_given_on_the_command_line(ptk: Line) -> None:
    sharing = [
        *("--context", "eu=taxi,bikes", "--context", "us=fares"),
        *("--no-collusion", "separate staff and systems", "--reserve", "taxi.speed=0.25"),
        *("--accountant", "zcdp", "--train-partitions", "3", "--retire-below", "0.01"),
    ]
    ptk.run(*CREATE, *sharing)
    made = policy(ptk)
    assert made.lines == {
        "context eu": Loss.capacity(0.75, 0.75e-6),
        "context us": Loss.capacity(1, 1e-6),
        "ptk taxi.speed": Loss.capacity(0.25, 0.25e-6),
    }
    assert (made.accountant, made.train_partitions, made.retire_below) == (
        Accountant.ZCDP,
        3,
        Loss.capacity(0.01),
    )
    ptk.run(*CREATE, *sharing)  # equal content changes nothing
    ptk.run(*CREATE, code=1)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (("--accountant", "pld"), "choose from basic, renyi, zcdp"),
        (("--context", "eu"), "NAME=VALUE"),
        (("--context", "eu=taxi"), "no_collusion"),
        (("--reserve", "taxi.speed=much"), "no number"),
        (("--reserve", "taxi.speed=2"), "(0, 1]"),
        (("--retire-below", "2"), "at most the capacity's largest share"),
    ],
)
def test_wrong_words_are_refused_with_the_right_ones(ptk: Line, wrong: tuple[str, str], says: str) -> None:
    assert says in ptk.refused(*CREATE, *wrong, code=2)


def test_a_window_that_was_not_given_up_is_not_prepared_again(ptk: Line) -> None:
    ptk.run(*CREATE)
    assert "no closed window" in ptk.refused("stream", "prepare", "rides", "0", code=2)
    ptk.run("close", "rides", "--until", "2026-01-06")
    said = ptk.refused("stream", "prepare", "rides", "0", "--without-lost", code=1)
    assert "no PTK wanted" in said


def test_recovery_of_a_catalog_in_step_says_so(ptk: Line) -> None:
    ptk.run(*CREATE)
    assert "in step" in ptk.run("ledger", "recover").output
    (one,) = ptk.json("ledger", "recover")
    assert one == {
        "stream": "rides",
        "in_step": True,
        "windows_in_doubt": 0,
        "blocks_retired": 0,
        "runs_ended": 0,
        "versions_adopted": 0,
        "ptks_to_register": [],
        "stopped": False,
    }


def test_a_budget_says_how_many_more_fit_if_asked(tmp_path: Path) -> None:
    world = World(tmp_path / "home")
    world.stream()
    world.register(epsilon=0.3)
    world.service.close()
    line = Line(tmp_path / "home")
    told = "Room for 2 more PTKs like taxi.speed"
    assert told in line.run("budget", "taxi", "--room").output
    assert told not in line.run("budget", "taxi").output
    asked = line.run("budget", "taxi", "--room", "--json")
    assert told in asked.stderr
    assert told not in asked.stdout
