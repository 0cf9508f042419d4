"""Noisy thresholds in SQL, encrypted, the answers that they gave, and noisy losses that were released."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable

from sqlalchemy import Table, and_, delete, insert, select
from sqlalchemy.exc import IntegrityError

from ptkstore.adapters.sql import tables as t
from ptkstore.adapters.sql.statements import CatalogPart
from ptkstore.domain.budgeting.thresholds import Comparison, ReleasedLoss, Threshold
from ptkstore.domain.streams.windows import WindowId
from ptkstore.errors import LateWriter

_KEPT, _ANSWERS, _RELEASED = t.thresholds.c, t.comparisons.c, t.released_losses.c


class SqlThresholds(CatalogPart):
    """Thresholds by window and line of the budget, answers and released losses by job."""

    def of(self, stream: str) -> tuple[Threshold, ...]:
        """Return the thresholds of a stream."""
        query = select(t.thresholds).where(_KEPT.stream == stream).order_by(_KEPT.window_index, _KEPT.line)
        return tuple(
            Threshold(WindowId(stream, row.window_index), row.line, row.reservation, b64decode(row.sealed))
            for row in self._connection.execute(query)
        )

    def answers(self, stream: str) -> tuple[Comparison, ...]:
        """Return the answers on windows of a stream."""
        query = select(t.comparisons).where(_ANSWERS.stream == stream).order_by(_ANSWERS.job_id)
        return tuple(
            Comparison(row.job_id, row.ptk_id, WindowId(stream, row.window_index), row.since, bool(row.above))
            for row in self._connection.execute(query)
        )

    def released(self, stream: str) -> tuple[ReleasedLoss, ...]:
        """Return the noisy losses on windows of a stream."""
        query = select(t.released_losses).where(_RELEASED.stream == stream).order_by(_RELEASED.job_id)
        return tuple(
            ReleasedLoss(
                row.job_id, row.ptk_id, WindowId(stream, row.window_index), row.version, row.since, row.noisy
            )
            for row in self._connection.execute(query)
        )

    def keep(self, threshold: Threshold) -> None:
        """Write a threshold in the place of the last one."""
        self.drop(threshold.window, threshold.line)
        row = {
            "stream": threshold.window.stream,
            "window_index": threshold.window.index,
            "line": threshold.line,
            "reservation": threshold.reservation,
            "sealed": b64encode(threshold.sealed).decode(),
        }
        self._connection.execute(insert(t.thresholds).values(row))

    def drop(self, window: WindowId, line: str) -> None:
        """Remove the threshold of a line of a window."""
        mine = and_(_KEPT.stream == window.stream, _KEPT.window_index == window.index, _KEPT.line == line)
        self._connection.execute(delete(t.thresholds).where(mine))

    def add(self, comparison: Comparison) -> None:
        """Keep an answer; `LateWriter` if its job gave one."""
        self._add_once(t.comparisons, comparison, above=int(comparison.above))

    def add_released(self, released: ReleasedLoss) -> None:
        """Keep a number; `LateWriter` if its job released one."""
        self._add_once(t.released_losses, released, version=released.version, noisy=released.noisy)

    def _add_once(self, table: Table, one: Comparison | ReleasedLoss, **said: float | None) -> None:
        row = {
            "job_id": one.job_id,
            "ptk_id": one.ptk_id,
            "stream": one.window.stream,
            "window_index": one.window.index,
            "since": one.since,
            **said,
        }
        try:
            self._connection.execute(insert(table).values(row))
        except IntegrityError as error:
            raise LateWriter(f"{one.job_id} has its answer") from error.orig

    def expire(self, windows: Iterable[WindowId]) -> None:
        """Remove the thresholds, answers and released losses of windows."""
        for window in windows:
            for table in (t.thresholds, t.comparisons, t.released_losses):
                of_window = and_(table.c.stream == window.stream, table.c.window_index == window.index)
                self._connection.execute(delete(table).where(of_window))
