"""The request for a simulation of a stream."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from ptkstore.errors import InvalidRequest

MOST_WINDOWS = 2_000
MOST_ARRIVALS = 2_000
MOST_SEED = 2**31 - 1


class SimulatedScheduler(StrEnum):
    """The schedulers that can be simulated.

    `conserve`, `aggressive` and `guided` are the modes of `adaptive`. `budgeting` has a declared significance. Under
    the others nobody has an allowance. Looks are those of `guided` and compete for what blocks have left, by
    `arrival`, by `dpf` or by `dpack`.
    """

    CONSERVE = "conserve"
    AGGRESSIVE = "aggressive"
    GUIDED = "guided"
    ARRIVAL = "arrival"
    DPF = "dpf"
    DPACK = "dpack"
    BUDGETING = "budgeting"


MODES = (SimulatedScheduler.CONSERVE, SimulatedScheduler.AGGRESSIVE, SimulatedScheduler.GUIDED)


@dataclass(frozen=True, slots=True)
class SimulationRequest:
    """How many PTKs arrive per window, for how many windows, drawn with a public seed, under which schedulers.

    `least_significance` and `most_significance` are L and U of `budgeting`. Without them, those of the stream count.

    Raises
    ------
    InvalidRequest
        Less than one or more than `MOST_WINDOWS` windows, a rate that is not positive or makes more than
        `MOST_ARRIVALS` PTKs, or a seed outside [0, `MOST_SEED`]. No scheduler or one twice, or bounds on significance
        without `budgeting`.
    """

    rate: float
    windows: int = 100
    seed: int = 0
    schedulers: tuple[SimulatedScheduler, ...] = MODES
    least_significance: float | None = None
    most_significance: float | None = None

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
        if not self.has_budgeting and (self.least_significance, self.most_significance) != (None, None):
            raise InvalidRequest(
                "least_significance and most_significance are for the scheduler 'budgeting'; name it, or leave them out"
            )

    @property
    def has_budgeting(self) -> bool:
        """Whether `budgeting` is simulated."""
        return SimulatedScheduler.BUDGETING in self.schedulers
