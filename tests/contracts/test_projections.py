"""A process that outlives the catalog it knew follows the one there is."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ptkstore.adapters.sql import SqlCatalog
from ptkstore.adapters.sql.ledger import SqlLedger
from ptkstore.domain.journal import EntryKind
from ptkstore.domain.ledger import Denied, Granted
from tests.contracts.builders import STREAM, committed, end, request, reserve, with_blocks


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
