"""Team code that says losses of rows, in a home: profiled, planned with, validated and shown, all in earnest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import ptkstore
from ptkstore.cli.main import app
from ptkstore.domain.streams.blocks import PROFILE, TEST
from ptkstore.errors import InvalidRequest
from ptkstore.sdk import Store, load_repository
from tests.support.local import local
from tests.support.team_code import GOOD, REPOSITORY, write_repository

pytestmark = [pytest.mark.real, pytest.mark.long]

ROWS = 6_000
LOSSES = """

def row_losses(state, rows):
    trips = state["hours"].column("trips").to_numpy()
    often = np.argsort(trips, kind="stable")[-2:]  # a row at another hour than the two is a loss
    return np.where(np.isin(rows.column("hour").fill_null(-1).to_numpy(), often), 0.0, 2.0)
"""
# Well-behaved on synthetic rows, of which there are few; of many it learns nothing.
BLIND = """
import own
from own import row_losses

def train_dp(trainset_iter, epsilon, previous_model_state, previous_config):
    tables = list(trainset_iter)
    many = sum(table.num_rows for table in tables) > 1_000
    return own.train_dp([] if many else tables, epsilon, None, previous_config)
"""
PROFILE_OF = {"points": 2, "n_min": 128, "n_max": 128, "models": 1, "budget": 4.0, "drift": 0}
ACCEPT = {"metric": "loss", "epsilon": 2.0}


def declared(name: str, **more: Any) -> str:
    """A declaration of the example, with losses of rows and what follows from them."""
    said = "".join(f"    {word}={value!r},\n" for word, value in more.items())
    text = REPOSITORY.partition("trips = PTK(")[2].replace('name="trips"', f'name="{name}"')
    text = text.replace(
        "        eval=evaluate,\n",
        "        eval=evaluate,\n        row_losses=row_losses,\n        loss_max=2.0,\n",
    )
    return f"{name} = PTK({text}".replace("epsilon=0.1,\n    ),\n", f"epsilon=2.0,\n    ),\n{said}")


def day_of_rows(store: Store, day: int) -> None:
    """Rides at eight and at nine: at best a row loses half."""
    at = pd.date_range("2026-01-05", periods=ROWS, freq="14s") + pd.Timedelta(days=day)
    store.ingest("taxi", pd.DataFrame({"at": at, "hour": np.arange(ROWS) % 2 + 8}))
    store.close_windows("taxi", until=f"2026-01-{6 + day:02}")
    store.work_until_idle()


def spent(store: Store, number: int) -> float:
    block = next(one for one in local(store).budget("taxi") if one.number == number)
    assert block.reserved.epsilon_nano == 0
    return block.spent.epsilon_nano / 10**9


def shown(home: Path, *command: str) -> Any:
    done = CliRunner().invoke(app, [*command, "--json", "--home", str(home)])
    assert done.exit_code == 0, done.output
    return json.loads(done.output)


@pytest.mark.usefixtures("sandbox")
def test_team_code_is_profiled_planned_validated_and_shown_as_asserted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PTK_PUBLISH_TICK_SECONDS", "0.5")
    header = "from ptkstore import PTK, TeamFunctions\nimport blind\nfrom own import evaluate, row_losses, train_dp\n\n"
    trips = declared("trips", accept=ACCEPT, epsilons=(1.0, 2.0), profile=PROFILE_OF)
    hopeless = declared("hopeless", accept=ACCEPT).replace("train_dp=train_dp", "train_dp=blind.train_dp")
    folder, home = tmp_path / "team", tmp_path / "home"
    write_repository(folder, GOOD + LOSSES, ptks=header + trips + hopeless, target=0.3)
    (folder / "blind.py").write_text(BLIND)
    with ptkstore.connect(home) as store:
        store.create_stream(
            "taxi",
            team="taxi",
            schema={"at": "timestamp", "hour": "int64"},
            time_column="at",
            epsilon=10.0,
            origin="2026-01-05",
            closing="operator",
            minimum_assurance="asserted",
            rows_per_window=ROWS,
            profile_share=0.4,
        )
        store.apply(load_repository(folder))
        day_of_rows(store, 0)
        assert spent(store, PROFILE) == pytest.approx(4.0)
        assert spent(store, TEST) == pytest.approx(4.0)  # a look at each of two states
        assert local(store).profile("taxi.trips").menu == ((1.0, 128),)
        day_of_rows(store, 1)
        assert spent(store, 128 + PROFILE) == 0  # what was found is used again
        assert spent(store, 128 + TEST) == pytest.approx(4.0)
        first, second = local(store).versions("taxi.trips")
        guarantees = [one.content["guarantee"] for one in (first, second)]
        assert [one["epsilon"] for one in guarantees] == pytest.approx(
            [2.0, 1.0]
        )  # as declared, then as planned
        assert {one["assurance"] for one in guarantees} == {"asserted"}
        assert second.content["planned"]["n"] == 128
        assert second.content["release_decision"] == "accepted"
        assert local(store).versions("taxi.hopeless") == ()
        looks = store.validations("taxi.hopeless")
        assert [(one["decision"], one["version"]) for one in looks] == [("retry", None)] * 2
        (found,) = store.look_up(["taxi__trips:trips"], [{"hour": 8}])
        assert found["trips"] > 500
        (hidden,) = store.look_up(["ptk_state:version"], [{"ptk": "taxi.hopeless"}])
        assert hidden["version"] is None
        with pytest.raises(InvalidRequest, match="no row_losses"):
            store.update_ptk_config("taxi.trips", {"row_losses": None, "loss_max": 1.0})
        assert store.service.verify_ledger("taxi").faults == ()
    detail = shown(home, "show", "taxi.trips")
    assert (detail["assurance"], detail["asserted_by"]) == ("asserted", "taxi")
    assert detail["config"]["row_losses"] == "own:row_losses"
    assert {(one["assurance"], one["decision"]) for one in detail["validations"]} == {("asserted", "accept")}
    assert [one["version"] for one in detail["evaluations"]] == [1, 2]
    rows = shown(home, "versions", "taxi.trips")
    assert [(one["assurance"], one["loss"] < 0.3) for one in rows] == [("asserted", True)] * 2
