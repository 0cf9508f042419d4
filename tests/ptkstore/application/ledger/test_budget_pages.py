"""Some blocks of a stream with team code: as they are among all, and without the journal of all others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ptkstore.adapters.sql.ledger.ledger import SqlLedger
from ptkstore.application.ledger.snapshot import OF_TEAM_CODE, assurances_of, assurances_on, snapshot_of
from ptkstore.domain.accounting.assurances import Assurance
from ptkstore.domain.accounting.losses import NO_LOSS
from ptkstore.domain.ledger.journal import EntryKind
from tests.support.world import STREAM, World

PTK = "taxi.speed"
PER_WINDOW = 128  # numbers of blocks


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path / "home")
    made.stream(retention_windows=9, minimum_assurance=Assurance.ASSERTED)
    made.register()
    made.register("other", epsilon=0.2)
    for day in range(4):
        made.publish(day)
    yield made
    made.service.close()


def spend_as_team_code(world: World) -> None:
    """Once, on the blocks of window 0, the PTK spent a loss that was its team's word; today it is the library's."""
    with world.service.begin() as uow:
        spend = next(
            one for one in uow.ledger.journal(STREAM) if (one.kind, one.ptk_id) == (EntryKind.SPEND, PTK)
        )
        event = {"name": OF_TEAM_CODE, "epsilon": 0.1, "delta": 0.0}
        request = replace(spend.request, key="by-hand")
        uow.ledger.extend(STREAM, [(request, kind, event) for kind in (EntryKind.RESERVE, EntryKind.SPEND)])
        uow.commit()


def test_blocks_of_a_page_are_as_they_are_among_all(world: World) -> None:
    spend_as_team_code(world)
    every = world.service.budget(STREAM)
    assert {one.number // PER_WINDOW for one in every} == {0, 1, 2, 3}
    pages = [
        block
        for window in range(4)
        for block in world.service.budget(STREAM, after=window * PER_WINDOW - 1, limit=3)
    ]
    assert pages == list(every)
    assert world.service.budget(STREAM, after=4 * PER_WINDOW) == ()


def test_a_ptk_that_once_spent_its_teams_word_is_asserted_on_every_page(world: World) -> None:
    def of_window_3() -> set[tuple[bool, bool]]:
        blocks = world.service.budget(STREAM, after=3 * PER_WINDOW - 1)
        shares = [one.shares for one in blocks if one.spent != NO_LOSS]
        return {(one.library != NO_LOSS, one.asserted != NO_LOSS) for one in shares if one is not None}

    assert of_window_3() == {(True, False)}
    spend_as_team_code(world)
    assert of_window_3() == {(True, True)}  # `other` is of the library still


def test_a_page_does_not_read_the_whole_journal(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.service.budget(STREAM)  # sums of all blocks are kept from here on
    monkeypatch.setattr(SqlLedger, "chain", lambda *_: pytest.fail("the whole journal was read"))
    assert len(world.service.budget(STREAM, after=3 * PER_WINDOW - 1)) == 3


def test_assurances_are_the_same_with_the_journal_and_without(world: World) -> None:
    spend_as_team_code(world)
    with world.service.begin() as uow:
        snapshot = snapshot_of(STREAM, uow)
        assert assurances_on(snapshot, uow) == assurances_of(snapshot.stream, [PTK, "taxi.other"], uow)
        assert uow.ledger.spent_as(STREAM, [PTK, "taxi.other"], OF_TEAM_CODE) == {PTK}
        assert uow.ledger.spent_as(STREAM, [PTK], "Team%") == frozenset()
