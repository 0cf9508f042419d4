"""`ptk catalog status` and `ptk catalog upgrade`: exit codes, documents, and who may not upgrade."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from ptkstore.adapters.keys import FileKeyStore
from ptkstore.adapters.sql import tables as t
from ptkstore.cli.main import app
from tests.support.older_catalogs import write_schema_3

NEEDED = str(t.SCHEMA_VERSION)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home whose catalog is of schema 3."""
    path = tmp_path / "home"
    write_schema_3(f"sqlite:///{path / 'catalog.db'}")
    return path


def run(home: Path, *words: str, code: int = 0) -> Result:
    made = CliRunner().invoke(app, list(words), env={"PTK_HOME": str(home), "COLUMNS": "200"})
    assert made.exit_code == code, made.output
    return made


def documents(home: Path, *words: str, code: int = 0) -> Any:
    return json.loads(run(home, *words, "--json", code=code).stdout)


def test_a_command_on_an_older_catalog_names_the_upgrade(home: Path) -> None:
    refusal = documents(home, "stream", "list", code=1)["error"]
    assert refusal["code"] == "catalog-outdated"
    assert "ptk catalog upgrade" in refusal["message"]


def test_an_upgrade_is_shown_checked_and_done_once(home: Path) -> None:
    state = documents(home, "catalog", "status")
    assert (state["schema"], state["needed"], state["up_to_date"]) == ("3", NEEDED, False)
    assert documents(home, "catalog", "upgrade", "--check", code=1) == state
    done = documents(home, "catalog", "upgrade")
    assert (done["from"], done["to"], done["done"]) == ("3", NEEDED, state["pending"])
    assert Path(done["copy"]).is_file()
    assert documents(home, "catalog", "upgrade", "--check")["up_to_date"] is True
    assert documents(home, "catalog", "upgrade")["copy"] is None
    assert "rides" in str(documents(home, "stream", "list"))


def test_an_upgrade_is_refused_while_a_job_is_worked_on(home: Path) -> None:
    with FileKeyStore(home / "keys").working("any"):
        refusal = documents(home, "catalog", "upgrade", code=1)["error"]
    assert "stop all workers" in refusal["message"]
    assert documents(home, "catalog", "status")["schema"] == "3"


def test_there_is_nothing_to_upgrade_where_no_store_is(tmp_path: Path) -> None:
    run(tmp_path / "empty", "catalog", "upgrade", code=2)
    assert not (tmp_path / "empty").exists()
