"""The use case of each kind of job."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import TypedDict

from ptkstore.application.delivery import deliver_event
from ptkstore.application.paid_runs.commit_retry import CommitRetry
from ptkstore.application.paid_runs.paid_run import Opening, Spending
from ptkstore.application.paid_runs.release_ticks import ReleaseTicks
from ptkstore.application.paid_runs.team_code_source import TeamCodeSource
from ptkstore.application.profiling import compare_significance, detect_drift, profile_ptk
from ptkstore.application.training import (
    average_ptk,
    collect_partial,
    device_models,
    evaluate_ptk,
    train_ptk,
    validate_ptk,
)
from ptkstore.application.versions import materialize_state, place_state
from ptkstore.application.windows import expire_window, prepare_window, schedule_trainings
from ptkstore.domain.jobs import Job, JobKind
from ptkstore.ports.catalog import Begin
from ptkstore.ports.keys import KeyStore
from ptkstore.ports.runtime import Clock, Steps
from ptkstore.wiring.adapters import Adapters
from ptkstore.wiring.devices import Devices


class _Always(TypedDict):
    begin: Begin
    clock: Clock
    keys: KeyStore
    steps: Steps


def devices_of(adapters: Adapters) -> Devices:
    """Return what reads the instances of PTKs that devices train, and begins their epochs."""
    return Devices(adapters, partial(device_models.device_ptk_of, begin=adapters.read, lake=adapters.lake))


def work_on(job: Job, adapters: Adapters, keep_alive: Callable[[], None]) -> None:
    """Do what a claimed job asks for; `keep_alive` raises once somebody else has the job."""
    clock, steps, settings = adapters.clock, adapters.traced_steps, adapters.settings
    always = _Always(begin=adapters.begin, clock=clock, keys=adapters.keys, steps=steps)
    ticks = ReleaseTicks(clock, settings.tick, time.sleep)
    longest = timedelta(seconds=max(settings.lease_seconds, settings.train_timeout_seconds))
    commit_retry = CommitRetry(ticks, longest, adapters.must_stop)
    spending = Spending(adapters.begin, adapters.charges, commit_retry, steps)

    def opening() -> Opening:  # made for the job that needs it, as all adapters are
        return Opening(adapters.keys, adapters.catalog.journal_view(), adapters.raw, keep_alive)

    def code() -> TeamCodeSource:
        return TeamCodeSource(adapters.bundles, adapters.sandbox)

    def deliver() -> None:
        deliver_event.deliver_event(
            job,
            **always,
            manifests=adapters.manifests,
            messenger=adapters.messenger,
            streams=adapters.event_streams,
        )

    def schedule() -> None:
        schedule_trainings.schedule_trainings(job, charges=adapters.charges, clock=clock, steps=steps)

    work: dict[JobKind, Callable[[], None]] = {
        JobKind.PREPARE: lambda: prepare_window.prepare_window(
            job,
            begin=adapters.begin,
            keys=adapters.keys,
            raw=adapters.raw,
            preparer=adapters.preparer,
            keep_alive=keep_alive,
            ticks=ticks,
            steps=steps,
        ),
        JobKind.ALLOCATE: schedule,
        JobKind.SCHEDULE: schedule,
        JobKind.TRAIN: lambda: train_ptk.train_ptk(
            job,
            spending,
            opening(),
            train_ptk.Storing(adapters.staging, adapters.lake),
            trainer=adapters.trainer,
            code=code(),
            rows_per_partial=settings.rows_per_partial,
        ),
        JobKind.PARTIAL: lambda: collect_partial.collect_partial(
            job, spending, opening(), staging=adapters.staging, trainer=adapters.trainer
        ),
        JobKind.PROFILE: lambda: profile_ptk.profile_ptk(
            job, spending, opening(), code=code(), profiler=adapters.profiler
        ),
        JobKind.DRIFT: lambda: detect_drift.detect_drift(
            job, spending, opening(), code=code(), lake=adapters.lake, profiler=adapters.profiler
        ),
        JobKind.EVALUATE: lambda: evaluate_ptk.evaluate_ptk(
            job, spending, opening(), code=code(), lake=adapters.lake, evaluator=adapters.evaluator
        ),
        JobKind.VALIDATE: lambda: validate_ptk.validate_ptk(
            job, spending, opening(), code=code(), staging=adapters.staging, evaluator=adapters.evaluator
        ),
        JobKind.COMPARE: lambda: compare_significance.compare_significance(
            job, spending, opening(), lake=adapters.lake, comparer=adapters.comparer
        ),
        JobKind.AVERAGE: lambda: average_ptk.average_ptk(
            job,
            average_ptk.Averaging(
                adapters.instances,
                partial(devices_of(adapters).read_epoch, str(job.ptk_id)),
                adapters.staging,
                adapters.keys,
            ),
            begin=adapters.begin,
            clock=clock,
            steps=steps,
        ),
        JobKind.PLACE: lambda: place_state.place_state(
            job, **always, staging=adapters.staging, lake=adapters.lake
        ),
        JobKind.FLIP: lambda: materialize_state.materialize_state(
            job,
            begin=adapters.begin,
            read=adapters.read,
            clock=clock,
            lake=adapters.lake,
            features=adapters.features,
            steps=steps,
        ),
        JobKind.NOTIFY: deliver,
        JobKind.REDELIVER: deliver,
        JobKind.EXPIRE: lambda: expire_window.expire_window(
            job, **always, raw=adapters.raw, staging=adapters.staging
        ),
    }
    work[job.kind]()
