"""`ptk test-privacy`: exit codes and documents, and that it reads no row and spends nothing."""

from __future__ import annotations

import hashlib
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ptkstore.cli import output
from ptkstore.cli.main import app
from ptkstore.sdk import connect
from tests.support.audits import halved_noise

PTK = "taxi.counts"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    from ptklib import HistoricalStatistics

    home = tmp_path / "home"
    schema = {"at": "timestamp", "hour": "int64"}
    with connect(home) as store:
        store.create_stream(
            "trips", team="taxi", schema=schema, time_column="at", epsilon=5.0, rows_per_window=100
        )
        estimator = HistoricalStatistics(domains={"hour": [0, 1]}, statistics="count", epsilon=2.0)
        store.register_ptk(estimator, name="counts", stream="trips", target=0.1)
    return home


def run(home: Path, *words: str, code: int) -> Any:
    result = CliRunner().invoke(app, ["test-privacy", *words], env={"PTK_HOME": str(home), "COLUMNS": "200"})
    assert result.exit_code == code, result.output
    return result


def files(home: Path) -> dict[str, str]:
    return {
        str(path.relative_to(home)): hashlib.sha256(path.read_bytes()).hexdigest()
        for part in ("raw", "lake", "keys")
        for path in (home / part).rglob("*")
        if path.is_file()
    }


def test_an_honest_ptk_is_consistent_and_nothing_is_read_or_spent(home: Path) -> None:
    with connect(home) as store:
        before = files(home), store.budget("trips")
    document = json.loads(run(home, PTK, "--runs", "200", "--json", code=0).stdout)
    assert (document["ptk"], document["verdict"]) == (PTK, "consistent")
    (found,) = document["audits"]
    assert (found["epsilon"], found["delta"], found["confidence"], found["runs"]) == (2.0, 0.0, 0.999, 200)
    assert 0.0 <= found["lower_bound"] <= 2.0
    with connect(home) as store:
        assert (files(home), store.budget("trips")) == before


def test_a_ptk_with_half_the_noise_is_contradicted(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    halved_noise(monkeypatch)
    shown = run(home, PTK, "--runs", "1200", code=1).stdout
    assert "contradicted" in shown
    assert "loses more than it declares" in shown


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["taxi.nothing"], "unknown-name: there is no PTK 'taxi.nothing'"),
        (["counts"], "must be <team>.<name>"),
        ([PTK, "--runs", "10"], "--runs"),
        ([PTK, "--runs", "many"], "--runs"),
    ],
)
def test_wrong_use_is_told(home: Path, words: list[str], says: str) -> None:
    assert says in run(home, *words, code=2).stderr


def test_it_says_how_many_trainings_are_done(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(home, PTK, "--runs", "200", "--json", code=0).stderr == ""
    screen = io.StringIO()
    monkeypatch.setattr(output, "said", output._Terminal(file=screen, force_terminal=True, width=120))
    json.loads(run(home, PTK, "--runs", "200", "--json", code=0).stdout)
    told = re.sub("\x1b\\[[0-9;?]*[a-zA-Z]", "", screen.getvalue())
    assert re.search(rf"training {PTK} on synthetic rows .* \d+/(6|4|2)00 ", told)
