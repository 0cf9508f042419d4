"""What the child does with a profile set: samples by keyed hash in, answers out, nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ptklib.profiling.answers import Answer, Found, NeedsMore, Unreachable
from ptklib.spec import estimator_from_spec
from ptklib.state import ReleasedState
from ptkstore.adapters.sandbox.child.rows import check_apart, unit_rows
from ptkstore.application.planning.profile_plans import drift_test_of, profiler_of
from ptkstore.domain.ptks.profiles import Point, Verdict
from ptkstore.ports.objects import RawZone
from ptkstore.ports.row_processes import DriftRequest, ProfileRequest

if TYPE_CHECKING:
    from ptklib.profiling.samples import HashedRows


def profile(request: ProfileRequest, raw: RawZone) -> tuple[Point, ...]:
    """Open the profile set and profile the asked epsilons on disjoint samples of it."""
    asked = replace(
        request.ask, epsilons=request.epsilons, n_min=request.n_min, confidence=request.confidence
    )
    profiler = profiler_of(request.estimator, asked)
    check_apart(estimator_from_spec(request.estimator), request.profile_set, by_window=False)
    result = profiler.run(_profile_set(request, raw))
    return tuple(_point(epsilon, answer) for epsilon, answer in result.points)


def has_drifted(request: DriftRequest, raw: RawZone) -> bool:
    """Open the profile set as a test set and compare a released state with what was promised."""
    test = drift_test_of(request.estimator, request.ask, request.epsilon)
    return test.run(ReleasedState.from_files(request.state), _profile_set(request, raw))


def _profile_set(request: ProfileRequest | DriftRequest, raw: RawZone) -> HashedRows:
    """Read the rows of the part with their privacy units; its size is public, from the policy."""
    rows = request.profile_set
    within = (min(one.low for one in rows), max(one.high for one in rows))
    columns = tuple(dict.fromkeys(estimator_from_spec(request.estimator).input_columns()))
    return unit_rows(rows, raw, columns, population=request.ask.population, within=within)


def _point(epsilon: float, answer: Answer) -> Point:
    match answer:
        case Found(n):
            return Point(epsilon, Verdict.FOUND, n)
        case NeedsMore(n_tried):
            return Point(epsilon, Verdict.NEEDS_MORE, n_tried)
        case Unreachable():
            return Point(epsilon, Verdict.UNREACHABLE)
