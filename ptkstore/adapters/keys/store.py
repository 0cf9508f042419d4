"""Keys as files of their own, below one directory that no backup should take."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from ptkstore.adapters.keys import files
from ptkstore.adapters.keys.aead import KEY_BYTES
from ptkstore.adapters.keys.journal_high_water_mark import UNSEEN, Mark, advanced, read_mark, write_mark
from ptkstore.adapters.keys.service_lock import ServiceLock
from ptkstore.domain.names import checked_name
from ptkstore.domain.streams.windows import WindowId
from ptkstore.domain.versions.versions import PROBE, PROBE_BYTES
from ptkstore.errors import (
    CatalogBehind,
    Conflict,
    CorruptObject,
    InvalidRequest,
    InvariantBroken,
    NameTaken,
    UnknownName,
    WindowGone,
)
from ptkstore.ports.keys import JournalView

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
_TOKEN = re.compile(r"[0-9a-f]{32}")
_ROW_LOCKS = 64  # files, whatever the number of windows; windows that share one wait for each other
_SECRETS_AT_ONCE = 4  # one message is signed with all of them
_PROBE_SECONDS = 2.0
_OTHER_POLICY = (
    "stream {!r} was created with another policy than its journal in the catalog holds; it opens nothing. Put the "
    "catalog back as it was"
)
NO_KEY = "the key store has none: is PTK_KEYS_URL the key store of this catalog, or was the key store lost?"
_ROOMS = ("streams", "windows", "drafts", "webhooks", "marks", "policies", "locks", "devices")


class FileKeyStore(ServiceLock):
    """`KeyStore` on a local file system.

    A key is `<name>.key`; the tombstone `<name>.gone` is written before the key is destroyed and stays for
    ever: no crash and no repetition makes a destroyed key anew. `<window>.batches` lists the batches that hold rows of
    a window, a line each, until its key is destroyed.

    Parameters
    ----------
    root : Path
        Made with mode 0700 when missing. Keep it out of backups and off storage with versions (differences.md F14).
    patience_seconds : float
        How long `hold_rows` waits for its turn.
    """

    def __init__(self, root: Path, *, patience_seconds: float = 1200.0) -> None:
        super().__init__(root)
        self._root = root
        self._patience_seconds = patience_seconds
        files.make_private(self._root)
        for room in _ROOMS:
            files.make_private(self._root / room)

    def create_stream(self, stream: str) -> None:
        """Make the stream's split key and an empty mark, once."""
        with self._stream_lock(stream):
            split, mark = self._split_path(stream), self._mark_path(stream)
            if split.exists():
                return
            if self._windows_path(stream).exists() or (mark.exists() and read_mark(mark, stream) != UNSEEN):
                raise InvariantBroken(
                    f"stream {stream!r} was in use but its split key is lost; restore the key store"
                )
            write_mark(mark, UNSEEN)
            files.create(split, secrets.token_bytes(KEY_BYTES))

    @files.storage_errors()
    def policy(self, stream: str) -> str | None:
        """Return the policy that the stream was created with, as a text."""
        try:
            return self._policy_path(stream).read_text()
        except FileNotFoundError:
            return None

    def keep_policy(self, stream: str, policy_text: str) -> None:
        """Remember the stream's policy; another one counts until a window was opened."""
        with self._stream_lock(stream):
            self._checked_split(stream)
            kept = self.policy(stream)
            if kept == policy_text:
                return
            if kept is not None and read_mark(self._mark_path(stream), stream).opened_before:
                raise CatalogBehind(_OTHER_POLICY.format(stream))
            files.replace(self._policy_path(stream), policy_text.encode())

    def check_journal(self, stream: str, journal: JournalView) -> None:
        """Raise `CatalogBehind` unless `journal` continues what was seen and has the policy that was kept."""
        with self._stream_lock(stream):
            self._checked_split(stream)
            advanced(read_mark(self._mark_path(stream), stream), journal, stream)
            self._check_policy(stream, journal)

    @files.storage_errors()
    def split_key(self, stream: str) -> bytes:
        """Return the stream's own key, for its life."""
        return _read_key(self._checked_split(stream))

    def sealing_key(self, window: WindowId) -> bytes:
        """Return the window's key for those who write or partition rows; made at first use."""
        with self._stream_lock(window.stream):
            self._checked_split(window.stream)
            files.make_private(self._windows_path(window.stream))
            return _key_made_once(self._window_path(window), f"window {window}")

    def opening_key(
        self, window: WindowId, journal: JournalView, spend: tuple[int, str] | None = None
    ) -> bytes:
        """Return the window's key for a run whose spend is in `journal`; the journal's head is remembered first."""
        with self._stream_lock(window.stream):
            self._checked_split(window.stream)
            mark_path = self._mark_path(window.stream)
            mark = read_mark(mark_path, window.stream)
            seen = advanced(mark, journal, window.stream)
            if not seen.digest:
                raise CatalogBehind(f"the journal of stream {window.stream!r} has no spend; it opens nothing")
            self._check_policy(window.stream, journal)
            self._keep_first(window.stream, journal)
            if spend is not None and journal.digest_at(window.stream, spend[0]) != spend[1]:
                raise CatalogBehind(f"the journal of stream {window.stream!r} lost the spend of this run")
            seen = replace(seen, opened_before=max(seen.opened_before, window.index + 1))
            if seen != mark:
                write_mark(mark_path, seen)
            path = self._window_path(window)
            if not path.exists() or _tombstone(path).exists():
                raise WindowGone(f"window {window} has no key: it was destroyed or never made")
            return _read_key(path)

    def in_doubt(self, stream: str, journal: JournalView) -> int | None:
        """Tell below which window spends may be missing from `journal`; None when it continues what was seen."""
        with self._stream_lock(stream):
            self._checked_split(stream)
            try:
                mark = read_mark(self._mark_path(stream), stream)
            except CatalogBehind:
                return self._windows_before(stream)
            try:
                advanced(mark, journal, stream)
            except CatalogBehind:
                # Also if the ledger alone is another one: a copy from before a recovery may end with the same entry.
                return mark.opened_before
            return None

    def accept(self, stream: str, journal: JournalView, retired_before: int | None) -> None:
        """Take `journal` for the stream's own from now on: whatever it may have forgotten can be charged no more."""
        with self._stream_lock(stream):
            self._checked_split(stream)
            self._check_policy(stream, journal)
            try:
                mark = read_mark(self._mark_path(stream), stream)
                before = mark.opened_before
                if retired_before is None:  # then it must continue what was seen
                    advanced(replace(mark, ledger_id=""), journal, stream)
            except CatalogBehind:
                if retired_before is None and self._mark_path(stream).exists():
                    raise
                before = self._windows_before(stream)
            if retired_before is not None and before > retired_before:
                raise CatalogBehind(f"a window of stream {stream!r} was opened meanwhile; recover again")
            fresh = Mark(journal.ledger_id, 0, "", before)
            write_mark(self._mark_path(stream), advanced(fresh, journal, stream))

    def hold_rows(self, window: WindowId, *, alone: bool) -> AbstractContextManager[None]:
        """Write a window's rows beside others who do the same, or alone."""
        self._window_path(window)  # checks the names
        name = f"rows-{window.stream}-{window.index % _ROW_LOCKS}"
        path = self._root / "locks" / name
        return files.locked(path, shared=not alone, at_most_seconds=self._patience_seconds)

    @files.storage_errors()
    def noted_batches(self, window: WindowId) -> tuple[str, ...]:
        """Return the batches of which rows were written for the window."""
        try:
            lines = self._batches_path(window).read_text().splitlines()
        except FileNotFoundError:
            return ()
        return tuple(dict.fromkeys(line for line in lines if _TOKEN.fullmatch(line)))  # a crash may tear one

    def note_batch(self, window: WindowId, token: str) -> None:
        """Remember that rows of this batch were written for the window."""
        if not _TOKEN.fullmatch(token):
            raise InvalidRequest("a batch token is 32 hexadecimal digits")
        with self._stream_lock(window.stream):
            if _tombstone(self._window_path(window)).exists():
                raise WindowGone(f"the key of window {window} is destroyed")
            self._checked_split(window.stream)
            files.make_private(self._windows_path(window.stream))
            files.append(self._batches_path(window), f"\n{token}\n".encode())

    def forget_batches(self, window: WindowId) -> None:
        """Expect no batch of the window any more."""
        with self._stream_lock(window.stream):
            self._forget_batches(window)

    @files.storage_errors()
    def windows(self, stream: str) -> tuple[WindowId, ...]:
        """Return the windows that have a key."""
        keys = (path for path in self._windows_path(stream).glob("*.key") if not _tombstone(path).exists())
        return tuple(WindowId(stream, index) for index in sorted(int(path.stem) for path in keys))

    def destroy_window(self, window: WindowId) -> None:
        """Destroy the window's key for ever."""
        with self._stream_lock(window.stream):
            if not self._windows_path(window.stream).exists():
                self._checked_split(window.stream)
                files.make_private(self._windows_path(window.stream))
            _destroy_key(self._window_path(window))
            self._forget_batches(window)

    def draft_key(self, draft_id: str) -> bytes:
        """Return the draft's key; made at first use."""
        path = self._draft_path(draft_id)
        with self._locked("drafts"):
            return _key_made_once(path, f"draft {draft_id}")

    def destroy_draft(self, draft_id: str) -> None:
        """Destroy a draft's key for ever."""
        path = self._draft_path(draft_id)
        with self._locked("drafts"):
            _destroy_key(path)

    @files.storage_errors()
    def draft_ids(self) -> tuple[str, ...]:
        """Return the drafts that have a key."""
        return tuple(sorted(path.stem for path in (self._root / "drafts").glob("*.key")))

    def ticket_key(self) -> bytes:
        """Return the key of devices' tickets; made at first use."""
        with self._locked("devices"):
            return _key_made_once(self._root / "devices" / "tickets.key", "tickets")

    def make_checkpoint_key(self, ptk_id: str, name: str) -> bytes:
        """Make the key of a new checkpoint."""
        path = self._checkpoint_path(ptk_id, name)
        with self._locked("devices"):
            files.create(path, secrets.token_bytes(KEY_BYTES))
            return _read_key(path)

    @files.storage_errors()
    def checkpoint_key(self, ptk_id: str, name: str) -> bytes:
        """Return the key of a checkpoint."""
        try:
            return _read_key(self._checkpoint_path(ptk_id, name))
        except FileNotFoundError:
            raise WindowGone(f"the key of checkpoint {name} is destroyed") from None

    @files.storage_errors()
    def checkpoints(self) -> frozenset[tuple[str, str]]:
        """Return the PTK and the name of each checkpoint that has a key."""
        parted = (path.stem.partition("@") for path in (self._root / "devices").glob("*@*.key"))
        return frozenset((ptk_id, name) for ptk_id, _, name in parted)

    def destroy_checkpoint(self, ptk_id: str, name: str) -> None:
        """Destroy the key of a checkpoint without a trace, since every few seconds there is one."""
        path = self._checkpoint_path(ptk_id, name)
        with self._locked("devices"):
            files.destroy(path)

    def put_secret(self, subscription_id: str, secret: str) -> None:
        """Keep a signing secret; the same one again changes nothing, another one is `NameTaken`."""
        path = self._secret_path(subscription_id)
        with self._locked("webhooks"):
            if not path.exists():
                files.create(path, secret.encode())
            elif not secrets.compare_digest(path.read_bytes(), secret.encode()):
                raise NameTaken(f"subscription {subscription_id!r} has another secret already")

    def secrets_of(self, subscription_id: str, now: datetime) -> tuple[str, ...]:
        """Return the secrets that sign a subscription's messages now, the newest first."""
        return tuple(
            secret for secret, until in self._secrets(subscription_id) if until is None or now < until
        )

    def rotate_secret(self, subscription_id: str, secret: str, now: datetime, old_until: datetime) -> None:
        """Sign with this secret from now on, and with those that sign now until `old_until` at most."""
        path = self._secret_path(subscription_id)
        with self._locked("webhooks"):
            old = [(one, min(until or old_until, old_until)) for one, until in self._secrets(subscription_id)]
            live = [f"{one} {until.isoformat()}" for one, until in old if now < until]
            if len(live) >= _SECRETS_AT_ONCE:
                raise Conflict(
                    f"{len(live)} secrets of subscription {subscription_id!r} sign already; wait for the end of an "
                    "overlap, or rotate with an overlap of zero"
                )
            files.replace(path, "\n".join((secret, *live)).encode())

    def destroy_secret(self, subscription_id: str) -> None:
        """Destroy all signing secrets of a subscription."""
        path = self._secret_path(subscription_id)
        with self._locked("webhooks"):
            files.destroy(path)

    def check_writable(self) -> None:
        """Write a file that is no key, and delete it."""
        with files.locked(self._root / "locks" / PROBE, at_most_seconds=_PROBE_SECONDS):
            files.probe(self._root / PROBE, secrets.token_bytes(PROBE_BYTES))

    @files.storage_errors()
    def _secrets(self, subscription_id: str) -> list[tuple[str, datetime | None]]:
        """Each with the end of its use; a line per secret, the newest without an end."""
        try:
            lines = self._secret_path(subscription_id).read_text().splitlines()
        except FileNotFoundError:
            raise UnknownName("subscription", subscription_id) from None
        parted = (line.partition(" ") for line in lines)
        return [(secret, datetime.fromisoformat(until) if until else None) for secret, _, until in parted]

    def _check_policy(self, stream: str, journal: JournalView) -> None:
        """Compare policies; a stream of an older catalog has none here until it was upgraded."""
        kept = self.policy(stream)
        if kept is not None and journal.policy(stream) != kept:
            raise CatalogBehind(_OTHER_POLICY.format(stream))

    def _keep_first(self, stream: str, journal: JournalView) -> None:
        """Remember the policy of a stream that was made before policies were kept, as an upgrade does."""
        if self.policy(stream) is None and (text := journal.policy(stream)) is not None:
            files.replace(self._policy_path(stream), text.encode())

    def _windows_before(self, stream: str) -> int:
        """One more than the last window that ever had a key."""
        paths = self._windows_path(stream).glob("*.*")
        return max((int(path.stem) for path in paths if path.stem.isdecimal()), default=-1) + 1

    def _stream_lock(self, stream: str) -> AbstractContextManager[None]:
        return self._locked(f"stream-{checked_name('stream', stream)}")

    @contextmanager
    def _locked(self, name: str) -> Iterator[None]:
        with files.locked(self._root / "locks" / name), files.storage_errors():
            yield

    def _checked_split(self, stream: str) -> Path:
        path = self._split_path(stream)
        if not path.exists():
            raise UnknownName("key of stream", stream, NO_KEY)
        return path

    def _split_path(self, stream: str) -> Path:
        return self._root / "streams" / f"{checked_name('stream', stream)}.split"

    def _mark_path(self, stream: str) -> Path:
        return self._root / "marks" / f"{checked_name('stream', stream)}.json"

    def _policy_path(self, stream: str) -> Path:
        return self._root / "policies" / f"{checked_name('stream', stream)}.json"

    def _windows_path(self, stream: str) -> Path:
        return self._root / "windows" / checked_name("stream", stream)

    def _window_path(self, window: WindowId) -> Path:
        if type(window.index) is not int or window.index < 0:
            raise InvalidRequest("a window index is a whole number, 0 or more")
        return self._windows_path(window.stream) / f"{window.index}.key"

    def _draft_path(self, draft_id: str) -> Path:
        return self._root / "drafts" / f"{_checked_id('draft', draft_id)}.key"

    def _batches_path(self, window: WindowId) -> Path:
        return self._window_path(window).with_suffix(".batches")

    def _forget_batches(self, window: WindowId) -> None:
        if self._batches_path(window).exists():
            files.destroy(self._batches_path(window))

    def _checkpoint_path(self, ptk_id: str, name: str) -> Path:
        return self._root / "devices" / f"{_checked_id('PTK', ptk_id)}@{_checked_id('checkpoint', name)}.key"

    def _secret_path(self, subscription_id: str) -> Path:
        return self._root / "webhooks" / f"{_checked_id('subscription', subscription_id)}.secret"


def _checked_id(kind: str, name: str) -> str:
    if not isinstance(name, str) or not _ID.fullmatch(name):
        raise InvalidRequest(
            f"a {kind} id is 1 to 128 letters, digits, '.', '-' or '_', the first a letter or digit"
        )
    return name


def _tombstone(path: Path) -> Path:
    return path.with_suffix(".gone")


def _key_made_once(path: Path, owner: str) -> bytes:
    if _tombstone(path).exists():
        raise WindowGone(f"the key of {owner} is destroyed")
    if not path.exists():
        files.create(path, secrets.token_bytes(KEY_BYTES))
    return _read_key(path)


def _destroy_key(path: Path) -> None:
    if not _tombstone(path).exists():
        files.create(_tombstone(path), b"")
    files.destroy(path)


def _read_key(path: Path) -> bytes:
    key = path.read_bytes()
    if len(key) != KEY_BYTES:
        raise CorruptObject("a key file does not hold a key; restore the key store")
    return key
