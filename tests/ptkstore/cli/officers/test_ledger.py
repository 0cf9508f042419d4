"""`ptk budget`, `ptk ledger export` and `ptk ledger check`: files, exit codes and documents."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from ptkstore.cli.main import app
from ptkstore.domain.accounting.sharing import Sharing
from tests.support.cases import case
from tests.support.world import STREAM, World


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A service that trained one PTK on one window."""
    world = World(tmp_path / "home")
    world.stream()
    world.register()
    world.publish(0)
    world.service.close()
    return tmp_path / "home"


def run(home: Path, *words: object, code: int = 0) -> Result:
    made = CliRunner().invoke(app, list(map(str, words)), env={"PTK_HOME": str(home), "COLUMNS": "200"})
    assert made.exception is None or isinstance(made.exception, SystemExit), made.exception
    assert made.exit_code == code, made.output
    return made


def documents(home: Path, *words: object, code: int = 0) -> Any:
    return json.loads(run(home, *words, "--json", code=code).stdout)


def test_a_budget_is_told_by_block_and_by_who_spent_it(home: Path) -> None:
    (block,) = [row for row in documents(home, "budget", STREAM) if row["part"] == "train-0"]
    assert (block["spent_epsilon"], block["tight_epsilon"], block["capacity_epsilon"]) == (0.1, 0.1, 1.0)
    assert "line" not in block
    for by, name in (("ptk", "taxi.speed"), ("team", "taxi"), ("line", "common")):
        (row,) = documents(home, "budget", STREAM, "--by", by)
        assert (row[by], row["spent_epsilon"], row["basic_epsilon"], row["releases"]) == (name, 0.1, 0.1, 1)
        shown = run(home, "budget", STREAM, "--by", by).stdout
        assert name in shown
        assert "releases_in_fullest_block" in shown
    (row,) = documents(home, "budget", STREAM, "--by", "stream")
    assert row["spent_epsilon"] == 0.1
    run(home, "budget", STREAM, "--by", "colour", code=2)


def test_a_report_is_exported_and_checked_without_the_store(home: Path, tmp_path: Path) -> None:
    file, key = tmp_path / "report.json", tmp_path / "officer.pem"
    assert "written to" in run(home, "ledger", "export", STREAM, "-o", file).stdout.replace("\n", " ")
    key.write_text(run(home, "ledger", "export", "--public-key").stdout)
    digits = documents(home, "ledger", "export", "--public-key")["public_key"]
    shutil.rmtree(home)
    for given in (key, digits):
        found = documents(home, "ledger", "check", file, "--public-key", given)
        assert (found["fault"], found["public_key"], found["stream"]) == (None, digits, STREAM)
        assert (found["losses"], found["spent_epsilon"], found["adds_up"]) == (1, "0.1", True)
    assert "the signature is valid" in run(home, "ledger", "check", file).stdout
    assert not home.exists()


def test_a_check_without_a_report_names_the_command_that_checks_the_journal(home: Path) -> None:
    told = run(home, "ledger", "check", code=2).stderr
    assert "name the file of a report; the journal of a store is checked by: ptk ledger verify" in told


@pytest.mark.long
@pytest.mark.parametrize(("form", "first"), [("html", b"<!doctype html>"), ("pdf", b"%PDF-")])
def test_a_page_for_people_comes_with_the_signed_report_beside_it(
    home: Path, tmp_path: Path, form: str, first: bytes
) -> None:
    told = run(home, "ledger", "export", STREAM, "-o", tmp_path / f"report.{form}").stdout
    assert f"report.{form}" in told
    assert (tmp_path / f"report.{form}").read_bytes().startswith(first)
    signed = tmp_path / f"report.{form}.json"
    assert documents(home, "ledger", "check", signed)["adds_up"]
    assert signed.name in told.replace("\n", "")
    before = signed.read_bytes()  # whose digest the page tells
    run(home, "ledger", "export", STREAM, "-o", tmp_path / "report.json")
    assert signed.read_bytes() == before
    run(home, "ledger", "export", STREAM, "--format", form, "-o", tmp_path / "other.page")
    assert (tmp_path / "other.page").read_bytes().startswith(first)
    found = documents(home, "ledger", "export", STREAM, "--format", form, "-o", tmp_path / "third")
    assert found["signed_file"] == str(tmp_path / "third.json")


def test_a_page_needs_a_file_that_is_not_the_signed_one(home: Path, tmp_path: Path) -> None:
    assert "-o report.pdf" in run(home, "ledger", "export", STREAM, "--format", "pdf", code=2).stderr
    words = ("ledger", "export", STREAM, "--format", "html", "-o", tmp_path / "report.json")
    assert "signed JSON" in run(home, *words, code=2).stderr.replace("\n", " ")
    words = ("ledger", "export", STREAM, "-o", tmp_path / "report.docx")
    assert "in .json, .html or .pdf" in run(home, *words, code=2).stderr.replace("\n", " ")
    assert not list(tmp_path.glob("report*"))


def test_contexts_are_told_with_what_they_rest_on_and_their_sum(tmp_path: Path) -> None:
    world = World(tmp_path / "home")
    contexts = (("eu", ("taxi",)), ("us", ("cabs",)))
    world.stream(sharing=Sharing(contexts, "the regions share no readers at all"))
    world.register("speed", 0.25)
    world.publish(0)
    world.service.close()
    told = run(tmp_path / "home", "budget", STREAM).stdout
    assert "no request of one context reacts to an output of another" in told
    assert "to epsilon 2 at most and 0.25 until now on the worst block" in told
    rows = documents(tmp_path / "home", "budget", STREAM)
    assert {row["all_lines_spent_epsilon"] for row in rows if row["part"] == "train-0"} == {0.25}


def test_a_stream_that_an_operator_closes_says_that_nothing_expires_by_the_clock(home: Path) -> None:
    told = run(home, "stream", "show", STREAM).stdout
    assert "rows never expire by the wall clock" in told
    assert "By the wall clock, window 0 would have expired." in told
    found = documents(home, "stream", "show", STREAM)["exposure"]
    assert (found["closing"], found["would_have_expired_by_the_clock"]) == ("operator", [0])


def test_a_failed_exposure_check_is_said_in_words(tmp_path: Path) -> None:
    world = World(tmp_path / "home")
    world.stream()
    for day in range(4):
        world.publish(day)
    world.service.close()
    told = run(tmp_path / "home", "stream", "show", STREAM).stdout
    assert "The exposure check fails: windows 0 to 1 should have expired and did not." in told


def test_a_report_goes_to_standard_output_without_a_file(home: Path, tmp_path: Path) -> None:
    (tmp_path / "report.json").write_bytes(run(home, "ledger", "export", STREAM).stdout_bytes)
    assert documents(home, "ledger", "check", tmp_path / "report.json")["adds_up"]


def test_a_period_is_given_in_utc(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    run(home, "ledger", "export", STREAM, "--from", "2026-01-06", "--to", "2026-01-08T00:00", "-o", file)
    assert documents(home, "ledger", "check", file)["windows"] == 0
    run(home, "ledger", "export", STREAM, "--from", "2026-01-05", "-o", file)
    assert documents(home, "ledger", "check", file)["windows"] == 1


def test_a_changed_report_is_exit_code_1(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    run(home, "ledger", "export", STREAM, "-o", file)
    file.write_bytes(file.read_bytes().replace(b'"epsilon":"0.1"', b'"epsilon":"0.2"'))
    assert "does not fit" in run(home, "ledger", "check", file, code=1).stdout
    assert documents(home, "ledger", "check", file, code=1)["fault"]
    file.write_text("nonsense")
    assert "no report" in run(home, "ledger", "check", file, code=1).stdout


def test_the_key_of_another_store_is_exit_code_1(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    run(home, "ledger", "export", STREAM, "-o", file)
    elsewhere = tmp_path / "other"
    made = ("other", "--team", "b", "--time-column", "at", "--schema", "at:timestamp", "--epsilon", "1")
    run(elsewhere, "stream", "create", *made)
    other = documents(elsewhere, "ledger", "export", "--public-key")["public_key"]
    assert "another key" in run(home, "ledger", "check", file, "--public-key", other, code=1).stdout


def test_a_wrong_journal_is_exported_and_is_exit_code_1(home: Path, tmp_path: Path) -> None:
    with sqlite3.connect(home / "catalog.db") as connection:
        for (trigger,) in connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'trigger'"
        ).fetchall():
            connection.execute(f"DROP TRIGGER {trigger}")
        connection.execute("UPDATE journal SET ptk_id = 'taxi.other' WHERE sequence = 2")
    connection.close()
    file = tmp_path / "report.json"
    assert "digest" in run(home, "ledger", "export", STREAM, "-o", file, code=1).stderr
    assert documents(home, "ledger", "check", file, code=1)["adds_up"] is False


def test_wrong_use_is_one_line_and_exit_code_2(home: Path) -> None:
    for words in [
        ("ledger", "export"),
        ("ledger", "export", "bikes"),
        ("ledger", "export", STREAM, "--from", "later"),
        ("ledger", "export", STREAM, "--from", "2026-01-06", "--to", "2026-01-05"),
        ("ledger", "export", STREAM, "-o", "/nowhere/at/all.json"),
        ("ledger", "check", "/nowhere/at/all.json"),
        ("ledger", "check", "/"),
        ("ledger", "check", "pyproject.toml", "--public-key", "abc"),
        ("ledger", "check", "pyproject.toml", "--public-key", "/nowhere.pem"),
    ]:
        with case(str(words)):
            assert len(run(home, *words, code=2).stderr.strip().splitlines()) == 1
            assert documents(home, *words, code=2)["error"]["code"]


@pytest.mark.skipif(
    not (shutil.which("openssl") and shutil.which("jq")), reason="openssl and jq are not installed"
)
def test_other_tools_come_to_the_same_answer(home: Path, tmp_path: Path) -> None:
    """The two lines of docs/privacy-officer.md."""
    run(home, "ledger", "export", STREAM, "-o", tmp_path / "report.json")
    (tmp_path / "officer.pem").write_text(run(home, "ledger", "export", "--public-key").stdout)
    recipe = (
        "jq -cjS .report report.json > report.bytes\n"
        "jq -rj .signature.value report.json | tr a-f A-F | basenc --base16 -d > report.sig\n"
        "openssl pkeyutl -verify -pubin -inkey officer.pem -rawin -in report.bytes -sigfile report.sig\n"
    )
    said = subprocess.run(["sh", "-ec", recipe], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "Verified Successfully" in said.stdout
