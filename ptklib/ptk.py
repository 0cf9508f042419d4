"""The developer API of the PTK paper over any estimator: train_dp and eval."""

from collections.abc import Iterable, Mapping
from typing import Any

from ptklib.exceptions import InvalidParameterError
from ptklib.partials import PartialStatistics
from ptklib.spec import estimator_from_spec
from ptklib.state import ReleasedState


class EstimatorPtk:
    """A PTK whose config is the spec of an estimator.

    Parameters
    ----------
    estimator : DPEstimator
        Its spec is the first config; the object itself is not kept and not fitted.

    Attributes
    ----------
    config : dict
        Spec of the estimator, plain JSON.
    state : ReleasedState or None
        The last state trained or set by hand; what `eval` measures.
    """

    def __init__(self, estimator: Any) -> None:
        self.config: dict[str, Any] = estimator.to_spec()
        self.state: ReleasedState | None = None

    def train_dp(
        self,
        trainset_iter: Iterable[Any],
        epsilon: float,
        previous_model_state: ReleasedState | None = None,
        previous_config: Mapping[str, Any] | None = None,
    ) -> ReleasedState:
        """Train on an iterator of tables with one noise draw at the end; the ``loss`` of the state says what was spent.

        Parameters
        ----------
        trainset_iter : iterable of DataFrame or pyarrow.Table
            Each table is read once and may be dropped afterwards. With `unit`, a single table.
        epsilon : float
            Replaces the epsilon of the config.
        previous_model_state : ReleasedState, optional
            The state to continue.
        previous_config : mapping, optional
            The spec to train; the PTK's own by default.
        """
        estimator = estimator_from_spec(self.config if previous_config is None else previous_config)
        estimator.set_params(epsilon=epsilon)
        estimator.declared_loss()
        estimator.check_previous_state(previous_model_state)
        merged = _statistics(estimator, trainset_iter)
        state: ReleasedState = estimator.finalize([merged], previous_model_state).to_state()
        self.state = state
        return state

    def eval(self, testset_iter: Iterable[Any]) -> float:
        """Return the error of the last state from the true values of the test set, in [0, 1]; NaN without any.

        **Private.** The value is not DP. It may steer the trusted service through a paid estimate only. It
        must not reach a log, a metric, a message or a manifest: next to the release it *is* the true value.
        """
        if self.state is None:
            raise InvalidParameterError("eval needs a state: call train_dp first, or set state")
        unfitted = estimator_from_spec(self.state.spec())
        fitted = type(unfitted).from_state(self.state)
        return float(fitted.error_from_true_value(_statistics(fitted, testset_iter)))


def _statistics(estimator: Any, tables: Iterable[Any]) -> PartialStatistics:
    """Return the exact statistics of all tables; they are **private**.

    Raises
    ------
    InvalidParameterError
        For a second table when the estimator bounds the rows of a unit: each table would be bounded by itself.
    """
    merged: PartialStatistics = estimator.merge([])
    for i, table in enumerate(tables):
        if i and estimator.unit is not None:
            raise InvalidParameterError("rows are bounded per unit in one table: give all rows as one")
        merged = estimator.merge([merged, estimator.partial_statistics(table)])
    return merged


def as_ptk(estimator: Any) -> EstimatorPtk:
    """Return the paper's `train_dp` and `eval` over `estimator`."""
    return EstimatorPtk(estimator)
