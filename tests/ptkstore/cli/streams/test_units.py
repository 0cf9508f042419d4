"""Commands about privacy units: streams of users and of public values, what is kept of them, forgetting a user."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from ptkstore.cli.main import app
from tests.support.command_line import Line
from tests.support.world import DAY, ORIGIN

SCHEMA = "at:timestamp,rider:int64,city:string,zone:int64,long:bool"
CREATE = [
    *("stream", "create", "rides", "--team", "taxi", "--schema", SCHEMA, "--time-column", "at"),
    *("--epsilon", "1", "--origin", "2026-01-05", "--closing", "operator"),
]
IN_WINDOW = ("--privacy-unit", "user-in-window", "--unit-column", "rider", "--max-rows-per-unit", "3")


@pytest.fixture
def ptk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Line:
    monkeypatch.setenv("PTK_PUBLISH_TICK_SECONDS", "0.1")
    return Line(tmp_path / "home")


def table(riders: list[int]) -> pa.Table:
    n = len(riders)
    return pa.table(
        {
            "at": pa.array([ORIGIN + DAY / 2] * n, pa.timestamp("us", "UTC")),
            "rider": riders,
            "city": ["rome"] * n,
            "zone": [7] * n,
            "long": [True] * n,
        }
    )


def ingest(ptk: Line, folder: Path, riders: list[int]) -> Any:
    pq.write_table(table(riders), folder / "rides.parquet")
    return ptk.json("ingest", "rides", str(folder / "rides.parquet"))


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ((), {"privacy_unit": "record"}),
        (IN_WINDOW, {"privacy_unit": "user-in-window", "unit_column": "rider", "max_rows_per_unit": 3}),
        (
            ("--privacy-unit", "user", "--unit-column", "rider", "--user-shards", "8"),
            {"privacy_unit": "user", "unit_column": "rider", "max_rows_per_unit": 1, "user_shards": 8},
        ),
        (("--block-by", "city=rome,new york"), {"block_by": {"city": ["rome", "new york"]}}),
        (("--block-by", "zone=7,-1"), {"block_by": {"zone": [7, -1]}}),
        (("--block-by", "long=true,False"), {"block_by": {"long": [True, False]}}),
    ],
    ids=str,
)
def test_what_a_policy_says_of_units_and_blocks_is_shown(
    ptk: Line, options: Any, shown: dict[str, Any]
) -> None:
    ptk.run(*CREATE, *options)
    ptk.run(*CREATE, *options)  # equal content changes nothing
    told = ptk.json("stream", "show", "rides")
    assert {name: told.get(name) for name in shown} == shown
    assert ("unit_column" in told) == ("unit_column" in shown)
    assert ptk.json("stream", "list")[0].items() >= shown.items()
    assert all(str(value) in ptk.run("stream", "show", "rides").stdout for value in shown.values())


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--privacy-unit", "user"), "needs the column of the user's id: --unit-column"),
        (("--unit-column", "rider"), "under 'record' each row is its own unit"),
        (("--privacy-unit", "family"), "choose from record, user-in-window, user"),
        ((*IN_WINDOW, "--user-shards", "2"), "user shards are blocks of the privacy unit 'user'"),
        (("--block-by", "city"), "--block-by is COLUMN=V1,V2,..., not 'city'"),
        (("--block-by", "city="), "--block-by is COLUMN=V1,V2,..."),
        (("--block-by", "zone=7,x"), "'x' is no int64"),
        (("--block-by", "long=true,yes"), "'yes' is no bool"),
        (("--block-by", "town=a"), "'town': it must be a declared"),
        ((*IN_WINDOW, "--block-by", "rider=1"), "publish a list of users"),
    ],
    ids=str,
)
def test_a_policy_that_cannot_be_kept_is_refused_in_one_line(ptk: Line, options: Any, says: str) -> None:
    assert says in ptk.refused(*CREATE, *options, code=2)
    assert not ptk.home.exists()


def test_budgets_name_the_value_or_the_shard_of_a_block(ptk: Line) -> None:
    ptk.run(*CREATE, "--block-by", "city=rome,paris")
    ptk.run("close", "rides", "--until", "2026-01-06")
    rows = ptk.json("budget", "rides")
    assert [(r["window"], r["part"], r["city"]) for r in rows[:3]] == [
        (0, "profile", "rome"),
        (0, "profile", "paris"),
        (0, "test", "rome"),
    ]
    ptk.run(
        *(word.replace("rides", "users") for word in CREATE),
        "--privacy-unit",
        "user",
        "--unit-column",
        "rider",
    )
    ptk.run("close", "users", "--until", "2026-01-06")
    assert [(r["part"], r["shard"]) for r in ptk.json("budget", "users")] == [
        ("profile", 0),
        ("test", 0),
        ("train-0", 0),
    ]
    assert "shard" in ptk.run("budget", "users").stdout


def test_a_stream_shows_that_nothing_older_than_its_retention_is_kept(ptk: Line) -> None:
    ptk.run(*CREATE)
    ptk.run("close", "rides", "--until", "2026-01-06")
    assert ptk.json("stream", "show", "rides")["exposure"] == {
        "rows_since": "2026-01-05T00:00:00+00:00",
        "retention_allows_since": "2026-01-05T00:00:00+00:00",
        "open_since": "2026-01-06T00:00:00+00:00",
        "overdue_windows": [],
        "remains_of_expired_windows": [],
        "holds": True,
        "closing": "operator",
        "most_windows": 1,
        "readable_seconds": 86400,
        "would_have_expired_by_the_clock": [0],
    }
    assert "check holds: files, keys and drafts of every expired window are gone." in told(ptk)
    assert "Exposed now: rows and drafts of events since 2026-01-05 00:00 UTC, in window 0 and" in told(ptk)


def told(ptk: Line) -> str:
    return " ".join(ptk.run("stream", "show", "rides").stdout.split())


def test_a_user_is_forgotten_with_the_same_words_as_one_who_never_was(ptk: Line, tmp_path: Path) -> None:
    ptk.run(*CREATE, *IN_WINDOW)
    ingest(ptk, tmp_path, [7, 7, 8])
    answers = {ptk.run("forget", "rides", unit).stdout for unit in ("7", "12345")}
    assert len(answers) == 1
    (answer,) = answers
    assert "12345" not in answer
    assert ptk.json("forget", "rides", "8") == {"stream": "rides", "forgotten": True}


def test_the_unit_may_come_on_standard_input(ptk: Line) -> None:
    ptk.run(*CREATE, *IN_WINDOW)

    def asked(given: str) -> Result:
        return CliRunner().invoke(app, ["forget", "rides", "-"], input=given, env={"PTK_HOME": str(ptk.home)})

    assert asked("7\n").exit_code == 0
    refused = asked("canary\n")
    assert refused.exit_code == 2
    assert "canary" not in refused.output


def test_rows_of_a_record_stream_cannot_be_named(ptk: Line) -> None:
    ptk.run(*CREATE)
    assert "random id that nobody is told" in ptk.refused("forget", "rides", "7", code=1)
