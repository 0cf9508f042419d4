"""Profile one PTK on a window's profile set: spend, open it, profile apart, keep the answers (differences.md P2-P7)."""

from __future__ import annotations

from collections.abc import Callable

from ptkstore.application.charging import expect_spent
from ptkstore.application.patience import Patience
from ptkstore.application.profile_plans import Attempt, attempt_of
from ptkstore.application.profile_requests import sharing, tell_owners
from ptkstore.application.profile_sets import Opened, end, failed, open_profile_set
from ptkstore.application.ticks import Ticks
from ptkstore.domain.jobs import Job, Outcome
from ptkstore.domain.profiles import Point, ProfileAsk, ProfileRecord, ProfileState, Verdict
from ptkstore.domain.ptks import PtkSpec
from ptkstore.domain.streams import Policy
from ptkstore.errors import LeaseLost
from ptkstore.ports.catalog import Begin
from ptkstore.ports.keys import JournalView, KeyStore
from ptkstore.ports.objects import RawZone
from ptkstore.ports.profiling import ProfileRequest, SampleProfiler
from ptkstore.ports.training import TrainFailed
from ptkstore.ports.world import Clock, Steps


def profile_ptk(
    job: Job,
    *,
    begin: Begin,
    clock: Clock,
    keys: KeyStore,
    journal: JournalView,
    raw: RawZone,
    profiler: SampleProfiler,
    keep_alive: Callable[[], None],
    ticks: Ticks,
    patience: Patience,
    steps: Steps,
) -> None:
    """Ask one window's profile set for the epsilons that have no answer yet; the plan of later windows reads them.

    The whole loss, known beforehand, is spent before the key is asked for. What is kept of a run are its answers, on a
    tick, in one fenced transaction: a run that was interrupted has told nobody anything. One that has ended waits for
    a catalog that is away.
    """
    opened = open_profile_set(
        job,
        _price,
        begin=begin,
        clock=clock,
        keys=keys,
        journal=journal,
        raw=raw,
        keep_alive=keep_alive,
        patience=patience,
        steps=steps,
    )
    if opened is None:
        return
    attempt = opened.price
    assert isinstance(attempt, Attempt)
    request = ProfileRequest(
        opened.spec.estimator,
        opened.ask,
        attempt.epsilons,
        attempt.n_min,
        attempt.confidence,
        opened.profile_set,
    )
    try:
        told = profiler.profile(request, keep_alive)
        leaves_at = ticks.wait()
        steps.reached("profiled", job.id)
        patience.outlast(lambda _: _keep(opened, told, begin, clock), leaves_at)
        steps.reached("answers-kept", job.id)
    except LeaseLost:
        pass  # somebody else runs it now; nothing of this run is kept


def _price(spec: PtkSpec, ask: ProfileAsk, record: ProfileRecord, policy: Policy) -> Attempt | None:
    return attempt_of(spec.estimator, ask, record, policy)


def _keep(opened: Opened, told: tuple[Point, ...] | TrainFailed, begin: Begin, clock: Clock) -> None:
    job, ask = opened.job, opened.ask
    with begin() as uow:
        uow.streams.lock(job.stream)
        held = uow.jobs.held(job)
        expect_spent(uow, opened.spend)
        now = clock.now()
        if isinstance(told, TrainFailed):
            record = failed(opened.record, ask, told.code)
            end(uow, held, record.key, Outcome.FAILED, now, told.code)
        else:
            record = opened.record.told(told, ask)
            end(uow, held, record.key, Outcome.DONE, now)
        uow.profiles.save(record)
        if record.settled:
            tell_owners(uow, sharing(uow, job.stream, record.key), "profile", _code(record), now)
        uow.commit()


def _code(record: ProfileRecord) -> str:
    if record.menu:
        return "profiled" if record.state is ProfileState.ANSWERED else "profiled-in-part"
    if any(point.verdict is Verdict.UNREACHABLE for point in record.points):
        return "profile-target-unreachable"
    return "profile-needs-more"
