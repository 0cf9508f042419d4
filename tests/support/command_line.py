"""The command `ptk` in this process, and what its tests begin with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from ptkstore.cli.main import app

SCHEMA = "at:timestamp,hour:int64,speed:float64,zone:string,long:bool"


CREATE = [
    *("stream", "create", "taxi", "--team", "taxi", "--schema", SCHEMA, "--time-column", "at"),
    *("--epsilon", "1", "--origin", "2026-01-05", "--closing", "operator", "--rows-per-window", "100"),
]


REPOSITORY = """
from ptklib import HistoricalStatistics
from ptkstore import PTK

speed = PTK(
    name="speed",
    stream="taxi",
    target=0.1,
    estimator=HistoricalStatistics(
        keys=["hour"], values=["speed"], domains={"hour": [0, 1]}, bounds={"speed": (0.0, 60.0)}, epsilon=EPSILON
    ),
)
"""


class Line:
    """`ptk`, run in this process in a home of its own."""

    def __init__(self, home: Path) -> None:
        self.home = home

    def run(self, *words: str, code: int = 0) -> Result:
        result = CliRunner().invoke(app, list(words), env={"PTK_HOME": str(self.home), "COLUMNS": "200"})
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        assert result.exit_code == code, result.output
        return result

    def json(self, *words: str, code: int = 0) -> Any:
        return json.loads(self.run(*words, "--json", code=code).stdout)

    def refused(self, *words: str, code: int) -> str:
        """The one line on standard error; with --json the same as a document."""
        line = self.run(*words, code=code).stderr.strip()
        document = self.json(*words, code=code)["error"]
        assert line == f"{document['code']}: {document['message']}"
        return line


@pytest.fixture
def ptk(tmp_path: Path) -> Line:
    return Line(tmp_path / "home")


@pytest.fixture
def stream(ptk: Line) -> Line:
    ptk.run(*CREATE)
    return ptk


def repository(folder: Path, epsilon: str = "0.1") -> str:
    folder.mkdir(exist_ok=True)
    (folder / "team.toml").write_text('team = "taxi"')
    (folder / "ptks.py").write_text(REPOSITORY.replace("EPSILON", epsilon))
    return str(folder)
