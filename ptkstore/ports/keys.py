"""The key store: keys of windows, drafts, streams and subscriptions; and the key that signs reports."""

from __future__ import annotations

from contextlib import AbstractContextManager
from datetime import datetime
from typing import Protocol

from ptkstore.domain.streams.windows import WindowId


class JournalView(Protocol):
    """The part of a stream's journal that the key store compares its own memory with."""

    @property
    def ledger_id(self) -> str:
        """The identity given to the catalog when it was created."""

    def head(self, stream: str) -> int:
        """Return the highest sequence of the stream's journal, 0 when empty; read afresh."""

    def digest_at(self, stream: str, sequence: int) -> str | None:
        """Return the chained digest of an entry, None if there is none; read afresh."""

    def policy(self, stream: str) -> str | None:
        """Return the policy in the journal, as a text; None if it has none; read afresh."""


class KeyStore(Protocol):
    """Every key is a file of its own, never in SQL or in backups; destroying it is final (differences.md F10, F14).

    A store that fails is `Unavailable`, and `OutcomeUnknown` where what was asked for may be done.
    """

    def create_stream(self, stream: str) -> None:
        """Make the stream's split key, once; a repeated call changes nothing."""

    def policy(self, stream: str) -> str | None:
        """Return the policy that the stream was created with, as a text; None if none was kept."""

    def keep_policy(self, stream: str, policy_text: str) -> None:
        """Remember the stream's policy: no journal with another one opens a window.

        `CatalogBehind` if another one was kept and a window was opened under it; until then the later one counts.
        """

    def check_journal(self, stream: str, journal: JournalView) -> None:
        """Raise `CatalogBehind` unless `journal` continues what was seen and has the policy that was kept."""

    def note_batch(self, window: WindowId, token: str) -> None:
        """Remember that rows of this batch were written for the window; `WindowGone` when its key was destroyed.

        The note is private, and is destroyed with the window's key.
        """

    def noted_batches(self, window: WindowId) -> tuple[str, ...]:
        """Name the batches of which rows were written for the window, whether or not they were committed."""

    def forget_batches(self, window: WindowId) -> None:
        """Expect no batch of the window any more; repeatable."""

    def split_key(self, stream: str) -> bytes:
        """Return the stream's 32-byte key of the hash that assigns units to parts, for life (differences.md P7).

        Raises `UnknownName` for a stream that was never created.
        """

    def sealing_key(self, window: WindowId) -> bytes:
        """Return the window's 32-byte key for those who write rows; made at first use, `WindowGone` once destroyed."""

    def opening_key(
        self, window: WindowId, journal: JournalView, spend: tuple[int, str] | None = None
    ) -> bytes:
        """Return the window's key for a run whose spend is in `journal`, as the entry of this sequence and digest.

        Remembers the journal's head, its digest and the window durably before it answers. Raises `WindowGone` when the
        key was destroyed. Raises `CatalogBehind` when the journal lacks the head remembered last, has another id
        (differences.md F3b) or has another policy than the one that was kept.
        """

    def hold_rows(self, window: WindowId, *, alone: bool) -> AbstractContextManager[None]:
        """Write a window's rows beside others who do the same, or alone; whoever dies lets the next one in.

        Waits for its turn, and raises `Unavailable` if that takes too long. Guards rows only: keys may be asked for
        and destroyed meanwhile.
        """

    def windows(self, stream: str) -> tuple[WindowId, ...]:
        """Return the windows that have a key, in order."""

    def working(self, ledger_id: str) -> AbstractContextManager[None]:
        """Work on a job for the ledger of this identity, beside others who do; one that dies delays nobody.

        Raises `CatalogBehind` if another ledger was accepted last, and `Unavailable` during a recovery.
        """

    def recovering(self) -> AbstractContextManager[None]:
        """Recover while nobody works; `Refused` if somebody does."""

    def accept_ledger(self, ledger_id: str) -> None:
        """Let jobs work for the ledger of this identity from now on, and for no other; called while recovering."""

    def in_doubt(self, stream: str, journal: JournalView) -> int | None:
        """Tell below which window spends may be missing from `journal`; None when it continues what was seen.

        With a ledger of another id, all windows that were opened are in doubt; 0 if none was. The reason: a copy from
        before a recovery may end with the very entry that the recovery was accepted with. If the mark is lost, every
        window that ever had a key is in doubt.
        """

    def accept(self, stream: str, journal: JournalView, retired_before: int | None) -> None:
        """Take `journal` for the stream's own from now on.

        The blocks of windows below `retired_before` have been retired; None where none were in doubt. Raises
        `CatalogBehind` if what was opened by now goes beyond that, or the journal has another policy.
        """

    def destroy_window(self, window: WindowId) -> None:
        """Unlink and sync the window's key for ever; repeatable; a destroyed key is never made anew."""

    def draft_key(self, draft_id: str) -> bytes:
        """Return the 32-byte key of a draft in staging; made at first use, `WindowGone` once destroyed."""

    def destroy_draft(self, draft_id: str) -> None:
        """Destroy a draft's key; repeatable."""

    def draft_ids(self) -> tuple[str, ...]:
        """Name the drafts that have a key, written or not, sorted."""

    def ticket_key(self) -> bytes:
        """Return the store's 32-byte key of devices' tickets; made at first use."""

    def make_checkpoint_key(self, ptk_id: str, name: str) -> bytes:
        """Make the 32-byte key of a new checkpoint, whose name no other has."""

    def checkpoint_key(self, ptk_id: str, name: str) -> bytes:
        """Return the key of a checkpoint; `WindowGone` where there is none."""

    def checkpoints(self) -> frozenset[tuple[str, str]]:
        """Return the PTK and the name of each checkpoint that has a key, written or not."""

    def destroy_checkpoint(self, ptk_id: str, name: str) -> None:
        """Destroy the key of a checkpoint; repeatable."""

    def put_secret(self, subscription_id: str, secret: str) -> None:
        """Keep a subscription's signing secret."""

    def secrets_of(self, subscription_id: str, now: datetime) -> tuple[str, ...]:
        """Return the secrets that sign a subscription's messages now, newest first; `UnknownName` if there is none."""

    def rotate_secret(self, subscription_id: str, secret: str, now: datetime, old_until: datetime) -> None:
        """Sign with this secret from now on, and with those that sign now until `old_until` at most.

        Raises `UnknownName` if there is none, and `Conflict` if too many would sign.
        """

    def destroy_secret(self, subscription_id: str) -> None:
        """Destroy all signing secrets of a subscription; repeatable."""

    def check_writable(self) -> None:
        """Write what nobody reads and delete it; raises `Unavailable` if that cannot be done."""


class Signer(Protocol):
    """One signing key of the store, made at first use and kept for its life."""

    def public_key(self) -> bytes:
        """Return the 32 bytes that verify what `sign` makes."""

    def sign(self, message: bytes) -> bytes:
        """Return the signature of exactly these bytes."""


class Sealer(Protocol):
    """Authenticated encryption of bytes that are bound to a name."""

    def seal(self, key: bytes, plaintext: bytes, bound_to: str) -> bytes:
        """Encrypt so that only the same key and the same `bound_to` open it."""

    def open(self, key: bytes, sealed: bytes, bound_to: str) -> bytes:
        """Decrypt, or raise `CorruptObject`."""
