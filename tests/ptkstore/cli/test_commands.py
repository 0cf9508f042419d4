"""The command line: exit codes, one line for an error, JSON for programs, no traceback whatever comes in."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyarrow import csv, feather

from tests.support.cases import case
from tests.support.command_line import CREATE, Line, ptk, repository, stream
from tests.support.world import trips

__all__ = ["ptk", "stream"]


def test_nothing_is_there_at_first(ptk: Line) -> None:
    ptk.run("team", "create", "taxi")  # a home may begin with its teams
    assert ptk.json("list") == []
    assert ptk.json("stream", "list") == []
    assert ptk.json("subscriptions") == []
    assert "no streams yet" in ptk.run("stream", "list").stdout


@pytest.mark.parametrize(
    "words", [["list"], ["stream", "list"], ["budget", "taxi"], ["ledger", "verify"], ["work"]], ids=str
)
def test_a_mistyped_home_is_told_of_and_not_made(ptk: Line, words: Sequence[str]) -> None:
    assert "there is no store in" in ptk.refused(*words, code=2)
    assert not ptk.home.exists()


def test_a_stream_is_made_shown_filled_and_closed(stream: Line, tmp_path: Path) -> None:
    (shown,) = stream.json("stream", "list")
    assert (shown["stream"], shown["epsilon"], shown["closing"]) == ("taxi", 1.0, "operator")
    pq.write_table(trips((0.5, 0.6, -1.0)), tmp_path / "trips.parquet")
    assert stream.json("ingest", "taxi", str(tmp_path / "trips.parquet"), "--batch", "b") == {
        "batch_id": "b",
        "accepted": 2,
        "refused": {"time-before-origin": 1},
        "repeated": False,
    }
    assert stream.json("ingest", "taxi", str(tmp_path / "trips.parquet"), "--batch", "b")["repeated"]
    assert stream.json("close", "taxi", "--until", "2026-01-06") == {"closed": 1}
    assert stream.json("stream", "show", "taxi")["windows"] == [
        {
            "window": 0,
            "start": "2026-01-05T00:00:00+00:00",
            "end": "2026-01-06T00:00:00+00:00",
            "state": "closed",
            "rows_until": "2026-01-07T00:00:00+00:00",
        }
    ]
    assert [row["part"] for row in stream.json("budget", "taxi")] == ["profile", "test", "train-0"]
    assert stream.json("ledger", "verify") == [{"stream": "taxi", "entries": 1, "blocks": 3, "faults": []}]
    for words in (["stream", "show", "taxi"], ["budget", "taxi"], ["ledger", "verify"], ["config"]):
        assert stream.run(*words).stdout


def test_a_stream_grows_by_a_column(stream: Line) -> None:
    for _ in range(2):
        told = stream.json("stream", "add-column", "taxi", "tip", "float64", "--default", "0")
        assert told == {"stream": "taxi", "column": "tip", "schema_version": 2}
    shown = stream.json("stream", "show", "taxi")
    assert (shown["schema_version"], shown["columns"]["tip"]) == (2, "float64")
    assert shown["added_columns"]["tip"]["default"] == 0.0
    for words in (
        ("tip", "int64", "--default", "1"),
        ("n", "float64", "--default", "x"),
        ("n", "date", "--default", "x"),
    ):
        stream.run("stream", "add-column", "taxi", *words, code=2)


@pytest.mark.parametrize("ending", ["csv", "arrow", "ndjson"])
def test_files_of_every_kind_are_read(stream: Line, tmp_path: Path, ending: str) -> None:
    file = tmp_path / f"trips.{ending}"
    if ending == "csv":
        csv.write_csv(trips((0.5,)), file)
    elif ending == "arrow":
        feather.write_feather(trips((0.5,)), str(file))
    else:
        file.write_text('{"at": "2026-01-05 12:00:00", "hour": 1, "speed": 2.5, "zone": "z", "long": true}\n')
    assert stream.json("ingest", "taxi", str(file))["accepted"] == 1


def test_a_refusal_is_one_line_with_a_code(stream: Line) -> None:
    for words, code, says in [
        (["stream", "show", "bikes"], 2, "unknown-name: there is no stream 'bikes'"),
        (["stream", "show", "[/nothing]"], 2, "unknown-name: there is no stream '[/nothing]'"),
        (["stream", "show", "[bold]x"], 2, "unknown-name: there is no stream '[bold]x'"),
        (["budget", "bikes"], 2, "unknown-name"),
        (["close", "taxi"], 2, "invalid-request: stream 'taxi' is closed by its operator"),
        (["close", "taxi", "--until", "later"], 2, "is no ISO 8601 time"),
        (["close", "taxi", "--until", "0001-01-01T00:00+05:00"], 2, "years 1 to 9999"),
        (["close", "taxi", "--until", "2026-01-15"], 1, "refused: window 0"),
        (["close", "taxi", "--until", "9999-01-01"], 2, "future"),
        (["show", "taxi"], 2, "must be <team>.<name>"),
        (["show", "taxi.speed"], 2, "unknown-name: there is no PTK 'taxi.speed'"),
        (["versions", "a.b.c"], 2, "PTK name"),
        (["lookup", "taxi.speed:count", "hour"], 2, "name=value"),
        (["lookup", "nothing", "hour=1"], 2, "there is no PTK or view 'nothing'; see: ptk list"),
        (["lookup", "ptk_state", "ptk=taxi.speed"], 2, "name the features"),
        (["subscribe", "taxi.speed", "--endpoint", "ftp://x"], 2, "endpoint"),
        (["featurize", "taxi.speed", "x.csv", "-o", "y"], 2, "unknown-name"),
        (["ledger", "verify", "--stream", "bikes"], 2, "unknown-name"),
        (["ingest", "taxi", "a.csv", "b.csv", "--batch", "b"], 2, "give one file"),
        (["plan", "/nowhere"], 2, "team.toml"),
        ([*CREATE, "--epsilon", "2"], 1, "both fixed at creation: epsilon is 1, not 2"),
    ]:
        with case(str((words, code, says))):
            line = stream.refused(*words, code=code)
            assert says in line


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--epsilon", "nan"], "epsilon must be finite"),
        (["--epsilon", "11"], "[1e-6, 10], not 11"),
        (["--schema", "at"], "name:type"),
        (["--schema", "at:timestamp,at:int64"], "name once"),
        (["--schema", "at:when"], "column type 'when'"),
        (["--window", "1w"], "duration"),
        (["--lateness", "2d"], "shorter than the retention"),
        (["--n-max", "99999999999999999999999999"], "whole number"),
    ],
    ids=str,
)
def test_a_wrong_stream_is_refused_and_nothing_is_made(ptk: Line, words: Sequence[str], says: str) -> None:
    assert says in ptk.refused(*CREATE, *words, code=2)
    assert not ptk.home.exists()


@pytest.mark.parametrize("words", [[], ["nothing"], ["stream", "create", "x"], ["close"], ["ingest", "taxi"]])
def test_wrong_use_is_exit_code_2(ptk: Line, words: Sequence[str]) -> None:
    assert "Usage" in ptk.run(*words, code=2).output


def test_a_file_that_cannot_be_used_is_refused_without_its_content(stream: Line, tmp_path: Path) -> None:
    for name, content in [
        ("a.csv", b""),
        ("a.csv", b'at,hour\n"open,1\n'),
        ("a.csv", b"\x8b\x00\xff271828,1\n"),
        ("a.csv", b"caf\xe9,hour\n271828,2\n"),
        ("a.csv", b"271828,Ann\n271828,Ann\n"),
        ("a.parquet", b""),
        ("a.parquet", b"PAR1" + b"271828" * 99 + b"PAR1"),
        ("a.arrow", b"ARROW1" + b"271828" * 99),
        ("a.ndjson", b'{"at": 271828}\n{"at": "x"}\n'),
        ("a.jsonl", b"[271828]\n"),
        ("a.xlsx", b"271828"),
    ]:
        with case(str((name, content))):
            (tmp_path / name).write_bytes(content)
            line = stream.refused("ingest", "taxi", str(tmp_path / name), code=2)
            assert "271828" not in line
            assert "Ann" not in line
            assert not list(stream.home.glob("raw/**/*.parquet"))


def test_a_home_that_cannot_be_used_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "catalog.db").write_bytes(b"no database, " * 100)
    for home in (tmp_path / "file", tmp_path / "file" / "below"):
        assert "there is no store in" in Line(home).refused("list", code=2)
    assert Line(tmp_path / "home").refused("list", code=1).startswith("unavailable: the catalog")


# repositories


def test_plan_shows_apply_does_and_doing_it_again_changes_nothing(stream: Line, tmp_path: Path) -> None:
    folder = repository(tmp_path / "team")
    plan = stream.json("plan", folder)
    (step,) = plan
    assert (step["action"], step["ptk_id"], step["epsilon"], step["delta"]) == (
        "register",
        "taxi.speed",
        0.1,
        0,
    )
    assert (step["epsilon_before"], step["assurance"], step["bundle"]) == (0, "library", None)
    assert stream.json("list") == []
    assert stream.json("apply", folder) == [
        {**step, "checks": None, "reason": "", "room": None}
    ]  # checked by the plan alone
    (row,) = stream.json("list")
    assert (row["ptk"], row["epsilon"], row["versions"]) == ("taxi.speed", 0.1, 0)
    assert stream.json("apply", folder)[0]["action"] == "keep"
    assert stream.json("apply", repository(tmp_path / "team", "0.2"))[0]["action"] == "update"
    assert stream.json("show", "taxi.speed")["newest"] is None
    assert stream.json("versions", "taxi.speed") == []
    assert "keep taxi.speed" in stream.run("plan", folder).stdout


def test_a_repository_is_looked_for_here_by_default(
    stream: Line, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository(tmp_path / "team"))
    assert stream.json("plan")[0]["ptk_id"] == "taxi.speed"


def test_a_ptk_that_does_not_fit_is_refused_with_exit_code_1(stream: Line, tmp_path: Path) -> None:
    folder = repository(tmp_path / "team", "2.0")
    assert "ptk-rejected: ptks.py: taxi.speed asks for epsilon 2" in stream.refused("apply", folder, code=1)
    assert stream.json("list") == []


@pytest.mark.parametrize("epsilon", ["'abc'", "None", "float('nan')", "-1", "[1]", "True"])
def test_an_epsilon_that_is_none_is_refused_by_plan_and_apply(
    stream: Line, tmp_path: Path, epsilon: str
) -> None:
    folder = repository(tmp_path / "team", epsilon)
    for command in ("plan", "apply"):
        stream.refused(command, folder, code=2)
    assert stream.json("list") == []


def test_deeply_nested_join_keys_are_text(stream: Line) -> None:
    stream.run("lookup", "nothing", "k=" + "[" * 20_000, code=2)


def test_word_of_the_ledger_going_wrong_is_exit_code_1(stream: Line) -> None:
    stream.run("close", "taxi", "--until", "2026-01-06")
    with sqlite3.connect(stream.home / "catalog.db") as connection:
        connection.execute(
            "INSERT INTO journal VALUES "
            "('taxi', 3, 'k', 'reserve', 'a.b', 2, 3, NULL, 5, 0, 'common', '[5, 0]', '{}', 'x', 'y')"
        )
    connection.close()
    (check,) = stream.json("ledger", "verify", code=1)
    assert check["faults"] == ["sequence 2 is missing before 3"]
    assert "is wrong" in stream.run("ledger", "verify", code=1).stdout


# settings


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        (
            "PTK_DATABASE_URL",
            "postgresql://me:hunter2@host:5432/db",
            "postgresql://me:****@host:5432/db",
        ),
        (
            "PTK_DATABASE_URL",
            "postgresql:///db?host=/run/pg&password=hunter2",
            "postgresql:///db?host=/run/pg&password=****",
        ),
        ("PTK_REDIS_URL", "redis://:hunter2@host:6379/0", "redis://:****@host:6379/0"),
        ("PTK_REDIS_URL", "redis://:hunter2@x@host:6379/0", "redis://:****@host:6379/0"),
        ("PTK_LAKE_URL", "s3://hunter2@bucket/lake", "s3://****@bucket/lake"),
        (
            "PTK_RAW_URL",
            "s3://bucket/raw?secret=hunter2&token=hunter2",
            "s3://bucket/raw?secret=****&token=****",
        ),
        ("PTK_LAKE_URL", "s3://bucket/lake", "s3://bucket/lake"),
    ],
)
def test_secrets_in_settings_are_masked(
    ptk: Line, monkeypatch: pytest.MonkeyPatch, name: str, value: str, shown: str
) -> None:
    monkeypatch.setenv(name, value)
    rows = {row["name"]: row for row in ptk.json("config")}
    assert (rows[name]["value"], rows[name]["source"]) == (shown, "environment or argument")
    assert rows["PTK_LEASE_SECONDS"]["source"] == "default"
    assert "hunter2" not in ptk.run("config").output


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PTK_LEASE_SECONDS", "hunter2"),
        ("PTK_LEASE_SECONDS", "nan"),
        ("PTK_WORKER_CONCURRENCY", "0"),
        ("PTK_PUBLISH_TICK_SECONDS", "1e-9"),
        ("PTK_PUBLISH_TICK_SECONDS", "59"),
        ("PTK_ONLINE_STORE", "hunter2"),
        ("PTK_WEBHOOK_NETWORKS", "10.0.0.0/8,hunter2"),
        ("PTK_DEVICE_ORIGINS", "https://app.example.org,hunter2"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named_without_its_value(
    ptk: Line, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    line = ptk.refused("config", code=2)
    assert name in line
    assert "hunter2" not in line


@pytest.mark.parametrize(
    "url", ["mysql://me:hunter2@host/db", "hunter2", "postgresql://me:hunter2@127.0.0.1:1/db"]
)
def test_a_catalog_that_cannot_be_reached_is_told_without_its_password(
    ptk: Line, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setenv("PTK_DATABASE_URL", url)
    code = 1 if "127.0.0.1" in url else 2
    assert "hunter2" not in ptk.refused("list", code=code)
