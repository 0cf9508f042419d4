"""Odometers and signed reports of a whole service."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from ptkstore.domain.accounting.accountants import Accountant
from ptkstore.domain.accounting.losses import Loss
from ptkstore.domain.accounting.sharing import Sharing
from ptkstore.domain.streams.policies import Closing, Policy, PrivacyUnit
from ptkstore.domain.streams.streams import Stream
from ptkstore.errors import InvalidRequest, UnknownName
from ptkstore.sdk import Store, check_report
from tests.support.several_windows import queue_training
from tests.support.world import DAY, ORIGIN, SCHEMA, STREAM, World, speed, trips

TENTH = Loss(10**8)


@pytest.fixture
def trained(world: World) -> World:
    """Two windows, two PTKs, each trained on both."""
    world.register()
    world.register("fares", 0.25)
    for day in range(2):
        world.publish(day)
    return world


@pytest.fixture
def make(tmp_path: Path) -> Any:
    made: list[World] = []

    def one(name: str, delta: float = 0.0, **policy: Any) -> World:
        made.append(World(tmp_path / name))
        fields = {"closing": Closing.OPERATOR, "retention_windows": 2, "rows_per_window": 100, **policy}
        made[-1].service.create_stream(
            Stream(STREAM, "taxi", SCHEMA, Policy(Loss.capacity(1, delta), DAY, ORIGIN, **fields))
        )
        return made[-1]

    yield one
    for each in made:
        each.service.close()


def report(world: World, *period: Any) -> dict[str, Any]:
    made = world.service.export_ledger(STREAM, *period)
    found = check_report(made.content, world.service.signer.public_key().hex())
    assert found.fault == ""
    return dict(found.report)


# odometers


def test_what_was_trained_is_on_every_odometer(trained: World) -> None:
    found = trained.service.odometers(STREAM)
    views = trained.service.budget(STREAM)
    assert [(row.number, row.spent.guarantee, row.reserved) for row in found.blocks] == [
        (view.number, view.spent, view.reserved) for view in views
    ]
    assert found.stream.guarantee == found.stream.basic == Loss(35 * 10**7)
    assert found.stream.releases == 2
    assert {one.name: one.spent.guarantee.epsilon for one in found.ptks} == {
        "taxi.fares": 0.25,
        "taxi.speed": 0.1,
    }
    assert [(one.name, one.spent.guarantee.epsilon) for one in found.teams] == [("taxi", 0.35)]


def test_reservations_of_a_window_that_nobody_opened_are_apart(world: World) -> None:
    world.register()
    world.ingest()
    world.close(1)
    world.work("prepare", "allocate")
    found = world.service.odometers(STREAM)
    assert (found.stream.releases, found.blocks[2].reserved) == (0, TENTH)
    assert [(one.name, one.reserved, one.spent.releases) for one in found.ptks] == [("taxi.speed", TENTH, 0)]


def test_the_tight_figure_is_closer_where_the_policy_has_a_delta(make: Callable[..., World]) -> None:
    world = make("renyi", 1e-6, accountant=Accountant.RENYI)
    for number in range(9):
        world.register(f"speed{number}")
    world.publish(0)
    spent = world.service.odometers(STREAM).stream
    assert (spent.releases, spent.basic) == (9, Loss(9 * 10**8))
    assert 0.5 < spent.tight.epsilon < spent.guarantee.epsilon <= 0.9
    (block,) = [row for row in Store(world.service).budget(STREAM, tight=True) if row["part"] == "train-0"]
    assert block["tight_epsilon"] == spent.tight.epsilon
    assert (block["spent_epsilon"], block["tight_delta"]) == (spent.guarantee.epsilon, 1e-6)


def test_blocks_with_several_lines_have_a_row_for_each(make: Callable[..., World]) -> None:
    world = make("lines", sharing=Sharing(reserved=(("taxi.speed", Decimal("0.5")),)))
    world.register("speed", 0.4)
    world.register("fares", 0.25)
    world.publish(0)
    store = Store(world.service)
    for rows in (store.budget(STREAM), store.budget(STREAM, tight=True)):
        assert [
            (r["line"], r["capacity_epsilon"], r["spent_epsilon"]) for r in rows if r["part"] == "train-0"
        ] == [
            ("common", 0.5, 0.25),
            ("ptk taxi.speed", 0.5, 0.4),
        ]
    found = world.service.odometers(STREAM)
    assert {line: spent.guarantee.epsilon for line, spent in found.lines.items()} == {
        "common": 0.25,
        "ptk taxi.speed": 0.4,
    }
    assert found.stream.guarantee.epsilon == 0.65


def test_windows_in_doubt_after_a_recovery_count_in_full(trained: World) -> None:
    with trained.service.begin() as uow:
        uow.streams.lock(STREAM)
        uow.streams.advance(STREAM, replace(uow.streams.progress(STREAM), retired_before=1))
        uow.commit()
    found = trained.service.odometers(STREAM)
    assert [row.in_doubt for row in found.blocks] == [True] * 3 + [False] * 3
    assert found.stream.guarantee == Loss.capacity(1)
    told = report(trained)
    assert told["windows_in_doubt_below"] == 1
    assert [block["in_doubt"] for block in told["blocks"]] == [True] * 3 + [False] * 3
    assert report(trained, ORIGIN + DAY)["spent"]["stream"]["guarantee"]["epsilon"] == "0.35"


def test_windows_that_a_recovery_forgot_count_in_what_a_person_loses(make: Callable[..., World]) -> None:
    users = {"privacy_unit": PrivacyUnit.USER_IN_WINDOW, "unit_column": "zone", "max_rows_per_unit": 3}
    world = make("users", **users)
    estimator = speed(0.25)
    covering = {**estimator["params"], "unit": "zone", "max_rows_per_unit": 3}
    world.register("speed", estimator={**estimator, "params": covering})
    for day in range(2):
        world.publish(day)

    def in_all_windows(*period: Any) -> tuple[str, str]:
        told = report(world, *period)
        return told["spent"]["means"][-1]["epsilon"], told["guarantee"]["promised"][-1]["epsilon"]

    assert in_all_windows() == ("0.5", "2")
    with world.service.begin() as uow:  # a recovery after windows 0 to 4: this catalog knows two of them
        uow.streams.lock(STREAM)
        uow.streams.advance(STREAM, replace(uow.streams.progress(STREAM), retired_before=5))
        uow.commit()
    assert in_all_windows() == ("5", "5")
    assert in_all_windows(ORIGIN + 3 * DAY) == ("2", "2")
    assert in_all_windows(ORIGIN + DAY, ORIGIN + 4 * DAY) == ("3", "3")
    assert in_all_windows(ORIGIN + 5 * DAY) == ("0", "1")


# reports


def test_a_report_says_what_the_ledger_says(trained: World) -> None:
    told = report(trained)
    with trained.service.begin() as uow:
        journal = uow.ledger.chain(STREAM)
    assert told["stream"] == {"name": STREAM, "team": "taxi"}
    assert told["ledger_id"] == trained.service.catalog.journal_view().ledger_id
    assert told["made_at"] == trained.clock.now().isoformat()
    assert told["verification"] == {"adds_up": True, "faults": []}
    assert told["journal"] == {
        "entries": 9,  # the policy, and four for each of two PTKs
        "before_first": "0" * 64,
        "first": {"sequence": 1, "digest": journal[0].digest},
        "last": {"sequence": 9, "digest": journal[-1].digest},
    }
    assert [(one["ptk"], one["epsilon"], one["blocks"]) for one in told["losses"]] == [
        ("taxi.fares", "0.25", {"from": 2, "below": 3}),
        ("taxi.speed", "0.1", {"from": 2, "below": 3}),
        ("taxi.fares", "0.25", {"from": 130, "below": 131}),
        ("taxi.speed", "0.1", {"from": 130, "below": 131}),
    ]
    assert json.loads(told["losses"][0]["event"])["name"] == "Composed"
    assert told["guarantee"]["per_block"] == {"epsilon": "1", "delta": "0"}
    assert "Rényi filter" in told["guarantee"]["composition"]
    assert told["spent"]["stream"]["guarantee"] == {"epsilon": "0.35", "delta": "0"}
    assert [(block["block"], block["window"], block["spent"]["releases"]) for block in told["blocks"]] == [
        (0, 0, 0),
        (1, 0, 0),
        (2, 0, 2),
        (128, 1, 0),
        (129, 1, 0),
        (130, 1, 2),
    ]
    assert [(one["ptk"], one["family"], one["assurance"]) for one in told["ptks"]] == [
        ("taxi.fares", "HistoricalStatistics", "library"),
        ("taxi.speed", "HistoricalStatistics", "library"),
    ]
    assert [one["team"] for one in told["teams"]] == ["taxi"]


def test_a_loss_names_the_blocks_of_all_windows_and_is_told_for_each_of_them(
    make: Callable[..., World],
) -> None:
    world = make("several", retention_windows=8)
    for day in range(4):
        world.ingest([day + 0.5])
    world.close(4)
    world.work("prepare", "allocate")
    world.register()
    queue_training(world, 0, 1, 3, n_rows=240)
    world.work("train", "place")
    blocks = [{"from": 128 * window + 2, "below": 128 * window + 3} for window in (0, 1, 3)]
    for period, windows in [
        ((None, None), [0, 1, 3]),
        ((ORIGIN + 3 * DAY, None), [3]),
        ((ORIGIN + DAY, ORIGIN + 2 * DAY), [1]),
    ]:
        told = report(world, *period)
        (loss,) = told["losses"]
        assert [loss["blocks"], *loss["further_blocks"]] == blocks
        assert [one["window"] for one in told["blocks"] if one["spent"]["releases"]] == windows
    told = report(world, ORIGIN + 2 * DAY, ORIGIN + 3 * DAY)  # a window between them
    assert (told["losses"], told["spent"]["stream"]["releases"]) == ([], 0)


def test_a_report_says_who_closes_windows_and_what_is_exposed(make: Callable[..., World]) -> None:
    told = report(make("operator"))
    assert (told["policy"]["closing"], told["exposure"]["closing"]) == ("operator", "operator")
    assert any("never expire by the wall clock" in one for one in told["exposure"]["means"])
    world = make("clock", closing=Closing.CLOCK)
    world.service.close_windows(STREAM)  # thirty windows, of which none has expired yet
    found = report(world)["exposure"]
    assert (found["closing"], found["holds"], found["past_by_clock"]) == ("clock", False, [])
    assert found["overdue_windows"] == list(range(28))
    assert found["verdict"].startswith(
        "The exposure check fails: windows 0 to 27 should have expired and did not"
    )
    world.work("expire")
    found = report(world)["exposure"]
    assert (found["holds"], [one["window"] for one in found["windows"]]) == (True, [28, 29])


def test_a_report_on_a_period_holds_its_windows_alone(trained: World) -> None:
    for period, windows in [
        ((None, None), [0, 1]),
        ((ORIGIN + DAY, None), [1]),
        ((None, ORIGIN + DAY), [0]),
        ((ORIGIN + DAY / 2, ORIGIN + DAY * 3 / 2), [0, 1]),
        ((ORIGIN, ORIGIN + timedelta(microseconds=1)), [0]),
        ((ORIGIN + 2 * DAY, ORIGIN + 9 * DAY), []),
        ((ORIGIN - 9 * DAY, ORIGIN), []),
    ]:
        told = report(trained, *period)
        assert [window["window"] for window in told["period"]["windows"]] == windows
        assert sorted({block["window"] for block in told["blocks"]}) == windows
        assert len(told["losses"]) == 2 * len(windows)
        assert len(told["ptks"]) == (2 if windows else 0)
        assert told["journal"]["entries"] == 9  # the journal is one chain: all of it is verified
    for wrong in ((ORIGIN, ORIGIN), (ORIGIN + DAY, ORIGIN)):
        with pytest.raises(InvalidRequest, match="end after it starts"):
            trained.service.export_ledger(STREAM, *wrong)


def test_a_stream_without_windows_has_a_report_too(world: World) -> None:
    told = report(world)
    assert (told["journal"]["entries"], told["blocks"], told["losses"], told["ptks"]) == (1, [], [], [])
    assert told["journal"]["last"] == told["journal"]["first"]
    with pytest.raises(UnknownName):
        world.service.export_ledger("bikes")


def test_blocks_of_users_are_reported_for_life(make: Callable[..., World]) -> None:
    world = make(
        "users", privacy_unit=PrivacyUnit.USER, unit_column="zone", max_rows_per_unit=3, user_shards=2
    )
    world.ingest()
    world.close(1)
    told = report(world)
    assert [(block["window"], block["shard"]) for block in told["blocks"]][:2] == [(None, 0), (None, 1)]
    assert [one["epsilon"] for one in told["guarantee"]["promised"]] == ["1", "1", "1"]
    with pytest.raises(InvalidRequest, match="as long as the stream"):
        world.service.export_ledger(STREAM, ORIGIN)


def test_nothing_in_a_report_depends_on_the_rows(make: Callable[..., World]) -> None:
    told = []
    for name, days in (("few", (0.5,)), ("many", tuple(0.001 * n for n in range(500)))):
        world = make(name)
        world.register()
        world.service.ingest(STREAM, trips(days))
        world.close(1)
        world.work()
        made = report(world)
        for random in (made["journal"]["first"], made["journal"]["last"]):
            random.pop("digest")  # holds a nonce
        made.pop("ledger_id")
        told.append(made)
    assert told[0] == told[1]


def test_a_journal_that_does_not_add_up_is_reported_as_that(trained: World) -> None:
    with sqlite3.connect(trained.service.settings.root / "catalog.db") as connection:
        for (trigger,) in connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'trigger'"
        ).fetchall():
            connection.execute(f"DROP TRIGGER {trigger}")
        connection.execute("UPDATE journal SET epsilon_nano = 1 WHERE sequence = 3")
    connection.close()
    made = trained.service.export_ledger(STREAM)
    assert made.faults
    found = check_report(made.content)
    assert (found.fault, found.summary["adds_up"]) == ("", False)
    assert found.report["verification"] == {"adds_up": False, "faults": list(made.faults)}
    assert not {"spent", "blocks", "ptks", "teams"} & set(found.report)


def test_every_byte_of_a_real_report_counts(trained: World) -> None:
    content = trained.service.export_ledger(STREAM).content
    for place in range(0, len(content), 37):
        changed = bytearray(content)
        changed[place] ^= 1
        assert check_report(bytes(changed)).fault
    with pytest.raises(InvalidRequest, match="64 hexadecimal"):
        check_report(content, "abc")
