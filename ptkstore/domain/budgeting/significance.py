"""Significance that is declared: how recent a block is. It is public and costs nothing."""

from __future__ import annotations

from dataclasses import dataclass

from ptkstore.errors import InvalidRequest

LONGEST = 10_000  # windows


@dataclass(frozen=True, slots=True)
class Recency:
    """A block of age 0 has significance 1. It falls evenly to 0 at `windows` windows of age.

    Parameters
    ----------
    windows : int
        Declared with the PTK, at least 1 and at most `LONGEST`.
    """

    windows: int

    def __post_init__(self) -> None:
        if type(self.windows) is not int or not 1 <= self.windows <= LONGEST:
            raise InvalidRequest(f"recency of a PTK is a whole number of windows between 1 and {LONGEST}")

    def of(self, age: int) -> float:
        """Return the significance of a block of an age in windows. Blocks after the newest are as new as it."""
        return max(0.0, 1 - max(0, age) / self.windows)
