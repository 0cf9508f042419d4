"""Empirical audit: what outputs on neighbouring synthetic datasets prove about a loss."""

import math
import secrets
from collections.abc import Callable, Mapping
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

FALSE_ALARM = 1e-6
"""Chance, at most, that an honest trainer is contradicted."""

EPSILON = 2.0
"""Where an audit sees most: at smaller epsilon it needs many more runs, at larger ones all guesses are right."""

EPSILON_OF_MANY = 3.0
"""The same for Gaussian noise, and where the budget is divided over many parts."""

DELTA = 1e-3
"""Likewise: at a small delta half the noise is still far from visible."""

Verdict = Literal["consistent", "contradicted"]


@dataclass(frozen=True, slots=True)
class Audit:
    """The result of an audit.

    Parameters
    ----------
    epsilon, delta : float
        Declared.
    lower_bound : float
        With probability `confidence`, the mechanism loses at least this at `delta`.
    verdict : "consistent" or "contradicted"
        Contradicted when outputs exceed what is declared twice, on trainings of their own: an honest trainer is
        contradicted with the chosen probability of a false alarm at most.
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
    false_alarm: float = FALSE_ALARM,
    declared: PrivacyLoss | None = None,
    columns: Mapping[str, Any] | None = None,
    trained: Callable[[], object] = lambda: None,
) -> Audit:
    """Train many times on neighbouring synthetic datasets and bound epsilon from below.

    Parameters
    ----------
    estimator : DPEstimator
        Unfitted parameters are enough; the object itself is not fitted. No real row is read.
    runs : int
        Trainings; the bound grows with them, at best up to the epsilon that is really lost.
    confidence : float
        Probability, at least, that the bound is right.
    false_alarm : float
        Chance, at most, that an honest trainer is contradicted. The verdict has a confidence of its own, the root of
        this for each of two looks: a bound that is wrong once in a thousand audits contradicts nobody.
    declared : PrivacyLoss, optional
        The claim to hold outputs against; what `estimator` declares by default.
    columns : mapping of column to values or (low, high), optional
        Declarations the parameters do not have; see `Synthetic`.
    trained : callable, optional
        Called after each training, for those who show progress.

    Notes
    -----
    In each trial a fair coin decides whether one privacy unit is in; a score guesses: the likelihood ratio of
    released sums, or of all that mechanisms gave out (`TranscriptScore`). The pair of datasets is the one,
    among those of `neighbours`, in which the unit is most visible. A low bound proves nothing: the audit can
    contradict a guarantee, never establish it. `twin` says what it is able to see.
    """
    if isinstance(runs, bool) or not isinstance(runs, int) or runs < 100:
        raise InvalidParameterError("an audit needs at least 100 runs")
    if not 0.5 <= confidence < 1:
        raise InvalidParameterError("confidence must be in [0.5, 1)")
    if not 0 < false_alarm <= 0.25:
        raise InvalidParameterError("false_alarm must be in (0, 0.25]")
    trainer = clone(estimator)
    claim = trainer.declared_loss() if declared is None else declared
    pair, score = _most_visible(trainer, Synthetic(trainer, columns))

    def look() -> tuple[float, bool]:
        seen = _trials(score, runs, trained)
        bound = epsilon_lower_bound(*seen, claim, confidence=confidence)
        sure = epsilon_lower_bound(*seen, claim, confidence=1 - math.sqrt(false_alarm))
        return bound.epsilon, sure.exceeds

    made, (bound, exceeds) = runs, look()
    if exceeds:
        again, exceeds = look()
        made, bound = 2 * runs, min(bound, again)
    return Audit(
        epsilon=claim.epsilon,
        delta=claim.delta,
        lower_bound=bound,
        confidence=confidence,
        verdict="contradicted" if exceeds else "consistent",
        runs=made,
        neighbours=pair.name,
    )


def twin(estimator: Any, divisor: float = 2.0) -> Any:
    """Return the same estimator with a budget that divides its noise by two: what a faulty trainer would be.

    Audited against the loss of the original, it shows whether the audit could have seen the fault.

    Parameters
    ----------
    estimator : DPEstimator
    divisor : float, default 2
        The number that the noise is divided by, at least 1.

    Notes
    -----
    Half the noise is twice the epsilon for mechanisms of ``delta=0``. For Gaussian noise it is the epsilon of
    half the scale. For other events with a delta it is the largest epsilon at which no part of the event has
    less than half its noise. One part has half of it, the others that or more.

    Raises
    ------
    InvalidParameterError
        When that epsilon is larger than a release may have.
    """
    loss = estimator.declared_loss()
    multiplier = joint_multiplier([loss.event])
    if loss.delta == 0:
        epsilon = divisor * loss.epsilon
    elif multiplier is not None:
        epsilon = profile_epsilon(multiplier / divisor, loss.delta)
    else:
        epsilon = _epsilon_of_less_noise(estimator, loss, divisor)
    if epsilon > EPSILON_MAX:
        raise InvalidParameterError("no estimator may have so little noise: lower the epsilon of this one")
    return clone(estimator).set_params(epsilon=epsilon)


def _epsilon_of_less_noise(estimator: Any, loss: PrivacyLoss, divisor: float) -> float:
    """Return the largest epsilon at which each part of the event keeps its share of noise; infinity if any does."""
    faulty, whole = clone(estimator), _scales(loss)

    def keeps_enough(epsilon: float) -> bool:
        scales = _scales(faulty.set_params(epsilon=epsilon).declared_loss())
        alike = [part[:-1] for part in scales] == [part[:-1] for part in whole]
        return alike and all(part[-1] >= full[-1] / divisor for part, full in zip(scales, whole, strict=True))

    if keeps_enough(EPSILON_MAX):
        return math.inf
    low, high = loss.epsilon, EPSILON_MAX
    while high / low > 1 + 1e-4:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if keeps_enough(middle) else (low, middle)
    return low


def _scales(loss: PrivacyLoss) -> list[tuple[Any, ...]]:
    """Return name, size and scale of each draw of an event."""
    return [
        (part["name"], tuple(part.get("shape", ())), float(part[key]))
        for part in (leaf.to_json() for leaf, _ in loss.event.leaves())
        for key in sorted(part)
        if key.endswith("scale") or key.startswith("scale")
    ]


@dataclass(frozen=True, slots=True)
class Examination:
    """An audit, and the audit of a twin with half the noise against the same claim.

    Parameters
    ----------
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


_LOOKS = 3
"""Looks of one examination, at most but for bad luck: one of the estimator and two of its twin."""


class _Progress:
    """Counts the trainings of an examination, and how many it takes in all as far as that is known."""

    def __init__(self, runs: int, tell: Callable[[int, int], object] | None) -> None:
        self._runs, self._tell = runs, tell
        self._done = self._of = 0

    def expect(self, looks: int) -> None:
        """Say how many looks are still to come, at most."""
        self._of = self._done + looks * self._runs

    def trained(self) -> None:
        self._done += 1
        if self._tell is not None:
            self._tell(self._done, max(self._of, self._done))


def examine(
    estimator: Any,
    *,
    runs: int = RUNS,
    columns: Mapping[str, Any] | None = None,
    tell: Callable[[int, int], object] | None = None,
) -> list[Examination]:
    """Audit an estimator at its own budget, and at the one at which an audit sees most.

    Parameters
    ----------
    estimator, runs, columns
        As for `audit`.
    tell : callable, optional
        Called after each training with the number of trainings so far, and the number that it takes in all at most.
        The second number falls when an audit ends early.

    Returns
    -------
    list of Examination
        Of the budget of `estimator`; then of `at_audit_budget`, unless that is the same.
    """
    own, visible = clone(estimator), at_audit_budget(estimator)
    trainers = [own] if own.declared_loss() == visible.declared_loss() else [own, visible]
    progress, found = _Progress(runs, tell), []
    for later, trainer in zip(reversed(range(len(trainers))), trainers, strict=True):
        progress.expect(_LOOKS * (1 + later))
        found.append(_examined(trainer, runs, columns, progress, _LOOKS * later))
    return found


def at_audit_budget(estimator: Any) -> Any:
    """Return the same estimator at epsilon `EPSILON` or `EPSILON_OF_MANY` and, where it has a delta, at `DELTA`."""
    budget = {"delta": DELTA} if estimator.declared_loss().delta > 0 else {}
    visible = clone(estimator).set_params(epsilon=EPSILON, **budget)
    test = choose_test(visible.declared_loss())
    if isinstance(test, PureTest | ApproximateTest):
        return visible
    return visible.set_params(epsilon=EPSILON_OF_MANY)


def _examined(
    trainer: Any, runs: int, columns: Mapping[str, Any] | None, progress: _Progress, later: int
) -> Examination:
    audited = audit(trainer, runs=runs, columns=columns, trained=progress.trained)
    if audited.verdict == "contradicted":
        return Examination(audited, None)
    try:
        faulty = twin(trainer)
    except InvalidParameterError:
        return Examination(audited, None)
    claimed = trainer.declared_loss()
    progress.expect(_LOOKS - 1 + later)
    looked = audit(faulty, runs=runs, declared=claimed, columns=columns, trained=progress.trained)
    return Examination(audited, looked)


def _trials(score: Score, n: int, trained: Callable[[], object]) -> tuple[Any, Any]:
    """Return scores of trainings, and whether the unit was in, by fair coins."""
    coins = np.array([bool(byte & 1) for byte in secrets.token_bytes(n)])
    scores = np.empty(n, dtype=np.float64)
    for place, coin in enumerate(coins):
        scores[place] = score.trial(bool(coin))
        trained()
    return scores, coins


def _most_visible(estimator: Any, synthetic: Synthetic) -> tuple[Neighbours, Score]:
    return max(scores_of(estimator, neighbours(synthetic)), key=lambda entry: entry[1].visibility)
