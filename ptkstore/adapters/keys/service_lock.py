"""Locks of a ledger: jobs work beside each other, recovery works alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from ptkstore.adapters.keys import files
from ptkstore.errors import CatalogBehind, Refused


class ServiceLock:
    """A lock that jobs share and a recovery has alone, with the identity of the ledger that jobs work for.

    A process may still have the catalog of before a recovery, as an open file that was replaced. The identity reveals
    it: each job of it is refused.
    """

    def __init__(self, root: Path) -> None:
        self._lock, self._identity = root / "locks" / "service", root / "ledger.id"

    @contextmanager
    def working(self, ledger_id: str) -> Iterator[None]:
        """Work for this ledger; `Unavailable` during a recovery, `CatalogBehind` if another ledger was accepted."""
        with files.locked(self._lock, shared=True, at_most_seconds=0):
            if self._accepted(ledger_id) != ledger_id:
                raise CatalogBehind(
                    "the key store works for another ledger than this catalog's; if this is the right catalog: "
                    "ptk ledger recover"
                )
            yield

    @contextmanager
    def recovering(self) -> Iterator[None]:
        """Keep all jobs out; `Refused` while one runs."""
        with ExitStack() as stack:
            try:
                stack.enter_context(files.locked(self._lock, at_most_seconds=0))
            except files.Held:
                raise Refused("jobs are being worked on; stop all workers, then try again") from None
            yield

    def accept_ledger(self, ledger_id: str) -> None:
        """Let jobs work for this ledger from now on; called while recovering."""
        files.replace(self._identity, ledger_id.encode())

    @files.storage_errors()
    def _accepted(self, first: str) -> str:
        """Return the ledger accepted last; store this one if there was none."""
        if not self._identity.exists():
            with files.locked(self._lock.with_name("ledger")):
                if not self._identity.exists():
                    files.create(self._identity, first.encode())
        return self._identity.read_text()
