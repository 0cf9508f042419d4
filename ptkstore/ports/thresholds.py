"""Noisy thresholds that are kept, the answers that they gave, and noisy losses that were released."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from ptkstore.domain.budgeting.thresholds import Comparison, ReleasedLoss, Threshold
from ptkstore.domain.streams.windows import WindowId


class ThresholdsView(Protocol):
    """Thresholds, answers and released losses, for reading."""

    def of(self, stream: str) -> tuple[Threshold, ...]:
        """Return the thresholds of a stream that were paid for and not used up, by window and line."""

    def answers(self, stream: str) -> tuple[Comparison, ...]:
        """Return the answers on windows of a stream that are kept, by job."""

    def released(self, stream: str) -> tuple[ReleasedLoss, ...]:
        """Return the noisy losses on windows of a stream that are kept, by job."""


class Thresholds(ThresholdsView, Protocol):
    """Thresholds, answers and released losses; the caller has the stream's lock."""

    def keep(self, threshold: Threshold) -> None:
        """Put a threshold in the place of that of its window and line."""

    def drop(self, window: WindowId, line: str) -> None:
        """Forget the threshold of a line of a window; one that is not there is no fault."""

    def add(self, comparison: Comparison) -> None:
        """Keep an answer; `LateWriter` if its job gave one."""

    def add_released(self, released: ReleasedLoss) -> None:
        """Keep a number that was released; `LateWriter` if its job released one."""

    def expire(self, windows: Iterable[WindowId]) -> None:
        """Forget the thresholds, answers and released losses of windows whose rows go."""
