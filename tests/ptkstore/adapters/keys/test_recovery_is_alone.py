"""Jobs work beside each other and for one ledger; a recovery works alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ptkstore.adapters.keys import FileKeyStore
from ptkstore.errors import CatalogBehind, Refused, Unavailable

WORKS = """
import sys
from pathlib import Path
from ptkstore.adapters.keys import FileKeyStore
with FileKeyStore(Path(sys.argv[1])).working("ledger-a"):
    print("working", flush=True)
    sys.stdin.readline()
"""


def test_jobs_work_beside_each_other_and_keep_a_recovery_out(store: FileKeyStore, root: Path) -> None:
    other = FileKeyStore(root)
    with (
        store.working("ledger-a"),
        other.working("ledger-a"),
        pytest.raises(Refused, match="stop all workers"),
        other.recovering(),
    ):
        pass
    with store.recovering(), pytest.raises(Unavailable), other.working("ledger-a"):
        pass
    with store.working("ledger-a"):
        pass


def test_the_first_ledger_is_the_one_until_a_recovery_accepts_another(
    store: FileKeyStore, root: Path
) -> None:
    with store.working("ledger-a"):
        pass
    with pytest.raises(CatalogBehind, match="ptk ledger recover"), store.working("ledger-b"):
        pass
    with store.recovering():
        store.accept_ledger("ledger-b")
    with FileKeyStore(root).working("ledger-b"):
        pass
    with pytest.raises(CatalogBehind), store.working("ledger-a"):
        pass


def test_what_goes_wrong_in_a_recovery_or_a_job_is_passed_on(store: FileKeyStore) -> None:
    with pytest.raises(Unavailable, match="the lake"), store.recovering():
        raise Unavailable("the lake does not answer")
    with pytest.raises(Unavailable, match="the lake"), store.working("ledger-a"):
        raise Unavailable("the lake does not answer")


def test_a_worker_that_is_killed_holds_up_no_recovery(
    root: Path, repository: Path, store: FileKeyStore
) -> None:
    worker = subprocess.Popen(
        [sys.executable, "-c", WORKS, str(root)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=repository,
    )
    assert worker.stdout is not None
    assert worker.stdout.readline() == b"working\n"
    with pytest.raises(Refused), store.recovering():
        pass
    worker.kill()
    worker.communicate()
    with store.recovering():
        pass
