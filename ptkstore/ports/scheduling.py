"""The PTKs that wait on adaptive streams, and their allowances of each block."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Protocol

from ptkstore.domain.scheduling.shares import Share
from ptkstore.domain.scheduling.waits import EndedWait, Wait


class WaitsView(Protocol):
    """Waits and allowances, for reading."""

    def of(self, stream: str) -> Mapping[str, Wait]:
        """Return the last wait of each PTK of a stream, by its id."""

    def last(self, ptk_id: str) -> Wait | None:
        """Return the last wait of a PTK; None if it has none."""

    def ended(
        self, stream: str, limit: int | None = None, teams: Collection[str] | None = None
    ) -> tuple[EndedWait, ...]:
        """Return waits of a stream that ended, those that began last first; at most `limit`, of these teams' PTKs."""

    def allowed(self, stream: str) -> tuple[Share, ...]:
        """Return what each PTK was allowed of each block since it began to wait, by PTK and block.

        Its reservations and spends since then are not subtracted: the journal has them.
        """


class Waits(WaitsView, Protocol):
    """Waits and allowances; the caller has the stream's lock."""

    def begin(self, wait: Wait) -> None:
        """Let a PTK begin to wait, anew if it waited before: without allowances."""

    def end(self, ptk_id: str) -> None:
        """Forget the wait of a PTK and its allowances; one without a wait is no fault."""

    def keep(self, ended: EndedWait) -> None:
        """Keep a wait that ended, and the newest `MOST_ENDED` of its PTK; nothing happens if its end is kept."""

    def allow(self, stream: str, shares: Iterable[Share]) -> None:
        """Put these allowances in the place of all of the stream's."""
