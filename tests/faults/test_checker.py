"""The checker finds what was done to a lake, a log or a ledger behind the service's back."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.faults import scenario
from tests.faults.checker import Evidence, Subscriber, check
from tests.faults.ledger_tables import SQLITE
from tests.faults.rig import rig

FIRST = Path("ptks") / scenario.LONG / "v00000001"
SECOND = Path("ptks") / scenario.LONG / "v00000002"


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Evidence]:
    with rig(tmp_path_factory.mktemp("checked") / "home") as made:
        scenario.create_stream(made.store)
        scenario.register(made.store, [scenario.LONG])
        made.subscribe(scenario.LONG, "first")
        for window in (0, 1):
            made.close(window)
            made.work(made.service())
        yield made.evidence


@pytest.fixture
def copy(honest: Evidence, tmp_path: Path) -> Evidence:
    """The same evidence, to be tampered with."""
    shutil.copytree(honest.lake, tmp_path / "lake")
    shutil.copy(honest.log, tmp_path / "log")
    with (
        closing(sqlite3.connect(honest.database.removeprefix(SQLITE))) as source,
        closing(sqlite3.connect(tmp_path / "catalog.db")) as target,
    ):
        source.backup(target)
    database = f"{SQLITE}{tmp_path / 'catalog.db'}"
    return replace(honest, lake=tmp_path / "lake", log=tmp_path / "log", database=database)


def codes(evidence: Evidence, *, settled: bool = True) -> set[str]:
    return {fault.code for fault in check(evidence, settled=settled)}


def table_of(version: Path) -> Path:
    return next(version.glob("*.parquet"))


def rewrite(version: Path, change: Callable[[dict[str, Any]], object]) -> None:
    manifest = json.loads((version / "manifest.json").read_text())
    change(manifest)
    (version / "manifest.json").write_text(json.dumps(manifest))


def execute(evidence: Evidence, *statements: str) -> None:
    """Past the triggers, as somebody with the file in hands could."""
    with closing(sqlite3.connect(evidence.database.removeprefix(SQLITE))) as connection:
        triggers = connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for (trigger,) in triggers:
            connection.execute(f"DROP TRIGGER {trigger}")
        for statement in statements:
            assert connection.execute(statement).rowcount > 0
        connection.commit()


def test_an_honest_run_has_no_fault(copy: Evidence):
    assert check(copy, settled=True) == []


def test_a_torn_table_is_found(copy: Evidence):
    table = table_of(copy.lake / FIRST)
    table.write_bytes(table.read_bytes()[:-9])
    assert "torn-version" in codes(copy)


def test_a_missing_table_is_found(copy: Evidence):
    table_of(copy.lake / FIRST).unlink()
    assert "torn-version" in codes(copy, settled=False)


def test_a_missing_manifest_is_found_once_the_chain_rests(copy: Evidence):
    (copy.lake / SECOND / "manifest.json").unlink()
    assert "torn-version" not in codes(copy, settled=False)
    assert {"torn-version", "false-notification"} == codes(copy)


def test_a_file_that_no_manifest_names_is_found(copy: Evidence):
    shutil.copy(table_of(copy.lake / FIRST), copy.lake / SECOND / "other.parquet")
    assert codes(copy) == {"unlisted-file"}


def test_a_folder_that_is_no_version_is_found(copy: Evidence):
    (copy.lake / SECOND).with_name("draft").mkdir()
    assert codes(copy) == {"unlisted-file"}


def test_a_gap_between_versions_is_found(copy: Evidence):
    shutil.rmtree(copy.lake / FIRST)
    assert "version-gap" in codes(copy)


def test_a_second_output_of_one_reservation_is_found(copy: Evidence):
    shutil.copytree(copy.lake / SECOND, (copy.lake / SECOND).with_name("v00000003"))
    rewrite((copy.lake / SECOND).with_name("v00000003"), lambda m: m.update(version=3))
    assert {"second-version", "lost-notification"} <= codes(copy)


def test_a_version_that_hides_a_block_is_found(copy: Evidence):
    rewrite(copy.lake / SECOND, lambda m: m["blocks"][0].update(number=7))
    assert "wrong-blocks" in codes(copy)


def test_a_version_charged_less_than_it_shows_is_found(copy: Evidence):
    rewrite(copy.lake / SECOND, lambda m: m["blocks"][-1].update(epsilon_nano=900_000_000))
    assert "uncharged" in codes(copy)


def test_a_version_on_a_block_without_room_is_found(copy: Evidence):
    execute(copy, "UPDATE block SET capacity_epsilon_nano = 300000000")
    assert codes(copy) == {"overspent", "capacity-changed"}


def test_a_changed_journal_is_found(copy: Evidence):
    execute(copy, "UPDATE journal SET epsilon_nano = 1 WHERE sequence = 3", "UPDATE journal SET lo = lo")
    assert {"journal-digest", "journal-order"} <= codes(copy)


def test_a_lost_line_of_the_journal_is_found(copy: Evidence):
    execute(copy, "DELETE FROM journal WHERE sequence = 3")
    assert {"journal-gap", "uncharged"} <= codes(copy)


def test_a_spend_without_reservation_is_found(copy: Evidence):
    execute(copy, "DELETE FROM journal WHERE kind = 'reserve'")
    assert "journal-order" in codes(copy)


def test_a_notification_that_never_came_is_found(copy: Evidence):
    copy.log.write_text(copy.log.read_text().splitlines(keepends=True)[0])
    assert codes(copy) == {"lost-notification"}


def test_a_subscriber_nobody_told_is_found(copy: Evidence):
    assert codes(replace(copy, subscribers=(Subscriber("/other", scenario.LONG),))) == {"lost-notification"}


def test_notifications_in_the_wrong_order_are_found(copy: Evidence):
    copy.log.write_text("".join(reversed(copy.log.read_text().splitlines(keepends=True))))
    assert codes(copy) == {"out-of-order"}


def test_a_repeated_notification_is_no_fault(copy: Evidence):
    first, second = copy.log.read_text().splitlines(keepends=True)
    copy.log.write_text(first + first + second + first)
    assert codes(copy) == set()


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda call: call["message"]["data"].update(sha256="0" * 64), "false-notification"),
        (lambda call: call.update(received_at="2026-01-01T00:00:00+00:00"), "early-notification"),
        (lambda call: call.update(verified=False), "bad-signature"),
        (lambda call: call.update(status=503), "lost-notification"),
    ],
    ids=["false", "early", "unsigned", "refused"],
)
def test_a_notification_that_does_not_count_is_found(
    copy: Evidence, change: Callable[[dict[str, Any]], object], code: str
):
    calls = [json.loads(line) for line in copy.log.read_text().splitlines()]
    change(calls[-1])
    copy.log.write_text("".join(json.dumps(call) + "\n" for call in calls))
    assert code in codes(copy)
