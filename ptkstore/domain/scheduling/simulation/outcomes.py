"""What came of a simulation of schedulers."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Released:
    """How one PTK fared. `time` is when its look was accepted, in windows; None if that was never."""

    ptk_id: str
    arrived: float
    time: float | None
    looks: int


@dataclass(slots=True)
class Outcome:
    """What came of a replay.

    `left` is what each block had left when it was used up, expired or the replay ended: units of the coordinate.
    `decisions` counts pairs of a PTK and a block that were looked at. `work` grows with the time that they took.
    """

    releases: list[Released] = field(default_factory=list)
    left: dict[int, int] = field(default_factory=dict)
    decisions: int = 0
    work: int = 0

    def waits(self, since: float, until: float, end: float) -> list[float]:
        """Return how long each PTK waited that arrived in [`since`, `until`); those still waiting count up to `end`.

        So a mean of these is a lower bound where some were never released.
        """
        counted = (one for one in self.releases if since <= one.arrived < until)
        return [(end if one.time is None else one.time) - one.arrived for one in counted]

    def released_share(self, since: float, until: float) -> float:
        """Return the share of the PTKs that arrived in [`since`, `until`) and were released; 1 if there are none."""
        times = [one.time for one in self.releases if since <= one.arrived < until]
        return 1.0 if not times else sum(time is not None for time in times) / len(times)
