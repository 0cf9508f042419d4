"""The subject of a profile: a PTK of an estimator, or a team's own pair of train_dp and eval."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from ptklib.base import DPEstimator
from ptklib.events import EpsilonDelta
from ptklib.exceptions import InvalidParameterError, PrivacyParameterError
from ptklib.privacy import PrivacyLoss, check_delta, check_epsilon
from ptklib.profiling.risks import RowRisk, risk_of
from ptklib.ptk import EstimatorPtk
from ptklib.spec import estimator_from_spec, plain


class Subject(Protocol):
    """A PTK as the profiler sees it."""

    @property
    def config(self) -> Mapping[str, Any]:
        """Plain JSON; a profile is valid for one config."""

    @property
    def risk(self) -> RowRisk | None:
        """Loss of single rows, when that is what is profiled."""

    def training_loss(self, epsilon: float) -> PrivacyLoss:
        """Return the loss of one training, before any data are read."""

    def train(self, table: Any, epsilon: float) -> Any:
        """Return a released state."""

    def use(self, state: Any) -> None:
        """Make `state` what `evaluate` measures."""

    def evaluate(self, table: Any) -> float:
        """Return the private value of the PTK's own evaluation of the state in use."""

    def rehearse(self, empty: Any) -> None:
        """Try training and evaluation without any row, so that wrong columns and parameters are found."""


class EstimatorSubject:
    """A PTK whose config is the spec of an estimator.

    Parameters
    ----------
    by_rows : bool
        Whether the loss of single rows is profiled, not `eval`.
    """

    def __init__(self, spec: Mapping[str, Any], by_rows: bool) -> None:
        self._ptk = EstimatorPtk(estimator_from_spec(spec))
        self._fitted: Any = None
        self.config: Mapping[str, Any] = self._ptk.config
        self.risk: RowRisk | None = risk_of(estimator_from_spec(spec)) if by_rows else None

    def training_loss(self, epsilon: float) -> PrivacyLoss:
        """Return what the estimator declares at `epsilon`."""
        loss: PrivacyLoss = estimator_from_spec(self.config).set_params(epsilon=epsilon).declared_loss()
        return loss.checked_central()

    def train(self, table: Any, epsilon: float) -> Any:
        """Return the state of a table."""
        return self._ptk.train_dp([table], epsilon)

    def use(self, state: Any) -> None:
        """Make `state` what `evaluate` measures."""
        self._fitted = DPEstimator.from_state(state)

    def evaluate(self, table: Any) -> float:
        """Return what `EstimatorPtk.eval` returns: private."""
        return float(self._fitted.error_from_true_value(self._fitted.partial_statistics(table)))

    def rehearse(self, empty: Any) -> None:
        """Read the columns of a table without rows."""
        estimator_from_spec(self.config).partial_statistics(empty)
        if self.risk is not None:
            self.risk.examples(empty)


class TeamPtk:
    """A team's own train_dp and eval.

    Parameters
    ----------
    train_dp : callable
        ``train_dp(trainset_iter, epsilon, previous_model_state, previous_config) -> state``. Its promise is
        asserted, not proved: (epsilon, delta)-DP of everything it lets out, an exception included.
    eval : callable, optional
        ``eval(testset_iter) -> float`` of the state trained last.
    config : mapping, optional
        Plain JSON; a profile is valid for one config.
    delta : float
        delta of one training.
    risk : RowRisk, optional
        Loss of single rows; when it also has `least_total` (an `ExactRisk`), the team asserts exact minimisation.
    """

    def __init__(
        self,
        train_dp: Callable[..., Any],
        eval: Callable[[Iterable[Any]], float] | None = None,
        *,
        config: Mapping[str, Any] | None = None,
        delta: float = 0.0,
        risk: RowRisk | None = None,
    ) -> None:
        if not callable(train_dp) or not (eval is None or callable(eval)):
            raise InvalidParameterError("train_dp and eval must be functions")
        if eval is None and risk is None:
            raise InvalidParameterError("a PTK needs eval, or a risk of single rows")
        self._train_dp, self._eval = train_dp, eval
        self.config: Mapping[str, Any] = plain({} if config is None else config, "config")
        self.delta = check_delta(delta)
        self.risk = risk

    def training_loss(self, epsilon: float) -> PrivacyLoss:
        """Return (epsilon, delta) as the team asserts it."""
        event = EpsilonDelta(epsilon=check_epsilon(epsilon), delta=self.delta)
        return PrivacyLoss(float(epsilon), self.delta, event)

    def train(self, table: Any, epsilon: float) -> Any:
        """Return what train_dp returns."""
        return self._train_dp(iter([table]), epsilon, None, dict(self.config))

    def use(self, state: Any) -> None:
        """Do nothing: eval measures the state trained last."""

    def evaluate(self, table: Any) -> float:
        """Return what eval returns: private."""
        if self._eval is None:
            raise InvalidParameterError("this PTK has no eval: use evaluation='rows'")
        return float(self._eval(iter([table])))

    def rehearse(self, empty: Any) -> None:
        """Train and evaluate on no row at all."""
        state = self.train(empty, 1.0)
        if self.risk is not None:
            self.risk.losses(state, empty)
        else:
            self.evaluate(empty)


def subject_of(ptk: Any, evaluation: str) -> Subject:
    """Return what is profiled, from an estimator, its spec, `as_ptk` of it or a `TeamPtk`.

    Parameters
    ----------
    ptk : DPEstimator, mapping, EstimatorPtk or TeamPtk
    evaluation : {"eval", "rows"}
    """
    if evaluation not in ("eval", "rows"):
        raise InvalidParameterError("evaluation must be 'eval' or 'rows'")
    by_rows = evaluation == "rows"
    if isinstance(ptk, TeamPtk):
        if by_rows and ptk.risk is None:
            raise InvalidParameterError("this PTK has no risk of single rows: use evaluation='eval'")
        if not by_rows and ptk.risk is not None:
            raise InvalidParameterError("a PTK with a risk of single rows is profiled with evaluation='rows'")
        return ptk
    if isinstance(ptk, DPEstimator):
        return EstimatorSubject(ptk.to_spec(), by_rows)
    if isinstance(ptk, EstimatorPtk):
        return EstimatorSubject(ptk.config, by_rows)
    if isinstance(ptk, Mapping):
        return EstimatorSubject(ptk, by_rows)
    raise InvalidParameterError("a profile is of an estimator, its spec, as_ptk(estimator) or a TeamPtk")


def check_epsilons(epsilons: Any) -> tuple[float, ...]:
    """Return a grid of distinct epsilons in ascending order."""
    given = (epsilons,) if isinstance(epsilons, int | float) else tuple(epsilons)
    grid = tuple(sorted(check_epsilon(epsilon) for epsilon in given))
    if not grid or len(set(grid)) != len(grid):
        raise PrivacyParameterError("epsilons must be distinct numbers, at least one")
    return grid
