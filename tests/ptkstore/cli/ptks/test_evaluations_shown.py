"""What people see of evaluations: `ptk show`, `ptk versions`, `ptk budget`, and the store's own methods."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ptklib import HistoricalStatistics
from ptkstore import sdk
from ptkstore.sdk import Repository, Store
from tests.support.command_line import Line
from tests.support.world import World

PTK = "taxi.speed"
FIELDS = {
    *("version", "window", "windows", "loss", "standard_error", "units", "epsilon", "at"),
    *("assurance", "asserted_by"),
}


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> tuple[Line, list[dict[str, Any]], Any]:
    """The command line of a home with two versions, the first of which was evaluated."""
    home = tmp_path_factory.mktemp("evaluated") / "home"
    world = World(home)
    world.stream(epsilon=10)
    world.register(config={"evaluate": {"epsilon": 8}})
    world.ingest([i / 400 for i in range(400)])
    world.close(1)
    world.work("prepare", "allocate", "train", "place", "flip", "evaluate")
    world.publish(1)
    store = Store(world.service)
    evaluations, ptks = store.evaluations(PTK), [store.ptk(PTK, number) for number in (1, 2)]
    world.service.close()
    return Line(home), evaluations, ptks


def test_the_store_shows_an_estimate_beside_its_version(seen: tuple[Line, list[dict[str, Any]], Any]):
    _, (one,), (first, second) = seen
    assert set(one) == FIELDS
    assert (one["version"], one["window"], one["epsilon"]) == (1, 0, 8.0)
    assert 0 <= one["loss"] <= 1  # of about 40 units: noise of 40 and more has a probability below e**-160
    assert 0 < one["standard_error"] < 1
    assert (one["assurance"], one["asserted_by"]) == ("library", None)
    assert first.evaluation == one
    assert second.evaluation is None


def test_commands_show_estimates(seen: tuple[Line, list[dict[str, Any]], Any]):
    ptk, (one,), _ = seen
    assert ptk.json("show", PTK)["evaluations"] == [one]
    assert "Evaluations" in ptk.run("show", PTK).output
    first, second = ptk.json("versions", PTK)
    assert (first["loss"], first["standard_error"]) == (one["loss"], one["standard_error"])
    assert (second["loss"], second["standard_error"]) == (None, None)


def test_the_budget_shows_what_test_blocks_paid(seen: tuple[Line, list[dict[str, Any]], Any]):
    ptk, _, _ = seen
    blocks = ptk.json("budget", "taxi")
    paid = {(row["window"], row["part"]): row["spent_epsilon"] for row in blocks if row["spent_epsilon"]}
    assert paid == {(0, "test"): 8.0, (0, "train-0"): 0.1, (1, "train-0"): 0.1}


def test_a_repository_declares_what_an_estimate_costs(tmp_path: Path):
    world = World(tmp_path / "home")
    world.stream()
    store = Store(world.service)
    speeds = HistoricalStatistics(
        ["hour"], ["speed"], domains={"hour": list(range(24))}, bounds={"speed": (0, 60)}, epsilon=0.1
    )
    declared = sdk.PTK("speed", "taxi", speeds, target=0.1, evaluate={"epsilon": 0.2})
    for action in ("register", "keep"):
        assert [c.action for c in store.apply(Repository("taxi", (declared,)))] == [action]
    assert world.service.ptks()[0].config == {"evaluate": {"epsilon": 0.2}}
    world.service.close()
