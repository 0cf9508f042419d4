"""What the child does with a test set: its rows and a released state in, two noisy sums out, nothing else."""

from __future__ import annotations

from ptklib.spec import estimator_from_spec
from ptklib.state import ReleasedState
from ptkstore.adapters.sandbox.child.rows import unit_rows
from ptkstore.domain.evaluations import RiskMass
from ptkstore.ports.objects import RawZone
from ptkstore.ports.row_processes import EvaluateRequest


def evaluate(request: EvaluateRequest, raw: RawZone) -> RiskMass:
    """Open the test set and estimate the loss of the state on it."""
    from ptklib.profiling.estimation import LossEstimator  # loads every family

    estimator = LossEstimator(request.estimator, request.epsilon, request.metric)
    estimator.declared_loss()
    state = ReleasedState.from_files(request.state)
    columns = tuple(dict.fromkeys(estimator_from_spec(request.estimator).input_columns()))
    sums = estimator.run(state, unit_rows(request.rows, raw, columns, population=1))
    return RiskMass(sums.lost, sums.kept)
