"""Audits of a PTK's trainer on synthetic neighbouring datasets: no row is read, nothing is spent."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ptklib.exceptions import PtklibError
from ptkstore.domain.ptks.ptks import PtkSpec, granted
from ptkstore.errors import InvalidRequest

if TYPE_CHECKING:
    from ptklib.checks import Examination

RUNS = 2_000
RUNS_MIN, RUNS_MAX = 200, 1_000_000


def examine_ptk(
    spec: PtkSpec, runs: int = RUNS, tell: Callable[[int, int], object] | None = None
) -> list[Examination]:
    """Audit the trainer of a PTK with its parameters and the budget its trainings are granted.

    Each audit takes `runs` trainings, from 200 to a million: the first at the PTK's own budget, the second at the one
    at which an audit sees most. `tell` hears how many trainings are done, and how many there are at most.

    Raises
    ------
    InvalidRequest
        For another number of runs, and for parameters that do not say which values a column has.
    """
    from ptklib.checks import examine
    from ptklib.spec import estimator_from_spec

    if isinstance(runs, bool) or not isinstance(runs, int) or not RUNS_MIN <= runs <= RUNS_MAX:
        raise InvalidRequest(f"runs must be a whole number from {RUNS_MIN} to {RUNS_MAX}")
    try:
        trainer = estimator_from_spec(
            granted(spec.estimator, spec.loss.spendable_epsilon, spec.loss.spendable_delta)
        )
        return examine(trainer, runs=runs, tell=tell)
    except PtklibError as error:
        raise InvalidRequest(f"PTK {spec.ptk_id} cannot be audited: {error}") from error
