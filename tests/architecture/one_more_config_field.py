"""Find a field `spare` of a config in every place that a config has; a test runs this where there is one."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from ptkstore.adapters.sql.content import ptk_of as stored_of
from ptkstore.adapters.sql.content import ptk_text
from ptkstore.api.routes.ptks import _wanted
from ptkstore.cli.main import app
from ptkstore.sdk.documents.resources import ptk_document, ptk_of
from ptkstore.sdk.remote.repositories import exchange_body
from ptkstore.sdk.repository.declarations import load_repository
from ptkstore.sdk.store import connect
from ptkstore.wire.ptks import ExchangeIn, PtkOut

DECLARED = """
from ptklib.statistics import HistoricalStatistics
from ptkstore import PTK

trips = PTK(
    "trips", "taxi",
    HistoricalStatistics(keys=["hour"], domains={"hour": [0, 1]}, statistics=["count"], epsilon=0.1),
    target=0.5, spare=(1, 3),
)
"""


def run(*words: str) -> Any:
    """What a command prints as JSON."""
    made = CliRunner().invoke(app, [*words, "--json"])
    assert made.exit_code == 0, made.output
    return json.loads(made.output)


home = Path(os.environ["PTK_HOME"])
folder = home.with_name("repository")
folder.mkdir()
(folder / "team.toml").write_text('team = "taxi"')
(folder / "ptks.py").write_text(DECLARED)
repository = load_repository(folder)
(declared,) = repository.ptks
wanted = declared.wanted(repository.spec(declared))
assert wanted.arguments["config"] == {"spare": [1, 3]}

with connect(home) as store:
    # Python and the command line
    columns = {"at": "timestamp", "hour": "int64"}
    store.create_stream("taxi", team="taxi", schema=columns, time_column="at", epsilon=1.0)
    run("apply", str(folder))
    (registered,) = store.service.ptks()
    assert registered.config == {"spare": [1, 3]}
    assert [one.action for one in store.plan(repository, audit=False)] == ["keep"]
    (folder / "ptks.py").write_text(DECLARED.replace("(1, 3)", "(2, 4)"))
    (change,) = store.plan(load_repository(folder), audit=False)
    assert [(one.field, one.before, one.after) for one in change.changes] == [
        ("spare[0]", 1, 2),
        ("spare[1]", 3, 4),
    ]
    store.update_ptk_config("taxi.trips", {"spare": [5, 6]})
    assert [one["config"] for one in store.ptks()] == [{"spare": [5, 6]}]

# SQL
assert stored_of(ptk_text(registered)) == registered

# HTTP
assert ptk_of(ptk_document(registered)) == registered
assert PtkOut(**ptk_document(registered)).config == {"spare": [1, 3]}
assert _wanted(ExchangeIn.model_validate_json(exchange_body([wanted], []))) == [wanted]
