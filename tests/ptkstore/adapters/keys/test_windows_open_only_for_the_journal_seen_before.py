from __future__ import annotations

import json
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ptkstore.adapters.keys import FileKeyStore
from ptkstore.domain.streams.windows import WindowId
from ptkstore.errors import CatalogBehind, UnknownName, WindowGone
from tests.ptkstore.adapters.keys.conftest import Journal

WINDOW = WindowId("taxi", 3)


@pytest.fixture
def sealed(store: FileKeyStore) -> bytes:
    return store.sealing_key(WINDOW)


def mark(root: Path) -> dict[str, object]:
    content: dict[str, object] = json.loads((root / "marks/taxi.json").read_text())
    return content


def test_the_key_opens_for_the_journal_and_its_continuations(
    root: Path, store: FileKeyStore, sealed: bytes, journal: Journal
) -> None:
    assert store.opening_key(WINDOW, journal) == sealed
    assert FileKeyStore(root).opening_key(WINDOW, journal) == sealed
    assert store.opening_key(WINDOW, journal.plus("d4", "d5")) == sealed
    assert mark(root) == {"ledger_id": "ledger-a", "sequence": 5, "digest": "d5", "opened_before": 4}


def test_an_older_journal_opens_nothing(store: FileKeyStore, sealed: bytes, journal: Journal) -> None:
    store.opening_key(WINDOW, journal.plus("d4"))
    with pytest.raises(CatalogBehind, match="ends before"):
        store.opening_key(WINDOW, journal)
    assert store.opening_key(WINDOW, journal.plus("d4", "d5")) == sealed


def test_a_fork_of_the_journal_opens_nothing(store: FileKeyStore, sealed: bytes, journal: Journal) -> None:
    store.opening_key(WINDOW, journal.plus("d4"))
    with pytest.raises(CatalogBehind, match="differs"):
        store.opening_key(WINDOW, journal.plus("other", "d5", "d6"))
    assert store.opening_key(WINDOW, journal.plus("d4")) == sealed


def test_another_ledger_opens_nothing(store: FileKeyStore, sealed: bytes, journal: Journal) -> None:
    store.opening_key(WINDOW, journal)
    with pytest.raises(CatalogBehind, match="another ledger"):
        store.opening_key(WINDOW, replace(journal, ledger_id="ledger-b"))


def test_a_refusal_leaves_the_mark_where_it_was(
    root: Path, store: FileKeyStore, sealed: bytes, journal: Journal
) -> None:
    store.opening_key(WINDOW, journal)
    before = mark(root)
    for wrong in (
        Journal(digests=("d1",)),
        replace(journal, ledger_id="x"),
        Journal(digests=("a", "b", "c", "d")),
    ):
        with pytest.raises(CatalogBehind):
            store.opening_key(WINDOW, wrong)
    assert mark(root) == before


def test_a_journal_without_spends_opens_nothing(store: FileKeyStore, sealed: bytes) -> None:
    with pytest.raises(CatalogBehind, match="has no spend"):
        store.opening_key(WINDOW, Journal())


@pytest.mark.parametrize(
    "content", [None, b"", b"{}", b"[]", b'{"ledger_id": "", "sequence": "0", "digest": ""}']
)
def test_a_lost_or_damaged_mark_shuts_the_windows(
    root: Path, store: FileKeyStore, sealed: bytes, journal: Journal, content: bytes | None
) -> None:
    store.opening_key(WINDOW, journal)
    (root / "marks/taxi.json").unlink()
    if content is not None:
        (root / "marks/taxi.json").write_bytes(content)
    with pytest.raises(CatalogBehind, match="no readable mark"):
        store.opening_key(WINDOW, journal)
    store.create_stream("taxi")
    with pytest.raises(CatalogBehind, match="no readable mark"):
        store.opening_key(WINDOW, journal)


def test_marks_of_streams_are_apart(store: FileKeyStore, sealed: bytes, journal: Journal) -> None:
    store.create_stream("bikes")
    bikes = store.sealing_key(WindowId("bikes", 3))
    store.opening_key(WINDOW, journal.plus("d4", "d5"))
    assert store.opening_key(WindowId("bikes", 3), journal) == bikes != sealed


def test_a_window_that_was_never_sealed_or_is_destroyed_does_not_open(
    root: Path, store: FileKeyStore, sealed: bytes, journal: Journal
) -> None:
    with pytest.raises(WindowGone):
        store.opening_key(WindowId("taxi", 4), journal)
    assert not (root / "windows/taxi/4.key").exists()
    store.destroy_window(WINDOW)
    with pytest.raises(WindowGone):
        store.opening_key(WINDOW, journal)


def test_an_unknown_stream_does_not_open(store: FileKeyStore, journal: Journal) -> None:
    with pytest.raises(UnknownName):
        store.opening_key(WindowId("bikes", 0), journal)


DIES_AT_THE_KEY = """
import os, signal, sys
from pathlib import Path
from ptkstore.adapters.keys import FileKeyStore, store
from ptkstore.domain.streams.windows import WindowId
from tests.ptkstore.adapters.keys.conftest import Journal
store._read_key = lambda path: os.kill(os.getpid(), signal.SIGKILL)
FileKeyStore(Path(sys.argv[1])).opening_key(WindowId("taxi", 3), Journal(digests=("d1", "d2", "d3", "d4")))
"""


def test_the_mark_is_written_before_the_key_is_read(
    root: Path, store: FileKeyStore, sealed: bytes, journal: Journal, repository: Path
) -> None:
    store.opening_key(WINDOW, journal)
    done = subprocess.run(
        [sys.executable, "-c", DIES_AT_THE_KEY, str(root)], check=False, timeout=60, cwd=repository
    )
    assert done.returncode == -signal.SIGKILL
    assert mark(root)["sequence"] == 4
    with pytest.raises(CatalogBehind):
        store.opening_key(WINDOW, journal)


def test_the_key_is_for_a_run_whose_spend_is_in_the_journal(
    store: FileKeyStore, sealed: bytes, journal: Journal
) -> None:
    assert store.opening_key(WINDOW, journal, (2, "d2")) == sealed
    for lost in ((2, "other"), (9, "d9")):
        with pytest.raises(CatalogBehind, match="lost the spend"):
            store.opening_key(WINDOW, journal, lost)


def test_a_ledger_of_another_name_leaves_all_that_was_opened_in_doubt(
    store: FileKeyStore, sealed: bytes, journal: Journal
) -> None:
    """A copy from before a recovery may end with the same entry as the ledger that was recovered."""
    renamed = replace(journal, ledger_id="ledger-b")
    store.check_journal("taxi", renamed)
    assert store.in_doubt("taxi", renamed) is None
    store.opening_key(WINDOW, journal)
    assert store.in_doubt("taxi", journal) is None
    assert store.in_doubt("taxi", renamed) == 4
    assert store.in_doubt("taxi", replace(journal, digests=("d1",))) == 4
    store.accept("taxi", renamed, None)
    assert store.opening_key(WINDOW, renamed) == sealed


def test_what_was_opened_while_a_recovery_ran_is_not_accepted(
    store: FileKeyStore, sealed: bytes, journal: Journal
) -> None:
    store.opening_key(WINDOW, journal.plus("d4"))
    with pytest.raises(CatalogBehind, match="opened meanwhile"):
        store.accept("taxi", journal, 3)
    with pytest.raises(CatalogBehind, match="ends before"):
        store.accept("taxi", journal, None)
    store.accept("taxi", journal, 4)


def test_a_journal_of_another_policy_opens_nothing(store: FileKeyStore, journal: Journal) -> None:
    sealed = store.sealing_key(WINDOW)
    store.keep_policy("taxi", "one")
    for other in (None, "two"):
        with pytest.raises(CatalogBehind, match="another policy"):
            store.opening_key(WINDOW, replace(journal, policy_text=other))
        with pytest.raises(CatalogBehind, match="another policy"):
            store.check_journal("taxi", replace(journal, policy_text=other))
        with pytest.raises(CatalogBehind, match="another policy"):
            store.accept("taxi", replace(journal, policy_text=other), 4)
    assert store.opening_key(WINDOW, replace(journal, policy_text="one")) == sealed


def test_a_policy_is_kept_for_good_once_a_window_was_opened(store: FileKeyStore, journal: Journal) -> None:
    store.keep_policy("taxi", "one")
    store.keep_policy("taxi", "two")  # the transaction that created the stream was rolled back
    store.sealing_key(WINDOW)
    store.opening_key(WINDOW, replace(journal, policy_text="two"))
    store.keep_policy("taxi", "two")
    with pytest.raises(CatalogBehind, match="another policy"):
        store.keep_policy("taxi", "three")
    assert store.policy("taxi") == "two"


def test_the_policy_of_an_upgraded_catalog_is_kept_at_the_first_opening(
    store: FileKeyStore, journal: Journal
) -> None:
    store.sealing_key(WINDOW)
    store.opening_key(WINDOW, replace(journal, policy_text="one"))
    with pytest.raises(CatalogBehind, match="another policy"):
        store.opening_key(WINDOW, replace(journal, policy_text="two"))
