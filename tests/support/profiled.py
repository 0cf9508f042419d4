"""Tasks whose risk is known: what the tests of the profiler profile."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ptklib.arrays import Bools, Floats
from ptklib.mechanisms import additive
from ptklib.profiling import HashedRows, TeamPtk


class SquaredRisk:
    """Squared distance of a bit from a released share; its least sum is exact."""

    loss_max = 1.0

    def examples(self, table: Any) -> Bools:
        return np.asarray(np.isfinite(table[:, 0]))

    def losses(self, state: Any, table: Any) -> Floats:
        return np.asarray((table[:, 0] - state) ** 2)

    def least_total(self, table: Any, weights: Floats) -> float:
        bits = np.where(np.isfinite(table[:, 0]), table[:, 0], 0.0)
        count, total = float(weights.sum()), float(weights @ bits)
        return float(weights @ (bits * bits)) - total * total / count if count > 0 else 0.0


class PlainRisk:
    """The same loss without its least sum: a heuristic."""

    def __init__(self) -> None:
        self._risk = SquaredRisk()

    def examples(self, table: Any) -> Bools:
        return self._risk.examples(table)

    def losses(self, state: Any, table: Any) -> Floats:
        return self._risk.losses(state, table)


@dataclass
class ShareOfOnes:
    """Release the share of ones of a column of bits; remembers what it released, for the tests."""

    states: list[tuple[float, float]] = field(default_factory=list)

    def train_dp(self, tables: Iterable[Any], epsilon: float, previous: Any, config: Any) -> float:
        bits = np.concatenate([np.asarray(table)[:, 0] for table in tables])
        bits = bits[np.isfinite(bits)] > 0.5
        exact = np.array([bits.sum(), (~bits).sum()], dtype=np.int64)
        ones, zeros = np.maximum(additive.laplace(exact, l1_sensitivity=1, epsilon=epsilon), 0)
        share = float(ones / max(ones + zeros, 1))
        self.states.append((epsilon, share))
        return share

    def eval(self, tables: Iterable[Any]) -> float:
        bits = np.concatenate([np.asarray(table)[:, 0] for table in tables])
        return float(np.mean((bits - self.states[-1][1]) ** 2)) if len(bits) else 0.0

    def ptk(self, risk: Any = None) -> TeamPtk:
        """Return the PTK with a loss of rows; without a risk, of its own evaluation."""
        return TeamPtk(self.train_dp, None if risk is not None else self.eval, risk=risk)

    def last_of(self, epsilon: float, models: int) -> list[float]:
        """Return the shares released last at an epsilon."""
        return [share for e, share in self.states if e == epsilon][-models:]


def hashed_bits(n: int, share: float, seed: int, population: float | None = None) -> HashedRows:
    """Return `n` coins of mean `share` with random hashes."""
    random = np.random.default_rng(seed)
    bits = (random.random(n) < share).astype(np.float64)[:, None]
    hashes = random.integers(0, 2**64, n, dtype=np.uint64)
    return HashedRows(bits, hashes, population=n if population is None else population)


def share_of_risk(risk: float) -> float:
    """Return the lower share p of ones for which the least risk p (1 - p) is `risk`."""
    return float((1 - np.sqrt(1 - 4 * risk)) / 2)
