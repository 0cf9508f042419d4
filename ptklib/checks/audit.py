"""Empirical audit: what outputs on neighbouring synthetic datasets prove about a loss."""

import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from sklearn.base import clone

from ptklib.accounting import joint_multiplier, profile_epsilon
from ptklib.checks.bounds import ApproximateTest, PureTest, choose_test, epsilon_lower_bound
from ptklib.checks.rows import Neighbours, Synthetic, neighbours
from ptklib.checks.scores import Score, scores_of
from ptklib.exceptions import InvalidParameterError
from ptklib.privacy import EPSILON_MAX, PrivacyLoss

RUNS = 2_000
CONFIDENCE = 0.999

EPSILON = 2.0
"""Where an audit sees most: at smaller epsilon it needs many more runs, at larger ones all guesses are right."""

EPSILON_OF_MANY = 3.0
"""The same for Gaussian noise, and where the budget is divided over many parts."""

DELTA = 1e-3
"""Likewise: at a small delta half the noise is still far from visible."""

Verdict = Literal["consistent", "contradicted"]


@dataclass(frozen=True, slots=True)
class Audit:
    """What an audit found.

    Parameters
    ----------
    epsilon, delta : float
        Declared.
    lower_bound : float
        With probability `confidence`, the mechanism loses at least this at `delta`.
    confidence : float
    verdict : "consistent" or "contradicted"
        Contradicted when `lower_bound` exceeds `epsilon`, found twice on outputs of their own: an honest
        mechanism is contradicted with probability ``(1 - confidence)**2`` at most.
    runs : int
        Trainings behind the bound, those that chose the score left out.
    neighbours : str
        The pair of datasets.
    """

    epsilon: float
    delta: float
    lower_bound: float
    confidence: float
    verdict: Verdict
    runs: int
    neighbours: str

    def to_json(self) -> dict[str, Any]:
        """Return the audit as plain JSON values."""
        return asdict(self)


def audit(
    estimator: Any,
    *,
    runs: int = RUNS,
    confidence: float = CONFIDENCE,
    declared: PrivacyLoss | None = None,
    columns: Mapping[str, Any] | None = None,
) -> Audit:
    """Train many times on neighbouring synthetic datasets and bound epsilon from below.

    Parameters
    ----------
    estimator : DPEstimator
        Unfitted parameters are enough; the object itself is not fitted. No real row is read.
    runs : int
        Trainings; the bound grows with them, at best up to the epsilon that is really lost.
    confidence : float
        Chance, at least, that the bound holds.
    declared : PrivacyLoss, optional
        The claim to hold outputs against; what `estimator` declares by default.
    columns : mapping of column to values or (low, high), optional
        Declarations the parameters do not have; see `Synthetic`.

    Notes
    -----
    In each trial a fair coin decides whether one privacy unit is in; a score guesses: the likelihood ratio of released
    sums, or of all that mechanisms gave out (`TranscriptScore`). The pair of datasets is the one, among those of
    `neighbours`, in which the unit stands out most. A low bound proves nothing: the audit can contradict a guarantee,
    never establish it. `twin` says what it is able to see.
    """
    if isinstance(runs, bool) or not isinstance(runs, int) or runs < 100:
        raise InvalidParameterError("an audit needs at least 100 runs")
    if not 0.5 <= confidence < 1:
        raise InvalidParameterError("confidence must lie in [0.5, 1)")
    trainer = clone(estimator)
    claim = trainer.declared_loss() if declared is None else declared
    pair, score = _most_visible(trainer, Synthetic(trainer, columns))
    bound = epsilon_lower_bound(*_trials(score, runs), claim, confidence=confidence)
    made, found, exceeds = runs, bound.epsilon, bound.exceeds
    if exceeds:
        again = epsilon_lower_bound(*_trials(score, runs), claim, confidence=confidence)
        made, found, exceeds = 2 * runs, min(found, again.epsilon), again.exceeds
    return Audit(
        epsilon=claim.epsilon,
        delta=claim.delta,
        lower_bound=found,
        confidence=confidence,
        verdict="contradicted" if exceeds else "consistent",
        runs=made,
        neighbours=pair.name,
    )


def twin(estimator: Any) -> Any:
    """Return the same estimator with a budget that halves its noise: what a faulty trainer would be.

    Audited against the loss of the original, it shows whether the audit could have seen the fault.

    Notes
    -----
    Half the noise is twice the epsilon for mechanisms of ``delta=0``. For Gaussian noise it is the epsilon of
    half the scale; for other events with a delta, twice the epsilon is taken.

    Raises
    ------
    InvalidParameterError
        When that epsilon is larger than a release may have.
    """
    loss = estimator.declared_loss()
    multiplier = joint_multiplier([loss.event])
    doubled = 2 * loss.epsilon if multiplier is None else profile_epsilon(multiplier / 2, loss.delta)
    if doubled > EPSILON_MAX:
        raise InvalidParameterError("no estimator may have half the noise of this one: lower its epsilon")
    return clone(estimator).set_params(epsilon=doubled)


@dataclass(frozen=True, slots=True)
class Examination:
    """An audit, and the audit of a twin with half the noise against the same claim.

    Parameters
    ----------
    audit : Audit
    twin : Audit or None
        None where the audit itself found a contradiction, and where no estimator may have half the noise.
    """

    audit: Audit
    twin: Audit | None

    @property
    def sees_half_the_noise(self) -> bool:
        """Whether these runs would have found noise of half the scale; if not, a passed audit says little."""
        return "contradicted" in (self.audit.verdict, self.twin and self.twin.verdict)

    def to_json(self) -> dict[str, Any]:
        """Return the examination as plain JSON values."""
        bound = None if self.twin is None else self.twin.lower_bound
        return {
            **self.audit.to_json(),
            "twin_lower_bound": bound,
            "sees_half_the_noise": self.sees_half_the_noise,
        }


def examine(
    estimator: Any, *, runs: int = RUNS, columns: Mapping[str, Any] | None = None
) -> list[Examination]:
    """Audit an estimator at its own budget, and at the one at which an audit sees most.

    Parameters
    ----------
    estimator, runs, columns
        As for `audit`.

    Returns
    -------
    list of Examination
        Of the budget of `estimator`; then of `at_audit_budget`, unless that is the same.
    """
    own, visible = clone(estimator), at_audit_budget(estimator)
    trainers = [own] if own.declared_loss() == visible.declared_loss() else [own, visible]
    return [_examined(trainer, runs, columns) for trainer in trainers]


def at_audit_budget(estimator: Any) -> Any:
    """Return the same estimator at epsilon `EPSILON` or `EPSILON_OF_MANY` and, where it has a delta, at `DELTA`."""
    budget = {"delta": DELTA} if estimator.declared_loss().delta > 0 else {}
    visible = clone(estimator).set_params(epsilon=EPSILON, **budget)
    test = choose_test(visible.declared_loss())
    if isinstance(test, PureTest | ApproximateTest):
        return visible
    return visible.set_params(epsilon=EPSILON_OF_MANY)


def _examined(trainer: Any, runs: int, columns: Mapping[str, Any] | None) -> Examination:
    found = audit(trainer, runs=runs, columns=columns)
    if found.verdict == "contradicted":
        return Examination(found, None)
    try:
        faulty = twin(trainer)
    except InvalidParameterError:
        return Examination(found, None)
    claimed = trainer.declared_loss()
    return Examination(found, audit(faulty, runs=runs, declared=claimed, columns=columns))


def _trials(score: Score, n: int) -> tuple[Any, Any]:
    """Return scores of trainings, and whether the unit was in, by fair coins."""
    coins = np.array([bool(byte & 1) for byte in secrets.token_bytes(n)])
    return np.array([score.trial(bool(coin)) for coin in coins], dtype=np.float64), coins


def _most_visible(estimator: Any, synthetic: Synthetic) -> tuple[Neighbours, Score]:
    return max(scores_of(estimator, neighbours(synthetic)), key=lambda entry: entry[1].visibility)
