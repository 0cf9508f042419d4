"""A paid test whether a PTK in use still has the risk its profile promised."""

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from typing import Any

from ptklib.exceptions import InvalidParameterError
from ptklib.privacy import PrivacyLoss, check_epsilon
from ptklib.profiling.bounds import bernoulli_divergence, high_line, laplace_quantile
from ptklib.profiling.comparison import RESOLUTION, HighTest
from ptklib.profiling.evaluation import validation_of
from ptklib.profiling.fingerprint import fingerprint_of
from ptklib.profiling.profile import Profile
from ptklib.profiling.samples import ProfileSet
from ptklib.profiling.subjects import Subject, subject_of
from ptklib.scalars import finite_number


@dataclass(eq=False, repr=False)
class DriftTest:
    """Compare the loss of a released state on a later window with what the profile promised for it.

    Parameters
    ----------
    ptk : DPEstimator, mapping, EstimatorPtk or TeamPtk
        Of the config that was profiled.
    profile : Profile
        Its `risk_at_most` is the limit.
    population : float
        Public estimate of the privacy units of a test set.
    epsilon : float
        Budget of one `run`.
    false_alarm : float
        Probability of "drifted" while the risk is within the limit, whatever the number of rows is.
    batch : int
        Expected privacy units of one test set, for a profile of ``"eval"``.

    Notes
    -----
    :Guarantee: epsilon-DP per call of `run`; the answer is all that leaves.
    :Unit: the privacy unit that hashes stand for, with all its rows.
    :Neighbours: add or remove one unit.
    :Mechanism: discrete Laplace on a centred sum of losses.
    :Sensitivity: ``max(c, 1 - c)``, c the centre; 1 for a public number of evaluations.

    The state must not have been trained on rows of the test set; it is a released state, so its own loss was paid.
    """

    ptk: Any
    profile: Profile
    _: KW_ONLY
    population: Any
    epsilon: Any
    false_alarm: Any = 0.01
    batch: Any = 100

    def declared_loss(self) -> PrivacyLoss:
        """Return the loss of one `run`, before any data are read.

        Raises
        ------
        InvalidParameterError
            When a parameter cannot be used, or so small a test set could never tell.
        """
        return self._loss(self._prepare()[1])

    def detectable_risk(self) -> float:
        """Return the risk from which on `run` misses a drift as rarely as it raises a false alarm.

        A public number, in the unit of the loss; infinity when no risk is large enough.
        """
        _, test, size = self._prepare()
        failure = float(self.false_alarm) / 2
        against = (test.threshold + laplace_quantile(test.scale, failure)) / RESOLUTION
        mean = against / size + test.centre.units / RESOLUTION
        low, high = self.profile.loss_bounds
        if mean >= 1:
            return math.inf
        least, most = mean, 1.0
        for _ in range(100):
            middle = (least + most) / 2
            tells = size * bernoulli_divergence(mean, middle) >= math.log(1 / failure)
            least, most = (least, middle) if tells else (middle, most)
        return low + most * (high - low) if most < 1 else math.inf

    def run(
        self,
        state: Any,
        test_set: ProfileSet,
        *,
        charge: Callable[[PrivacyLoss], object] | None = None,
    ) -> bool:
        """Return whether the risk of `state` on the test set is above the limit.

        Parameters
        ----------
        state : ReleasedState
            Or whatever the team's ``train_dp`` released.
        test_set : ProfileSet
            All its rows are used.
        charge : callable, optional
            Called with `declared_loss` before the first row is read; when it raises, none is.
        """
        subject, test, size = self._prepare()
        loss = self._loss(test)
        if charge is not None:
            charge(loss)
        self.privacy_spent_ = loss
        validation = validation_of(
            subject, test_set, test_set.hashes, math.floor(size), self.profile.loss_bounds
        )
        return test.is_above(validation.losses(state))

    def _prepare(self) -> tuple[Subject, HighTest, float]:
        if not isinstance(self.profile, Profile):
            raise InvalidParameterError("profile must be a Profile")
        subject = subject_of(self.ptk, self.profile.evaluation)
        if fingerprint_of(subject.config) != self.profile.fingerprint:
            raise InvalidParameterError("the profile is of another config")
        low, high = self.profile.loss_bounds
        limit = (self.profile.risk_at_most - low) / (high - low)
        epsilon, failure = check_epsilon(self.epsilon), finite_number(self.false_alarm, "false_alarm")
        size = finite_number(self.population, "population")
        if not 0 < failure < 0.5:
            raise InvalidParameterError("false_alarm must be in (0, 0.5)")
        by_batch = subject.risk is None
        if by_batch:
            size = float(math.floor(size / finite_number(self.batch, "batch")))
        line = high_line(limit, size, failure / 2) if size >= 1 and 0 < limit < 1 else None
        if line is not None:
            test = HighTest(line, Fraction(epsilon), failure / 2, per_batch=by_batch)
            if test.can_answer(size):
                return subject, test, size
        raise InvalidParameterError("a test set of this population and epsilon could never tell of a drift")

    def _loss(self, test: HighTest) -> PrivacyLoss:
        return PrivacyLoss(float(self.epsilon), 0.0, test.event)
