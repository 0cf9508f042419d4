"""Profiles from formulas and a number of rows."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ptklib.events import Composed, DiscreteLaplace
from ptklib.exceptions import InvalidParameterError
from ptklib.mechanisms import additive
from ptklib.privacy import PrivacyLoss, check_epsilon
from ptklib.profiling.answers import Answer, Found, NeedsMore
from ptklib.profiling.closed_form.errors import error_formula
from ptklib.profiling.closed_form.facts import Facts
from ptklib.profiling.fingerprint import fingerprint_of
from ptklib.profiling.profile import Method, Profile, check_window
from ptklib.profiling.subjects import check_epsilons
from ptklib.scalars import is_integer
from ptklib.spec import estimator_from_spec

NO_LOSS = PrivacyLoss(0.0, 0.0, Composed(events=()))


@dataclass(frozen=True)
class RowCount:
    """A number of rows that may be known.

    Parameters
    ----------
    rows : int
        At least 0.
    loss : PrivacyLoss
        What it cost; nothing when it is public.
    """

    rows: int
    loss: PrivacyLoss = NO_LOSS

    @classmethod
    def paid(
        cls,
        exact: int,
        *,
        epsilon: float,
        max_rows_per_unit: int = 1,
        charge: Callable[[PrivacyLoss], object] | None = None,
    ) -> "RowCount":
        """Release a private number of rows.

        Parameters
        ----------
        exact : int
            **Private.**
        epsilon : float
        max_rows_per_unit : int
            Rows of one privacy unit, at most.
        charge : callable, optional
            Called with the loss before noise is drawn.

        Notes
        -----
        :Guarantee: epsilon-DP.
        :Neighbours: add or remove one unit.
        :Mechanism: discrete Laplace.
        :Sensitivity: `max_rows_per_unit`.
        """
        scale = additive.laplace_scale(l1_sensitivity=max_rows_per_unit, epsilon=check_epsilon(epsilon))
        event = DiscreteLaplace(scale=scale, l1_sensitivity=max_rows_per_unit, shape=(1,))
        loss = PrivacyLoss(float(epsilon), 0.0, event)
        if charge is not None:
            charge(loss)
        noisy = additive.laplace(
            np.array([exact], dtype=np.int64), l1_sensitivity=max_rows_per_unit, epsilon=epsilon
        )
        return cls(max(int(noisy[0]), 0), loss)


def formula_profile(
    estimator: Any,
    *,
    target: float,
    epsilons: Any,
    rows: RowCount | int,
    facts: Facts | None = None,
    window: int = 0,
) -> Profile:
    """Return the rows needed at each epsilon for an expected `error_from_true_value` of `target` or less.

    Parameters
    ----------
    estimator : DPEstimator
        Its epsilon is not read.
    target : float
        In the unit of the family's `error_from_true_value`, in (0, 1).
    epsilons : sequence of float
    rows : RowCount or int
        How many there are at most, an integer is public: what needs more is answered so.
    facts : Facts, optional
    window : int

    Returns
    -------
    Profile
        It costs what `rows` cost. It never says that a target is out of reach: the error falls to 0.
    """
    if not 0 < target < 1:
        raise InvalidParameterError(
            f"target must lie between 0 and 1, the range of the error, both excluded; it is {target:g}"
        )
    count = rows if isinstance(rows, RowCount) else RowCount(_public(rows))
    spec, points = estimator.to_spec(), []
    for epsilon in check_epsilons(epsilons):
        one = estimator_from_spec(spec).set_params(epsilon=epsilon)
        formula = error_formula(one, Facts() if facts is None else facts)
        points.append((epsilon, _least(formula, target, count.rows)))
    return Profile(
        fingerprint_of(spec),
        float(target),
        (0.0, 1.0),
        Method.FORMULA,
        "eval",
        1.0,
        check_window(window),
        tuple(points),
        count.loss,
    )


def _least(formula: Callable[[float], float], target: float, most: int) -> Answer:
    if most < 1 or formula(most) > target:
        return NeedsMore(most)
    low, high = 0, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if formula(middle) <= target else (middle, high)
    return Found(high)


def _public(rows: object) -> int:
    if not is_integer(rows) or rows < 0:
        raise InvalidParameterError("rows must be an integer, 0 or more, or a RowCount")
    return int(rows)
