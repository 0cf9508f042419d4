"""Find a field `spare` of a PTK in every place that a PTK has; a test runs this where there is one."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ptklib.statistics import HistoricalStatistics
from ptkstore.adapters.sql.content import ptk_of as stored_of
from ptkstore.adapters.sql.content import ptk_text
from ptkstore.api.app import create_app
from ptkstore.api.routes.ptks import _wanted
from ptkstore.cli.main import app
from ptkstore.errors import InvalidRequest
from ptkstore.sdk.documents.resources import ptk_document, ptk_of
from ptkstore.sdk.remote.repositories import exchange_body
from ptkstore.sdk.repository.declarations import load_repository
from ptkstore.sdk.store import connect
from ptkstore.settings import Settings
from ptkstore.wire.ptks import ExchangeIn, PtkOut
from ptkstore.wiring import Service

DECLARED = """
from ptklib.statistics import HistoricalStatistics
from ptkstore import PTK

estimator = HistoricalStatistics(keys=["hour"], domains={"hour": [0, 1]}, statistics=["count"], epsilon=0.1)
trips = PTK("trips", "taxi", estimator, target=0.5, spare=7)
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
assert wanted.arguments["spare"] == 7
estimator = HistoricalStatistics(keys=["hour"], domains={"hour": [0, 1]}, statistics=["count"], epsilon=0.1)

store: Any
with connect(home) as store:
    # Python
    columns = {"at": "timestamp", "hour": "int64"}
    store.create_stream("taxi", team="taxi", schema=columns, time_column="at", epsilon=1.0)
    store.register_ptk(estimator, name="usual", stream="taxi", target=0.5)
    store.register_ptk(estimator, name="other", stream="taxi", target=0.5, spare=8)
    for wrong in (0, -1, True, "7"):
        with pytest.raises(InvalidRequest, match=r"^the spare must be a positive, finite number\n"):
            store.register_ptk(estimator, name="wrong", stream="taxi", target=0.5, spare=wrong)

    # a repository and the command line
    run("apply", str(folder))
    assert {one["name"]: one["spare"] for one in store.ptks()} == {"usual": 3, "other": 8, "trips": 7}
    assert {one["ptk"]: one["spare"] for one in run("list")}["taxi.trips"] == 7
    assert run("show", "taxi.trips")["spare"] == 7
    assert "spare: 7" in CliRunner().invoke(app, ["show", "taxi.trips"]).output
    assert {one.action for one in store.plan(repository, audit=False)} == {"keep"}
    (folder / "ptks.py").write_text(DECLARED.replace("spare=7", "spare=9"))
    changed = load_repository(folder)
    (change,) = store.plan(changed, audit=False)
    assert [(one.field, one.before, one.after) for one in change.changes] == [("spare", 7, 9)]
    store.apply(changed)
    usual, registered = store.service.ptk("taxi.usual"), store.service.ptk("taxi.trips")
    assert registered.spare == 9
    assert store.service.update_ptk("taxi.trips", spare=6.5).spare == 6.5

    # signed reports
    report = json.loads(store.service.export_ledger("taxi").content)["report"]
    assert {one["ptk"]: one["spare"] for one in report["registered"]}["taxi.trips"] == "6.5"

# SQL, and the texts of PTKs that know nothing of it
assert stored_of(ptk_text(registered)) == registered
assert "spare" not in ptk_text(usual)
assert stored_of(ptk_text(usual)) == usual

# HTTP
assert ptk_of(ptk_document(registered)) == registered
assert PtkOut(**ptk_document(registered)).model_dump()["spare"] == 9
of_before = {name: value for name, value in ptk_document(usual).items() if name != "spare"}
assert ptk_of(of_before) == usual
assert _wanted(ExchangeIn.model_validate_json(exchange_body([wanted], []))) == [wanted]
schemas = create_app(Service(Settings(home=home))).openapi()["components"]["schemas"]
for name in ("PtkIn", "WantedIn"):
    assert schemas[name]["properties"]["spare"] == {"default": 3.0, "title": "Spare", "type": "number"}
assert schemas["PtkPatch"]["properties"]["spare"] == {
    "anyOf": [{"type": "number"}, {"type": "null"}],
    "title": "Spare",
}
assert schemas["PtkOut"]["properties"]["spare"] == {"default": 3.0, "title": "Spare", "type": "number"}
