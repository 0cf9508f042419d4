"""A version's history holds what a plain rewriting of all rows would hold, at the price of its own rows."""

from __future__ import annotations

import json
import os
import random
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ptkstore.adapters.feast.publishing import history as history_module
from ptkstore.adapters.feast.publishing.history import History
from ptkstore.adapters.feast.tables import ViewTable
from ptkstore.errors import CorruptObject, Unavailable

VIEW = "taxi__speed"
FLOOR = datetime(1970, 1, 1, tzinfo=UTC)
START = datetime(2026, 1, 1, tzinfo=UTC)
NEEDED = 3_600.0

Rows = set[tuple[Any, ...]]


def day(n: int) -> datetime:
    return START + timedelta(days=n)


def table(version: int, hours: list[int], extra: bool = False, key: pa.DataType | None = None) -> ViewTable:
    columns = {
        "hour": pa.array(hours, key or pa.int64()),
        "value": pa.array([float(version * 100 + int(hour)) for hour in hours]),
        "parts": pa.array([[0.5, float(version)] for _ in hours], pa.list_(pa.float64())),
    }
    if extra:
        columns["extra"] = pa.array(["x"] * len(hours))
    columns["ptk_version"] = pa.array([version] * len(hours), pa.int64())
    return ViewTable(VIEW, ("hour",), pa.table(columns))


def put(history: History, made: ViewTable, version: int, on: int, after: int | None) -> None:
    with history.written(made, version, as_of=day(on), published_at=day(on + 1), after=after) as put:
        put()


def rows_of(history: History, version: int) -> list[tuple[Any, ...]]:
    found = pq.read_table(history.path(VIEW, version)).to_pylist()
    return sorted((row["hour"], row["ptk_as_of"], row["value"], row["ptk_version"]) for row in _told(found))


def _told(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**row, "value": row["value"] or -1.0, "ptk_version": row["ptk_version"] or 0} for row in rows]


def expected(versions: list[tuple[int, list[int], int]]) -> list[tuple[Any, ...]]:
    """Rows as a store that keeps everything in memory has them: later versions win at one event time."""
    known: set[int] = set()
    at: dict[datetime, Rows] = {}
    floors: Rows = set()
    for version, hours, on in versions:
        floors |= {(hour, FLOOR, -1.0, 0) for hour in hours}
        gone = known - set(hours)
        at[day(on)] = {(hour, day(on), float(version * 100 + hour), version) for hour in hours}
        at[day(on)] |= {(hour, day(on), -1.0, 0) for hour in gone}
        known |= set(hours)
    return sorted(floors.union(*at.values()))


def inode(history: History, version: int, part: int) -> int:
    return sorted(history.path(VIEW, version).iterdir())[part].stat().st_ino


@pytest.fixture
def history(tmp_path: Path) -> History:
    return History(tmp_path)


@pytest.fixture
def tiny(history: History, monkeypatch: pytest.MonkeyPatch) -> History:
    """Parts of more than twelve rows are not put together."""
    monkeypatch.setattr(history_module, "_SMALL_ROWS", 12)
    return history


@pytest.mark.long
@pytest.mark.parametrize("seed", range(20))
def test_all_rows_of_all_versions_are_there_whatever_came_before(tiny: History, seed: int) -> None:
    draw = random.Random(seed)
    told: list[tuple[int, list[int], int]] = []
    on = 0
    for version in range(1, 16):
        on = draw.choice([on, on + 1, on + 1, draw.randrange(on + 1)])  # a window may have several versions
        hours = sorted(draw.sample(range(12), draw.randrange(1, 9)))
        put(tiny, table(version, hours), version, on, version - 1 or None)
        told.append((version, hours, on))
        assert rows_of(tiny, version) == expected(told)
        newest = tiny.read_version(VIEW, version)
        assert newest.rows["hour"].to_pylist() == hours
        assert newest.features == ("value", "parts", "ptk_version")
    last_at = {day(on): version for version, _, on in told}
    assert tiny.ends(VIEW, 15) == {version: end for end, version in last_at.items()}


def test_what_earlier_versions_wrote_is_not_written_again(tiny: History) -> None:
    hours = list(range(10))
    for version in range(1, 6):
        put(tiny, table(version, hours), version, version, version - 1 or None)
    assert len(list(tiny.path(VIEW, 5).iterdir())) == 5
    for part in range(4):
        assert inode(tiny, 5, part) == inode(tiny, part + 1, part)


def test_small_versions_share_a_part(history: History) -> None:
    for version in range(1, 30):
        put(history, table(version, [1, 2, 3]), version, version, version - 1 or None)
    assert len(list(history.path(VIEW, 29).iterdir())) == 1
    assert len(rows_of(history, 29)) == 29 * 3 + 3


def test_a_deleted_version_leaves_later_ones_whole(tiny: History) -> None:
    for version in (1, 2, 3):
        put(tiny, table(version, list(range(10))), version, version, version - 1 or None)
    whole = rows_of(tiny, 3)
    for version in (1, 2, 2):
        tiny.delete(VIEW, version)
    assert tiny.versions(VIEW) == [3]
    assert rows_of(tiny, 3) == whole
    put(tiny, table(4, [1]), 4, 4, 3)
    assert set(rows_of(tiny, 4)) > set(whole)


def test_other_columns_are_taken_into_the_new_versions_form(tiny: History) -> None:
    for version in (1, 2):
        put(tiny, table(version, list(range(10))), version, version, version - 1 or None)
    put(tiny, table(3, list(range(10)), extra=True), 3, 3, 2)
    found = pq.read_table(tiny.path(VIEW, 3))
    assert found.column_names[:4] == ["hour", "value", "parts", "extra"]
    assert sorted(set(found["extra"].to_pylist()), key=str) == [None, "x"]
    assert [row[3] for row in rows_of(tiny, 3)].count(1) == 10
    assert "extra" not in pq.read_table(tiny.path(VIEW, 2)).column_names


def test_rows_under_other_keys_are_left_behind(tiny: History) -> None:
    put(tiny, table(1, [1, 2]), 1, 1, None)
    put(tiny, table(2, ["1", "2"], key=pa.string()), 2, 2, 1)  # type: ignore[list-item]
    assert pq.read_table(tiny.path(VIEW, 2))["ptk_version"].to_pylist() == [2, 2, None, None]


def test_a_file_of_an_older_store_is_gone_on_with(tiny: History) -> None:
    """Such a file has no parts and does not say what lies in it."""
    told = [(1, list(range(9)), 1), (2, list(range(2, 10)), 2)]
    for (version, hours, on), after in zip(told, (None, 1), strict=True):
        put(tiny, table(version, hours), version, on, after)
    whole = pq.read_table(tiny.path(VIEW, 2)).replace_schema_metadata({b"ptk.keys": json.dumps(["hour"])})
    tiny.delete(VIEW, 2)
    pq.write_table(whole, tiny.path(VIEW, 2), use_compliant_nested_type=False)
    assert tiny.read_version(VIEW, 2).rows["hour"].to_pylist() == list(range(2, 10))
    assert tiny.ends(VIEW, 2) == {1: day(1), 2: day(2)}
    for version, on in ((3, 3), (4, 2)):
        put(tiny, table(version, [0, 11]), version, on, version - 1)
        told.append((version, [0, 11], on))
        assert rows_of(tiny, version) == expected(told)
    assert tiny.versions(VIEW) == [1, 2, 3, 4]
    tiny.delete(VIEW, 2)
    assert tiny.versions(VIEW) == [1, 3, 4]


def as_earlier_stores_wrote(history: History, version: int) -> None:
    """Parts whose names tell no version, and that do not tell it either."""
    for file in history.path(VIEW, version).iterdir():
        rows = pq.read_table(file)
        about = {key: value for key, value in rows.schema.metadata.items() if key != b"ptk.version"}
        pq.write_table(
            rows.replace_schema_metadata(about),
            file.with_name(f"{file.name.partition('-v')[0]}.parquet"),
            use_compliant_nested_type=False,
        )
        file.unlink()


def test_a_folder_of_an_older_store_is_gone_on_with(tiny: History) -> None:
    told = [(version, list(range(10)), version) for version in (1, 2, 3)]
    for version, hours, on in told[:2]:
        put(tiny, table(version, hours), version, on, version - 1 or None)
    for version in (1, 2):
        as_earlier_stores_wrote(tiny, version)
    assert [path.name for path in sorted(tiny.path(VIEW, 2).iterdir())] == [
        "part-00000.parquet",
        "part-00001.parquet",
    ]
    assert tiny.ends(VIEW, 2) == {1: day(1), 2: day(2)}
    put(tiny, table(3, told[2][1]), 3, 3, 2)
    assert rows_of(tiny, 3) == expected(told)
    sorted(tiny.path(VIEW, 3).iterdir())[-1].unlink()  # what is last now is all of version 2
    with pytest.raises(CorruptObject, match=f"the history of {VIEW} v3 is not what was written"):
        tiny.ends(VIEW, 3)


def test_a_file_system_without_links_holds_copies(tiny: History, monkeypatch: pytest.MonkeyPatch) -> None:
    synced = set()
    real_sync = os.fsync

    def sync(descriptor: int) -> None:
        synced.add(os.fstat(descriptor).st_ino)
        real_sync(descriptor)

    def no_links(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    monkeypatch.setattr(os, "fsync", sync)
    told = [(version, list(range(10)), version) for version in (1, 2, 3)]
    for version, hours, on in told:
        put(tiny, table(version, hours), version, on, version - 1 or None)
    assert rows_of(tiny, 3) == expected(told)
    assert inode(tiny, 3, 0) != inode(tiny, 2, 0)
    path = tiny.path(VIEW, 3)
    for lasts in (*path.iterdir(), path, path.parent, path.parent.parent, tiny.repo):
        assert lasts.stat().st_ino in synced


def test_a_write_that_was_cut_off_is_no_version_and_goes_away_later(tiny: History) -> None:
    put(tiny, table(1, list(range(10))), 1, 1, None)
    left = tiny.path(VIEW, 2).with_name(".v00000002.parquet.00ff")
    left.mkdir()
    (left / "part-00000.parquet").write_bytes(b"half")
    assert tiny.versions(VIEW) == [1]
    put(tiny, table(2, list(range(10))), 2, 2, 1)
    assert left.exists()  # it may be somebody's who is at work
    os.utime(left, (time.time() - 2 * NEEDED,) * 2)
    put(tiny, table(3, list(range(10))), 3, 3, 2)
    assert not left.exists()


def test_writing_a_version_again_replaces_it(tiny: History) -> None:
    put(tiny, table(1, list(range(10))), 1, 1, None)
    for hours in ([1, 2, 3], list(range(12))):
        put(tiny, table(2, hours), 2, 2, 1)
        assert rows_of(tiny, 2) == expected([(1, list(range(10)), 1), (2, hours, 2)])


@pytest.mark.parametrize("harm", ["cut", "garbled", "lost", "last lost", "emptied"])
def test_a_damaged_history_is_told_without_its_rows(tiny: History, harm: str) -> None:
    for version in (1, 2):
        put(tiny, table(version, list(range(10))), version, version, version - 1 or None)
    first, last = sorted(tiny.path(VIEW, 2).iterdir())
    if harm == "cut":
        last.write_bytes(last.read_bytes()[:100])
    elif harm == "garbled":
        content = bytearray(last.read_bytes())
        content[-200:-8] = b"\xff" * 192  # of the footer
        last.write_bytes(content)
    elif harm == "lost":
        first.unlink()
    elif harm == "last lost":
        last.unlink()  # what is last now is all of version 1
    else:
        first.unlink()
        last.unlink()
    with pytest.raises(CorruptObject, match=f"the history of {VIEW} v2 is not what was written") as error:
        tiny.ends(VIEW, 2)
    assert error.value.__cause__ is None
    assert error.value.__context__ is None


def test_a_part_that_cannot_be_read_now_is_no_damage(tiny: History, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tiny, table(1, list(range(10))), 1, 1, None)

    def refuse(_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(pq, "read_schema", refuse)
    with pytest.raises(Unavailable, match=rf"the history of {VIEW} v1 cannot be read \(EIO\)") as error:
        tiny.ends(VIEW, 1)
    assert error.value.__context__ is None


def test_columns_that_changed_leave_a_loss_of_the_newest_part_to_be_told(tiny: History) -> None:
    """The parts before it are this version's own writing, too."""
    put(tiny, table(1, list(range(10))), 1, 1, None)
    put(tiny, table(2, list(range(10)), extra=True), 2, 2, 1)
    sorted(tiny.path(VIEW, 2).iterdir())[-1].unlink()
    with pytest.raises(CorruptObject, match=f"the history of {VIEW} v2 is not what was written"):
        tiny.ends(VIEW, 2)
