"""A workload like that of Sage's Figure 8: PTKs arrive at random, and most of them need little (SOSP'19, section 5.4).

The draws come from a hash of a public seed. They are no noise and protect nobody: the same seed gives the same PTKs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from statistics import NormalDist

from ptkstore.errors import InvalidRequest

_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True)
class Need:
    """The rows with which a PTK reaches its target: base + linear / epsilon + quadratic / epsilon**2.

    `base` is needed without privacy as well. `linear` is that of one noisy sum, and `quadratic` that of an error which
    grows with the variance of the noise.
    """

    base: float
    linear: float = 0.0
    quadratic: float = 0.0

    def rows(self, epsilon: float, draws: int = 1) -> float:
        """Return the rows that are needed where noise is drawn so many times, on equal parts of them, and added up.

        The deviation of the noise then grows with the root of `draws`, its variance with `draws`.
        """
        return self.base + self.linear * math.sqrt(draws) / epsilon + self.quadratic * draws / epsilon**2


@dataclass(frozen=True, slots=True)
class Arrival:
    """A PTK that begins to wait: at which time, in windows, and what it needs.

    `menu` is what it believes to need, pairs of epsilon and rows; empty where it knows nothing.
    """

    ptk_id: str
    time: float
    need: Need
    menu: tuple[tuple[float, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Workload:
    """How PTKs arrive and what they need.

    The time between two arrivals has a Gamma distribution of this (whole) `shape`; 1 makes a Poisson process. The rows
    that are needed at epsilon 1 have a power law: a density proportional to rows**-`exponent` between `least_rows`
    and `most_rows`. Of these, a share is due to privacy (`Need.linear`); it is one of `privacy_shares`, each as likely.

    A PTK has a menu with probability `known`. Its rows are those needed times exp(`menu_error` z), z standard normal
    and one for the whole menu: a menu may promise too much or too little.
    """

    per_window: float
    shape: int = 1
    exponent: float = 2.0
    least_rows: float = 4e3
    most_rows: float = 1e7
    privacy_shares: tuple[float, ...] = (0.5, 0.1, 0.1, 0.1, 0.1)
    known: float = 1.0
    menu_error: float = 0.2
    epsilons: tuple[float, ...] = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)

    def __post_init__(self) -> None:
        if not (self.per_window > 0 and self.shape >= 1 and self.exponent > 1):
            raise InvalidRequest("a workload has a positive rate, a whole shape and an exponent above 1")
        if not 0 < self.least_rows < self.most_rows:
            raise InvalidRequest("a workload needs 0 < least_rows < most_rows")

    def arrivals(self, windows: int, seed: int) -> tuple[Arrival, ...]:
        """Return the PTKs that arrive within so many windows. At another rate, the same ones arrive sooner or later."""
        found: list[Arrival] = []
        time = 0.0
        while True:
            draws = uniforms(f"{seed}/{len(found)}")
            time += sum(-math.log(next(draws)) for _ in range(self.shape)) / (self.shape * self.per_window)
            if time >= windows:
                return tuple(found)
            found.append(self._one(f"sim.p{len(found):06}", time, draws))

    def _one(self, ptk_id: str, time: float, draws: Iterator[float]) -> Arrival:
        rows = self._power_law(next(draws))
        share = self.privacy_shares[int(next(draws) * len(self.privacy_shares))]
        need = Need(rows * (1 - share), rows * share)
        factor = math.exp(self.menu_error * _NORMAL.inv_cdf(next(draws)))
        known = next(draws) < self.known
        menu = tuple((epsilon, math.ceil(factor * need.rows(epsilon))) for epsilon in self.epsilons)
        return Arrival(ptk_id, time, need, menu if known else ())

    def _power_law(self, uniform: float) -> float:
        """The inverse of the distribution function of the truncated power law."""
        power = 1 - self.exponent
        low, high = self.least_rows**power, self.most_rows**power
        return float((low + uniform * (high - low)) ** (1 / power))


def draw_arrivals(
    ptk_ids: Sequence[str], per_window: float, windows: int, seed: int
) -> tuple[tuple[float, str], ...]:
    """Return when which of some PTKs arrives, in windows: a Poisson process, and each time all are as likely.

    At another rate, the same ones arrive sooner or later.
    """
    found: list[tuple[float, str]] = []
    time = 0.0
    while ptk_ids:
        draws = uniforms(f"{seed}/{len(found)}")
        time -= math.log(next(draws)) / per_window
        if time >= windows:
            break
        found.append((time, ptk_ids[int(next(draws) * len(ptk_ids))]))
    return tuple(found)


def uniforms(name: str) -> Iterator[float]:
    """Yield numbers in the open interval (0, 1), from the hash of a name and a counter."""
    count = 0
    while True:
        digest = sha256(f"{name}/{count}".encode()).digest()
        yield from ((int.from_bytes(digest[at : at + 6]) + 0.5) / 2**48 for at in range(0, 30, 6))
        count += 1
