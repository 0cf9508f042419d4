"""How a PTK is profiled by samples: everything that is fixed before a row is read, and what it will cost."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ptklib.exceptions import PtklibError
from ptklib.profiling.fingerprint import fingerprint_of
from ptklib.spec import estimator_from_spec
from ptkstore.application.ledger.charging import Price, price_of
from ptkstore.application.planning.formula_plans import has_formula
from ptkstore.domain.accounting.accountants import caps_of, fit_together
from ptkstore.domain.accounting.losses import MIN_EPSILON, Loss, checked_epsilon
from ptkstore.domain.ptks.profiles import ProfileAsk, ProfileRecord
from ptkstore.domain.streams.blocks import FIRST_TRAIN, PROFILE, groups_where, share_of
from ptkstore.domain.streams.policies import Policy, PrivacyUnit
from ptkstore.errors import InvalidRequest

if TYPE_CHECKING:
    from ptklib.privacy import PrivacyLoss
    from ptklib.profiling.drift import DriftTest
    from ptklib.profiling.profiler import Profiler
    from ptklib.profiling.subjects import TeamPtk

SETTINGS = {
    "points": 3,
    "budget": None,
    "n_min": 128,
    "n_max": None,
    "growth": 2.0,
    "models": 4,
    "loss_bounds": (0.0, 1.0),
    "evaluation": None,
    "batch": 100,
    "confidence": 0.95,
    "tries": 3,
    "max_age": None,
    "drift": None,
}
"""What a PTK's `profile` may say, and what holds where it does not; None stands for what the policy implies."""

_WHOLE_NUMBERS = {
    "points": (1, 16),
    "n_min": (1, 10**12),
    "n_max": (1, 10**12),
    "models": (1, 1000),
    "batch": (1, 10**9),
    "tries": (1, 100),
    "max_age": (0, 10_000),
}
FALSE_ALARM = 0.001
"""Of one drift test: there is one in each window, and a false alarm costs a new profile."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """The request to one window's profile set: the open points of the grid, from so many units on, at this cost."""

    epsilons: tuple[float, ...]
    n_min: int
    confidence: float
    price: Price


def ask_of(
    *,
    ptk_id: str,
    stream: str,
    estimator: Mapping[str, Any],
    target: float,
    config: Mapping[str, Any],
    span: tuple[float, float] | None,
    policy: Policy,
) -> ProfileAsk | None:
    """Say how a PTK is profiled by samples; None if it asks for what it declares, or its family has a formula.

    Parameters
    ----------
    span : pair of float
        The least and the greatest epsilon that the PTK may be given.

    Raises
    ------
    InvalidRequest
        The config's `profile` cannot be used, or the PTK has no loss that could be profiled.
    """
    wanted = config.get("profile")
    if wanted is not None and span is None:
        raise InvalidRequest(f"PTK {ptk_id}: a profile is for a range of epsilons; name it with epsilons")
    if span is None or (wanted is None and has_formula(estimator)):
        return None
    given = _settings(ptk_id, {} if wanted is None else wanted)
    line = policy.line_of(ptk_id)
    capacity = policy.lines.get(line, policy.capacity)
    budget = capacity.epsilon / 2 if given["budget"] is None else given["budget"]
    room = int(share_of(policy, FIRST_TRAIN) * policy.rows_per_window)
    n_max = max(1, min(room, policy.n_max) // policy.max_rows_per_unit)
    groups = groups_where(policy, config.get("where"))
    try:
        low, high = given["loss_bounds"]
        ask = ProfileAsk(
            stream=stream,
            line=line,
            fingerprint=fingerprint_of(estimator_from_spec(estimator).to_spec()),
            target=target,
            epsilons=_grid(span, given["points"], float(checked_epsilon(budget, "budget of a profile"))),
            budget=float(budget),
            n_min=min(given["n_min"], n_max if given["n_max"] is None else given["n_max"]),
            n_max=n_max if given["n_max"] is None else min(n_max, given["n_max"]),
            growth=float(given["growth"]),
            models=given["models"],
            loss_bounds=(float(low), float(high)),
            evaluation=_evaluation(estimator) if given["evaluation"] is None else given["evaluation"],
            batch=given["batch"],
            confidence=float(given["confidence"]),
            tries=given["tries"],
            population=int(share_of(policy, PROFILE) * policy.rows_per_window) // policy.max_rows_per_unit,
            groups=(groups.start, groups.stop),
            max_age=policy.profile_max_age if given["max_age"] is None else given["max_age"],
            drift=None,
        )
        profiler_of(estimator, ask).declared_loss()
        attempt_of(estimator, ask, None, policy)  # raises here, not when a window is planned
        return _watched(estimator, ask, given["drift"], capacity, policy)
    except (PtklibError, TypeError, ValueError, OverflowError) as error:
        raise InvalidRequest(f"PTK {ptk_id} cannot be profiled: {error}") from error


def attempt_of(
    estimator: Mapping[str, Any], ask: ProfileAsk, record: ProfileRecord | None, policy: Policy
) -> Attempt | None:
    """Return what the next window is asked; None when its profile set has no room for one round.

    Each of `tries` attempts gets an equal part of the error probability of all together. So the answers of a profile
    are right with its confidence, whatever number of windows they took.
    """
    epsilons = ask.epsilons if record is None else record.unanswered(ask.epsilons)
    n_min = max(ask.n_min, record.n_tried + 1) if record is not None and record.n_tried else ask.n_min
    if n_min > ask.n_max:
        return None
    confidence = 1 - (1 - ask.confidence) / ask.tries
    profiler = profiler_of(estimator, replace(ask, epsilons=epsilons, n_min=n_min, confidence=confidence))
    if profiler.population_of_one_round() > ask.population or _too_many(ask, policy):
        return None
    return Attempt(epsilons, n_min, confidence, _price(profiler.declared_loss(), policy))


MOST_ROWS = 2**23
"""What a window's profile set may be expected to hold; sums of twice as many err by less than proofs allow."""


def _too_many(ask: ProfileAsk, policy: Policy) -> bool:
    """Whether sums over a profile set may err by more than docs/proofs/profiling.md allows, by public numbers."""
    return ask.population * policy.max_rows_per_unit > MOST_ROWS


def profiling_obstacle(estimator: Mapping[str, Any], ask: ProfileAsk, policy: Policy) -> str | None:
    """Return the code of why no window can ever profile this PTK; None when one can."""
    if _too_many(ask, policy):
        return "profile-set-too-large"
    attempt = attempt_of(estimator, ask, None, policy)
    if attempt is None:
        return "profile-set-too-small"
    return None if fits_alone(attempt, ask, policy) else "profile-over-budget"


def fits_alone(attempt: Attempt, ask: ProfileAsk, policy: Policy) -> bool:
    """Tell whether a profile block that nothing else is charged to has room for an attempt."""
    caps = caps_of(policy.accountant, policy.lines[ask.line])
    return fit_together(caps, [attempt.price.charge])


def drift_price(estimator: Mapping[str, Any], ask: ProfileAsk, policy: Policy) -> Price | None:
    """Price one drift test of a state that was trained as a profile said; None where the PTK is not watched."""
    if ask.drift is None:
        return None
    return _price(drift_test_of(estimator, ask, ask.drift).declared_loss(), policy)


def profiler_of(estimator: Mapping[str, Any] | TeamPtk, ask: ProfileAsk) -> Profiler:
    """Return the library's profiler for what is asked: all of the grid, or what a window is asked of it.

    Parameters
    ----------
    estimator : mapping or TeamPtk
        As data, or as what runs the code of a team.
    """
    from ptklib.profiling.profiler import Profiler  # loads every family

    return Profiler(
        estimator,
        target=ask.target,
        epsilons=ask.epsilons,
        budget=ask.budget,
        n_max=ask.n_max,
        n_min=ask.n_min,
        growth=ask.growth,
        models=ask.models,
        loss_bounds=ask.loss_bounds,
        evaluation=ask.evaluation,
        batch=ask.batch,
        confidence=ask.confidence,
    )


def drift_test_of(estimator: Mapping[str, Any] | TeamPtk, ask: ProfileAsk, epsilon: float) -> DriftTest:
    """Return the library's test whether a state still has the risk that its profile promised."""
    from ptklib.profiling.closed_form.profiles import NO_LOSS
    from ptklib.profiling.drift import DriftTest
    from ptklib.profiling.profile import Method, Profile

    promised = Profile(  # the limit follows from the target; answers and their cost are not asked for
        ask.fingerprint,
        ask.target,
        ask.loss_bounds,
        Method.SAMPLES,
        ask.evaluation,
        ask.confidence,
        0,
        (),
        NO_LOSS,
    )
    return DriftTest(
        estimator,
        promised,
        population=max(ask.population, 1),
        epsilon=epsilon,
        false_alarm=FALSE_ALARM,
        batch=ask.batch,
    )


def _price(loss: PrivacyLoss, policy: Policy) -> Price:
    return price_of(loss.event.to_json(), policy.accountant, Loss.charge(loss.epsilon, loss.delta))


def _evaluation(estimator: Mapping[str, Any]) -> str:
    """Losses of rows where the family has them: they take a thousandth of what its own evaluation takes."""
    from ptklib.profiling.risks import risk_of

    try:
        risk_of(estimator_from_spec(estimator))
    except PtklibError:
        return "eval"
    return "rows"


def _grid(span: tuple[float, float], points: int, budget: float) -> tuple[float, ...]:
    """Rising epsilons; those that the budget does not pay for are dropped, the largest first."""
    low, high = span
    grid = np.unique(np.geomspace(low, high, points).clip(low, high)).tolist()
    while len(grid) > 1 and math.fsum(grid) > budget:
        grid.pop()
    return tuple(grid)


def _settings(ptk_id: str, wanted: object) -> dict[str, Any]:
    if not isinstance(wanted, Mapping):
        raise InvalidRequest(
            f"PTK {ptk_id}: profile is a mapping of settings; an empty one takes the defaults"
        )
    if unknown := sorted(set(map(str, wanted)) - set(SETTINGS)):
        raise InvalidRequest(
            f"PTK {ptk_id}: profile has {unknown[0]!r}; it may have {', '.join(sorted(SETTINGS))}"
        )
    given = {**SETTINGS, **{name: value for name, value in wanted.items() if value is not None}}
    for name, (least, most) in _WHOLE_NUMBERS.items():
        value = given[name]
        if value is not None and (type(value) is not int or not least <= value <= most):
            raise InvalidRequest(
                f"PTK {ptk_id}: {name} of a profile is a whole number between {least} and {most}"
            )
    return given


def _watched(
    estimator: Mapping[str, Any], ask: ProfileAsk, wanted: object, capacity: Loss, policy: Policy
) -> ProfileAsk:
    """The ask with a drift test: as wanted or, by default, of a tenth of the capacity where that can tell anything.

    Under the unit `user` a profile block is charged for life, so nothing is tested there unless asked for.
    """
    if wanted is not None:
        epsilon = 0.0 if wanted == 0 else float(checked_epsilon(wanted, "drift of a profile"))
    else:
        epsilon = 0.0 if policy.privacy_unit is PrivacyUnit.USER else capacity.epsilon / 10
    if epsilon < float(MIN_EPSILON):
        return ask
    try:
        drift_test_of(estimator, ask, epsilon).declared_loss()
    except PtklibError:
        if wanted is None:
            return ask
        raise
    return replace(ask, drift=epsilon)
