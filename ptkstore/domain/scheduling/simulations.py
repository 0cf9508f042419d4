"""What may be asked of a simulation of a stream, and what it tells."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from ptkstore.domain.scheduling.simulation.outcomes import Outcome
from ptkstore.errors import InvalidRequest

MOST_WINDOWS = 2_000
MOST_ARRIVALS = 2_000
MOST_SEED = 2**31 - 1


class Simulated(StrEnum):
    """The schedulers that can be simulated.

    `conserve`, `aggressive` and `guided` are the modes of `adaptive`. Under the others nobody has an allowance. Looks
    are those of `guided` and compete for what blocks have left, by `arrival`, by `dpf` or by `dpack`.
    """

    CONSERVE = "conserve"
    AGGRESSIVE = "aggressive"
    GUIDED = "guided"
    ARRIVAL = "arrival"
    DPF = "dpf"
    DPACK = "dpack"


MODES = (Simulated.CONSERVE, Simulated.AGGRESSIVE, Simulated.GUIDED)


@dataclass(frozen=True, slots=True)
class Asked:
    """What is simulated: so many PTKs a window for so many windows, drawn with a public seed, under some schedulers.

    Raises
    ------
    InvalidRequest
        Less than one or more than `MOST_WINDOWS` windows, a rate that is not positive or makes more than
        `MOST_ARRIVALS` PTKs, a seed outside [0, `MOST_SEED`], or no scheduler or one twice.
    """

    rate: float
    windows: int = 100
    seed: int = 0
    schedulers: tuple[Simulated, ...] = MODES

    def __post_init__(self) -> None:
        if not 1 <= self.windows <= MOST_WINDOWS:
            raise InvalidRequest(f"windows must be a whole number between 1 and {MOST_WINDOWS}")
        if not (math.isfinite(self.rate) and self.rate > 0):
            raise InvalidRequest("the rate must be a positive number of PTKs a window")
        if self.rate * self.windows > MOST_ARRIVALS:
            raise InvalidRequest(
                f"rate times windows must be at most {MOST_ARRIVALS} PTKs; ask for fewer windows or a lower rate"
            )
        if not 0 <= self.seed <= MOST_SEED:
            raise InvalidRequest(f"the seed must be a whole number between 0 and {MOST_SEED}")
        if not self.schedulers or len(set(self.schedulers)) != len(self.schedulers):
            raise InvalidRequest("name one scheduler at least, and each once")


@dataclass(frozen=True, slots=True)
class Fared:
    """How PTKs fared under one scheduler.

    `median` and `late` are the median and the 90th percentile of the windows from arrival to release. A PTK that was
    not released counts as later than all others. A percentile that falls on one of those is None. `left` is the share
    of the blocks' budget that nobody took.
    """

    scheduler: Simulated
    released: int
    median: float | None
    late: float | None
    left: float


@dataclass(frozen=True, slots=True)
class Simulation:
    """What a simulation tells of a stream.

    `arrived` counts PTKs that came and may wait. `without_menu` names those with a test of whose need nothing is known:
    they count as accepted at their first look. `refused` names those that `adaptive` would not register, and why.
    """

    stream: str
    asked: Asked
    arrived: int
    fared: tuple[Fared, ...]
    without_menu: tuple[str, ...] = ()
    refused: tuple[tuple[str, str], ...] = ()


def fared_under(scheduler: Simulated, outcomes: Sequence[Outcome], left: float) -> Fared:
    """Return how the PTKs of some outcomes fared together."""
    releases = [one for outcome in outcomes for one in outcome.releases]
    waits = sorted(one.time - one.arrived for one in releases if one.time is not None)
    median, late = (_at_rank(waits, math.ceil(len(releases) * tenths / 10)) for tenths in (5, 9))
    return Fared(scheduler, len(waits), median, late, round(left, 6))


def _at_rank(waits: Sequence[float], rank: int) -> float | None:
    return round(waits[rank - 1], 6) if 0 < rank <= len(waits) else None
