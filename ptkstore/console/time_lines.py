"""Windows on a line of time as numbers that a template draws."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from ptkstore.application.streams.read_time_line import Stage, TimedWindows

WIDTH, HEIGHT = 600, 40
_SHARE_OF_HEIGHT = {
    Stage.OPEN: 1.0,
    Stage.CLOSING: 0.8,
    Stage.CLOSED: 0.6,
    Stage.EXPIRING: 0.4,
    Stage.EXPIRED: 0.2,
}
"""A stage is told apart by its height too, not by its colour alone."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A window, or several of one stage, from its left edge; `exposed` where rows of it are stored, or may be."""

    x: float
    width: float
    y: float
    height: float
    stage: str
    exposed: bool
    label: str


def time_line_marks(
    windows: Sequence[TimedWindows], labels: Sequence[str], exposed: Collection[int]
) -> tuple[Mark, ...]:
    """Draw windows side by side, each as wide as the others.

    Parameters
    ----------
    labels : sequence of str
        What each one is, in words.
    exposed : collection of int
        The first numbers of those whose rows are stored.
    """
    step = WIDTH / max(len(windows), 1)
    gap = min(2.0, step / 6)
    marks = []
    for place, (one, label) in enumerate(zip(windows, labels, strict=True)):
        height = round(HEIGHT * _SHARE_OF_HEIGHT[one.stage], 2)
        mark = Mark(
            round(place * step + gap / 2, 2),
            round(step - gap, 2),
            round(HEIGHT - height, 2),
            height,
            one.stage.value,
            one.first in exposed,
            label,
        )
        marks.append(mark)
    return tuple(marks)
