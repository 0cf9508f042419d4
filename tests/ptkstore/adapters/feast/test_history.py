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

from ptkstore.adapters.feast import history as history_module
from ptkstore.adapters.feast.history import History
from ptkstore.adapters.feast.tables import ViewTable
from ptkstore.errors import CorruptObject

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
    history.write(made, version, as_of=day(on), published_at=day(on + 1), after=after)


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
    return (history.path(VIEW, version) / f"part-{part:05d}.parquet").stat().st_ino


@pytest.fixture
def history(tmp_path: Path) -> History:
    return History(tmp_path)


@pytest.fixture
def tiny(history: History, monkeypatch: pytest.MonkeyPatch) -> History:
    """Parts of more than twelve rows are not put together."""
    monkeypatch.setattr(history_module, "_SMALL_ROWS", 12)
    return history


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
    assert [path.name for path in history.path(VIEW, 29).iterdir()] == ["part-00000.parquet"]
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


def test_a_file_system_without_links_holds_copies(tiny: History, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    told = [(version, list(range(10)), version) for version in (1, 2, 3)]
    for version, hours, on in told:
        put(tiny, table(version, hours), version, on, version - 1 or None)
    assert rows_of(tiny, 3) == expected(told)
    assert inode(tiny, 3, 0) != inode(tiny, 2, 0)


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


@pytest.mark.parametrize("harm", ["cut", "lost", "emptied"])
def test_a_damaged_history_is_told_without_its_rows(tiny: History, harm: str) -> None:
    for version in (1, 2):
        put(tiny, table(version, list(range(10))), version, version, version - 1 or None)
    first, last = sorted(tiny.path(VIEW, 2).iterdir())
    if harm == "cut":
        last.write_bytes(last.read_bytes()[:100])
    elif harm == "lost":
        first.unlink()
    else:
        first.unlink()
        last.unlink()
    with pytest.raises(CorruptObject, match=f"the history of {VIEW} v2 is not what was written") as error:
        tiny.ends(VIEW, 2)
    assert error.value.__cause__ is None
    assert error.value.__context__ is None
