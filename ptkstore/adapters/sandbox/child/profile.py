"""The child's work on a profile set: samples by keyed hash in, answers out, nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ptklib.profiling.answers import Answer, Found, NeedsMore, Unreachable
from ptklib.spec import estimator_from_spec
from ptklib.state import ReleasedState
from ptkstore.adapters.sandbox.child.rows import check_apart, unit_rows
from ptkstore.adapters.sandbox.child.team_code import check_code
from ptkstore.adapters.sandbox.confinement.confined import USUAL_CONFINEMENT, Confinement
from ptkstore.adapters.sandbox.messages.codes import NO_SANDBOX
from ptkstore.application.planning.profile_plans import drift_test_of, profiler_of
from ptkstore.domain.ptks.profiles import Point, Verdict
from ptkstore.ports.objects import RawZone
from ptkstore.ports.row_processes import DriftRequest, ProfileRequest, RunFailed

if TYPE_CHECKING:
    from ptklib.profiling.samples import HashedRows
    from ptkstore.adapters.sandbox.child.team_profiles import ConfinedPtk


def profile(
    request: ProfileRequest, raw: RawZone, confinement: Confinement = USUAL_CONFINEMENT
) -> tuple[Point, ...] | RunFailed:
    """Open the profile set and profile the asked epsilons on disjoint samples of it.

    Parameters
    ----------
    request, raw
        The order, and the places of rows.
    confinement
        The sandbox of team code: each of its trainings, and each of its sets of losses, is a run of its own.
    """
    asked = replace(
        request.ask, epsilons=request.epsilons, n_min=request.n_min, confidence=request.confidence
    )
    ptk = _ptk(request, confinement)
    profiler = profiler_of(ptk, asked)
    check_apart(estimator_from_spec(request.estimator), request.profile_set, by_window=False)
    result = profiler.run(_profile_set(request, raw))
    if _without_sandbox(ptk):
        return RunFailed(NO_SANDBOX)
    return tuple(_point(epsilon, answer) for epsilon, answer in result.points)


def has_drifted(
    request: DriftRequest, raw: RawZone, confinement: Confinement = USUAL_CONFINEMENT
) -> bool | RunFailed:
    """Open the profile set as a test set and compare a released state with what was promised."""
    ptk = _ptk(request, confinement)
    test = drift_test_of(ptk, request.ask, request.epsilon)
    drifted = test.run(ReleasedState.from_files(request.state), _profile_set(request, raw))
    return RunFailed(NO_SANDBOX) if _without_sandbox(ptk) else drifted


def _ptk(request: ProfileRequest | DriftRequest, confinement: Confinement) -> Mapping[str, Any] | ConfinedPtk:
    """The subject of the profile: a family of the library, or team code in its sandbox."""
    check_code(request.estimator, request.bundle)
    if request.bundle is None:
        return request.estimator
    from ptkstore.adapters.sandbox.child.team_profiles import ConfinedPtk

    return ConfinedPtk(request.estimator, request.bundle, confinement)


def _without_sandbox(ptk: Mapping[str, Any] | ConfinedPtk) -> bool:
    return not isinstance(ptk, Mapping) and ptk.without_sandbox


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
