"""Test on a later window whether a published state still has the risk that its profile promised."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ptkstore.application.charging import expect_spent
from ptkstore.application.patience import Patience
from ptkstore.application.profile_plans import Watch, watch_of
from ptkstore.application.profile_requests import sharing, tell_owners
from ptkstore.application.profile_sets import Opened, end, failed, open_profile_set
from ptkstore.application.ticks import Ticks
from ptkstore.application.versions import state_files_of
from ptkstore.domain.jobs import Job, Outcome
from ptkstore.domain.profiles import ProfileAsk, ProfileRecord
from ptkstore.domain.ptks import PtkSpec
from ptkstore.domain.streams import Policy
from ptkstore.errors import LeaseLost
from ptkstore.ports.catalog import Begin
from ptkstore.ports.keys import JournalView, KeyStore
from ptkstore.ports.objects import Lake, RawZone
from ptkstore.ports.profiling import DriftRequest, SampleProfiler
from ptkstore.ports.training import TrainFailed
from ptkstore.ports.world import Clock, Steps


def detect_drift(
    job: Job,
    *,
    begin: Begin,
    clock: Clock,
    keys: KeyStore,
    journal: JournalView,
    raw: RawZone,
    lake: Lake,
    profiler: SampleProfiler,
    keep_alive: Callable[[], None],
    ticks: Ticks,
    patience: Patience,
    steps: Steps,
) -> None:
    """Spend, open the profile set, test; a profile that drifted is not planned with any more, and is renewed.

    The state was trained on other windows and on other parts, so no row of the test set was ever trained on.
    """
    with begin() as uow:
        version = uow.versions.get(str(job.ptk_id), job.position)
    state = state_files_of(version, lake)  # before the loss is spent: the lake may not answer
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
    assert opened.ask.drift is not None
    request = DriftRequest(opened.spec.estimator, opened.ask, opened.ask.drift, state, opened.profile_set)
    try:
        told = profiler.has_drifted(request, keep_alive)
        leaves_at = ticks.wait()
        steps.reached("tested", job.id)
        patience.outlast(lambda _: _keep(opened, told, begin, clock), leaves_at)
        steps.reached("verdict-kept", job.id)
    except LeaseLost:
        pass  # somebody else runs it now; nothing of this run is kept


def _price(spec: PtkSpec, ask: ProfileAsk, record: ProfileRecord, policy: Policy) -> Watch | None:
    return watch_of(spec.estimator, ask, policy)


def _keep(opened: Opened, told: bool | TrainFailed, begin: Begin, clock: Clock) -> None:
    job = opened.job
    with begin() as uow:
        uow.streams.lock(job.stream)
        held = uow.jobs.held(job)
        expect_spent(uow, opened.spend)
        now = clock.now()
        if isinstance(told, TrainFailed):
            record = failed(opened.record, opened.ask, told.code)
            end(uow, held, record.key, Outcome.FAILED, now, told.code)
        else:
            record = replace(opened.record, drifted_at=job.window.index if told else None)
            end(uow, held, record.key, Outcome.DONE, now)
        uow.profiles.save(record)
        if told is True:
            tell_owners(uow, sharing(uow, job.stream, record.key), "profile", "profile-drifted", now)
        uow.commit()
