"""Facts that a released state gives a later formula, with a margin for what its noise may have moved."""

import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from ptklib.arrays import Bools, Floats
from ptklib.base import DPEstimator
from ptklib.covariance import CovarianceMatrix
from ptklib.exceptions import InvalidParameterError
from ptklib.profiling.closed_form.covariance import matrix_error, mean_error, scales, standard_block
from ptklib.profiling.closed_form.facts import Facts
from ptklib.state import ReleasedState
from ptklib.statistics import HistoricalStatistics
from ptklib.statistics.layout import COUNT, layout_of

MARGIN = 2.0
"""Expected errors by which the shape of a covariance may be missed."""
SPREADS = 5.0
"""Standard deviations within which a noisy count tells nothing of its group."""
CLASSES = 16
"""Classes of groups with like shares that are kept; within one the shares are equal, which only adds to an error."""
_RANGE = 1e-6
_LEAST = 1e-6


def facts_of(state: ReleasedState) -> Facts:
    """Return what a released state tells: it is paid for, so a later profile may use it.

    Shares of groups from noisy counts, or size and mean of a covariance. Counts that noise made negative are 0.
    """
    estimator = DPEstimator.from_state(state)
    if isinstance(estimator, CovarianceMatrix):
        block = standard_block(estimator)
        covariance = estimator.covariance_ / np.outer(block.half_widths, block.half_widths)
        mean = (estimator.mean_ - block.centres) / block.half_widths
        return Facts(
            total_variance=float(np.trace(covariance)),
            frobenius=float(np.linalg.norm(covariance)),
            mean_norm=float(np.linalg.norm(mean)),
        )
    shares = {}
    for name, table in state.tables.items():
        counts = [c for c in table.column_names if c == "count" or c.startswith("count_")]
        if counts:
            total = sum(np.maximum(table.column(c).to_numpy(), 0.0) for c in counts)
            if float(total.sum()) > 0:
                shares[name] = tuple((total / total.sum()).tolist())
    return Facts(shares=shares or None)


def cautious_facts(state: ReleasedState) -> Facts | None:
    """Return facts of a released state that a later profile may be planned with; None where noise hides them.

    They are post-processing of the release, at no further cost. With `facts_of` alone a formula would promise too much:
    noise makes shares look less equal, and a matrix larger, than they are.

    Notes
    -----
    - *Shares.* Groups whose counts are within five standard deviations of noise and sampling get one share,
      of their mean with a margin: equal shares are the worst. If that is all groups, or the total is within,
      no shares are returned.
    - *Means and variances of groups.* All groups that are seen get the farthest mean and the largest variance
      among them; the others get the worst.
    - *Covariance.* Its norm is taken two expected errors low, its trace and its mean two high. If no norm
      remains there are no facts.

    They hold for the rows the state was made of. For others they are an estimate, as any profile of the past is.
    """
    estimator = DPEstimator.from_state(state)
    if isinstance(estimator, CovarianceMatrix):
        return _of_covariance(estimator, state)
    facts: dict[str, Any] = {}
    if shares := _shares(state):
        facts["shares"] = shares
    if isinstance(estimator, HistoricalStatistics):
        facts |= _of_values(estimator, state)
    return Facts(**facts) if facts else None


def facts_json(facts: Facts) -> dict[str, Any]:
    """Return facts as plain JSON; of shares only how many groups have which, for no formula asks who they are."""
    plain = {
        one.name: getattr(facts, one.name)
        for one in fields(Facts)
        if one.name != "shares" and getattr(facts, one.name) != one.default
    }
    runs = {name: _runs(np.asarray(shares)) for name, shares in (facts.shares or {}).items()}
    return {**plain, **({"shares": runs} if runs else {})}


def facts_from(document: Mapping[str, Any]) -> Facts:
    """Return the facts in a document of `facts_json`, with the shares of groups in falling order.

    Raises
    ------
    InvalidParameterError
        It is none.
    """
    try:
        runs = document.get("shares", {})
        shares = {
            str(name): tuple(share for count, share in pairs for _ in range(int(count)))
            for name, pairs in runs.items()
        }
        rest = {name: float(value) for name, value in document.items() if name != "shares"}
        return Facts(shares=shares or None, **rest)
    except (AttributeError, TypeError, ValueError) as error:
        raise InvalidParameterError("these are no facts") from error


def _of_covariance(estimator: CovarianceMatrix, state: ReleasedState) -> Facts | None:
    seen = facts_of(state)
    trace, size, mean = seen.total_variance or 0.0, seen.frobenius or 0.0, seen.mean_norm or 0.0
    rows = float(state.tables["components"].column(COUNT)[0].as_py())
    if rows < 1 or trace <= 0:
        return None
    block = standard_block(estimator)
    count = scales(estimator)[0]
    releases = max(float(state.meta["noise_variance"][COUNT]) / count**2, 1.0)
    missed = MARGIN * matrix_error(estimator, trace, mean, rows, releases)
    if missed >= size:
        return None
    return Facts(
        total_variance=min(trace + math.sqrt(len(block.names)) * missed, block.limit**2),
        frobenius=size - missed,
        mean_norm=min(mean + MARGIN * mean_error(estimator, trace, rows, releases), block.limit),
    )


def _shares(state: ReleasedState) -> dict[str, tuple[float, ...]]:
    shares = {}
    for name, table in state.tables.items():
        columns = [c for c in table.column_names if c == COUNT or c.startswith(f"{COUNT}_")]
        if not columns:
            continue
        counts: Floats = np.sum([table.column(c).to_numpy() for c in columns], axis=0)
        noise = state.meta["noise_variance"]
        variance = len(columns) * float(noise[COUNT] if COUNT in noise else noise[name])
        apart = _told_apart(counts, variance)
        if apart is not None:
            shares[name] = tuple((apart / apart.sum()).tolist())
    return shares


def _told_apart(counts: Floats, noise_variance: float) -> Floats | None:
    """Return counts, where those that noise and sampling may have made are all alike; None if all may be."""
    hidden, number = _hidden(counts, noise_variance), int(_hidden(counts, noise_variance).sum())
    if number == len(counts) or counts.sum() <= SPREADS * math.sqrt(len(counts) * noise_variance):
        return None
    seen = np.maximum(counts, 0.0)
    if number:
        pool = max(float(counts[hidden].mean()), 0.0)
        seen[hidden] = pool + MARGIN * math.sqrt((noise_variance + pool) / number)
    return seen


def _hidden(counts: Floats, noise_variance: float) -> Bools:
    return np.asarray(counts <= SPREADS * np.sqrt(noise_variance + np.maximum(counts, 0.0)))


def _of_values(estimator: HistoricalStatistics, state: ReleasedState) -> dict[str, float]:
    """Return the farthest mean and the largest variance of groups that are seen; of the others the worst is assumed.

    Errors are concave in both squares, so their mean over groups may replace them.
    """
    table, bounds = state.tables["statistics"], layout_of(estimator).bounds
    hidden = _hidden(table.column(COUNT).to_numpy(), float(state.meta["noise_variance"][COUNT]))
    unknown, facts = float(hidden.mean()), dict[str, float]()
    if not bounds or unknown == 1:
        return facts

    def worst(column: str) -> float | None:
        """Return the largest square, or variance, in half widths, of a column that all values have."""
        squares = []
        for name, one in bounds.items():
            if f"{name}_{column}" not in table.column_names:
                return None
            values = table.column(f"{name}_{column}").to_numpy()[~hidden]
            squares.append(((values - one.midpoint) ** 2 if column == "mean" else values) / one.half_width**2)
        return float(np.clip((1 - unknown) * np.max(squares) + unknown, _LEAST**2, 1.0))

    for name, column in (("mean_reach", "mean"), ("spread", "variance")):
        square = worst(column)
        if square is not None:
            facts[name] = math.sqrt(square)
    return facts


def _runs(shares: Floats) -> list[list[float]]:
    """Return [number of groups, share of each] for classes of groups, the largest shares first."""
    ordered = np.sort(shares)[::-1]
    low = ordered[0] * _RANGE
    places = np.log(np.maximum(ordered, low) / low) / -math.log(_RANGE) * (CLASSES - 1)
    runs = []
    for place in np.unique(np.round(places))[::-1]:
        members = ordered[np.round(places) == place]
        runs.append([len(members), float(f"{members.mean():.9g}")])
    return runs
