"""A disk that fails at any one moment: what is told of it is true, and nothing half-written stays."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ptkstore.adapters.keys import FileKeyStore, FileSigner
from ptkstore.domain.streams.windows import WindowId
from ptkstore.errors import OutcomeUnknown, Refused, Unavailable
from tests.support import full_disk
from tests.support.failing_disk import CALLS, fail_at

NOW = datetime(2026, 1, 5, tzinfo=UTC)
WINDOW = WindowId("taxi", 3)
LASTING = (".key", ".gone", ".split", ".secret", ".id")


def work(store: FileKeyStore) -> None:
    with store.working("ledger-a"):
        pass


ACTS: dict[str, Callable[[FileKeyStore], object]] = {
    "create_stream": lambda store: store.create_stream("bikes"),
    "sealing_key": lambda store: store.sealing_key(WindowId("taxi", 4)),
    "destroy_window": lambda store: store.destroy_window(WINDOW),
    "draft_key": lambda store: store.draft_key("new"),
    "destroy_draft": lambda store: store.destroy_draft("draft"),
    "put_secret": lambda store: store.put_secret("new", "s"),
    "rotate_secret": lambda store: store.rotate_secret("sub", "new", NOW, NOW),
    "destroy_secret": lambda store: store.destroy_secret("sub"),
    "accept_ledger": lambda store: store.accept_ledger("ledger-b"),
    "working": work,
}


def lasting(root: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in root.rglob("*") if path.suffix in LASTING}


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("call", CALLS)
def test_what_was_done_is_not_told_as_not_done(
    act: str, call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(1, 40):
        root = tmp_path / str(number)
        store = FileKeyStore(root)
        store.create_stream("taxi")
        store.sealing_key(WINDOW)
        store.draft_key("draft")
        store.put_secret("sub", "old")
        before = lasting(root)
        with monkeypatch.context() as patched:
            count = fail_at(patched, call, number)
            with suppress(OutcomeUnknown):
                try:
                    ACTS[act](store)
                except Unavailable:
                    assert lasting(root) == before
                    assert call == "unlink" or not [*root.rglob("*.new")]
        ACTS[act](store)
        assert call == "unlink" or not [*root.rglob("*.new")]
        if count[0] < number:
            return
    pytest.fail("the disk failed at every call")


def test_a_recovery_that_finds_no_disk_blames_no_worker(store: FileKeyStore, root: Path) -> None:
    (root / "locks").rename(root / "elsewhere")
    with pytest.raises(Unavailable, match="ENOENT"), store.recovering():
        pass
    (root / "elsewhere").rename(root / "locks")
    with store.working("a"), pytest.raises(Refused), store.recovering():
        pass


def test_keys_that_cannot_be_read_are_unavailable(store: FileKeyStore, root: Path) -> None:
    (root / "streams" / "taxi.split").unlink()
    (root / "streams" / "taxi.split").mkdir()
    with pytest.raises(Unavailable, match="EISDIR"):
        store.split_key("taxi")
    (root / "signing").mkdir(mode=0o700)
    (root / "signing" / "report.key").mkdir()
    with pytest.raises(Unavailable, match="EISDIR"):
        FileSigner(root).public_key()


def test_a_full_disk_is_told_and_takes_keys_again_once_there_is_room(tmp_path: Path) -> None:
    with full_disk.mounted(tmp_path / "disk") as disk:
        root = disk / "keys"
        store = FileKeyStore(root)
        store.create_stream("taxi")
        store.check_writable()
        full_disk.fill(disk)
        for act in (store.check_writable, lambda: store.sealing_key(WINDOW)):
            with pytest.raises(Unavailable, match="ENOSPC"):
                act()
        assert not [*root.rglob("*.new")]
        full_disk.free(disk)
        store.check_writable()
        assert store.sealing_key(WINDOW) == store.sealing_key(WINDOW)


def test_a_probe_is_no_key_and_leaves_nothing(store: FileKeyStore, root: Path) -> None:
    store.check_writable()
    before = sorted(root.rglob("*"))
    (root / "probe.new").write_bytes(b"of a process that died")
    store.check_writable()
    assert sorted(root.rglob("*")) == before
    assert (store.windows("taxi"), store.draft_ids()) == ((), ())
