"""The child's work on a test set: its rows and a released state in, noisy sums out, nothing else."""

from __future__ import annotations

from ptklib.spec import estimator_from_spec
from ptklib.state import ReleasedState
from ptkstore.adapters.sandbox.child.rows import unit_rows
from ptkstore.adapters.sandbox.child.team_code import check_code
from ptkstore.adapters.sandbox.confinement.confined import USUAL_CONFINEMENT, Confinement
from ptkstore.domain.evaluations import GroupedMass, JudgedMass, RiskMass
from ptkstore.ports.objects import RawZone
from ptkstore.ports.row_processes import EvaluateRequest, RunFailed


def evaluate(
    request: EvaluateRequest, raw: RawZone, confinement: Confinement = USUAL_CONFINEMENT
) -> RiskMass | RunFailed:
    """Open the test set and estimate the loss of the state on it, and the least loss of its class if that is paid too.

    Team code says the loss of each row in a sandbox of its own. Clipping, sums and noise are on this side. If the code
    fails, each row has the largest loss: a failure may depend on a row, so it changes noisy sums and nothing else.

    Parameters
    ----------
    request, raw
        The order, and the places of rows.
    confinement
        The sandbox of team code.
    """
    from ptklib.profiling.estimation import LossEstimator  # loads every family
    from ptklib.validation import GroupSums, MinimumSums

    if request.metric == "error":
        groups = GroupSums(request.estimator, request.epsilon, request.rows_per_unit)
        groups.declared_loss()
        by_group = groups.run(unit_rows(request.rows, raw, groups.columns, population=1))
        return GroupedMass.of(tuple(RiskMass(one.lost, one.kept) for one in by_group))
    check_code(request.estimator, request.bundle)
    estimator = LossEstimator(request.estimator, request.epsilon, request.metric)
    estimator.declared_loss()
    if request.reject_epsilon is not None:
        MinimumSums(request.estimator, request.reject_epsilon).declared_loss()
    state = ReleasedState.from_files(request.state)
    columns = tuple(dict.fromkeys(estimator_from_spec(request.estimator).input_columns()))
    rows = unit_rows(request.rows, raw, columns, population=1)
    if request.bundle is None:
        sums = estimator.run(state, rows)
    else:
        from ptkstore.adapters.sandbox.child.team_profiles import clipped_team_losses

        table, units = rows.sample(rows.hashes)
        losses = clipped_team_losses(request.estimator, request.bundle, table, state, confinement)
        if isinstance(losses, RunFailed):
            return losses
        sums = estimator.of_losses(losses, units)
    if request.reject_epsilon is None:
        return RiskMass(sums.lost, sums.kept)
    least = MinimumSums(request.estimator, request.reject_epsilon).run(rows)
    return JudgedMass(sums.lost, sums.kept, RiskMass(least.lost, least.kept))
