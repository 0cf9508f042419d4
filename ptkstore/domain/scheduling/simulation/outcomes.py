"""The outcome of a simulation: of one replay, and of a stream under several schedulers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from ptkstore.domain.scheduling.simulation.requests import SimulatedScheduler, SimulationRequest


@dataclass(frozen=True, slots=True)
class Released:
    """When one PTK was released. `time` is when its look was accepted, in windows; None if that was never."""

    ptk_id: str
    arrived: float
    time: float | None
    looks: int


@dataclass(slots=True)
class Outcome:
    """The outcome of a replay.

    `left` is what each block had left when it was used up, expired or the replay ended: units of the coordinate.
    `decisions` counts pairs of a PTK and a block that were looked at.
    """

    releases: list[Released] = field(default_factory=list)
    left: dict[int, int] = field(default_factory=dict)
    decisions: int = 0

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


@dataclass(frozen=True, slots=True)
class SchedulerResult:
    """When PTKs were released under one scheduler.

    `median` and `p90` are the median and the 90th percentile of the windows from arrival to release. A PTK that was
    not released counts as later than all others. A percentile that falls on one of those is None. `left` is the share
    of the blocks' budget that nobody took.
    """

    scheduler: SimulatedScheduler
    released: int
    median: float | None
    p90: float | None
    left: float


@dataclass(frozen=True, slots=True)
class RefusedPtk:
    """A PTK that a stream with this scheduler, `adaptive` or `budgeting`, would not register."""

    ptk_id: str
    scheduler: str
    reason: str


@dataclass(frozen=True, slots=True)
class SimulationResult:
    """The result of a simulation of a stream.

    `arrived` counts PTKs that came and may wait. `without_menu` names those with a test of whose need nothing is known:
    they count as accepted at their first look.
    """

    stream: str
    request: SimulationRequest
    arrived: int
    schedulers: tuple[SchedulerResult, ...]
    without_menu: tuple[str, ...] = ()
    refused: tuple[RefusedPtk, ...] = ()


def summarise(scheduler: SimulatedScheduler, outcomes: Sequence[Outcome], left: float) -> SchedulerResult:
    """Return the percentiles of the PTKs of some outcomes together."""
    releases = [one for outcome in outcomes for one in outcome.releases]
    waits = sorted(one.time - one.arrived for one in releases if one.time is not None)
    median, p90 = (_at_rank(waits, math.ceil(len(releases) * tenths / 10)) for tenths in (5, 9))
    return SchedulerResult(scheduler, len(waits), median, p90, round(left, 6))


def _at_rank(waits: Sequence[float], rank: int) -> float | None:
    return round(waits[rank - 1], 6) if 0 < rank <= len(waits) else None
