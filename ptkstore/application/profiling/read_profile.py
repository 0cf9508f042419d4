"""Read what is known of how many rows a PTK needs at which epsilon: released answers and public numbers."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ptkstore.application.planning.formula_plans import with_facts
from ptkstore.application.planning.profile_plans import MOST_ROWS, profiler_of, profiling_obstacle
from ptkstore.application.planning.window_plans import as_released, ways_of
from ptkstore.domain.accounting.assurances import UNKNOWN, Assured, assured
from ptkstore.domain.ptks.profiles import (
    Paid,
    Point,
    ProfileAsk,
    ProfileRecord,
    ProfileState,
    Verdict,
    usable,
)
from ptkstore.domain.ptks.ptks import PtkSpec, by_formula
from ptkstore.domain.streams.policies import Policy
from ptkstore.errors import InvalidRequest
from ptkstore.ports.catalog import Read


@dataclass(frozen=True, slots=True)
class ProfileView:
    """How a PTK is planned with.

    `method` is `samples`, `formula`, or `declared` for one that asks for what it declares. `menu` has pairs of epsilon
    and rows of a window that later windows choose from. If it is empty they take the declared loss on all rows.
    `facts_of` is the version whose facts the formula has, 0 for none. The rest is of profiles by samples: of the one
    in use, or of the one on its way where none is in use. `age` is the number of windows that have closed since the
    first of its own, `paid` what it and its renewals have cost. `assured` is that of the PTK: where it is a team's
    word, so are the losses that a profile by samples rests on.
    """

    method: str
    menu: tuple[tuple[float, int], ...]
    facts_of: int = 0
    state: str | None = None
    number: int = 0
    asked_at: int | None = None
    age: int | None = None
    max_age: int | None = None
    drifted_at: int | None = None
    tries: int = 0
    most_tries: int = 0
    target: float | None = None
    evaluation: str | None = None
    drift_epsilon: float | None = None
    points: tuple[Point, ...] = ()
    paid: tuple[Paid, ...] = ()
    advice: str | None = None
    assured: Assured = UNKNOWN


def read_profile(ptk_id: str, *, begin: Read) -> ProfileView:
    """See `ProfileView`; `UnknownName` for a PTK that is not registered."""
    with begin() as uow:
        spec = uow.ptks.get(ptk_id)
        policy = uow.streams.get(spec.stream).policy
        (spec,) = with_facts(uow, [spec], policy)
        closed = uow.streams.progress(spec.stream).closed_before
        records = uow.profiles.of([spec.profile.key])[spec.profile.key] if spec.profile is not None else ()
    if spec.is_averaged:
        raise InvalidRequest(
            f"PTK {ptk_id} is trained by devices and has no profile: `ptk show` says what they lose"
        )
    if spec.profile is None:
        spec = as_released(spec, policy)
        menu = tuple((loss.epsilon, n) for loss, n in ways_of(spec, policy))
        facts_of = 0 if spec.facts is None else spec.facts.version
        return ProfileView(
            "formula" if by_formula(spec) else "declared",
            menu,
            facts_of,
            assured=assured(spec.assurance, spec.ptk_id),
        )
    return _sampled(spec, spec.profile, policy, records, closed)


def _sampled(
    spec: PtkSpec, ask: ProfileAsk, policy: Policy, records: tuple[ProfileRecord, ...], closed: int
) -> ProfileView:
    record = usable(records) or (records[-1] if records else None)
    view = ProfileView(
        method="samples",
        menu=tuple((epsilon, n * policy.max_rows_per_unit) for epsilon, n in spec.menu),
        max_age=ask.max_age,
        most_tries=ask.tries,
        target=ask.target,
        evaluation=ask.evaluation,
        drift_epsilon=ask.drift,
        advice=_advice(spec, ask, policy, record),
        assured=assured(spec.assurance, spec.ptk_id),
    )
    if record is None:
        return view
    return replace(
        view,
        state=record.state.value,
        number=record.number,
        asked_at=record.asked_at,
        age=max(0, closed - 1 - record.asked_at),
        drifted_at=record.drifted_at,
        tries=record.tries,
        points=record.points,
        paid=tuple(paid for one in records for paid in one.paid),
    )


def _advice(spec: PtkSpec, ask: ProfileAsk, policy: Policy, record: ProfileRecord | None) -> str | None:
    """Advice from public numbers; None if nothing is amiss."""
    if record is None or not record.settled:
        return _hindered(spec, ask, policy)
    if any(point.verdict is Verdict.UNREACHABLE for point in record.points) and not record.menu:
        return (
            f"no model of this config has a risk of {ask.target:g} or less, however many rows there are: "
            "take a larger target, or a config that fits the rows better"
        )
    if record.state is ProfileState.GIVEN_UP:
        return (
            f"up to {record.n_tried} privacy units a model were not enough in {record.tries} windows, and a train "
            f"partition has {ask.n_max}. Take a larger target or larger epsilons, or a stream with longer windows or "
            "a larger profile share"
        )
    return None


def _hindered(spec: PtkSpec, ask: ProfileAsk, policy: Policy) -> str | None:
    match profiling_obstacle(spec.estimator, ask, policy):
        case "profile-set-too-large":
            return (
                f"the profile set of a window has {ask.population * policy.max_rows_per_unit:,} rows, more than the "
                f"{MOST_ROWS:,} that are summed exactly enough: give the set a smaller share"
            )
        case "profile-set-too-small":
            profiler = profiler_of(spec.estimator, ask)
            return (
                f"a profile takes {profiler.population_of_one_round()} privacy units at least, and the profile set of "
                f"a window has {ask.population}. Take a larger target, a larger budget for the profile or fewer "
                "points, or a stream with longer windows or a larger profile share"
            )
        case "profile-over-budget":
            return (
                f"a profile of epsilon {ask.budget:g} does not fit a profile block of {policy.capacity}: "
                "take a smaller budget for it"
            )
    return None
