"""What every ledger must do, on SQLite and on a real PostgreSQL."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.exc import DBAPIError

from ptkstore.adapters.sql import SqlCatalog
from ptkstore.domain.accounting.accountants import Charge
from ptkstore.domain.accounting.losses import NO_LOSS, Loss
from ptkstore.domain.ledger.journal import GENESIS, EntryKind, chained_digest
from ptkstore.domain.ledger.rules import Denied, Granted, decide, verify
from ptkstore.domain.streams.blocks import BlockRange, BlockSet, BlockState
from ptkstore.errors import Conflict, InvariantBroken, LateWriter
from tests.support.builders import (
    PTK,
    STREAM,
    committed,
    end,
    request,
    reserve,
    stream_named,
    with_blocks,
)
from tests.support.databases import OnPostgresql, OnSqlite, until_somebody_waits

ENTRY = {
    "stream": STREAM,
    "sequence": 3,
    "key": "k1",
    "kind": "reserve",
    "ptk_id": PTK,
    "lo": 2,
    "hi": 4,
    "epsilon_nano": 1,
    "delta_atto": 0,
    "line": "common",
    "charge": "[1, 0]",
    "event": "{}",
    "digest": "0" * 64,
    "nonce": "",
}
WRONG: list[dict[str, Any]] = [
    {"epsilon_nano": 0},
    {"epsilon_nano": -1},
    {"epsilon_nano": None},
    {"epsilon_nano": "nothing"},
    {"delta_atto": -1},
    {"lo": 4},
    {"lo": 3, "hi": 2},
    {"lo": -1},
    {"sequence": 0},
    {"sequence": -1},
    {"sequence": 1},
    {"key": "k0"},
    {"key": "k0", "kind": "release"},
    {"kind": "refund"},
    {"kind": None},
]
NAMES = ", ".join(ENTRY)
VALUES = ", ".join(f":{name}" for name in ENTRY)
TENTH = 10**8
ROOT = Path(__file__).resolve().parents[2]


def refused(outsider: Engine, statement: str, values: dict[str, Any], reason: str = "") -> bool:
    """Whether the database refused the statement, for the reason."""
    try:
        with outsider.begin() as connection:
            connection.execute(text(statement), values)
    except DBAPIError as error:
        return reason in str(error)
    return False


class LedgerContract:
    @pytest.fixture
    def catalog(self, catalog: SqlCatalog) -> SqlCatalog:
        return with_blocks(catalog)

    # the charge protocol

    def test_a_grant_is_reserved_on_every_block_of_the_request(self, catalog: SqlCatalog) -> None:
        assert reserve(catalog, request("k0")) == Granted("k0")
        assert committed(catalog) == {2: TENTH, 3: TENTH}

    def test_denial_on_one_block_leaves_the_others_untouched(self, catalog: SqlCatalog) -> None:
        assert reserve(catalog, request("k0", 0.95, (2, 3))) == Granted("k0")
        assert reserve(catalog, request("k1", 0.1)) == Denied("k1", (2,))
        assert committed(catalog) == {2: 950_000_000, 3: 0}

    def test_blocks_of_several_windows_are_charged_together_or_not_at_all(self, catalog: SqlCatalog) -> None:
        apart = replace(request("k0", 0.95), blocks=BlockSet((2, 3, 5, 6)))
        with catalog.begin() as uow:
            uow.streams.lock(STREAM)
            uow.ledger.add_blocks(STREAM, range(4, 6), Loss.capacity(1))
            uow.commit()
        assert reserve(catalog, apart) == Granted("k0")
        assert reserve(catalog, replace(apart, key="k1")) == Denied("k1", (2, 5))
        assert reserve(catalog, replace(apart, key="k2", blocks=BlockSet((3, 4, 5, 6)))) == Denied("k2", (5,))
        end(catalog, apart, EntryKind.SPEND)
        assert committed(catalog) == {2: 950_000_000, 3: 0, 4: 0, 5: 950_000_000}
        with catalog.begin() as uow:
            assert [entry.request for entry in uow.ledger.history("k0")] == [apart, apart]
            assert verify(uow.ledger.created(STREAM)[0], uow.ledger.chain(STREAM)) == ()

    @pytest.mark.parametrize("further", ["null", '"ab"', "{}", "[1.5, 9]", "[true, 9]"])
    def test_blocks_that_another_program_wrote_are_told_as_damaged(
        self, catalog: SqlCatalog, outsider: Engine, further: str
    ) -> None:
        insert = f"INSERT INTO journal ({NAMES}, further) VALUES ({VALUES}, :further)"
        with outsider.begin() as connection:
            connection.execute(text(insert), {**ENTRY, "further": further})
        with pytest.raises(InvariantBroken, match="names no blocks"), catalog.begin() as uow:
            uow.ledger.history("k1")

    def test_ten_tenths_fit_exactly_and_the_least_further_loss_does_not(self, catalog: SqlCatalog) -> None:
        for number in range(10):
            assert reserve(catalog, request(f"k{number}")) == Granted(f"k{number}")
        assert reserve(catalog, request("k10", 1e-6)) == Denied("k10", (2, 3))
        assert committed(catalog) == {2: 10**9, 3: 10**9}

    def test_a_repeated_key_gets_its_stored_answer_even_on_a_full_block(self, catalog: SqlCatalog) -> None:
        reserve(catalog, request("k0", 1))
        end(catalog, request("k0", 1), EntryKind.SPEND)
        assert reserve(catalog, request("k0", 1)) == Granted("k0")
        assert committed(catalog) == {2: 10**9, 3: 10**9}

    def test_a_released_key_stays_denied_and_gives_its_room_back(self, catalog: SqlCatalog) -> None:
        reserve(catalog, request("k0", 1))
        end(catalog, request("k0", 1), EntryKind.RELEASE)
        assert reserve(catalog, request("k0", 1)) == Denied("k0", ())
        assert committed(catalog) == {2: 0, 3: 0}
        assert reserve(catalog, request("k1", 1)) == Granted("k1")

    @pytest.mark.parametrize(
        "other",
        [
            replace(request("k0"), loss=Loss.charge(0.2)),
            replace(request("k0"), blocks=BlockSet((2, 3))),
            replace(request("k0"), ptk_id="taxi.other"),
            replace(request("k0"), charge=Charge((1,))),
            replace(request("k0"), line="ptk taxi.speed"),
        ],
        ids=["loss", "blocks", "ptk", "charge", "line"],
    )
    def test_other_content_under_a_known_key_is_a_conflict(self, catalog: SqlCatalog, other: object) -> None:
        reserve(catalog, request("k0"))
        with pytest.raises(Conflict):
            reserve(catalog, other)  # type: ignore[arg-type]

    def test_an_erased_block_takes_no_more_loss_and_keeps_what_it_spent(self, catalog: SqlCatalog) -> None:
        reserve(catalog, request("k0"))
        with catalog.begin() as uow:
            uow.ledger.erase(STREAM, BlockRange(2, 3))
            uow.commit()
        assert reserve(catalog, request("k1")) == Denied("k1", (2,))
        assert committed(catalog) == {2: TENTH, 3: TENTH}
        with catalog.begin() as uow:
            assert [b.state for b in uow.ledger.blocks(STREAM)] == [BlockState.ERASED, BlockState.ACTIVE]

    def test_delta_is_charged_and_decided_like_epsilon(self, catalog: SqlCatalog) -> None:
        with catalog.begin() as uow:
            uow.ledger.add_blocks(STREAM, BlockRange(8, 9), Loss.capacity(1, 1e-6))
            uow.commit()
        loss = Loss.charge(0.1, 6e-7)
        wish = replace(request("k0", blocks=(8, 9)), loss=loss, charge=Charge.basic(loss))
        assert reserve(catalog, wish) == Granted("k0")
        assert reserve(catalog, replace(wish, key="k1")) == Denied("k1", (8,))

    def test_spend_moves_a_reservation_and_only_blocks_in_the_range_are_charged(
        self, catalog: SqlCatalog
    ) -> None:
        reserve(catalog, request("k0", blocks=(3, 4)))
        end(catalog, request("k0", blocks=(3, 4)), EntryKind.SPEND)
        with catalog.begin() as uow:
            blocks = {b.number: (b.reserved, b.spent) for b in uow.ledger.blocks(STREAM)}
            assert blocks == {2: (NO_LOSS, NO_LOSS), 3: (NO_LOSS, Loss(TENTH))}
            assert [b.number for b in uow.ledger.blocks(STREAM, BlockRange(3, 99))] == [3]

    def test_240_deliveries_of_30_keys_on_8_threads_grant_exactly_the_10_that_fit(
        self, catalog: SqlCatalog
    ) -> None:
        keys = [f"k{number % 30}" for number in range(240)]
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda key: reserve(catalog, request(key)), keys))
        granted = Counter(a.key for a in answers if isinstance(a, Granted))
        assert len(granted) == 10
        assert committed(catalog) == {2: 10**9, 3: 10**9}
        assert set(granted.values()) == {8}  # no key was granted once and refused when delivered again
        with catalog.begin() as uow:
            journal = uow.ledger.journal(STREAM)
            assert [e.sequence for e in journal] == list(range(1, 11))
            assert verify(uow.ledger.created(STREAM)[0], journal) == ()

    def test_deciding_without_the_lock_overspends_and_is_found_out(self, catalog: SqlCatalog) -> None:
        """The positive control: without the lock the same threads spend twice what there is."""
        decided = threading.Barrier(4, timeout=30)

        def check_then_act(key: str) -> None:
            wish = request(key, 0.5)
            with catalog.begin() as uow:
                decision = decide(uow.ledger.filters(STREAM), wish)
            decided.wait()
            if isinstance(decision, Granted):
                end(catalog, wish, EntryKind.RESERVE)

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(check_then_act, ["k0", "k1", "k2", "k3"]))
        assert committed(catalog) == {2: 2 * 10**9, 3: 2 * 10**9}
        with catalog.begin() as uow:
            faults = verify(uow.ledger.created(STREAM)[0], uow.ledger.journal(STREAM))
        assert faults == ("block 2 is over its capacity", "block 3 is over its capacity")

    # the journal

    def test_digests_chain_the_entries_of_a_stream(self, catalog: SqlCatalog) -> None:
        reserve(catalog, request("k0"))
        reserve(catalog, request("k1"))
        end(catalog, request("k0"), EntryKind.SPEND)
        with catalog.begin() as uow:
            journal = uow.ledger.journal(STREAM)
        digests = [GENESIS]
        for entry in journal:
            digests.append(chained_digest(digests[-1], entry))
        assert [e.digest for e in journal] == digests[1:]
        assert [(e.key, e.kind) for e in journal] == [
            ("k0", EntryKind.RESERVE),
            ("k1", EntryKind.RESERVE),
            ("k0", EntryKind.SPEND),
        ]

    def test_streams_have_journals_of_their_own(self, catalog: SqlCatalog) -> None:
        with catalog.begin() as uow:
            uow.streams.add(stream_named("bikes"))
            uow.ledger.add_blocks("bikes", BlockRange(2, 4), Loss.capacity(1))
            uow.commit()
        reserve(catalog, request("k0"))
        reserve(catalog, request("b0", 0.7, stream="bikes"))
        with catalog.begin() as uow:
            assert [e.sequence for e in uow.ledger.journal("bikes")] == [1]
            assert {b.committed.epsilon_nano for b in uow.ledger.blocks("bikes")} == {7 * TENTH}
        assert committed(catalog) == {2: TENTH, 3: TENTH}

    def test_the_view_of_the_journal_tells_head_and_digests_of_what_is_committed(
        self, catalog: SqlCatalog, url: str
    ) -> None:
        view = catalog.journal_view()
        assert (view.head(STREAM), view.digest_at(STREAM, 1)) == (0, None)
        reserve(catalog, request("k0"))
        with catalog.begin() as uow:
            (entry,) = uow.ledger.history("k0")
        assert (view.head(STREAM), view.digest_at(STREAM, 1)) == (1, entry.digest)
        assert view.digest_at(STREAM, 2) is None
        assert view.head("bikes") == 0
        with SqlCatalog(url) as again:
            assert again.journal_view().ledger_id == view.ledger_id

    def test_what_is_not_committed_has_not_happened(self, catalog: SqlCatalog) -> None:
        with catalog.begin() as uow:
            uow.streams.lock(STREAM)
            uow.ledger.append(request("k0"), EntryKind.RESERVE, {})
        with pytest.raises(ZeroDivisionError), catalog.begin() as uow:
            uow.ledger.append(request("k1"), EntryKind.RESERVE, {})
            raise ZeroDivisionError
        assert committed(catalog) == {2: 0, 3: 0}
        assert catalog.journal_view().head(STREAM) == 0

    def test_a_reservation_ends_once(self, catalog: SqlCatalog) -> None:
        for first in (EntryKind.SPEND, EntryKind.RELEASE):
            for second in (EntryKind.SPEND, EntryKind.RELEASE):
                wish = request(f"{first}-{second}")
                reserve(catalog, wish)
                end(catalog, wish, first)
                with pytest.raises(LateWriter):
                    end(catalog, wish, second)
                with catalog.begin() as uow:
                    assert [e.kind for e in uow.ledger.history(wish.key)] == [EntryKind.RESERVE, first]

    # the belts: what the database itself refuses, whoever writes

    def test_the_database_refuses_entries_that_could_lose_money(
        self, catalog: SqlCatalog, outsider: Engine
    ) -> None:
        reserve(catalog, request("k0"))
        end(catalog, request("k0"), EntryKind.SPEND)
        insert = f"INSERT INTO journal ({NAMES}) VALUES ({VALUES})"
        assert [wrong for wrong in WRONG if not refused(outsider, insert, {**ENTRY, **wrong})] == []
        assert committed(catalog) == {2: TENTH, 3: TENTH}
        assert not refused(outsider, insert, ENTRY)  # the control: it was that one field

    def test_the_database_refuses_to_change_the_journal(self, catalog: SqlCatalog, outsider: Engine) -> None:
        reserve(catalog, request("k0"))
        changes = [
            "UPDATE journal SET epsilon_nano = 1",
            "UPDATE journal SET kind = 'release' WHERE key = 'k0'",
            "DELETE FROM journal",
            "DELETE FROM journal WHERE sequence = 1",
            f"INSERT INTO journal ({NAMES}) SELECT {NAMES} FROM journal WHERE true "
            "ON CONFLICT (stream, sequence) DO UPDATE SET epsilon_nano = 1",
        ]
        assert [change for change in changes if not refused(outsider, change, {}, "append-only")] == []
        assert committed(catalog) == {2: TENTH, 3: TENTH}

    def test_the_database_refuses_blocks_without_a_real_capacity(
        self, catalog: SqlCatalog, outsider: Engine
    ) -> None:
        insert = "INSERT INTO block VALUES ('taxi', 99, :epsilon, :delta, 'basic', '{}', :state, 1)"
        good = {"epsilon": 1, "delta": 0, "state": "active"}
        wrong = [{"epsilon": 0}, {"epsilon": -1}, {"epsilon": None}, {"delta": -1}, {"state": "free"}]
        assert [w for w in wrong if not refused(outsider, insert, {**good, **w})] == []
        assert not refused(outsider, insert, good)

    # kill -9

    @pytest.mark.parametrize(("moment", "kept"), [("before", False), ("after", True)])
    def test_kill_9_in_a_transaction_leaves_all_of_it_or_nothing(
        self, catalog: SqlCatalog, url: str, moment: str, kept: bool
    ) -> None:
        with subprocess.Popen(
            [sys.executable, "-m", "tests.contracts.interrupted", url, moment],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"there\n"
            process.send_signal(signal.SIGKILL)
        with catalog.begin() as uow:
            assert bool(uow.ledger.history("killed")) is kept
            assert bool(uow.jobs.find()) is kept
        assert reserve(catalog, request("killed")) == Granted("killed")  # no lock is left behind
        assert committed(catalog) == {2: TENTH, 3: TENTH}


class TestLedgerOnSqlite(OnSqlite, LedgerContract):
    def test_insert_or_replace_cannot_overwrite_an_entry(self, catalog: SqlCatalog, outsider: Engine) -> None:
        """SQLite deletes the old row of a REPLACE without telling a trigger on DELETE."""
        reserve(catalog, request("k0"))
        end(catalog, request("k0"), EntryKind.SPEND)
        insert = f"INSERT OR REPLACE INTO journal ({NAMES}) VALUES ({VALUES})"
        changed = [{"sequence": 1, "key": "other"}, {"key": "k0"}, {"key": "k0", "kind": "release"}]
        assert [c for c in changed if not refused(outsider, insert, {**ENTRY, **c}, "append-only")] == []
        with catalog.begin() as uow:
            journal = uow.ledger.journal(STREAM)
            assert verify(uow.ledger.created(STREAM)[0], journal) == ()
        assert [(e.key, e.kind) for e in journal] == [("k0", EntryKind.RESERVE), ("k0", EntryKind.SPEND)]

    def test_a_fraction_is_no_amount(self, catalog: SqlCatalog, outsider: Engine) -> None:
        insert = f"INSERT INTO journal ({NAMES}) VALUES ({VALUES})"
        assert refused(outsider, insert, {**ENTRY, "epsilon_nano": 0.5})


class TestLedgerOnPostgresql(OnPostgresql, LedgerContract):
    def test_truncating_the_journal_is_refused(self, catalog: SqlCatalog, outsider: Engine) -> None:
        reserve(catalog, request("k0"))
        with pytest.raises(DBAPIError, match="append-only"), outsider.begin() as connection:
            connection.execute(text("TRUNCATE journal"))
        assert committed(catalog) == {2: TENTH, 3: TENTH}

    def test_a_writer_that_skipped_the_lock_fails_once_another_has_written(
        self, catalog: SqlCatalog, url: str, outsider: Engine
    ) -> None:
        """In another process: within one, writers of a stream wait for each other anyway."""
        failed: list[LateWriter] = []

        def stale() -> None:
            try:
                with (
                    SqlCatalog(url) as other,
                    other.begin() as uow,
                ):  # reads the old head, waits for the first one's row
                    uow.ledger.append(request("k1"), EntryKind.RESERVE, {})
                    uow.commit()
            except LateWriter as error:
                failed.append(error)

        with catalog.begin() as first:
            first.streams.lock(STREAM)
            first.ledger.append(request("k0"), EntryKind.RESERVE, {})
            thread = threading.Thread(target=stale)
            thread.start()
            until_somebody_waits(outsider)
            first.commit()
        thread.join()
        assert len(failed) == 1
        with catalog.begin() as uow:
            assert [e.key for e in uow.ledger.journal(STREAM)] == ["k0"]
