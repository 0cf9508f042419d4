"""A stream with PTKs for which rows are recommended, for the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from ptkstore.cli.main import app

CREATE = [
    *("stream", "create", "taxi", "--team", "taxi", "--schema", "at:timestamp,hour:int64,speed:float64"),
    *("--time-column", "at", "--epsilon", "1", "--origin", "2026-01-05", "--closing", "operator"),
    *("--rows-per-window", "1000"),
]


PTKS = """
from ptklib import HistoricalStatistics
from ptkstore import PTK

for name in ("speed", "slow"):
    globals()[name] = PTK(
        name=name,
        stream="taxi",
        target=0.1,
        estimator=HistoricalStatistics(
            keys=["hour"], values=["speed"], domains={"hour": [0, 1]}, bounds={"speed": (0.0, 60.0)}, epsilon=0.4
        ),
    )
"""


class Line:
    """`ptk` in a home of its own."""

    def __init__(self, home: Path) -> None:
        self.home = home

    def run(self, *words: str, code: int = 0) -> Result:
        result = CliRunner().invoke(app, list(words), env={"PTK_HOME": str(self.home), "COLUMNS": "200"})
        assert result.exit_code == code, result.output
        return result

    def json(self, *words: str) -> Any:
        return json.loads(self.run(*words, "--json").stdout)


@pytest.fixture
def ptk(tmp_path: Path) -> Line:
    line = Line(tmp_path / "home")
    line.run(*CREATE)
    return line


@pytest.fixture
def taxi(ptk: Line, tmp_path: Path) -> Line:
    team = tmp_path / "team"
    team.mkdir()
    (team / "team.toml").write_text('team = "taxi"')
    (team / "ptks.py").write_text(PTKS)
    ptk.run("apply", str(team))
    return ptk
