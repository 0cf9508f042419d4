"""The DP profiler: how many samples a PTK needs for its target at each epsilon."""

import math
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from ptklib.arrays import Floats
from ptklib.exceptions import InvalidParameterError, PrivacyParameterError
from ptklib.mechanisms.above_threshold import AboveThreshold
from ptklib.privacy import Bounds, PrivacyLoss
from ptklib.profiling.answers import Answer, Found, NeedsMore, Unreachable
from ptklib.profiling.comparison import HighTest
from ptklib.profiling.evaluation import Validation, least_total_of, validation_of
from ptklib.profiling.fingerprint import fingerprint_of
from ptklib.profiling.plan import ROUNDS_MAX, ProfilePlan, Settings, make_plan
from ptklib.profiling.profile import Method, Profile, check_window
from ptklib.profiling.risks import ExactRisk, bounds_every_state
from ptklib.profiling.samples import HashRange, ProfileSet
from ptklib.profiling.subjects import Subject, check_epsilons, subject_of
from ptklib.scalars import finite_number, whole_number

MODELS_MAX = 1000


@dataclass(eq=False, repr=False)
class Profiler:
    """Find, for each epsilon of a grid, how many samples a PTK needs to reach its target.

    Parameters
    ----------
    ptk : DPEstimator, mapping, EstimatorPtk or TeamPtk
        The PTK to profile, trained by its own ``train_dp``.
    target : float
        In the unit of the loss; tau in the papers. A number of samples is found when models trained on so
        many have a mean risk of at most twice the target (above the lower loss bound). A mean risk of 1.5
        times is found almost surely.
    epsilons : sequence of float
        The grid: budgets of one training.
    budget : float
        All that the profile may cost: at least the sum of `epsilons`, because the points of the grid share
        samples. The rest of it pays for the lower bound, if there is one.
    n_max : int
        Largest training sample, in expectation.
    n_min : int
        Smallest one.
    growth : float
        Each sample is so many times as large as the one before, above 1.
    models : int
        Models trained in each round, on samples of their own; their mean risk is compared with the target. One may pass
        by luck where noise is large, and has many rounds to do so; several hardly do. They cost samples, not budget.
    loss_bounds : tuple (low, high)
        Public range of the loss; evaluations are clipped to it.
    evaluation : {"eval", "rows"}
        ``"eval"``: the PTK's own evaluation of disjoint test sets of `batch` units each. ``"rows"``: its loss of single
        rows, in parts of its range, for families that have one (`risk_of`). Then there is a lower bound.
    batch : int
        Expected privacy units of one test set of ``"eval"``.
    confidence : float
        Of all answers together.

    Attributes
    ----------
    privacy_spent_ : PrivacyLoss
        Set before the first row is read by `run`.

    Notes
    -----
    :Guarantee: (budget, delta)-DP, delta the sum of those of one training per epsilon. A unit in a training sample
        meets one training per epsilon and the comparison of the lower bound. A unit in the validation set meets the
        comparisons, one per epsilon. Each costs `budget` in all, and no unit meets both.
    :Unit: the privacy unit that hashes stand for, with all its rows.
    :Neighbours: add or remove one unit.
    :Mechanism: ``train_dp`` on disjoint samples; one `AboveThreshold` per epsilon over all rounds on a validation set
        that is disjoint from them; one discrete Laplace comparison per round for the lower bound.
    :Sensitivity: a centred sum of losses moves by ``max(c, 1 - c)`` per unit, c its centre, and by 1 where one unit
        changes one of a public number of evaluations. Sizes of samples are never used.

    How long a run takes depends on rows: publish its answers on ticks, and no durations.

    Nothing but the answers leaves: no loss, no size, no exception of a training or an evaluation. A training that fails
    is a model of the largest loss, and so is an evaluation that fails or sees no row. Of losses of rows, a row whose
    loss cannot be computed has the largest, and it alone.

    References
    ----------
    .. [1] PTK paper, section 5.2, Figure 3, and where we differ: docs/guide/profiling.md.
    """

    ptk: Any
    _: KW_ONLY
    target: Any
    epsilons: Any
    budget: Any
    n_max: Any
    n_min: Any = 128
    growth: Any = 2.0
    models: Any = 4
    loss_bounds: Any = (0.0, 1.0)
    evaluation: Any = "eval"
    batch: Any = 100
    confidence: Any = 0.95

    def declared_loss(self) -> PrivacyLoss:
        """Return the loss of one `run`, before any data are read.

        Raises
        ------
        InvalidParameterError
            When a parameter cannot be used.
        """
        subject, plan = self._prepare()
        return _loss(subject, plan)

    def population_needed(self) -> int:
        """Return how many privacy units the samples of all rounds take: a public number."""
        return math.ceil(self._prepare()[1].population_needed)

    def population_of_one_round(self) -> int:
        """Return how many privacy units validation and the first round take: `run` refuses smaller profile sets."""
        return math.ceil(self._prepare()[1].population_of_one_round)

    def run(
        self,
        profile_set: ProfileSet,
        *,
        window: int = 0,
        charge: Callable[[PrivacyLoss], object] | None = None,
    ) -> Profile:
        """Profile.

        Parameters
        ----------
        profile_set : ProfileSet
            Rounds for which its public population has no room are left out.
        window : int
            Index of the window its rows come from.
        charge : callable, optional
            Called with `declared_loss` before the first row is read; when it raises, none is.

        Raises
        ------
        InvalidParameterError
            When a parameter cannot be used, or the population has no room for one round. Never because of rows.
        SchemaError
            When columns are missing.
        """
        subject, plan = self._prepare()
        made_at = check_window(window)
        n_rounds = plan.fitting(profile_set.population)
        subject.rehearse(profile_set.empty())
        loss = _loss(subject, plan)
        if charge is not None:
            charge(loss)
        self.privacy_spent_ = loss
        where, samples = plan.ranges(profile_set.hashes, profile_set.population, n_rounds)
        low, high = self._bounds()
        validation = validation_of(subject, profile_set, where, plan.n_losses, (low, high))
        answers = _Rounds(subject, plan, profile_set, validation).run(samples)
        return Profile(
            fingerprint_of(subject.config),
            float(self.target),
            (low, high),
            Method.SAMPLES,
            str(self.evaluation),
            float(self.confidence),
            made_at,
            tuple(zip(plan.settings.epsilons, answers, strict=True)),
            loss,
        )

    def _bounds(self) -> tuple[float, float]:
        bounds = Bounds.of(self.loss_bounds, "loss_bounds")
        return bounds.low, bounds.high

    def _prepare(self) -> tuple[Subject, ProfilePlan]:
        subject = subject_of(self.ptk, self.evaluation)
        low, high = self._bounds()
        target = (finite_number(self.target, "target") - low) / (high - low)
        if not 0 < target < 0.5:
            raise InvalidParameterError(
                f"target must be between {low:g} and {(low + high) / 2:g}, the lower half of loss_bounds, both "
                f"excluded; it is {float(self.target):g}"
            )
        budget, confidence = (
            finite_number(self.budget, "budget"),
            finite_number(self.confidence, "confidence"),
        )
        if budget <= 0:
            raise PrivacyParameterError("budget must be positive")
        if not 0.5 <= confidence < 1:
            raise InvalidParameterError("confidence must be in [0.5, 1)")
        by_rows = self.evaluation == "rows"
        loss_max = 1.0 if bounds_every_state(subject.risk) else None
        if by_rows and (low, high) != (0.0, 1.0):
            raise InvalidParameterError(
                "losses of rows come in parts of their range: leave loss_bounds at (0, 1)"
            )
        batch = None if by_rows else _at_least(self.batch, "batch", 1)
        settings = Settings(
            target,
            check_epsilons(self.epsilons),
            budget,
            self._sizes(),
            whole_number(self.models, "models", 1, MODELS_MAX),
            1 - confidence,
            batch,
            loss_max,
        )
        for epsilon in settings.epsilons:
            subject.training_loss(epsilon)
        return subject, make_plan(settings)

    def _sizes(self) -> tuple[float, ...]:
        least, most = _at_least(self.n_min, "n_min", 1), _at_least(self.n_max, "n_max", 1)
        growth = finite_number(self.growth, "growth")
        if growth <= 1 or least > most:
            raise InvalidParameterError(
                "samples grow from n_min to n_max: growth above 1, n_min at most n_max"
            )
        n_steps = math.floor(math.log(most / least) / math.log(growth) + 1e-9)
        if n_steps >= ROUNDS_MAX:
            raise InvalidParameterError(f"at most {ROUNDS_MAX} rounds: choose a larger growth")
        return tuple(float(round(most / growth**step)) for step in range(n_steps, -1, -1))


class _Rounds:
    """One run: the private part."""

    def __init__(
        self, subject: Subject, plan: ProfilePlan, profile_set: ProfileSet, validation: Validation
    ) -> None:
        self._subject, self._plan = subject, plan
        self._set, self._validation = profile_set, validation
        self._answers: dict[float, Answer] = {}
        self._started: dict[float, AboveThreshold] = {
            epsilon: plan.upper.start([]) for epsilon in plan.settings.epsilons
        }

    def run(self, samples: Sequence[HashRange]) -> list[Answer]:
        epsilons = self._plan.settings.epsilons
        for sample, size, lower in zip(samples, self._plan.settings.sizes, self._plan.lower, strict=False):
            self._train(sample, round(size))
            open_points = [epsilon for epsilon in epsilons if epsilon not in self._answers]
            if not open_points:
                break
            if lower is not None and self._is_unreachable(lower, sample):
                self._answers |= dict.fromkeys(open_points, Unreachable())
                break
        for comparison in self._started.values():
            comparison.retire()
        tried = round(self._plan.settings.sizes[len(samples) - 1])
        return [self._answers.get(epsilon, NeedsMore(tried)) for epsilon in epsilons]

    def _train(self, sample: HashRange, size: int) -> None:
        """Try the open points, largest epsilon first; where one is not enough, smaller ones wait for the next round."""
        tables = [self._set.sample(part)[0] for part in sample.split(self._plan.settings.models)]
        for epsilon in reversed(self._plan.settings.epsilons):
            if epsilon in self._answers:
                continue
            losses = np.mean([self._losses(table, epsilon) for table in tables], axis=0)
            if not self._plan.upper.is_below(self._started[epsilon], losses):
                return
            self._answers[epsilon] = Found(size)

    def _losses(self, table: Any, epsilon: float) -> Floats:
        try:
            state = self._subject.train(table, epsilon)
        except Exception:  # noqa: BLE001 - that and why a training failed is told by rows: it counts as the worst model
            return self._validation.worst()
        return self._validation.losses(state)

    def _is_unreachable(self, lower: HighTest, sample: HashRange) -> bool:
        risk, (table, units) = self._subject.risk, self._set.sample(sample)
        assert isinstance(risk, ExactRisk)
        total, n_units = least_total_of(risk, table, units)
        most = risk.loss_max * n_units
        return lower.is_total_above(min(max(total, 0.0), most) if total == total else 0.0, n_units)


def _loss(subject: Subject, plan: ProfilePlan) -> PrivacyLoss:
    return plan.loss([subject.training_loss(epsilon) for epsilon in plan.settings.epsilons])


def _at_least(value: object, name: str, least: float) -> float:
    number = finite_number(value, name)
    if number < least:
        raise InvalidParameterError(f"{name} must be at least {least:g}")
    return number
