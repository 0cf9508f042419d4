"""A forest that nobody has a formula for: profiled on one window, trained on fewer rows of the next, watched, shown."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from ptklib import TreeFeaturizer
from ptkstore import PTK
from ptkstore.cli.main import app
from ptkstore.sdk import Repository, Store
from tests.support.world import STREAM, World, trips

pytestmark = pytest.mark.long

ROWS = 24_000
FOREST = PTK(
    name="long",
    stream=STREAM,
    estimator=TreeFeaturizer(
        features=["speed"],
        label="long",
        classes=[False, True],
        bounds={"speed": (0.0, 60.0)},
        n_estimators=2,
        max_depth=2,
        epsilon=2.0,
    ),
    target=0.1,  # half of Brier's score: one who always says a half has .25, and 2 tau is .2
    epsilons=(0.7, 1.0),
    profile={"points": 2, "n_max": 1_024, "models": 2, "drift": 1.0},
)
KINDS = ("prepare", "allocate", "profile", "drift", "train", "place")


def rides(day: int) -> pa.Table:
    """Fast rides are long."""
    speeds = np.random.default_rng(day).uniform(0.0, 60.0, ROWS)
    days = (day + np.arange(ROWS) / ROWS * 0.9).tolist()
    return trips(days, speed=pa.array(speeds), long=pa.array(speeds > 30))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Two windows; rows are opened in processes of their own for trainings, profiles and tests."""
    world = World(tmp_path_factory.mktemp("profiles") / "home")
    for name in ("trainer", "profiler"):
        del world.service.__dict__[name]
    world.stream(epsilon=9, rows_per_window=ROWS, profile_share=Decimal("0.5"))
    Store(world.service).apply(Repository("taxi", (FOREST,)))
    for day in range(2):
        world.service.ingest(STREAM, rides(day))
        world.close(day + 1)
        world.work(*KINDS)
    yield world
    world.service.close()


def test_the_second_window_opens_the_rows_that_the_first_one_found(world: World) -> None:
    view = world.service.profile("taxi.long")
    assert (view.method, view.state, view.evaluation) == ("samples", "answered", "rows")
    assert view.menu
    assert all(128 <= n <= 1_024 for _, n in view.menu)
    first, second = (version.content for version in world.service.versions("taxi.long"))
    assert (first["planned"]["n"], first["guarantee"]["epsilon"]) == (0.4 * ROWS, 2.0)
    assert second["planned"]["n"] == min(n for _, n in view.menu)
    assert second["guarantee"]["epsilon"] in (0.7, 1.0)


def test_all_that_was_told_was_paid_for_on_profile_blocks(world: World) -> None:
    paid = [(one.what, one.window, one.blocks.lo) for one in world.service.profile("taxi.long").paid]
    assert paid == [("profile", 0, 0), ("drift", 1, 128)]
    blocks = {row["block"]: row for row in Store(world.service).budget(STREAM)}
    assert (blocks[0]["part"], blocks[0]["spent_epsilon"]) == ("profile", 4.5)
    assert (blocks[128]["part"], blocks[128]["spent_epsilon"]) == ("profile", 1.0)
    assert world.service.verify_ledger(STREAM).faults == ()


def test_nothing_has_drifted_and_the_owner_was_told_once(world: World) -> None:
    assert world.service.profile("taxi.long").drifted_at is None
    assert world.notices() == [("taxi.long profile", "profiled")]


def test_the_command_line_shows_the_profile(world: World, tmp_path: Path) -> None:
    home = str(world.service.settings.root)
    told = CliRunner().invoke(app, ["show", "taxi.long", "--home", home, "--json"])
    shown = json.loads(told.stdout)
    profile = shown["profile"]
    assert (profile["method"], profile["state"], profile["age_in_windows"]) == ("samples", "answered", 1)
    assert [answer["answer"] for answer in profile["answers"]] == ["found", "found"]
    assert [one["epsilon"] for one in profile["paid"]] == [4.5, 1.0]
    assert [job["window"] for job in shown["trainings"]] == [0, 1]
    people = CliRunner().invoke(app, ["show", "taxi.long", "--home", home])
    assert people.exit_code == 0
    assert "by samples: answered, 1 of 30 windows old" in people.stdout
