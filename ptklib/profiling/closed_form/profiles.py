"""Profiles from formulas and a public number of rows."""

from collections.abc import Callable
from typing import Any

from ptklib.events import Composed
from ptklib.exceptions import InvalidParameterError
from ptklib.privacy import PrivacyLoss
from ptklib.profiling.answers import Answer, Found, NeedsMore
from ptklib.profiling.closed_form.errors import error_formula
from ptklib.profiling.closed_form.facts import Facts
from ptklib.profiling.fingerprint import fingerprint_of
from ptklib.profiling.profile import Method, Profile, check_window
from ptklib.profiling.subjects import check_epsilons
from ptklib.scalars import is_integer
from ptklib.spec import estimator_from_spec

NO_LOSS = PrivacyLoss(0.0, 0.0, Composed(events=()))


def formula_profile(
    estimator: Any,
    *,
    target: float,
    epsilons: Any,
    rows: int,
    facts: Facts | None = None,
    window: int = 0,
) -> Profile:
    """Return the rows needed at each epsilon for an expected `error_from_true_value` of `target` or less.

    It costs nothing. It never says that a target is out of reach: the error falls to 0.

    Parameters
    ----------
    estimator : DPEstimator
        Its epsilon is not read.
    target : float
        In the unit of the family's `error_from_true_value`, in (0, 1).
    epsilons : sequence of float
    rows : int
        How many there are at most; public, or released and paid for. `NeedsMore` is the answer if more are
        needed.
    """
    if not 0 < target < 1:
        raise InvalidParameterError(
            f"target must be between 0 and 1, the range of the error, both excluded; it is {target:g}"
        )
    most, spec, points = _public(rows), estimator.to_spec(), []
    for epsilon in check_epsilons(epsilons):
        one = estimator_from_spec(spec).set_params(epsilon=epsilon)
        formula = error_formula(one, Facts() if facts is None else facts)
        points.append((epsilon, _least(formula, target, most)))
    return Profile(
        fingerprint_of(spec),
        float(target),
        (0.0, 1.0),
        Method.FORMULA,
        "eval",
        1.0,
        check_window(window),
        tuple(points),
        NO_LOSS,
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
        raise InvalidParameterError("rows must be an integer, 0 or more")
    return int(rows)
