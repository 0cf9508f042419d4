"""Files of rows: `ptk ingest` reads them as the stream declares, `ptk featurize` as the PTK's stream does."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ptkstore.cli.streams.rows import columns_of, read_table
from ptkstore.errors import UnknownName
from ptkstore.sdk import Store
from tests.ptkstore.sdk.conftest import api, roles, store, world
from tests.support.command_line import Line, ptk, stream
from tests.support.world import STREAM, World

__all__ = ["api", "ptk", "roles", "store", "stream", "world"]

CSV = "at,hour,speed,zone,long\n2026-01-05T12:00:00Z,8,20,00123,1\n2026-01-05 13:00:00,9,21.5,00456,0\n"
NDJSON = (
    '{"at": "2026-01-05T12:00:00Z", "hour": 8, "speed": 20, "zone": "00123", "long": true}\n'
    '{"at": "2026-01-05 13:00:00", "hour": 9, "speed": 21.5, "zone": "00456", "long": false}\n'
)
ROWS = [
    {
        "at": datetime(2026, 1, 5, hour, tzinfo=UTC),
        "hour": hour - 4,
        "speed": speed,
        "zone": zone,
        "long": long,
    }
    for hour, speed, zone, long in ((12, 20.0, "00123", True), (13, 21.5, "00456", False))
]


def written(folder: Path, name: str, text: str) -> Path:
    (folder / name).write_text(text)
    return folder / name


@pytest.mark.parametrize(("name", "text"), [("a.csv", CSV), ("a.ndjson", NDJSON), ("a.jsonl", NDJSON)])
def test_a_store_here_or_behind_http_says_how_a_file_is_read(
    store: Store, world: World, tmp_path: Path, name: str, text: str
) -> None:
    world.stream()
    table = read_table(written(tmp_path, name, text), columns_of(store, STREAM))
    assert table.to_pylist() == ROWS
    assert store.ingest(STREAM, table).accepted == 2
    with pytest.raises(UnknownName, match="there is no stream 'bikes'"):
        columns_of(store, "bikes")


@pytest.mark.parametrize(("name", "text"), [("a.csv", CSV), ("a.ndjson", NDJSON)])
def test_ingest_takes_digits_that_are_a_string_and_times_with_an_offset(
    stream: Line, tmp_path: Path, name: str, text: str
) -> None:
    told = stream.json("ingest", "taxi", str(written(tmp_path, name, text)))
    assert (told["accepted"], told["refused"]) == (2, {})


def test_a_column_that_no_line_fills_is_there_and_its_rows_are_refused_by_reason(
    stream: Line, tmp_path: Path
) -> None:
    text = NDJSON.replace("20,", "null,").replace("21.5,", "null,")
    told = stream.json("ingest", "taxi", str(written(tmp_path, "a.ndjson", text)), code=1)
    assert (told["accepted"], told["refused"]) == (0, {"missing-value": 2})


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("a.csv", CSV.replace(",9,", ",271828.5,"), "column 'hour' holds no int64 in row 2 below the header"),
        ("a.csv", CSV.replace("21.5", "Ann"), "column 'speed' holds no float64 in row 2 below the header"),
        ("a.csv", CSV.replace("zone", "town"), "missing columns: zone"),
        ("a.csv", CSV.replace("long", "long,town").replace("\n2", ",a\n2"), "cannot be read as .csv"),
        ("a.ndjson", NDJSON.replace("9,", '"271828",'), "column 'hour' holds no int64 in line 2"),
        ("a.ndjson", NDJSON.replace("2026-01-05 13", "Ann"), "column 'at' holds no timestamp in line 2"),
        ("a.ndjson", NDJSON.replace('"zone"', '"town"'), "missing columns: zone"),
        ("a.ndjson", NDJSON.replace("}", ', "town": "Ann"}'), "unknown columns: town"),
        ("a.ndjson", NDJSON + "271828", "line 3 cannot be read as one JSON object"),
        ("a.ndjson", '{"u": 271828}\n{"u": "Ann"}\n', "cannot be read as .ndjson"),
    ],
)
def test_a_fault_is_named_by_column_and_row_without_its_value(
    stream: Line, tmp_path: Path, name: str, text: str, says: str
) -> None:
    line = stream.refused("ingest", "taxi", str(written(tmp_path, name, text)), code=2)
    assert says in line
    assert "271828" not in line
    assert "Ann" not in line


def test_the_stream_is_looked_for_before_the_file_is_read(stream: Line) -> None:
    assert "there is no stream 'bikes'" in stream.refused("ingest", "bikes", "nowhere.csv", code=2)


REPOSITORY = """
from ptklib import HistoricalStatistics
from ptkstore import PTK

zones = PTK(
    name="zones",
    stream="taxi",
    target=0.1,
    estimator=HistoricalStatistics(
        keys=["zone"],
        values=["speed"],
        domains={"zone": ["00123", "00456"]},
        bounds={"speed": (0.0, 60.0)},
        epsilon=0.9,
    ),
)
"""


@pytest.fixture
def zones(stream: Line, tmp_path: Path) -> Line:
    """A published PTK whose keys are digits and yet strings."""
    folder = tmp_path / "team"
    folder.mkdir()
    (folder / "team.toml").write_text('team = "taxi"')
    (folder / "ptks.py").write_text(REPOSITORY)
    stream.run("apply", str(folder))
    stream.run("ingest", "taxi", str(written(tmp_path, "first.csv", CSV)))
    stream.run("close", "taxi", "--until", "2026-01-06")
    stream.run("work")
    return stream


def featurized(line: Line, file: Path) -> list[dict[str, Any]]:
    line.run("featurize", "taxi.zones", str(file), "-o", str(file.with_suffix(".parquet")))
    return pq.read_table(file.with_suffix(".parquet")).to_pylist()


@pytest.mark.long
def test_featurize_reads_the_strings_of_a_ptk_as_strings(zones: Line, tmp_path: Path) -> None:
    pq.write_table(pa.table({"zone": ["00123", "00456", "7"], "n": [1, 2, 3]}), tmp_path / "typed.parquet")
    zones.run(
        "featurize", "taxi.zones", str(tmp_path / "typed.parquet"), "-o", str(tmp_path / "expected.parquet")
    )
    expected = pq.read_table(tmp_path / "expected.parquet").to_pylist()
    assert expected[0]["zone"] == "00123"
    text = "zone,n\n00123,1\n00456,2\n7,3\n"
    assert featurized(zones, written(tmp_path, "target.csv", text)) == expected
    lines = '{"zone": "00123", "n": 1}\n{"zone": "00456", "n": 2}\n{"zone": "7", "n": 3}\n'
    assert featurized(zones, written(tmp_path, "lines.ndjson", lines)) == expected


@pytest.mark.long
def test_featurize_guesses_where_nothing_is_known_any_more(zones: Line, tmp_path: Path) -> None:
    file = written(tmp_path, "target.csv", "zone\na\n")
    known = featurized(zones, file)
    assert known[0]["zone"] == "a"
    (tmp_path / "team" / "ptks.py").write_text("")
    zones.run("apply", str(tmp_path / "team"), "--prune", "--yes")
    assert zones.json("list") == []
    assert featurized(zones, file) == known
