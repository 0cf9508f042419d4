"""A process that outlives the catalog it knew follows the one there is."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from ptkstore.adapters.sql import SqlCatalog
from ptkstore.adapters.sql.ledger.ledger import SqlLedger
from ptkstore.domain.ledger.block_ledgers import BlockLedger
from ptkstore.domain.ledger.journal import EntryKind
from ptkstore.domain.ledger.rules import Denied, Granted
from ptkstore.domain.streams.blocks import BlockState
from ptkstore.errors import InvalidRequest
from tests.support.builders import STREAM, committed, end, request, reserve, with_blocks


def retire(catalog: SqlCatalog, number: int, *, recovered: bool) -> None:
    with catalog.begin() as uow:
        uow.streams.lock(STREAM)
        uow.ledger.retire(STREAM, [number])
        if recovered:
            uow.renew_ledger_id()
        uow.commit()


@pytest.mark.parametrize("spends", [0, 1], ids=["an empty journal", "the same head"])
def test_blocks_that_recovery_retired_are_retired_for_a_process_that_slept(
    tmp_path: Path, spends: int
) -> None:
    live, copy = tmp_path / "catalog.db", tmp_path / "copy.db"
    with SqlCatalog(f"sqlite:///{live}") as catalog:
        with_blocks(catalog)
        for n in range(spends):
            reserve(catalog, request(f"k{n}"))
    shutil.copy(live, copy)
    sleeper = SqlCatalog(f"sqlite:///{live}")
    retire(sleeper, 3, recovered=False)  # a change that the copy has not, under the same revision
    committed(sleeper)
    sleeper._engine.dispose()  # no connection to the file that is replaced
    for path in tmp_path.glob("catalog.db*"):
        path.unlink()
    shutil.copy(copy, live)
    with SqlCatalog(f"sqlite:///{live}") as other:
        retire(other, 2, recovered=True)
    with sleeper:
        assert reserve(sleeper, request("new", blocks=(2, 3))) == Denied("new", (2,))
        assert reserve(sleeper, request("other", blocks=(3, 4))) == Granted("other")


def test_filters_that_did_not_take_in_what_was_written_decide_nothing(tmp_path: Path) -> None:
    with SqlCatalog(f"sqlite:///{tmp_path / 'catalog.db'}") as catalog:
        with_blocks(catalog)
        reserve(catalog, request("before"))
        with catalog.begin() as uow:
            uow.streams.lock(STREAM)
            with pytest.raises(InvalidRequest, match="no line 'nowhere'"):
                uow.ledger.append(replace(request("wrong"), line="nowhere"), EntryKind.RESERVE, {})
            uow.commit()  # by somebody who catches what must not be caught
        with pytest.raises(InvalidRequest, match="no line 'nowhere'"):
            reserve(catalog, request("after"))


def test_blocks_without_a_charge_are_read_once_and_then_what_is_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SqlCatalog(f"sqlite:///{tmp_path / 'catalog.db'}") as catalog:
        with_blocks(catalog)
        since: list[int] = []
        created = SqlLedger.created
        monkeypatch.setattr(
            SqlLedger,
            "created",
            lambda self, stream, after=0: (since.append(after), created(self, stream, after))[1],
        )

        def read() -> dict[int, BlockState]:
            with catalog.read() as uow:
                return {block.number: block.state for block in uow.ledger.blocks(STREAM)}

        active = dict.fromkeys((2, 3), BlockState.ACTIVE)
        assert [read(), read(), read()] == [active] * 3
        assert since == [0, 1, 1]
        with SqlCatalog(f"sqlite:///{tmp_path / 'catalog.db'}") as other:
            retire(other, 3, recovered=False)
        assert read() == {2: BlockState.ACTIVE, 3: BlockState.RETIRED}
        reserve(catalog, request("first", blocks=(2, 3)))
        reserve(catalog, request("second", blocks=(2, 3)))
        assert read() == {2: BlockState.ACTIVE, 3: BlockState.RETIRED}
        assert since == [0, 1, 1, 1, 0, 2, 2]  # whoever decides first on an empty journal begins anew


def test_who_decides_on_an_empty_journal_knows_the_blocks_of_a_catalog_restored_unseen(
    tmp_path: Path,
) -> None:
    live, copy = tmp_path / "catalog.db", tmp_path / "copy.db"
    with SqlCatalog(f"sqlite:///{live}") as catalog:
        with_blocks(catalog)
    shutil.copy(live, copy)
    sleeper = SqlCatalog(f"sqlite:///{live}")
    retire(sleeper, 3, recovered=False)
    assert {b.number for b in blocks_of(sleeper) if b.state is BlockState.RETIRED} == {3}
    sleeper._engine.dispose()
    for path in tmp_path.glob("catalog.db*"):
        path.unlink()
    shutil.copy(copy, live)
    with SqlCatalog(f"sqlite:///{live}") as other:
        retire(other, 2, recovered=False)  # under the revision that the sleeper knows
    with sleeper:
        assert reserve(sleeper, request("new", blocks=(2, 3))) == Denied("new", (2,))
        assert reserve(sleeper, request("other", blocks=(3, 4))) == Granted("other")
        assert {b.number for b in blocks_of(sleeper) if b.state is BlockState.RETIRED} == {2}


def blocks_of(catalog: SqlCatalog) -> tuple[BlockLedger, ...]:
    with catalog.read() as uow:
        return uow.ledger.blocks(STREAM)


def test_what_was_rolled_back_is_taken_back_and_not_read_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SqlCatalog(f"sqlite:///{tmp_path / 'catalog.db'}") as catalog:
        with_blocks(catalog)
        for key in ("kept", "spent", "released"):
            reserve(catalog, request(key))
        with catalog.begin() as uow:
            uow.streams.lock(STREAM)
            uow.ledger.append(request("released"), EntryKind.RELEASE, {})
            uow.ledger.append(request("spent"), EntryKind.SPEND, {})
            uow.ledger.append(request("new"), EntryKind.RESERVE, {})
            uow.ledger.append(request("new"), EntryKind.SPEND, {})
        read: list[int] = []
        journal = SqlLedger.journal
        monkeypatch.setattr(
            SqlLedger,
            "journal",
            lambda self, stream, after=0: (read.append(after), journal(self, stream, after))[1],
        )
        with catalog.begin() as uow:
            mine = uow.ledger.blocks(STREAM)
            sequence = uow.ledger.filters(STREAM).sequence
        assert min(read, default=0) == 2  # the last entry alone, to see that the journal goes on from it
        with SqlCatalog(f"sqlite:///{tmp_path / 'catalog.db'}") as other, other.begin() as uow:
            assert (mine, sequence) == (uow.ledger.blocks(STREAM), 3)
        end(catalog, request("spent"), EntryKind.SPEND)  # it is still held
        end(catalog, request("released"), EntryKind.RELEASE)
        assert reserve(catalog, request("new")) == Granted("new")
