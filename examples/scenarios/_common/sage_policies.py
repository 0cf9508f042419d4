"""The policies of Sage's Figure 8, their workload, and how PTKs fare under one of them."""

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from ptkstore.domain.accounting.losses import Loss
from ptkstore.domain.scheduling.adaptive import Adaptive, Mode
from ptkstore.domain.scheduling.competing import Competing
from ptkstore.domain.scheduling.orders import Order, by_dominant_share, by_efficiency
from ptkstore.domain.scheduling.simulation.replay import Outcome, Setting, replay
from ptkstore.domain.scheduling.simulation.streaming import stream_through
from ptkstore.domain.scheduling.simulation.workload import Arrival, Workload

HOURS = 400
SINCE, UNTIL = 100, 300
"""Only PTKs that arrive between these hours are counted."""
ROWS = 16_000  # an hour of taxi trips, as in the paper
SETTING = Setting(HOURS, ROWS, Loss(10**9), (Loss(10**7), Loss(10**9)), HOURS)
WORKLOAD = Workload(per_window=1.0)


def competing(order: Order) -> Competing:
    """Return the scheduler in which guided looks compete in an order."""
    return Competing(ROWS, Mode.GUIDED, order, SETTING.whole)


Run = Callable[[tuple[Arrival, ...]], Outcome]
POLICIES: Mapping[str, Run] = {
    "streaming": lambda arrivals: stream_through(arrivals, SETTING),
    "streaming, needs known": lambda arrivals: stream_through(arrivals, SETTING, looks_fail=False),
    "query": lambda arrivals: replay(arrivals, Adaptive(ROWS), SETTING, draw_per_block=True),
    "aggressive": lambda arrivals: replay(arrivals, Adaptive(ROWS, Mode.AGGRESSIVE), SETTING),
    "conserve": lambda arrivals: replay(arrivals, Adaptive(ROWS), SETTING),
    "guided": lambda arrivals: replay(arrivals, Adaptive(ROWS, Mode.GUIDED), SETTING),
    "DPF": lambda arrivals: replay(arrivals, competing(by_dominant_share), SETTING),
    "DPack": lambda arrivals: replay(arrivals, competing(by_efficiency), SETTING),
}


@dataclass(frozen=True)
class Fared:
    """How PTKs fared under one policy with one seed: hours and shares."""

    wait: float
    released: float
    left: float


def arrivals_of(rate: float, seed: int) -> tuple[Arrival, ...]:
    """Return the PTKs that arrive with one seed at one rate."""
    return replace(WORKLOAD, per_window=rate).arrivals(HOURS, seed)


def fared(policy: str, rate: float, seed: int) -> Fared:
    """Replay one seed at one rate."""
    outcome = POLICIES[policy](arrivals_of(rate, seed))
    return Fared(
        statistics.mean(outcome.waits(SINCE, UNTIL, HOURS)),
        outcome.released_share(SINCE, UNTIL),
        sum(outcome.left.values()) / HOURS / SETTING.capacity.epsilon_nano,
    )
