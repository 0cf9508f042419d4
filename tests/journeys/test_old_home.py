"""A home of an earlier program is upgraded, read, and goes on: a library PTK and team code with versions.

`old_home/make.py` says how the home was made. Nothing in it was written by the program that is tested.
"""

from __future__ import annotations

import importlib.util
import json
import tarfile
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import ptkstore
from ptkstore.adapters.feast.publishing.backfill import PROVENANCE_TAGS
from ptkstore.cli.main import app
from ptkstore.errors import PtkStoreError
from ptkstore.sdk import Store, load_repository
from tests.support.local import local

pytestmark = [pytest.mark.real, pytest.mark.long]

OLD = Path(__file__).with_name("old_home")
SPEED, ZONES = "rides.speed", "rides.zones"
KEY = (OLD / "report.key").read_text().strip()
READING = (
    "list",
    f"show {SPEED}",
    f"show {ZONES}",
    f"versions {SPEED}",
    f"versions {ZONES}",
    f"diff {ZONES} 1 2",
    f"lineage {SPEED}",
    f"lineage {ZONES}",
    "lineage rides --window 0",
    "budget rides",
    "budget rides --by line",
    "budget rides --by stream",
    "budget rides --by ptk",
    "budget rides --by team",
    "notices",
    "stream list",
    "stream show rides",
    "stream recommend rides",
    f"lookup {SPEED} hour=1",
    "lookup rides__speed__filled:mph_mean_filled hour=99",
    f"lookup {ZONES} zone=east",
    f"lookup {ZONES}@v1:trips zone=east",
    f"lookup ptk_state:version ptk={ZONES}",
    "subscriptions",
    "audit-log",
    "team list",
    "token list",
    "ledger verify",
    "catalog status",
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The old home, at another place than where it was made."""
    for name, value in {
        "ONLINE_STORE": "sqlite",
        "PUBLISH_TICK_SECONDS": "0.5",
        "HOME": tmp_path / "home",
    }.items():
        monkeypatch.setenv(f"PTK_{name}", str(value))
    with tarfile.open(OLD / "home.tar.xz") as archive:
        archive.extractall(tmp_path / "home", filter="tar")
    return tmp_path / "home"


@pytest.fixture
def before() -> ModuleType:
    """What the old home was made of."""
    spec = importlib.util.spec_from_file_location("old_home_make", OLD / "make.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def run(words: str | Sequence[str]) -> Result:
    given = words.split() if isinstance(words, str) else list(words)
    return CliRunner().invoke(app, given, env={"COLUMNS": "200"})


def done(words: str | Sequence[str]) -> str:
    result = run(words)
    assert result.exit_code == 0, (words, result.output)
    return result.stdout


def told(words: str) -> Any:
    return json.loads(done(f"{words} --json"))


def dp_tags(home: Path, view: str, version: int | None = None) -> dict[str, str]:
    from feast import FeatureStore

    store = FeatureStore(str(home / "feast"))
    if version is None:
        found = store.get_feature_view(view)
    else:
        found = store.registry.get_feature_view_by_version(view, "ptk", version)
    return {name: value for name, value in found.tags.items() if name.startswith("dp.")}


def test_nothing_is_opened_before_the_catalog_is_upgraded(home: Path) -> None:
    for words in ("list", "ledger verify", f"lookup {SPEED} hour=1"):
        refused = run(words)
        assert (refused.exit_code, "ptk catalog upgrade" in refused.output) == (1, True), words
    done("catalog upgrade")
    assert [one["entries"] for one in told("ledger verify")] == [13]  # 12 of before, and the policy
    assert done("list")


def test_every_reading_command_answers_after_the_upgrade(home: Path) -> None:
    done("catalog upgrade")
    for words in READING:
        assert done(words), words
        json.loads(done(f"{words} --json"))
    by_ptk = {one["ptk"]: one for one in told("list")}
    assert (by_ptk[SPEED]["assurance"], by_ptk[SPEED]["asserted_by"]) == ("library", None)
    assert (by_ptk[ZONES]["assurance"], by_ptk[ZONES]["asserted_by"]) == ("asserted", "rides")
    blocks = {one["block"]: one["spent_epsilon"] for one in told("budget rides")}
    assert blocks == {0: 0, 1: 0.1, 2: 0.3, 128: 0, 129: 0.1, 130: 0.3}


@pytest.mark.usefixtures("sandbox")
def test_it_goes_on_as_before(home: Path, tmp_path: Path, before: ModuleType) -> None:
    done("catalog upgrade")
    done(f"lookup {ZONES} zone=east")  # the place of the Feast repository is another one now
    views = ("rides__speed", "rides__zones")
    assert [set(dp_tags(home, view)) for view in views] == [{"dp.epsilon", "dp.delta"}] * 2
    with ptkstore.connect(home) as store:
        asked = ["rides__zones:trips"], [{"zone": "east"}]
        assert store.look_up(*asked).assured["rides__zones"].words() == "unknown"
        assert local(store).repair_online() == ()
        assert store.look_up(*asked).assured["rides__zones"].words() == "asserted by rides"
        earlier = store.look_up(["rides__zones@v2:trips"], [{"zone": "east"}])
        # rows of the third window were taken in by the old program
        store.close_windows("rides", until="2026-01-08")
        store.work_until_idle()
        for ptk_id in (SPEED, ZONES):
            assert [one.number for one in local(store).versions(ptk_id)] == [1, 2, 3], store.notices()
        assert store.look_up(["rides__zones:ptk_version"], [{"zone": "west"}]) == [{"ptk_version": 3}]
        assert store.look_up(["rides__zones@v2:trips"], [{"zone": "east"}]) == earlier
        assert store.look_up(["rides__speed__filled:filled_version"], [{"hour": 8}]) == [
            {"filled_version": 3}
        ]
        assert store.rollback(ZONES, 2) == 4
        store.work_until_idle()
        assert [*store.look_up(*asked)] == [*earlier]
        assert local(store).materialize_ptk(SPEED) == 3
        store.work_until_idle()
        check_declarations(store, tmp_path / "team", before)
    for view in views:
        for version in (2, 3, None):
            assert set(dp_tags(home, view, version)) >= PROVENANCE_TAGS, (view, version)
    newest = dp_tags(home, "rides__zones")
    assert (newest["dp.assurance"], newest["dp.asserted_by"], newest["dp.privacy_unit"]) == (
        "asserted",
        "rides",
        "record",
    )
    assert newest["dp.newest_window"] == "2026-01-06T00:00:00+00:00/2026-01-07T00:00:00+00:00"  # of version 2
    report = tmp_path / "report.json"
    done(["ledger", "export", "rides", "-o", str(report)])
    for file in (report, OLD / "report.json"):
        checked = json.loads(done(["ledger", "check", str(file), "--public-key", KEY, "--json"]))
        assert (checked["fault"], checked["adds_up"], checked["spent_epsilon"]) == (None, True, "0.3")
    assert [one["faults"] for one in told("ledger verify")] == [[]]
    for words in READING:
        assert done(words.replace("@v1:", "@v2:")), words  # version 1 is no longer online


def check_declarations(store: Store, folder: Path, before: ModuleType) -> None:
    """Team code of before goes on, and its next change must declare which texts it releases."""
    folder.mkdir()
    (folder / "team.toml").write_text('team = "rides"\n')
    (folder / "own.py").write_text(before.OWN)
    (folder / "ptks.py").write_text(before.PTKS)
    with pytest.raises(PtkStoreError, match="domain"):
        store.apply(load_repository(folder))
    assert [one.number for one in local(store).versions(ZONES)] == [1, 2, 3, 4]
    declared = before.PTKS.replace(
        '"trips": "int64"}', '"trips": "int64"}, "domains": {"zone": ["east", "west"]}'
    )
    (folder / "ptks.py").write_text(declared)
    changed = {one.ptk_id: one.action for one in store.apply(load_repository(folder))}
    assert changed[ZONES] == "update"
