"""The machine's clock."""

from __future__ import annotations

from datetime import UTC, datetime


class SystemClock:
    """Wall-clock time in UTC."""

    def now(self) -> datetime:
        """The present."""
        return datetime.now(UTC)
