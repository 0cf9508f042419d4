"""How many bytes of rows are decoded in memory at once, and how many of them are one team's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ptkstore.application.operations.team_shares import TeamShares

WAIT_SECONDS = 20.0


class DecodedBytes:
    """The share of the memory that one body has.

    It waits for its first bytes. A body that needs more when none are left is refused at once: two bodies that wait
    for each other would wait for ever.
    """

    def __init__(self, shares: TeamShares, team: str) -> None:
        self._shares, self._team = shares, team
        self.held = 0

    def grow_to(self, n_bytes: int) -> None:
        """Hold so many bytes, a team's share at most, if it holds fewer; refuses as `TeamShares.take` does."""
        n_bytes = min(n_bytes, self._shares.per_team)
        if n_bytes > self.held:
            wait = 0.0 if self.held else WAIT_SECONDS
            self._shares.take(self._team, n_bytes - self.held, within_seconds=wait)
            self.held = n_bytes


class DecodedShares:
    """Memory for decoded rows that teams share.

    Parameters
    ----------
    in_all, per_team : int
        Bytes; one body takes at most what a team may have.
    """

    def __init__(self, in_all: int, per_team: int) -> None:
        self._shares = TeamShares(
            in_all,
            per_team,
            team_full=f"rows of one team take at most {per_team} bytes in memory at once; "
            "send one batch after the other, or smaller ones",
            all_taken="many batches are being decoded; send this one again later",
        )

    @contextmanager
    def of(self, team: str) -> Iterator[DecodedBytes]:
        """Account for what a body of a team holds, and give it back at the end."""
        decoded = DecodedBytes(self._shares, team)
        try:
            yield decoded
        finally:
            self._shares.give_back(team, decoded.held)
