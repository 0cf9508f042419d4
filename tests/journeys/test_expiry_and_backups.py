"""What a copy of the home can still do: read no expired window, and open none that it has no spend for."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

import pytest

from ptkstore.adapters.keys import AesGcmSealer, FileKeyStore
from ptkstore.adapters.objects import FsspecRawZone
from ptkstore.domain.jobs import JobKind, Outcome, job_id
from ptkstore.domain.streams.windows import WindowId
from ptkstore.errors import (
    CatalogBehind,
    CorruptObject,
    InvariantBroken,
    UnknownName,
    WindowGone,
)
from tests.faults import scenario
from tests.faults.checker import spends_without_version
from tests.faults.rig import Killed, Rig, Striking
from tests.faults.steps import Point
from tests.journeys.backups import copy_database, lake_of, publish, restore, try_all
from tests.support.local import local

pytestmark = pytest.mark.long

FIRST = WindowId(scenario.STREAM, 0)
ROWS = 200
TRAIN_BLOCK = 2  # of the first window
KEY_BYTES = 32


def copied(chain: Rig, target: Path, *names: str) -> Path:
    """A consistent copy of these parts of the home, as a backup would take it."""
    home = chain.settings.root
    target.mkdir()
    for name in names:
        if name == "catalog.db":
            copy_database(home / name, target / name)
        elif (home / name).is_dir():
            shutil.copytree(home / name, target / name)
        else:
            shutil.copy(home / name, target / name)
    return target


def count_of_rows(raw: Path, key: bytes) -> int:
    """What a thief with this key reads in a copy of the raw zone, in files of batches and of parts."""
    zone = FsspecRawZone(str(raw), AesGcmSealer())
    parts = sum(zone.read_part(zone.part_url(FIRST, part), key).num_rows for part in range(3))
    tokens = [path.stem for path in (raw / scenario.STREAM / "0" / "batches").glob("*.parquet")]
    batches = sum(table.num_rows for table in zone.read_batches(FIRST, tokens, key))
    assert batches in (0, parts)
    return parts


def whole_home(chain: Rig) -> list[str]:
    return [path.name for path in chain.settings.root.iterdir() if path.name not in ("keys",)]


@pytest.mark.parametrize("what", ["raw zone and catalog", "all but the keys"])
def test_a_copy_taken_before_expiry_cannot_be_read_after_it(chain: Rig, tmp_path: Path, what: str):
    publish(chain, 0)
    names = ["raw", "catalog.db"] if what == "raw zone and catalog" else whole_home(chain)
    stolen = copied(chain, tmp_path / "stolen", *names)
    publish(chain, 1)  # the first window leaves its retention
    with pytest.raises(WindowGone):
        local(chain.store).keys.sealing_key(FIRST)
    with pytest.raises(UnknownName):
        FileKeyStore(tmp_path / "new keys").sealing_key(FIRST)
    everything = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    keys = {content for content in everything if len(content) == KEY_BYTES}
    assert len(keys) >= 2, "the stream's own key and the next window's key are still there"
    for key in keys:
        with pytest.raises(CorruptObject):
            count_of_rows(stolen / "raw", key)


def test_with_the_keys_copied_in_time_the_same_copy_can_be_read(chain: Rig, tmp_path: Path):
    publish(chain, 0)
    stolen = copied(chain, tmp_path / "stolen", "raw", "keys", "catalog.db")
    publish(chain, 1)
    assert count_of_rows(stolen / "raw", FileKeyStore(stolen / "keys").sealing_key(FIRST)) == ROWS


def test_nothing_of_an_expired_window_is_left_but_the_names_of_its_tombstones(chain: Rig):
    publish(chain, 0)
    publish(chain, 1)
    service = local(chain.store)
    assert [file for file in service.raw.files() if file.startswith(f"{scenario.STREAM}/0/")] == []
    left = sorted(path.name for path in (service.settings.root / "keys/windows/rides").glob("0.*"))
    assert left == ["0.gone"]
    assert (service.settings.root / "keys/windows/rides/0.gone").read_bytes() == b""


# catalogs of another time


def test_a_restored_catalog_opens_nothing_though_it_takes_the_same_steps_again(chain: Rig, old_catalog: Path):
    before = lake_of(chain)
    restored = restore(chain, old_catalog)
    restored.store.close_windows(scenario.STREAM, scenario.end_of(1))  # as it did the first time
    steps, errors = try_all(restored)
    assert [type(error) for error in errors] == [CatalogBehind]
    assert "spent" in steps
    assert "opened" not in steps
    assert lake_of(restored) == before
    shown = restored.store.look_up(["ptk_state:version"], [{"ptk": scenario.LONG}])
    assert shown == [{"version": 2}]
    manifest, _ = local(restored.store).lake.read_version(scenario.LONG, 2)
    assert manifest["version"] == 2


@pytest.mark.parametrize("further", [0, 1, 2])
def test_a_forked_catalog_is_refused_however_far_it_goes_on(chain: Rig, old_catalog: Path, further: int):
    before = lake_of(chain)
    forked = restore(chain, old_catalog)
    scenario.register(forked.store, [scenario.SPEED])  # another turn, and more spends per window
    for window in range(1, further + 2):
        local(forked.store).close_windows(scenario.STREAM, scenario.end_of(window), expire_unfinished=True)
        steps, errors = try_all(forked)
        assert {type(error) for error in errors} == {CatalogBehind}
        assert "opened" not in steps
        forked.clock.move(scenario.DAY)
    assert lake_of(forked) == before


def test_the_true_catalog_goes_on_after_an_old_one_was_tried(chain: Rig, old_catalog: Path, tmp_path: Path):
    copy_database(chain.settings.root / "catalog.db", tmp_path / "true.db")
    restored = restore(chain, old_catalog)
    restored.store.close_windows(scenario.STREAM, scenario.end_of(1))
    assert try_all(restored)[1]
    again = restore(restored, tmp_path / "true.db")
    publish(again, 2)
    assert [version.number for version in local(again.store).versions(scenario.LONG)] == [1, 2, 3]
    assert again.faults() == []


def test_a_catalog_from_the_middle_of_a_training_lets_no_second_output_out(chain: Rig, tmp_path: Path):
    chain.close(0)

    def copy() -> None:
        copy_database(chain.settings.root / "catalog.db", tmp_path / "middle.db")

    chain.work(chain.service(Striking(Point("train", "trained"), copy)))
    before = lake_of(chain)
    assert before
    restored = restore(chain, tmp_path / "middle.db")
    restored.clock.move(scenario.DAY)  # the lease that the copy holds is over, so the run is tried again
    assert "elected" in try_all(restored)[0]
    restored.clock.move(scenario.DAY)  # and its output is due
    assert [type(error) for error in try_all(restored)[1]] == [InvariantBroken]
    assert lake_of(restored) == before


def test_another_ledger_opens_nothing(chain: Rig, old_catalog: Path):
    restored = restore(chain, old_catalog)
    with closing(sqlite3.connect(restored.settings.root / "catalog.db")) as connection:
        connection.execute("UPDATE meta SET value = 'another' WHERE name = 'ledger_id'")
        connection.commit()
    another = Rig(restored.settings.root, chain.receiver)
    another.store.close_windows(scenario.STREAM, scenario.end_of(1))
    assert {type(error) for error in try_all(another)[1]} == {CatalogBehind}


# spends whose output never came


def test_a_spend_whose_output_was_lost_stays_spent(chain: Rig):
    chain.close(0)

    def kill() -> None:
        raise Killed

    with suppress(Killed):
        chain.work(chain.service(Striking(Point("train", "opened"), kill)))
    chain.clock.move(scenario.DAY)
    local(chain.store).close_windows(scenario.STREAM, scenario.end_of(1), expire_unfinished=True)
    due = job_id(JobKind.EXPIRE, FIRST)
    assert chain.service().work_on(due)  # expiry comes before the second try
    chain.work(chain.service())
    assert spends_without_version(chain.evidence) == [(scenario.LONG, TRAIN_BLOCK)]
    [block] = [one for one in chain.store.budget(scenario.STREAM) if one["block"] == TRAIN_BLOCK]
    assert (block["spent_epsilon"], block["reserved_epsilon"], block["state"]) == (0.4, 0.0, "erased")
    with local(chain.store).begin() as uow:
        assert uow.jobs.get(job_id(JobKind.TRAIN, scenario.LONG, 0)).outcome is Outcome.EXPIRED
        assert f"{scenario.LONG} window 0" in [notice.subject for notice in uow.notices(scenario.TEAM)]
    assert chain.faults() == []
    assert chain.store.ptk(scenario.LONG).version == 1  # of the second window


def test_a_reservation_whose_rows_were_never_opened_is_given_back_at_expiry(chain: Rig):
    chain.close(0)
    service = chain.service()
    for kind in (JobKind.PREPARE, JobKind.ALLOCATE):
        assert service.work_on(job_id(kind, FIRST))
    local(chain.store).close_windows(scenario.STREAM, scenario.end_of(1), expire_unfinished=True)
    assert service.work_on(job_id(JobKind.EXPIRE, FIRST))
    [block] = [one for one in chain.store.budget(scenario.STREAM) if one["block"] == TRAIN_BLOCK]
    assert (block["spent_epsilon"], block["reserved_epsilon"]) == (0.0, 0.0)
    assert chain.faults() == []
