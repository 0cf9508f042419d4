"""Which use case does which job."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from ptkstore.application import (
    allocate_window,
    collect_partial,
    deliver_event,
    detect_drift,
    evaluate_ptk,
    expire_window,
    materialize_state,
    place_state,
    prepare_window,
    profile_ptk,
    train_ptk,
)
from ptkstore.application.ticks import Ticks
from ptkstore.domain.jobs import Job, JobKind
from ptkstore.wiring.adapters import Adapters


def work_on(job: Job, adapters: Adapters, keep_alive: Callable[[], None]) -> None:
    """Do what a claimed job asks for; `keep_alive` raises once somebody else has the job."""
    begin, clock, keys, steps = adapters.begin, adapters.clock, adapters.keys, adapters.traced_steps
    ticks = Ticks(clock, adapters.settings.tick, time.sleep)
    deliver = partial(
        deliver_event.deliver_event,
        job,
        begin=begin,
        clock=clock,
        keys=keys,
        lake=adapters.lake,
        messenger=adapters.messenger,
        streams=adapters.event_streams,
        steps=steps,
    )
    work: dict[JobKind, Callable[[], None]] = {
        JobKind.PREPARE: lambda: prepare_window.prepare_window(
            job,
            begin=begin,
            clock=clock,
            keys=keys,
            preparer=adapters.preparer,
            keep_alive=keep_alive,
            ticks=ticks,
            steps=steps,
        ),
        JobKind.ALLOCATE: lambda: allocate_window.allocate_window(
            job, charges=adapters.charges, clock=clock, steps=steps
        ),
        JobKind.TRAIN: lambda: train_ptk.train_ptk(
            job,
            begin=begin,
            charges=adapters.charges,
            clock=clock,
            keys=keys,
            journal=adapters.catalog.journal_view(),
            raw=adapters.raw,
            staging=adapters.staging,
            lake=adapters.lake,
            trainer=adapters.trainer,
            bundles=adapters.bundles,
            sandbox=adapters.sandbox,
            rows_per_partial=adapters.settings.rows_per_partial,
            keep_alive=keep_alive,
            ticks=ticks,
            steps=steps,
        ),
        JobKind.PARTIAL: lambda: collect_partial.collect_partial(
            job,
            begin=begin,
            clock=clock,
            keys=keys,
            journal=adapters.catalog.journal_view(),
            raw=adapters.raw,
            staging=adapters.staging,
            trainer=adapters.trainer,
            keep_alive=keep_alive,
            ticks=ticks,
            steps=steps,
        ),
        JobKind.PROFILE: lambda: profile_ptk.profile_ptk(
            job,
            begin=begin,
            clock=clock,
            keys=keys,
            journal=adapters.catalog.journal_view(),
            raw=adapters.raw,
            profiler=adapters.profiler,
            keep_alive=keep_alive,
            ticks=ticks,
            steps=steps,
        ),
        JobKind.DRIFT: lambda: detect_drift.detect_drift(
            job,
            begin=begin,
            clock=clock,
            keys=keys,
            journal=adapters.catalog.journal_view(),
            raw=adapters.raw,
            lake=adapters.lake,
            profiler=adapters.profiler,
            keep_alive=keep_alive,
            ticks=ticks,
            steps=steps,
        ),
        JobKind.EVALUATE: lambda: evaluate_ptk.evaluate_ptk(
            job,
            begin=begin,
            clock=clock,
            keys=keys,
            journal=adapters.catalog.journal_view(),
            raw=adapters.raw,
            lake=adapters.lake,
            evaluator=adapters.evaluator,
            keep_alive=keep_alive,
            ticks=ticks,
            steps=steps,
        ),
        JobKind.PLACE: lambda: place_state.place_state(
            job,
            begin=begin,
            clock=clock,
            keys=keys,
            staging=adapters.staging,
            lake=adapters.lake,
            steps=steps,
        ),
        JobKind.FLIP: lambda: materialize_state.materialize_state(
            job, begin=begin, clock=clock, lake=adapters.lake, features=adapters.features, steps=steps
        ),
        JobKind.NOTIFY: deliver,
        JobKind.REDELIVER: deliver,
        JobKind.EXPIRE: lambda: expire_window.expire_window(
            job, begin=begin, clock=clock, keys=keys, raw=adapters.raw, staging=adapters.staging, steps=steps
        ),
    }
    work[job.kind]()
