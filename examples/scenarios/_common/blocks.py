"""Sage's Figure 7: noise drawn once over many blocks, or once for each of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from _common.pipelines import LeastSquares
from _common.sla import over_blocks
from _common.violations import TEST_SHARE
from ptklib.arrays import Floats, Ints
from ptklib.mechanisms import additive
from ptklib.partials import PartialStatistics
from ptklib.profiling.estimates import UNITS
from ptklib.validation.looks import look_failure

ONE_DRAW = "one draw"


@dataclass(frozen=True)
class Blocks:
    """Sizes of Figure 7, in rows.

    Parameters
    ----------
    least : int
        Rows of the smallest block; `sizes`, `trained` and `validated` are multiples of it.
    sizes : sequence of int
        Blocks that have a noise of their own.
    trained, validated : sequence of int
        Rows of trainings and, for training and test together, of looks.
    """

    least: int
    sizes: Sequence[int]
    trained: Sequence[int]
    validated: Sequence[int]
    seeds: int

    def lines(self) -> list[tuple[str, int | None, bool]]:
        """Return the ways to validate: name, block size, and whether each block is corrected for itself."""
        apart = [(f"{size:,} rows a block{note}", size, each) for size in self.sizes for note, each in _WAYS]
        return [(ONE_DRAW, None, False), *apart]


_WAYS = ((", noise bounded together", False), (", block by block", True))


@dataclass(frozen=True)
class Found:
    """What one epsilon gives, for each line one list of values of seeds for each size or target.

    Parameters
    ----------
    losses : dict of str to list
        Expected loss for each number of training rows: of one training on all rows, or of the mean of the models of
        its blocks.
    rows : dict of str to list
        Rows of the first look that accepts, for each target; NaN where no look accepted.
    """

    losses: dict[str, list[list[float]]]
    rows: dict[str, list[list[float]]]


def measure(
    pipeline: LeastSquares, blocks: Blocks, epsilons: Sequence[float], excess: Sequence[float], eta: float
) -> dict[float, Found]:
    """Return quality and rows to ACCEPT for each epsilon.

    All ways to validate see the same model: the one of the largest training with one draw. So only validation differs.
    Each look draws its noise anew.

    Parameters
    ----------
    excess : sequence of float
        Targets, in expected losses of the model.
    """
    names = [ONE_DRAW, *(f"{size:,} rows a block" for size in blocks.sizes)]
    found = {
        epsilon: Found(
            {name: [[] for _ in blocks.trained] for name in names},
            {name: [[] for _ in excess] for name, _, _ in blocks.lines()},
        )
        for epsilon in epsilons
    }
    for seed in range(blocks.seeds):
        rng = np.random.default_rng(2000 + seed)
        parts = pipeline.parts(rng.integers(0, len(pipeline.population), max(blocks.trained)), blocks.least)
        test = rng.integers(0, len(pipeline.population), round(max(blocks.validated) * TEST_SHARE))
        for epsilon, of_epsilon in found.items():
            for at, n_rows in enumerate(blocks.trained):
                some = parts[: n_rows // blocks.least]
                for name, size in zip(names, (n_rows, *blocks.sizes), strict=True):
                    weights = _mean_of_blocks(pipeline, some, min(size, n_rows) // blocks.least, epsilon)
                    of_epsilon.losses[name][at].append(float(pipeline.losses_of(weights).mean()))
            losses = pipeline.losses_of(pipeline.released(parts, epsilon))
            _validate(
                losses, test, blocks, epsilon, [times * losses.mean() for times in excess], eta, of_epsilon
            )
    return found


def _mean_of_blocks(
    pipeline: LeastSquares, parts: list[PartialStatistics], size: int, epsilon: float
) -> Floats:
    starts = range(0, len(parts), size)
    models = [pipeline.released(parts[start : start + size], epsilon) for start in starts]
    return np.asarray(np.mean(models, axis=0))


def _validate(
    losses: Floats,
    test: Ints,
    blocks: Blocks,
    epsilon: float,
    targets: Sequence[float],
    eta: float,
    found: Found,
) -> None:
    """Add the rows to ACCEPT one model to what was found."""
    sums = np.cumsum(losses[test])
    for name, size, each in blocks.lines():
        bounds = [
            _bound(sums, n_rows, size or n_rows, epsilon, look_failure(1 - eta, look), each)
            for look, n_rows in enumerate(blocks.validated, start=1)
        ]
        for at, target in enumerate(targets):
            passed = [n for n, bound in zip(blocks.validated, bounds, strict=True) if bound <= target]
            found.rows[name][at].append(float(passed[0]) if passed else float("nan"))


def _bound(sums: Floats, n_rows: int, size: int, epsilon: float, failure: float, each: bool) -> float:
    n_test = round(n_rows * TEST_SHARE)
    draws = max(1, n_rows // size)
    noise = additive.laplace(np.zeros((2, draws), np.int64), l1_sensitivity=UNITS, epsilon=epsilon)
    of_losses, of_rest = noise.sum(axis=1) / UNITS
    lost = float(sums[n_test - 1] + of_losses)
    return over_blocks(lost, float(n_test + of_losses + of_rest), draws, epsilon, failure, each=each)
