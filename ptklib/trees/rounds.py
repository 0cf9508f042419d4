"""The draws of boosting in its rounds, declared before any data are read."""

from dataclasses import dataclass
from math import gcd, sqrt

from ptklib.privacy import check_epsilon
from ptklib.trees import counted
from ptklib.trees.objectives import Objective
from ptklib.trees.plans import Choice, Measure, RoundsPlan, plan_rounds
from ptklib.trees.targets import UNITS

START, STEPS, WEIGHTS, CHOICE, SQUARES = "start", "steps", "weights", "choice", "squares"
COUNTS, POOL = "counts", "pool"

_SHARES = {STEPS: 0.68, WEIGHTS: 0.1, CHOICE: 0.2, SQUARES: 0.02}
"""Parts of the budget, beside the start's."""

_FINENESS = 2**8
"""Units of the pool in a unit of what a round releases, so that parts of what a row adds are rounded by little."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Public parameters of boosting."""

    n_rounds: int
    depth: int
    learning_rate: float
    n_candidates: int
    seed: int
    n_counted: int = 0
    """Where rows are few, the leaves of so many trees at most are counted instead of boosting all trees; 0 for
    never."""


def boosting_plan(
    objective: Objective, settings: Settings, epsilon: object, delta: object, factor: int = 1
) -> RoundsPlan:
    """Return all rounds, before any data are read.

    Parameters
    ----------
    factor : int
        Rows of one privacy unit, at most.
    """
    leaves, rounds = 2**settings.depth, settings.n_rounds
    shared = {**_SHARES, START: _start_share(check_epsilon(epsilon))}
    cells = leaves * objective.n_scores
    parts: list[Measure | Choice] = [
        Measure(START, objective.n_starts, objective.start_l1, objective.start_l1, shared[START]),
        Choice(CHOICE, settings.n_candidates, objective.step_l1, shared[CHOICE], rounds),
    ]
    if settings.n_counted:
        parts.append(_pool(2 * cells * rounds, settings, shared[STEPS] + shared[WEIGHTS], bool(delta)))
        return plan_rounds(tuple(parts), epsilon, delta, factor)
    parts += [
        Measure(STEPS, cells, objective.step_l1, objective.step_l2, shared[STEPS], rounds),
        Measure(WEIGHTS, cells, objective.weight_l1, objective.weight_l2, shared[WEIGHTS], rounds),
    ]
    if objective.adaptive:
        parts.append(Measure(SQUARES, 1, UNITS, UNITS, shared[SQUARES], rounds))
    return plan_rounds(tuple(parts), epsilon, delta, factor)


def _pool(size: int, settings: Settings, share: float, gaussian: bool) -> Measure:
    """Return the pool, declared as equal parts.

    Notes
    -----
    Draws of both divisions fall into groups, to each of which a row adds an equal part at most. There are as
    many groups as counted trees, if that divides the number of rounds. docs/proofs/pooled-noise.md shows that
    the groups cost no more than as many draws of that sensitivity. Gaussian noise needs no groups.
    """
    most = row_limit(settings)
    if gaussian:
        return Measure(POOL, size, most, most, share)
    n = gcd(settings.n_rounds, settings.n_counted, counted.N_FEWEST)
    return Measure(POOL, size // n, most // n, most // n, share, n)


def row_limit(settings: Settings) -> int:
    """Return what one row adds to the pool at most, over all its parts."""
    return UNITS * _FINENESS * settings.n_rounds


def counted_cells(objective: Objective, settings: Settings) -> int:
    """Return how many counts the leaves of one counted tree have."""
    return int(2 ** counted.depth_of(settings.depth) * objective.n_starts)


def _start_share(epsilon: float) -> float:
    """Return the part of the budget that finds where all scores start: 1 % at epsilon 1, up to 10 % at 0.01.

    A small budget often goes with few rows for it; then what all rows have in common is all that can be learnt.
    """
    return min(max(0.01 / sqrt(epsilon), 0.01), 0.1)


def step_part() -> float:
    """Return the part of the pool that steps take; weights take the rest."""
    return _SHARES[STEPS] / (_SHARES[STEPS] + _SHARES[WEIGHTS])
